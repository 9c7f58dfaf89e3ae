package policy

import (
	"math"
	"testing"
	"testing/quick"
	"time"
)

func TestBackoffFull(t *testing.T) {
	tests := []struct {
		name string
		b    Backoff
		n    uint32
		want time.Duration
	}{
		{"no base waits for nothing", Backoff{}, 1, 0},
		{"no base waits for nothing after any number of retries", Backoff{Factor: 1e300}, math.MaxUint32, 0},
		{"the first retry waits for the base", Backoff{Base: 100 * ms}, 1, 100 * ms},
		{"the factor is 2 when none is given", Backoff{Base: 100 * ms}, 4, 800 * ms},
		{"a factor of 1 never grows", Backoff{Base: 100 * ms, Factor: 1}, 1 << 31, 100 * ms},
		{"a factor may be fractional", Backoff{Base: 100 * ms, Factor: 1.5}, 3, 225 * ms},
		{"the cap bounds the growth", Backoff{Base: 100 * ms, Cap: 2 * time.Second}, 6, 2 * time.Second},
		{"the cap itself is reached", Backoff{Base: 100 * ms, Cap: 1600 * ms}, 5, 1600 * ms},
		{"the cap holds where the product overflows", Backoff{Base: 100 * ms, Cap: 2 * time.Second}, 1 << 31, 2 * time.Second},
		{"without a cap the wait saturates", Backoff{Base: 100 * ms}, 1000, math.MaxInt64},
		{"the 37th doubling of 100 ms still fits", Backoff{Base: 100 * ms}, 37, 100 * ms << 36},
		{"the 38th does not", Backoff{Base: 100 * ms}, 38, math.MaxInt64},
		{"the largest base is no overflow", Backoff{Base: math.MaxInt64}, 1, math.MaxInt64},
		{"values out of range are brought into it", Backoff{Base: 100 * ms, Cap: -1, Factor: math.NaN()}, 2, 200 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBackoff(tt.b)
			if got := b.full(tt.n); got != tt.want {
				t.Errorf("full(%d) = %v, want %v", tt.n, got, tt.want)
			}
		})
	}
}

// TestBackoffBounds: 0 <= wait <= most for every kind, jitter and retry up to
// 2^31, and most is the cap but for a jitter after it.
func TestBackoffBounds(t *testing.T) {
	holds := func(base, limit time.Duration, factor float64, n uint32, seed, call uint64) bool {
		for kind := range BackoffTable + 1 {
			for jitter := range JitterAbsolute + 1 {
				for _, first := range []bool{false, true} {
					b := newBackoff(Backoff{
						Kind: kind, Base: base, Cap: limit, Factor: factor, Steps: []time.Duration{base, limit, math.MaxInt64},
						Jitter: jitter, Share: float64(call%1000) / 999, Span: base, JitterFirst: first,
					})
					full, most := b.full(n), b.most(n)
					wait := b.wait(n, time.Duration(call>>1), seed, call, n)
					beyond := !first && kind != BackoffDecorrelated && (jitter == JitterFraction || jitter == JitterAbsolute)
					if wait < 0 || wait > most || full > b.bound || limit > 0 && full > limit || !beyond && most > b.bound {
						t.Logf("kind %d, jitter %d, first %v, n %d: full %v, wait %v, most %v, bound %v", kind, jitter, first, n, full, wait, most, b.bound)
						return false
					}
				}
			}
		}
		return true
	}
	f := func(base, limit int64, factor float64, n uint32, seed, call uint64, shift uint8) bool {
		n = n&(1<<31-1) + 1
		s := shift % 63
		return holds(time.Duration(base>>s), time.Duration(limit>>s), factor, n, seed, call) &&
			holds(time.Duration(base>>s), time.Duration(limit>>s), 1+math.Abs(math.Mod(factor, 3)), n>>(shift%31)+1, seed, call)
	}
	if err := quick.Check(f, &quick.Config{MaxCount: 20000}); err != nil {
		t.Error(err)
	}
}

func TestBackoffFullJitterIsUniform(t *testing.T) {
	b := newBackoff(Backoff{Base: 100 * ms})
	const calls = 100000
	var sum time.Duration
	var tenths [10]int
	for id := range uint64(calls) {
		d := b.wait(2, 0, 1, id, 3)
		sum += d
		tenths[min(9, d/(20*ms))]++
	}
	if mean := sum / calls; mean < 99*ms || mean > 101*ms {
		t.Errorf("mean of waits up to 200 ms is %v, want 100 ms", mean)
	}
	for i, n := range tenths {
		if n < 9600 || n > 10400 {
			t.Errorf("%d of %d waits fall into tenth %d, want about %d", n, calls, i, calls/10)
		}
	}
}

