package lab

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"latencylab/workloads"
)

// realRun carries a lab out on sockets.
func realRun(t *testing.T, name string) *Result {
	t.Helper()
	l, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	r := runLab(t, l, Options{Seed: 1, Real: true})
	for i := range r.Rows {
		for k := range r.Columns {
			t.Logf("%s: %s is %s", r.Rows[i].Row, r.Columns[k], r.Rows[i].Values[k].text())
		}
	}
	checkJSON(t, r)
	checkText(t, r)
	return r
}

// is fails the test unless the figure of the row is one of these.
func is(t *testing.T, r *Result, row, column string, want ...float64) {
	t.Helper()
	v := r.value(row, column)
	for _, x := range want {
		if v.Present && v.Value == x {
			return
		}
	}
	t.Errorf("%s: %s is %s (%s), want %v", row, column, v.text(), v.Reason, want)
}

// TestNestedTimeoutsOnSockets: who calls whom how often, and what is stopped,
// hangs on no machine; how long it takes does, and is bounded from below only.
func TestNestedTimeoutsOnSockets(t *testing.T) {
	t.Parallel()
	r := realRun(t, "nested-timeouts")
	for _, c := range []struct {
		row            string
		calls, stopped float64
		least          float64 // ms of work
	}{
		{"bad", 12, 0, 24_000},
		{"good", 1, 1, 1},
		{"deadline told, C does not stop", 1, 0, 2_000},
		{"bad, but C stops", 12, 12, 1},
	} {
		is(t, r, c.row, "c_calls", c.calls)
		is(t, r, c.row, "c_stopped_early", c.stopped)
		if v := r.value(c.row, "c_work_ms"); v.Value < c.least {
			t.Errorf("%s: %s ms of work, want %v or more", c.row, v.text(), c.least)
		}
	}
	if good, bad := r.value("good", "c_work_ms").Value, r.value("bad", "c_work_ms").Value; 10*good > bad {
		t.Errorf("the good chain works for %v ms, the bad one for %v", good, bad)
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
		if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
			t.Errorf("%s (-example +lab):\n%s", name, diff)
		}
	}
}

func TestALabWithoutAVersionOnSocketsSaysWhichHaveOne(t *testing.T) {
	l, err := Find("jitter")
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Run(Options{Seed: 1, Real: true})
	if err == nil || !strings.HasPrefix(err.Error(), "lab jitter has no version on sockets: nested-timeouts") {
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
