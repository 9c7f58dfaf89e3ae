package results

import (
	"fmt"
	"math"
	"time"
)

// Words of a comparison. A difference whose interval lies within the margin on
// both sides of none is Equivalent, whatever its sign.
const (
	Better     = "better"
	Worse      = "worse"
	Equivalent = "equivalent"
	NotShown   = "not shown"
)

// What an interval of a quantile ratio needs, per policy. Below about ten
// independent episodes of slowness a bootstrap interval is too narrow; from
// about twenty it is honest. Resampling fewer than four pairs of blocks says
// nothing.
const (
	MinEpisodes    = 20
	MinExceedances = 100
	MinPairs       = 4
)

// Default margins within which two policies count as equivalent.
const (
	DefaultShareMargin = 0.01 // 1 percentage point of the share OK within T
	DefaultRatioMargin = 0.05 // 5 % of a percentile
)

// NoPulse is the reason for Comparison.NoPulse when only blocks were run.
const NoPulse = "no pulse was run"

// NoClosedComparison is the reason for Run.NoComparison in closed loop.
const NoClosedComparison = "in closed loop a better policy raises its own load"

// Comparison says how one policy did against another over paired blocks. All
// intervals are of 95 %.
type Comparison struct {
	Base     string `json:"base"`
	Other    string `json:"other"`
	Estimand string `json:"estimand"` // "total": everybody adopts the policy; "direct": one client does
	Design   string `json:"design"`
	Blocks   int    `json:"blocks"` // pairs of blocks
	// TailEpisodes is the number of separate runs of calls at or above the
	// policy's own p99, of the policy that has fewer.
	TailEpisodes Figure `json:"tail_episodes"`
	// OKWithin is the primary figure; without an objective, the share OK at all.
	OKWithin Gain `json:"ok_within"`
	// Further is the same for the other thresholds of the objective.
	Further []Gain `json:"ok_within_further"`
	P50     Ratio  `json:"p50"`
	P99     Ratio  `json:"p99"`
	P999    Ratio  `json:"p999"`
	// CarryOver estimates what one block leaves to the next.
	CarryOver CarryOver `json:"carry_over"`
	// Pulse is nil, with a reason, unless all servers were frozen and released.
	Pulse   *Pulse `json:"pulse"`
	NoPulse string `json:"pulse_reason,omitempty"`
	// Word is that of the primary figure. Without an objective it is that of the
	// share OK at all when it differs, else that of p99. A policy that does not
	// come back from a pulse where the other does is worse.
	Word   string `json:"word"`
	WordOf Text   `json:"word_of"` // "ok_within", "ok", "p99" or "pulse"
}

// Gain is the share of calls OK within T of other less that of base.
type Gain struct {
	TNS        Figure  `json:"t_ns"`       // absent without an objective: OK at all
	Difference Figure  `json:"difference"` // mean over pairs of blocks
	Low        Figure  `json:"low"`
	High       Figure  `json:"high"`
	Margin     float64 `json:"margin"`
	Word       string  `json:"word"`
}

// Ratio is a percentile of other over that of base.
type Ratio struct {
	Ratio    Figure  `json:"ratio"`
	Low      Figure  `json:"low"`
	High     Figure  `json:"high"`
	Episodes Figure  `json:"episodes"` // of the policy that has fewer
	Margin   float64 `json:"margin"`
	Word     string  `json:"word"`
}

// CarryOver is, for each policy, the share OK (within T) of its blocks that
// follow one of its own less that of those that follow another policy's.
type CarryOver struct {
	Base  Figure `json:"base"`
	Other Figure `json:"other"`
}

// CompareOptions are the choices of a comparison.
type CompareOptions struct {
	Within      time.Duration   // T of the primary figure; 0: no objective, OK at all
	Further     []time.Duration // further thresholds
	Seed        uint64          // keys the resampling
	Estimand    string          // "" means "total"
	Design      string          // in words; "" says how many blocks there were
	ShareMargin float64         // 0 means DefaultShareMargin
	RatioMargin float64         // 0 means DefaultRatioMargin
	Resamples   int             // 0 means 2,000
}

// Compare compares other with base, block by block: block i of one is paired
// with block i of the other, so the caller drives them next to each other.
// Blocks without a partner are left out. Both policies must come from NewPolicy
// with their Blocks from NewBlock. There is no comparison in closed loop, where
// a better policy raises its own load; callers set Run.NoComparison instead.
//
// The primary figure is the share of calls answered OK within T: its interval
// is Student's t over the paired differences (Ibragimov and Müller, "t-Statistic
// Based Correlation and Heterogeneity Robust Inference", 2010). When all
// differences are equal the half-width is 3/n of the policy with fewer calls,
// the bound of a share when none of n was seen.
//
// Ratios of percentiles get an interval only with MinExceedances calls at or
// above the percentile and, above p50, MinEpisodes separate episodes, in each policy;
// see resample for the method.
func Compare(base, other *Policy, o CompareOptions) Comparison {
	o = o.defaults()
	k := min(len(base.Blocks), len(other.Blocks))
	a, b := base.Blocks[:k], other.Blocks[:k]
	c := Comparison{
		Base: base.Name, Other: other.Name,
		Estimand: o.Estimand, Design: o.Design, Blocks: k,
		OKWithin:  gain(a, b, o.Within, o.ShareMargin),
		Further:   []Gain{},
		CarryOver: CarryOver{carryOver(base, o.Within), carryOver(other, o.Within)},
		NoPulse:   NoPulse,
	}
	if c.Design == "" {
		c.Design = fmt.Sprintf("%s of blocks, paired in order", counted(uint64(k), "pair"))
	}
	for _, t := range o.Further {
		c.Further = append(c.Further, gain(a, b, t, o.ShareMargin))
	}
	pa, pb := newPool(a), newPool(b)
	rs := resample(pa, pb, o)
	c.P50 = compareQuantile(pa, pb, rs, 0, o)
	c.P99 = compareQuantile(pa, pb, rs, 1, o)
	c.P999 = compareQuantile(pa, pb, rs, 2, o)
	c.TailEpisodes = c.P99.Episodes
	c.Word, c.WordOf.Value = c.P99.Word, "p99"
	switch w := c.OKWithin.Word; {
	case o.Within > 0 && c.OKWithin.Difference.Present:
		c.Word, c.WordOf.Value = w, "ok_within"
	case o.Within == 0 && (w == Better || w == Worse):
		c.Word, c.WordOf.Value = w, "ok"
	}
	return c
}

