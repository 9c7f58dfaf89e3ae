package results

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRange(t *testing.T) {
	none := Absent("3 % of calls failed")
	for _, c := range []struct {
		about string
		in    []Figure
		want  Range
	}{
		{"one run", []Figure{Num(3)}, Range{Num(3), Num(3), Num(3), 0, ""}},
		{"an odd number", []Figure{Num(3), Num(1), Num(2)}, Range{Num(1), Num(2), Num(3), 0, ""}},
		{"an even number has the mean of the middle two", []Figure{Num(4), Num(1), Num(2), Num(3)}, Range{Num(1), Num(2.5), Num(4), 0, ""}},
		{"what is absent ranks above all others", []Figure{none, Num(1), Num(2)}, Range{Num(1), Num(2), none, 1, none.Reason}},
		{"absent in the middle of an even number", []Figure{none, Num(1)}, Range{Num(1), none, none, 1, none.Reason}},
		{"absent in most", []Figure{none, Num(1), none}, Range{Num(1), none, none, 2, none.Reason}},
		{"absent in all", []Figure{none, none}, Range{none, none, none, 2, none.Reason}},
	} {
		if diff := cmp.Diff(c.want, newRange(c.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.about, diff)
		}
	}
}

// TestSpreadSurvivesAFile: a Run with a spread reads back as it was written,
// and one that contradicts itself is refused with the place.
func TestSpreadSurvivesAFile(t *testing.T) {
	good := render(t, runs(t)["repeated"], "json", Options{})
	r, err := Decode("run.json", bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(runs(t)["repeated"].Runs, r.Runs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range []struct{ why, old, new, want string }{
		{"more seeds than runs", `"n": 5`, `"n": 2`, "runs.seeds: 3 seeds, but n = 2"},
		{"a policy that was not run", `"name": "plain",
        "p50_ns"`, `"name": "other",
        "p50_ns"`, `runs.policies[0].name: "other" is not a policy of the run`},
		{"more absent than seeds", `"absent": 1`, `"absent": 9`, "runs.policies[0].p99_ns.absent: 9, want 0 to 3, the number of seeds"},
		{"a median below the minimum", `"median": 41`, `"median": 1`, "runs.policies[0].p50_ns: min, median and max do not ascend"},
	} {
		bad := strings.Replace(string(good), c.old, c.new, 1)
		if bad == string(good) {
			t.Fatalf("%s: %q is not in the file", c.why, c.old)
		}
		if _, err := Decode("run.json", strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.why, err, c.want)
		}
	}
}
