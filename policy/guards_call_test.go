package policy

import (
	"math/bits"
	"testing"
	"time"

	"latencylab/clock"
)

// guards reads a policy with every guard from fuzzed bytes.
func (t *tape) guards() Policy {
	p := t.policy()
	p.Deadline = choose(t, 0, 300*ms, time.Second)
	p.Retry.Max, p.Hedge.Max = choose(t, 2, 0, 5), choose(t, 1, 0, 3)
	p.Hedge.Delay = choose(t, 5*ms, 0)
	p.Hedge.OnError = choose(t, OnErrorWait, OnErrorNext, OnErrorStop)
	p.Hedge.Budget = Budget{Kind: choose(t, BudgetTokens, BudgetWindow, BudgetConcurrency), Deposit: choose(t, 0, 0.5), MinConcurrency: choose(t, 0, 1)}
	p.Budget = Budget{
		Kind: choose(t, BudgetTokens, BudgetWindow, BudgetConcurrency), Deposit: choose(t, 0, 0.1, 1), On: choose(t, DepositCall, DepositSuccess),
		Capacity: choose(t, 0, 5.0), CostTimeout: choose(t, 0, 2.0), CostThrottled: choose(t, 0, 3.0), FailureCost: choose(t, 0, 0, 1.0), Refund: t.byte()&1 != 0,
		MinRate: choose(t, 0, 1.0), MinConcurrency: choose(t, 0, 2), For: choose(t, BudgetBoth, BudgetRetries, BudgetHedges), AtFire: t.byte()&1 != 0,
	}
	p.Breaker = Breaker{
		Kind: choose(t, BreakerConsecutive, BreakerCount, BreakerTime, BreakerEMA), Failures: choose(t, 0, 1, 3), FailureShare: choose(t, 0, 0.5),
		Calls: 4, MinCalls: choose(t, 1, 3), Slow: choose(t, 0, 50*ms), Open: choose(t, 20*ms, time.Second), OpenCap: choose(t, 0, time.Second),
		Permits: choose(t, 1, 2), Need: choose(t, 1, 3), Gates: choose(t, GateAll, GateRetries),
	}
	p.Throttle = Throttle{K: choose(t, 0, 2, 1.0)}
	p.Limit = choose(t, Limit{}, Limit{Max: 3}, Limit{Min: 1, Max: 5})
	return p
}

// end reports the attempt in slot as ended in some way, or has its timers do it.
func (t *tape) end(k *Call, slot uint8, now clock.Time) Action {
	_, kind := k.Attempt(slot)
	r := Result{Disposition: choose(t, DispRetryable, DispOK, DispFatal, DispWithdrawn), Status: choose[uint16](t, 503, 0, 200, 404, 500)}
	if kind == Hedged && t.byte()&3 == 0 {
		r.Disposition = DispUnsent
	}
	return k.Reply(slot, r, now)
}

// runGuards drives calls under every guard to their ends, by answers, errors,
// cancels, timeouts, deadlines and by being abandoned, in any order. Whatever a
// guard has given out is back then, once.
func (t *tape) runGuards(tb testing.TB) {
	p := t.guards()
	c := NewClient(&p, choose(t, 1, 2, 3), 1)
	now := clock.Time(0)
	var calls [4]Call
	var live, timer = [4]bool{}, [4]clock.Time{}
	note := func(i int, a Action) { live[i], timer[i] = a.Finish == Going, a.Timer }
	for id := uint64(0); len(t.b) > 0; id++ {
		op := t.byte()
		i := int(op >> 3 & 3)
		switch k := &calls[i]; {
		case !live[i]:
			note(i, k.Start(c, Request{ID: id, Intended: now, Idempotent: op&7 != 0}, now))
		case op&7 < 3 && k.Open() != 0:
			note(i, t.end(k, uint8(bits.TrailingZeros8(k.Open())), now))
		case op&7 < 5 && timer[i] != clock.Never:
			now = max(now, timer[i])
			note(i, k.Advance(now))
		case op&7 == 7 && op&0x80 != 0:
			k.Abandon(now)
			live[i] = false
		default:
			now = now.Add(choose(t, ms, 0, 20*ms, time.Second))
		}
		c.check(tb, &p)
	}
	for i := range calls {
		if live[i] {
			calls[i].Abandon(now)
		}
	}
	c.check(tb, &p)
	for _, b := range []*purse{&c.funds.purse, &c.funds.hedges} {
		if b.calls != 0 || b.active != 0 || b.waiting != 0 {
			tb.Fatalf("%+v: at the end of all calls %d are in flight, %d resends active, %d waiting", p, b.calls, b.active, b.waiting)
		}
	}
	if c.limit.inflight != 0 || c.open != 0 {
		tb.Fatalf("%+v: at the end of all calls the limit holds %d of %d attempts", p, c.limit.inflight, c.open)
	}
	for i := range c.breakers {
		if b := &c.breakers[i]; b.out != 0 {
			tb.Fatalf("%+v: at the end of all calls replica %d has %d permits out", p, i, b.out)
		}
	}
}

