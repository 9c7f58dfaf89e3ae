// Truth runs the simulator against results that are known exactly and prints
// what was expected, what came out and the relative error. It exits with 1 when
// an error is larger than its tolerance.
//
//	go run ./scripts/truth           all calls: about ten minutes on one core
//	go run ./scripts/truth -part 25  a 25th of the calls: misses are then chance
//
// Times are in units of the mean service time, in the model named ms in ms. The
// seeds 1, 2 and 3 were not chosen.
//
// A call has at most eight attempts open, so ten copies at once are ten calls of
// a hop that needs one of them; the fan-outs are hops that need all.
//
// Tolerances do not know chance: p99.9 of M/M/1 at rho .9 has, over 30 million
// calls, a standard deviation of nearly 2 %. So what can be is also computed from
// the same draws without any simulator: queues by Lindley's recursion, fan-outs
// by counting slow leaves. A run that differs from that fails; a figure that
// misses its closed form and equals the other computation's is marked so: then
// the draws of that seed are to blame and not the simulator. It counts as missed
// all the same.
package main

import (
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
	choices int // of least in flight; 0: random
	fan     int // calls of a hop between the users and the service; 0: there is none
	need    int
	lambda  float64 // arrivals per unit
	burn    time.Duration
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

// Tolerances of means and shares, of p50 and p99, and of p99.9; those of the
// fan-outs go by their numbers of calls, of which 6 % are four standard deviations
// in the larger one.
const (
	tolMean  = 0.01
	tolP99   = 0.02
	tolP999  = 0.04
	tolFan   = 0.02
	tolFan2k = 0.06
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

// slow is the share of calls that met a slow leaf.
func slow(p float64, n int, tolerance float64) figure {
	return figure{"slow", 1 - math.Pow(1-p, float64(n)), tolerance, func(r *sim.Result) float64 {
		return 1 - float64(r.Ledger.OK.CountAtOrBelow(int64(500*unit)))/float64(r.Ledger.Calls.OK)
	}}
}

// against is the mean over that of M/M/1, 1/(1-rho): below 1 the copies pay. Two
// copies make two queues of load 2 rho, and the shorter of two independent
// exponential times of mean 1/(1-2rho) is half as long: below 1 while rho < 1/3.
func against(rho float64) figure {
	return figure{"of M/M/1", (1 - rho) / (2 * (1 - 2*rho)), tolMean, func(r *sim.Result) float64 {
		return r.Ledger.OK.Mean() / float64(unit) * (1 - rho)
	}}
}

func with(f figure, more ...figure) []figure { return append([]figure{f}, more...) }

// models lists the systems. The formulas: Kleinrock, Queueing Systems I (1975)
// for the queues, M/D/1 by Erlang's sum in 80-digit arithmetic; Gardner,
// Harchol-Balter and Scheller-Wolf (ToN 2017) for redundancy; Mitzenmacher (2001)
// for the power of d choices, whose limit of endless servers 1,000 come close to;
// Vulimiri et al. (CoNEXT 2013) for two copies that are not cancelled; P(T > t) =
// S(t) before the hedge and S(t) S(t-D) after it; 1 - (1-p)^n for fan-outs (Dean
// and Barroso, CACM 2013).
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
		{name: "redundancy-10 of 10", time: exp, servers: 10, slots: 1, queue: noLimit, cancel: service.CancelRunning, fan: 10, need: 1, lambda: 7, calls: 5 * millions, figures: with(mean(1.0 / 3))},
		{name: "1 choice of 1000", time: exp, servers: 1000, slots: 1, queue: noLimit, choices: 1, lambda: 900, burn: 2000 * unit, calls: 5 * millions, figures: with(mean(10))},
		{name: "2 choices of 1000", time: exp, servers: 1000, slots: 1, queue: noLimit, choices: 2, lambda: 900, burn: 200 * unit, calls: 5 * millions, figures: with(mean(2.6141))},
		{name: "3 choices of 1000", time: exp, servers: 1000, slots: 1, queue: noLimit, choices: 3, lambda: 900, burn: 200 * unit, calls: 5 * millions, figures: with(mean(2.0279))},
		{name: "two copies rho .25", time: exp, servers: 1000, slots: 1, queue: noLimit, hedge: two, lambda: 250, burn: 200 * unit, calls: 5 * millions, figures: with(against(0.25))},
		{name: "two copies rho .42", time: exp, servers: 1000, slots: 1, queue: noLimit, hedge: two, lambda: 420, burn: 500 * unit, calls: 5 * millions, figures: with(against(0.42))},
		{name: "hedge Exp(1) D=ln 20", time: exp, servers: 3, hedge: policy.Hedge{Max: 1, Delay: 2995732}, lambda: 1, calls: 5 * millions,
			figures: with(extra(0.05), mean(0.975), quantile(0.99, 3.801, tolP99), quantile(0.999, 4.952, tolP999))},
		{name: "hedge Exp(1) D=0", time: exp, servers: 3, hedge: two, lambda: 1, calls: 5 * millions,
			figures: with(extra(1), mean(0.5), quantile(0.99, 2.303, tolP99), quantile(0.999, 3.454, tolP999))},
		{name: "hedge 2 % at 1 s, ms", time: "uniform(20ms,60ms)", slow: service.Slow{Share: 0.02, Time: service.Constant(time.Second)}, servers: 3,
			hedge: policy.Hedge{Max: 1, Delay: 58 * time.Millisecond}, lambda: 1, calls: 5 * millions,
			figures: with(extra(0.069), append(tail(40.41, 98.41, 116.78), quantile(0.9999, 1000, tolP999))...)},
		{name: "fan-out 100, 1 %", time: "1ms", slow: service.Slow{Share: 0.01, Time: service.Constant(time.Second)}, servers: 100, fan: 100, lambda: 0.1, calls: 100_000,
			figures: with(slow(0.01, 100, tolFan))},
		{name: "fan-out 2000, .01 %", time: "1ms", slow: service.Slow{Share: 0.0001, Time: service.Constant(time.Second)}, servers: 2000, fan: 2000, lambda: 0.1, calls: 20_000,
			figures: with(slow(0.0001, 2000, tolFan2k))},
	}
}

