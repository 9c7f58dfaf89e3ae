package results

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/ledger"
)

// shares returns a policy whose blocks of 1,000 calls have these numbers of
// calls OK within the objective.
func shares(name string, priors []string, ok ...int) *Policy {
	p := &Policy{Name: name}
	for i, n := range ok {
		l := ledger.New([]time.Duration{objective})
		for call := range 1000 {
			d := 40 * time.Millisecond
			if call >= n {
				d = time.Second
			}
			l.Calls.Scheduled++
			l.CallOK(d)
			l.Tail.Record(time.Duration(call)*time.Millisecond, d, false)
		}
		prior := ""
		if i < len(priors) {
			prior = priors[i]
		}
		p.Blocks = append(p.Blocks, NewBlock(BlockInput{time.Duration(i) * time.Second, time.Second, prior, l, BlockState{}}))
	}
	return p
}

func TestWordOfThePrimaryFigure(t *testing.T) {
	for _, c := range []struct {
		why         string
		base, other []int
		word        string
		difference  float64
	}{
		{"well above the margin in every pair", []int{900, 905, 895, 900}, []int{980, 985, 975, 990}, Better, 0.0825},
		{"well below in every pair", []int{980, 985, 975, 990}, []int{900, 905, 895, 900}, Worse, -0.0825},
		{"within one point in every pair", []int{980, 985, 975, 990}, []int{981, 984, 976, 989}, Equivalent, 0},
		{"shown, and so small that it is within the margin", []int{980, 980, 980, 980}, []int{982, 983, 982, 983}, Equivalent, 0.0025},
		{"pairs that contradict each other", []int{900, 980, 900, 980}, []int{980, 900, 985, 905}, NotShown, 0.0025},
		{"drift that both share does not hide a gain", []int{500, 600, 700, 800}, []int{540, 641, 739, 841}, Better, 0.04025},
		{"a single pair has no interval", []int{900}, []int{980}, NotShown, 0.08},
		{"blocks without partner are left out", []int{900, 900, 900, 900, 0, 0}, []int{980, 981, 980, 981}, Better, 0.0805},
		{"equal blocks of equal policies", []int{1000, 1000}, []int{1000, 1000}, Equivalent, 0},
	} {
		got := Compare(shares("a", nil, c.base...), shares("b", nil, c.other...), CompareOptions{Within: objective})
		if got.Word != c.word || math.Abs(got.OKWithin.Difference.Value-c.difference) > 1e-9 {
			t.Errorf("%s: %q by %.5f, want %q by %.5f", c.why, got.Word, got.OKWithin.Difference.Value, c.word, c.difference)
		}
		if g := got.OKWithin; g.Low.Present && (g.Low.Value > g.Difference.Value || g.High.Value < g.Difference.Value || g.Low.Value < -1 || g.High.Value > 1) {
			t.Errorf("%s: interval %g to %g around %g", c.why, g.Low.Value, g.High.Value, g.Difference.Value)
		}
	}
}

// The interval is Student's: differences 1, 2, 3 and 4 points have mean 2.5,
// deviation 1.29099, and t of three degrees of freedom is 3.18245.
func TestPairedInterval(t *testing.T) {
	c := Compare(shares("a", nil, 900, 900, 900, 900), shares("b", nil, 910, 920, 930, 940), CompareOptions{Within: objective})
	half := 3.182446305 * 0.012909944 / 2
	if g := c.OKWithin; math.Abs(g.Low.Value-(0.025-half)) > 1e-8 || math.Abs(g.High.Value-(0.025+half)) > 1e-8 {
		t.Errorf("interval %.9f to %.9f, want 0.025 less and plus %.9f", g.Low.Value, g.High.Value, half)
	}
}

func TestCarryOver(t *testing.T) {
	a := shares("a", []string{"", "a", "b", "a"}, 500, 950, 900, 960)
	b := shares("b", []string{"a", "a", "a"}, 980, 980, 980)
	c := Compare(a, b, CompareOptions{Within: objective})
	if f := c.CarryOver.Base; !f.Present || math.Abs(f.Value-0.055) > 1e-9 {
		t.Errorf("carry-over of a = %+v, want 0.055", f)
	}
	if f := c.CarryOver.Other; f.Present || f.Reason != "0 blocks after its own, 3 blocks after another policy's, want 1 or more of each" {
		t.Errorf("carry-over of b = %+v, want a reason", f)
	}
	if c.Pulse != nil || c.NoPulse != NoPulse {
		t.Errorf("pulse = %+v (%s)", c.Pulse, c.NoPulse)
	}
}

