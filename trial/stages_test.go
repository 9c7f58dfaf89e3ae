package trial

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"latencylab/results"
	"latencylab/units"
	"latencylab/workloads"
)

func stages(t *testing.T, text string) []workloads.Stage {
	t.Helper()
	if text == "" {
		return nil
	}
	list, err := workloads.ParseStages(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPlanStages(t *testing.T) {
	for _, c := range []struct {
		about    string
		given    string
		policies []string
		ch       Choices
		closed   bool
		want     string // or the error
	}{
		{"one policy in virtual time", "", []string{"plain"}, Choices{Virtual: true}, false, "blocks"},
		{"a comparison in virtual time ends with a pulse", "", []string{"plain", "hedge=1s"}, Choices{Virtual: true}, false, "blocks,pulse"},
		{"whatever its stages", "pilot,blocks,sustained", []string{"plain", "hedge=1s"}, Choices{Virtual: true}, false, "pilot,blocks,sustained,pulse"},
		{"a pulse of one policy", "blocks,pulse", []string{"plain"}, Choices{Virtual: true}, false, "blocks,pulse"},
		{"a lab that wants its blocks alone", "pilot,blocks", []string{"plain", "hedge=1s"}, Choices{Virtual: true, BlocksOnly: true}, false, "blocks"},
		{"sockets", "", []string{"plain", "hedge=1s"}, Choices{}, false, "blocks"},
		{"sockets with more", "pilot,blocks,sustained", []string{"plain", "hedge=1s"}, Choices{}, false, "pilot,blocks,sustained"},
		{"no pulse on sockets", "blocks,pulse", []string{"plain"}, Choices{}, false, "stages has pulse, and a server of one's own cannot be frozen: want it out, no URL, or loadgen sim"},
		{"a comparison against the embedded target ends with one", "", []string{"plain", "hedge=1s"}, Choices{Embedded: true}, false, "blocks,pulse"},
		{"unless stages are given", "blocks,sustained", []string{"plain", "hedge=1s"}, Choices{Embedded: true}, false, "blocks,sustained"},
		{"not of one policy", "", []string{"plain"}, Choices{Embedded: true}, false, "blocks"},
		{"a closed loop against the embedded target", "", []string{"plain"}, Choices{Embedded: true}, true, "blocks"},
		{"a pulse in closed loop", "blocks,pulse", []string{"plain"}, Choices{Embedded: true}, true, "stages=blocks,pulse without rate: in closed loop only blocks are driven, want --rate"},
		{"closed loop", "blocks,sustained", []string{"plain"}, Choices{}, true, "stages=blocks,sustained without rate: in closed loop only blocks are driven, want --rate"},
	} {
		w := workload(t, c.policies...)
		w.Service, w.Rate, w.Stages = parseService(t, "time: 1ms"), 1000*1e6, stages(t, c.given)
		if c.closed {
			w.Rate = 0
		}
		p, err := NewPlan(w, c.ch)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = stageList(p.Stages)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.about, got, c.want)
		}
	}
}

func TestBlockLength(t *testing.T) {
	for _, c := range []struct {
		about       string
		data, block time.Duration
		advised     time.Duration
		rounds      int
		err         string
	}{
		{"by itself", 10 * time.Second, 0, 0, 4, ""},
		{"as given", 10 * time.Second, time.Second, 0, 10, ""},
		{"an even number of them", 10 * time.Second, 3 * time.Second, 0, 2, ""},
		{"as advised", 2 * time.Minute, 0, 30 * time.Second, 4, ""},
		{"as given, whatever is advised", 2 * time.Minute, 10 * time.Second, 30 * time.Second, 12, ""},
		{"two at least", 10 * time.Second, 0, 30 * time.Second, 2, ""},
		{"40 at most", time.Hour, time.Second, 0, 40, ""},
		{"too long", 10 * time.Second, 6 * time.Second, 0, 0, "block=6s leaves less than two blocks in the 10s of data that each policy has, want at most 5s, or a longer duration"},
	} {
		w := workload(t, "plain", "hedge=1s")
		w.Rate, w.Duration, w.Block = 1000*1e6, c.data, c.block
		p, err := NewPlan(w, Choices{})
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v, want %s", c.about, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.advised > 0 {
			p = p.advised(&results.Stage{Pilot: &results.Pilot{Block: results.Num(float64(c.advised))}})
		}
		if p.Rounds != c.rounds || len(p.Blocks) != 2*c.rounds {
			t.Errorf("%s: %d rounds in %d blocks, want %d", c.about, p.Rounds, len(p.Blocks), c.rounds)
		}
	}
}

