package trial

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"latencylab/histo"
	"latencylab/policy"
	"latencylab/results"
	"latencylab/sim"
	"latencylab/units"
	"latencylab/workloads"
)

// A pulse run: burn-in, a stretch as long as the freeze to see what things are
// like, the freeze of all servers, and the time until the look. Means are taken
// over stretches as long as the freeze, of pulseSteps samples each.
const (
	pulseSteps = 20
	// lostTimes is how many times plain's stationary unfinished work a service
	// holds that has not recovered; backTimes is what counts as back for good.
	lostTimes = 4.0
	backTimes = 2.0
	// lostShare is how many more of all calls fail then.
	lostShare = 0.05
	// referenceCalls is the number of plain calls of each seed that say what is
	// stationary.
	referenceCalls = 20_000
	// pulseRoom is the part of the calls that the simulator holds that may pile up
	// during a freeze.
	pulseRoom = 8
)

// pulse is a pulse stage under way.
type pulse struct {
	plan          *Plan
	real          bool // on sockets, where time costs
	runs          int
	rho           float64 // of first attempts
	freeze, after time.Duration
	freezeOf      string  // in words
	work, calls   float64 // stationary under plain: unfinished work per server in ns, open calls
	failed        float64 // share of plain's calls
	p99           time.Duration
}

// noPulse is the stage without a word, for the same reason of every policy.
func (p *Plan) noPulse(reason string) (list []results.Stage) {
	for i := range p.Workload.Policies {
		list = append(list, noStage(results.StagePulse, p.Workload.Policies[i].Name, reason))
	}
	return list
}

// simPulse freezes all servers under each policy. r holds the blocks, and the
// sustained stage if there was one.
func (p *Plan) simPulse(r *results.Run, stop func() bool) ([]results.Stage, error) {
	u, list, err := p.newPulse(&pulse{plan: p, runs: pulseRuns}, r, stop)
	if u == nil {
		return list, err
	}
	return u.policies(r, stop)
}

// newPulse makes u ready: what is stationary, and how long things take. It
// returns nil, and the stages, when nothing is to be frozen.
func (p *Plan) newPulse(u *pulse, r *results.Run, stop func() bool) (*pulse, []results.Stage, error) {
	rho := 0.0
	if p.Workload.Graph == nil {
		rho, _, _ = p.load()
	}
	switch w := &p.Workload; {
	case w.Graph != nil:
		return nil, p.noPulse("services that call each other are not frozen"), nil
	case !w.Service.Coupled():
		return nil, p.nothingToPush(), nil
	case rho > 1 && w.Service.Slots > 0 && w.Service.Queue < 0:
		return nil, p.noPulse(fmt.Sprintf("first attempts alone are rho %s: there is no state to come back to", times(rho))), nil
	case stop():
		return nil, p.noPulse(interruptedReason), nil
	}
	u.rho = rho
	if n := p.Workload.Pulse.Runs; n > 0 {
		u.runs = n
	}
	why, err := u.reference(r, stop)
	if err == nil && why == "" {
		why = u.lengths()
	}
	if err != nil || why != "" {
		return nil, p.noPulse(why), err
	}
	return u, nil, nil
}

// nothingToPush is the stage of servers that a freeze cannot push over.
func (p *Plan) nothingToPush() (list []results.Stage) {
	for i := range p.Workload.Policies {
		list = append(list, results.Stage{Name: results.StagePulse, Policy: results.Text{Value: p.Workload.Policies[i].Name}, Word: results.Text{Value: results.Recovered},
			Pulse: &results.PulseResult{Note: "requests take nothing from each other here (no slots, no capacity, no thrash), so that no freeze can push anything over"}})
	}
	return list
}

