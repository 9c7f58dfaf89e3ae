package trial

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/engine"
	"latencylab/ledger"
	"latencylab/results"
	"latencylab/workloads"
)

// TestAloneSeries: intervals of burn-in and data that end together are one, the
// first that begins in the burn-in and what comes after the data are left out,
// and what began follows from what ended and is open.
func TestAloneSeries(t *testing.T) {
	const ms = clock.Time(time.Millisecond)
	a := &alone{blocks: []*engine.Block{{DataStart: 100 * ms, DataEnd: 400 * ms}}}
	for _, iv := range []engine.Interval{
		{Burn: true, End: 50 * ms, Open: 7, Ended: 3, Sent: 10},
		{Burn: true, End: 100 * ms, Open: 5, Ended: 12, Sent: 10},
		{Burn: true, End: 200 * ms, Open: 8, Ended: 5, Sent: 0},
		{End: 200 * ms, Open: 8, Ended: 10, Sent: 18},
		{End: 300 * ms, Open: 6, Ended: 20, Sent: 18},
		{End: 400 * ms, Open: 6, Ended: 0, Sent: 0},
		{End: 500 * ms, Open: 0, Ended: 6, Sent: 0},
	} {
		a.add(iv)
	}
	open, begun, sent, step := a.series()
	if !slices.Equal(open, []float64{8, 6, 6}) || !slices.Equal(begun, []uint64{18, 18, 0}) || !slices.Equal(sent, []uint64{18, 18, 0}) || step != 100*time.Millisecond {
		t.Errorf("open %v, begun %v, sent %v, step %v", open, begun, sent, step)
	}
}

// growing is an alone whose open calls grow by a step from interval to interval.
func growing(step int) *alone {
	a := &alone{blocks: []*engine.Block{{DataEnd: clock.Time(10 * time.Second), Data: ledger.New(nil)}}}
	for i := range 1000 {
		a.points = append(a.points, point{end: clock.Time(time.Duration(i) * 10 * time.Millisecond), open: 10 + i*step + i*7919%5, ended: 10, sent: 12})
	}
	return a
}

func TestJudgeAlone(t *testing.T) {
	for _, c := range []struct {
		about        string
		a            *alone
		word, reason string
	}{
		{"open calls stay", growing(0), results.Stable, ""},
		{"open calls grow", growing(3), results.NotStable, ""},
		{"the server has gone", &alone{early: "the target has ended"}, "", "the target has ended"},
		{"interrupted", &alone{stopped: true}, "", interruptedReason},
	} {
		s := judgeAlone("p", c.a)
		if s.Word.Value != c.word || s.Word.Reason != c.reason || s.Policy.Value != "p" {
			t.Errorf("%s: %+v, want %q (%s)", c.about, s.Word, c.word, c.reason)
		}
		if v := s.Sustained; v != nil && (v.Of != results.OfCalls || v.Unit != "calls" || v.Samples < 990) {
			t.Errorf("%s: %+v", c.about, v)
		}
	}
}

// TestStagesOnSockets: pilot and sustained stretches are driven with keys of
// their own, so that the ledgers of the blocks are what they were.
func TestStagesOnSockets(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	site, err := ParseSite(s.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := workload(t, "plain", "hedge=50ms")
	w.Rate, w.Duration, w.Pilot, w.Sustained, w.Warmup, w.WarmupGiven = 200*1e6, 400*time.Millisecond, 800*time.Millisecond, 300*time.Millisecond, 0, true
	w.Stages = stages(t, "pilot,blocks,sustained")
	p, setup := plan(t, w, false), &Setup{Site: site, CallHeaders: "auto"}
	told := map[string]int{}
	setup.Observer.Stage = func(stage, name string, _ workloads.Block) { told[stage+" "+name]++ }
	if err := setup.Check(p); err != nil {
		t.Fatal(err)
	}
	r, err := Real(t.Context(), p, setup)
	if err != nil {
		t.Fatal(err)
	}
	readable(t, r)
	var names []string
	for _, st := range r.Stages {
		names = append(names, strings.TrimSpace(st.Name+" "+st.Policy.Value))
	}
	if want := []string{"pilot plain", "blocks", "sustained plain", "sustained hedge-50ms"}; !slices.Equal(names, want) {
		t.Errorf("stages %v, want %v", names, want)
	}
	if told["pilot plain"] != 1+2*results.MinPairs || told["sustained plain"] != 1 || told["sustained hedge-50ms"] != 1 {
		t.Errorf("told of %v", told)
	}
	for _, q := range r.Policies {
		if n := q.Calls.Scheduled; n < 40 || n > 130 {
			t.Errorf("policy %s: %d calls in its blocks of 400 ms at 200/s", q.Name, n)
		}
	}
	if p := r.Stages[0].Pilot; p == nil || p.LengthNS < int64(390*time.Millisecond) || p.Tau.Present {
		t.Errorf("pilot %+v, want one too short for a relaxation time", p)
	}
	if v := r.Stages[2]; v.Word.Value != "" || !strings.Contains(v.Word.Reason, "want 200 or more") {
		t.Errorf("a sustained stretch of 300 ms: %+v", v.Word)
	}
	interrupt := make(chan struct{})
	close(interrupt)
	setup.Interrupt = interrupt
	r, err = Real(t.Context(), p, setup)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || len(r.Stages) != 4 || r.Stages[0].Word.Reason != interruptedReason || r.Stages[3].Word.Reason != interruptedReason {
		t.Errorf("interrupted %v, %+v", r.Interrupted, r.Stages)
	}
}
