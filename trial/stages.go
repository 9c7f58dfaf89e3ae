package trial

import (
	"fmt"
	"slices"
	"time"

	"latencylab/policy"
	"latencylab/results"
	"latencylab/service"
	"latencylab/sim"
	"latencylab/units"
	"latencylab/workloads"
)

const (
	// pulseRuns is the number of seeds of a pulse: with 6 that all speak for one
	// policy a sign test is significant at 95 %, and 8 leave room for a doubt.
	pulseRuns = 8
	// freezeTimes is the freeze in multiples of plain's p99: more than queues
	// fluctuate by themselves, and short for an outage. In the published case 0.7
	// of it is enough for a hedge without budget to collapse.
	freezeTimes = 5
	// afterTimes is the time from the release to the look in multiples of what
	// plain needs to work off a freeze F, F rho / (1 - rho); leastAfter and
	// mostAfter bound it in multiples of F.
	afterTimes = 4
	leastAfter = 10
	mostAfter  = 40
	// longSustained and longestSustained are the least time of the sustained stage
	// in virtual time, at most that of VirtualCalls, and on sockets.
	longSustained = 10 * time.Minute
	realSustained = time.Minute
)

// stages fills in the stages. A comparison in virtual time ends with a pulse, and
// so does one against the embedded target unless stages are given.
func (p *Plan) stages(ch Choices) error {
	given := p.Workload.Stages
	p.Stages = slices.Clone(given)
	if p.Stages == nil {
		p.Stages = []workloads.Stage{workloads.Blocks}
	}
	pulse := slices.Contains(p.Stages, workloads.Pulse)
	switch {
	case ch.BlocksOnly:
		p.Stages = []workloads.Stage{workloads.Blocks}
	case ch.Virtual && !pulse && len(p.Workload.Policies) > 1:
		p.Stages = append(p.Stages, workloads.Pulse)
	case ch.Virtual:
	case pulse && !ch.Embedded:
		return fmt.Errorf("stages has pulse, and a server of one's own cannot be frozen: want it out, no URL, or loadgen sim")
	case p.Closed && len(p.Stages) > 1:
		return fmt.Errorf("stages=%s without rate: in closed loop only blocks are driven, want --rate", stageList(p.Stages))
	case ch.Embedded && len(given) == 0 && !p.Closed && len(p.Workload.Policies) > 1:
		p.Stages = append(p.Stages, workloads.Pulse)
	}
	return nil
}

func stageList(list []workloads.Stage) string {
	s := ""
	for i, st := range list {
		if i > 0 {
			s += ","
		}
		s += st.String()
	}
	return s
}

// has says whether the plan has the stage.
func (p *Plan) has(s workloads.Stage) bool { return slices.Contains(p.Stages, s) }

// data is the time of each policy's data.
func (p *Plan) data() time.Duration {
	w := &p.Workload
	if w.Requests > 0 && !p.Closed {
		return span(w.Rate, w.Requests)
	}
	return w.Duration
}

// window is the longest memory of the policies.
func (p *Plan) window() time.Duration {
	d := time.Duration(0)
	for i := range p.Workload.Policies {
		d = max(d, p.Workload.Policies[i].Policy.BurnIn())
	}
	return d
}

// pilotTime is how long plain is driven in the pilot: as long in one piece as a
// policy's data, and as long in blocks.
func (p *Plan) pilotTime() time.Duration {
	if p.Workload.Pilot > 0 {
		return p.Workload.Pilot
	}
	return 2 * p.data()
}

// sustainedTime is how long each policy is driven in the sustained stage.
func (p *Plan) sustainedTime(virtual bool) time.Duration {
	switch w := &p.Workload; {
	case w.Sustained > 0:
		return w.Sustained
	case virtual:
		return max(p.data(), min(longSustained, span(w.Rate, VirtualCalls)))
	}
	return max(p.data(), realSustained)
}

// plainPolicy is what the pilot drives and what a pulse is held against.
func plainPolicy() workloads.NamedPolicy {
	return workloads.NamedPolicy{Name: "plain", Spec: "plain"}
}

// plainAt is the number of the policy that is plain; ok is false without one.
func (p *Plan) plainAt() (i int, ok bool) {
	i = slices.IndexFunc(p.Workload.Policies, func(np workloads.NamedPolicy) bool { return np.Spec == "plain" })
	return i, i >= 0
}