// staged is a workload of the stages at the rate in 1/s.
func staged(t *testing.T, list, service string, rate int, requests uint64, policies ...string) *workloads.Workload {
	t.Helper()
	w := workload(t, policies...)
	w.Service, w.Stages = parseService(t, service), stages(t, list)
	w.Rate, w.Requests, w.Duration = units.Rate(rate)*1e6, requests, 0
	return w
}

// published is the service whose collapse is published: 20 servers, 2 % of the
// requests 20 times as long; 1 ms stands for its unit of time.
const published = "{replicas: 20, slots: 1, time: 'mixture(98%:exponential(1ms),2%:exponential(20ms))'}"

// TestPulseFindsWhatCollapses: at rho .7 a hedge at plain's p95 without budget is
// like plain until a freeze, and does not come back from it; plain, a budget and
// a service that stops what nobody waits for do.
func TestPulseFindsWhatCollapses(t *testing.T) {
	w := staged(t, "blocks,sustained,pulse", published, 10145, 20_000, "plain", "free:hedge=60ms", "paid:hedge=60ms,budget=10%")
	w.Sustained, w.Warmup, w.WarmupGiven = 2*time.Second, 300*time.Millisecond, true
	w.Pulse = workloads.PulseSpec{Freeze: workloads.Multiple{Span: 100 * time.Millisecond}, After: workloads.Multiple{Span: 2 * time.Second}, Runs: 6}
	r := simulated(t, w, 0, nil)
	readable(t, r)
	word := map[string]string{}
	for i := range r.Stages {
		s := &r.Stages[i]
		word[s.Name+" "+s.Policy.Value] = s.Word.Value
		if s.Pulse != nil && (s.Pulse.Of != 6 || s.Pulse.FreezeNS != int64(100*time.Millisecond) || s.Pulse.AfterNS != int64(2*time.Second)) {
			t.Errorf("pulse of %s: %+v", s.Policy.Value, *s.Pulse)
		}
		if p := s.Pulse; p != nil && p.Before.Value > lostTimes*p.Stationary.Value {
			t.Errorf("%s is lost before the freeze: %+v", s.Policy.Value, *p)
		}
	}
	for key, want := range map[string]string{
		"pulse plain": results.Recovered, "pulse free": results.Collapses, "pulse paid": results.Recovered,
	} {
		if word[key] != want {
			t.Errorf("%s: %q, want %q", key, word[key], want)
		}
	}
	if c := &r.Comparisons[0]; c.Word != results.Worse || c.WordOf.Value != results.StagePulse || c.Pulse == nil || c.Pulse.NotRecovered < 6 || c.Pulse.BaseNotRecovered != 0 {
		t.Errorf("free against plain: %s of %s, %+v", c.Word, c.WordOf.Value, c.Pulse)
	}
	if c := &r.Comparisons[1]; c.WordOf.Value == results.StagePulse || c.Pulse == nil || c.Pulse.NotRecovered != 0 {
		t.Errorf("paid against plain: %s of %s, %+v", c.Word, c.WordOf.Value, c.Pulse)
	}
	stopping := strings.Replace(published, "slots: 1", "slots: 1, cancel: running", 1)
	w.Policies, w.Stages = workload(t, "plain", "hedge=4ms").Policies, nil
	w.Service = parseService(t, stopping)
	r = simulated(t, w, 0, nil)
	if s := r.Stages[len(r.Stages)-1]; s.Word.Value != results.Recovered {
		t.Errorf("with work that stops: %+v, %+v", s.Word, s.Pulse)
	}
}

// TestPulseByHand: one server that takes 6 ms, a call every 10 ms, frozen for a
// second: 100 calls wait, which is 600 ms of work, and 4 ms of every 10 are left to
// work it off: 1.5 s. Looked at before that, it has not recovered.
func TestPulseByHand(t *testing.T) {
	for _, c := range []struct {
		about string
		after time.Duration
		word  string
	}{
		{"looked at late enough", 4 * time.Second, results.Recovered},
		{"looked at too early", 1400 * time.Millisecond, results.Collapses},
	} {
		w := staged(t, "blocks,pulse", "{time: 6ms, slots: 1}", 100, 100, "plain")
		w.Arrivals = workloads.Constant
		w.Pulse = workloads.PulseSpec{Freeze: workloads.Multiple{Span: time.Second}, After: workloads.Multiple{Span: c.after}, Runs: 1}
		s := simulated(t, w, 0, nil).Stages[1]
		if s.Word.Value != c.word {
			t.Errorf("%s: %s, want %s; %+v", c.about, s.Word.Value, c.word, *s.Pulse)
		}
		if r := s.Pulse.Recovery; r.Present != (c.word == results.Recovered) || r.Present && (r.Value < 1.3e9 || r.Value > 1.55e9) {
			t.Errorf("%s: recovery %+v, want shortly before 1.5 s, when little is left", c.about, r)
		}
		if p := s.Pulse; p.Stationary.Value < 1.7e6 || p.Stationary.Value > 1.9e6 {
			t.Errorf("%s: %v ns of work are stationary, want 1.8 ms", c.about, p.Stationary.Value)
		}
	}
}

