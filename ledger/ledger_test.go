package ledger

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"latencylab/policy"
)

const ms = time.Millisecond

// filled returns a ledger with one of everything, and its identities intact.
func filled(within ...time.Duration) *Ledger {
	l := New(within)
	l.Calls.Scheduled = 6
	for range 3 {
		l.Sent(policy.First)
	}
	l.Sent(policy.Retried)
	l.Sent(policy.Hedged)
	l.AttemptWon(policy.Hedged, 5*ms)
	l.AttemptAnswered(policy.First, 7*ms)
	l.AttemptBroken(policy.First)
	l.AttemptTimedOut(policy.Retried)
	l.AttemptCancelled(policy.First)
	l.CallOK(10 * ms)
	l.CallFailed(2 * ms)
	l.CallExpired(100 * ms)
	l.CallUnfinished(50 * ms)
	l.Calls.Dropped = 2
	return l
}

func TestIdentities(t *testing.T) {
	if err := filled().Check(); err != nil {
		t.Fatalf("a ledger that adds up: %v", err)
	}
	if cut := filled().Cut; cut != [policy.Kinds]uint64{policy.First: 2, policy.Retried: 1} {
		t.Errorf("attempts without an answer by kind: %v, want 2 first ones and 1 retry", cut)
	}
	for _, row := range []struct {
		why  string
		harm func(*Ledger)
		want string
	}{
		{"a call that never ended", func(l *Ledger) { l.Calls.Scheduled++ }, "scheduled"},
		{"a call that ended twice", func(l *Ledger) { l.CallOK(ms) }, "scheduled"},
		{"an attempt that never ended", func(l *Ledger) { l.Sent(policy.Retried) }, "ok+failed+timed_out+cancelled+abandoned"},
		{"an attempt that ended twice", func(l *Ledger) { l.AttemptAbandoned(policy.First) }, "ok+failed+timed_out+cancelled+abandoned"},
		{"an attempt of no kind", func(l *Ledger) { l.Attempts.First--; l.Attempts.Sent++; l.AttemptBroken(policy.First) }, "first+retries+hedges"},
		{"more first attempts than calls begun", func(l *Ledger) {
			for range 2 {
				l.Sent(policy.First)
				l.AttemptBroken(policy.First)
			}
		}, "only 4 calls begun"},
	} {
		l := filled()
		row.harm(l)
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want an error with %q", row.why, err, row.want)
		}
	}
}

// TestMergeIsAddition: two halves merged are what one ledger would have been.
func TestMergeIsAddition(t *testing.T) {
	a, b := filled(ms, 10*ms), filled(ms, 10*ms)
	a.AddError(ErrorKey{Class: ClassReset, Phase: policy.PhaseBody}, "first sample")
	b.AddError(ErrorKey{Class: ClassReset, Phase: policy.PhaseBody}, "second sample")
	b.AddError(ErrorKey{Class: ClassStatus, Phase: policy.PhaseBody, Status: 503}, "503")
	b.Refused[policy.RuleBudget] = 4
	a.Merge(b)
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	if a.Calls.Scheduled != 12 || a.Attempts.Sent != 10 || a.Refused[policy.RuleBudget] != 4 {
		t.Errorf("counts %+v %+v", a.Calls, a.Attempts)
	}
	if a.OK.Count() != 2 || a.Won[policy.Hedged].Count() != 2 || a.Lost[policy.First].Count() != 2 || a.Censored.Count() != 4 || a.Cut[policy.First] != 4 {
		t.Error("histograms are not the sum")
	}
	if a.WithinCount[0] != 0 || a.WithinCount[1] != 2 {
		t.Errorf("within %v, want 0 of 1 ms and 2 of 10 ms: the threshold belongs to it", a.WithinCount)
	}
	if len(a.Errors) != 2 || a.Errors[0].Count != 2 || a.Errors[0].Sample != "first sample" {
		t.Errorf("errors %+v", a.Errors)
	}
	a.Reset()
	if a.OK.Count() != 0 || len(a.Errors) != 0 || a.WithinCount[1] != 0 || a.Calls != (Calls{}) || len(a.Within) != 2 {
		t.Errorf("after Reset: %+v", a.Counts)
	}
}

