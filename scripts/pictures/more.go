package main

import (
	"fmt"
	"time"

	"latencylab/policy"
	"latencylab/sim"
	"latencylab/workloads"
)

// presetLoads: what each preset makes of a service that fails for a share of
// the attempts.
func presetLoads() (*chart, error) {
	c := &chart{title: "Attempts that presets make of a call, where a share of the attempts is answered 503",
		x: axis{title: "share of attempts that fail (200 calls a second, after two minutes of it)", low: 0, top: 1, ticks: steps(0, 1, 0.2), label: percent},
		y: axis{title: "attempts a call", low: 0, top: 2.5, ticks: steps(0, 2.5, 0.5)}}
	for _, p := range workloads.Presets() {
		l, err := each(p.Name, steps(0, 1, 0.05), func(x float64) (float64, error) {
			w := world{spec: p.Name, service: fmt.Sprintf("replicas: 3\ntime: uniform(5ms,9ms)\nstatus: {503: %.2f%%}\n", 100*x),
				rate: 200, calls: 12_000, burn: 2 * time.Minute}
			r, err := w.run(nil)
			if err != nil {
				return 0, err
			}
			a, _ := r.Ledger.Amplification()
			return a, nil
		})
		if err != nil {
			return nil, err
		}
		c.lines = append(c.lines, l)
	}
	return c, nil
}

// unit is 1 u of the labs about hedging with queues, and qMean the mean service
// time of their servers in u.
const (
	unit  = 10 * time.Millisecond
	qMean = 0.98 + 0.02*20
)

// whenNot: one hedge against the load, compared alone and by coin.
func whenNot() (*chart, error) {
	c := &chart{title: "A hedge after 4 u, where copies queue",
		x: axis{title: "load without hedges (rho): the share of time for which servers are busy", low: 0.1, top: 0.7, ticks: steps(0.1, 0.7, 0.1)},
		y: axis{title: "p99 in u", low: 2, top: 2000, log: true, ticks: []float64{2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000}}}
	const servers = "replicas: 20\nslots: 1\ntime: exponential(10ms)\nslow: {share: 2%, time: exponential(200ms)}\n"
	for _, v := range []struct {
		name, spec, cancel string
		coin               bool
	}{
		{"plain", "plain", "none", false},
		{"hedge, all calls", "hedge=40ms", "none", false},
		{"hedge, by coin", "hedge=40ms", "none", true},
		{"hedge, servers cancel", "hedge=40ms", "running", false},
	} {
		l, err := each(v.name, steps(0.1, 0.7, 0.05), func(rho float64) (float64, error) {
			w := world{spec: v.spec, service: servers + "cancel: " + v.cancel + "\n",
				rate: rho * 20 / qMean / unit.Seconds(), calls: 300_000}
			r, err := w.run(func(c *sim.Config) {
				if v.coin {
					c.Lanes = []policy.Policy{{}, c.Policy}
				}
			})
			if err != nil {
				return 0, err
			}
			ledger := r.Ledger
			if v.coin {
				ledger = r.Lanes[1].Data
			}
			return tail(ledger, 0.99) * float64(time.Millisecond) / float64(unit), nil
		})
		if err != nil {
			return nil, err
		}
		c.lines = append(c.lines, l)
	}
	return c, nil
}