// TestPulseWithoutAnythingToPush: where nothing queues, or where plain itself is
// lost, the pulse says so and costs nothing.
func TestPulseWithoutAnythingToPush(t *testing.T) {
	r := simulated(t, staged(t, "", "{time: 20ms}", 1000, 2000, "plain", "hedge=30ms"), 0, nil)
	readable(t, r)
	for _, s := range r.Stages[1:] {
		if s.Word.Value != results.Recovered || s.Pulse == nil || s.Pulse.Of != 0 || !strings.HasPrefix(s.Pulse.Note, "requests take nothing from each other") {
			t.Errorf("%+v, %+v", s.Word, s.Pulse)
		}
	}
	r = simulated(t, staged(t, "", "{time: 20ms, slots: 10}", 1000, 2000, "plain", "hedge=30ms"), 0, nil)
	readable(t, r)
	if s := r.Stages[1]; s.Word.Value != "" || s.Word.Reason != "first attempts alone are rho 2: there is no state to come back to" || r.Comparisons[0].NoPulse != s.Word.Reason {
		t.Errorf("%+v, %s", s.Word, r.Comparisons[0].NoPulse)
	}
	r = simulated(t, staged(t, "", "{time: 20ms, slots: 10, status: {503: 100%}}", 100, 2000, "plain", "retry=1"), 0, nil)
	if s := r.Stages[1]; s.Word.Value != "" || !strings.HasPrefix(s.Word.Reason, "no call of plain was answered OK") {
		t.Errorf("%+v", s.Word)
	}
}

// TestPulseFindsRetryStorms: windows of capacity that thrash, an outage in place
// of a freeze. Load L solves L = N (1 + f + ... + f^R) with f = 1 - 50/L: N = 80
// comes back with one retry and stays lost with three.
func TestPulseFindsRetryStorms(t *testing.T) {
	w := staged(t, "", "{capacity: {requests: 100, per: 100ms}, thrash: {above: 150, factor: 50%}}", 800, 20_000,
		"plain", "one:retry=1,backoff=1s,backoff.kind=constant,jitter=none", "three:retry=3,backoff=1s,backoff.kind=constant,jitter=none", "paid:retry=3,backoff=1s,backoff.kind=constant,jitter=none,budget=10%")
	w.Pulse = workloads.PulseSpec{After: workloads.Multiple{Span: time.Minute}, Runs: 2}
	r := simulated(t, w, 0, nil)
	readable(t, r)
	for i, want := range []string{results.Recovered, results.Recovered, results.Collapses, results.Recovered} {
		s := &r.Stages[1+i]
		if s.Word.Value != want || s.Pulse.Trigger != results.Outage || want == results.Collapses && s.Pulse.NotRecovered != s.Pulse.Of {
			t.Errorf("%s: %s, want %s; %+v", s.Policy.Value, s.Word.Value, want, *s.Pulse)
		}
	}
	if r.BestCase {
		t.Error("a limit of capacity is called hedging's best case")
	}
}

func TestPulseLengths(t *testing.T) {
	const service = "{time: 'exponential(10ms)', slots: 10}"
	for _, c := range []struct {
		about, policy, service string
		pulse                  workloads.PulseSpec
		freeze, after          time.Duration
		of                     string
	}{
		{"by itself", "hedge=30ms", service, workloads.PulseSpec{}, 500 * time.Millisecond, 5 * time.Second, "5 × plain's p99, 100.0 ms"},
		{"until the timeouts act", "attempt-timeout=400ms", service, workloads.PulseSpec{}, 800 * time.Millisecond, 8 * time.Second, "twice the 400ms of attempt timeout of policy attempt-timeout-400ms"},
		{"until retries have waited", "retry=2,backoff=1s,jitter=none", service, workloads.PulseSpec{}, 6 * time.Second, time.Minute, "twice the 3s of waits before retries of policy retry-2"},
		{"a wait too long to be waited for", "retry=9,backoff=9s,jitter=none", service, workloads.PulseSpec{}, 54 * time.Second, 540 * time.Second, "twice the 27s of waits before retries of policy retry-9"},
		{"until a bounded queue is full", "hedge=30ms", "{time: 'exponential(10ms)', slots: 10, queue: 990}", workloads.PulseSpec{}, 3 * time.Second, 30 * time.Second, "half as much again as fills the queues"},
		{"in multiples", "hedge=30ms", service, workloads.PulseSpec{Freeze: workloads.Multiple{Times: 10}, After: workloads.Multiple{Times: 200}}, time.Second, 20 * time.Second, "10 × plain's p99, 100.0 ms"},
		{"in durations", "hedge=30ms", service, workloads.PulseSpec{Freeze: workloads.Multiple{Span: 2 * time.Second}, After: workloads.Multiple{Span: time.Minute}}, 2 * time.Second, time.Minute, "as given"},
	} {
		w := staged(t, "", c.service, 500, 0, "plain", c.policy)
		w.Pulse = c.pulse
		u := &pulse{plan: plan(t, w, true), rho: 0.5, p99: 100 * time.Millisecond}
		if why := u.lengths(); why != "" || u.freeze != c.freeze || u.after != c.after || u.freezeOf != c.of {
			t.Errorf("%s: %q %v (%s), %v later; want %v (%s), %v later", c.about, why, u.freeze, u.freezeOf, u.after, c.freeze, c.of, c.after)
		}
	}
}

