package service

import (
	"math"
	"math/big"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// TestSumAgainstBig: sums of instants far beyond 64 bits, against package big.
func TestSumAgainstBig(t *testing.T) {
	var s sum
	want, n := new(big.Int), 0
	for i := range uint64(2000) {
		x := int64(draw.Bits(1, draw.Service, i, 0, 0)) >> (i % 40)
		switch {
		case i%7 == 0:
			x = math.MaxInt64
		case i%11 == 0:
			x = math.MinInt64
		}
		if i%3 == 2 {
			s.sub(x)
			want.Sub(want, big.NewInt(x))
			n--
		} else {
			s.add(x)
			want.Add(want, big.NewInt(x))
			n++
		}
		for _, now := range []clock.Time{0, 5, -7, math.MinInt64, clock.Never, clock.Time(draw.Bits(2, draw.Service, i, 0, 0))} {
			r := new(big.Int).Mul(big.NewInt(int64(n)), big.NewInt(int64(now)))
			r.Sub(want, r)
			exact := int64(0)
			switch {
			case r.Sign() < 0:
			case !r.IsInt64():
				exact = math.MaxInt64
			default:
				exact = r.Int64()
			}
			if got := s.less(n, now); got != time.Duration(exact) {
				t.Fatalf("sum %v less %d times %d = %d, want %d", want, n, now, got, exact)
			}
		}
	}
}

// TestBacklog follows the unfinished work of one slot by hand.
func TestBacklog(t *testing.T) {
	s := New(&Spec{Time: Constant(10), Slots: 1, Queue: -1, Cancel: CancelRunning}, 0, 1)
	is := func(about string, now clock.Time, want time.Duration) {
		t.Helper()
		if got := s.Backlog(now); got != want {
			t.Errorf("%s: backlog %d, want %d", about, got, want)
		}
	}
	is("an idle server", 5, 0)
	a, _ := s.Begin(first(1, 1), 100)
	is("a job that has just begun", 100, 10)
	is("3 ns later", 103, 7)
	s.Begin(first(2, 2), 103)
	c, _ := s.Begin(first(3, 3), 104)
	is("two more wait", 104, 6+20)
	s.Cancel(c, 105)
	is("one of them has left", 105, 5+10)
	_, st := s.End(a, 110)
	is("the next has begun", 110, 10)
	s.Cancel(st.Job, 112)
	is("and was stopped", 112, 0)
}