// reference simulates plain for every seed: its p99, and what is stationary. why
// says why that is not known.
func (u *pulse) reference(r *results.Run, stop func() bool) (why string, err error) {
	p := u.plan
	np := plainPolicy()
	data := span(p.Workload.Rate, referenceCalls)
	b := workloads.Block{Burn: max(p.Warmup, data/4), Data: data}
	type seen struct {
		work, calls float64
		ok          *histo.Histogram
		all, bad    uint64
		ended       bool
		full        bool
	}
	list := make([]seen, u.runs)
	if _, err := spreadOn(workers(0), u.runs, stop, func(i int) error {
		q := p.reseeded(uint64(i))
		s := newSeries(b.Burn, b.Data, 1000, p.Workload.Service)
		cfg := q.config(&np.Policy, []workloads.Block{b}, stop)
		cfg.Sample, cfg.OnSample = s.step, s.add
		res, err := sim.Run(cfg)
		if err != nil {
			return fmt.Errorf("pulse, reference: %w", err)
		}
		c := &res.Ledger.Calls
		list[i] = seen{mean(s.work), mean(s.open), res.Ledger.OK, c.Scheduled, c.Scheduled - c.OK, !res.Stopped, res.Overflow != nil}
		return nil
	}); err != nil {
		return "", err
	}
	ok := histo.New()
	var calls, bad uint64
	for i := range list {
		s := &list[i]
		if s.full {
			return "plain itself is unstable: there is no state to come back to", nil
		}
		if !s.ended {
			return interruptedReason, nil
		}
		u.work += s.work / float64(u.runs)
		u.calls += s.calls / float64(u.runs)
		ok.Merge(s.ok)
		calls, bad = calls+s.all, bad+s.bad
	}
	if ok.Count() == 0 {
		return "no call of plain was answered OK, so that there is no p99 to scale the freeze by", nil
	}
	u.failed = float64(bad) / float64(calls)
	u.p99 = time.Duration(ok.Quantile(0.99))
	if i, ok := p.plainAt(); ok && i < len(r.Policies) && r.Policies[i].Response.P99.Present {
		u.p99 = time.Duration(r.Policies[i].Response.P99.Value)
	}
	return "", nil
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	if len(xs) == 0 {
		return 0
	}
	return sum / float64(len(xs))
}

// lengths chooses how long the servers are frozen, and when they are looked at.
func (u *pulse) lengths() (why string) {
	p := u.plan
	spec := &p.Workload.Pulse
	multiple := func(m workloads.Multiple) string {
		if m.Times == 0 {
			return "as given"
		}
		return fmt.Sprintf("%s × plain's p99, %s", m, units.Duration(u.p99))
	}
	if spec.Freeze.IsZero() {
		u.chooseFreeze()
	} else {
		u.freeze, u.freezeOf = spec.Freeze.Of(u.p99), multiple(spec.Freeze)
	}
	if u.after = u.lookAfter(u.freeze); !spec.After.IsZero() {
		u.after = spec.After.Of(u.p99)
	}
	if u.real {
		u.bound()
	}
	u.freeze, u.after = max(u.freeze, pulseSteps), max(u.after, u.freeze)
	if total := float64(p.Warmup) + float64(u.freeze) + float64(u.after); total > float64(longestSim)/2 {
		return fmt.Sprintf("a freeze of %s and a look %s later take longer than a simulation holds", units.FormatDuration(u.freeze), units.FormatDuration(u.after))
	}
	return ""
}

// lookAfter is when to look after a freeze of that length.
func (u *pulse) lookAfter(freeze time.Duration) time.Duration {
	return round(time.Duration(min(max(afterTimes*u.rho/(1-min(u.rho, 0.99)), leastAfter), mostAfter) * float64(freeze)))
}

// round keeps two digits of d, so that it can be said in a sentence.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 100 {
		unit *= 10
	}
	return d.Round(unit)
}