// pilotBlocks are those of a pilot: plain in one piece, and then twice as many
// blocks as each half of a comparison has.
func (p *Plan) pilotBlocks() (list []workloads.Block, n int) {
	half := p.pilotTime() / 2
	n = max(rounds(half/2), results.MinPairs)
	list = append(list, workloads.Block{Burn: p.Warmup, Data: half})
	for range 2 * n {
		list = append(list, workloads.Block{Burn: min(DefaultLead, half/time.Duration(10*n)), Data: half / time.Duration(2*n)})
	}
	return list, n
}

// judgePilot makes the stage of what plain did in its blocks: ledgers are theirs.
func (p *Plan) judgePilot(blocks []results.Block, halves [2]results.Policy, open []float64, step time.Duration) results.Stage {
	order := workloads.Order(2, (len(blocks)-1)/2)
	for i, half := range order {
		halves[half].Blocks = append(halves[half].Blocks, blocks[i+1])
	}
	st := results.NewPilot(results.PilotInput{
		Stretch: blocks[0], Open: open, Step: step, A: &halves[0], B: &halves[1], Window: p.window(),
		CompareOptions: p.compareOptions(),
	})
	return st
}

// compareOptions are those of the plan's comparisons.
func (p *Plan) compareOptions() results.CompareOptions {
	o := results.CompareOptions{Seed: p.Workload.Seed}
	if len(p.Workload.Within) > 0 {
		o.Within, o.Further = p.Workload.Within[0], p.Workload.Within[1:]
	}
	return o
}

// advised returns the plan with blocks of the length that the pilot advises,
// unless the user gave one, and notes in the stage how long they are.
func (p *Plan) advised(st *results.Stage) *Plan {
	q := *p
	if st.Pilot == nil {
		return &q
	}
	if d := st.Pilot.Advice(); d > 0 && p.Workload.Block == 0 {
		q.block = d
		q.Blocks = nil
		q.arrange()
	}
	st.Pilot.Used = results.Absent("there is one policy only, and no blocks in turn")
	if len(q.Workload.Policies) > 1 {
		st.Pilot.Used = results.Num(float64(q.data() / time.Duration(q.Rounds)))
	}
	return &q
}

// config is what all simulations of the plan have in common.
func (p *Plan) config(pol *policy.Policy, blocks []workloads.Block, stop func() bool) sim.Config {
	w := &p.Workload
	spec := w.Service
	if w.Graph != nil {
		spec = nil // it stands in the graph
	}
	return sim.Config{
		Policy: *pol, Service: spec, Graph: w.Graph, TargetSeed: p.TargetSeed, Seed: w.Seed,
		Arrivals: workloads.NewArrivals(w.Arrivals, w.Rate, w.Seed), Clients: w.Clients,
		Idempotent: w.Request.Idempotent(), Within: w.Within, Blocks: blocks, Horizon: w.Drain,
		Stop: stop, Open: p.openCalls,
	}
}

// series is what a simulation was sampled for at equal steps of a stretch.
type series struct {
	from, to    time.Duration // the stretch, on the policy's clock
	step        time.Duration
	servers     int
	work, open  []float64 // per server; calls
	begun, sent []uint64
}

// newSeries samples a stretch about n times.
func newSeries(from, length time.Duration, n int, sp *service.Spec) *series {
	return &series{from: from, to: from + length, step: uneven(length / time.Duration(n)), servers: sp.Servers()}
}

// uneven is a step of about d that does not go into round times: where calls
// arrive at equal gaps, one that does would see the same moment of each.
func uneven(d time.Duration) time.Duration { return max(d-d/257, 1) }

// add takes a sample. Where samples were left out, nothing happened.
func (s *series) add(x sim.Sample) {
	at := time.Duration(x.At)
	if at < s.from || at >= s.to {
		return
	}
	work := float64(x.Work) / float64(s.servers)
	for missing := int((at-s.from)/s.step) - len(s.work); missing > 0 && len(s.work) > 0; missing-- {
		s.put(work, s.open[len(s.open)-1], 0, 0)
	}
	s.put(work, float64(x.Calls), x.Begun, x.Sent)
}

func (s *series) put(work, open float64, begun, sent uint64) {
	s.work, s.open = append(s.work, work), append(s.open, open)
	s.begun, s.sent = append(s.begun, begun), append(s.sent, sent)
}

// blocksStage stands for the blocks among the stages.
func blocksStage() results.Stage {
	return results.Stage{Name: results.StageBlocks, Policy: results.Text{Reason: "of all policies"}, Word: results.Text{Reason: "see policies and comparisons"}}
}

// noStage is a stage without a word.
func noStage(name, policy, reason string) results.Stage {
	return results.Stage{Name: name, Policy: results.Text{Value: policy}, Word: results.Text{Reason: reason}}
}

