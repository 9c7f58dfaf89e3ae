package trial

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"latencylab/histo"
	"latencylab/results"
	"latencylab/sim"
	"latencylab/units"
	"latencylab/workloads"
)

// blocksOf returns the blocks of one policy, in order.
func (p *Plan) blocksOf(policy int) []workloads.Block {
	var out []workloads.Block
	for _, b := range p.Blocks {
		if b.Policy == policy {
			out = append(out, b.Block)
		}
	}
	return out
}

// maxTracking bounds the clients that track a hedge delay: 0.8 GB.
const maxTracking = 4096

// longestSim is the longest run in virtual time. The clock holds 292 years; the
// rest is room for Poisson arrivals that take longer than their mean.
const longestSim = 200 * year

const year = 365 * 24 * time.Hour

// fits returns an error when the plan cannot be simulated, above all when the
// simulator's clock would end before the run. It names the keys and what fits.
func (p *Plan) fits() error {
	w := &p.Workload
	for i := range w.Policies {
		if h := &w.Policies[i].Policy.Hedge; h.Max > 0 && h.Quantile > 0 && w.Clients > maxTracking {
			return fmt.Errorf("clients=%d, and each tracks the hedge delay of policy %s in 190 KiB: want at most %d clients",
				w.Clients, w.Policies[i].Name, maxTracking)
		}
	}
	// The policies are simulated one after the other, and their times added up.
	n := float64(len(w.Policies))
	most, holds := float64(longestSim)/n, "a simulation holds 200 years"
	if n > 1 {
		holds += fmt.Sprintf(", %s for each policy", years(most))
	}
	around := float64(p.Warmup) + float64(p.Rounds)*(float64(p.Lead)+float64(w.Drain))
	room := most - around
	if room < most/2 {
		return fmt.Errorf("warmup=%s and drain=%s (%s) take %s, want at most %s: %s", units.FormatDuration(p.Warmup),
			units.FormatDuration(w.Drain), counted(p.Rounds, "block"), years(around), years(most/2), holds)
	}
	return p.dataFits(room, holds)
}

// dataFits returns an error when the data of a policy takes more than room, in
// ns. holds says in words why there is no more.
func (p *Plan) dataFits(room float64, holds string) error {
	w := &p.Workload
	data, calls := float64(w.Duration), w.Requests
	if calls == 0 && w.Duration == span(w.Rate, VirtualCalls) { // the default
		calls = VirtualCalls
	}
	if calls > 0 {
		data = float64(calls) / w.Rate.PerSecond() * 1e9
	}
	switch {
	case data <= room:
		return nil
	case calls > 0:
		return fmt.Errorf("requests=%s at rate=%s take %s, want at most %s requests at that rate: %s", units.FormatCount(calls),
			w.Rate, years(data), units.Count(uint64(room/1e9*w.Rate.PerSecond())), holds)
	}
	return fmt.Errorf("duration=%s beside warmup=%s and drain=%s, want a duration of at most %s: %s",
		units.FormatDuration(w.Duration), units.FormatDuration(p.Warmup), units.FormatDuration(w.Drain),
		units.FormatDuration(time.Duration(room).Truncate(time.Hour)), holds)
}

