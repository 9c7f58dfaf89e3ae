package trial

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"latencylab/results"
	"latencylab/units"
	"latencylab/workloads"
)

// simulated carries the workload out in virtual time.
func simulated(t *testing.T, w *workloads.Workload, open int, interrupt <-chan struct{}) *results.Run {
	t.Helper()
	p := plan(t, w, true)
	p.openCalls = open
	r, err := Sim(p, time.Unix(0, 0), interrupt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// readable writes the result and reads it back, which checks its sums.
func readable(t *testing.T, r *results.Run) {
	t.Helper()
	var b bytes.Buffer
	if err := results.WriteJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	if _, err := results.Decode("run.json", &b); err != nil {
		t.Errorf("the result cannot be read: %v", err)
	}
}

func TestSimSaysThatAServiceIsUnstable(t *testing.T) {
	const grows, timeouts = "so response time grows as long as the run is", "so attempts end by a timeout"
	for _, c := range []struct {
		about, service string
		policies       []string
		want           []string
	}{
		{"82 % busy", "{time: 82ms, slots: 100}", []string{"plain"}, nil},
		{"no limit of slots", "{time: 10s}", []string{"plain"}, nil},
		{"a queue with an end", "{time: 142ms, slots: 100, queue: 10}", []string{"plain"}, nil},
		{"142 % busy, said once for two policies", "{time: 142ms, slots: 100}", []string{"plain", "hedge=1s"},
			[]string{"service is unstable: 1k/s needs 1.42 of its capacity (rho 1.42 at one attempt a call), " + grows}},
		{"with a deadline", "{time: 142ms, slots: 100}", []string{"deadline=1s"},
			[]string{"service is unstable: 1k/s needs 1.42 of its capacity (rho 1.42 at one attempt a call), " + timeouts}},
		{"hardly above 1", "{time: 100.01ms, slots: 100}", []string{"plain"},
			[]string{"service is unstable: 1k/s needs 1.0001 of its capacity (rho 1.0001 at one attempt a call), " + grows}},
		{"exactly 1", "{time: 100ms, slots: 100}", []string{"plain"}, nil},
		{"one of two replicas is slower", "{replicas: 2, time: 100ms, slots: 60, each: [{replica: 1, factor: 1.5}]}", []string{"plain"},
			[]string{"replica 1 of the service is unstable: its share of 1k/s needs 1.25 of its capacity (rho 1.25 at one attempt a call), " + grows}},
		{"a share is slow", "{time: 10ms, slow: {share: 10%, time: 1s}, slots: 100}", []string{"plain"},
			[]string{"service is unstable: 1k/s needs 1.09 of its capacity (rho 1.09 at one attempt a call), " + grows}},
		{"no mean", "{time: 'pareto(1ns,1)', slots: 100}", []string{"plain"},
			[]string{"service is unstable: the mean of its service time is not finite, " + grows}},
		{"copies make it so", "{replicas: 2, time: 60ms, slots: 50}", []string{"plain", "hedge=0s"},
			[]string{"policy hedge-0s: service is unstable: at 2 attempts a call 1k/s is rho 1.2 (0.6 at one attempt), " + grows}},
		{"copies that are stopped cost less", "{replicas: 2, time: 'exponential(60ms)', slots: 50, cancel: running}", []string{"hedge=0s"}, nil},
	} {
		w := workload(t, c.policies...)
		spec := strings.ReplaceAll(c.service, "'", `"`)
		w.Service = parseService(t, spec)
		w.Rate, w.Requests, w.Warmup, w.WarmupGiven = 1000*1e6, 1000, 0, true
		r := simulated(t, w, 0, nil)
		if !slices.Equal(r.Warnings, c.want) {
			t.Errorf("%s: warnings %q, want %q", c.about, r.Warnings, c.want)
		}
		if r.Void != "" {
			t.Errorf("%s: void: %s", c.about, r.Void)
		}
	}
}

// TestSimEndsWhereNoMoreIsHeld: the policy that piles calls up ends, and the
// result says which, when and with how many; the other one goes to its end.
func TestSimEndsWhereNoMoreIsHeld(t *testing.T) {
	w := workload(t, "plain", "deadline=20ms")
	w.Service = parseService(t, "{time: 20ms, slots: 10, cancel: queued}")
	w.Rate, w.Requests, w.Warmup, w.WarmupGiven, w.Arrivals = 1000*1e6, 5000, 0, true, workloads.Constant
	r := simulated(t, w, 100, nil)
	readable(t, r)
	if want := "at most 100 calls or attempts in flight are simulated: policy plain ended after "; !strings.HasPrefix(r.Void, want) || strings.Contains(r.Void, "deadline") {
		t.Errorf("void %q, want %q and an instant", r.Void, want)
	}
	if r.Verdict.Valid || r.Interrupted || len(r.Comparisons) > 0 || r.NoComparison == "" {
		t.Errorf("valid %v, interrupted %v, %d comparisons (%s)", r.Verdict.Valid, r.Interrupted, len(r.Comparisons), r.NoComparison)
	}
	plain, other := &r.Policies[0].Calls, &r.Policies[1].Calls
	if plain.Unfinished != 101 || plain.OK == 0 || plain.Scheduled != plain.OK+101 {
		t.Errorf("plain: %+v, want 101 unfinished and the rest ok", plain)
	}
	if other.Scheduled != 5000 || other.Unfinished != 0 {
		t.Errorf("with a deadline: %+v, want all of 5,000", other)
	}
	if !slices.ContainsFunc(r.Warnings, func(s string) bool {
		return strings.HasPrefix(s, "policy plain ended after ") && strings.HasSuffix(s, ", with 101 calls and 101 attempts in flight; the calls count as unfinished")
	}) {
		t.Errorf("warnings %q", r.Warnings)
	}
	if d := r.Policies[0].Blocks[0].LengthNS; d <= 0 || d > int64(time.Second) {
		t.Errorf("%d ns of data, want those until the end", d)
	}
}

func TestSimSaysWhatHistogramsCannot(t *testing.T) {
	w := workload(t, "plain")
	w.Service = parseService(t, "{time: 90m}")
	w.Rate, w.Requests, w.Drain = 1e6, 30, 3*time.Hour
	r := simulated(t, w, 0, nil)
	if want := []string{"policy plain: 30 calls took longer than 1h, the longest that histograms tell apart: each counts as 1h"}; !slices.Equal(r.Warnings, want) {
		t.Errorf("warnings %q, want %q", r.Warnings, want)
	}
}

// TestSimInterruptedSaysHowFar: a run of a number of calls has simulated the
// time until it was interrupted.
func TestSimInterruptedSaysHowFar(t *testing.T) {
	w := workload(t, "plain")
	w.Service = parseService(t, "{time: 5ms}")
	w.Rate, w.Requests = 1000*1e6, 1_000_000
	closed := make(chan struct{})
	close(closed)
	r := simulated(t, w, 0, closed)
	readable(t, r)
	calls := float64(r.Policies[0].Calls.Scheduled)
	if f := r.Achieved.DataNS; !r.Interrupted || !f.Present || f.Value < 0.8e6*calls || f.Value > 1.2e6*calls {
		t.Errorf("interrupted %v, %v ns of data for %v calls at 1,000/s", r.Interrupted, f, calls)
	}
	w.Warmup, w.WarmupGiven = time.Hour, true
	r = simulated(t, w, 0, closed)
	readable(t, r)
	if f := r.Achieved.DataNS; f.Value != 0 || r.Policies[0].Calls.Scheduled != 0 || r.Policies[0].BurnIn.Calls.Scheduled == 0 {
		t.Errorf("interrupted in burn-in: %v ns of data, calls %+v", f, r.Policies[0].Calls)
	}
}

// TestPlansThatTakeCenturies: what does not fit the clock is refused before the
// run, and the largest that fits runs to its end.
func TestPlansThatTakeCenturies(t *testing.T) {
	two := []string{"plain", "deadline=1s"}
	for _, c := range []struct {
		about    string
		policies []string
		change   func(*workloads.Workload)
		want     string // "": it fits
	}{
		{"a million calls at the lowest rate", nil, func(w *workloads.Workload) { w.Rate, w.Requests = 1, 1e6 },
			"requests=1M at rate=0.000001/s take 31,710 years, want at most 6,307 requests at that rate: a simulation holds 200 years"},
		{"the most that fit", nil, func(w *workloads.Workload) { w.Rate, w.Requests = 1, 6307 }, ""},
		{"a million calls, by default", nil, func(w *workloads.Workload) { w.Rate = 1 },
			"requests=1M at rate=0.000001/s take 31,710 years, want at most 6,307 requests at that rate: a simulation holds 200 years"},
		{"more calls than a clock counts", nil, func(w *workloads.Workload) { w.Rate, w.Requests = 1, 1<<63-1 }, "want at most 6,307 requests"},
		{"two policies share the time", two, func(w *workloads.Workload) { w.Rate, w.Requests = 1, 6307 },
			"requests=6307 at rate=0.000001/s take 200 years, want at most 3,153 requests at that rate: a simulation holds 200 years, 100 years for each policy"},
		{"two policies, the most that fit", two, func(w *workloads.Workload) { w.Rate, w.Requests = 1, 3153 }, ""},
		{"the longest duration", nil, func(w *workloads.Workload) { w.Rate, w.Duration = 1, 2562047*time.Hour },
			"want a duration of at most 1751999h"},
		{"the longest duration that fits", nil, func(w *workloads.Workload) { w.Rate, w.Duration = 1, 1751999*time.Hour }, ""},
		{"a burn-in without end", nil, func(w *workloads.Workload) { w.Warmup, w.WarmupGiven = 1<<63-1, true },
			"warmup=2562047h47m16.854775807s and drain=5s (1 block) take 292 years, want at most 100 years"},
		{"a drain without end", two, func(w *workloads.Workload) { w.Drain = 1<<63 - 1 }, "drain=2562047h47m16.854775807s (40 blocks) take 11,699 years"},
		{"many clients that track", []string{"hedge=p95"}, func(w *workloads.Workload) { w.Clients = 5000 },
			"clients=5000, and each tracks the hedge delay of policy hedge-p95 in 190 KiB: want at most 4096 clients"},
		{"many clients that do not", []string{"hedge=1ms,budget=10%"}, func(w *workloads.Workload) { w.Clients, w.Requests = 5000, 5000 }, ""},
	} {
		for _, kind := range []workloads.Kind{workloads.Poisson, workloads.Constant} {
			w := workload(t, c.policies...)
			w.Service = parseService(t, "{time: 5ms}")
			w.Rate, w.Duration, w.Requests, w.Arrivals, w.Warmup, w.WarmupGiven = 1000*1e6, 0, 0, kind, 0, true
			c.change(w)
			_, err := NewPlan(w, Choices{Virtual: true})
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v, want an error with %q", c.about, err, c.want)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v, want none", c.about, err)
				continue
			}
			r := simulated(t, w, 0, nil)
			if r.DurationNS <= 0 || r.Achieved.DataNS.Value > float64(longestSim)*1.1 {
				t.Errorf("%s: took %d ns, %v of data", c.about, r.DurationNS, r.Achieved.DataNS)
			}
			for i := range r.Policies {
				if n := r.Policies[i].Calls.Scheduled; w.Requests > 0 && n != w.Requests || n == 0 {
					t.Errorf("%s: %s made %s calls", c.about, r.Policies[i].Name, units.Count(n))
				}
			}
		}
	}
}
