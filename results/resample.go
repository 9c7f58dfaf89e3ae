package results

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"latencylab/draw"
	"latencylab/histo"
	"latencylab/units"
)

// compared are the percentiles that a Comparison holds, in its order.
var compared = [3]struct {
	label    string
	q        float64
	episodes bool // the tail is governed by few episodes rather than by calls
}{{"p50", 0.5, false}, {"p99", 0.99, true}, {"p99.9", 0.999, true}}

// pool holds the blocks of one policy in a form that is quick to weigh.
type pool struct {
	blocks []Block
	all    *histo.Histogram
	values []int64    // values[bucket]: largest value of a bucket that any block has
	counts [][]uint64 // counts[bucket][block]
	totals []uint64   // totals[block]: calls that have a rank, absent ones included
	length time.Duration
}

func newPool(blocks []Block) *pool {
	p := &pool{blocks: blocks, all: histo.New(), totals: make([]uint64, len(blocks))}
	for i := range blocks {
		p.all.Merge(blocks[i].values)
		p.totals[i] = blocks[i].total()
		p.length += time.Duration(blocks[i].LengthNS)
	}
	p.all.Each(func(_, to int64, _ uint64) {
		p.values = append(p.values, to)
		p.counts = append(p.counts, make([]uint64, len(blocks)))
	})
	for i := range blocks {
		blocks[i].values.Each(func(_, to int64, n uint64) {
			at, _ := slices.BinarySearch(p.values, to)
			p.counts[at][i] = n
		})
	}
	return p
}

// quantiles returns the compared percentiles of the blocks, each taken
// weights[block] times. What falls among absent calls is +Inf; of no calls all
// are NaN.
func (p *pool) quantiles(weights []uint64) (v [len(compared)]float64) {
	var total uint64
	for i, w := range weights {
		total += w * p.totals[i]
	}
	var ranks [len(compared)]uint64
	for i := range compared {
		v[i] = math.Inf(1)
		if total == 0 {
			v[i] = math.NaN()
			continue
		}
		ranks[i] = histo.Rank(compared[i].q, total)
	}
	next := 0
	var seen uint64
	for at, counts := range p.counts {
		for i, w := range weights {
			seen += w * counts[i]
		}
		for next < len(ranks) && seen >= ranks[next] {
			if total > 0 {
				v[next] = float64(p.values[at])
			}
			next++
		}
	}
	return v
}

// calls returns the number of calls that have a rank.
func (p *pool) calls() (n uint64) {
	for _, t := range p.totals {
		n += t
	}
	return n
}

// episodes counts the separate runs of calls in the bucket of limit or above;
// ok is false when the blocks do not know.
func (p *pool) episodes(limit float64) (n int, ok bool) {
	below := time.Duration(p.below(limit))
	for i := range p.blocks {
		n += p.blocks[i].tail.Episodes(below)
		ok = ok || p.blocks[i].tail.Episodes(0) > 0
	}
	return n, ok
}

// exceedances counts the calls in the bucket of limit or above.
func (p *pool) exceedances(limit float64) uint64 {
	n := p.calls()
	below := p.below(limit)
	for at, top := range p.values {
		if top > below {
			break
		}
		for _, c := range p.counts[at] {
			n -= c
		}
	}
	return n
}

// below returns the largest value under the bucket whose top is limit: many
// calls may stand in that bucket, as when every slow one takes the same time.
func (p *pool) below(limit float64) int64 {
	return p.all.Floor(int64(limit)) - 1
}

// resampled holds the percentiles of both policies as measured, and their
// ratios, ascending, over all resamples; none of too few pairs.
type resampled struct {
	a, b   [len(compared)]float64
	ratios [len(compared)][]float64
}

// resample draws pairs of blocks with replacement, as many as there are, both
// policies' blocks of a pair together, so that what drifts moves both. The
// draws are keyed: the same blocks and seed give the same intervals.
func resample(pa, pb *pool, o CompareOptions) *resampled {
	k := len(pa.blocks)
	w := make([]uint64, k)
	for i := range w {
		w[i] = 1
	}
	r := &resampled{a: pa.quantiles(w), b: pb.quantiles(w)}
	if k < MinPairs {
		return r
	}
	for n := range o.Resamples {
		clear(w)
		for i := range k {
			pick, _ := bits.Mul64(draw.Bits(o.Seed, draw.Resample, uint64(n), 0, uint32(i)), uint64(k))
			w[pick]++
		}
		x, y := pa.quantiles(w), pb.quantiles(w)
		for i := range compared {
			r.ratios[i] = append(r.ratios[i], y[i]/x[i])
		}
	}
	for i := range compared {
		slices.SortFunc(r.ratios[i], cmp.Compare) // NaN first
	}
	return r
}

