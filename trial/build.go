package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"latencylab/engine"
	"latencylab/policy"
	"latencylab/results"
	"latencylab/sim"
	"latencylab/units"
)

// newRun returns a Run with what the plan alone says.
func (p *Plan) newRun() (*results.Run, error) {
	w := &p.Workload
	stored := *w
	if p.unbounded {
		stored.Connections = 0
	}
	notes := p.Notes
	text, err := stored.Marshal()
	if err != nil { // what was measured counts more than that it can be run again from its result
		text, notes = nil, append(slices.Clip(notes), fmt.Sprintf("the result holds no workload that could be run again: %v", err))
	}
	r := &results.Run{
		Schema: results.Schema, Version: p.Version, Command: p.Command, Seed: w.Seed,
		Mode: results.Open, Clients: w.Clients, Workload: string(text), Warnings: notes,
		BestCase: w.Service != nil && w.Graph == nil && bestCase(w.Service),
	}
	q := &r.Requested
	q.Connections, q.Threads = w.Connections, w.Threads
	q.WarmupNS, q.DrainNS = results.Num(float64(p.Warmup)), results.Num(float64(w.Drain))
	for _, t := range w.Within {
		q.WithinNS = append(q.WithinNS, int64(t))
	}
	q.RatePerS = results.Absent("closed loop")
	q.Arrivals.Reason = "closed loop"
	if p.Closed {
		r.Mode = results.Closed
	} else {
		q.RatePerS = results.Num(w.Rate.PerSecond())
		q.Arrivals.Value = w.Arrivals.String()
	}
	q.DurationNS = results.Absent("the number of requests ends the run")
	q.Requests = results.Absent("the duration ends the run")
	if w.Requests > 0 {
		q.Requests = results.Num(float64(w.Requests))
	} else {
		q.DurationNS = results.Num(float64(w.Duration))
	}
	return r, nil
}

// run builds the Run of what was measured.
func (m *measurement) run(ctx context.Context) (*results.Run, error) {
	p := m.plan
	r, err := p.newRun()
	if err != nil {
		return nil, err
	}
	r.Driver, r.Host = results.Sockets, host(m.method)
	r.StartedAt, r.DurationNS = m.began.UTC(), int64(m.ended.Sub(m.began))
	r.Interrupted, r.Void, r.Stopped = m.interrupted, m.early, m.halt
	r.Requested.Endpoints, r.Names = m.site.Names, m.names()
	if r.NoMarker = m.setup.Guards.NoMarker; r.NoMarker == "" {
		r.Marker = m.runID
	}
	m.achieved(r)
	var digests []string
	r.Target, digests, r.NoTarget = m.collect(ctx)
	r.TargetSeed = m.targetSeed
	if m.childEnded() && m.early == "" {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the embedded target ended after the last call (%v)", m.child.Err()))
	}
	for i := range m.lanes {
		l, np := &m.lanes[i], &p.Workload.Policies[i]
		rp := results.NewPolicy(np.Name, np.Spec, l.data, &l.burn)
		rp.Loops = l.loops
		r.Loops = max(r.Loops, l.loops)
		rp.HedgeDelayNS = delayOf(&np.Policy, l.delay, l.hedging)
		rp.DrawsDigest = results.Text{Value: digests[i], Reason: "the target's draws are not known"}
		if digests[i] != "" {
			rp.DrawsDigest.Reason = ""
		}
		if p.Closed {
			rp.AchievedShare = results.Absent("closed loop")
		} else if n := l.data.Calls.Scheduled; n > 0 {
			rp.AchievedShare = results.Num(float64(min(l.inTime, n)) / float64(n))
		}
		if n := l.stranded; n > 0 {
			r.Warnings = append(slices.Clip(r.Warnings), fmt.Sprintf("policy %s: %s of %s calls never got a connection; %s are the ceiling of an open loop",
				np.Name, units.Count(n), units.Count(l.data.Calls.Scheduled), units.Count(uint64(p.Workload.Connections))))
		}
		if n := l.data.Refused[policy.RuleCeiling]; n > 0 {
			r.Warnings = append(slices.Clip(r.Warnings), fmt.Sprintf("policy %s: %s retries and hedges were not sent, as max-attempt-rate is %s: its figures are those of the policy below that ceiling",
				np.Name, units.Count(n), p.Workload.MaxAttemptRate))
		}
		rp.BusiestShare = results.Num(l.busy)
		rp.Blocks, rp.Intervals = l.blocks, l.intervals.List()
		r.Policies = append(r.Policies, rp)
	}
	r.DrawsDigest = r.Policies[0].DrawsDigest
	if r.Void == "" && !r.Interrupted {
		r.Void = m.void(r)
	}
	if len(p.Stages) > 1 {
		r.Stages = m.stages
	}
	m.digest(r)
	if err := m.predict(ctx, r); err != nil {
		return nil, err
	}
	finish(r)
	return r, nil
}

