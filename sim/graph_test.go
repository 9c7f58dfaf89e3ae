package sim

import (
	"testing"
	"time"

	"latencylab/policy"
	"latencylab/units"
	"latencylab/workloads"
)

// graphRun simulates calls at 10/s against the services of a file.
func graphRun(t *testing.T, file string, calls uint64, p policy.Policy) *Result {
	t.Helper()
	g, err := workloads.ParseGraph("g.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	rate, err := units.ParseRate("10/s")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Graph: g, Policy: p, Seed: 1, TargetSeed: 1, Idempotent: true,
		Arrivals: workloads.NewArrivals(workloads.Constant, rate, 1), Blocks: []workloads.Block{{Calls: calls}},
	}
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(cfg)
	if err != nil || again.ResultDigest != r.ResultDigest || again.DrawsDigest != r.DrawsDigest {
		t.Errorf("%s: a second run differs, %v", file, err)
	}
	if v := r.Served; v.Arrived != v.Answered+v.Broken+v.AfterLeft+v.Withdrawn+v.Cancelled.Dropped+v.InFlight || v.InFlight != 0 {
		t.Errorf("%s: served does not add up: %+v", file, v)
	}
	for _, h := range r.Hops {
		if err := h.Data.Check(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	return r
}

// TestGraph: what a request takes and how it ends, by hand.
func TestGraph(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name, file string
		ok         bool
		took       time.Duration
		arrived    []uint64
	}{
		{"own work before and after", `services: {a: {time: 2ms, time-after: 3ms, calls: [{to: b}]}, b: {time: 5ms}}`, true, 10 * ms, []uint64{1, 1}},
		{"together", `services: {a: {calls: [{to: b}, {to: c}]}, b: {time: 5ms}, c: {time: 7ms}}`, true, 7 * ms, []uint64{1, 1, 1}},
		{"one after the other", `services: {a: {calls: [{to: b}, {to: c, after: b}]}, b: {time: 5ms}, c: {time: 7ms}}`, true, 12 * ms, []uint64{1, 1, 1}},
		{"an optional call that is late", `services: {a: {calls: [{to: b}, {to: c, optional: true, policy: "deadline=9ms"}]}, b: {time: 5ms}, c: {time: 1s, cancel: running}}`, true, 9 * ms, []uint64{1, 1, 1}},
		{"an optional call that fails", `services: {a: {calls: [{to: b}, {to: c, optional: true, policy: "deadline=9ms"}]}, b: {time: 5ms}, c: {status: {500: 100%}}}`, true, 5 * ms, []uint64{1, 1, 1}},
		{"a required call that fails", `services: {a: {calls: [{to: b}, {to: c}]}, b: {time: 5ms}, c: {time: 1ms, status: {500: 100%}}}`, false, 1 * ms, []uint64{1, 1, 1}},
		{"two of three", `services: {a: {calls: [{to: b, fan: 3, need: 2}]}, b: {slots: 1, time: 4ms}}`, true, 8 * ms, []uint64{1, 3}},
		{"its own failure calls nothing", `services: {a: {time: 1ms, status: {503: 100%}, calls: [{to: b}]}, b: {}}`, false, 1 * ms, []uint64{1, 0}},
		{"three deep", `services: {a: {time: 1ms, calls: [{to: b}]}, b: {time: 1ms, calls: [{to: c, fan: 2}]}, c: {time: 1ms}}`, true, 3 * ms, []uint64{1, 1, 2}},
		{"one service that two call", `services: {a: {calls: [{to: b}, {to: c}]}, b: {calls: [{to: d}]}, c: {calls: [{to: d}]}, d: {time: 2ms}}`, true, 2 * ms, []uint64{1, 1, 1, 2}},
	} {
		r := graphRun(t, row.file, 1, policy.Policy{})
		got := max(r.Ledger.OK.Max(), r.Ledger.Failed.Max())
		if (r.Ledger.Calls.OK == 1) != row.ok || time.Duration(got)/ms != row.took/ms {
			t.Errorf("%s: %+v after %v, want ok %v after %v", row.name, r.Ledger.Calls, time.Duration(got), row.ok, row.took)
		}
		for i, want := range row.arrived {
			if n := r.Services[i].Arrived; n != want {
				t.Errorf("%s: %d arrived at service %d, want %d", row.name, n, i, want)
			}
		}
	}
}

// TestGraphCallerLeaves: whose caller leaves stops its calls, or not.
func TestGraphCallerLeaves(t *testing.T) {
	p := policy.Policy{Deadline: 20 * time.Millisecond}
	for _, row := range []struct {
		file    string
		stopped uint64
		work    time.Duration
	}{
		{`services: {a: {time: 5ms, cancels: true, calls: [{to: b}]}, b: {time: 50ms, cancel: running}}`, 10, 150 * time.Millisecond},
		{`services: {a: {time: 5ms, calls: [{to: b}]}, b: {time: 50ms, cancel: running}}`, 0, 500 * time.Millisecond},
		{`services: {a: {time: 50ms, cancels: true, calls: [{to: b}]}, b: {time: 50ms}}`, 0, 0}, // left before its calls
	} {
		r := graphRun(t, row.file, 10, p)
		if b := r.Services[1]; b.Stopped != row.stopped || b.Work != row.work {
			t.Errorf("%s: b %+v, want %d stopped after %v", row.file, b, row.stopped, row.work)
		}
	}
}