func (m *model) config(seed, part uint64) (sim.Config, error) {
	d, err := service.ParseDist(m.time)
	if err != nil {
		return sim.Config{}, err
	}
	p := policy.Policy{Hedge: m.hedge}
	if m.choices > 0 {
		p.Picker, p.Choices = policy.PickChoices, m.choices
	}
	var hops []sim.Hop
	if m.fan > 0 {
		hops = []sim.Hop{{Policy: policy.Policy{Picker: policy.PickRoundRobin}, Fan: m.fan, Need: m.need, Cancels: true}}
	}
	return sim.Config{
		Policy:     p,
		Hops:       hops,
		Service:    &service.Spec{Replicas: m.servers, Time: d, Slow: m.slow, Slots: m.slots, Queue: m.queue, Cancel: m.cancel},
		Arrivals:   workloads.NewArrivals(workloads.Poisson, units.Rate(math.Round(m.lambda*1000*1e6)), seed),
		Seed:       seed,
		TargetSeed: seed,
		Idempotent: true,
		Blocks:     []workloads.Block{{Burn: m.burn, Calls: m.calls / part}},
	}, nil
}

// Oracles compute from the same draws what the simulator should get, without
// events or servers; of a policy only its picks.
const (
	byLindley = "Lindley's recursion"
	byLeaves  = "counting slow leaves"
)

// oracle returns how the model can be computed from its draws; "" if it cannot.
func (m *model) oracle() string {
	switch {
	case m.slots == 1 && m.queue == noLimit && m.hedge.Max == 0 && m.choices <= 1 && (m.fan == 0 || m.fan == m.servers && m.need == 1):
		return byLindley
	case m.fan > 0 && m.slots == 0:
		return byLeaves
	}
	return ""
}

// agree compares the run with the oracle.
func (m *model) agree(cfg *sim.Config, r *sim.Result) bool {
	switch m.oracle() {
	case byLindley:
		return same(r.Ledger.OK, m.lindley(cfg))
	case byLeaves:
		return r.Ledger.Calls.OK-r.Ledger.OK.CountAtOrBelow(int64(500*unit)) == m.slowLeaves(cfg)
	}
	return true
}

// lindley computes the responses of queues that each call is sent to one of: a
// call waits until the one before it is done (Lindley, "The theory of queues with
// a single server", 1952). Copies on all servers, of which one is needed, are one
// queue with the shortest of their service times.
func (m *model) lindley(cfg *sim.Config) *histo.Histogram {
	h := histo.New()
	var at time.Duration
	free := make([]time.Duration, max(m.servers, 1))
	picks := policy.NewClient(&cfg.Policy, len(free), cfg.Seed)
	for i := uint64(0); h.Count() < cfg.Blocks[0].Calls; i++ {
		at += cfg.Arrivals.Gap(i)
		server, drawn := 0, time.Duration(math.MaxInt64)
		if m.fan > 0 {
			for n := range m.fan {
				d, _ := cfg.Service.Draw(cfg.TargetSeed, n, i*uint64(m.fan)+uint64(n), 1)
				drawn = min(drawn, d)
			}
		} else {
			var k policy.Call
			server = int(k.Start(picks, policy.Request{ID: i}, 0).Replica)
			drawn, _ = cfg.Service.Draw(cfg.TargetSeed, server, i, 1)
		}
		free[server] = max(free[server], at) + drawn
		if at >= m.burn {
			h.Record(int64(free[server] - at))
		}
	}
	return h
}

// slowLeaves counts the calls that draw a slow leaf.
func (m *model) slowLeaves(cfg *sim.Config) (calls uint64) {
	for i := range cfg.Blocks[0].Calls {
		for n := range m.fan {
			if d, _ := cfg.Service.Draw(cfg.TargetSeed, n, i*uint64(m.fan)+uint64(n), 1); d > 500*unit {
				calls++
				break
			}
		}
	}
	return calls
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
	exact bool // equal to its oracle
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
	if err == nil && o.model.oracle() != "" {
		if o.exact = o.model.agree(&cfg, o.r); !o.exact {
			err = fmt.Errorf("differs from %s on the same draws", o.model.oracle())
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
				word += ", as does " + o.model.oracle() + " on these draws"
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