// years writes a time in ns.
func years(ns float64) string {
	return units.Count(uint64(math.Round(ns/float64(year)))) + " years"
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// simulate runs policy i of the plan in virtual time.
func (p *Plan) simulate(i int, stop func() bool, onInterval func(sim.Interval)) (*sim.Result, error) {
	cfg := p.config(p.policyOf(i), p.blocksOf(i), stop)
	cfg.OnInterval = onInterval
	return sim.Run(cfg)
}

// simulation is what is kept of one policy's simulation.
type simulation struct {
	record   results.Policy
	notes    []string
	overflow *sim.Overflow
	stopped  bool // before its blocks ended
	elapsed  time.Duration
	data     time.Duration
	arrivals uint64 // digest
}

// Sim carries out the plan in virtual time, its policies on all cores. now is
// stored as the start; the rest of the Run depends on the plan alone. When
// interrupt is closed, what was simulated by then is the result. A policy of
// which more was open at once than the simulator holds makes the Run void.
func Sim(p *Plan, now time.Time, interrupt <-chan struct{}) (*results.Run, error) {
	r, err := p.newRun()
	if err != nil {
		return nil, err
	}
	r.Driver, r.Host, r.StartedAt, r.Loops = results.Virtual, host(""), now.UTC(), 1
	seed := p.TargetSeed
	r.TargetSeed, r.NoTarget = &seed, "virtual time has one ledger for both sides"
	stop := closed(interrupt)
	var stages []results.Stage
	if p.has(workloads.Pilot) {
		st, err := p.simPilot(stop)
		if err != nil {
			return nil, err
		}
		p, stages = p.advised(&st), append(stages, st)
	}
	all := make([]simulation, len(p.Workload.Policies))
	begun, err := spreadOn(workers(p.piles(p.data())), len(all), stop, func(i int) (err error) {
		all[i], err = p.simPolicy(i, stop)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.Interrupted = begun < len(all)
	p.record(r, all[:begun])
	r.DrawsDigest = r.Policies[0].DrawsDigest
	if err := p.repeat(r, all[:begun], stop); err != nil {
		return nil, err
	}
	if err := p.simAfter(r, stages, stop); err != nil {
		return nil, err
	}
	finish(r)
	return r, nil
}

// record puts what was simulated into the Run.
func (p *Plan) record(r *results.Run, all []simulation) {
	var data time.Duration
	var calls uint64
	var early []string // why policies ended before their time
	for i := range all {
		s := &all[i]
		r.Policies = append(r.Policies, s.record)
		if o := s.overflow; o != nil {
			early = append(early, fmt.Sprintf("policy %s ended after %s", s.record.Name, units.Duration(time.Duration(o.At))))
		} else {
			r.Interrupted = r.Interrupted || s.stopped
		}
		for _, n := range s.notes {
			if !slices.Contains(r.Warnings, n) {
				r.Warnings = append(slices.Clip(r.Warnings), n)
			}
		}
		r.DurationNS += int64(s.elapsed)
		calls += s.record.Calls.Scheduled
		data += s.data
	}
	r.ArrivalsDigest.Value = hex(all[0].arrivals)
	if len(early) > 0 {
		r.Void = fmt.Sprintf("at most %s calls or attempts in flight are simulated: %s",
			units.Count(uint64(cmp.Or(p.openCalls, sim.MaxOpen))), strings.Join(early, ", "))
	}
	a := &r.Achieved
	a.DataNS, a.RatePerS = results.Num(float64(data)), results.Absent("no time was simulated")
	if data > 0 {
		a.RatePerS = results.Num(float64(calls) / data.Seconds())
	}
	a.CPUPerCall, a.PeakMemory = results.Absent("virtual time"), results.Absent("virtual time")
}

// notes say what the figures of policy i do not show by themselves.
func (p *Plan) notes(i int, res *sim.Result) []string {
	var out []string
	name, l := p.Workload.Policies[i].Name, res.Ledger
	if o := res.Overflow; o != nil {
		out = append(out, fmt.Sprintf("policy %s ended after %s, with %s calls and %s attempts in flight; the calls count as unfinished",
			name, units.Duration(time.Duration(o.At)), units.Count(uint64(o.Calls)), units.Count(uint64(o.Attempts))))
	}
	if s := p.overload(i, res); s != "" {
		out = append(out, s)
	}
	if n := l.OK.Over() + l.Failed.Over() + l.Censored.Over(); n > 0 {
		out = append(out, fmt.Sprintf("policy %s: %s longer than %s, the longest that histograms tell apart: each counts as %s",
			name, took(n), units.FormatDuration(time.Duration(histo.Highest)), units.FormatDuration(time.Duration(histo.Highest))))
	}
	return out
}

func took(n uint64) string {
	if n == 1 {
		return "1 call took"
	}
	return units.Count(n) + " calls took"
}

// simPolicy simulates one policy and builds its record.
func (p *Plan) simPolicy(i int, stop func() bool) (simulation, error) {
	np := &p.Workload.Policies[i]
	intervals := results.NewIntervals(0)
	res, err := p.simulate(i, stop, func(iv sim.Interval) {
		if !iv.Burn {
			intervals.Add(time.Duration(iv.Start), iv.End.Sub(iv.Start), iv.OK, iv.Failed)
		}
	})
	if err != nil {
		return simulation{}, fmt.Errorf("policy %s: %w", np.Name, err)
	}
	s := simulation{
		notes: p.notes(i, res), overflow: res.Overflow, stopped: res.Stopped, elapsed: res.Elapsed, arrivals: res.ArrivalsDigest,
		record: results.NewPolicy(np.Name, np.Spec, res.Ledger, &res.Burn),
	}
	rp := &s.record
	rp.DrawsDigest.Value = hex(res.DrawsDigest)
	before := results.State{
		Tokens:       results.Absent("recorded at the end of blocks only"),
		HedgeDelayNS: results.Absent("recorded at the end of blocks only"),
	}
	prior := ""
	for j := range res.Blocks {
		b := &res.Blocks[j]
		tokens := results.Absent("the policy has no budget")
		if pol := &np.Policy; pol.Budget.Deposit > 0 || pol.Budget.Capacity > 0 {
			tokens = results.Num(b.Tokens)
		}
		rp.HedgeDelayNS = delayOf(&np.Policy, b.HedgeDelay, b.HedgeOn)
		rp.Blocks = append(rp.Blocks, results.NewBlock(results.BlockInput{
			Start: time.Duration(b.DataStart), Length: b.DataEnd.Sub(b.DataStart), Prior: prior, Ledger: b.Data,
			State: results.BlockState{Start: before, End: results.State{Tokens: tokens, HedgeDelayNS: rp.HedgeDelayNS}},
		}))
		s.data += b.DataEnd.Sub(b.DataStart)
		prior = np.Name
	}
	rp.Intervals = intervals.List()
	return s, nil
}