// TestPilotKnowsTheRelaxationTime: without a limit of slots the number of open
// calls forgets at the rate at which exponential services end (M/G/infinity), so
// that the relaxation time is the mean service time.
func TestPilotKnowsTheRelaxationTime(t *testing.T) {
	w := staged(t, "pilot,blocks", "{time: 'exponential(50ms)'}", 1000, 130_000, "plain", "hedge=p95")
	w.Within = []time.Duration{200 * time.Millisecond}
	r := simulated(t, w, 0, nil)
	readable(t, r)
	p := r.Stages[0].Pilot
	if p == nil || !p.Tau.Present || p.Tau.Value < 40e6 || p.Tau.Value > 60e6 {
		t.Fatalf("%+v, want a relaxation time of 50 ms", r.Stages[0])
	}
	if p.Window != int64(30*time.Second) || p.Advice() != 30*time.Second || len(r.Policies[0].Blocks) != 4 || p.Used.Value < 32e9 {
		t.Errorf("memory %v, advice %v, %d blocks of %v", p.Window, p.Advice(), len(r.Policies[0].Blocks), p.Used)
	}
	if s := r.Stages[0]; s.Word.Value != results.Equivalent {
		t.Errorf("plain against itself: %+v, %+v", s.Word, p.AA)
	}
	if e := p.EpisodesPerMinute; !e.Present || e.Value < 60 {
		t.Errorf("%+v tail episodes a minute, want many: the tail is independent", e)
	}
}

// TestStagesWithoutRoom: a policy of which too much is open is not stable, and a
// pulse that it has no room for is one that it does not come back from.
func TestStagesWithoutRoom(t *testing.T) {
	w := staged(t, "pilot,blocks,sustained,pulse", "{replicas: 2, time: 'exponential(9ms)', slots: 10}", 1500, 3000, "plain", "hedge=1ms")
	w.Pilot, w.Sustained = 4*time.Second, 4*time.Second
	w.Pulse = workloads.PulseSpec{Freeze: workloads.Multiple{Span: time.Second}, After: workloads.Multiple{Span: 30 * time.Second}, Runs: 2}
	r := simulated(t, w, 3000, nil)
	readable(t, r)
	for i, want := range []string{"", "", results.Stable, results.NotStable, results.Recovered, results.Collapses} {
		s := &r.Stages[i]
		if want != "" && s.Word.Value != want {
			t.Errorf("%s of %s: %+v, want %s", s.Name, s.Policy.Value, s.Word, want)
		}
	}
	if p := r.Stages[5].Pulse; p == nil || p.NotRecovered != 2 || !strings.Contains(p.Note, "2 ended with more than 3,000 calls or attempts in flight") {
		t.Errorf("pulse %+v", p)
	}
}

// TestStagesInterrupted: what is not complete has no word, and the run says that
// it was interrupted.
func TestStagesInterrupted(t *testing.T) {
	w := staged(t, "pilot,blocks,sustained,pulse", published, 5000, 2000, "plain", "hedge=4ms")
	p := plan(t, w, true)
	r, err := p.newRun()
	if err != nil {
		t.Fatal(err)
	}
	r.Policies = []results.Policy{{Name: "plain"}, {Name: "hedge-4ms"}}
	var asked atomic.Int64
	if err := p.simAfter(r, nil, func() bool { return asked.Add(1) > 3 }); err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || len(r.Stages) != 5 {
		t.Fatalf("interrupted %v with %d stages", r.Interrupted, len(r.Stages))
	}
	for _, s := range r.Stages[3:] {
		if s.Word.Value != "" || s.Word.Reason != interruptedReason {
			t.Errorf("%s of %s: %+v", s.Name, s.Policy.Value, s.Word)
		}
	}
}
