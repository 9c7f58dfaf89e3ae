package trial

import (
	"context"
	"fmt"
	"time"

	"latencylab/clock"
	"latencylab/engine"
	"latencylab/results"
	"latencylab/target"
	"latencylab/workloads"
)

// alone is one policy driven by itself on sockets, with connections and a ledger
// key of its own.
type alone struct {
	blocks  []*engine.Block
	points  []point // of the first block
	early   string  // why it ended before its time; "" when it did not
	stopped bool
}

// point is what happened in one interval: calls of burn-in and data together.
type point struct {
	end         clock.Time
	open        int    // calls open at the end
	ended, sent uint64 // calls and attempts in it
}

const (
	// aloneSteps is about how often a stretch is looked at on sockets, and
	// leastStep the least time between two looks.
	aloneSteps = 1000
	leastStep  = 20 * time.Millisecond
)

// driveAlone runs the blocks under one policy.
func (m *measurement) driveAlone(ctx context.Context, stage string, np *workloads.NamedPolicy, blocks []workloads.Block) (*alone, error) {
	a := &alone{}
	if m.stopped(ctx) || m.childEnded() {
		a.stopped = true
		return a, nil
	}
	only := *m.plan
	only.Workload.Policies = []workloads.NamedPolicy{*np}
	runID := newRunID()
	setup := *m.setup
	if len(m.plan.Workload.Policies) > 1 && setup.CallHeaders == "auto" {
		setup.CallHeaders = "on" // as in the blocks
	}
	templates, err := setup.templates(&only, runID, m.runID)
	if err != nil {
		return nil, err
	}
	key := ""
	if setup.callHeaders(&only) {
		key = runKey(runID, 0)
	}
	first := true
	var eng *engine.Engine
	cfg := m.config(min(max(blocks[0].Data/aloneSteps, leastStep), m.plan.interval()), func(iv engine.Interval) {
		if first {
			a.add(iv)
		}
		if m.setup.Observer.Interval != nil {
			m.setup.Observer.Interval(np.Name, iv)
		}
		m.look(np.Name, iv, eng)
	})
	cfg.Lanes = []engine.Lane{{Name: np.Name, Policy: &np.Policy, Clients: m.plan.Workload.Clients, Template: templates[0]}}
	if eng, err = engine.New(cfg); err != nil {
		return nil, err
	}
	defer m.closeEngine(eng)
	stop := m.watch(ctx, eng)
	defer stop()
	for n, b := range blocks {
		if n == 0 {
			b.Ramp = m.plan.Workload.Ramp
		}
		if m.setup.Observer.Stage != nil {
			m.setup.Observer.Stage(stage, np.Name, b)
		}
		if err := m.mark(ctx, b, uint32(n+1)); err != nil {
			return nil, err
		}
		got, err := eng.Run(0, b)
		if err != nil {
			return nil, fmt.Errorf("%s, policy %s: %w", stage, np.Name, err)
		}
		first, a.blocks = false, append(a.blocks, got)
		a.early, a.stopped = got.Early, got.Stopped
		if m.halt != nil {
			m.early = m.halted()
			a.early = m.early
		}
		if a.early != "" || a.stopped {
			break
		}
		if m.child != nil {
			m.settle(ctx, key) // what the target says is not held against these attempts
		}
	}
	return a, nil
}

// mark tells an embedded target with schedules where the data of a block begins.
func (m *measurement) mark(ctx context.Context, b workloads.Block, n uint32) error {
	if m.child == nil || !m.plan.Workload.Service.Scheduled() {
		return nil
	}
	if err := target.PostMark(ctx, m.ledgerURL, b.Ramp+b.Burn, n); err != nil && !m.childEnded() {
		return err
	}
	return nil
}

