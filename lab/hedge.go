package lab

import (
	"cmp"
	"math"
	"slices"

	"latencylab/workloads"
)

// hedgeLab is the published hedge table: 2 % of all attempts take 1,000 ms, the
// others 20 to 60 ms, and a second attempt is sent after 58 ms.
var hedgeLab = Lab{
	Name:   "hedge",
	About:  hedgeAbout,
	takes:  takes{requests: true, prng: true, seedJS: 1},
	run:    runHedge,
	export: hedgeWorkloads,
}

const hedgeAbout = "2 % of attempts take 1 s, the others 20 to 60 ms: one hedge after 58 ms"

const (
	hedgeCalls     = 1_000_000
	hedgePublished = 100_000 // calls of the published table
	hedgeSlow      = 0.02    // share of slow attempts
	hedgeDelay     = 58.0    // ms
)

// hedgeWorkloads is the built-in workload hedge-tail with the two policies of
// the table.
func hedgeWorkloads(o Options) ([]*workloads.Workload, error) {
	w, err := workloads.Builtin("hedge-tail")
	if err != nil {
		return nil, err
	}
	w.Name, w.About, w.Sim = "hedge", hedgeAbout, workloads.Sim{}
	if w.Policies, err = policies("plain", "hedged:hedge=58ms"); err != nil {
		return nil, err
	}
	w.Duration, w.Requests, w.Seed = 0, cmp.Or(o.Requests, hedgeCalls), o.Seed
	return []*workloads.Workload{w}, nil
}

func runHedge(o Options) (*Result, error) {
	r := &Result{Columns: []string{"p50_ms", "p99_ms", "p999_ms", "extra_load"}}
	r.refer("plain", "exact, independent copies", exactHedge(math.Inf(1))...)
	r.refer("hedged", "exact, independent copies", exactHedge(hedgeDelay)...)
	r.refer("plain", "published, 100,000 calls", nums(40, 1000, 1000, 0)...)
	r.refer("hedged", "published, 100,000 calls", nums(39, 99, 116, 0.068)...)
	if o.PRNG == SeedJS {
		r.hedgeSeedJS(o)
		return r, nil
	}
	ws, err := hedgeWorkloads(o)
	if err != nil {
		return nil, err
	}
	run, err := simulate(&o, ws[0])
	if err != nil {
		return nil, err
	}
	plot := Plot{Title: "share of calls slower than t", X: Axis{Label: "t, ms", Log: true, Min: 10, Max: 1000}, Y: Axis{Label: "share", Log: true, Min: 1e-4, Max: 1}}
	for i := range run.Policies {
		q := &run.Policies[i]
		r.add(q.Name, in(q.Response.P50, 1e6), in(q.Response.P99, 1e6), in(q.Response.P999, 1e6), Value{Figure: q.ExtraLoad})
		ps, err := tailCurve(&q.Response, 1e6)
		if err != nil {
			return nil, err
		}
		plot.Series = append(plot.Series, Series{Name: q.Name, Points: ps})
	}
	r.Plots = append(r.Plots, plot)
	r.note("The published p50 of 39 ms is its generator's doing (--prng seed-js): no attempt is hedged before 58 ms, so nothing can move p50.")
	for _, row := range []string{"plain", "hedged"} {
		r.within(row, "p50_ms", 40.2, 40.6)
	}
	r.within("plain", "p99_ms", 998, 1002)
	r.within("plain", "p999_ms", 998, 1002)
	r.within("hedged", "p99_ms", 96.4, 100.4)
	r.within("hedged", "p999_ms", 116.2, 117.4)
	r.within("hedged", "extra_load", 0.0665, 0.0715)
	return r, nil
}

// hedgeSeedJS fills in the table with the published generator and its order of
// draws: of each call the plain sample, the hedged one and, if that is above
// the delay, the second attempt's, all from one stream.
func (r *Result) hedgeSeedJS(o Options) {
	g := published{uint32(o.Seed)}
	sample := func() float64 {
		if g.next() < hedgeSlow {
			return 1000
		}
		return 20 + 40*g.next()
	}
	calls := int(min(cmp.Or(o.Requests, hedgePublished), 100_000_000))
	plain, hedged, extra := make([]float64, calls), make([]float64, calls), 0
	for i := range calls {
		plain[i] = sample()
		t := sample()
		if t > hedgeDelay {
			extra++
			t = min(t, hedgeDelay+sample())
		}
		hedged[i] = t
	}
	row := func(name string, xs []float64, extra int) {
		slices.Sort(xs)
		at := func(q float64) float64 { return xs[min(int(q*float64(len(xs))), len(xs)-1)] }
		r.add(name, nums(at(0.5), at(0.99), at(0.999), float64(extra)/float64(calls))...)
	}
	row("plain", plain, 0)
	row("hedged", hedged, extra)
	r.note("The published generator multiplies beyond 2^53 in float64 and so loses its low bits: from this seed it runs\n"+
		"into a cycle of %d states, and the 100,000 calls are a few thousand different ones over and over. One stream\n"+
		"feeds both policies, so they meet different calls: that, not hedging, moves p50 by 1 ms. Draws of our own are\n"+
		"keyed by call and attempt: both policies meet the same ones (run without --prng).", g.cycle())
	r.within("plain", "p50_ms", 40.05, 40.15)
	r.within("hedged", "p50_ms", 39.25, 39.35)
	r.within("plain", "p99_ms", 1000, 1000)
	r.within("hedged", "p99_ms", 99.25, 99.35)
	r.within("hedged", "p999_ms", 116.35, 116.45)
	r.within("hedged", "extra_load", 0.06755, 0.06785)
}

// survival is the share of attempts that take longer than t ms.
func survival(t float64) float64 {
	fast := min(max((60-t)/40, 0), 1)
	slow := 0.0
	if t < 1000 {
		slow = 1
	}
	return (1-hedgeSlow)*fast + hedgeSlow*slow
}

// exactHedge returns the figures of an infinite run in which copies are
// independent: P(T > t) = S(t) up to the delay D, S(t) S(t-D) after it, and the
// extra load is S(D) (Dean and Barroso, "The Tail at Scale", CACM 2013, has the
// idea). D infinite is no hedge.
func exactHedge(d float64) []Value {
	tail := func(t float64) float64 {
		if t < d {
			return survival(t)
		}
		return survival(t) * survival(t-d)
	}
	quantile := func(q float64) float64 {
		low, high := 0.0, 2000.0
		for range 60 {
			mid := (low + high) / 2
			if tail(mid) > 1-q {
				low = mid
			} else {
				high = mid
			}
		}
		return round(high, 2)
	}
	extra := 0.0
	if !math.IsInf(d, 1) {
		extra = round(survival(d), 6)
	}
	return nums(quantile(0.5), quantile(0.99), quantile(0.999), extra)
}