// Nothing is why a Run without a call among its data is void.
const Nothing = "no call fell into the data"

// void says why no figure of a run that went to its end may be relied on.
func (m *measurement) void(r *results.Run) string {
	if _, ok := Unreached(r); ok {
		return "no attempt reached the server"
	}
	if !slices.ContainsFunc(r.Policies, func(p results.Policy) bool { return p.Calls.Scheduled > 0 }) {
		return Nothing
	}
	if m.child != nil && r.Target == nil {
		return "the embedded target does not say what it did: " + r.NoTarget
	}
	return ""
}

// achieved fills in what came of the request.
func (m *measurement) achieved(r *results.Run) {
	var begun, sent uint64
	var data time.Duration
	for i := range m.lanes {
		l := &m.lanes[i]
		data += l.dataTime
		if m.plan.Closed {
			begun += l.data.Calls.Scheduled
		} else {
			begun += l.inTime
		}
		sent += l.data.Attempts.Sent + l.burn.Attempts.Sent
	}
	a := &r.Achieved
	a.DataNS = results.Num(float64(data))
	a.RatePerS = results.Absent("no time was measured")
	if data > 0 {
		a.RatePerS = results.Num(float64(begun) / data.Seconds())
	}
	a.CPUPerCall, a.PeakMemory = results.Absent("not known on this system"), results.Absent("not known on this system")
	if !m.metered {
		return
	}
	u := m.spent
	a.PeakMemory = results.Num(u.rss)
	a.CPUPerCall = results.Absent("nothing was sent")
	if sent > 0 {
		a.CPUPerCall = results.Num(float64(u.cpu-m.used.cpu) / float64(sent))
	}
}

// digest identifies the arrivals, which were the same for every policy.
func (m *measurement) digest(r *results.Run) {
	if m.plan.Closed {
		r.ArrivalsDigest.Reason = "closed loop"
		return
	}
	r.ArrivalsDigest.Value = hex(m.lanes[0].digest)
	for i := range m.lanes {
		if m.lanes[i].digest != m.lanes[0].digest && !m.interrupted && m.early == "" {
			r.Warnings = append(r.Warnings, fmt.Sprintf("policy %s met other arrivals than policy %s",
				m.plan.Workload.Policies[i].Name, m.plan.Workload.Policies[0].Name))
		}
	}
}

