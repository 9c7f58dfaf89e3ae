// Package histo holds histograms of durations with a fixed relative error, and
// their encodings and logs.
//
// The buckets are those of an HdrHistogram with lowest value 1 ns, highest
// value 1 h and three significant digits, so that counts go to and come from
// other HDR tools one to one. The package reads no clock and opens no file; a
// Histogram is not safe for concurrent use.
package histo

import (
	"math"
	"math/bits"
)

// Highest is the largest value that is told apart: 1 h in ns. What lies above
// is recorded as Highest and counted by Over.
const Highest int64 = 3_600_000_000_000

// Digits is the number of significant decimal digits that are kept: a value
// and the bucket that stands for it differ by less than 1 part in 1000.
const Digits = 3

// A bucket index is computed as in HdrHistogram (Java, AbstractHistogram
// countsArrayIndex) with 2048 sub-buckets of 1 ns in the first bucket and 1024
// in each bucket after it, whose width doubles:
//
//	b(v)     = 53 - leading zeros of (v | 2047)     so that v>>b < 2048
//	index(v) = 1024*b + v>>b
const (
	subMagnitude = 10
	half         = 1 << subMagnitude
	mask         = 2*half - 1
	// 2048<<31 is the first power that is above Highest, hence 32 buckets.
	buckets = 32
	size    = (buckets + 1) * half
)

// Histogram counts durations in ns. The zero value is not ready: use New.
//
// Count, Min, Max and Sum are exact; everything else has the error of a
// bucket. The counts of one power of two take 8 KiB and exist from its first
// value on: Record allocates then, and never again.
type Histogram struct {
	pages    [buckets + 1]*[half]uint64 // count of bucket i in pages[i/half][i%half]; zero outside [index(min), index(max)]
	count    uint64
	min, max int64 // min is MaxInt64 and max 0 while count is 0
	sumLo    uint64
	sumHi    uint64
	over     uint64
	negative uint64
}

// New returns an empty histogram.
func New() *Histogram {
	return &Histogram{min: math.MaxInt64}
}

// index returns the bucket of v, which lies in [0, Highest].
func index(v int64) int {
	b := 53 - bits.LeadingZeros64(uint64(v)|mask)
	return b<<subMagnitude + int(v>>uint(b))
}

// lowest returns the smallest value of bucket i.
func lowest(i int) int64 {
	b := i>>subMagnitude - 1
	if b < 0 {
		return int64(i)
	}
	return int64(i-b<<subMagnitude) << uint(b)
}

// highest returns the largest value of bucket i.
func highest(i int) int64 { return lowest(i+1) - 1 }

// Record counts one value in ns. A negative value is recorded as 0 and counted
// by Negative, one above Highest as Highest and counted by Over.
func (h *Histogram) Record(ns int64) {
	if uint64(ns) > uint64(Highest) {
		ns = h.clamp(ns, 1)
	}
	i := index(ns)
	p := h.pages[i>>subMagnitude]
	if p == nil {
		p = h.page(i >> subMagnitude)
	}
	p[i&(half-1)]++
	h.count++
	lo, carry := bits.Add64(h.sumLo, uint64(ns), 0)
	h.sumLo, h.sumHi = lo, h.sumHi+carry
	if ns < h.min {
		h.min = ns
	}
	if ns > h.max {
		h.max = ns
	}
}

// RecordN counts a value in ns n times. n = 0 changes nothing.
func (h *Histogram) RecordN(ns int64, n uint64) {
	if n == 0 {
		return
	}
	if uint64(ns) > uint64(Highest) {
		ns = h.clamp(ns, n)
	}
	i := index(ns)
	h.page(i >> subMagnitude)[i&(half-1)] += n
	h.count += n
	hi, lo := bits.Mul64(uint64(ns), n)
	h.addSum(hi, lo)
	h.min, h.max = min(h.min, ns), max(h.max, ns)
}

