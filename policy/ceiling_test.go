package policy

import (
	"testing"
	"time"
)

// TestCeiling: a retry that the driver may not send gives its token back and ends
// the call as failed, with the rule that says so; a hedge leaves the call to its
// first attempt; a first attempt is never held back in this way.
func TestCeiling(t *testing.T) {
	p := Policy{Retry: Retry{Max: 3}, Hedge: Hedge{Max: 1, Delay: 10 * ms}, Budget: Budget{Kind: BudgetTokens, Capacity: 5}}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	c := NewClient(&p, 1, 1)
	var k Call
	begin := func() {
		if a := k.Start(c, Request{ID: 1, Idempotent: true}, 0); a.Attempt != 1 {
			t.Fatalf("start: %+v", a)
		}
	}
	begin()
	before := c.funds
	a := k.Reply(0, Result{Disposition: DispRetryable, Phase: PhaseBody, Status: 503}, at(time.Millisecond))
	if a.Attempt == 0 {
		a = k.Advance(a.Timer)
	}
	if a.Kind != Retried {
		t.Fatalf("no retry: %+v", a)
	}
	spent := c.funds.purse
	a = k.Reply(a.Slot, Result{Disposition: DispCeiling, Phase: PhaseAcquire}, at(2*time.Millisecond))
	if a.Finish != Failed || a.Refused != RuleCeiling {
		t.Errorf("a retry beyond the ceiling: %+v, want a failed call and the rule", a)
	}
	if c.funds.purse == spent || before.purse.kind != c.funds.purse.kind {
		t.Error("its token did not go back")
	}
	begin()
	a = k.Advance(at(10 * ms))
	if a.Kind != Hedged {
		t.Fatalf("no hedge: %+v", a)
	}
	if a = k.Reply(a.Slot, Result{Disposition: DispCeiling, Phase: PhaseAcquire}, at(10*ms)); a.Finish != Going || a.Cancel != 0 {
		t.Errorf("a hedge beyond the ceiling: %+v, want the first attempt to go on", a)
	}
	if a = k.Reply(0, Result{Disposition: DispOK, Phase: PhaseBody, Status: 200}, at(20*ms)); a.Finish != OK {
		t.Errorf("its first attempt: %+v, want an OK call", a)
	}
}
