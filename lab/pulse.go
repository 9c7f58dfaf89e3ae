package lab

import (
	"fmt"
	"math"
	"strings"
	"time"

	"latencylab/policy"
	"latencylab/service"
	"latencylab/sim"
	"latencylab/workloads"
)

// pulseLab freezes all servers for a moment and looks whether they recover.
var pulseLab = Lab{
	Name:   "pulse",
	About:  "all servers freeze for 100 u: which policies have recovered 2,000 u later",
	seeds:  pulseSeeds,
	run:    runPulse,
	real:   pulseSockets,
	export: pulseWorkloads,
}

const (
	pulseSeeds  = 40
	pulseBefore = 2000 // u
	pulseFreeze = 100
	pulseAfter  = 2000
	pulseSample = 20
	// pulseWork is the unfinished work of a server, in u, above which it has not
	// recovered: four times the mean of plain at rho .7.
	pulseWork = 60
)

var pulseRhos = []float64{0.5, 0.6, 0.65, 0.7}

// pulseRows are the policies, %s being the p95 of plain at the load, and how
// many of 40 runs another simulator found not recovered at each load.
var pulseRows = []struct {
	name, spec string
	cancel     service.Cancel
	reference  [4]float64
}{
	{"plain", "plain", service.CancelNone, [4]float64{0, 0, 0, 0}},
	{"hedge p95, no cancel", "hedge=%s", service.CancelNone, [4]float64{0, 39, 40, 40}},
	{"hedge p95, budget 10%", "hedge=%s,budget=10%%", service.CancelNone, [4]float64{0, 0, 0, 0}},
	{"hedge p95, server cancel", "hedge=%s", service.CancelRunning, [4]float64{0, 0, 0, 0}},
}

// freeze is the pulse: all servers stop at the begin of the data.
func freeze(s *service.Spec) *service.Spec {
	s.Stalls = []service.Stall{{For: service.Constant(qSpan(pulseFreeze))}}
	return s
}

func pulseWorkloads(o Options) ([]*workloads.Workload, error) {
	rho := pulseRhos[len(pulseRhos)-1]
	delay, err := plainP95(&o, rho)
	if err != nil {
		return nil, err
	}
	var out []*workloads.Workload
	for i := range pulseRows {
		row := &pulseRows[i]
		np, err := qSpec(row.spec, delay)
		if err != nil {
			return nil, err
		}
		name := strings.NewReplacer(", ", "-", "%", "", " ", "-").Replace("pulse " + row.name)
		w, err := qWorkload(name, fmt.Sprintf("rho %g %s, a freeze of %d u at the begin of the data: %s", rho, row.name, pulseFreeze, qHow),
			rho, row.cancel, 0, o.Seed, np.Spec)
		if err != nil {
			return nil, err
		}
		w.Duration = qSpan(pulseFreeze + pulseAfter)
		freeze(w.Service)
		out = append(out, w)
	}
	return out, nil
}

// pulsed is one run: the unfinished work of a server, in u, over time.
type pulsed struct {
	curve []Point // u since the freeze, u of work
	work  float64 // 2,000 u after the release
}

// pulseRun freezes the servers under the policy.
func pulseRun(o *Options, rho float64, p policy.Policy, cancel service.Cancel, seed uint64) (pulsed, error) {
	cfg := qConfig(o, rho, cancel, 0, seed)
	cfg.Policy, cfg.Service = p, freeze(cfg.Service)
	cfg.Blocks = []workloads.Block{{Burn: qSpan(pulseBefore), Data: qSpan(pulseFreeze + pulseAfter + 1)}}
	cfg.Horizon = time.Nanosecond // what is open then does not matter
	cfg.Sample = qSpan(pulseSample)
	var x pulsed
	cfg.OnSample = func(s sim.Sample) {
		t := math.Round(float64(s.At)/float64(qUnit)) - pulseBefore
		if t <= pulseFreeze+pulseAfter {
			x.work = qWork(s)
			x.curve = append(x.curve, Point{t, x.work})
		}
	}
	r, err := sim.Run(cfg)
	if err == nil && r.Stopped && o.interrupted() {
		err = ErrInterrupted
	}
	return x, err
}