// predict adds what the simulator says of the same plan.
func (m *measurement) predict(ctx context.Context, r *results.Run) error {
	reason := ""
	switch {
	case m.plan.Workload.Service == nil:
		reason = "the service is not known"
	case m.plan.Workload.Graph != nil && unknownTo(m.plan.Workload.Graph) != nil:
		reason = unknownTo(m.plan.Workload.Graph).Error()
	case m.plan.Closed:
		reason = "the simulator runs open loops"
	case slices.ContainsFunc(m.lanes, func(l lane) bool { return l.data.Refused[policy.RuleCeiling] > 0 }):
		reason = "the simulator knows no ceiling on attempts, and it has acted"
	case m.interrupted:
		reason = "the run was interrupted"
	case r.Void != "":
		reason = "the run is void"
	}
	if reason != "" {
		for i := range r.Policies {
			r.Policies[i].NoPredicted = reason
		}
		return nil
	}
	stop := func() bool { return m.stopped(ctx) }
	for i := range r.Policies {
		got, err := m.plan.simulate(i, stop, nil)
		if err != nil {
			return err
		}
		if s := m.plan.overload(i, got); s != "" && !slices.Contains(r.Warnings, s) {
			r.Warnings = append(slices.Clip(r.Warnings), s)
		}
		if got.Overflow != nil {
			r.Policies[i].NoPredicted = fmt.Sprintf("more than %s calls or attempts in flight are not simulated", units.Count(sim.MaxOpen))
			continue
		}
		if got.Stopped {
			r.Policies[i].NoPredicted = "the prediction was interrupted"
			continue
		}
		r.Policies[i].Predicted, r.Policies[i].NoPredicted = results.NewPredicted("simulator", got.Ledger), ""
	}
	return nil
}

// finish compares every policy with the first one and judges the Run.
func finish(r *results.Run) {
	for i := range r.Policies {
		p := &r.Policies[i]
		if n := p.Refused[policy.RuleIdempotency.String()]; n > 0 {
			r.Warnings = append(slices.Clip(r.Warnings), fmt.Sprintf(
				"policy %s: %s retries or hedges were not sent: the request is not idempotent; --idempotency-key or --idempotent allows them", p.Name, units.Count(n)))
		}
	}
	switch {
	case len(r.Policies) < 2:
	case r.Interrupted:
		r.NoComparison = "the run was interrupted"
	case r.Void != "":
		r.NoComparison = "the run is void"
	default:
		o := results.CompareOptions{Seed: r.Seed}
		if len(r.Requested.WithinNS) > 0 {
			o.Within = time.Duration(r.Requested.WithinNS[0])
			for _, t := range r.Requested.WithinNS[1:] {
				o.Further = append(o.Further, time.Duration(t))
			}
		}
		for i := range r.Policies[1:] {
			r.Comparisons = append(r.Comparisons, results.Compare(&r.Policies[0], &r.Policies[i+1], o))
		}
		r.AddPulses()
	}
	judge(r)
}

// judge fills in the verdict. Ledgers that disagree make the Run invalid.
func judge(r *results.Run) {
	r.Verdict = results.Judge(r)
	if r.Target == nil {
		return
	}
	for _, rec := range r.Target.Reconciliation {
		if rec.Holds {
			continue
		}
		r.Verdict.Valid = false
		r.Verdict.Claims = append(r.Verdict.Claims, results.Claim{
			Figure: rec.Policy + ".reconciliation", Policy: rec.Policy, Generator: true, Used: true,
			Reason: results.Text{Value: fmt.Sprintf("client and target disagree: %d sent, %d to %d must have arrived, %d arrived; %d answered, %d served",
				rec.Sent, rec.AtLeast, rec.Sent, rec.Arrived, rec.Answered, rec.Served)},
		})
	}
}

// Unreached says that nothing was measured: no attempt was answered, and every
// one failed before its connection stood. sample is one of the errors.
func Unreached(r *results.Run) (sample string, ok bool) {
	if strings.HasPrefix(r.Void, engine.Unreachable) {
		return r.Void, true
	}
	for i := range r.Policies {
		p := &r.Policies[i]
		if p.Attempts.OK > 0 || p.Service.Count > 0 || p.First.Count > 0 {
			return "", false
		}
		for _, e := range p.Errors {
			if e.Phase != policy.PhaseConnect.String() && e.Phase != policy.PhaseAcquire.String() && e.Phase != policy.PhaseDNS.String() && e.Phase != policy.PhaseTLS.String() {
				return "", false
			}
			sample = e.Class
			if e.Sample != "" {
				sample += ": " + e.Sample
			}
		}
	}
	return sample, sample != ""
}

// hex writes a digest as 16 hexadecimal digits.
func hex(digest uint64) string { return fmt.Sprintf("%016x", digest) }
