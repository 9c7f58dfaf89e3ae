package trial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"latencylab/clock"
	"latencylab/engine"
	"latencylab/results"
	"latencylab/sim"
	"latencylab/target"
	"latencylab/units"
	"latencylab/workloads"
)

// A pulse on sockets takes real time, for every policy and every run.
const (
	// realPulseRuns is the number of runs unless the user gives one.
	realPulseRuns = 1
	// leastRealLook is how late the look may be at least, whatever the data time.
	leastRealLook = 10 * time.Second
	// leastFreeze is pulseSteps looks at leastStep.
	leastFreeze = pulseSteps * leastStep
	// spareData is what a block has of data beyond the look, so that it does not
	// end before.
	spareData = 10 * time.Second
)

// bound keeps what the user did not give short: the look within the data time of
// a policy, or leastRealLook, and a freeze that plain works off by then. A policy
// that acts late makes both longer, up to a freeze of half that time.
func (u *pulse) bound() {
	p, spec := u.plan, &u.plan.Workload.Pulse
	most := max(p.data(), leastRealLook)
	after := func() time.Duration {
		if spec.After.IsZero() {
			return min(u.lookAfter(u.freeze), most)
		}
		return u.after
	}
	u.leastFreeze()
	u.after = after()
	worked := round(time.Duration(float64(u.after) * float64(u.freeze) / float64(u.lookAfter(u.freeze))))
	switch acts, what := p.latest(); {
	case !spec.Freeze.IsZero() || u.freeze <= worked:
	case max(worked, acts) > u.after/2:
		u.freeze, u.freezeOf = u.after/2, "half of the time to the look"
	case acts > worked:
		u.freeze, u.freezeOf = acts, what
	default:
		u.freeze, u.freezeOf = worked, "so that plain has worked it off by the look"
	}
	u.leastFreeze()
	u.after = max(after(), u.workedOff())
}

// leastFreeze makes the freeze long enough to be looked at pulseSteps times.
func (u *pulse) leastFreeze() {
	if u.freeze < leastFreeze {
		u.freeze, u.freezeOf = leastFreeze, "the least on sockets"
	}
}

// workedOff is twice what plain needs to work the freeze off, for a look that the
// user did not give; 0 if he did.
func (u *pulse) workedOff() time.Duration {
	if !u.plan.Workload.Pulse.After.IsZero() {
		return 0
	}
	return round(time.Duration(min(2*u.rho/(1-min(u.rho, 0.99)), mostAfter) * float64(u.freeze)))
}

// pulses freezes an embedded target of its own under each policy and in each run,
// if the plan has that stage. What goes wrong in it leaves the blocks as they are.
func (m *measurement) pulses(ctx context.Context) {
	p := m.plan
	if !p.has(workloads.Pulse) {
		return
	}
	if m.early != "" {
		m.stages = append(m.stages, p.noPulse(m.early)...)
		return
	}
	stop := func() bool { return m.stopped(ctx) }
	r := &results.Run{Stages: m.stages}
	u, list, err := p.newPulse(&pulse{plan: p, runs: realPulseRuns, real: true}, r, stop)
	switch {
	case err != nil:
		list = p.noPulse(err.Error())
	case u != nil:
		list = m.freezeAll(ctx, u, r)
	}
	m.stages = append(m.stages, list...)
	m.interrupted = m.interrupted || stop()
}

// freezeAll makes the stages of all policies, which take turns in each run.
func (m *measurement) freezeAll(ctx context.Context, u *pulse, r *results.Run) (list []results.Stage) {
	policies := m.plan.Workload.Policies
	of := make([][]outcome, len(policies))
	why := make([]string, len(policies))
	for run := range u.runs {
		for i := range policies {
			o, err := m.freezeOne(ctx, u, i, run)
			switch {
			case err != nil && why[i] == "":
				why[i] = err.Error()
			case o.done:
				of[i] = append(of[i], o)
			}
		}
	}
	for i := range policies {
		if len(of[i]) == 0 && why[i] != "" {
			list = append(list, noStage(results.StagePulse, policies[i].Name, why[i]))
			continue
		}
		list = append(list, u.stage(r, i, of[i]))
	}
	return list
}

