package trial

import (
	"fmt"
	"time"

	"latencylab/results"
	"latencylab/sim"
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

// simulate runs policy i of the plan in virtual time.
func (p *Plan) simulate(i int, stop func() bool, onInterval func(sim.Interval)) (*sim.Result, error) {
	w := &p.Workload
	return sim.Run(sim.Config{
		Policy: w.Policies[i].Policy, Service: w.Service, TargetSeed: p.TargetSeed, Seed: w.Seed,
		Arrivals: workloads.NewArrivals(w.Arrivals, w.Rate, w.Seed), Clients: w.Clients,
		Idempotent: w.Request.Idempotent(), Within: w.Within, Blocks: p.blocksOf(i), Horizon: w.Drain,
		OnInterval: onInterval, Stop: stop,
	})
}

// Sim carries out the plan in virtual time. now is stored as the start; the
// rest of the Run depends on the plan alone. When interrupt is closed, what was
// simulated by then is the result.
func Sim(p *Plan, now time.Time, interrupt <-chan struct{}) (*results.Run, error) {
	r, err := p.newRun()
	if err != nil {
		return nil, err
	}
	r.Driver, r.Host, r.StartedAt, r.Loops = results.Virtual, host(""), now.UTC(), 1
	seed := p.TargetSeed
	r.TargetSeed, r.NoTarget = &seed, "virtual time has one ledger for both sides"
	stop := func() bool {
		select {
		case <-interrupt:
			return true
		default:
			return false
		}
	}
	var data time.Duration
	var calls uint64
	for i := range p.Workload.Policies {
		if i > 0 && stop() {
			r.Interrupted = true
			break
		}
		rp, res, err := p.simPolicy(i, stop)
		if err != nil {
			return nil, err
		}
		r.Policies = append(r.Policies, rp)
		r.Interrupted = r.Interrupted || res.Stopped
		r.DurationNS += int64(res.Elapsed)
		calls += res.Ledger.Calls.Scheduled
		for j := range res.Blocks {
			data += res.Blocks[j].DataEnd.Sub(res.Blocks[j].DataStart)
		}
		if i == 0 {
			r.ArrivalsDigest.Value = hex(res.ArrivalsDigest)
		}
	}
	r.DrawsDigest = r.Policies[0].DrawsDigest
	a := &r.Achieved
	a.DataNS, a.RatePerS = results.Num(float64(data)), results.Absent("no time was simulated")
	if data > 0 {
		a.RatePerS = results.Num(float64(calls) / data.Seconds())
	}
	a.CPUPerCall, a.PeakMemory = results.Absent("virtual time"), results.Absent("virtual time")
	finish(r)
	return r, nil
}

// simPolicy simulates one policy and builds its record.
func (p *Plan) simPolicy(i int, stop func() bool) (results.Policy, *sim.Result, error) {
	np := &p.Workload.Policies[i]
	intervals := results.NewIntervals(0)
	res, err := p.simulate(i, stop, func(iv sim.Interval) {
		if !iv.Burn {
			intervals.Add(time.Duration(iv.Start), iv.End.Sub(iv.Start), iv.OK, iv.Failed)
		}
	})
	if err != nil {
		return results.Policy{}, nil, fmt.Errorf("policy %s: %w", np.Name, err)
	}
	rp := results.NewPolicy(np.Name, np.Spec, res.Ledger, &res.Burn)
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
		prior = np.Name
	}
	rp.Intervals = intervals.List()
	return rp, res, nil
}
