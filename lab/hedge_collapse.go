package lab

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"latencylab/policy"
	"latencylab/service"
	"latencylab/sim"
	"latencylab/units"
	"latencylab/workloads"
)

// hedgeCollapseLab runs hedging at p95 for long, with and without what saves it.
var hedgeCollapseLab = Lab{
	Name:   "hedge-collapse",
	About:  "hedging at p95 for a million calls: without budget or cancel it can fall and stay down",
	takes:  takes{requests: true},
	seeds:  collapseSeeds,
	run:    runHedgeCollapse,
	real:   hedgeCollapseSockets,
	export: hedgeCollapseWorkloads,
}

const (
	collapseSeeds = 8
	collapseCalls = 1_000_000
	collapseRho   = 0.7
	// collapsedWork is the unfinished work of a server, in u, above which a run has
	// collapsed: over three times the mean of plain at this load.
	collapsedWork = 50
)

// collapseRows are the policies. %s stands for the delay: the p95 of plain.
var collapseRows = []struct {
	name, spec string
	cancel     service.Cancel
	published  float64 // collapsed runs of 8; -1: not published
}{
	{"plain", "plain", service.CancelNone, -1},
	{"hedge p95, no cancel", "hedge=%s", service.CancelNone, 5},
	{"hedge p95, budget 10%", "hedge=%s,budget=10%%", service.CancelNone, 0},
	{"hedge p95, budget 5%", "hedge=%s,budget=5%%", service.CancelNone, 0},
	{"hedge p95 tracked, no cancel", "hedge=p95", service.CancelNone, -1},
	{"hedge p95, server cancel", "hedge=%s", service.CancelRunning, -1},
}

// plainP95 returns the p95 of plain at the load, in u: the delay that who reads
// "hedge at p95" off a dashboard would set. It is the mean over a few seeds of
// runs that are long enough to tell it to about 1 %.
func plainP95(o *Options, rho float64) (float64, error) {
	const runs = 2
	var found [runs]Value
	err := each(runs, func(i int) error {
		r, err := qRun(o, qConfig(o, rho, service.CancelNone, 300_000, o.Seed+uint64(i)), nil)
		if err == nil {
			found[i] = qQuantile(r.Ledger, 0.95)
		}
		return err
	})
	sum := 0.0
	for _, f := range found {
		sum += f.Value
	}
	return round(sum/runs, 1), err
}

// qSpec parses a spec in which %s stands for a delay in u.
func qSpec(spec string, delay float64) (workloads.NamedPolicy, error) {
	return workloads.ParsePolicy(qSpecIn(qUnit, spec, delay))
}

// qSpecIn is the spec with the delay, 1 u being unit.
func qSpecIn(unit time.Duration, spec string, delay float64) string {
	if !strings.Contains(spec, "%s") {
		return spec
	}
	return fmt.Sprintf(spec, units.FormatDuration(time.Duration(delay*float64(unit)).Round(time.Microsecond)))
}

