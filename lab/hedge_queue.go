package lab

import (
	"cmp"
	"fmt"
	"strings"

	"latencylab/results"
	"latencylab/service"
	"latencylab/workloads"
)

// hedgeQueueLab is hedging where a copy costs something: servers with queues.
var hedgeQueueLab = Lab{
	Name:   "hedge-queue",
	About:  "hedging where copies wait in queues, with and without server-side cancel",
	takes:  takes{requests: true},
	run:    runHedgeQueue,
	export: hedgeQueueWorkloads,
}

const hedgeQueueCalls = 400_000

// hedgeQueueRhos are the loads of the table, hedgeQueueCurve those of the
// picture beside them.
var (
	hedgeQueueRhos  = []float64{0.1, 0.3, 0.7}
	hedgeQueueCurve = []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}
)

// hedgeQueueRows are the policies at each load, with p50, p99, p99.9 in u and
// the extra load that another simulator, of other draws, found at each of
// hedgeQueueRhos; 0 is not known.
var hedgeQueueRows = []struct {
	name, spec string
	cancel     service.Cancel
	copies     service.Copies
	reference  [3][4]float64
}{
	{"plain", "plain", service.CancelNone, service.CopiesIndependent, [3][4]float64{{0.80, 33.3, 79.7}, {1.07, 56.7, 109}, {3.42, 142, 216}}},
	{"hedge, no cancel", "hedge=40ms", service.CancelNone, service.CopiesIndependent, [3][4]float64{{0.81, 5.9, 14.3, 0.070}, {1.20, 15.2, 43.5, 0.18}, {0, 0, 0, 0.999}}},
	{"hedge, ideal cancel", "hedge=40ms", service.CancelRunning, service.CopiesIndependent, [3][4]float64{{0.78, 5.1, 7.4, 0.043}, {0.94, 5.6, 8.3, 0.066}, {1.57, 7.0, 10.7, 0.16}}},
	{"tied after 0.01 u", "hedge=100us,cancel=tied", service.CancelNone, service.CopiesIndependent, [3][4]float64{{0.72, 14.2, 61.2}, {0.78, 17.4, 58.9}, {1.30, 26.3, 64.6}}},
	{"hedge, ideal cancel, same size", "hedge=40ms", service.CancelRunning, service.CopiesSame, [3][4]float64{}},
	{"hedge, ideal cancel, budget 5 %", "hedge=40ms,budget=5%", service.CancelRunning, service.CopiesIndependent, [3][4]float64{{0.78, 5.1, 7.9}, {0.97, 20.6, 65.6}, {2.98, 113, 194}}},
}

// hedgeQueueWorkloads is one workload for each row of the table: policies are
// compared each alone, since they would disturb each other on shared servers.
func hedgeQueueWorkloads(o Options) ([]*workloads.Workload, error) {
	return hedgeQueueAt(&o, hedgeQueueRhos, cmp.Or(o.Requests, hedgeQueueCalls))
}

func hedgeQueueAt(o *Options, rhos []float64, calls uint64) ([]*workloads.Workload, error) {
	var out []*workloads.Workload
	for _, rho := range rhos {
		for i := range hedgeQueueRows {
			row := &hedgeQueueRows[i]
			file := strings.NewReplacer(", ", "-", " %", "", " ", "-").Replace(fmt.Sprintf("hedge-queue rho %g %s", rho, row.name))
			w, err := qWorkload(file, fmt.Sprintf("rho %g %s: %s", rho, row.name, qHow), rho, row.cancel, calls, o.Seed, row.spec)
			if err != nil {
				return nil, err
			}
			w.Service.Copies = row.copies
			out = append(out, w)
		}
	}
	return out, nil
}

