package lab

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latencylab/results"
	"latencylab/workloads"
)

// quick is how many calls each lab has in tests, where the claims still have to
// hold. 0 is its own number.
var quick = map[string]uint64{
	"hedge":          200_000,
	"fan-out":        8_000,
	"false-timeouts": 50_000,
}

// brief is the same for labs whose claims need more calls than a test has time
// for: there the table is looked at, and loadgen lab makes the claims.
var brief = map[string]uint64{
	"hedge-queue":    5_000,
	"collapse":       50_000,
	"interference":   3_000,
	"hedge-collapse": 5_000,
}

// calls returns how many calls the lab has in tests.
func calls(name string) uint64 { return max(quick[name], brief[name]) }

func TestEveryLabBearsOutItsClaims(t *testing.T) {
	for _, l := range All() {
		t.Run(l.Name, func(t *testing.T) {
			if raced && (l.Name == "retry-storm" || l.Name == "collapse") {
				t.Skip("long, and of one goroutine: runs in the steps without the race detector")
			}
			if l.Name == "pulse" { // a part of it
				l.run = func(o Options) (*Result, error) {
					rhos, seeds := []float64{0.7}, 2
					runs, delays, err := pulseRuns(&o, rhos, seeds)
					if err != nil {
						return nil, err
					}
					return pulseResult(rhos, seeds, runs, delays), nil
				}
			}
			r := runLab(t, l, Options{Seed: 1, Requests: calls(l.Name)})
			if len(r.Holds) == 0 || len(r.Reference) == 0 {
				t.Errorf("%d claims and %d references, want some of each", len(r.Holds), len(r.Reference))
			}
			for _, c := range r.Holds {
				if !c.OK && brief[l.Name] == 0 {
					t.Errorf("%s: found %s", c.Claim, c.Found)
				}
			}
			for _, rows := range [][]Row{r.Rows, r.Reference} {
				for _, row := range rows {
					if len(row.Values) != len(r.Columns) {
						t.Errorf("row %q has %d values for %d columns", row.Row, len(row.Values), len(r.Columns))
					}
					for i := range row.Values {
						if v := &row.Values[i]; v.Word == "" && v.List == nil && !v.Present && v.Reason == "" {
							t.Errorf("row %q: %s is absent without a reason", row.Row, r.Columns[i])
						}
					}
				}
			}
			checkJSON(t, r)
			checkText(t, r)
		})
	}
}

