package trial

import (
	"os"
	"strings"
	"testing"
	"time"

	"latencylab/engine"
	"latencylab/results"
	"latencylab/workloads"
)

// embedded carries out w against the embedded target, with its pulse if it has
// one.
func embedded(t *testing.T, w *workloads.Workload) *results.Run {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, "1")
	p, err := NewPlan(w, Choices{Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &Setup{CallHeaders: "auto", Child: []string{exe}}
	if err := s.Check(p); err != nil {
		t.Fatal(err)
	}
	r, err := Real(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	readable(t, r)
	return r
}

// TestRealPulse: a comparison against the embedded target ends with a pulse,
// from which both policies come back, each in a time of its own.
func TestRealPulse(t *testing.T) {
	w := staged(t, "", "{replicas: 2, time: 5ms, slots: 4}", 100, 20, "plain", "hedge=1s")
	w.WarmupGiven = true
	w.Pulse = workloads.PulseSpec{Freeze: workloads.Multiple{Span: leastFreeze}, After: workloads.Multiple{Span: time.Minute}}
	r := embedded(t, w)
	if len(r.Stages) != 3 || r.Void != "" || r.Interrupted {
		t.Fatalf("%d stages, void %q", len(r.Stages), r.Void)
	}
	for _, s := range r.Stages[1:] {
		p := s.Pulse
		if s.Word.Value != results.Recovered || p == nil || p.Of != 1 || p.NotRecovered != 0 || p.Trigger != results.Freeze || p.FreezeNS != int64(leastFreeze) {
			t.Fatalf("%s: %+v, %+v", s.Policy.Value, s.Word, p)
		}
		if !p.Recovery.Present || p.Recovery.Value < 0 || p.Recovery.Value > float64(time.Minute) {
			t.Errorf("%s: recovery %+v", s.Policy.Value, p.Recovery)
		}
	}
	c := &r.Comparisons[0]
	if c.Pulse == nil || c.Pulse.Of != 1 || !c.Pulse.Recovery.Present || !c.Pulse.BaseRecovery.Present {
		t.Fatalf("pulse of the comparison %+v (%s)", c.Pulse, c.NoPulse)
	}
	var text strings.Builder
	if err := results.WriteText(&text, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pulse: plain recovered in 1 of 1 run (", "pulse, all servers frozen for 400 ms (as given), released", "want 6 or more (pulse.runs)"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// TestRealPulseWithoutAnythingToPush: nothing is started for it.
func TestRealPulseWithoutAnythingToPush(t *testing.T) {
	w := staged(t, "", "{time: 1ms}", 100, 10, "plain", "hedge=1s")
	w.WarmupGiven = true
	r := embedded(t, w)
	if c := &r.Comparisons[0]; c.Pulse == nil || c.Pulse.Of != 0 || c.Pulse.Recovery.Reason == "" {
		t.Errorf("%+v (%s)", c.Pulse, c.NoPulse)
	}
}

// TestRealPulseInterrupted: an interrupt ends it at once, and the blocks stay.
func TestRealPulseInterrupted(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, "1")
	w := staged(t, "", "{time: 1ms, slots: 4}", 100, 20, "plain", "hedge=1s")
	w.WarmupGiven = true
	w.Pulse = workloads.PulseSpec{Freeze: workloads.Multiple{Span: time.Hour}}
	p, err := NewPlan(w, Choices{Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	interrupt := make(chan struct{})
	s := &Setup{CallHeaders: "auto", Child: []string{exe}, Interrupt: interrupt, Observer: Observer{
		Stage: func(string, string, workloads.Block) { close(interrupt) }, // of the first policy only
	}}
	if err := s.Check(p); err != nil {
		t.Fatal(err)
	}
	r, err := Real(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	readable(t, r)
	if !r.Interrupted || len(r.Stages) != 3 || len(r.Policies) != 2 || r.Policies[1].Calls.OK == 0 {
		t.Fatalf("interrupted %v, %d stages, %d policies", r.Interrupted, len(r.Stages), len(r.Policies))
	}
	for _, st := range r.Stages[1:] {
		if st.Word != (results.Text{Reason: interruptedReason}) {
			t.Errorf("%s: %+v", st.Policy.Value, st.Word)
		}
	}
}

// TestRealPulseLengths: what the user did not give is bounded by the data time.
func TestRealPulseLengths(t *testing.T) {
	s, ms := time.Second, time.Millisecond
	given := func(freeze, after time.Duration) workloads.PulseSpec {
		return workloads.PulseSpec{Freeze: workloads.Multiple{Span: freeze}, After: workloads.Multiple{Span: after}}
	}
	for _, c := range []struct {
		about, policy string
		p99           time.Duration
		rho           float64
		pulse         workloads.PulseSpec
		freeze, after time.Duration
		of            string
	}{
		{"by itself", "hedge=30ms", 100 * ms, 0.5, workloads.PulseSpec{}, 500 * ms, 5 * s, "5 × plain's p99, 100.0 ms"},
		{"the least", "hedge=30ms", 1, 0.5, workloads.PulseSpec{}, leastFreeze, 4 * s, "the least on sockets"},
		{"worked off by the look", "hedge=30ms", s, 0.5, workloads.PulseSpec{}, s, 10 * s, "so that plain has worked it off by the look"},
		{"until the policy acts", "hedge=1s", s, 0.7, workloads.PulseSpec{}, 2 * s, 10 * s, "twice the 1s of hedge delay of policy hedge-1s"},
		{"a policy that acts late", "hedge=20s", 100 * ms, 0.5, workloads.PulseSpec{}, 5 * s, 10 * s, "half of the time to the look"},
		{"a look that plain needs", "hedge=20s", 100 * ms, 0.8, workloads.PulseSpec{}, 5 * s, 40 * s, "half of the time to the look"},
		{"as given", "hedge=30ms", 100 * ms, 0.5, given(2*s, time.Minute), 2 * s, time.Minute, "as given"},
		{"given too short", "hedge=30ms", 100 * ms, 0.5, given(ms, 2*ms), leastFreeze, leastFreeze, "the least on sockets"},
	} {
		w := staged(t, "", "{time: 'exponential(10ms)', slots: 10}", 500, 500, "plain", c.policy)
		w.Pulse = c.pulse
		u := &pulse{plan: plan(t, w, false), real: true, rho: c.rho, p99: c.p99}
		if why := u.lengths(); why != "" || u.freeze != c.freeze || u.after != c.after || u.freezeOf != c.of {
			t.Errorf("%s: %q %v (%s), %v later; want %v (%s), %v later", c.about, why, u.freeze, u.freezeOf, u.after, c.freeze, c.of, c.after)
		}
	}
}

// TestTally: calls begun are those that ended and those more that are open, and
// failures count in the data alone.
func TestTally(t *testing.T) {
	var c tally
	c.add(&engine.Interval{Burn: true, Ended: 5, Failed: 2, Sent: 6, Open: 3})
	c.add(&engine.Interval{Ended: 2, Failed: 1, Sent: 3, Open: 3})
	iv, s := c.take()
	if iv.Ended != 2 || iv.Failed != 1 || s.Calls != 3 || s.Begun != 10 || s.Sent != 9 {
		t.Errorf("%+v, %+v", iv, s)
	}
	c.add(&engine.Interval{Ended: 1, Sent: 0, Open: 2})
	if iv, s = c.take(); iv.Ended != 1 || s.Calls != 2 || s.Begun != 0 || s.Sent != 0 {
		t.Errorf("%+v, %+v", iv, s)
	}
}
