package sim

import (
	"fmt"
	"slices"
	"time"

	"latencylab/clock"
	"latencylab/service"
	"latencylab/workloads"
)

// Pulse is a test for a bad state that a system may stay in: all servers stop
// for a while, and some time after they have gone on their unfinished work is
// read (Bronson, Aghayev, Charapko and Zhu, "Metastable failures in distributed
// systems", HotOS 2021: the trigger is gone, is the state?).
type Pulse struct {
	// Lead is how long calls arrive before the servers stop, above 0.
	Lead time.Duration
	// For is how long they stop, above 0.
	For time.Duration
	// Look is how long after they go on their work is read, above 0.
	Look time.Duration
	// Above is the mean unfinished work of a server with which they count as not
	// recovered. 0 means four times what it was before: a policy that does not
	// hedge is the better measure, where there is one.
	Above time.Duration
}

// Pulsed is what a Pulse found. Work is the mean unfinished work of a server.
type Pulsed struct {
	Before  time.Duration // mean of 64 readings in the second half of the lead
	Release time.Duration // when the servers go on
	After   time.Duration // at the look
	Above   time.Duration // as in Pulse, with the default filled in
	// Recovered says that After is not above Above and that the run had room for
	// all that was open.
	Recovered bool
	// Result is of the whole run: the lead is its burn-in, and its data begins
	// when the servers stop.
	Result *Result
}

// readings is the number of readings before the pulse.
const readings = 64

// RunPulse simulates cfg with a pulse. Of cfg, Blocks and Horizon are not used:
// there is one block, and calls that are open at the look are given up then.
func RunPulse(cfg Config, p Pulse) (*Pulsed, error) {
	switch {
	case p.Lead <= 0 || p.For <= 0 || p.Look <= 0:
		return nil, fmt.Errorf("pulse: lead = %v, for = %v and look = %v, want more than 0", p.Lead, p.For, p.Look)
	case p.Above < 0:
		return nil, fmt.Errorf("pulse: above = %v, want 0 or more", p.Above)
	case cfg.Service == nil:
		return nil, fmt.Errorf("pulse: %w", errNoService)
	}
	cfg.Blocks = []workloads.Block{{Burn: p.Lead, Data: p.For + p.Look}}
	cfg.Horizon = 1
	svc := *cfg.Service
	svc.Stalls = append(slices.Clone(svc.Stalls), service.Stall{For: service.Constant(p.For)})
	cfg.Service = &svc
	var at []clock.Time
	for i := range readings {
		at = append(at, clock.Time(p.Lead/2+p.Lead/2/readings*time.Duration(i)))
	}
	at = append(at, clock.Time(p.Lead+p.For), clock.Time(p.Lead+p.For+p.Look))
	var work []time.Duration
	cfg.readAt, cfg.read = at, func(s Sample) { work = append(work, s.Work/time.Duration(svc.Servers())) }
	r, err := Run(cfg)
	if err != nil {
		return nil, err
	}
	out := &Pulsed{Above: p.Above, Result: r}
	if len(work) < len(at) { // it was stopped, or had no room
		return out, nil
	}
	var sum float64
	for _, w := range work[:readings] {
		sum += float64(w)
	}
	out.Before, out.Release, out.After = time.Duration(sum/readings), work[readings], work[readings+1]
	if out.Above == 0 {
		out.Above = 4 * out.Before
	}
	out.Recovered = out.After <= out.Above
	return out, nil
}
