package lab

import (
	"fmt"
	"time"

	"latencylab/sim"
	"latencylab/target"
	"latencylab/workloads"
)

// walkFile are two services that work and then call on. Beside the next service
// each asks a probe, which works until the deadline that it is told has passed:
// how long that is, is what was left when the service called on.
func walkFile(api, next time.Duration) string {
	const probe = "{time: 10s, deadline: running}"
	return fmt.Sprintf(`services:
  api:
    time: %s
    calls:
      - {to: after-api, policy: plain, forward-deadline: true}
      - {to: service, policy: plain, forward-deadline: true}
  service:
    time: %s
    calls: [{to: after-service, policy: plain, forward-deadline: true}]
  after-api: %s
  after-service: %s
`, api, next, probe, probe)
}

// walkProbes are the probes in the order of the chain.
var walkProbes = []string{"after-api", "after-service"}

func budgetWalkSockets(o Options) (*Result, error) {
	r := &Result{Columns: []string{"remaining_ms"}}
	found := make([][2]Value, len(walkRows)) // measured, predicted
	err := beside(len(walkRows), len(walkRows), func(i int) error {
		x := &walkRows[i]
		g, err := workloads.ParseGraphText("chain of "+x.name, []byte(walkFile(x.spent[0], x.spent[1])))
		if err != nil {
			return err
		}
		w, err := oneCall(x.name, fmt.Sprintf("user:deadline=%s,deadline.wire=x-deadline-ms", x.budget), g, o.Seed)
		if err != nil {
			return err
		}
		_, l, err := onSockets(&o, w)
		if err != nil {
			return err
		}
		found[i][0] = walkLeft(l)
		found[i][1], err = walkPredicted(&o, w)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range walkRows {
		x := &walkRows[i]
		r.add(x.name, found[i][0])
		r.refer(x.name, predicted, found[i][1])
		want := Value{List: x.want}
		r.refer(x.name, "the budget less what was spent", want)
		for k, ms := range x.want {
			got := found[i][0].List[k]
			r.claim(got <= ms+20 && got >= max(0, ms-50), number(got), "%s: %s has %s ms or up to 50 ms less", x.name, walkProbes[k], number(ms))
		}
	}
	r.note("Each service asks a probe beside the next service, which works until the deadline that it is told has passed: how long\n" +
		"is what was left. 0: nothing was left, and nothing was sent. What is left is told in whole ms, rounded down.")
	return r, nil
}

// walkLeft is what was left at each probe, in ms; 0 where no call came.
func walkLeft(l *target.Ledger) Value {
	v := Value{List: []float64{}}
	for _, name := range walkProbes {
		total := l.Service(name).Total()
		v.List = append(v.List, round(float64(total.Work.Total().NS)/1e6, 1))
	}
	return v
}

// walkPredicted is the same in virtual time.
func walkPredicted(o *Options, w *workloads.Workload) (Value, error) {
	res, err := sim.Run(sim.Config{
		Policy: w.Policies[0].Policy, Graph: w.Graph, Seed: o.Seed, TargetSeed: o.Seed, Idempotent: true, Stop: o.interrupted,
		Arrivals: workloads.NewArrivals(w.Arrivals, w.Rate, o.Seed), Blocks: []workloads.Block{{Calls: 1}},
	})
	if err != nil {
		return Value{}, err
	}
	v := Value{List: []float64{}}
	for _, name := range walkProbes {
		for i := range w.Graph.Services {
			if w.Graph.Services[i].Name == name {
				v.List = append(v.List, res.Services[i].Work.Seconds()*1000)
			}
		}
	}
	return v, nil
}
