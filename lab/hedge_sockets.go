package lab

import (
	"fmt"
	"time"

	"latencylab/results"
	"latencylab/service"
	"latencylab/units"
	"latencylab/workloads"
)

// System Q on sockets: 1 u is 2 ms, and a freeze brings about at once what
// chance would take long for.
const (
	qRealUnit   = 2 * time.Millisecond
	qRealBefore = 500 * qRealUnit // until the freeze
	qRealFreeze = 100 * qRealUnit
	qRealAfter  = 1000 * qRealUnit
)

// qRealRows are the policies, in which %s stands for the delay, and what the
// servers stop. The first has nothing that bounds its hedges.
var qRealRows = []struct {
	name, spec string
	cancel     service.Cancel
}{
	{"hedge p95, no cancel", "hedge=%s", service.CancelNone},
	{"hedge p95, budget 10%", "hedge=%s,budget=10%%", service.CancelNone},
	{"hedge p95, server cancel", "hedge=%s", service.CancelRunning},
	{"hedge p95, budget 10%, server cancel", "hedge=%s,budget=10%%", service.CancelRunning},
}

// qRealWorkload is a policy at a load, with a hedge after so many u, and a freeze
// after which the calls go on for a time.
func qRealWorkload(o *Options, name, spec string, cancel service.Cancel, rho, delay float64, after time.Duration) (*workloads.Workload, error) {
	w := workloads.New()
	w.Name, w.Seed, w.WarmupGiven = name, o.Seed, true
	w.Rate = perUnit(rho*qServers/qMean, qRealUnit)
	if w.Requests = o.Requests; w.Requests == 0 {
		w.Duration = qRealBefore + qRealFreeze + after
	}
	file := fmt.Sprintf("replicas: %d\nslots: 1\ncancel: %s\ntime: exponential(%s)\nslow: {share: 2%%, time: exponential(%s)}\nstall: {at: %s, for: %s}\n",
		qServers, cancels(cancel), qRealUnit, 20*qRealUnit, qRealBefore, qRealFreeze)
	g, err := workloads.ParseGraphText("system Q", []byte(file))
	if err != nil {
		return nil, err
	}
	w.Service = g.Entry()
	w.Policies, err = policies(qSpecIn(qRealUnit, spec, delay))
	return w, err
}

// qRealSeen is the median of the last full second, in u, and the extra load.
func qRealSeen(p *results.Policy) []Value {
	last := absent("no call ended in the last second")
	for _, v := range p.Intervals {
		if v.P50.Present && v.LengthNS >= int64(time.Second)/2 {
			last = in(v.P50, float64(qRealUnit))
		}
	}
	return []Value{last, Value{Figure: p.ExtraLoad}}
}

func hedgeCollapseSockets(o Options) (*Result, error) {
	return hedgeCollapseAt(&o, []float64{0.5, 0.7}, len(qRealRows))
}

// hedgeCollapseAt carries the first rows out at each load, the last of which is
// 0.7. One at a time: the larger load needs most of a core.
func hedgeCollapseAt(o *Options, rhos []float64, rows int) (*Result, error) {
	r := &Result{Columns: []string{"p50_end_u", "extra_load"}}
	for _, rho := range rhos {
		delay, err := plainP95(o, rho)
		if err != nil {
			return nil, err
		}
		for i := range qRealRows[:rows] {
			x := &qRealRows[i]
			w, err := qRealWorkload(o, x.name, x.spec, x.cancel, rho, delay, qRealAfter)
			if err != nil {
				return nil, err
			}
			run, _, err := onSockets(o, w)
			if err != nil {
				return nil, err
			}
			sim, err := simulate(o, w)
			if err != nil {
				return nil, err
			}
			name := fmt.Sprintf("rho %g %s", rho, x.name)
			r.add(name, qRealSeen(&run.Policies[0])...)
			r.refer(name, predicted, qRealSeen(&sim.Policies[0])...)
		}
		r.note("Delay at rho %g: the p95 of plain, %g u.", rho, delay)
	}
	down := r.value("rho 0.7 "+qRealRows[0].name, "p50_end_u")
	for i := range qRealRows[1:rows] {
		name := "rho 0.7 " + qRealRows[1+i].name
		v := r.value(name, "p50_end_u")
		r.claim(v.Present && down.Present && v.Value < down.Value/2, v.text(), "%s: p50_end_u less than half of that without budget and cancel (%s)", name, down.text())
	}
	r.note("1 u is %s; %d servers of one slot, which all freeze for %s after %s. p50_end_u: the median of the calls\n"+
		"that end in the last full second; the calls go on for %s after the freeze.", units.Duration(qRealUnit), qServers, units.Duration(qRealFreeze), units.Duration(qRealBefore), units.Duration(qRealAfter))
	return r, nil
}