// acts is the longest time, up to maxActs, after which policy k does something
// about slowness or failure: a freeze that is shorter would not make it act. what
// says in words what it is.
func (p *Plan) acts(k int) (d time.Duration, what string) {
	pol := p.policyOf(k)
	note := func(x time.Duration, is string) {
		if x > d && x <= maxActs {
			d, what = x, is
		}
	}
	note(pol.Timeouts[policy.PartAttempt].After, "attempt timeout")
	note(pol.Hedge.Delay, "hedge delay")
	waits := time.Duration(0)
	for n := 1; n <= pol.Retry.Max && waits < maxActs; n++ {
		waits += min(pol.Backoff.Bound(n), maxActs)
		note(waits, "waits before retries")
	}
	return d, what
}

// maxActs bounds acts: what takes longer is left to the user.
const maxActs = time.Minute

// latest is twice the longest acts of the policies, and says of which it is.
func (p *Plan) latest() (twice time.Duration, of string) {
	for i := range p.Workload.Policies {
		if d, what := p.acts(i); 2*d > twice {
			twice, of = 2*d, fmt.Sprintf("twice the %s of %s of policy %s", units.FormatDuration(d), what, p.Workload.Policies[i].Name)
		}
	}
	return twice, of
}

// chooseFreeze takes freezeTimes the p99, and at least twice the time after which
// a policy acts and half as much again as fills a bounded queue.
func (u *pulse) chooseFreeze() {
	p := u.plan
	u.freeze = round(workloads.Multiple{Times: freezeTimes}.Of(u.p99))
	u.freezeOf = fmt.Sprintf("%d × plain's p99, %s", freezeTimes, units.Duration(u.p99))
	if d, of := p.latest(); d > u.freeze {
		u.freeze, u.freezeOf = d, of
	}
	sp := p.Workload.Service
	if fill := span(p.Workload.Rate, uint64(sp.Servers()*(sp.Slots+max(sp.Queue, 0)))); sp.Slots > 0 && sp.Queue >= 0 && fill+fill/2 > u.freeze {
		u.freeze, u.freezeOf = round(fill+fill/2), "half as much again as fills the queues"
	}
	if most := span(p.Workload.Rate, sim.MaxOpen/pulseRoom); u.freeze > most {
		u.freeze, u.freezeOf = most, fmt.Sprintf("so that no more than %s calls pile up", units.Count(sim.MaxOpen/pulseRoom))
	}
}

// outcome is what became of one policy in one run of a pulse.
type outcome struct {
	done, lost    bool
	full          bool // more was open than is simulated
	before, after float64
	recovery      time.Duration // from the release; only when it came back
	back          bool
	attempts      float64 // sent a call at the look; 0: no call began
	failed        float64 // share of calls at the look
	stranded      uint64  // calls that never got a connection, on sockets
}

// policies pulls the trigger for every policy and every seed, on all cores.
func (u *pulse) policies(r *results.Run, stop func() bool) ([]results.Stage, error) {
	p := u.plan
	k := len(p.Workload.Policies)
	all := make([]outcome, k*u.runs)
	_, err := spreadOn(workers(2*p.Workload.Rate.PerSecond()*(u.freeze+u.after).Seconds()), len(all), stop, func(i int) (err error) {
		all[i], err = u.run(i%k, i/k, u.allowed(r, i%k), stop)
		return err
	})
	if err != nil {
		return nil, err
	}
	var list []results.Stage
	for i := range k {
		var of []outcome
		for run := range u.runs {
			if o := all[run*k+i]; o.done {
				of = append(of, o)
			}
		}
		list = append(list, u.stage(r, i, of))
	}
	return list, nil
}

// allowed is the unfinished work per server that policy i may hold: four times
// the stationary mean of plain, or its own if it was stable alone.
func (u *pulse) allowed(r *results.Run, i int) float64 {
	return lostTimes * max(u.work, ownWork(r, u.plan.Workload.Policies[i].Name))
}

// ownWork is the mean unfinished work per server of a policy that was stable
// alone; 0 when that is not known.
func ownWork(r *results.Run, name string) float64 {
	for i := range r.Stages {
		s := &r.Stages[i]
		if s.Name == results.StageSustained && s.Policy.Value == name && s.Word.Value == results.Stable && s.Sustained.Of == results.OfWork {
			return s.Sustained.Mean.Value
		}
	}
	return 0
}