// clamp counts n values outside [0, Highest] and returns what stands for them.
//
//go:noinline
func (h *Histogram) clamp(ns int64, n uint64) int64 {
	if ns < 0 {
		h.negative += n
		return 0
	}
	h.over += n
	return Highest
}

func (h *Histogram) addSum(hi, lo uint64) {
	var carry uint64
	h.sumLo, carry = bits.Add64(h.sumLo, lo, 0)
	h.sumHi += hi + carry
}

// Merge adds the values of from, which stays as it is.
func (h *Histogram) Merge(from *Histogram) {
	if from.count == 0 {
		return
	}
	for k, add := range from.pages {
		if add == nil {
			continue
		}
		lo, hi := from.part(k)
		if lo == hi {
			continue
		}
		to := h.page(k)[lo:hi]
		for i, n := range add[lo:hi] {
			if n != 0 {
				to[i] += n
			}
		}
	}
	h.count += from.count
	h.addSum(from.sumHi, from.sumLo)
	h.min, h.max = min(h.min, from.min), max(h.max, from.max)
	h.over += from.over
	h.negative += from.negative
}

// Reset empties the histogram and keeps its memory.
func (h *Histogram) Reset() {
	for k, p := range h.pages {
		if p != nil {
			lo, hi := h.part(k)
			clear(p[lo:hi])
		}
	}
	*h = Histogram{pages: h.pages, min: math.MaxInt64}
}

// page returns the counts of one power of two, new ones when there are none yet.
func (h *Histogram) page(k int) *[half]uint64 {
	if h.pages[k] == nil {
		h.pages[k] = new([half]uint64)
	}
	return h.pages[k]
}

// at returns the count of bucket i.
func (h *Histogram) at(i int) uint64 {
	if p := h.pages[i>>subMagnitude]; p != nil {
		return p[i&(half-1)]
	}
	return 0
}

// part returns the half-open range of page k that may hold counts.
func (h *Histogram) part(k int) (lo, hi int) {
	lo, hi = h.span()
	lo, hi = max(lo-k<<subMagnitude, 0), min(hi-k<<subMagnitude, half)
	return min(lo, half), max(hi, min(lo, half))
}

// span returns the half-open range of buckets that may hold counts.
func (h *Histogram) span() (lo, hi int) {
	if h.count == 0 {
		return 0, 0
	}
	return index(h.min), index(h.max) + 1
}

// Count returns the number of values.
func (h *Histogram) Count() uint64 { return h.count }

// Over returns how many values were above Highest.
func (h *Histogram) Over() uint64 { return h.over }

// Negative returns how many values were below 0.
func (h *Histogram) Negative() uint64 { return h.negative }

// Min returns the smallest value in ns; 0 when there is none.
func (h *Histogram) Min() int64 {
	if h.count == 0 {
		return 0
	}
	return h.min
}

// Max returns the largest value in ns; 0 when there is none.
func (h *Histogram) Max() int64 { return h.max }

// Sum returns the sum of all values in ns; it saturates at MaxUint64.
func (h *Histogram) Sum() uint64 {
	if h.sumHi != 0 {
		return math.MaxUint64
	}
	return h.sumLo
}

// Mean returns the mean in ns, from the exact sum; 0 when there is no value.
func (h *Histogram) Mean() float64 {
	if h.count == 0 {
		return 0
	}
	return (float64(float64(h.sumHi)*(1<<64)) + float64(h.sumLo)) / float64(h.count)
}

// SetExact replaces the extremes and the sum of a decoded histogram by the
// exact ones that were kept beside its encoding. Values that contradict the
// counts are refused: ok is false and nothing changes.
func (h *Histogram) SetExact(minNS, maxNS int64, sum uint64) (ok bool) {
	if h.count == 0 {
		return minNS == 0 && maxNS == 0 && sum == 0
	}
	if minNS < 0 || minNS > maxNS || maxNS > Highest || index(minNS) > h.first() || index(maxNS) < h.last() {
		return false
	}
	if sum != math.MaxUint64 {
		lowHi, low := bits.Mul64(uint64(minNS), h.count)
		highHi, high := bits.Mul64(uint64(maxNS), h.count)
		if lowHi != 0 || sum < low || highHi == 0 && sum > high {
			return false
		}
	}
	h.min, h.max = minNS, maxNS
	if sum != math.MaxUint64 {
		h.sumHi, h.sumLo = 0, sum
	}
	return true
}