// check holds after every event.
func (c *Client) check(tb testing.TB, p *Policy) {
	tb.Helper()
	for _, b := range []*purse{&c.funds.purse, &c.funds.hedges} {
		if b.waiting > b.active || b.kind == BudgetTokens && (b.tokens < 0 || b.tokens > b.capacity) {
			tb.Fatalf("%+v: %d of %d active resends wait, %d micro-tokens of %d", p, b.waiting, b.active, b.tokens, b.capacity)
		}
	}
	if l := &c.limit; l.now != 0 && (l.inflight != c.open || l.least == 0 && l.inflight > l.now) {
		tb.Fatalf("%+v: %d attempts under a limit of %d, %d are open", p, l.inflight, l.now, c.open)
	}
	for i := range c.breakers {
		if b := &c.breakers[i]; b.out > b.r.permits {
			tb.Fatalf("%+v: replica %d has %d permits out of %d", p, i, b.out, b.r.permits)
		}
	}
}

func FuzzGuards(f *testing.F) {
	f.Add([]byte("every guard at once, and calls that end in every way"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) <= 2048 {
			(&tape{in}).runGuards(t)
		}
	})
}

func TestGuardsRandom(t *testing.T) {
	randomTapes(5000, 300, func(tp *tape) {
		if len(tp.b) > 90 {
			tp.runGuards(t)
		}
	})
}

// What each end of an attempt says to an adaptive limit, a throttle and a
// breaker: a refusal for overload and a timeout are drops, an error of another
// kind says nothing of capacity, an answer below 500 other than 429 is accepted,
// and an attempt that is given up says nothing at all.
func TestEndsTellTheGuards(t *testing.T) {
	type told struct {
		limit    int    // 10 before
		accepted uint64 // calls that the throttle takes for accepted
		failed   uint32 // failures in a row that the breaker counts
	}
	answer := func(status uint16, d Disposition) func(*Call) {
		return func(k *Call) { k.Reply(0, Result{Disposition: d, Status: status}, at(ms)) }
	}
	for _, row := range []struct {
		why  string
		end  func(*Call)
		want told
	}{
		{"a wanted answer", answer(200, DispOK), told{10, 1, 0}},
		{"a 404", answer(404, DispFatal), told{10, 1, 0}},
		{"a 500", answer(500, DispFatal), told{10, 1, 1}},
		{"a broken connection", answer(0, DispRetryable), told{10, 0, 1}},
		{"a 503", answer(503, DispRetryable), told{9, 0, 1}},
		{"a 429", answer(429, DispRetryable), told{9, 0, 1}},
		{"a timeout", func(k *Call) { k.Advance(at(time.Second)) }, told{9, 0, 1}},
		{"a call that is abandoned", func(k *Call) { k.Abandon(at(ms)) }, told{10, 0, 0}},
	} {
		p := Policy{Limit: Limit{Min: 1, Max: 20, Initial: 10}, Throttle: Throttle{K: 2}, Breaker: Breaker{Failures: 5}}
		p.Timeouts[PartAttempt].After = time.Second
		c := NewClient(&p, 1, 1)
		var k Call
		k.Start(c, Request{Idempotent: true}, 0)
		row.end(&k)
		if got := (told{c.limit.now, c.throttle.accepts, c.breakers[0].streak}); got != row.want {
			t.Errorf("%s: limit %d, %d accepted, %d failures in a row, want %+v", row.why, got.limit, got.accepted, got.failed, row.want)
		}
	}
}