// watch follows one run of a pulse: what it was like before the freeze, over the
// last stretch before the look, and over the last one now.
type watch struct {
	u                   *pulse
	servers             float64
	from, release, look time.Duration // on the policy's clock
	allowed             float64       // unfinished work per server
	before, last        sums
	recent              [pulseSteps]sums
	n                   int  // samples since the release
	now                 sums // calls that ended since the last sample
	over                bool // nothing more is to be learnt
	out                 outcome
}

// sums add up samples.
type sums struct {
	n           int
	work, calls float64 // unfinished work per server, open calls
	begun, sent uint64
	ended, bad  uint64 // calls, and those of them that failed
}

func (s *sums) add(o *sums) {
	s.n += o.n
	s.work, s.calls = s.work+o.work, s.calls+o.calls
	s.begun, s.sent = s.begun+o.begun, s.sent+o.sent
	s.ended, s.bad = s.ended+o.ended, s.bad+o.bad
}

// means returns the means of unfinished work per server and of open calls, and
// the share of calls that failed.
func (s *sums) means() (work, calls, failed float64) {
	n := float64(max(s.n, 1))
	return s.work / n, s.calls / n, float64(s.bad) / float64(max(s.ended, 1))
}

// run simulates policy i with the given seed, counted from the plan's.
func (u *pulse) run(i, seed int, allowed float64, stop func() bool) (outcome, error) {
	q := u.plan.reseeded(uint64(seed))
	np := &q.Workload.Policies[i]
	burn := max(q.Warmup, np.Policy.BurnIn())
	frozen := q.Workload.Service.Frozen(u.freeze, u.freeze)
	w := &watch{u: u, servers: float64(frozen.Servers()), from: burn, release: burn + 2*u.freeze, allowed: allowed}
	w.look = w.release + u.after
	cfg := q.config(&np.Policy, []workloads.Block{{Burn: burn, Data: w.look - burn}}, func() bool { return w.over || stop() })
	cfg.Service, cfg.Horizon = frozen, 1
	cfg.Sample = uneven(u.freeze / pulseSteps)
	cfg.Interval = cfg.Sample
	cfg.OnSample, cfg.OnInterval = w.sample, w.interval
	res, err := sim.Run(cfg)
	if err != nil {
		return outcome{}, fmt.Errorf("pulse, policy %s: %w", np.Name, err)
	}
	o := w.result(!res.Stopped)
	if !o.back && res.Overflow != nil {
		o.done, o.lost, o.full = true, true, true
	}
	return o, nil
}

// result is what became of it. looked says that it went on until the look.
func (w *watch) result(looked bool) outcome {
	o := &w.out
	o.before, _, _ = w.before.means()
	switch {
	case w.over:
		o.done = true
	case looked:
		o.done, o.lost = true, !w.like(&w.last, w.allowed, lostTimes)
		w.note(&w.last)
	}
	return *o
}

// interval counts the calls that ended.
func (w *watch) interval(iv sim.Interval) {
	if !iv.Burn {
		w.now.ended += iv.Ended
		w.now.bad += iv.Failed
	}
}

// sample follows unfinished work and open calls.
func (w *watch) sample(x sim.Sample) {
	at := time.Duration(x.At)
	s := w.now
	s.n, s.work, s.calls, s.begun, s.sent = 1, float64(x.Work)/w.servers, float64(x.Calls), x.Begun, x.Sent
	w.now = sums{}
	switch {
	case w.over || at < w.from || at >= w.look:
		return
	case at < w.from+w.u.freeze:
		w.before.add(&s)
		return
	case at < w.release:
		return
	case at >= w.look-w.u.freeze:
		w.last.add(&s)
	}
	w.recent[w.n%pulseSteps] = s
	if w.n++; w.n < pulseSteps {
		return
	}
	var lately sums
	for i := range w.recent {
		lately.add(&w.recent[i])
	}
	if w.like(&lately, w.allowed*backTimes/lostTimes, backTimes) {
		w.over, w.out.back, w.out.recovery = true, true, max(at-w.release-w.u.freeze, 0)
		w.note(&lately)
	}
}

