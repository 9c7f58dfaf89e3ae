package lab

import (
	"cmp"
	"fmt"
	"strings"

	"latencylab/policy"
	"latencylab/service"
	"latencylab/sim"
	"latencylab/units"
	"latencylab/workloads"
)

// interferenceLab compares two policies in three ways, of which two are wrong.
var interferenceLab = Lab{
	Name:   "interference",
	About:  "one hedge against none, each alone, by coin and in short slices: the sign flips",
	takes:  takes{requests: true},
	seeds:  interferenceSeeds,
	run:    runInterference,
	export: interferenceWorkloads,
}

const (
	interferenceSeeds = 8
	interferenceCalls = 500_000
	interferenceDelay = 4 // u
	// interferenceWork is the unfinished work of a server, in u, above which a run
	// had no steady state: ten times what is usual at rho .55.
	interferenceWork = 100
)

var interferenceRhos = []float64{0.45, 0.50, 0.55}

// interferenceWays are the ways to compare, with the published p99 in u of plain
// and hedge at each rho; 0 is "unbounded".
var interferenceWays = []struct {
	name      string
	slice     float64 // u; 0: no slices
	alone     bool
	published [3][2]float64
}{
	{"alone", 0, true, [3][2]float64{{78, 46}, {85, 183.5}, {94, 0}}},
	{"coin", 0, false, [3][2]float64{{88, 30}, {100, 37}, {123, 50}}},
	{"slices of 100 u", 100, false, [3][2]float64{{87, 35}, {105, 47}, {141, 65}}},
	{"slices of 1000 u", 1000, false, [3][2]float64{{79, 46}, {91, 90}, {303, 278}}},
}

// interferenceWorkloads are the runs of each policy alone. The other ways put
// two policies on the same servers at the same time.
func interferenceWorkloads(o Options) ([]*workloads.Workload, error) {
	var out []*workloads.Workload
	for _, rho := range interferenceRhos {
		for _, spec := range []string{"plain", "hedge=40ms"} {
			name := strings.ReplaceAll(fmt.Sprintf("interference-rho-%g-%s", rho, spec), "=", "-")
			w, err := qWorkload(name, fmt.Sprintf("rho %g, %s alone: %s", rho, spec, qHow), rho, service.CancelNone,
				cmp.Or(o.Requests, interferenceCalls), o.Seed, spec)
			if err != nil {
				return nil, err
			}
			out = append(out, w)
		}
	}
	return out, nil
}

// interferenceRun returns p99 of plain and hedge at one load, compared in one
// way with one seed.
func interferenceRun(o *Options, rho float64, way int, seed uint64) (p [2]Value, err error) {
	y := &interferenceWays[way]
	cfg := qConfig(o, rho, service.CancelNone, cmp.Or(o.Requests, interferenceCalls), seed)
	lanes := []policy.Policy{{}, {Hedge: qHedge(interferenceDelay)}}
	if y.alone {
		for i := range lanes {
			cfg.Policy = lanes[i]
			r, err := qRun(o, cfg, nil)
			if err != nil {
				return p, err
			}
			p[i] = steady(&r, qQuantile(r.Ledger, 0.99))
		}
		return p, nil
	}
	cfg.Lanes = lanes
	if y.slice > 0 {
		cfg.Split = sim.Split{Kind: sim.Slices, Slice: qSpan(y.slice), Skip: 0.2}
	}
	r, err := qRun(o, cfg, nil)
	if err != nil {
		return p, err
	}
	for i := range lanes {
		p[i] = qQuantile(r.Lanes[i].Data, 0.99)
	}
	return p, nil
}

// steady returns v, or why a run without a steady state has no such figure.
func steady(r *qResult, v Value) Value {
	if r.work <= interferenceWork || !v.Present {
		return v
	}
	u := absent("no steady state: the queues grew until the end of the run")
	u.AtLeast = v.Value
	return u
}

