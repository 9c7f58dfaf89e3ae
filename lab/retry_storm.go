package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"latencylab/service"
	"latencylab/sim"
	"latencylab/workloads"
)

// retryStormLab is a server that fails for a minute and is then as good as
// before, under clients that retry.
var retryStormLab = Lab{
	Name:   "retry-storm",
	About:  "an outage of 60 s, and which retry policies keep the server down when it is over",
	takes:  takes{disciplines: []string{"proportional", "fifo", "lifo", "new-first"}},
	run:    runRetryStorm,
	real:   stormSockets,
	export: retryStormWorkloads,
}

const (
	stormTick     = 100 * time.Millisecond
	stormNew      = 80  // calls in each tick
	stormCapacity = 100 // of each tick
	stormAbove    = 150 // load above which the capacity is half
	stormHalf     = 0.5
	stormOutage   = 60 * time.Second
	stormAfter    = 180 * time.Second
	stormEnd      = 30 * time.Second // the part of it that end_load is the mean of
)

// stormNever says that the server was still failing calls at the end.
const stormNever = "not within 180 s"

// stormRows are the policies with the published peak and recovery; a recovery
// below 0 is never.
var stormRows = []struct {
	name, spec string
	retries    int
	peak       float64
	recovered  float64
	low, high  float64 // claimed of the peak
}{
	{"no retries", "plain", 0, 1, 0, 1, 1},
	{"fixed 1s, 5 retries", "fixed-5:retry=5,backoff=1s,backoff.kind=constant,jitter=none", 5, 6, -1, 6, 6},
	{"fixed 1s, 25 retries (2 layers)", "fixed-25:retry=25,backoff=1s,backoff.kind=constant,jitter=none", 25, 26, -1, 26, 26},
	{"exponential, no jitter, 3 retries", "exponential:retry=3,backoff=1s,jitter=none", 3, 4, -1, 4, 4},
	{"exponential, full jitter, 3 retries", "full-jitter:retry=3,backoff=1s,jitter=full", 3, 4.2, -1, 3.9, 4.6},
	{"full jitter, budget 10%", "budget:retry=3,backoff=1s,jitter=full,budget=10%", 3, 1.1, 0, 1.06, 1.2},
}

// retryStormWorkloads is one workload for each policy: what one does to the
// server is not to meet another.
func retryStormWorkloads(o Options) ([]*workloads.Workload, error) {
	d, ok := service.DisciplineNamed(cmp.Or(o.Discipline, "proportional"))
	if !ok {
		return nil, fmt.Errorf("no discipline %q", o.Discipline)
	}
	var out []*workloads.Workload
	for i := range stormRows {
		row := &stormRows[i]
		w := workloads.New()
		w.About = "an outage of 60 s: " + row.name
		w.Rate, w.Arrivals, w.Seed = perUnit(stormNew, stormTick), workloads.Constant, o.Seed
		w.Duration, w.WarmupGiven = stormOutage+stormAfter, true
		w.Drain = time.Minute
		w.Service = &service.Spec{
			Capacity:   service.Capacity{Requests: stormCapacity, Per: stormTick},
			Thrash:     service.Thrash{Above: stormAbove, Factor: stormHalf},
			Discipline: d, Queue: -1,
			Outages: []service.Outage{{For: stormOutage, Ending: service.Ending{Status: 503}}},
		}
		var err error
		if w.Policies, err = policies(row.spec); err != nil {
			return nil, err
		}
		w.Name = "retry-storm-" + w.Policies[0].Name
		out = append(out, w)
	}
	return out, nil
}

// storm is what one policy did: the load of each tick in parts of the calls,
// from the end of the outage on.
type storm []float64

// stormRun simulates the workload.
func stormRun(o *Options, w *workloads.Workload) (storm, error) {
	var loads storm
	cfg := sim.Config{
		Policy: w.Policies[0].Policy, Service: w.Service, Seed: w.Seed, TargetSeed: w.Seed, Idempotent: true,
		Arrivals: workloads.NewArrivals(w.Arrivals, w.Rate, w.Seed),
		Blocks:   []workloads.Block{{Data: w.Duration}},
		Horizon:  stormTick, Sample: stormTick, Stop: o.interrupted,
		OnSample: func(s sim.Sample) {
			// The sample at the end of a window has what was sent in it.
			if t := time.Duration(s.At); t > stormOutage && t <= stormOutage+stormAfter {
				loads = append(loads, float64(s.Sent)/stormNew)
			}
		},
	}
	r, err := sim.Run(cfg)
	if err == nil && r.Stopped && o.interrupted() {
		err = ErrInterrupted
	}
	return loads, err
}

func (s storm) peak() float64 { return slices.Max(s) }

// recovered returns when a tick began in which nothing failed: the load was
// within the capacity.
func (s storm) recovered() Value {
	for i, load := range s {
		if load*stormNew <= stormCapacity {
			return num((time.Duration(i) * stormTick).Seconds())
		}
	}
	return absent(stormNever)
}