// TestBackoffKinds: the waits of the kinds, without jitter.
func TestBackoffKinds(t *testing.T) {
	for _, tt := range []struct {
		why  string
		b    Backoff
		want []time.Duration
	}{
		{"constant", Backoff{Kind: BackoffConstant, Base: 50 * ms}, []time.Duration{50 * ms, 50 * ms, 50 * ms}},
		{"linear", Backoff{Kind: BackoffLinear, Base: 50 * ms, Cap: 120 * ms}, []time.Duration{50 * ms, 100 * ms, 120 * ms, 120 * ms}},
		{"a table repeats its last wait", Backoff{Kind: BackoffTable, Steps: []time.Duration{0, 10 * ms, 5 * ms}}, []time.Duration{0, 10 * ms, 5 * ms, 5 * ms}},
		{"a cap bounds a table", Backoff{Kind: BackoffTable, Steps: []time.Duration{time.Second}, Cap: 10 * ms}, []time.Duration{10 * ms}},
	} {
		tt.b.Jitter = JitterNone
		b := newBackoff(tt.b)
		for i, want := range tt.want {
			if got := b.wait(uint32(i+1), 0, 1, 1, uint32(i+2)); got != want {
				t.Errorf("%s: retry %d waits %v, want %v", tt.why, i+1, got, want)
			}
		}
	}
}

// TestJitterRanges: draws fill the range of their jitter, evenly.
func TestJitterRanges(t *testing.T) {
	const calls = 20000
	for _, tt := range []struct {
		why       string
		b         Backoff
		prev      time.Duration
		low, high time.Duration
	}{
		{"full", Backoff{}, 0, 0, 200 * ms},
		{"equal", Backoff{Jitter: JitterEqual}, 0, 100 * ms, 200 * ms},
		{"gRPC's fifth", Backoff{Jitter: JitterFraction, Share: 0.2}, 0, 160 * ms, 240 * ms},
		{"50 ms", Backoff{Jitter: JitterAbsolute, Span: 50 * ms}, 0, 150 * ms, 250 * ms},
		{"absolute, cut at 0", Backoff{Jitter: JitterAbsolute, Span: 300 * ms}, 0, 0, 500 * ms},
		{"after the cap it may exceed it", Backoff{Jitter: JitterFraction, Share: 0.5, Cap: 100 * ms}, 0, 50 * ms, 150 * ms},
		{"decorrelated", Backoff{Kind: BackoffDecorrelated}, 200 * ms, 100 * ms, 600 * ms},
	} {
		tt.b.Base = 100 * ms
		b := newBackoff(tt.b)
		low, high, sum := time.Duration(math.MaxInt64), time.Duration(0), time.Duration(0)
		for id := range uint64(calls) {
			d := b.wait(2, tt.prev, 1, id, 3)
			low, high, sum = min(low, d), max(high, d), sum+d
		}
		slack, mean, middle := (tt.high-tt.low)/100, sum/calls, (tt.low+tt.high)/2
		if low < tt.low || low > tt.low+slack || high > tt.high || high < tt.high-slack || mean < middle-slack || mean > middle+slack {
			t.Errorf("%s: waits from %v to %v, %v in the mean; want %v to %v", tt.why, low, high, mean, tt.low, tt.high)
		}
	}
	// Before the cap: half of the draws lie at it.
	b, at := newBackoff(Backoff{Base: 100 * ms, Cap: 100 * ms, JitterFirst: true}), 0
	for id := range uint64(calls) {
		if b.wait(2, 0, 1, id, 3) == 100*ms {
			at++
		}
	}
	if at < calls*48/100 || at > calls*52/100 {
		t.Errorf("%d of %d waits lie at a cap of half their range, want half", at, calls)
	}
}

// TestDecorrelatedStart: the first wait is drawn from [base, 3 base], whatever
// the call before it in this record has waited.
func TestDecorrelatedStart(t *testing.T) {
	b := newBackoff(Backoff{Kind: BackoffDecorrelated, Base: 100 * ms, Cap: time.Hour})
	for id := range uint64(1000) {
		if d := b.wait(1, time.Minute, 1, id, 2); d < 100*ms || d > 300*ms {
			t.Fatalf("the first wait is %v, want 100 to 300 ms", d)
		}
	}
}

// TestBackoffKey: each part of the key changes the draw.
func TestBackoffKey(t *testing.T) {
	b := newBackoff(Backoff{Base: time.Second})
	seen := map[time.Duration]bool{}
	for _, k := range [][3]uint64{{1, 1, 2}, {2, 1, 2}, {1, 2, 2}, {1, 1, 3}} {
		seen[b.wait(1, 0, k[0], k[1], uint32(k[2]))] = true
	}
	if len(seen) != 4 {
		t.Errorf("4 keys gave %d different waits", len(seen))
	}
}

// TestBackoffSum: Envoy's waits are at most 25, 75, 175 ms … (envoyproxy/envoy,
// source/common/common/backoff_strategy.cc, as documented).
func TestBackoffSum(t *testing.T) {
	b := newBackoff(Backoff{Kind: BackoffSum, Base: 25 * ms, Cap: 250 * ms})
	for n, want := range map[uint32]time.Duration{1: 25 * ms, 2: 75 * ms, 3: 175 * ms, 4: 250 * ms, 1 << 31: 250 * ms, math.MaxUint32: 250 * ms} {
		if got := b.full(n); got != want {
			t.Errorf("retry %d waits %v, want %v", n, got, want)
		}
	}
	free := newBackoff(Backoff{Kind: BackoffSum, Base: 1, Factor: 1e300})
	if got := free.full(math.MaxUint32); got != math.MaxInt64 {
		t.Errorf("without a cap it saturates, got %v", got)
	}
}
