package policy_test

import (
	"math/bits"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/policy"
)

// choices reads choices from fuzzed bytes; past their end every choice is 0.
type choices struct{ b []byte }

func (c *choices) below(n int) int {
	if len(c.b) == 0 {
		return 0
	}
	v := int(c.b[0]) % n
	c.b = c.b[1:]
	return v
}

func (c *choices) is() bool { return c.below(2) == 1 }

func (c *choices) span() time.Duration {
	return [...]time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, time.Second, 30 * time.Second, 1}[c.below(8)]
}

// policy makes one of any rules; what makes no sense is brought into range by
// NewClient.
func (c *choices) policy() policy.Policy {
	p := policy.Policy{
		Deadline: c.span(), Reserve: c.span(), MinStart: c.span(), Attempts: c.below(6),
		Retry:   policy.Retry{Max: c.below(5), Unsafe: c.is(), After: policy.After(c.below(3)), AfterCap: c.span(), AfterOver: policy.AfterOver(c.below(3)), AfterSpread: float64(c.below(3)) / 2},
		Backoff: policy.Backoff{Base: c.span(), Kind: policy.BackoffKind(c.below(5)), Jitter: policy.Jitter(c.below(5))},
		Hedge: policy.Hedge{
			Max: c.below(9), Delay: c.span(), Quantile: float64(c.below(3)) / 2.1, MinSamples: 1, Floor: c.span(), Ceiling: c.span(),
			Probability: float64(c.below(3)) / 2, OnlyIdle: c.is(), OffAbove: c.below(4), OnError: policy.OnError(c.below(3)),
			Win: policy.Win(c.below(2)), WinAtHead: c.is(), Budget: policy.Budget{Deposit: float64(c.below(2)), Kind: policy.BudgetWindow},
		},
		Budget: policy.Budget{Kind: policy.BudgetKind(c.below(3)), Deposit: float64(c.below(4)) / 2, Capacity: float64(c.below(4)),
			Refund: c.is(), FailureCost: float64(c.below(2)), MinRate: float64(c.below(3)), MinConcurrency: c.below(3),
			For: policy.BudgetFor(c.below(3)), AtFire: c.is()},
		Breaker: policy.Breaker{Kind: policy.BreakerKind(c.below(4)), Failures: c.below(4), FailureShare: float64(c.below(3)) / 2,
			Calls: 1 + c.below(5), Slow: c.span(), Open: c.span(), Permits: c.below(3), Need: c.below(3), Gates: policy.BreakerGates(c.below(2))},
		Throttle: policy.Throttle{K: float64(c.below(3)), Window: c.span()},
		Limit:    policy.Limit{Max: c.below(6), Min: c.below(4), Initial: c.below(6), Timeout: c.span()},
		Wire:     policy.Wire(c.below(6)),
		Cancel:   policy.Cancel(c.below(4)), Picker: policy.Picker(c.below(5)), Choices: c.below(4),
		Eject: policy.Eject{Failures: c.below(4), For: c.span(), Max: float64(c.below(3)) / 2},
	}
	for i := range p.Timeouts {
		p.Timeouts[i] = policy.Timeout{After: c.span(), Quantile: float64(c.below(3)) / 2.1, Pad: c.span()}
	}
	return p
}

// driver is one call and what its driver knows.
type driver struct {
	k      policy.Call
	live   uint8
	timer  clock.Time
	newest uint32
	over   bool
}

