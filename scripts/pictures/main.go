// Pictures draws the pictures of docs/policies from runs in virtual time.
//
//	go run ./scripts/pictures            all of them, into docs/policies
//	go run ./scripts/pictures hedge      one of them
//
// Everything is keyed by seed 1: the same files come out on every machine.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"latencylab/clock"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/sim"
	"latencylab/units"
	"latencylab/workloads"
)

// drawings are the pictures by the name of their page.
var drawings = []struct {
	name string
	draw func() (*chart, error)
}{
	{"deadline", deadlines}, {"timeouts", timeouts}, {"retry", retries}, {"backoff", backoffs}, {"hedge", hedges},
	{"budget", budgets}, {"breaker", breakers}, {"throttle", throttles}, {"limit", limits}, {"picker", pickers},
	{"presets", presetLoads}, {"when-not-to-hedge", whenNot},
}

func main() {
	var wg sync.WaitGroup
	errs := make([]error, len(drawings))
	found := len(os.Args) < 2
	for i, d := range drawings {
		if len(os.Args) > 1 && os.Args[1] != d.name {
			continue
		}
		found = true
		wg.Go(func() {
			c, err := d.draw()
			if err == nil {
				err = os.WriteFile(filepath.Join("docs", "policies", d.name+".svg"), []byte(c.svg()), 0o644)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			fmt.Fprintf(os.Stderr, "pictures: %s: %v\n", drawings[i].name, err)
			os.Exit(1)
		}
	}
	if !found {
		fmt.Fprintf(os.Stderr, "pictures: no picture %q\n", os.Args[1])
		os.Exit(2)
	}
}

// world is one run: a policy as users write it, a service in the words of a
// service file, arrivals a second and how many.
type world struct {
	spec, service string
	rate          float64
	calls         uint64
	constant      bool          // arrivals at equal distances
	burn          time.Duration // before the calls, and before outages count
	post          bool          // not idempotent
}

// run simulates w; see, if not nil, changes the Config.
func (w world) run(see func(*sim.Config)) (*sim.Result, error) {
	np, err := workloads.ParsePolicy(w.spec)
	if err != nil {
		return nil, err
	}
	svc, err := workloads.ParseService("picture", []byte(w.service))
	if err != nil {
		return nil, err
	}
	kind := workloads.Poisson
	if w.constant {
		kind = workloads.Constant
	}
	cfg := sim.Config{
		Policy: np.Policy, Service: svc, Seed: 1, TargetSeed: 1, Idempotent: !w.post,
		Arrivals: workloads.NewArrivals(kind, units.Rate(w.rate*1e6), 1),
		Blocks:   []workloads.Block{{Burn: w.burn, Calls: w.calls}}, Horizon: 20 * time.Second,
	}
	if see != nil {
		see(&cfg)
	}
	return sim.Run(cfg)
}

// over samples a run at multiples of a time and returns a line of what each
// sample shows, against the seconds since the burn-in.
func (w world) over(name string, every time.Duration, f func(sim.Sample) float64) (line, error) {
	l := line{name: name}
	_, err := w.run(func(c *sim.Config) {
		c.Sample = every
		c.OnSample = func(s sim.Sample) {
			l.points = append(l.points, point{(time.Duration(s.At) - w.burn).Seconds(), f(s)})
		}
	})
	return l, err
}

// tail returns the response time in ms that a share q of all calls stays below,
// failed ones ranking above every answer. +Inf: it falls among those.
func tail(l *ledger.Ledger, q float64) float64 {
	ns, ok := l.OK.QuantileOf(q, l.Calls.Scheduled)
	if !ok {
		return inf
	}
	return float64(ns) / 1e6
}

// each draws one line by running f at each of xs.
func each(name string, xs []float64, f func(x float64) (float64, error)) (line, error) {
	l := line{name: name}
	for _, x := range xs {
		y, err := f(x)
		if err != nil {
			return l, err
		}
		l.points = append(l.points, point{x, y})
	}
	return l, nil
}

// steps returns from, from+by … to.
func steps(from, to, by float64) []float64 {
	var xs []float64
	for i := 0; ; i++ {
		x := from + float64(i)*by
		if x > to+by/1e6 {
			return xs
		}
		xs = append(xs, x)
	}
}

// driveFailing lets a call fail at once every time and returns when it retried.
func driveFailing(np *policy.Policy, calls int) []time.Duration {
	var at []time.Duration
	c := policy.NewClient(np, 1, 1)
	for id := range calls {
		var k policy.Call
		now := clock.Time(0)
		a := k.Start(c, policy.Request{ID: uint64(id), Idempotent: true}, now)
		for a.Finish == policy.Going {
			if a.Attempt != 0 {
				if a.Attempt > 1 {
					at = append(at, time.Duration(now))
				}
				a = k.Reply(a.Slot, policy.Result{Disposition: policy.DispRetryable, Phase: policy.PhaseBody, Status: 503}, now)
				continue
			}
			now = a.Timer
			a = k.Advance(now)
		}
	}
	return at
}