// first and last return the lowest and highest bucket with a count; the
// histogram is not empty.
func (h *Histogram) first() int {
	i := index(h.min)
	for h.at(i) == 0 {
		i++
	}
	return i
}

func (h *Histogram) last() int {
	i := index(h.max)
	for h.at(i) == 0 {
		i--
	}
	return i
}

// Rank returns the 1-based position of quantile q among total sorted values:
// the smallest r with r/total >= q, at least 1 and at most total. total is not
// 0. q is read as the decimal number it was written as: 0.9 of 10 is rank 9
// (as HdrHistogram does, it is lowered by one unit in the last place first).
func Rank(q float64, total uint64) uint64 {
	if q >= 1 {
		return total
	}
	r := math.Ceil(float64(math.Nextafter(q, 0) * float64(total)))
	switch {
	case !(r >= 1): // also for a q that is no number
		return 1
	case r >= float64(total):
		return total
	}
	return uint64(r)
}

// Quantile returns the value at quantile q in [0, 1]: the largest value of the
// bucket that holds rank Rank(q, Count()), within [Min, Max]. It is at most
// 1 part in 1000 above the exact quantile and never below. It returns 0 when
// there is no value.
func (h *Histogram) Quantile(q float64) int64 {
	ns, _ := h.QuantileOf(q, h.count)
	return ns
}

// QuantileOf returns the value at quantile q of total values, of which those
// that are not in the histogram rank as +infinity. ok is false when the rank
// falls among them, or when total is 0; total below Count counts as Count.
func (h *Histogram) QuantileOf(q float64, total uint64) (ns int64, ok bool) {
	total = max(total, h.count)
	if total == 0 {
		return 0, false
	}
	r := Rank(q, total)
	if r > h.count {
		return 0, false
	}
	return h.AtRank(r), true
}

// AtRank returns the largest value of the bucket that holds the r-th smallest
// value, within [Min, Max]. r is 1-based; above Count it gives Max, and an
// empty histogram gives 0.
func (h *Histogram) AtRank(r uint64) int64 {
	var seen uint64
	lo, hi := h.span()
	for i := lo; i < hi; i++ {
		if seen += h.at(i); seen >= r && seen != 0 {
			return min(max(highest(i), h.min), h.max)
		}
	}
	return h.max
}

// Floor returns the smallest value of the bucket of ns, at least Min: what ns
// stands for when a lower bound is wanted. ns outside [0, Highest] is taken as
// the nearer end, and an empty histogram gives the bottom of the bucket.
func (h *Histogram) Floor(ns int64) int64 {
	return max(lowest(index(min(max(ns, 0), Highest))), h.Min())
}

// Clone returns a copy that shares nothing with h.
func (h *Histogram) Clone() *Histogram {
	c := New()
	c.Merge(h)
	return c
}

// CountAtOrBelow returns how many values lie in buckets up to that of ns: all
// values <= ns, and those above it by less than 1 part in 1000.
func (h *Histogram) CountAtOrBelow(ns int64) uint64 {
	if ns < 0 || h.count == 0 || ns < h.min {
		return 0
	}
	if ns >= h.max {
		return h.count
	}
	var seen uint64
	for i := index(h.min); i <= index(ns); i++ {
		seen += h.at(i)
	}
	return seen
}

// Each calls f for every bucket that holds values, in ascending order: its
// smallest and largest value in ns and its count.
func (h *Histogram) Each(f func(from, to int64, n uint64)) {
	lo, hi := h.span()
	for i := lo; i < hi; i++ {
		if n := h.at(i); n != 0 {
			f(lowest(i), highest(i), n)
		}
	}
}
