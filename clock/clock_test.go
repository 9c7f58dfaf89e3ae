package clock

import (
	"math"
	"testing"
	"time"
)

func TestAddSaturates(t *testing.T) {
	for _, row := range []struct {
		why  string
		t    Time
		d    time.Duration
		want Time
	}{
		{"plain addition", 5, 7, 12},
		{"a negative span goes back", 5, -7, -2},
		{"past the last instant is never", Never - 3, 10, Never},
		{"never stays never, also going back", Never, -10, Never},
		{"before the first instant is the first", math.MinInt64 + 3, -10, math.MinInt64},
	} {
		if got := row.t.Add(row.d); got != row.want {
			t.Errorf("%s: %d + %d = %d, want %d", row.why, row.t, row.d, got, row.want)
		}
	}
}

func TestSubSaturates(t *testing.T) {
	for _, row := range []struct {
		why  string
		t, u Time
		want time.Duration
	}{
		{"plain difference", 12, 5, 7},
		{"below zero", 5, 12, -7},
		{"too far forward", Never, -10, math.MaxInt64},
		{"to before the start from never", -10, Never, math.MinInt64},
		{"past the smallest span", math.MinInt64, 10, math.MinInt64},
	} {
		if got := row.t.Sub(row.u); got != row.want {
			t.Errorf("%s: %d - %d = %d, want %d", row.why, row.t, row.u, got, row.want)
		}
	}
}

// TestPair: both clocks of a pair are of one moment.
func TestPair(t *testing.T) {
	before := Now()
	now, wall := Pair()
	after := Now()
	if now < before || now > after {
		t.Errorf("the monotonic half %d lies outside [%d, %d]", now, before, after)
	}
	if d := Origin().Add(time.Duration(now)).UnixNano() - wall; d < -int64(time.Second) || d > int64(time.Second) {
		t.Errorf("the halves of a pair are %v apart", time.Duration(d))
	}
}