// TestErrorsAreBounded: what is one sort too many is counted, not lost.
func TestErrorsAreBounded(t *testing.T) {
	var c Counts
	for status := range uint16(500) {
		k := ErrorKey{Class: ClassStatus, Status: status}
		if !c.Again(k) {
			c.AddError(k, "x")
		}
	}
	var n uint64
	for _, e := range c.Errors {
		n += e.Count
	}
	if n != 500 || len(c.Errors) != maxErrors {
		t.Errorf("%d errors in %d sorts, want 500 in %d", n, len(c.Errors), maxErrors)
	}
	if !c.Again(ErrorKey{Class: ClassStatus, Status: 3}) || c.Errors[3].Count != 2 {
		t.Error("a sort that has been seen was not counted again")
	}
}

func TestShares(t *testing.T) {
	var c Counts
	if _, ok := c.ExtraLoad(); ok {
		t.Error("extra load of nothing sent is a number")
	}
	if _, ok := c.Amplification(); ok {
		t.Error("amplification of no call is a number")
	}
	c.Calls.Scheduled, c.Attempts.First, c.Attempts.Sent = 200, 100, 107
	if x, _ := c.ExtraLoad(); x < 0.0699 || x > 0.0701 {
		t.Errorf("extra load %v, want 0.07", x)
	}
	if x, _ := c.Amplification(); x != 0.535 {
		t.Errorf("amplification %v, want 0.535", x)
	}
}

func TestClassNames(t *testing.T) {
	for c := range Classes {
		got, ok := ClassNamed(c.String())
		if !ok || got != c {
			t.Errorf("class %d is named %q, which names %d", c, c, got)
		}
	}
	if _, ok := ClassNamed("nonsense"); ok {
		t.Error("nonsense names a class")
	}
}

// TestTailAgainstSlices counts episodes by hand over slices of 2^23 ns.
func TestTailAgainstSlices(t *testing.T) {
	const slice = time.Duration(1) << tailShift
	var tail Tail
	for i, slow := range []bool{false, true, true, false, true, false, false, true} {
		d := 10 * ms
		if slow {
			d = 200 * ms
		}
		tail.Record(time.Duration(i)*slice+5, d, false)
	}
	if n := tail.Episodes(100 * ms); n != 3 {
		t.Errorf("%d episodes, want 3", n)
	}
	if n := tail.Episodes(10 * ms); n != 3 {
		t.Errorf("%d episodes above 10 ms itself, want 3: the limit is not slow", n)
	}
	if n := tail.Episodes(time.Second); n != 0 {
		t.Errorf("%d episodes above the largest, want 0", n)
	}
	tail.Record(6*slice, ms, true)
	if n := tail.Episodes(time.Second); n != 1 {
		t.Errorf("%d episodes with a failed call, want 1: it ranks above everything", n)
	}
	tail.Reset()
	if n := tail.Episodes(0); n != 0 {
		t.Errorf("%d episodes after Reset", n)
	}
}

// TestTailMergesAndHalves: loops that recorded parts of a stretch merge into
// what one would have recorded, also when only one of them ran long.
func TestTailMergesAndHalves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var whole, a, b Tail
	for range 5000 {
		at := time.Duration(r.Int64N(int64(3 * time.Minute)))
		d := time.Duration(r.Int64N(int64(time.Second)))
		whole.Record(at, d, false)
		if at < 20*time.Second {
			a.Record(at, d, false)
		} else {
			b.Record(at, d, false)
		}
	}
	if len(whole.max) > tailBins {
		t.Errorf("%d slices, want at most %d", len(whole.max), tailBins)
	}
	a.Merge(&b)
	for _, above := range []time.Duration{0, 500 * ms, 990 * ms} {
		if got, want := a.Episodes(above), whole.Episodes(above); got != want {
			t.Errorf("%d episodes above %v after a merge, want %d", got, above, want)
		}
	}
}