// add takes an interval of the first block: that of the burn-in comes before that
// of the data which ends with it.
func (a *alone) add(iv engine.Interval) {
	if n := len(a.points); n > 0 && a.points[n-1].end == iv.End {
		p := &a.points[n-1]
		p.ended, p.sent = p.ended+iv.Ended, p.sent+iv.Sent
		return
	}
	a.points = append(a.points, point{iv.End, iv.Open, iv.Ended, iv.Sent})
}

// series returns the open calls at the ends of the intervals in the data of the
// first block, the calls begun and the attempts sent in each, and their mean
// length.
func (a *alone) series() (open []float64, begun, sent []uint64, step time.Duration) {
	b := a.blocks[0]
	for i, p := range a.points {
		if i == 0 || a.points[i-1].end < b.DataStart || p.end > b.DataEnd {
			continue
		}
		open, sent = append(open, float64(p.open)), append(sent, p.sent)
		// Of one loop this is exact; those of several end at slightly other instants.
		begun = append(begun, uint64(max(int64(p.ended)+int64(p.open)-int64(a.points[i-1].open), 0)))
	}
	return open, begun, sent, b.DataEnd.Sub(b.DataStart) / time.Duration(max(len(open), 1))
}

// pilot drives plain alone before the blocks, if the plan has that stage, and
// lets the plan follow its advice.
func (m *measurement) pilot(ctx context.Context) error {
	p := m.plan
	if !p.has(workloads.Pilot) {
		return nil
	}
	np := plainPolicy()
	blocks, _ := p.pilotBlocks()
	a, err := m.driveAlone(ctx, results.StagePilot, &np, blocks)
	if err != nil {
		return err
	}
	st := noStage(results.StagePilot, np.Name, interruptedReason)
	switch {
	case a.early != "":
		st.Word.Reason = a.early
	case !a.stopped:
		var list []results.Block
		for _, b := range a.blocks {
			list = append(list, results.NewBlock(results.BlockInput{Length: b.DataEnd.Sub(b.DataStart), Prior: np.Name, Ledger: b.Data}))
		}
		open, _, _, step := a.series()
		st = p.judgePilot(list, [2]results.Policy{{Name: np.Name}, {Name: np.Name}}, open, step)
	}
	m.plan = p.advised(&st)
	m.stages = append(m.stages, st)
	return nil
}

// sustain drives each policy alone for one long stretch after the blocks, if the
// plan has that stage.
func (m *measurement) sustain(ctx context.Context) error {
	p := m.plan
	m.stages = append(m.stages, blocksStage())
	if !p.has(workloads.Sustained) {
		return nil
	}
	m.closeEngine(m.eng) // its connections count against the file limit
	m.eng = nil
	for i := range p.Workload.Policies {
		np := &p.Workload.Policies[i]
		if m.early != "" {
			m.stages = append(m.stages, noStage(results.StageSustained, np.Name, m.early))
			continue
		}
		b := workloads.Block{Burn: p.Warmup, Data: p.sustainedTime(false)}
		a, err := m.driveAlone(ctx, results.StageSustained, np, []workloads.Block{b})
		if err != nil {
			return err
		}
		m.stages = append(m.stages, judgeAlone(np.Name, a))
		m.interrupted = m.interrupted || a.stopped && !m.childEnded()
	}
	return nil
}

// judgeAlone makes the stage of what a policy did alone.
func judgeAlone(name string, a *alone) results.Stage {
	switch {
	case a.early != "":
		return noStage(results.StageSustained, name, a.early)
	case a.stopped:
		return noStage(results.StageSustained, name, interruptedReason)
	}
	in := results.SustainedInput{Policy: name, Of: results.OfCalls, OK: results.Absent("no call was scheduled")}
	in.Unfinished, in.Begun, in.Sent, in.Step = a.series()
	if c := &a.blocks[0].Data.Calls; c.Scheduled > 0 {
		in.OK = results.Num(float64(c.OK) / float64(c.Scheduled))
	}
	return results.NewSustained(in)
}
