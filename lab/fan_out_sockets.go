package lab

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"latencylab/results"
	"latencylab/units"
	"latencylab/workloads"
)

const (
	// fanSlow is the time of a slow leaf on sockets, and fanLate what an answer
	// takes that has waited for one: the others take 15 ms and what the machine adds.
	fanSlow = 400 * time.Millisecond
	fanLate = 200 * time.Millisecond
	// fanAnswers and fanRate are how many answers each row asks for, and how fast.
	fanAnswers = 200
	fanRate    = 40
	// fanMost is the largest fan on sockets: an answer needs a connection for each
	// leaf.
	fanMost = 100
)

// fanWorkload asks a front for answers that need so many leaves.
func fanWorkload(o *Options, row int) (*workloads.Workload, error) {
	x := &fanOutRows[row]
	file := fmt.Sprintf("services:\n  front: {calls: [{to: leaf, fan: %d}]}\n  leaf: {time: \"uniform(5ms,15ms)\", slow: {share: %g%%, time: %s}}\n",
		x.leaves, 100*x.slow, fanSlow)
	g, err := workloads.ParseGraphText("leaves", []byte(file))
	if err != nil {
		return nil, err
	}
	w, err := oneCall(x.name, "plain", g, o.Seed)
	w.Rate, w.Requests = perUnit(fanRate, time.Second), cmp.Or(o.Requests, fanAnswers)
	w.Within = []time.Duration{fanLate}
	return w, err
}

// lateShare is the share of answers that took longer than the first threshold.
func lateShare(p *results.Policy) Value {
	if len(p.OKWithin) == 0 || !p.OKWithin[0].Share.Present {
		return absent("no call ended")
	}
	return num(1 - p.OKWithin[0].Share.Value)
}

func fanOutSockets(o Options) (*Result, error) {
	r := &Result{Columns: []string{"slow_share", "answers", "leaf_requests"}}
	for i := range fanOutRows {
		x := &fanOutRows[i]
		if x.leaves > fanMost {
			continue
		}
		w, err := fanWorkload(&o, i)
		if err != nil {
			return nil, err
		}
		run, l, err := onSockets(&o, w)
		if err != nil {
			return nil, err
		}
		sim, err := simulate(&o, w)
		if err != nil {
			return nil, err
		}
		got, foreseen := &run.Policies[0], &sim.Policies[0]
		asked := l.Service("leaf").Total().Arrived
		r.add(x.name, lateShare(got), count(got.Calls.OK), count(asked))
		r.refer(x.name, predicted, lateShare(foreseen), count(foreseen.Calls.OK), count(w.Requests*uint64(x.leaves)))
		exact := exactFanOut(x.leaves, x.slow)
		r.refer(x.name, "exact: 1-(1-p)^n", num(round(exact, 4)), absent("no number of answers"), absent("no number of answers"))
		r.equals(x.name, "leaf_requests", float64(w.Requests*uint64(x.leaves)))
		spread := 3 * math.Sqrt(exact*(1-exact)/float64(w.Requests))
		r.within(x.name, "slow_share", round(max(0, exact-spread), 3), round(min(1, exact+spread), 3))
		d := lateShare(got).Value - lateShare(foreseen).Value
		r.claim(math.Abs(d) <= 0.05, number(round(d, 4)), "%s: slow_share within 0.05 of the prediction", x.name)
	}
	r.note("Leaves take 5 to 15 ms, slow ones %s; an answer after more than %s has waited for one. %d answers a second, which\n"+
		"need a request to each leaf. The simulator draws the same times by the same keys. The range claimed of slow_share is\n"+
		"three standard errors of so few answers.", units.Duration(fanSlow), units.Duration(fanLate), fanRate)
	r.note("The row of 2,000 leaves is in virtual time only: one answer would need 2,000 connections.")
	return r, nil
}