func (o CompareOptions) defaults() CompareOptions {
	if o.Estimand == "" {
		o.Estimand = "total"
	}
	if o.ShareMargin == 0 {
		o.ShareMargin = DefaultShareMargin
	}
	if o.RatioMargin == 0 {
		o.RatioMargin = DefaultRatioMargin
	}
	if o.Resamples <= 0 {
		o.Resamples = 2000
	}
	return o
}

// gain compares the share OK within t over pairs.
func gain(a, b []Block, t time.Duration, margin float64) Gain {
	g := Gain{Margin: margin, Word: NotShown, TNS: Num(float64(t))}
	absent := func(reason string) Gain {
		g.Difference, g.Low, g.High = Absent(reason), Absent(reason), Absent(reason)
		return g
	}
	if t == 0 {
		g.TNS = Absent("no objective was given: OK at all")
	}
	var d []float64
	var na, nb uint64
	for i := range a {
		x, y := a[i].share(t), b[i].share(t)
		if x.Present && y.Present {
			d = append(d, y.Value-x.Value)
			na, nb = na+a[i].Calls, nb+b[i].Calls
		}
	}
	if len(d) == 0 {
		return absent("no pair of blocks with " + shareName(t))
	}
	mean, dev := meanDeviation(d)
	g.Difference = rounded(mean)
	if len(d) < 2 {
		g.Low = Absent("1 pair of blocks, an interval wants 2 or more")
		g.High = g.Low
		return g
	}
	n := float64(len(d))
	width := studentQuantile(0.975, n-1) * dev / math.Sqrt(n)
	if dev == 0 {
		width = 3 / float64(min(na, nb))
	}
	g.Low, g.High = rounded(max(mean-width, -1)), rounded(min(mean+width, 1))
	g.Word = word(g.Low.Value, g.High.Value, g.Margin)
	return g
}

// shareName names the primary figure; t of 0 is no objective.
func shareName(t time.Duration) string {
	if t == 0 {
		return "the share OK at all"
	}
	return "the share OK within " + short(t)
}

// word judges the interval [low, high] of a gain, of which 0 is none.
func word(low, high, margin float64) string {
	switch {
	case low >= -margin && high <= margin:
		return Equivalent
	case low > 0:
		return Better
	case high < 0:
		return Worse
	}
	return NotShown
}

// meanDeviation returns the mean of xs (at least one) and their sample standard
// deviation, 0 for a single one or when all are equal.
func meanDeviation(xs []float64) (mean, dev float64) {
	equal := true
	for _, x := range xs {
		mean += x / float64(len(xs))
		equal = equal && x == xs[0]
	}
	if equal {
		return xs[0], 0
	}
	var ss float64
	for _, x := range xs {
		ss += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(ss / float64(len(xs)-1))
}

// rounded is Num to nine decimals: what lies beyond differs between machines
// that fuse a product and a sum and those that do not.
func rounded(x float64) Figure { return Num(math.Round(x*1e9) / 1e9) }

// carryOver compares the blocks of p by what was driven before them.
func carryOver(p *Policy, t time.Duration) Figure {
	var own, others []float64
	for i := range p.Blocks {
		b := &p.Blocks[i]
		share := b.share(t)
		switch {
		case b.Prior.Value == "" || !share.Present:
		case b.Prior.Value == p.Name:
			own = append(own, share.Value)
		default:
			others = append(others, share.Value)
		}
	}
	if len(own) == 0 || len(others) == 0 {
		return Absentf("%s after its own, %s after another policy's, want 1 or more of each",
			counted(uint64(len(own)), "block"), counted(uint64(len(others)), "block"))
	}
	x, _ := meanDeviation(own)
	y, _ := meanDeviation(others)
	return rounded(x - y)
}

// MarshalJSON writes every key; an absent figure is null beside its reason.
func (c Comparison) MarshalJSON() ([]byte, error) {
	if c.Pulse == nil && c.NoPulse == "" {
		c.NoPulse = NoPulse
	}
	return encodeFields(c)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Comparison) UnmarshalJSON(b []byte) error { return decodeFields(b, c) }

// MarshalJSON writes every key; an absent figure is null beside its reason.
func (g Gain) MarshalJSON() ([]byte, error) { return encodeFields(g) }

// UnmarshalJSON reads what MarshalJSON writes.
func (g *Gain) UnmarshalJSON(b []byte) error { return decodeFields(b, g) }

// MarshalJSON writes every key; an absent figure is null beside its reason.
func (r Ratio) MarshalJSON() ([]byte, error) { return encodeFields(r) }

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Ratio) UnmarshalJSON(b []byte) error { return decodeFields(b, r) }

// MarshalJSON writes every key; an absent figure is null beside its reason.
func (c CarryOver) MarshalJSON() ([]byte, error) { return encodeFields(c) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *CarryOver) UnmarshalJSON(b []byte) error { return decodeFields(b, c) }