// compareQuantile gives the ratio of one percentile, and its interval when the
// rule allows one.
//
// The interval is the expanded percentile interval of Hesterberg ("What
// Teachers Should Know About the Bootstrap", The American Statistician 69,
// 2015): the levels are Φ(∓ t·√(k/(k-1))) with t of Student's k-1 degrees of
// freedom instead of 2.5 and 97.5 %, which undoes the narrowness of a bootstrap
// over few blocks.
func compareQuantile(pa, pb *pool, r *resampled, i int, o CompareOptions) Ratio {
	q := &compared[i]
	out := Ratio{Margin: o.RatioMargin, Word: NotShown}
	out.Episodes = fewerEpisodes(pa, pb, r.a[i], r.b[i])
	out.Ratio = ratioFigure(pa, pb, r, i)
	if !out.Ratio.Present {
		out.Low, out.High = Absent(out.Ratio.Reason), Absent(out.Ratio.Reason)
		return out
	}
	if reason := refusal(pa, pb, r, i, out.Episodes); reason != "" {
		out.Low, out.High = Absent(reason), Absent(reason)
		return out
	}
	k, n := float64(len(pa.blocks)), len(r.ratios[i])
	t := studentQuantile(0.975, k-1) * math.Sqrt(k/(k-1))
	level := math.Erfc(t/math.Sqrt2) / 2
	at := int(level * float64(n))
	low, high := r.ratios[i][at], r.ratios[i][n-1-at]
	if math.IsNaN(r.ratios[i][0]) || math.IsInf(high, 0) || low == 0 {
		reason := fmt.Sprintf("in some resamples %s falls among calls that have no value", q.label)
		out.Low, out.High = Absent(reason), Absent(reason)
		return out
	}
	low, high = min(low, out.Ratio.Value), max(high, out.Ratio.Value)
	out.Low, out.High = rounded(low), rounded(high)
	out.Word = word(1-high, 1-low, o.RatioMargin)
	return out
}

func ratioFigure(pa, pb *pool, r *resampled, i int) Figure {
	q := &compared[i]
	x, y := r.a[i], r.b[i]
	switch wanted := uint64(math.Ceil(MinBeyond/(1-q.q) - 1e-6)); {
	case math.IsNaN(x) || math.IsNaN(y):
		return Absent("no pair of blocks with calls")
	case math.IsInf(x, 1) || math.IsInf(y, 1):
		return Absentf("%s falls among calls that have no value", q.label)
	case min(pa.calls(), pb.calls()) < wanted:
		return Absentf("too few samples: %s, want %s", counted(min(pa.calls(), pb.calls()), "call"), units.Count(wanted))
	case x == 0:
		return Absentf("%s of the base is 0", q.label)
	}
	return rounded(y / x)
}

func fewerEpisodes(pa, pb *pool, x, y float64) Figure {
	if math.IsNaN(x) || math.IsNaN(y) || math.IsInf(x, 1) || math.IsInf(y, 1) {
		return Absent("the percentile has no value")
	}
	na, okA := pa.episodes(x)
	nb, okB := pb.episodes(y)
	if !okA || !okB {
		return Absent("episodes were not recorded")
	}
	return Num(float64(min(na, nb)))
}

// refusal says why there is no interval, and how many more minutes of data a
// policy would need; "" when there is one.
func refusal(pa, pb *pool, r *resampled, i int, episodes Figure) string {
	q := &compared[i]
	if k := len(pa.blocks); k < MinPairs {
		return fmt.Sprintf("%s of blocks, an interval wants %d or more", counted(uint64(k), "pair"), MinPairs)
	}
	length := min(pa.length, pb.length)
	if n := min(pa.exceedances(r.a[i]), pb.exceedances(r.b[i])); n < MinExceedances {
		return fmt.Sprintf("%s at or above %s, an interval wants %d%s", counted(n, "call"), q.label, MinExceedances, more(length, float64(n)/MinExceedances))
	}
	if !q.episodes {
		return ""
	}
	if !episodes.Present {
		return episodes.Reason
	}
	if episodes.Value < MinEpisodes {
		return fmt.Sprintf("%s at or above %s, an interval wants %d%s", counted(uint64(episodes.Value), "tail episode"), q.label, MinEpisodes, more(length, episodes.Value/MinEpisodes))
	}
	return ""
}

// more says how much longer than length to measure to get from part to 1.
func more(length time.Duration, part float64) string {
	if length <= 0 || part <= 0 {
		return ""
	}
	minutes := math.Ceil(length.Minutes()*(1/part-1)*10) / 10
	return fmt.Sprintf(": about %s more minutes of data a policy", formatFloat(minutes, 1))
}