func runInterference(o Options) (*Result, error) {
	ways := len(interferenceWays)
	n := len(interferenceRhos) * ways * interferenceSeeds
	found := make([][2]Value, n)
	err := each(n, func(i int) (err error) {
		// The longest runs, those at the highest load, come first.
		k := len(interferenceRhos) - 1 - i/(ways*interferenceSeeds)
		way, seed := i/interferenceSeeds%ways, uint64(i%interferenceSeeds)
		found[(k*ways+way)*interferenceSeeds+int(seed)], err = interferenceRun(&o, interferenceRhos[k], way, o.Seed+seed)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &Result{Columns: []string{"plain_p99_u", "hedge_p99_u", "hedge_says"}}
	for k, rho := range interferenceRhos {
		for w, way := range interferenceWays {
			var of [2][]Value
			for s := range interferenceSeeds {
				f := found[(k*ways+w)*interferenceSeeds+s]
				of[0], of[1] = append(of[0], f[0]), append(of[1], f[1])
			}
			plain, hedge := middle(of[0]), middle(of[1])
			name := fmt.Sprintf("rho %.2f %s", rho, way.name)
			r.add(name, plain, hedge, word(verdict(plain, hedge)))
			p := nums(way.published[k][:]...)
			if way.published[k][1] == 0 {
				p[1] = absent("unbounded")
			}
			r.refer(name, "another simulator, medians of 8 seeds", append(p, word(verdict(p[0], p[1])))...)
		}
	}
	r.interferencePlot()
	r.interferenceNotes(cmp.Or(o.Requests, interferenceCalls))
	r.interferenceClaims()
	return r, nil
}

// interferencePlot is what each way of comparing says of the hedge against the
// load.
func (r *Result) interferencePlot() {
	p := Plot{Title: "p99 with the hedge in parts of p99 without: below 1 it looks better; alone it has no end at rho 0.55",
		X: Axis{Label: "rho", Min: 0.45, Max: 0.55}, Y: Axis{Label: "hedge/plain", Log: true, Min: 0.2, Max: 2}, Rows: 10}
	for _, way := range interferenceWays {
		s := Series{Name: way.name}
		for _, rho := range interferenceRhos {
			row := fmt.Sprintf("rho %.2f %s", rho, way.name)
			plain, hedge := r.value(row, "plain_p99_u"), r.value(row, "hedge_p99_u")
			if plain.Present && hedge.Present {
				s.Points = append(s.Points, Point{rho, hedge.Value / plain.Value})
			}
		}
		p.Series = append(p.Series, s)
	}
	r.Plots = append(r.Plots, p)
}

// verdict says what the two figures say of the second policy.
func verdict(plain, other Value) string {
	switch {
	case !plain.Present:
		return "n/a"
	case !other.Present:
		return "never settles"
	case other.Value < 0.95*plain.Value:
		return fmt.Sprintf("%.1f x better", plain.Value/other.Value)
	case other.Value > 1.05*plain.Value:
		return fmt.Sprintf("%.1f x worse", other.Value/plain.Value)
	}
	return "the same"
}

func (r *Result) interferenceNotes(calls uint64) {
	r.note("%s.", qHow)
	r.note("Hedge: one after 4 u to another random server; losers are not cancelled. Medians of %d seeds; each run is\n"+
		"%s calls. Of each slice the first 20 %% are left out.", interferenceSeeds, units.Count(calls))
	r.note("\"Alone\" is the truth: what happens when every caller adopts the policy. By coin and in slices the two share\n" +
		"the servers: plain calls wait behind the hedges of others, and hedged calls meet half the load they would make.")
}

func (r *Result) interferenceClaims() {
	r.within("rho 0.45 alone", "plain_p99_u", 75, 82)
	r.within("rho 0.45 alone", "hedge_p99_u", 41, 49)
	r.within("rho 0.50 alone", "plain_p99_u", 80, 90)
	r.within("rho 0.50 alone", "hedge_p99_u", 100, 320)
	r.within("rho 0.50 coin", "plain_p99_u", 92, 108)
	r.within("rho 0.50 coin", "hedge_p99_u", 33, 42)
	r.within("rho 0.45 coin", "plain_p99_u", 84, 93)
	r.within("rho 0.45 coin", "hedge_p99_u", 27, 32)
	alone, coin := r.value("rho 0.50 alone", "hedge_says"), r.value("rho 0.50 coin", "hedge_says")
	r.claim(strings.HasSuffix(alone.Word, "worse") && strings.HasSuffix(coin.Word, "better"), alone.Word+" and "+coin.Word,
		"at rho 0.50 hedging is worse alone and better by coin")
	worst := r.value("rho 0.55 alone", "hedge_p99_u")
	short := r.value("rho 0.55 slices of 100 u", "hedge_says")
	r.claim(!worst.Present && strings.HasSuffix(short.Word, "better"), worst.text()+" and "+short.Word,
		"at rho 0.55 it has no steady state alone and is better in slices of 100 u")
}