// end is the mean load of the last 30 s.
func (s storm) end() float64 {
	sum, n := 0.0, int(stormEnd/stormTick)
	for _, load := range s[max(0, len(s)-n):] {
		sum += load
	}
	return sum / float64(n)
}

// stormFixedPoint returns the load, in parts of the new calls N, at which each
// of up to R retries fails with f = 1 - C/L and so
//
//	L = N (1 + f + … + f^R)
//
// for the halved capacity C. Where that is not above the load at which the
// capacity is halved, there is no such state, and the load is that of new calls.
func stormFixedPoint(retries int) float64 {
	load := float64(stormNew * (retries + 1))
	for range 10_000 {
		f := max(0, 1-stormHalf*stormCapacity/load)
		sum, p := 0.0, 1.0
		for range retries + 1 {
			sum += p
			p *= f
		}
		load = stormNew * sum
	}
	if load <= stormAbove {
		return 1
	}
	return load / stormNew
}

func runRetryStorm(o Options) (*Result, error) {
	ws, err := retryStormWorkloads(o)
	if err != nil {
		return nil, err
	}
	found := make([]storm, len(ws))
	err = each(len(ws), func(i int) (err error) {
		found[i], err = stormRun(&o, ws[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &Result{Columns: []string{"peak", "recovered_s", "end_load"}}
	plot := Plot{Title: "load of each second after the outage, in parts of the new calls; above 1.25 calls fail",
		X: Axis{Label: "s after the outage", Min: 0, Max: stormAfter.Seconds()}, Y: Axis{Label: "load", Log: true, Min: 1, Max: 30}, Rows: 16}
	for i := range stormRows {
		row := &stormRows[i]
		r.add(row.name, num(round(found[i].peak(), 3)), found[i].recovered(), num(round(found[i].end(), 3)))
		plot.Series = append(plot.Series, Series{Name: row.name, Points: found[i].seconds()})
	}
	r.Plots = append(r.Plots, plot)
	r.stormReferences()
	r.note("Ticks of 100 ms: 80 new calls each, a server that answers 100, or 50 when more than 150 ask; the outage lasts 60 s.\n"+
		"Which of too many are answered: %s.", stormOrders[cmp.Or(o.Discipline, "proportional")])
	r.note("The published text says that the load stays at about 4 times. That is the peak; the state it falls into is end_load,\n" +
		"whose exact value follows from L = N (1 + f + … + f^R), f = 1 - 50/L.")
	r.stormClaims(cmp.Or(o.Discipline, "proportional"))
	return r, nil
}

// stormOrders says in words what each discipline does in an overloaded window.
var stormOrders = map[string]string{
	"proportional": "any, each as likely, so first attempts and retries in proportion",
	"fifo":         "those that came first",
	"lifo":         "those that came last",
	"new-first":    "first attempts before retries",
}

// seconds is the mean load of each second.
func (s storm) seconds() []Point {
	var out []Point
	for i := 0; i+10 <= len(s); i += 10 {
		sum := 0.0
		for _, load := range s[i : i+10] {
			sum += load / 10
		}
		out = append(out, Point{float64(i/10) + 0.5, sum})
	}
	return out
}

func (r *Result) stormReferences() {
	for i := range stormRows {
		row := &stormRows[i]
		recovered := num(row.recovered)
		if row.recovered < 0 {
			recovered = absent(stormNever)
		}
		r.refer(row.name, "published", num(row.peak), recovered, absent("the published table does not say"))
	}
	for i := range stormRows {
		row := &stormRows[i]
		if row.recovered < 0 {
			r.refer(row.name, "exact: all fail; the fixed point", num(float64(1+row.retries)), absent("it lasts"), num(round(stormFixedPoint(row.retries), 3)))
		}
	}
}

// stormClaims holds the table against the published one. With another order of
// service than the published one it is another world, of which only is claimed
// what the orders are known for.
func (r *Result) stormClaims(discipline string) {
	if discipline != "proportional" {
		r.equals("no retries", "peak", 1)
		r.equals("no retries", "recovered_s", 0)
		if discipline == "new-first" {
			r.within("exponential, full jitter, 3 retries", "recovered_s", 1, 180)
		}
		return
	}
	for i := range stormRows {
		row := &stormRows[i]
		if row.low == row.high {
			r.equals(row.name, "peak", row.low)
		} else {
			r.within(row.name, "peak", row.low, row.high)
		}
		if row.recovered < 0 {
			r.says(row.name, "recovered_s", stormNever)
			v, want := r.value(row.name, "end_load"), stormFixedPoint(row.retries)
			r.claim(math.Abs(v.Value/want-1) <= 0.05, v.text(), "%s: end_load within 5 %% of the fixed point %s", row.name, number(want))
		} else {
			r.equals(row.name, "recovered_s", row.recovered)
		}
	}
}