func runLab(t *testing.T, l Lab, o Options) *Result {
	t.Helper()
	r, err := l.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkJSON holds the JSON against the result.
func checkJSON(t *testing.T, r *Result) {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Schema, Name string
		Runs         int
		Rows         []map[string]any
		Reference    []map[string]any
		Spread       []map[string]any
		Holds        []Claim
		Plots        []struct {
			Title  string
			Series []struct{ Points [][2]float64 }
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	if doc.Schema != Schema || doc.Name != r.Name || len(doc.Rows) != len(r.Rows) || len(doc.Reference) != len(r.Reference) ||
		len(doc.Holds) != len(r.Holds) || len(doc.Plots) != len(r.Plots) || doc.Runs < 1 {
		t.Errorf("the JSON lacks parts of the result: %s", b.String())
	}
	for _, row := range append(doc.Rows, doc.Reference...) {
		for _, key := range r.Columns {
			v, has := row[key]
			if reason, _ := row[key+"_reason"].(string); !has || v == nil && reason == "" {
				t.Errorf("row %v: %s is %v, want a value or a reason", row["row"], key, v)
			}
		}
	}
}

// checkText makes sure that all is printed, and no picture wider than it may be.
func checkText(t *testing.T, r *Result) {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if !strings.Contains(b.String(), "\n"+row.Row) {
			t.Errorf("row %q is not printed", row.Row)
		}
	}
	for i := range r.Plots {
		for _, line := range strings.Split(r.Plots[i].String(), "\n")[1:] {
			if len(line) > plotWidth {
				t.Errorf("%d characters wide, want at most %d: %q", len(line), plotWidth, line)
			}
		}
	}
}

func TestThePublishedGeneratorGivesThePublishedFigures(t *testing.T) {
	for _, name := range []string{"hedge", "jitter"} {
		l, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{PRNG: SeedJS}
		o.Seed = l.DefaultSeed(o)
		if r := runLab(t, l, o); !r.OK() {
			t.Errorf("%s: %+v", name, r.Holds)
		}
	}
	if n := (published{3}).cycle(); n != 10466 {
		t.Errorf("the generator's cycle has %d states, want 10466", n)
	}
}

func TestRunsOfSeveralSeedsSpread(t *testing.T) {
	l, err := Find("jitter")
	if err != nil {
		t.Fatal(err)
	}
	r := runLab(t, l, Options{Seed: 5, Runs: 20})
	if len(r.Spread) != len(r.Rows) {
		t.Fatalf("%d rows have a spread, want %d", len(r.Spread), len(r.Rows))
	}
	full := r.Spread[2].Values[0]
	if full.Runs != 20 || !(full.Min.Value < full.Median.Value && full.Median.Value < full.Max.Value) {
		t.Errorf("full jitter spreads as %+v, want 20 runs that differ", full)
	}
	alone := runLab(t, l, Options{Seed: 5})
	if got, want := r.value("full", "busiest_50ms"), alone.value("full", "busiest_50ms"); got.Value != want.Value {
		t.Errorf("the table shows %v, want that of the first run, %v", got.Value, want.Value)
	}
	if c := r.Holds[0]; c.Held != 20 {
		t.Errorf("%q held in %d runs, want 20", c.Claim, c.Held)
	}
	checkText(t, r)
}

func TestAClaimThatFailsInOneRunFails(t *testing.T) {
	runs := []*Result{
		{Holds: []Claim{{Claim: "a", OK: true, Found: "1"}, {Claim: "b", OK: true, Found: "1"}}},
		{Holds: []Claim{{Claim: "a", OK: true, Found: "2"}, {Claim: "b", OK: false, Found: "7"}}},
	}
	r := merge(runs)
	if r.OK() || !r.Holds[0].OK || r.Holds[1].OK || r.Holds[1].Found != "7" || r.Holds[1].Held != 1 {
		t.Errorf("claims are %+v, want b to fail with what the second run found", r.Holds)
	}
}

func TestExactHedgeIsTheClosedForm(t *testing.T) {
	for _, c := range []struct {
		why  string
		got  []Value
		want [4]float64 // p50, p99, p99.9 in ms, extra load
	}{
		{"without a hedge the mixture's own quantiles", exactHedge(math.Inf(1)), [4]float64{40.41, 1000, 1000, 0}},
		{"with one the product of two survivals", exactHedge(hedgeDelay), [4]float64{40.41, 98.41, 116.78, 0.069}},
	} {
		for i, v := range c.got {
			if d := v.Value - c.want[i]; !v.Present || math.Abs(d) > 0.011 {
				t.Errorf("%s: figure %d is %v, want %v", c.why, i, v.Value, c.want[i])
			}
		}
	}
}

func TestClaimsOnAbsentOrOutsideFiguresFail(t *testing.T) {
	for _, c := range []struct {
		why  string
		v    Value
		want bool
	}{
		{"inside", num(2), true},
		{"on the edge", num(1), true},
		{"below", num(0.9), false},
		{"above", num(3.1), false},
		{"absent", absent("too few samples"), false},
	} {
		r := &Result{Columns: []string{"x"}}
		r.add("row", c.v)
		r.within("row", "x", 1, 3)
		if r.OK() != c.want {
			t.Errorf("%s: ok = %v, want %v", c.why, r.OK(), c.want)
		}
	}
	r := &Result{Columns: []string{"x"}}
	r.within("nosuch", "x", 0, 1)
	r.add("y", Value{Figure: results.Figure{Reason: "cut off", AtLeast: 7}})
	r.says("y", "x", "cut off")
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if r.OK() || r.Holds[0].OK || !r.Holds[1].OK || !strings.Contains(b.String(), "FAILS  nosuch") || !strings.Contains(b.String(), ">=7 [1]") {
		t.Errorf("a failed claim or a bound does not show:\n%s", b.String())
	}
}

func TestFindProposesTheNearestLab(t *testing.T) {
	if _, err := Find("hegde"); err == nil || !strings.Contains(err.Error(), `nearest is "hedge"`) {
		t.Errorf("error is %v, want one that proposes hedge", err)
	}
}

func TestOptionsThatALabDoesNotTakeAreRefused(t *testing.T) {
	for _, c := range []struct {
		lab  string
		o    Options
		want string
	}{
		{"layers", Options{Requests: 5}, "takes no --requests"},
		{"layers", Options{PRNG: SeedJS}, "takes no --prng"},
		{"layers", Options{Discipline: "fifo"}, "takes no --discipline"},
	} {
		l, err := Find(c.lab)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Run(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %+v: error is %v, want %q", c.lab, c.o, err, c.want)
		}
	}
}

func TestAnInterruptedLabHasNoTable(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	for _, l := range All() {
		if _, err := l.Run(Options{Seed: 1, Interrupt: stop}); err == nil || !strings.Contains(err.Error(), ErrInterrupted.Error()) {
			t.Errorf("%s: error is %v, want %v", l.Name, err, ErrInterrupted)
		}
	}
}

func TestExportedWorkloadsAreTheLabs(t *testing.T) {
	for _, l := range All() {
		files, err := l.Export(Options{Seed: 7, Requests: calls(l.Name)})
		if l.export == nil {
			if err == nil || !strings.Contains(err.Error(), "has no workload: ") {
				t.Errorf("%s: error is %v, want the reason why there is no workload", l.Name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
		}
		for _, f := range files {
			path := filepath.Join(t.TempDir(), f.Name)
			if err := os.WriteFile(path, f.Data, 0o666); err != nil {
				t.Fatal(err)
			}
			w, err := workloads.Load(path)
			if err != nil || w.Seed != 7 || w.Service == nil || w.Rate == 0 {
				t.Errorf("%s: %s does not read back to what the simulator needs: %v", l.Name, f.Name, err)
			}
		}
	}
}
