package lab

import (
	"context"
	"fmt"
	"time"

	"latencylab/results"
	"latencylab/service"
	"latencylab/target"
	"latencylab/trial"
	"latencylab/workloads"
)

// Sources of the rows that a lab on sockets is held against.
const (
	predicted          = "predicted by the simulator"
	publishedOnSockets = "published, on sockets"
)

const (
	// settled is how often a target is asked whether anything is under way, and
	// settleFor how long it is waited for: no lab leaves work that lasts as long.
	settled   = 5 * time.Millisecond
	settleFor = time.Minute
)

// onSockets carries w out over the loopback interface against a target of its
// own in this process, and returns the Run beside the target's ledger once
// nothing is under way there.
func onSockets(o *Options, w *workloads.Workload) (*results.Run, *target.Ledger, error) {
	return beheld(o, w, func(*target.Target) (stop func()) { return func() {} })
}

// beheld is onSockets with something that looks at the target until stop.
func beheld(o *Options, w *workloads.Workload, look func(*target.Target) (stop func())) (*results.Run, *target.Ledger, error) {
	if o.interrupted() {
		return nil, nil, ErrInterrupted
	}
	r, l, err := measured(o, w, look)
	if err != nil && !o.interrupted() {
		return nil, nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	if o.interrupted() {
		return nil, nil, ErrInterrupted
	}
	return r, l, nil
}

func measured(o *Options, w *workloads.Workload, look func(*target.Target) (stop func())) (*results.Run, *target.Ledger, error) {
	p, err := trial.NewPlan(w, trial.Choices{BlocksOnly: true})
	if err != nil {
		return nil, nil, err
	}
	t, err := target.Start(target.Config{Graph: w.Services(), Seed: w.Seed})
	if err != nil {
		return nil, nil, err
	}
	defer t.Stop()
	s := &trial.Setup{CallHeaders: "on", Spin: -1, Interrupt: o.Interrupt}
	if s.Site, err = siteOf(t, w.Request.Path); err != nil {
		return nil, nil, err
	}
	p.Workload.TLS.Insecure = t.Secure() // its authority exists in this process alone
	if err := s.Check(p); err != nil {
		return nil, nil, err
	}
	stop := look(t)
	r, err := trial.Real(context.Background(), p, s)
	stop()
	if err != nil {
		return nil, nil, err
	}
	l, err := whenIdle(o, t)
	return r, l, err
}

// siteOf is where the requests of the target enter.
func siteOf(t *target.Target, path string) (*trial.Site, error) {
	scheme := "http://"
	if t.Secure() {
		scheme = "https://"
	}
	var at []string
	for _, a := range t.Replicas() {
		at = append(at, scheme+a.String())
	}
	return trial.ParseSite("", path, at)
}

// whenIdle returns the ledger once nothing is under way at the target: work of
// which the caller has gone may go on for long.
func whenIdle(o *Options, t *target.Target) (*target.Ledger, error) {
	tick := time.NewTicker(settled)
	defer tick.Stop()
	for end := time.Now().Add(settleFor); time.Now().Before(end); {
		if t.Backlog().InFlight == 0 {
			return t.Ledger(), nil
		}
		select {
		case <-o.Interrupt:
			return nil, ErrInterrupted
		case <-tick.C:
		}
	}
	return nil, fmt.Errorf("requests are still under way at the target %s after the last call", settleFor)
}

// oneCall is a workload of one call of the user, with this policy.
func oneCall(name, spec string, g *workloads.Graph, seed uint64) (*workloads.Workload, error) {
	w := workloads.New()
	w.Name, w.Graph, w.Service, w.Seed = name, g, g.Entry(), seed
	w.Rate, w.Arrivals, w.Requests, w.WarmupGiven = perUnit(10, time.Second), workloads.Constant, 1, true
	var err error
	w.Policies, err = policies(spec)
	return w, err
}

// userMS is how long the slowest call of the policy took its user, in ms: until
// its answer, or until the user gave it up.
func userMS(p *results.Policy) Value {
	longest := absent("no call ended")
	for _, d := range []*results.Dist{&p.OK, &p.Failed, &p.Censored} {
		if d.Max.Present && (!longest.Present || d.Max.Value/1e6 > longest.Value) {
			longest = num(d.Max.Value / 1e6)
		}
	}
	return longest
}

// cancels writes what a service stops when its caller leaves.
func cancels(c service.Cancel) string {
	switch c {
	case service.CancelQueued:
		return "queued"
	case service.CancelRunning:
		return "running"
	}
	return "none"
}
