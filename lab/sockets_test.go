package lab

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"latencylab/workloads"
)

// realRun carries a lab out on sockets, with so many calls where it takes them.
func realRun(t *testing.T, name string, calls uint64) *Result {
	t.Helper()
	l, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	r := runLab(t, l, Options{Seed: 1, Real: true, Requests: calls})
	for i := range r.Rows {
		for k := range r.Columns {
			t.Logf("%s: %s is %s", r.Rows[i].Row, r.Columns[k], r.Rows[i].Values[k].text())
		}
	}
	checkJSON(t, r)
	checkText(t, r)
	return r
}

// is fails the test unless the figure of the row is this.
func is(t *testing.T, r *Result, row, column string, want float64) {
	t.Helper()
	if v := r.value(row, column); !v.Present || v.Value != want {
		t.Errorf("%s: %s is %s (%s), want %v", row, column, v.text(), v.Reason, want)
	}
}

// TestNestedTimeoutsOnSockets: who calls whom how often, and what is stopped,
// hangs on no machine, unless it stalls for so long that a user has gone before
// his call is at C; how long things take does, and is bounded from below only.
func TestNestedTimeoutsOnSockets(t *testing.T) {
	r := realRun(t, "nested-timeouts", 0)
	for range 4 {
		if r.value("good", "c_calls").Value == 1 && r.value("deadline told, C does not stop", "c_calls").Value == 1 {
			break
		}
		r = realRun(t, "nested-timeouts", 0)
	}
	for _, c := range []struct {
		row            string
		calls, stopped float64
		least          float64 // ms of work
	}{
		{"bad", 12, 0, 24_000},
		{"good", 1, 1, 0},
		{"deadline told, C does not stop", 1, 0, 2_000},
		{"bad, but C stops", 12, 12, 0},
	} {
		is(t, r, c.row, "c_calls", c.calls)
		is(t, r, c.row, "c_stopped_early", c.stopped)
		if v := r.value(c.row, "c_work_ms"); v.Value < c.least {
			t.Errorf("%s: %s ms of work, want %v or more", c.row, v.text(), c.least)
		}
	}
}

