package policy

import (
	"math"
	"testing"
	"time"

	"latencylab/clock"
)

// tape reads choices from fuzzed bytes; past its end every choice is 0.
type tape struct{ b []byte }

func (t *tape) byte() byte {
	if len(t.b) == 0 {
		return 0
	}
	v := t.b[0]
	t.b = t.b[1:]
	return v
}

func choose[T any](t *tape, of ...T) T { return of[int(t.byte())%len(of)] }

func (t *tape) span() time.Duration {
	return choose(t, 0, ms, 5*ms, 20*ms, 50*ms, 100*ms, 300*ms, time.Second, 1, 7*time.Second, math.MaxInt64, -1)
}

func (t *tape) policy() Policy {
	return Policy{
		Deadline: t.span(), MinStart: t.span(), Timeouts: Timeouts{PartAttempt: {After: t.span()}},
		Attempts: choose(t, 0, 1, 2, 3, 5, 100, -1),
		Retry:    Retry{Max: choose(t, 0, 1, 2, 5, 20, -3, math.MaxInt), Unsafe: t.byte()&1 != 0},
		Backoff: Backoff{Base: t.span(), Cap: t.span(), Factor: choose(t, 0, 1, 2, 1.5, 1e300, math.NaN(), -1),
			Kind: choose(t, BackoffExponential, BackoffConstant, BackoffLinear, BackoffDecorrelated, BackoffTable, BackoffSum), Steps: []time.Duration{t.span(), t.span()},
			Jitter: choose(t, JitterFull, JitterNone, JitterEqual, JitterFraction, JitterAbsolute), Share: choose(t, 0, 0.2, 1, 2), Span: t.span(), JitterFirst: t.byte()&1 != 0},
		Hedge: Hedge{Max: choose(t, 0, 1, 2, 7, 9, -1), Delay: t.span(), Quantile: choose(t, 0, 0.5, 0.95, 2),
			Window: t.span(), MinSamples: choose(t, 0, 1, 3)},
		Budget: Budget{Deposit: choose(t, 0, 0.1, 1, 1e-7, 1e300, math.NaN()), Capacity: choose(t, 0, 1, 3, 0.5, math.Inf(1), -1)},
		Picker: choose(t, PickRandom, PickRoundRobin),
	}
}

// run drives three calls of one client, with times that creep, jump and come late.
func (t *tape) run(tb testing.TB) {
	w := newWorld(tb, t.policy(), choose(t, 1, 3, 64, 65, 1000, 0), 1)
	now := choose(t, 0, at(-time.Second), at(time.Hour), clock.Never-at(time.Second))
	calls := [3]watch{{w: w}, {w: w}, {w: w}}
	for id := uint64(0); len(t.b) > 0; id++ {
		op := t.byte()
		s := &calls[op>>6%3]
		slot := op >> 3 & 7
		switch op & 7 {
		case 0:
			if s.over || !s.begun {
				s.start(Request{ID: id, Intended: now.Add(-t.span()), Idempotent: t.byte()&3 != 3}, now)
			}
		case 1:
			s.progress(slot, Phase(t.byte()%byte(Phases)), now)
		case 2, 3:
			s.reply(slot, Result{
				Disposition: choose(t, DispOK, DispRetryable, DispFatal, DispUnsent, DispRetryable, DispRetryable),
				Hint:        choose(t, 0, 0, 0, t.span()),
			}, now)
		case 4:
			now = min(now.Add(max(t.span(), 0)), clock.Never-1)
		case 5: // the timer is due, or it is late
			if s.begun && !s.over && s.timer != clock.Never {
				now = min(max(now, s.timer).Add(choose(t, 0, 0, ms, time.Second)), clock.Never-1)
				s.advance(now)
			}
		default:
			s.advance(now)
		}
	}
	for i := range calls {
		calls[i].settle(now)
	}
	if b := &w.c.funds; b.limited && b.capacity+w.in-w.out-w.lost != b.tokens {
		tb.Fatalf("tokens are not conserved: capacity %d + in %d - out %d - lost %d, held %d", b.capacity, w.in, w.out, w.lost, b.tokens)
	}
}

// settle fails the open attempts and runs the timers until the call is over.
func (s *watch) settle(now clock.Time) {
	for step := 0; s.begun && !s.over; step++ {
		if step > 10000 {
			s.fail("the call does not end")
		}
		switch {
		case s.timer <= now:
			s.advance(now)
		case s.live != 0:
			for slot := range uint8(MaxOpen) {
				if s.live&(1<<slot) != 0 {
					d := DispRetryable
					if step > 100 {
						d = DispFatal
					}
					s.reply(slot, Result{Disposition: d}, now)
					break
				}
			}
		default:
			now = s.timer
			s.advance(now)
		}
	}
}

func FuzzCall(f *testing.F) {
	f.Add([]byte("a call with nothing set"))
	// deadline, min-start, attempt timeout, attempts | retry, unsafe | base, cap, factor, jitter | hedge … | budget | picker, replicas, origin
	f.Add([]byte{5, 0, 3, 0, 2, 0, 2, 4, 0, 1, 0, 0, 0, 0, 0, 1, 2, 0, 1, 0, 0, 0, 0, 5, 0, 5, 0, 3, 1, 0, 5, 0})
	f.Add([]byte{7, 1, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 6, 6, 6, 6, 3, 0, 11, 1, 3, 19, 3})
	f.Add([]byte{7, 0, 4, 3, 3, 0, 1, 5, 0, 0, 1, 3, 0, 0, 0, 1, 1, 0, 3, 0, 0, 0, 0, 64, 0, 0, 5, 0, 69, 0, 10, 1, 0, 66, 3, 0, 5, 2, 69, 3})
	f.Add([]byte{6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 2, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 4, 2, 2, 0, 0, 0, 0, 0, 4, 3, 5, 0, 3, 3, 2, 1, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 4096 {
			return
		}
		(&tape{in}).run(t)
	})
}

// TestCallRandom runs the fuzz target on fixed pseudo-random input, so that a
// plain test run covers more than its seeds.
func TestCallRandom(t *testing.T) {
	x := uint64(1)
	for range 20000 {
		in := make([]byte, 23+x>>7%120)
		for i := range in {
			x = x*6364136223846793005 + 1442695040888963407
			in[i] = byte(x >> 56)
		}
		(&tape{in}).run(t)
	}
}
