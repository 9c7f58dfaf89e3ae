package policy

import (
	"testing"
	"time"
	"unsafe"

	"latencylab/clock"
)

// armed is a policy with every rule in use, and a plain call meets all of them.
func armed(quantile float64) Policy {
	return Policy{
		Deadline: time.Second, MinStart: ms, Timeouts: Timeouts{PartAttempt: {After: 250 * ms}},
		Retry:   Retry{Max: 3},
		Backoff: Backoff{Base: 10 * ms, Cap: 100 * ms},
		Hedge:   Hedge{Max: 2, Delay: 58 * ms, Quantile: quantile},
		Budget:  Budget{Deposit: 0.1},
	}
}

func TestCallSize(t *testing.T) {
	if size := unsafe.Sizeof(Call{}); size > 264 {
		t.Errorf("a Call takes %d bytes, want at most 264", size)
	}
	if size := unsafe.Sizeof(Action{}); size > 24 {
		t.Errorf("an Action takes %d bytes, want at most 24", size)
	}
}

func TestZeroCallIsOver(t *testing.T) {
	var k Call
	for _, a := range []Action{k.Advance(5), k.Reply(0, Result{}, 5), k.Progress(0, PhaseBody, 5)} {
		if a != over {
			t.Errorf("a call that was never started answered %+v", a)
		}
	}
	if k.Open() != 0 || k.Phase(3) != PhaseAcquire || k.Phase(200) != PhaseAcquire {
		t.Error("a call that was never started has open attempts")
	}
}

func TestCallPhase(t *testing.T) {
	c := NewClient(&Policy{Hedge: Hedge{Max: 1}}, 1, 1)
	var k Call
	k.Start(c, Request{Idempotent: true}, 0)
	k.Progress(0, PhaseConnect, 1)
	k.Advance(1)
	k.Progress(1, PhaseBody, 2)
	k.Progress(0, Phases, 3)
	if k.Phase(0) != PhaseConnect || k.Phase(1) != PhaseBody || k.Open() != 3 {
		t.Errorf("phases %v and %v, open %b", k.Phase(0), k.Phase(1), k.Open())
	}
	if n, kind := k.Attempt(1); n != 2 || kind != Hedged {
		t.Errorf("slot 1 holds attempt %d (%v)", n, kind)
	}
	k.Reply(0, Result{Disposition: DispRetryable}, 4)
	if n, _ := k.Attempt(0); n != 0 || k.Phase(0) != PhaseAcquire {
		t.Errorf("slot 0 holds attempt %d in phase %v after its end", n, k.Phase(0))
	}
}

// TestCallInterleaved: calls of one client do not see each other but through it.
func TestCallInterleaved(t *testing.T) {
	p := Policy{Retry: Retry{Max: 1}, Backoff: Backoff{Base: 10 * ms, Jitter: JitterNone}, Budget: Budget{Deposit: 0.1, Capacity: 1}}
	w := newWorld(t, p, 1, 1)
	a, b := watch{w: w}, watch{w: w}
	a.start(Request{Idempotent: true}, 0)
	b.start(Request{ID: 1, Idempotent: true}, 0)
	a.reply(0, Result{Disposition: DispRetryable}, 1)
	if got := b.reply(0, Result{Disposition: DispRetryable}, 1); got.Finish != Failed || got.Refused != RuleBudget {
		t.Errorf("the second call: %+v, want its retry refused for want of the token that the first took", got)
	}
	if got := a.advance(at(10*ms) + 1); got.Attempt != 2 || got.Kind != Retried {
		t.Errorf("the first call: %+v, want its retry", got)
	}
}

func TestHedgeDelay(t *testing.T) {
	tests := []struct {
		name string
		h    Hedge
		d    time.Duration
		ok   bool
	}{
		{"no hedges, no delay", Hedge{Delay: 5 * ms}, 0, false},
		{"a fixed delay is always known", Hedge{Max: 1, Delay: 5 * ms}, 5 * ms, true},
		{"a tracked one is not known at first", Hedge{Max: 1, Delay: 5 * ms, Quantile: 0.9}, 0, false},
	}
	for _, tt := range tests {
		if d, ok := NewClient(&Policy{Hedge: tt.h}, 1, 1).HedgeDelay(); d != tt.d || ok != tt.ok {
			t.Errorf("%s: %v %v", tt.name, d, ok)
		}
	}
}

// TestBudgetAddsUp: a deposit of 10 % is a token after exactly ten calls, also
// the millionth time.
func TestBudgetAddsUp(t *testing.T) {
	c := NewClient(&Policy{Retry: Retry{Max: 1}, Budget: Budget{Deposit: 0.1, Capacity: 100}}, 1, 1)
	if c.Tokens() != 100 {
		t.Fatalf("%v tokens at first, want a full bucket of 100", c.Tokens())
	}
	for c.funds.grants() {
	}
	var k Call
	for i := range uint64(1_000_000) {
		k.Start(c, Request{ID: i}, 0)
		if paid := c.funds.grants(); paid != (i%10 == 9) {
			t.Fatalf("call %d: paid %v", i, paid)
		}
	}
	if c.Tokens() != 0 {
		t.Errorf("%v tokens are left", c.Tokens())
	}
	if got := NewClient(&Policy{}, 1, 1).Tokens(); got != 0 {
		t.Errorf("no budget holds %v tokens", got)
	}
}

// drive runs one call through everything that a call can meet.
func drive(k *Call, c *Client, id uint64, now clock.Time) {
	k.Start(c, Request{ID: id, Intended: now, Idempotent: true}, now)
	k.Progress(0, PhaseFirstByte, now)
	k.Reply(0, Result{Disposition: DispRetryable}, now.Add(ms))
	k.Advance(now.Add(20 * ms))
	k.Advance(now.Add(80 * ms))
	k.Reply(0, Result{Disposition: DispUnsent}, now.Add(80*ms))
	k.Advance(now.Add(400 * ms))
	k.Advance(now.Add(time.Second))
}

func TestCallDoesNotAllocate(t *testing.T) {
	for _, q := range []float64{0, 0.95} {
		p := armed(q)
		for _, replicas := range []int{3, 100} {
			c := NewClient(&p, replicas, 1)
			var k Call
			id := uint64(0)
			if n := testing.AllocsPerRun(5000, func() {
				id++
				drive(&k, c, id, clock.Time(id*1e6))
			}); n != 0 {
				t.Errorf("quantile %v, %d replicas: %v allocations a call", q, replicas, n)
			}
		}
	}
}

func BenchmarkCall(b *testing.B) {
	plain, fixed, tracked := Policy{}, armed(0), armed(0.95)
	for _, bm := range []struct {
		name string
		p    *Policy
	}{{"plain", &plain}, {"armed", &fixed}, {"tracked", &tracked}} {
		b.Run(bm.name, func(b *testing.B) {
			c := NewClient(bm.p, 3, 1)
			calls := make([]Call, 256)
			var id uint64
			b.ReportAllocs()
			for b.Loop() {
				k := &calls[id%256]
				now := clock.Time(id * 1000)
				k.Start(c, Request{ID: id, Intended: now, Idempotent: true}, now)
				k.Reply(0, Result{Disposition: DispOK}, now+clock.Time(20*ms))
				id++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// grants takes what one retry costs.
func (f *funds) grants() bool {
	_, ok := f.take(Retried, causeFailure, 0)
	return ok
}
