package lab

import (
	"cmp"
	"math"
	"time"

	"latencylab/results"
	"latencylab/trial"
	"latencylab/workloads"
)

// hedgeLab is the published hedge table: 2 % of all attempts take 1,000 ms, the
// others 20 to 60 ms, and a second attempt is sent after 58 ms.
var hedgeLab = Lab{
	Name:  "hedge",
	About: "2 % of attempts take 1 s, the others 20 to 60 ms: one hedge after 58 ms",
	run:   runHedge,
}

const (
	hedgeCalls = 1_000_000
	hedgeSlow  = 0.02 // share of slow attempts
	hedgeDelay = 58.0 // ms
)

// published names where the reference figures come from. Their generator of
// random numbers runs into a cycle of 10,466 states from every seed, which is
// why its p50 moves where hedging cannot move it.
const published = "published, 100,000 calls"

func runHedge(o Options) (*Result, error) {
	w, err := workloads.Builtin("hedge-tail")
	if err != nil {
		return nil, err
	}
	w.Policies, w.Sim = nil, workloads.Sim{}
	for _, spec := range []string{"plain", "hedged:hedge=58ms"} {
		np, err := workloads.ParsePolicy(spec)
		if err != nil {
			return nil, err
		}
		w.Policies = append(w.Policies, np)
	}
	w.Duration, w.Requests, w.Seed = 0, cmp.Or(o.Requests, hedgeCalls), o.Seed
	p, err := trial.NewPlan(w, trial.Choices{Virtual: true})
	if err != nil {
		return nil, err
	}
	run, err := trial.Sim(p, time.Time{}, o.Interrupt)
	if err != nil {
		return nil, err
	}
	if run.Interrupted {
		return nil, ErrInterrupted
	}
	r := &Result{Columns: []string{"p50_ms", "p99_ms", "p999_ms", "extra_load"}}
	for i := range run.Policies {
		q := &run.Policies[i]
		r.Rows = append(r.Rows, Row{Row: q.Name, Figures: []results.Figure{
			ms(q.Response.P50), ms(q.Response.P99), ms(q.Response.P999), q.ExtraLoad,
		}})
	}
	r.Reference = []Row{
		exactRow("plain", math.Inf(1)), exactRow("hedged", hedgeDelay),
		{Row: "plain", Source: published, Figures: figures(40, 1000, 1000, 0)},
		{Row: "hedged", Source: published, Figures: figures(39, 99, 116, 0.068)},
	}
	plain, hedged := r.Rows[0].Figures, r.Rows[1].Figures
	r.Holds = []Claim{
		within("plain p50_ms", plain[0], 40.2, 40.6),
		within("plain p99_ms", plain[1], 998, 1002),
		within("plain p999_ms", plain[2], 998, 1002),
		within("hedged p50_ms", hedged[0], 40.2, 40.6),
		within("hedged p99_ms", hedged[1], 96.4, 100.4),
		within("hedged p999_ms", hedged[2], 116.2, 117.4),
		within("hedged extra_load", hedged[3], 0.0665, 0.0715),
	}
	return r, nil
}

func ms(f results.Figure) results.Figure {
	f.Value /= 1e6
	f.AtLeast /= 1e6
	return f
}

func figures(xs ...float64) []results.Figure {
	var out []results.Figure
	for _, x := range xs {
		out = append(out, results.Num(x))
	}
	return out
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

// exactRow returns the figures of an infinite run in which copies are
// independent: P(T > t) = S(t) up to the delay D, S(t) S(t-D) after it, and the
// extra load is S(D) (Dean and Barroso, "The Tail at Scale", CACM 2013, has the
// idea). D infinite is no hedge.
func exactRow(name string, d float64) Row {
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
		return math.Round(high*100) / 100
	}
	extra := 0.0
	if !math.IsInf(d, 1) {
		extra = math.Round(survival(d)*1e6) / 1e6
	}
	return Row{Row: name, Source: "exact, independent copies", Figures: figures(quantile(0.5), quantile(0.99), quantile(0.999), extra)}
}
