package trial

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/results"
	"latencylab/workloads"
)

func TestSpreadOn(t *testing.T) {
	never, always := func() bool { return false }, func() bool { return true }
	bad := errors.New("bad")
	for _, c := range []struct {
		about      string
		workers, n int
		stop       func() bool
		fail       int // index that fails; -1: none
		begun      int
		err        error
	}{
		{"none", 2, 0, never, -1, 0, nil},
		{"more than workers", 2, 50, never, -1, 50, nil},
		{"fewer than workers", 8, 3, never, -1, 3, nil},
		{"stopped before all, the first is begun", 4, 9, always, -1, 1, nil},
		{"a failure ends it", 1, 9, never, 2, 3, bad},
	} {
		var calls atomic.Int64
		begun, err := spreadOn(c.workers, c.n, c.stop, func(i int) error {
			calls.Add(1)
			if i == c.fail {
				return bad
			}
			return nil
		})
		if begun != c.begun || err != c.err || int(calls.Load()) != begun {
			t.Errorf("%s: %d begun, %d called, error %v; want %d, error %v", c.about, begun, calls.Load(), err, c.begun, c.err)
		}
	}
}

// runsOf simulates the workload with so many seeds.
func runsOf(t *testing.T, w *workloads.Workload, n, open int, interrupt <-chan struct{}) *results.Run {
	t.Helper()
	p, err := NewPlan(w, Choices{Virtual: true, Runs: n})
	if err != nil {
		t.Fatal(err)
	}
	p.openCalls = open
	r, err := Sim(p, time.Time{}, interrupt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRunsAreRunsOfTheirSeeds: the spread is that of runs made one by one, and
// the Run is that of the first seed.
func TestRunsAreRunsOfTheirSeeds(t *testing.T) {
	w := workload(t, "plain", "hedge=58ms")
	w.Service = parseService(t, "{time: 'uniform(20ms,60ms)', slow: {share: 2%, time: 1s}}")
	w.Rate, w.Requests, w.Seed = 1000*1e6, 3000, 7
	all := runsOf(t, w, 3, 0, nil)
	readable(t, all)
	var samples [][]results.Sample
	for i := range uint64(3) {
		one := *w
		one.Seed += i
		r := runsOf(t, &one, 1, 0, nil)
		if r.Runs != nil {
			t.Fatal("one run has a spread")
		}
		if i == 0 && r.Policies[1].Response.HDR != all.Policies[1].Response.HDR {
			t.Error("the Run is not that of the first seed")
		}
		samples = append(samples, []results.Sample{results.SampleOf(r, &r.Policies[0]), results.SampleOf(r, &r.Policies[1])})
	}
	want := results.NewRuns(3, []string{"plain", "hedge-58ms"}, []uint64{7, 8, 9}, samples)
	if diff := cmp.Diff(want, all.Runs); diff != "" {
		t.Errorf("(-one by one +together):\n%s", diff)
	}
}

// TestRunsInterrupted: the seeds that are complete are reported, and no other.
func TestRunsInterrupted(t *testing.T) {
	w := workload(t, "plain")
	w.Service = parseService(t, "{time: 1ms}")
	w.Rate, w.Requests = 1000*1e6, 100
	p, err := NewPlan(w, Choices{Virtual: true, Runs: 50})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.newRun()
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.simPolicy(0, func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	p.record(r, []simulation{s})
	var asked atomic.Int64
	if err := p.repeat(r, []simulation{s}, func() bool { return asked.Add(1) > 10 }); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Runs.Seeds); n < 2 || n >= 50 || !r.Interrupted || r.Runs.Incomplete == "" || r.Runs.N != 50 {
		t.Errorf("%d seeds of %d, interrupted %v, incomplete %q", n, r.Runs.N, r.Interrupted, r.Runs.Incomplete)
	}
	closed := make(chan struct{})
	close(closed)
	w.Requests = 1_000_000
	if r := runsOf(t, w, 3, 0, closed); !r.Interrupted || len(r.Runs.Seeds) != 0 || r.Runs.Incomplete == "" {
		t.Errorf("interrupted in the first: %+v", r.Runs)
	}
}

// TestRunsWithoutRoom: a policy that runs out of room has no figures, and the
// spread says in how many runs.
func TestRunsWithoutRoom(t *testing.T) {
	w := workload(t, "plain")
	w.Service = parseService(t, "{time: 20ms, slots: 10}")
	w.Rate, w.Requests, w.WarmupGiven = 1000*1e6, 5000, true
	r := runsOf(t, w, 3, 100, nil)
	readable(t, r)
	if x := r.Runs.Policies[0].P99; len(r.Runs.Seeds) != 3 || x.Absent != 3 || x.Reason == "" || r.Void == "" || r.Interrupted {
		t.Errorf("%+v of %v, void %q, interrupted %v", x, r.Runs.Seeds, r.Void, r.Interrupted)
	}
}
