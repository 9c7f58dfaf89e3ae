package trial

import (
	"testing"

	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/target"
)

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
