package histo

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// ticksPerHalf is the number of lines for each halving of the distance to
// 100 %, as the Java tool uses by default.
const ticksPerHalf = 5

// WriteHgrm writes the percentile spectrum in the .hgrm format that the
// plotters of HdrHistogram read. Values are divided by scale (1e6: ms).
//
// total counts all values of the distribution, of which those that are not in
// h rank as +infinity: the spectrum then ends at the last percentile that has
// a value, and a comment says how many lie beyond. total below Count counts as
// Count. StdDeviation is that of the values in h, each at the middle of its
// bucket.
func WriteHgrm(w io.Writer, h *Histogram, total uint64, scale float64) error {
	total = max(total, h.Count())
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")
	if h.Count() > 0 {
		writeSpectrum(b, h, total, scale)
	}
	fmt.Fprintf(b, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", h.Mean()/scale, stdDev(h)/scale)
	fmt.Fprintf(b, "#[Max     = %12.3f, Total count    = %12d]\n", float64(h.Max())/scale, total)
	fmt.Fprintf(b, "#[Buckets = %12d, SubBuckets     = %12d]\n", buckets, 2*half)
	if beyond := total - h.Count(); beyond > 0 {
		fmt.Fprintf(b, "#[Beyond  = %12d of %d have no value and rank above all others]\n", beyond, total)
	}
	return b.Flush()
}

// writeSpectrum walks the buckets as the Java PercentileIterator does: a line
// when the level that is next has been reached, then the next level at
// 1/(ticksPerHalf * 2^(1+floor(log2(1/(1-level))))) above it.
func writeSpectrum(b *bufio.Writer, h *Histogram, total uint64, scale float64) {
	level := 0.0
	var seen uint64
	h.Each(func(_, to int64, n uint64) {
		seen += n
		reached := float64(seen) / float64(total)
		for reached >= level && level < 1 {
			value := float64(min(to, h.Max())) / scale
			fmt.Fprintf(b, "%12.3f %2.12f %10d %14.2f\n", value, level, seen, 1/(1-level))
			halvings := math.Exp2(math.Floor(math.Log2(1/(1-level))) + 1)
			level += 1 / (ticksPerHalf * halvings)
			if seen == total && reached >= level {
				break // the last bucket is closed by the line of 100 %
			}
		}
	})
	if seen == total {
		fmt.Fprintf(b, "%12.3f %2.12f %10d\n", float64(h.Max())/scale, 1.0, total)
	}
}

func stdDev(h *Histogram) float64 {
	if h.Count() == 0 {
		return 0
	}
	mean, sum := h.Mean(), 0.0
	h.Each(func(from, to int64, n uint64) {
		d := float64(from) + float64(to-from)/2 - mean
		sum += float64(float64(d*d) * float64(n))
	})
	return math.Sqrt(sum / float64(h.Count()))
}