func TestRatiosWithoutInterval(t *testing.T) {
	none := ledger.New([]time.Duration{objective})
	empty := &Policy{Name: "e", Blocks: []Block{NewBlock(BlockInput{Ledger: none}), NewBlock(BlockInput{Ledger: none})}}
	failing := world{calls: 1000, fail: 0.3}.policyOf(t, "f", "", 4, nil)
	untailed := shares("u", nil, 900, 900, 900, 900)
	for i := range untailed.Blocks {
		untailed.Blocks[i].tail = ledger.Tail{}
	}
	stall := shares("s", nil, 960, 960, 960, 960) // one run of slow calls at the end of each block
	for _, c := range []struct {
		why         string
		base, other *Policy
		of          func(*Comparison) *Ratio
		ratio       string // "" when there is one
		low         string
	}{
		{"no blocks at all", &Policy{}, &Policy{}, p99of, "no pair of blocks with calls", "no pair of blocks with calls"},
		{"blocks without calls", empty, empty, p99of, "no pair of blocks with calls", "no pair of blocks with calls"},
		{"three pairs are too few to resample", shares("a", nil, 900, 900, 900), shares("b", nil, 900, 900, 900), p99of, "", "3 pairs of blocks, an interval wants 4 or more"},
		{"a tail that falls among failed calls", &failing, &failing, p99of, "p99 falls among calls that have no value", "p99 falls among calls that have no value"},
		{"p99.9 of 4,000 calls", stall, stall, p999of, "too few samples: 4,000 calls, want 5,000", "too few samples: 4,000 calls, want 5,000"},
		{"four stalls are four episodes, whatever the number of slow calls", stall, stall, p99of, "", "4 tail episodes at or above p99, an interval wants 20: about 0.3 more minutes of data a policy"},
		{"a run that was read knows no episodes", untailed, untailed, p99of, "", "episodes were not recorded"},
		{"the median does not hang on episodes", stall, stall, p50of, "", ""},
	} {
		got := Compare(c.base, c.other, CompareOptions{Within: objective, Seed: 1})
		r := c.of(&got)
		if r.Ratio.Reason != c.ratio || r.Low.Reason != c.low || r.High.Reason != c.low || r.Ratio.Present != (c.ratio == "") || r.Low.Present != (c.low == "") {
			t.Errorf("%s: ratio %+v, low %+v", c.why, r.Ratio, r.Low)
		}
		if !r.Low.Present && r.Word != NotShown {
			t.Errorf("%s: word %q without an interval", c.why, r.Word)
		}
	}
}

func p50of(c *Comparison) *Ratio  { return &c.P50 }
func p99of(c *Comparison) *Ratio  { return &c.P99 }
func p999of(c *Comparison) *Ratio { return &c.P999 }

func TestWithoutObjectiveTheWordIsThatOfP99(t *testing.T) {
	plain, hedge := world{calls: 2500, slow: 0.02}, world{calls: 2500, slow: 0.02, hedge: 58 * time.Millisecond}
	a, b := plain.policyOf(t, "a", "", 4, nil), hedge.policyOf(t, "b", "", 4, nil)
	c := Compare(&a, &b, CompareOptions{Seed: 1})
	if c.Word != Better || c.WordOf.Value != "p99" || c.OKWithin.TNS.Present || c.OKWithin.Word != Equivalent {
		t.Errorf("word %q of %q, share OK at all %+v", c.Word, c.WordOf.Value, c.OKWithin)
	}
}

// TestFurtherObjectives: each threshold has its own comparison; the first one
// has the word.
func TestFurtherObjectives(t *testing.T) {
	a, b := shares("a", nil, 900, 900, 900, 905), shares("b", nil, 990, 990, 990, 990)
	c := Compare(a, b, CompareOptions{Within: 100 * objective, Further: []time.Duration{objective}, Seed: 1})
	if len(c.Further) != 1 || c.Further[0].TNS.Value != float64(objective) {
		t.Fatalf("further %+v", c.Further)
	}
	if c.Word == Better || c.OKWithin.Difference.Present {
		t.Errorf("word %q of a threshold that no block has", c.Word)
	}
	if g := c.Further[0]; g.Word != Better || !g.Low.Present {
		t.Errorf("further %+v", g)
	}
}