func runPulse(o Options) (*Result, error) {
	runs, delays, err := pulseRuns(&o, pulseRhos, pulseSeeds)
	if err != nil {
		return nil, err
	}
	return pulseResult(pulseRhos, pulseSeeds, runs, delays), nil
}

// pulseRuns runs each policy at each load with so many seeds, in this order, and
// returns the delay of the hedge at each load beside.
func pulseRuns(o *Options, rhos []float64, seeds int) ([]pulsed, []float64, error) {
	delays := make([]float64, len(rhos))
	for k, rho := range rhos {
		var err error
		if delays[k], err = plainP95(o, rho); err != nil {
			return nil, nil, err
		}
	}
	rows := len(pulseRows)
	runs := make([]pulsed, len(rhos)*rows*seeds)
	err := each(len(runs), func(i int) error {
		k, row, seed := i/(rows*seeds), i/seeds%rows, o.Seed+uint64(i%seeds)
		np, err := qSpec(pulseRows[row].spec, delays[k])
		if err != nil {
			return err
		}
		runs[i], err = pulseRun(o, rhos[k], np.Policy, pulseRows[row].cancel, seed)
		if k < len(rhos)-1 {
			runs[i].curve = nil // only the last load is drawn
		}
		return err
	})
	return runs, delays, err
}

func pulseResult(rhos []float64, seeds int, runs []pulsed, delays []float64) *Result {
	rows := len(pulseRows)
	r := &Result{Columns: []string{"not_recovered", "of", "work_u", "delay_u"}}
	for k, rho := range rhos {
		for i := range pulseRows {
			row := &pulseRows[i]
			name := fmt.Sprintf("rho %g %s", rho, row.name)
			of := runs[(k*rows+i)*seeds : (k*rows+i+1)*seeds]
			down := 0
			var work []Value
			for _, x := range of {
				if x.work > pulseWork {
					down++
				}
				work = append(work, num(x.work))
			}
			delay := num(delays[k])
			if row.spec == "plain" {
				delay = absent("no hedge")
			}
			r.add(name, count(down), count(seeds), middle(work), delay)
			r.refer(name, "another simulator", num(row.reference[k]), count(seeds), absent("not recorded"), absent("not recorded"))
		}
	}
	r.Plots = append(r.Plots, pulsePlot(rhos[len(rhos)-1], seeds, runs[len(runs)-rows*seeds:]))
	r.note("%s.", qHow)
	r.note("Each policy alone, %d seeds. Delay: the p95 of plain at that load. All servers stop for %d u; recovered means at most\n"+
		"%d u of unfinished work for each server %d u later. work_u is the median then.", seeds, pulseFreeze, pulseWork, pulseAfter)
	r.note("After the freeze every call is older than p95, so every call is sent twice: the load doubles, and above rho 0.5 the\n" +
		"queues that the freeze has left never empty. The state lasts although what caused it is gone.")
	for _, rho := range rhos {
		for _, name := range []string{"plain", "hedge p95, budget 10%", "hedge p95, server cancel"} {
			r.equals(fmt.Sprintf("rho %g %s", rho, name), "not_recovered", 0)
		}
	}
	r.within("rho 0.7 hedge p95, no cancel", "not_recovered", 0.9*float64(seeds), float64(seeds))
	return r
}

// pulsePlot is the median of the work over time at the highest load.
func pulsePlot(rho float64, seeds int, runs []pulsed) Plot {
	p := Plot{Title: fmt.Sprintf("rho %g: unfinished work of a server, median of %d seeds; frozen from 0 to %d u", rho, seeds, pulseFreeze),
		X: Axis{Label: "u", Min: -500, Max: pulseFreeze + pulseAfter}, Y: Axis{Label: "u", Log: true, Min: 5, Max: 2000}, Rows: 14}
	for i := range pulseRows {
		of := runs[i*seeds : (i+1)*seeds]
		s := Series{Name: pulseRows[i].name}
		for j, q := range of[0].curve {
			if q.X < p.X.Min {
				continue
			}
			var work []Value
			for _, x := range of {
				work = append(work, num(x.curve[j].Y))
			}
			s.Points = append(s.Points, Point{q.X, middle(work).Value})
		}
		p.Series = append(p.Series, s)
	}
	return p
}
