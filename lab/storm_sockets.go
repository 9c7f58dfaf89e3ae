package lab

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"latencylab/results"
	"latencylab/service"
	"latencylab/units"
	"latencylab/workloads"
)

// The storm on sockets: the same ticks in parts of the backoff, shorter, and with
// a tenth of the calls in each. The outage lasts longer than all waits of a call.
const (
	stormRealTick    = 40 * time.Millisecond
	stormRealNew     = stormNew / 10
	stormRealOutage  = 4 * time.Second
	stormRealAfter   = 8 * time.Second
	stormRealEnd     = 3 * time.Second // the part of it that ok_at_end is of
	stormRealWell    = 0.9             // share of the calls of a second that end ok when the server has recovered
	stormRealRetries = 5               // rows with more would need too many attempts
)

// stormRealNever is stormNever of the shorter time.
var stormRealNever = "not within " + units.Duration(stormRealAfter)

// stormRealWorkload is the row, scaled.
func stormRealWorkload(o *Options, row int) (*workloads.Workload, error) {
	x := &stormRows[row]
	d, ok := service.DisciplineNamed(cmp.Or(o.Discipline, "proportional"))
	if !ok {
		return nil, fmt.Errorf("no discipline %q", o.Discipline)
	}
	w := workloads.New()
	w.Name, w.Seed = x.name, o.Seed
	w.Rate, w.Arrivals = perUnit(stormRealNew, stormRealTick), workloads.Constant
	w.Duration, w.WarmupGiven = stormRealOutage+stormRealAfter, true
	w.Service = &service.Spec{
		Capacity:   service.Capacity{Requests: stormCapacity / 10, Per: stormRealTick},
		Thrash:     service.Thrash{Above: stormAbove / 10, Factor: stormHalf},
		Discipline: d, Queue: -1,
		Outages: []service.Outage{{For: stormRealOutage, Ending: service.Ending{Status: 503}}},
	}
	var err error
	w.Policies, err = policies(strings.ReplaceAll(x.spec, "backoff=1s", fmt.Sprintf("backoff=%s", 10*stormRealTick)))
	return w, err
}

// stormSeen is what a Run says of the time after the outage.
func stormSeen(p *results.Policy) []Value {
	recovered := absent(stormRealNever)
	var ok, all float64
	for _, v := range p.Intervals {
		after := time.Duration(v.StartNS) - stormRealOutage
		if after < 0 || time.Duration(v.StartNS) >= stormRealOutage+stormRealAfter {
			continue
		}
		n := float64(v.OK + v.Absent)
		if !recovered.Present && n > 0 && float64(v.OK) >= stormRealWell*n {
			recovered = num(round(after.Seconds(), 1))
		}
		if after >= stormRealAfter-stormRealEnd {
			ok, all = ok+float64(v.OK), all+n
		}
	}
	share := absent("no call ended")
	if all > 0 {
		share = num(round(ok/all, 3))
	}
	return []Value{recovered, share, Value{Figure: p.Amplification}}
}

func stormSockets(o Options) (*Result, error) {
	r := &Result{Columns: []string{"recovered_s", "ok_at_end", "amplification"}}
	var rows []int
	for i := range stormRows {
		if stormRows[i].retries <= stormRealRetries {
			rows = append(rows, i)
		}
	}
	found := make([][2][]Value, len(rows)) // measured, predicted
	err := beside(len(rows), len(rows), func(i int) error {
		w, err := stormRealWorkload(&o, rows[i])
		if err != nil {
			return err
		}
		run, _, err := onSockets(&o, w)
		if err != nil {
			return err
		}
		sim, err := simulate(&o, w)
		if err == nil {
			found[i] = [2][]Value{stormSeen(&run.Policies[0]), stormSeen(&sim.Policies[0])}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		x := &stormRows[row]
		r.add(x.name, found[i][0]...)
		r.refer(x.name, predicted, found[i][1]...)
		switch {
		case o.Discipline != "" && o.Discipline != "proportional" && x.retries > 0: // another world than the published one
		case x.recovered < 0:
			r.says(x.name, "recovered_s", stormRealNever)
		default:
			r.within(x.name, "recovered_s", x.recovered, x.recovered+2)
		}
	}
	r.note("Ticks of %s: %d new calls each, a server that answers %d, or half of that when more than %d ask; the outage lasts\n"+
		"%s, and a backoff of 1 s is one of %s here. recovered_s: from the end of the outage to the first second in which\n"+
		"%.0f %% of the calls that end are ok; ok_at_end is of the last %s; amplification of all.",
		units.Duration(stormRealTick), stormRealNew, stormCapacity/10, stormAbove/10, units.Duration(stormRealOutage), units.Duration(10*stormRealTick), 100*stormRealWell, units.Duration(stormRealEnd))
	r.note("Each policy has a server of its own; all run beside each other. The row of 25 retries is in virtual time only.")
	return r, nil
}