// TestWithoutObjectiveFailuresCount: a policy that turns failures into answers
// is better, although neither p99 nor p50 can say so.
func TestWithoutObjectiveFailuresCount(t *testing.T) {
	flaky, mended := shares("a", nil, 900, 905, 895, 900), shares("b", nil, 990, 985, 990, 990)
	for i := range flaky.Blocks {
		flaky.Blocks[i].OK, mended.Blocks[i].OK = 900, 990
	}
	flaky.Blocks[0].OK = 901
	c := Compare(flaky, mended, CompareOptions{Seed: 1})
	if c.Word != Better || c.WordOf.Value != "ok" || !c.OKWithin.Low.Present {
		t.Errorf("word %q of %q, share OK at all %+v", c.Word, c.WordOf.Value, c.OKWithin)
	}
	if s := c.OKWithin.line(); !strings.HasPrefix(s, "  share OK at all: +8.9") {
		t.Errorf("line %q", s)
	}
}

func TestComparisonIsDeterministicAndSeeded(t *testing.T) {
	w := world{calls: 1250, slow: 0.02, hedge: 58 * time.Millisecond}
	a, b := w.policyOf(t, "a", "", 8, nil), w.policyOf(t, "b", "", 8, nil)
	for i := range b.Blocks { // shift the luck of b by one block
		b.Blocks[i], a.Blocks[i] = a.Blocks[(i+1)%8], b.Blocks[i]
	}
	one := Compare(&a, &b, CompareOptions{Within: objective, Seed: 1})
	if diff := cmp.Diff(one, Compare(&a, &b, CompareOptions{Within: objective, Seed: 1})); diff != "" {
		t.Errorf("the same blocks and seed give another comparison:\n%s", diff)
	}
	if two := Compare(&a, &b, CompareOptions{Within: objective, Seed: 2}); two.P99.Low == one.P99.Low && two.P99.High == one.P99.High {
		t.Error("another seed gives the same interval")
	}
}

// A policy against itself: with keyed draws every figure is equal.
func TestPolicyAgainstItself(t *testing.T) {
	w := world{calls: 1250, slow: 0.02, hedge: 58 * time.Millisecond}
	a, b := w.policyOf(t, "a", "", 8, nil), w.policyOf(t, "b", "", 8, nil)
	c := Compare(&a, &b, CompareOptions{Within: objective, Seed: 1})
	if c.Word != Equivalent || c.OKWithin.Difference.Value != 0 || c.P50.Ratio.Value != 1 || c.P99.Ratio.Value != 1 || c.P99.Word != Equivalent {
		t.Errorf("%+v", c)
	}
}

// Of intervals of 95 % between independent runs of one policy, nearly all must
// hold the truth: no difference and ratio 1. 100 trials of a true 95 % fall
// below 88 with a chance of 1 in 400; the draws are keyed, so the test is exact.
func TestCoverageOfIntervals(t *testing.T) {
	const trials, blocks, calls = 100, 6, 1800
	w := world{calls: calls, slow: 0.02, hedge: 58 * time.Millisecond}
	l := ledger.New([]time.Duration{objective, time.Second})
	var share, p50, p99, given int
	holds := func(low, high Figure, x float64) int {
		if low.Value <= x && x <= high.Value {
			return 1
		}
		return 0
	}
	for n := range trials {
		var p [2]Policy
		for i := range p {
			for k := range blocks {
				l.Reset()
				w.fill(l, (n*2+i)*blocks+k)
				p[i].Blocks = append(p[i].Blocks, NewBlock(BlockInput{Length: time.Second, Ledger: l}))
			}
		}
		c := Compare(&p[0], &p[1], CompareOptions{Within: objective, Seed: uint64(n), Resamples: 200})
		share += holds(c.OKWithin.Low, c.OKWithin.High, 0)
		p50 += holds(c.P50.Low, c.P50.High, 1)
		if c.P99.Low.Present {
			given++
			p99 += holds(c.P99.Low, c.P99.High, 1)
		}
	}
	t.Logf("of %d: share %d, p50 %d, p99 %d of %d", trials, share, p50, p99, given)
	if share < 88 || p50 < 88 || given < trials || p99 < 88 {
		t.Errorf("of %d intervals the truth is in %d of the share, %d of p50, %d (of %d given) of p99; want 88 or more", trials, share, p50, p99, given)
	}
}