func hedgeCollapseWorkloads(o Options) ([]*workloads.Workload, error) {
	delay, err := plainP95(&o, collapseRho)
	if err != nil {
		return nil, err
	}
	var out []*workloads.Workload
	for i := range collapseRows {
		row := &collapseRows[i]
		np, err := qSpec(row.spec, delay)
		if err != nil {
			return nil, err
		}
		name := strings.NewReplacer(", ", "-", "%", "", " ", "-").Replace("hedge-collapse " + row.name)
		w, err := qWorkload(name, fmt.Sprintf("rho %g %s: %s", collapseRho, row.name, qHow), collapseRho, row.cancel,
			cmp.Or(o.Requests, collapseCalls), o.Seed, np.Spec)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

func runHedgeCollapse(o Options) (*Result, error) {
	delay, err := plainP95(&o, collapseRho)
	if err != nil {
		return nil, err
	}
	ps := make([]policy.Policy, len(collapseRows))
	for i := range collapseRows {
		np, err := qSpec(collapseRows[i].spec, delay)
		if err != nil {
			return nil, err
		}
		ps[i] = np.Policy
	}
	runs, err := collapseRuns(&o, ps)
	if err != nil {
		return nil, err
	}
	r := &Result{Columns: []string{"collapsed", "of", "extra_load", "work_u"}}
	plot := Plot{Title: fmt.Sprintf("unfinished work of a server, worst of %d runs; above %d u it has collapsed", collapseSeeds, collapsedWork),
		X: Axis{Label: "1,000 u"}, Y: Axis{Label: "u", Log: true, Min: 1, Max: 10_000}, Rows: 14}
	for i := range collapseRows {
		row := &collapseRows[i]
		name := fmt.Sprintf("rho %g %s", collapseRho, row.name)
		collapsed := 0
		var extra, work []Value
		worst := runs[i*collapseSeeds]
		for _, x := range runs[i*collapseSeeds : (i+1)*collapseSeeds] {
			if x.work > collapsedWork {
				collapsed++
			}
			if x.work > worst.work {
				worst = x
			}
			extra, work = append(extra, num(x.extra)), append(work, num(x.work))
		}
		r.add(name, count(collapsed), count(collapseSeeds), middle(extra), middle(work))
		if row.published >= 0 {
			r.refer(name, "another simulator", num(row.published), count(collapseSeeds), absent("not recorded"), absent("not recorded"))
		}
		plot.Series = append(plot.Series, Series{Name: row.name, Points: worst.curve})
	}
	r.Plots = append(r.Plots, plot)
	r.note("%s.", qHow)
	r.note("Each policy alone, rho %g, %d runs of %s calls. Delay: the p95 of plain, %g u. extra_load and work_u (at the\n"+
		"last arrival) are medians over the runs.", collapseRho, collapseSeeds, units.Count(cmp.Or(o.Requests, collapseCalls)), delay)
	r.note("A hedge adds 5 %% of load only while its delay is p95. When chance fills the queues, most calls are older than the\n" +
		"delay, all are sent twice, and rho 0.7 becomes 1.4: the queues never empty again. A delay that follows p95 grows\n" +
		"with the queues and so keeps to few hedges; a budget and a cancel that reaches the server bound them.")
	r.within("rho 0.7 hedge p95, no cancel", "collapsed", 3, 8)
	r.equals("rho 0.7 hedge p95, budget 10%", "collapsed", 0)
	r.equals("rho 0.7 hedge p95, server cancel", "collapsed", 0)
	r.equals("rho 0.7 plain", "collapsed", 0)
	return r, nil
}

// collapseRun is one run: the unfinished work at its end, and over time.
type collapseRun struct {
	work, extra float64
	curve       []Point
}

// collapseRuns runs each policy with every seed, in the order of the rows.
func collapseRuns(o *Options, ps []policy.Policy) ([]collapseRun, error) {
	n := len(collapseRows) * collapseSeeds
	runs := make([]collapseRun, n)
	err := each(n, func(i int) error {
		row := i / collapseSeeds
		cfg := qConfig(o, collapseRho, collapseRows[row].cancel, cmp.Or(o.Requests, collapseCalls), o.Seed+uint64(i%collapseSeeds))
		cfg.Policy = ps[row]
		// Copies of a collapsed run pile up; its end is known by then.
		cfg.Horizon = time.Nanosecond
		var curve []Point
		r, err := qRun(o, cfg, func(s sim.Sample) {
			if time.Duration(s.At)%qSpan(500) == 0 {
				curve = append(curve, Point{float64(s.At) / float64(qSpan(1000)), qWork(s)})
			}
		})
		if err != nil {
			return err
		}
		extra, _ := r.Ledger.ExtraLoad()
		runs[i] = collapseRun{r.work, extra, curve}
		return nil
	})
	return runs, err
}
