package lab

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"latencylab/results"
)

func TestHedgeBearsOutThePublishedTable(t *testing.T) {
	l, err := Find("hedge")
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Run(Options{Seed: 1, Requests: 200_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Holds {
		if !c.OK {
			t.Errorf("%s: found %s", c.Claim, c.Found)
		}
	}
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Schema string
		Rows   []struct {
			Row  string
			P99  float64 `json:"p99_ms"`
			Load float64 `json:"extra_load"`
		}
		Reference []map[string]any
		Holds     []Claim
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != Schema || len(doc.Rows) != 2 || doc.Rows[1].Row != "hedged" || doc.Rows[1].P99 < 90 || len(doc.Reference) != 4 || len(doc.Holds) != 7 {
		t.Errorf("JSON lacks parts of the result: %s", b.String())
	}
}

func TestExactRowsAreThoseOfTheClosedForm(t *testing.T) {
	for _, c := range []struct {
		row  Row
		want [4]float64 // p50, p99, p99.9 in ms, extra load
	}{
		{exactRow("plain", 1e18), [4]float64{40.41, 1000, 1000, 0}},
		{exactRow("hedged", hedgeDelay), [4]float64{40.41, 98.41, 116.78, 0.069}},
	} {
		for i, f := range c.row.Figures {
			if d := f.Value - c.want[i]; !f.Present || d > 0.011 || d < -0.011 {
				t.Errorf("%s: figure %d is %v, want %v", c.row.Row, i, f.Value, c.want[i])
			}
		}
	}
}

func TestClaimsOnAbsentOrOutsideFiguresFail(t *testing.T) {
	for _, c := range []struct {
		why  string
		f    results.Figure
		want bool
	}{
		{"inside", results.Num(2), true},
		{"on the edge", results.Num(1), true},
		{"below", results.Num(0.9), false},
		{"above", results.Num(3.1), false},
		{"absent", results.Absent("too few samples"), false},
	} {
		if got := within("x", c.f, 1, 3); got.OK != c.want {
			t.Errorf("%s: ok = %v, want %v", c.why, got.OK, c.want)
		}
	}
	r := &Result{Name: "x", Columns: []string{"p50_ms"}, Holds: []Claim{{"a", true, "1"}, {"b", false, "n/a"}}}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if r.OK() || !strings.Contains(b.String(), "FAILS  b: found n/a") {
		t.Errorf("a failed claim does not show:\n%s", b.String())
	}
}

func TestFindProposesTheNearestLab(t *testing.T) {
	if _, err := Find("hegde"); err == nil || !strings.Contains(err.Error(), `nearest is "hedge"`) {
		t.Errorf("error is %v, want one that proposes hedge", err)
	}
	if len(All()) == 0 {
		t.Error("no lab is listed")
	}
}

func TestAnInterruptedLabHasNoTable(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	l := hedgeLab
	if _, err := l.Run(Options{Seed: 1, Interrupt: stop}); err == nil || !strings.Contains(err.Error(), ErrInterrupted.Error()) {
		t.Errorf("error is %v, want %v", err, ErrInterrupted)
	}
}
