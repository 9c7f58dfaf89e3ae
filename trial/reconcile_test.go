package trial

import (
	"testing"
	"time"

	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/results"
	"latencylab/target"
)

func TestWork(t *testing.T) {
	p := func(requests, ns uint64) target.Work { return target.Work{Requests: requests, NS: ns} }
	k := func(attempts uint64, ns time.Duration) ledger.Work { return ledger.Work{Attempts: attempts, Time: ns} }
	for _, c := range []struct {
		why          string
		used, failed ledger.Work
		done         target.WorkBy
		wasted       results.WorkPart
		reasons      int
		holds        bool
	}{
		{"nothing was done", k(0, 0), k(0, 0), target.WorkBy{}, results.WorkPart{}, 0, true},
		{"all was used", k(3, 30), k(0, 0), target.WorkBy{Answered: p(3, 30)}, results.WorkPart{}, 0, true},
		{"a failure had been worked on", k(2, 20), k(1, 9), target.WorkBy{Answered: p(3, 29)}, results.WorkPart{Requests: 1, NS: 9}, 1, true},
		{"an answer lost the race", k(2, 20), k(0, 0), target.WorkBy{Answered: p(3, 35)}, results.WorkPart{Requests: 1, NS: 15}, 1, true},
		{"every end", k(1, 10), k(1, 1), target.WorkBy{Answered: p(3, 13), AfterLeft: p(1, 4), Dropped: p(1, 8), Broken: p(1, 16)}, results.WorkPart{Requests: 5, NS: 31}, 5, true},
		{"work without time", k(1, 0), k(0, 0), target.WorkBy{Answered: p(1, 0), AfterLeft: p(2, 0)}, results.WorkPart{Requests: 2}, 1, true},
		{"more was used than done", k(2, 20), k(0, 0), target.WorkBy{Answered: p(1, 20)}, results.WorkPart{}, 0, false},
		{"for longer than done", k(1, 21), k(0, 0), target.WorkBy{Answered: p(1, 20)}, results.WorkPart{}, 0, false},
	} {
		counts := &ledger.Counts{}
		counts.Work.Used, counts.Work.Failed = c.used, c.failed
		w := work(counts, &target.Run{Work: c.done})
		if w.Wasted != c.wasted || len(w.Reasons) != c.reasons || w.Holds != c.holds {
			t.Errorf("%s: %+v", c.why, w)
		}
		workAddsUp(t, w)
	}
}

// workAddsUp checks the identities of work that holds.
func workAddsUp(t *testing.T, w *results.Work) {
	t.Helper()
	if w == nil {
		t.Fatal("no work")
	}
	if !w.Holds {
		return
	}
	var sum results.WorkPart
	for _, r := range w.Reasons {
		sum.Requests += r.Requests
		sum.NS += r.NS
	}
	if sum != w.Wasted || w.Used.Requests+sum.Requests != w.Done.Requests || w.Used.NS+sum.NS != w.Done.NS {
		t.Errorf("work does not add up: %+v", w)
	}
}

func TestReconcile(t *testing.T) {
	counts := func(a ledger.Attempts, statuses ...uint16) *ledger.Counts {
		c := &ledger.Counts{Attempts: a}
		for _, s := range statuses {
			c.AddError(ledger.ErrorKey{Class: ledger.ClassStatus, Phase: policy.PhaseBody, Status: s}, "")
		}
		return c
	}
	run := func(arrived uint64, answered map[uint16]uint64) *target.Run {
		return &target.Run{Counts: target.Counts{Arrived: arrived}, Answered: answered}
	}
	for _, c := range []struct {
		why    string
		client *ledger.Counts
		target *target.Run
		holds  bool
	}{
		{"nothing was sent", counts(ledger.Attempts{}), run(0, nil), true},
		{"all answered", counts(ledger.Attempts{Sent: 5, OK: 5}), run(5, map[uint16]uint64{200: 5}), true},
		{"one never arrived", counts(ledger.Attempts{Sent: 5, OK: 5}), run(4, map[uint16]uint64{200: 4}), false},
		{"one arrived that was never sent", counts(ledger.Attempts{Sent: 5, OK: 5}), run(6, map[uint16]uint64{200: 6}), false},
		{"a cancelled one arrived and was not served", counts(ledger.Attempts{Sent: 5, OK: 4, Cancelled: 1}), run(5, map[uint16]uint64{200: 4}), true},
		{"a cancelled one was served while it was given up", counts(ledger.Attempts{Sent: 5, OK: 4, Cancelled: 1}), run(5, map[uint16]uint64{200: 5}), true},
		{"a cancelled one did not arrive", counts(ledger.Attempts{Sent: 5, OK: 4, Cancelled: 1}), run(4, map[uint16]uint64{200: 4}), true},
		{"two did not arrive, one was cancelled", counts(ledger.Attempts{Sent: 5, OK: 4, Cancelled: 1}), run(3, map[uint16]uint64{200: 3}), false},
		{"a failure was answered with its status", counts(ledger.Attempts{Sent: 2, OK: 1, Failed: 1}, 503), run(2, map[uint16]uint64{200: 1, 503: 1}), true},
		{"a failure was answered with another status", counts(ledger.Attempts{Sent: 2, OK: 1, Failed: 1}, 500), run(2, map[uint16]uint64{200: 1, 503: 1}), false},
		{"an answer that was counted as wanted was a failure", counts(ledger.Attempts{Sent: 2, OK: 2}), run(2, map[uint16]uint64{200: 1}), false},
		{"a broken one is free to have arrived", counts(ledger.Attempts{Sent: 2, OK: 1, Failed: 1}), run(1, map[uint16]uint64{200: 1}), true},
		{"timed out and abandoned ones too", counts(ledger.Attempts{Sent: 3, OK: 1, TimedOut: 1, Abandoned: 1}), run(3, map[uint16]uint64{200: 2}), true},
	} {
		if r := reconcile("p", c.client, c.target); r.Holds != c.holds {
			t.Errorf("%s: holds is %v, want %v: %+v", c.why, r.Holds, c.holds, r)
		}
	}
}
