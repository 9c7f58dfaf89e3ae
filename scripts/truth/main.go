// Truth runs the simulator against results that are known exactly and prints
// what was expected, what came out and the relative error. It exits with 1 when
// an error is larger than its tolerance.
//
//	go run ./scripts/truth           all calls: about five minutes on one core
//	go run ./scripts/truth -part 25  a 25th of the calls: misses are then chance
//
// Times are in units of the mean service time, in the last model in ms. The
// seeds 1, 2 and 3 were not chosen.
//
// Tolerances do not know chance: p99.9 of M/M/1 at rho .9 has, over 30 million
// calls, a standard deviation of nearly 2 %. So the single queues are also
// computed from the same draws without any simulator, by Lindley's recursion. A
// run that differs from it fails; a figure that misses its closed form and
// equals the recursion's is marked so: then the draws of that seed are to blame
// and not the simulator. It counts as missed all the same.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"time"

	"latencylab/histo"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/sim"
	"latencylab/units"
	"latencylab/workloads"
)

// model is one system with a known result.
type model struct {
	name    string
	time    string
	slow    service.Slow
	servers int
	slots   int
	queue   int
	cancel  service.Cancel
	hedge   policy.Hedge
	lambda  float64 // arrivals per unit
	calls   uint64
	figures []figure
}

// figure is one number of the result.
type figure struct {
	name      string
	want      float64
	tolerance float64 // relative
	of        func(*sim.Result) float64
}

// Tolerances of means and shares, of p50 and p99, and of p99.9.
const (
	tolMean  = 0.01
	tolP99   = 0.02
	tolP999  = 0.04
	unit     = time.Millisecond
	noLimit  = -1
	millions = 1_000_000
)

func mean(want float64) figure {
	return figure{"mean", want, tolMean, func(r *sim.Result) float64 { return r.Ledger.OK.Mean() / float64(unit) }}
}

func quantile(q, want, tolerance float64) figure {
	return figure{"p" + units.Percentile(q), want, tolerance, func(r *sim.Result) float64 {
		ns, ok := r.Ledger.OK.QuantileOf(q, r.Ledger.Calls.Scheduled)
		if !ok {
			return math.Inf(1)
		}
		return float64(ns) / float64(unit)
	}}
}

func tail(p50, p99, p999 float64) []figure {
	return []figure{quantile(0.5, p50, tolP99), quantile(0.99, p99, tolP99), quantile(0.999, p999, tolP999)}
}

func blocked(want float64) figure {
	return figure{"blocked", want, tolMean, func(r *sim.Result) float64 {
		return float64(r.Ledger.Calls.Failed) / float64(r.Ledger.Calls.Scheduled)
	}}
}

func extra(want float64) figure {
	return figure{"extra", want, tolMean, func(r *sim.Result) float64 {
		x, _ := r.Ledger.ExtraLoad()
		return x
	}}
}

func with(f figure, more ...figure) []figure { return append([]figure{f}, more...) }

// models lists the systems. The formulas: Kleinrock, Queueing Systems I (1975)
// for the queues, M/D/1 by Erlang's sum in 80-digit arithmetic; Gardner,
// Harchol-Balter and Scheller-Wolf (ToN 2017) for redundancy; P(T > t) = S(t)
// before the hedge and S(t) S(t-D) after it.
func models() []model {
	const exp = "exponential(1ms)"
	two := policy.Hedge{Max: 1}
	return []model{
		{name: "M/M/1 rho .5", time: exp, slots: 1, queue: noLimit, lambda: 0.5, calls: 5 * millions, figures: with(mean(2), tail(1.386, 9.21, 13.816)...)},
		{name: "M/M/1 rho .8", time: exp, slots: 1, queue: noLimit, lambda: 0.8, calls: 5 * millions, figures: with(mean(5), tail(3.466, 23.026, 34.539)...)},
		{name: "M/M/1 rho .9", time: exp, slots: 1, queue: noLimit, lambda: 0.9, calls: 30 * millions, figures: with(mean(10), tail(6.931, 46.052, 69.078)...)},
		{name: "M/M/10 rho .8", time: exp, slots: 10, queue: noLimit, lambda: 8, calls: 5 * millions, figures: with(mean(1.2046), tail(0.9121, 4.946, 7.251)...)},
		{name: "M/D/1 rho .8", time: "1ms", slots: 1, queue: noLimit, lambda: 0.8, calls: 5 * millions, figures: with(mean(3), tail(2.276, 11.356, 16.7)...)},
		{name: "M/D/1 rho .5", time: "1ms", slots: 1, queue: noLimit, lambda: 0.5, calls: 5 * millions, figures: with(mean(1.5), tail(1, 4.336, 6.168)...)},
		{name: "M/M/1/10 rho .8", time: exp, slots: 1, queue: 9, lambda: 0.8, calls: 5 * millions, figures: with(blocked(0.02349))},
		{name: "Erlang B 10/8", time: exp, slots: 10, queue: 0, lambda: 8, calls: 5 * millions, figures: with(blocked(0.12166))},
		{name: "redundancy-1 of 10", time: exp, servers: 10, slots: 1, queue: noLimit, cancel: service.CancelRunning, lambda: 7, calls: 5 * millions, figures: with(mean(3.3333))},
		{name: "redundancy-2 of 10", time: exp, servers: 10, slots: 1, queue: noLimit, cancel: service.CancelRunning, hedge: two, lambda: 7, calls: 5 * millions, figures: with(mean(1.1016))},
		{name: "hedge Exp(1) D=ln 20", time: exp, servers: 3, hedge: policy.Hedge{Max: 1, Delay: 2995732}, lambda: 1, calls: 5 * millions,
			figures: with(extra(0.05), mean(0.975), quantile(0.99, 3.801, tolP99), quantile(0.999, 4.952, tolP999))},
		{name: "hedge Exp(1) D=0", time: exp, servers: 3, hedge: two, lambda: 1, calls: 5 * millions,
			figures: with(extra(1), mean(0.5), quantile(0.99, 2.303, tolP99), quantile(0.999, 3.454, tolP999))},
		{name: "hedge 2 % at 1 s, ms", time: "uniform(20ms,60ms)", slow: service.Slow{Share: 0.02, Time: service.Constant(time.Second)}, servers: 3,
			hedge: policy.Hedge{Max: 1, Delay: 58 * time.Millisecond}, lambda: 1, calls: 5 * millions,
			figures: with(extra(0.069), append(tail(40.41, 98.41, 116.78), quantile(0.9999, 1000, tolP999))...)},
	}
}

