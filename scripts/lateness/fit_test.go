package main

import (
	"math"
	"testing"
	"time"

	"latencylab/draw"
)

const t0 = 1_790_000_000_000_000_000 // an instant of 2026: float64 would round it to 256 ns

// schedule makes n arrivals gap apart, each moved by off(i).
func schedule(n int, gap float64, off func(i int) int64) []int64 {
	x := make([]int64, n)
	for i := range x {
		x[i] = t0 + int64(math.Round(float64(i)*gap)) + off(i)
	}
	return x
}

func TestJudge(t *testing.T) {
	none := func(int) int64 { return 0 }
	tests := []struct {
		about          string
		stamps         []int64
		rate           float64
		p50, p99, p999 float64 // µs, each within 1 µs
		missed         bool
		reason         bool
	}{
		{"a perfect schedule is not late", schedule(20000, 200_000, none), 5000, 0, 0, 0, false, false},
		{"a gap that no integer number of nanoseconds holds is not late", schedule(20000, 1e9/6000, none), 6000, 0, 0, 0, false, false},
		{"every 50th request is 150 µs late and the rest do not pay for it", schedule(20000, 200_000, func(i int) int64 {
			if i%50 == 7 {
				return 150_000
			}
			return 0
		}), 5000, 0, 150, 150, false, false},
		{"a constant delay is not lateness", schedule(20000, 200_000, func(int) int64 { return 5_000_000 }), 5000, 0, 0, 0, false, false},
		{"uniform noise of 0-100 µs lies up to 50 µs to either side", schedule(20000, 200_000, func(i int) int64 {
			return int64(100_000 * draw.Uniform(1, draw.Phase, uint64(i), 0, 0))
		}), 5000, 25, 49.5, 49.95, false, false},
		{"half the rate is a perfect schedule, but another one", schedule(20000, 400_000, none), 5000, 0, 0, 0, true, false},
		{"without a requested rate nothing is missed", schedule(20000, 400_000, none), 0, 0, 0, 0, false, false},
		{"a stall of 50 ms after which the generator catches up", schedule(40000, 200_000, func(i int) int64 {
			return max(0, 50_000_000-200_000*int64(max(i-20000, 0))) * b2i(i >= 20000)
		}), 5000, 0, 0, 49_000 - 7_000, false, false},
		{"too few arrivals have no percentile", schedule(999, 200_000, none), 5000, 0, 0, 0, false, true},
		{"too few of them because the rate was missed by far", schedule(700, 4_000_000, none), 5000, 0, 0, 0, true, true},
		{"no arrivals", nil, 5000, 0, 0, 0, true, true},
		{"all at one instant", make([]int64, 5000), 5000, 0, 0, 0, true, true},
	}
	for _, tt := range tests {
		r := judge(tt.stamps, 0, tt.rate, 0)
		near := func(got, want float64) bool { return math.Abs(got-want) <= math.Max(1, want/20) }
		if !near(r.P50us, tt.p50) || !near(r.P99us, tt.p99) || !near(r.P999us, tt.p999) || r.Missed != tt.missed || (r.Reason != "") != tt.reason {
			t.Errorf("%s: %+v", tt.about, r)
		}
	}
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func TestJudgeSkipsTheStart(t *testing.T) {
	// 500 ms of a burst, then an even schedule.
	x := schedule(20000, 200_000, func(i int) int64 { return -int64(min(i, 2500)) * 50_000 * b2i(i < 2500) })
	if r := judge(x, 3, 5000, time.Second); r.P999us > 1 || r.Requests != 20000 || r.Judged >= 20000 || r.Unstamped != 3 {
		t.Errorf("%+v", r)
	}
}

func TestQuantile(t *testing.T) {
	v := []float64{1, 2, 3, 4}
	for _, tt := range []struct{ q, want float64 }{{0, 1}, {0.25, 1}, {0.26, 2}, {0.5, 2}, {0.99, 4}, {1, 4}} {
		if got := quantile(v, tt.q); got != tt.want {
			t.Errorf("quantile(%v) = %v, want %v", tt.q, got, tt.want)
		}
	}
}