// take checks an Action against what no rule may break.
func (d *driver) take(t *testing.T, a policy.Action) {
	t.Helper()
	if d.over && a != (policy.Action{Timer: clock.Never}) {
		t.Fatalf("a call that is over answered %+v", a)
	}
	if a.Cancel&^d.live != 0 || a.TimedOut&^a.Cancel != 0 {
		t.Fatalf("cancelled %b, timed out %b of %b open", a.Cancel, a.TimedOut, d.live)
	}
	d.live &^= a.Cancel
	if a.Attempt != 0 {
		if a.Attempt != d.newest+1 || d.live&(1<<a.Slot) != 0 || (a.Kind == policy.Hedged) != (d.live != 0) {
			t.Fatalf("after attempt %d with %b open: %+v", d.newest, d.live, a)
		}
		d.newest = a.Attempt
		d.live |= 1 << a.Slot
	}
	d.timer = a.Timer
	if a.Finish != policy.Going {
		if d.live != 0 || a.Timer != clock.Never {
			t.Fatalf("finished with %b open: %+v", d.live, a)
		}
		d.over = true
	} else if d.live == 0 && a.Timer == clock.Never && !d.over {
		t.Fatalf("stuck: nothing is open and no timer is set: %+v", a)
	}
	if d.live != d.k.Open() {
		t.Fatalf("%b open, the call says %b", d.live, d.k.Open())
	}
}

// FuzzVariants drives four calls of one client under any policy. Every call
// comes to an end, and at the end nothing is in flight.
func FuzzVariants(f *testing.F) {
	f.Add([]byte("hedge, breaker, budget, and what else there is"))
	f.Add([]byte{0, 0, 0, 3, 2, 1, 0, 0, 0, 0, 2, 1, 2, 3, 2, 0, 0, 0, 0, 1, 2, 1, 0, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 1, 2, 2, 1, 0, 9, 8, 7, 6, 5, 4, 3, 2, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 2000 {
			return
		}
		c := &choices{in}
		p := c.policy()
		client := policy.NewClient(&p, []int{1, 2, 3, 64, 65, 300}[c.below(6)], 1)
		now := clock.Time(0)
		var calls [4]driver
		for i := range calls {
			calls[i].over = true
		}
		for id := uint64(0); len(c.b) > 0; id++ {
			d := &calls[c.below(len(calls))]
			slot := uint8(c.below(policy.MaxOpen))
			switch c.below(8) {
			case 0, 1:
				if d.over {
					*d = driver{k: d.k}
					d.take(t, d.k.Start(client, policy.Request{ID: id, Intended: now, Idempotent: c.is(), Deadline: clock.Time(c.span())}, now))
				}
			case 2:
				d.take(t, d.k.Progress(slot, policy.Phase(c.below(int(policy.Phases))), now))
			case 3:
				d.take(t, d.k.Head(slot, policy.Disposition(c.below(3)), now))
			case 4:
				d.reply(t, c, slot, now)
			case 5:
				d.k.Abandon(now)
				d.live, d.over = 0, true
			case 6:
				now = now.Add(c.span())
			default:
				if d.timer != clock.Never {
					now = max(now, d.timer)
				}
				d.take(t, d.k.Advance(now))
			}
		}
		for i := range calls {
			calls[i].settle(t, now)
		}
		if n := client.InFlight(); n != 0 {
			t.Fatalf("%d attempts in flight after the last call", n)
		}
	})
}

func (d *driver) reply(t *testing.T, c *choices, slot uint8, now clock.Time) {
	r := policy.Result{
		Disposition: policy.Disposition(c.below(5)), Phase: policy.Phase(c.below(int(policy.Phases))),
		Status: []uint16{0, 200, 404, 429, 500, 503}[c.below(6)], Hint: []time.Duration{0, -1, time.Millisecond, time.Hour}[c.below(4)],
	}
	d.live &^= 1 << slot
	d.take(t, d.k.Reply(slot, r, now))
}

// settle fails what is open and lets the timers run until the call is over.
func (d *driver) settle(t *testing.T, now clock.Time) {
	for step := 0; !d.over; step++ {
		switch {
		case step > 10_000:
			t.Fatal("the call does not end")
		case d.timer <= now:
			d.take(t, d.k.Advance(now))
		case d.live != 0:
			slot := uint8(bits.TrailingZeros8(d.live))
			d.live &^= 1 << slot
			d.take(t, d.k.Reply(slot, policy.Result{Disposition: policy.DispFatal}, now))
		default:
			now = d.timer
			d.take(t, d.k.Advance(now))
		}
	}
}