// freezeOne drives policy i alone against a target of its own, which is frozen
// once, with the seeds of the plan and those that follow.
func (m *measurement) freezeOne(ctx context.Context, u *pulse, i, run int) (outcome, error) {
	if m.stopped(ctx) {
		return outcome{}, nil
	}
	own := newMeasurement(m.plan.reseeded(uint64(run)), m.setup)
	defer own.close()
	if err := own.embed(); err != nil {
		return outcome{}, err
	}
	templates, err := m.setup.templates(own.plan, own.runID, m.runID)
	if err != nil {
		return outcome{}, err
	}
	w := &own.plan.Workload
	np := &w.Policies[i]
	var counts tally
	cfg := own.config(max(u.freeze/pulseSteps, leastStep), func(iv engine.Interval) {
		counts.add(&iv)
		if m.setup.Observer.Interval != nil {
			m.setup.Observer.Interval(np.Name, iv)
		}
	})
	cfg.Lanes = []engine.Lane{{Name: np.Name, Policy: &np.Policy, Clients: w.Clients, Template: templates[i]}}
	if own.eng, err = engine.New(cfg); err != nil {
		return outcome{}, err
	}
	defer own.watch(ctx, own.eng)()
	b := workloads.Block{Ramp: w.Ramp, Burn: own.plan.Warmup, Data: 2*u.freeze + u.after}
	if m.setup.Observer.Stage != nil {
		m.setup.Observer.Stage(results.StagePulse, np.Name, b)
	}
	b.Data += spareData
	if err := own.mark(ctx, b, 1); err != nil {
		return outcome{}, err
	}
	return own.follow(ctx, u, b, &counts)
}

// follow runs the block, freezes the target after a stretch as long as the freeze,
// and ends it when the policy is back, or at the look.
func (m *measurement) follow(ctx context.Context, u *pulse, b workloads.Block, counts *tally) (outcome, error) {
	remote := target.NewRemote(m.child.Admin)
	defer remote.Close()
	w := &watch{u: u, servers: float64(m.plan.Workload.Service.Servers()), from: b.Ramp + b.Burn, allowed: lostTimes * u.work}
	w.release = w.from + 2*u.freeze
	w.look = w.release + u.after
	var got *engine.Block
	var failed error
	ended := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		got, failed = m.eng.Run(0, b)
	}()
	err := m.sampleUntil(ctx, w, remote, counts, began, ended)
	looked := err == nil && !w.over && time.Since(began) >= w.look
	m.eng.Abort()
	<-ended
	switch {
	case failed != nil:
		return outcome{}, failed
	case got.Early != "":
		return outcome{}, fmt.Errorf("it ended early: %s", got.Early)
	case m.stopped(ctx):
		return outcome{}, nil
	case err != nil:
		return outcome{}, err
	case !w.over && (!looked || w.last.n == 0):
		return outcome{}, fmt.Errorf("the target was not seen in the last %s before the look", units.FormatDuration(u.freeze))
	}
	o := w.result(looked)
	o.stranded = got.Stranded
	return o, nil
}

// sampleUntil samples target and counts until w has seen enough or the block has
// ended, and pulls the trigger in between.
func (m *measurement) sampleUntil(ctx context.Context, w *watch, remote *target.Remote, counts *tally, began time.Time, ended <-chan struct{}) error {
	tick := time.NewTicker(max(w.u.freeze/pulseSteps, leastStep))
	defer tick.Stop()
	frozen := false
	for {
		select {
		case <-ended:
			return nil
		case <-tick.C:
		}
		switch at := time.Since(began); {
		case at < w.from:
			counts.take()
			continue
		case !frozen && at >= w.from+w.u.freeze:
			if _, err := remote.Pulse(ctx, w.u.freeze); err != nil {
				return err
			}
			frozen = true
			w.release = time.Since(began) + w.u.freeze
			w.look = w.release + w.u.after
		}
		work, err := remote.Backlog(ctx)
		if err != nil {
			return err
		}
		at := time.Since(began)
		iv, s := counts.take()
		s.At, s.Work = clock.Time(at), time.Duration(work.WorkNS)
		w.interval(iv)
		if w.sample(s); w.over || at >= w.look {
			return nil
		}
	}
}

// tally adds up the intervals of an engine between two samples.
type tally struct {
	mu          sync.Mutex
	data        sim.Interval // of the data
	ended, sent uint64       // of burn-in and data
	open, was   int          // calls, now and at the last sample
}

func (t *tally) add(iv *engine.Interval) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !iv.Burn {
		t.data.Ended, t.data.Failed = t.data.Ended+iv.Ended, t.data.Failed+iv.Failed
	}
	t.ended, t.sent, t.open = t.ended+iv.Ended, t.sent+iv.Sent, iv.Open
}

// take returns what has come since the last time.
func (t *tally) take() (sim.Interval, sim.Sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	iv := t.data
	s := sim.Sample{Calls: t.open, Begun: uint64(max(int64(t.ended)+int64(t.open)-int64(t.was), 0)), Sent: t.sent}
	t.data, t.ended, t.sent, t.was = sim.Interval{}, 0, 0, t.open
	return iv, s
}
