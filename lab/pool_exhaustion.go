package lab

import (
	"time"

	"latencylab/results"
	"latencylab/workloads"
)

// poolExhaustionLab is a pool of connections of which some hang.
var poolExhaustionLab = Lab{
	Name:     "pool-exhaustion",
	About:    "calls that hang hold the connections that all others need: a pool with and without a timeout",
	run:      runPoolExhaustion,
	real:     poolExhaustionSockets,
	noExport: "a ceiling on connections counts on sockets only",
}

const (
	poolRate    = 300 // calls a second, each of 5 ms
	poolHang    = 0.1
	poolSize    = 20
	poolFast    = 200 * time.Millisecond
	poolService = "time: 5ms\nfault: {hang: 10%}\n"
	poolLasts   = 3 * time.Second
	noCeiling   = "virtual time knows no connections"
)

var poolRows = []struct {
	name, spec  string
	connections int // 0: no ceiling
}{
	{"no ceiling", "plain:deadline=1s", 0},
	{"20 connections", "plain:deadline=1s", poolSize},
	{"20 connections, attempt-timeout=100ms", "timeout:deadline=1s,attempt-timeout=100ms", poolSize},
}

func poolWorkload(o *Options, row int) (*workloads.Workload, error) {
	x := &poolRows[row]
	g, err := workloads.ParseGraphText("pool", []byte(poolService))
	if err != nil {
		return nil, err
	}
	w := workloads.New()
	w.Name, w.Service, w.Seed, w.WarmupGiven = x.name, g.Entry(), o.Seed, true
	w.Rate, w.Arrivals, w.Duration, w.Connections = perUnit(poolRate, time.Second), workloads.Constant, poolLasts, x.connections
	w.Within = []time.Duration{poolFast}
	w.Policies, err = policies(x.spec)
	return w, err
}

// poolSeen is the share of calls that ended ok within the threshold, and how
// long attempts waited for a connection.
func poolSeen(p *results.Policy) []Value {
	return []Value{{Figure: p.OKWithin[0].Share}, in(p.PoolWait.P99, 1e6)}
}

// poolPredicted is a row of the simulator.
func poolPredicted(o *Options, row int) ([]Value, error) {
	if poolRows[row].connections > 0 {
		return []Value{absent(noCeiling), absent(noCeiling)}, nil
	}
	w, err := poolWorkload(o, row)
	if err != nil {
		return nil, err
	}
	r, err := simulate(o, w)
	if err != nil {
		return nil, err
	}
	return []Value{{Figure: r.Policies[0].OKWithin[0].Share}, absent(noCeiling)}, nil
}

func runPoolExhaustion(o Options) (*Result, error) {
	return poolResult(&o, func(i int) ([]Value, error) { return poolPredicted(&o, i) })
}

func poolExhaustionSockets(o Options) (*Result, error) {
	r, err := poolResult(&o, func(i int) ([]Value, error) {
		w, err := poolWorkload(&o, i)
		if err != nil {
			return nil, err
		}
		run, _, err := onSockets(&o, w)
		if err != nil {
			return nil, err
		}
		return poolSeen(&run.Policies[0]), nil
	})
	if err != nil {
		return nil, err
	}
	for i := range poolRows {
		foreseen, err := poolPredicted(&o, i)
		if err != nil {
			return nil, err
		}
		r.refer(poolRows[i].name, predicted, foreseen...)
	}
	starved, saved := r.value(poolRows[1].name, "ok_fast"), r.value(poolRows[2].name, "ok_fast")
	r.claim(starved.Present && saved.Present && starved.Value < saved.Value/2, starved.text(), "%s: ok_fast less than half of that with the timeout (%s)", poolRows[1].name, saved.text())
	r.within(poolRows[2].name, "ok_fast", 0.85, 0.95)
	return r, nil
}

func poolResult(o *Options, row func(i int) ([]Value, error)) (*Result, error) {
	r := &Result{Columns: []string{"ok_fast", "pool_wait_p99_ms"}}
	found := make([][]Value, len(poolRows))
	err := beside(len(poolRows), len(poolRows), func(i int) (err error) {
		found[i], err = row(i)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range poolRows {
		r.add(poolRows[i].name, found[i]...)
	}
	r.refer(poolRows[0].name, "exact: those that do not hang", num(1-poolHang), absent(noCeiling))
	r.within(poolRows[0].name, "ok_fast", 0.85, 0.95)
	r.note("%d calls a second, of which %g %% hang until the user gives up after 1 s; the others take 5 ms. ok_fast: the share of all\n"+
		"calls that end ok within 200 ms. 30 calls hang at a time: more than the pool has connections, so calls that\n"+
		"have nothing wrong wait for one. With the timeout 3 hang at a time.", poolRate, 100*poolHang)
	return r, nil
}
