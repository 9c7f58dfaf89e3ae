package lab

import (
	"cmp"
	"math"
	"slices"
	"time"

	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/results"
	"latencylab/service"
	"latencylab/sim"
	"latencylab/units"
	"latencylab/workloads"
)

// System Q is the server side of the labs about hedging with queues: 20 servers
// with a queue each, first in, first out; a request, and every copy of it, goes
// to a random server and draws its service time anew: exponential with mean 1 u
// for 98 % of them and 20 u for 2 %.
const (
	qServers = 20
	// qUnit is 1 u. Nothing depends on it: the model has no other length.
	qUnit = 10 * time.Millisecond
	// qMean is the mean service time in u.
	qMean = 0.98 + 0.02*20
	qHow  = "20 servers, each with a first-in-first-out queue; service .98 Exp(1 u) + .02 Exp(20 u)"
)

func qService(cancel service.Cancel) *service.Spec {
	return &service.Spec{
		Replicas: qServers, Slots: 1, Queue: -1, Cancel: cancel,
		Time: dist("exponential(10ms)"),
		Slow: service.Slow{Share: 0.02, Time: dist("exponential(200ms)")},
	}
}

// qRate is the rate of calls at which the servers are busy for the share rho of
// their time, if each call is sent once.
func qRate(rho float64) units.Rate { return perUnit(rho*qServers/qMean, qUnit) }

// perUnit returns the rate of x calls in each unit of time.
func perUnit(x float64, unit time.Duration) units.Rate {
	return units.Rate(x/unit.Seconds()*1e6 + 0.5)
}

// qSpan returns u in time.
func qSpan(u float64) time.Duration { return time.Duration(u * float64(qUnit)) }

// qHedge is one hedge after u to a server that the call has not tried.
func qHedge(u float64) policy.Hedge { return policy.Hedge{Max: 1, Delay: qSpan(u)} }

// qWorkload is a workload of system Q with a warm-up of 2,000 u.
func qWorkload(name, about string, rho float64, cancel service.Cancel, calls, seed uint64, specs ...string) (*workloads.Workload, error) {
	w := workloads.New()
	w.Name, w.About = name, about
	w.Rate, w.Requests, w.Seed = qRate(rho), calls, seed
	w.Warmup, w.WarmupGiven = qSpan(2000), true
	w.Drain = qSpan(2000)
	w.Service = qService(cancel)
	var err error
	w.Policies, err = policies(specs...)
	return w, err
}

// qConfig is one run of system Q without a warm-up: it begins idle, as what it
// is held against did.
func qConfig(o *Options, rho float64, cancel service.Cancel, calls, seed uint64) sim.Config {
	return sim.Config{
		Service: qService(cancel), Seed: seed, TargetSeed: seed, Idempotent: true,
		Arrivals: workloads.NewArrivals(workloads.Poisson, qRate(rho), seed),
		Blocks:   []workloads.Block{{Calls: calls}},
		Stop:     o.interrupted,
	}
}

// qResult is a run of system Q and the unfinished work of a server, in u, when
// the last call arrived: the mean over the servers.
type qResult struct {
	*sim.Result
	work float64
}

// qRun simulates cfg. each, if not nil, is told the samples of every 100 u.
func qRun(o *Options, cfg sim.Config, each func(sim.Sample)) (qResult, error) {
	var r qResult
	cfg.Sample = qSpan(100)
	last := uint64(0)
	cfg.OnSample = func(s sim.Sample) {
		if s.Begun > 0 || last == 0 { // calls still arrive
			r.work = qWork(s)
			last = s.Begun
		}
		if each != nil {
			each(s)
		}
	}
	var err error
	r.Result, err = sim.Run(cfg)
	if err == nil && r.Stopped && o.interrupted() {
		err = ErrInterrupted
	}
	return r, err
}

// qWork is the unfinished work of a server in u, the mean over the servers.
func qWork(s sim.Sample) float64 { return float64(s.Work) / float64(qUnit) / qServers }

// qQuantile returns a quantile of all calls in a ledger, in u.
func qQuantile(l *ledger.Ledger, q float64) Value {
	n := l.Calls.Scheduled
	if float64(n)*(1-q) < results.MinBeyond {
		return absent("too few calls")
	}
	ns, ok := l.OK.QuantileOf(q, n)
	if !ok {
		return absent("falls among the calls that did not end")
	}
	return num(float64(ns) / float64(qUnit))
}

// middle returns the median of the values. Absent ones rank as +infinity, and
// the median is one of them when at least half are.
func middle(vs []Value) Value {
	slices.SortStableFunc(vs, func(a, b Value) int {
		x, y := a.Value, b.Value
		if !a.Present {
			x = math.Inf(1)
		}
		if !b.Present {
			y = math.Inf(1)
		}
		return cmp.Compare(x, y)
	})
	n := len(vs)
	low, high := vs[(n-1)/2], vs[n/2]
	if !high.Present {
		return high
	}
	return num((low.Value + high.Value) / 2)
}