func runHedgeQueue(o Options) (*Result, error) {
	ws, err := hedgeQueueWorkloads(o)
	if err != nil {
		return nil, err
	}
	curve, err := hedgeQueueAt(&o, hedgeQueueCurve, max(1, cmp.Or(o.Requests, hedgeQueueCalls)/8))
	if err != nil {
		return nil, err
	}
	runs := make([]*results.Run, len(ws)+len(curve))
	err = each(len(runs), func(i int) (err error) {
		if i < len(ws) {
			runs[i], err = simulate(&o, ws[i])
		} else {
			runs[i], err = simulate(&o, curve[i-len(ws)])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &Result{Columns: []string{"p50_u", "p99_u", "p999_u", "extra_load"}}
	unit := float64(qUnit)
	for k, rho := range hedgeQueueRhos {
		for i := range hedgeQueueRows {
			row := &hedgeQueueRows[i]
			name := fmt.Sprintf("rho %g %s", rho, row.name)
			q := &runs[k*len(hedgeQueueRows)+i].Policies[0]
			p50 := in(q.Response.P50, unit)
			if !q.Response.P99.Present && p50.Present { // it says how long the run was
				p50 = absent("the queues grow until the end of the run")
			}
			r.add(name, p50, in(q.Response.P99, unit), in(q.Response.P999, unit), Value{Figure: q.ExtraLoad})
			p := row.reference[k]
			if p == ([4]float64{}) {
				continue
			}
			ref := []Value{num(p[0]), num(p[1]), num(p[2]), num(p[3])}
			if p[0] == 0 {
				ref[0] = absent("unstable: the queues grow without bound")
				ref[1], ref[2] = ref[0], ref[0]
			}
			if p[3] == 0 && row.spec != "plain" {
				ref[3] = absent("the reference does not say")
			}
			r.refer(name, "another simulator, 400,000 calls", ref...)
		}
	}
	r.hedgeQueuePlot(runs[len(ws):])
	r.note("%s;\none hedge after 4 u to another server. 1 u is 10 ms here.", qHow)
	r.note("\"Ideal cancel\" stops a loser that runs, at once, and assumes that copies are independent: both flatter hedging.")
	r.note("Tied copies are both sent, but only one is worked on: their extra load costs messages, not work. They find the\n" +
		"shorter queue and do nothing about a long service time.")
	r.note("\"Same size\": all that is drawn belongs to the request, so a copy is as slow as the first. A hedge then finds a shorter\n" +
		"queue at best, and pays for it with the work of both.")
	r.hedgeQueueClaims()
	return r, nil
}

func (r *Result) hedgeQueueClaims() {
	r.within("rho 0.3 plain", "p99_u", 52, 62)
	r.within("rho 0.3 hedge, no cancel", "p99_u", 13.5, 17)
	r.within("rho 0.3 hedge, no cancel", "extra_load", 0.165, 0.195)
	r.within("rho 0.3 hedge, ideal cancel", "p99_u", 5.2, 6)
	r.within("rho 0.3 hedge, ideal cancel", "extra_load", 0.06, 0.072)
	r.within("rho 0.3 tied after 0.01 u", "p99_u", 16, 19)
	same, apart := r.value("rho 0.7 hedge, ideal cancel, same size", "p99_u"), r.value("rho 0.7 hedge, ideal cancel", "p99_u")
	r.claim(same.Present && same.Value > 3*apart.Value, same.text()+" and "+apart.text(), "rho 0.7: p99 of copies of the same size is over 3 times that of independent ones")
	r.within("rho 0.7 hedge, no cancel", "extra_load", 0.95, 1)
	p99 := r.value("rho 0.7 hedge, no cancel", "p99_u")
	r.claim(!p99.Present, p99.text(), "rho 0.7 hedge, no cancel: no p99, the queues grow until the end of the run")
}

// hedgeQueuePlot is p99 against load for each policy. A policy without a p99
// has no point there.
func (r *Result) hedgeQueuePlot(runs []*results.Run) {
	p := Plot{Title: "p99 against load; a curve ends where queues grow without bound",
		X: Axis{Label: "rho, the load of first attempts", Min: 0.1, Max: 0.8}, Y: Axis{Label: "p99, u", Log: true, Min: 1, Max: 300}, Rows: 16}
	for i := range hedgeQueueRows {
		s := Series{Name: hedgeQueueRows[i].name}
		for k, rho := range hedgeQueueCurve {
			if f := runs[k*len(hedgeQueueRows)+i].Policies[0].Response.P99; f.Present {
				s.Points = append(s.Points, Point{rho, f.Value / float64(qUnit)})
			}
		}
		p.Series = append(p.Series, s)
	}
	r.Plots = append(r.Plots, p)
}
