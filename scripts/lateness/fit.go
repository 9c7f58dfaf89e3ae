package main

import (
	"math"
	"slices"
	"time"
)

// Report is what is said of one run. Lateness is the distance, early or late,
// of the i-th arrival from the i-th place in the best-fitting perfect schedule.
type Report struct {
	Requests  int `json:"requests"`  // stamped arrivals, the skipped ones included
	Judged    int `json:"judged"`    // arrivals after the skipped time
	Unstamped int `json:"unstamped"` // requests without a kernel stamp, not judged
	// RequestedPerS is the rate the generator was asked for; 0: not known.
	RequestedPerS float64 `json:"requested_per_s"`
	// AchievedPerS is (judged - 1) over the time between first and last.
	AchievedPerS float64 `json:"achieved_per_s"`
	// FittedPerS is the rate of the best-fitting schedule.
	FittedPerS float64 `json:"fitted_per_s"`
	// Missed says that the achieved or the fitted rate is more than 1 % off the
	// requested one: the lateness then speaks of another schedule.
	Missed bool    `json:"missed"`
	P50us  float64 `json:"p50_us"`
	P99us  float64 `json:"p99_us"`
	P999us float64 `json:"p999_us"`
	MaxUs  float64 `json:"max_us"`
	// Reason says why there are no figures; empty when there are.
	Reason string `json:"reason,omitempty"`
}

// minJudged is the number of arrivals below which no lateness is stated: p99.9
// of fewer would be their maximum.
const minJudged = 1000

// judge fits a schedule to the arrivals that came skip or more after the first.
// stamps are in nanoseconds, in any order; they are sorted in place.
func judge(stamps []int64, unstamped int, rate float64, skip time.Duration) Report {
	r := Report{Requests: len(stamps), Unstamped: unstamped, RequestedPerS: rate}
	slices.Sort(stamps)
	if len(stamps) > 0 {
		from, _ := slices.BinarySearch(stamps, stamps[0]+int64(skip))
		stamps = stamps[from:]
	}
	r.Judged = len(stamps)
	off := func(got float64) bool { return rate > 0 && math.Abs(got/rate-1) > 0.01 }
	if n := len(stamps); n > 1 && stamps[n-1] > stamps[0] {
		r.AchievedPerS = float64(n-1) / (float64(stamps[n-1]-stamps[0]) / 1e9)
	}
	r.Missed = off(r.AchievedPerS)
	switch {
	case len(stamps) < minJudged:
		r.Reason = "too few requests after the skipped time, want 1000 or more"
		return r
	case r.AchievedPerS == 0:
		r.Reason = "all requests arrived at one instant"
		return r
	}
	gap, late := fit(stamps)
	r.FittedPerS = 1e9 / gap
	r.Missed = r.Missed || off(r.FittedPerS)
	for i := range late {
		late[i] = math.Abs(late[i])
	}
	slices.Sort(late)
	r.P50us, r.P99us = quantile(late, 0.5)/1e3, quantile(late, 0.99)/1e3
	r.P999us, r.MaxUs = quantile(late, 0.999)/1e3, late[len(late)-1]/1e3
	return r
}

// fit finds the gap g and the offset a of the perfect schedule a + i*g that
// minimises the sum of |x[i] - a - i*g| over the sorted arrivals x, and returns g
// in nanoseconds and the signed distances x[i] - a - i*g.
//
// Least absolute deviations is the standard robust line: a burst of late
// requests does not pull the schedule towards itself, as it would with squares,
// and the same rule serves every generator because it needs nothing but the
// arrivals. For a given g the best offset is the median of x[i] - i*g; the
// remaining function of g is convex, so a golden-section search finds its
// minimum.
func fit(x []int64) (gap float64, late []float64) {
	n := len(x)
	late = make([]float64, n)
	scratch := make([]float64, n)
	// The middle index as the origin keeps i*g small and the search well
	// conditioned; x[0] as the zero keeps nanoseconds since 1970 out of float64.
	at := func(g float64) {
		for i, v := range x {
			late[i] = float64(v-x[0]) - float64(i-n/2)*g
		}
		copy(scratch, late)
		slices.Sort(scratch)
		a := quantile(scratch, 0.5)
		for i := range late {
			late[i] -= a
		}
	}
	cost := func(g float64) (sum float64) {
		at(g)
		for _, l := range late {
			sum += math.Abs(l)
		}
		return sum
	}
	mean := float64(x[n-1]-x[0]) / float64(n-1)
	lo, hi := 0.5*mean, 2*mean
	const golden = 0.6180339887498949
	a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
	ca, cb := cost(a), cost(b)
	// Over n arrivals an error e of the gap moves the ends by n*e/2: 1 ns there
	// is below every figure that is reported.
	for float64(n)*(hi-lo) > 1 {
		if ca <= cb {
			hi, b, cb = b, a, ca
			a = hi - golden*(hi-lo)
			ca = cost(a)
		} else {
			lo, a, ca = a, b, cb
			b = lo + golden*(hi-lo)
			cb = cost(b)
		}
	}
	gap = (lo + hi) / 2
	at(gap)
	return gap, late
}

// quantile returns the q-quantile of sorted, not empty values: the smallest that
// at least a share q of them does not exceed.
func quantile(sorted []float64, q float64) float64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