// interrupted is why a stage has no word.
const interruptedReason = "the run was interrupted"

// simStages runs one stage for each policy on all cores; so many calls may be open
// in each.
func (p *Plan) simStages(name string, open float64, stop func() bool, one func(i int) (results.Stage, error)) ([]results.Stage, error) {
	list := make([]results.Stage, len(p.Workload.Policies))
	for i := range list {
		list[i] = noStage(name, p.Workload.Policies[i].Name, interruptedReason)
	}
	if stop() {
		return list, nil
	}
	_, err := spreadOn(workers(open), len(list), stop, func(i int) (err error) {
		list[i], err = one(i)
		return err
	})
	return list, err
}

// simAfter runs the stages after the blocks, and puts them and those before into
// the Run.
func (p *Plan) simAfter(r *results.Run, before []results.Stage, stop func() bool) error {
	if len(p.Stages) == 1 {
		return nil
	}
	r.Stages = append(before, blocksStage())
	if p.has(workloads.Sustained) {
		open := p.piles(p.sustainedTime(true))
		if r.Void != "" {
			open = sim.MaxOpen
		}
		list, err := p.simStages(results.StageSustained, open, stop, func(i int) (results.Stage, error) { return p.simSustained(i, stop) })
		if err != nil {
			return err
		}
		r.Stages = append(r.Stages, list...)
	}
	if p.has(workloads.Pulse) {
		list, err := p.simPulse(r, stop)
		if err != nil {
			return err
		}
		r.Stages = append(r.Stages, list...)
	}
	r.Interrupted = r.Interrupted || stop()
	return nil
}

// simPilot drives plain alone in virtual time.
func (p *Plan) simPilot(stop func() bool) (results.Stage, error) {
	np := plainPolicy()
	blocks, _ := p.pilotBlocks()
	cfg := p.config(&np.Policy, blocks, stop)
	s := newSeries(blocks[0].Burn, blocks[0].Data, pilotSamples, p.Workload.Service)
	cfg.Sample, cfg.OnSample = s.step, s.add
	res, err := sim.Run(cfg)
	switch {
	case err != nil:
		return results.Stage{}, fmt.Errorf("pilot: %w", err)
	case res.Overflow != nil:
		return noStage(results.StagePilot, np.Name, noRoom().P50.Reason), nil
	case res.Stopped:
		return noStage(results.StagePilot, np.Name, interruptedReason), nil
	}
	halves := [2]results.Policy{{Name: np.Name}, {Name: np.Name}}
	var list []results.Block
	for i := range res.Blocks {
		b := &res.Blocks[i]
		list = append(list, results.NewBlock(results.BlockInput{
			Start: time.Duration(b.DataStart), Length: b.DataEnd.Sub(b.DataStart), Prior: np.Name, Ledger: b.Data,
		}))
	}
	return p.judgePilot(list, halves, s.open, s.step), nil
}

// pilotSamples and sustainedSamples are how often a stretch is looked at in
// virtual time.
const (
	pilotSamples     = 20_000
	sustainedSamples = 4_000
)

// simSustained drives policy i alone for one long stretch in virtual time.
func (p *Plan) simSustained(i int, stop func() bool) (results.Stage, error) {
	np := &p.Workload.Policies[i]
	b := workloads.Block{Burn: max(p.Warmup, np.Policy.BurnIn()), Data: p.sustainedTime(true)}
	cfg := p.config(&np.Policy, []workloads.Block{b}, stop)
	s := newSeries(b.Burn, b.Data, sustainedSamples, p.Workload.Service)
	cfg.Sample, cfg.OnSample = s.step, s.add
	res, err := sim.Run(cfg)
	switch {
	case err != nil:
		return results.Stage{}, fmt.Errorf("sustained, policy %s: %w", np.Name, err)
	case res.Stopped && res.Overflow == nil:
		return noStage(results.StageSustained, np.Name, interruptedReason), nil
	}
	in := results.SustainedInput{Policy: np.Name, Of: results.OfWork, Step: s.step, Unfinished: s.work, Begun: s.begun, Sent: s.sent}
	if c := &res.Ledger.Calls; c.Scheduled > 0 {
		in.OK = results.Num(float64(c.OK) / float64(c.Scheduled))
	} else {
		in.OK = results.Absent("no call was scheduled")
	}
	if o := res.Overflow; o != nil {
		in.Early = fmt.Sprintf("after %s, with %s calls and %s attempts in flight", units.Duration(time.Duration(o.At)), units.Count(uint64(o.Calls)), units.Count(uint64(o.Attempts)))
	}
	return results.NewSustained(in), nil
}