// like says whether a stretch is like before the freeze, or like plain: at most
// so much unfinished work per server, so many times the open calls, and hardly
// more failures. Work that waits at the client, for a backoff, is in the calls.
func (w *watch) like(s *sums, most, times float64) bool {
	work, calls, failed := s.means()
	_, callsBefore, failedBefore := w.before.means()
	return work <= most && calls <= times*max(w.u.calls, callsBefore) && failed <= max(w.u.failed, failedBefore)+lostShare
}

// note keeps what the last stretch was like.
func (w *watch) note(s *sums) {
	w.out.after, _, w.out.failed = s.means()
	if s.begun > 0 {
		w.out.attempts = float64(s.sent) / float64(s.begun)
	}
}

// trigger is what is done to the servers: they stand still, or, where windows
// have a capacity, they are left without any.
func (u *pulse) trigger() string {
	if u.plan.Workload.Service.Capacity.Per > 0 {
		return results.Outage
	}
	return results.Freeze
}

// stage sums up the runs of policy i.
func (u *pulse) stage(r *results.Run, i int, of []outcome) results.Stage {
	np := &u.plan.Workload.Policies[i]
	if len(of) == 0 {
		return noStage(results.StagePulse, np.Name, interruptedReason)
	}
	v := &results.PulseResult{
		Trigger: u.trigger(), FreezeNS: int64(u.freeze), FreezeOf: u.freezeOf, AfterNS: int64(u.after), Of: len(of),
		Stationary: results.Num(u.work), Reference: "that of plain before",
	}
	if u.real {
		v.Reference = "that of plain in virtual time"
	}
	if own := ownWork(r, np.Name); own > u.work {
		v.Stationary, v.Reference = results.Num(own), "its own while alone"
	}
	var before, after, recovery, attempts, failed []float64
	full, stranded := 0, uint64(0)
	for _, o := range of {
		stranded += o.stranded
		before = append(before, o.before)
		switch {
		case o.full:
			full++
		default:
			after, failed = append(after, o.after), append(failed, o.failed)
			if o.attempts > 0 {
				attempts = append(attempts, o.attempts)
			}
		}
		if o.lost {
			v.NotRecovered++
		}
		if o.back {
			recovery = append(recovery, float64(o.recovery))
		}
	}
	v.Before, v.After, v.Attempts = middle(before, "no run"), middle(after, "every run ended before the look"), middle(attempts, "no call began at the look")
	v.Failed = middle(failed, "every run ended before the look")
	v.Recovery = results.Absentf("in %d of %d runs only things were as before", len(recovery), len(of))
	if 2*len(recovery) > len(of) {
		v.Recovery = middle(recovery, "")
	}
	switch {
	case full > 0:
		v.Note = fmt.Sprintf("%d ended with more than %s calls or attempts in flight", full, units.Count(uint64(cmp.Or(u.plan.openCalls, sim.MaxOpen))))
	case stranded > 0:
		v.Note = fmt.Sprintf("%s calls never got a connection", units.Count(stranded))
	case v.NotRecovered > 0 && v.Before.Value > lostTimes*v.Stationary.Value:
		v.Note = "before the freeze already it had more than four times as much"
	}
	st := results.Stage{Name: results.StagePulse, Policy: results.Text{Value: np.Name}, Word: results.Text{Value: results.Recovered}, Pulse: v}
	if v.NotRecovered > 0 {
		st.Word.Value = results.Collapses
	}
	return st
}

// middle is the median; absent, with the reason, of nothing.
func middle(xs []float64, reason string) results.Figure {
	if len(xs) == 0 {
		return results.Absent(reason)
	}
	slices.Sort(xs)
	return results.Num((xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2)
}
