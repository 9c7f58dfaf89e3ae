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

// TestBackoffBounds: 0 <= wait <= full <= cap for every retry up to 2^31.
func TestBackoffBounds(t *testing.T) {
	holds := func(base, limit time.Duration, factor float64, n uint32, seed, call uint64) bool {
		for _, jitter := range []Jitter{JitterFull, JitterNone} {
			b := newBackoff(Backoff{Base: base, Cap: limit, Factor: factor, Jitter: jitter})
			full, wait := b.full(n), b.wait(n, seed, call, n)
			if wait < 0 || wait > full || full > b.bound || limit > 0 && full > limit {
				return false
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
		d := b.wait(2, 1, id, 3)
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

// TestBackoffKey: each part of the key changes the draw.
func TestBackoffKey(t *testing.T) {
	b := newBackoff(Backoff{Base: time.Second})
	seen := map[time.Duration]bool{}
	for _, k := range [][3]uint64{{1, 1, 2}, {2, 1, 2}, {1, 2, 2}, {1, 1, 3}} {
		seen[b.wait(1, k[0], k[1], uint32(k[2]))] = true
	}
	if len(seen) != 4 {
		t.Errorf("4 keys gave %d different waits", len(seen))
	}
}