func (m *model) config(seed, part uint64) (sim.Config, error) {
	d, err := service.ParseDist(m.time)
	if err != nil {
		return sim.Config{}, err
	}
	return sim.Config{
		Policy:     policy.Policy{Hedge: m.hedge},
		Service:    &service.Spec{Replicas: m.servers, Time: d, Slow: m.slow, Slots: m.slots, Queue: m.queue, Cancel: m.cancel},
		Arrivals:   workloads.NewArrivals(workloads.Poisson, units.Rate(math.Round(m.lambda*1000*1e6)), seed),
		Seed:       seed,
		TargetSeed: seed,
		Idempotent: true,
		Blocks:     []workloads.Block{{Calls: m.calls / part}},
	}, nil
}

// lindley computes the responses of a single queue from its draws: a call waits
// until the one before it is done (Lindley, "The theory of queues with a single
// server", 1952).
func (m *model) lindley(cfg *sim.Config) *histo.Histogram {
	h := histo.New()
	var at, free time.Duration
	for i := range cfg.Blocks[0].Calls {
		at += cfg.Arrivals.Gap(i)
		drawn, _ := cfg.Service.Draw(cfg.TargetSeed, 0, i, 1)
		free = max(free, at) + drawn
		h.Record(int64(free - at))
	}
	return h
}

// single says that the model is one server with an endless queue, and plain.
func (m *model) single() bool {
	return m.servers <= 1 && m.slots == 1 && m.queue == noLimit && m.hedge.Max == 0
}

// same compares two histograms in what is printed and in their sums.
func same(a, b *histo.Histogram) bool {
	for _, q := range []float64{0.5, 0.99, 0.999, 0.9999} {
		if a.Quantile(q) != b.Quantile(q) {
			return false
		}
	}
	return a.Count() == b.Count() && a.Sum() == b.Sum() && a.Min() == b.Min() && a.Max() == b.Max()
}

// outcome is a run of one model with one seed.
type outcome struct {
	model *model
	seed  uint64
	exact bool // equal to the recursion
	r     *sim.Result
	err   error
	took  time.Duration
	done  chan struct{}
}

func (o *outcome) run(part uint64) {
	defer close(o.done)
	begin := time.Now()
	cfg, err := o.model.config(o.seed, part)
	if err == nil {
		o.r, err = sim.Run(cfg)
	}
	if err == nil {
		err = o.r.Ledger.Check()
	}
	o.took = time.Since(begin)
	if err == nil && o.model.single() {
		if o.exact = same(o.r.Ledger.OK, o.model.lindley(&cfg)); !o.exact {
			err = errors.New("differs from Lindley's recursion on the same draws")
		}
	}
	o.err = err
}

// print writes the rows of the outcome and returns how many figures missed.
func (o *outcome) print() (misses int) {
	if o.err != nil {
		fmt.Printf("%-21s %4d  %v\n", o.model.name, o.seed, o.err)
		return 1
	}
	for _, f := range o.model.figures {
		got := f.of(o.r)
		e, word := got/f.want-1, "pass"
		if !(math.Abs(e) <= f.tolerance) {
			word = "MISS"
			misses++
			if o.exact {
				word += ", as does Lindley's recursion on these draws"
			}
		}
		fmt.Printf("%-21s %4d  %-8s %10.4f %10.4f %+7.2f %% %6.0f %%  %s\n", o.model.name, o.seed, f.name, f.want, got, 100*e, 100*f.tolerance, word)
	}
	return misses
}

func main() {
	part := flag.Uint64("part", 1, "run this part of the calls: 25 is a 25th")
	parallel := flag.Int("parallel", runtime.GOMAXPROCS(0), "runs at once")
	flag.Parse()
	if *part == 0 || *parallel < 1 {
		fmt.Fprintln(os.Stderr, "truth: part and parallel must be 1 or more")
		os.Exit(2)
	}
	ms := models()
	var all []*outcome
	for i := range ms {
		for seed := uint64(1); seed <= 3; seed++ {
			all = append(all, &outcome{model: &ms[i], seed: seed, done: make(chan struct{})})
		}
	}
	work := make(chan *outcome)
	var wg sync.WaitGroup
	for range *parallel {
		wg.Go(func() {
			for o := range work {
				o.run(*part)
			}
		})
	}
	go func() {
		for _, o := range all {
			work <- o
		}
		close(work)
	}()
	fmt.Printf("%-21s %4s  %-8s %10s %10s %9s %8s\n", "model", "seed", "figure", "expected", "got", "error", "limit")
	var misses int
	var calls uint64
	var took time.Duration
	for _, o := range all {
		<-o.done
		misses += o.print()
		if o.r != nil {
			calls += o.r.Arrivals
		}
		took += o.took
	}
	wg.Wait()
	fmt.Printf("%s calls, %.2f M/s on one core; %d figures missed\n", units.Count(calls), float64(calls)/took.Seconds()/1e6, misses)
	if misses > 0 {
		os.Exit(1)
	}
}