// TestTheChainsAreTheExamples: what runs on sockets is what stands in
// docs/examples.
func TestTheChainsAreTheExamples(t *testing.T) {
	for row, name := range []string{"nested-bad.yaml", "nested-good.yaml"} {
		data, err := os.ReadFile("../docs/examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var texts [2]string
		for i, file := range []string{string(data), nestedFile(row)} {
			g, err := workloads.ParseGraphText(name, []byte(file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := workloads.MarshalGraph(g)
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = string(text)
		}
		if diff := gocmp.Diff(texts[0], texts[1]); diff != "" {
			t.Errorf("%s (-example +lab):\n%s", name, diff)
		}
	}
}

// TestTimeoutPhasesOnSockets: which timeout it is, and that none comes early.
func TestTimeoutPhasesOnSockets(t *testing.T) {
	r := realRun(t, "timeout-phases", 0)
	for i := range phaseRows {
		x := &phaseRows[i]
		want := cmp.Or(x.caught, "nothing")
		if got := r.value(x.name, "caught_by").Word; got != want {
			t.Errorf("%s: caught by %s, want %s", x.name, got, want)
		}
		if v := r.value(x.name, "user_ms"); v.Value < x.ms-2 {
			t.Errorf("%s: the call took %s ms, want %v or more", x.name, v.text(), x.ms)
		}
	}
}

// TestFanOutOnSockets: every leaf is asked once for each answer, and an answer
// that drew a slow leaf is late, as predicted; a machine that stalls adds others.
func TestFanOutOnSockets(t *testing.T) {
	const answers = 30
	r := realRun(t, "fan-out", answers)
	for i := range r.Rows {
		row := r.Rows[i].Row
		is(t, r, row, "answers", answers)
		is(t, r, row, "leaf_requests", float64(answers*fanOutRows[i].leaves))
		k := slices.IndexFunc(r.Reference, func(x Row) bool { return x.Row == row && x.Source == predicted })
		got, want := r.value(row, "slow_share"), r.Reference[k].Values[0]
		if !got.Present || !want.Present || got.Value < want.Value-1e-9 {
			t.Errorf("%s: %s of the answers are late, the draws make %s so", row, got.text(), want.text())
		}
	}
}

// TestBudgetWalkOnSockets: nobody has more left than the budget less what was
// spent, and where all is spent nothing is sent.
func TestBudgetWalkOnSockets(t *testing.T) {
	r := realRun(t, "budget-walk", 0)
	for i := range walkRows {
		x := &walkRows[i]
		left := r.value(x.name, "remaining_ms").List
		if len(left) != 2 || left[0] > x.want[0]+100 || left[0] < 1 || left[1] > x.want[1]+100 || x.want[1] == 0 && left[1] != 0 {
			t.Errorf("%s: %v left, want %v", x.name, left, x.want)
		}
	}
	for _, ref := range r.Reference {
		if ref.Source == predicted && !slices.Equal(ref.Values[0].List, walkRows[slices.IndexFunc(r.Rows, func(x Row) bool { return x.Row == ref.Row })].want) {
			t.Errorf("%s: predicted %s", ref.Row, ref.Values[0].text())
		}
	}
}

// TestRetryStormOnSockets: who does not retry, or by a budget, is better off
// when the outage is over than who retries without one.
func TestRetryStormOnSockets(t *testing.T) {
	r := realRun(t, "retry-storm", 0)
	for _, calm := range []string{"no retries", "full jitter, budget 10%"} {
		for _, storm := range []string{"fixed 1s, 5 retries", "exponential, no jitter, 3 retries"} {
			a, b := r.value(calm, "ok_at_end"), r.value(storm, "ok_at_end")
			if !a.Present || !b.Present || a.Value <= b.Value {
				t.Errorf("%s of the calls are ok with %s, %s with %s", a.text(), calm, b.text(), storm)
			}
		}
	}
	is(t, r, "no retries", "amplification", 1)
}

// TestHedgeCollapseOnSockets: after a freeze, hedges that nothing bounds are more
// and keep the servers busier than those of a budget.
func TestHedgeCollapseOnSockets(t *testing.T) {
	if raced {
		t.Skip("under the race detector a core is too slow for 10,000 attempts a second")
	}
	r, err := hedgeCollapseAt(&Options{Seed: 1, Real: true}, []float64{0.7}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range r.Columns {
		a, b := r.value("rho 0.7 hedge p95, no cancel", column), r.value("rho 0.7 hedge p95, budget 10%", column)
		if !a.Present || !b.Present || a.Value <= b.Value {
			t.Errorf("%s is %s without a budget and %s with one", column, a.text(), b.text())
		}
	}
}

// TestPulseOnSockets: hedges that nothing bounds keep the servers busy long after a
// freeze; those that the servers stop do not.
func TestPulseOnSockets(t *testing.T) {
	if raced {
		t.Skip("under the race detector a core is too slow for 10,000 attempts a second")
	}
	r, err := pulseSocketsAt(&Options{Seed: 1, Real: true}, []float64{0.7}, []int{1, 3})
	if err != nil {
		t.Fatal(err)
	}
	a, b := r.value("rho 0.7 hedge p95, no cancel", "work_u"), r.value("rho 0.7 hedge p95, server cancel", "work_u")
	if !a.Present || !b.Present || a.Value < 2*b.Value {
		t.Errorf("unfinished work of %s u without cancel, %s with it", a.text(), b.text())
	}
	for _, ref := range r.Reference {
		if ref.Source == predicted && ref.Values[0].Value != map[bool]float64{true: 1}[ref.Row == "rho 0.7 hedge p95, no cancel"] {
			t.Errorf("%s: predicted %s", ref.Row, ref.Values[0].text())
		}
	}
}

// TestPoolExhaustionOnSockets: a timeout gives the connections back.
func TestPoolExhaustionOnSockets(t *testing.T) {
	r := realRun(t, "pool-exhaustion", 0)
	a, b := r.value("20 connections", "ok_fast"), r.value("20 connections, attempt-timeout=100ms", "ok_fast")
	if !a.Present || !b.Present || a.Value >= b.Value {
		t.Errorf("%s of the calls are ok without a timeout, %s with one", a.text(), b.text())
	}
}

func TestALabWithoutAVersionOnSocketsSaysWhichHaveOne(t *testing.T) {
	l, err := Find("jitter")
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Run(Options{Seed: 1, Real: true})
	if err == nil || !strings.HasPrefix(err.Error(), "lab jitter has no version on sockets: budget-walk, nested-timeouts, ") {
		t.Errorf("error is %v", err)
	}
}

func TestAnInterruptedLabOnSocketsHasNoTable(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	for _, l := range All() {
		if l.real == nil {
			continue
		}
		if _, err := l.Run(Options{Seed: 1, Real: true, Interrupt: stop}); err == nil || !strings.Contains(err.Error(), ErrInterrupted.Error()) {
			t.Errorf("%s: error is %v, want %v", l.Name, err, ErrInterrupted)
		}
	}
}
