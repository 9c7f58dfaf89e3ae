package policy

import (
	"fmt"
	"math"
	"testing"
	"time"

	"latencylab/clock"
)

// world is one client with an independent account of its budget. Its calls are
// driven through watch, which checks every Action against what no rule may
// break; golden traces, fuzzing and property tests share it.
type world struct {
	t        testing.TB
	p        Policy
	c        *Client
	replicas int
	tokens   int64 // in micro-tokens
	lost     int64 // what a full bucket could not take, in micro-tokens
	in, out  int64 // deposits and refunds, withdrawals, in micro-tokens
}

func newWorld(t testing.TB, p Policy, replicas int, seed uint64) *world {
	c := NewClient(&p, replicas, seed)
	return &world{t: t, p: p, c: c, replicas: max(replicas, 1), tokens: c.funds.tokens}
}

func (w *world) put(n int64) {
	if !w.c.funds.limited {
		return
	}
	w.in += n
	if over := w.tokens + n - w.c.funds.capacity; over > 0 {
		w.lost += over
		n -= over
	}
	w.tokens += n
}

func (w *world) take() {
	if !w.c.funds.limited {
		return
	}
	w.out += token
	w.tokens -= token
	if w.tokens < 0 {
		w.t.Fatalf("an attempt was paid for with %d micro-tokens", w.tokens+token)
	}
}

// watch is one call and what a driver knows about it.
type watch struct {
	w        *world
	k        Call
	r        Request
	deadline clock.Time
	timer    clock.Time
	live     uint8
	sent     [MaxOpen]clock.Time
	kind     [MaxOpen]Kind
	sends    [Kinds]int
	unsent   int
	last     uint32 // newest attempt number
	begun    bool
	over     bool
	planned  bool          // a retry is paid for and not sent
	hint     time.Duration // of the newest reply
}

func (s *watch) fail(format string, args ...any) {
	s.w.t.Helper()
	s.w.t.Fatalf("policy %+v\ncall %+v\n%s", s.w.p, s.k, fmt.Sprintf(format, args...))
}

func (s *watch) start(r Request, now clock.Time) Action {
	*s = watch{w: s.w, k: s.k, r: r, deadline: clock.Never, timer: clock.Never, begun: true}
	if s.w.p.Deadline > 0 {
		s.deadline = r.Intended.Add(s.w.p.Deadline)
	}
	s.w.put(s.w.c.funds.deposit)
	a := s.k.Start(s.w.c, r, now)
	s.check("start", a, now)
	if a.Finish == Going && (a.Attempt != 1 || a.Kind != First) {
		s.fail("start neither sent a first attempt nor ended: %+v", a)
	}
	return a
}

func (s *watch) progress(slot uint8, p Phase, now clock.Time) Action {
	a := s.k.Progress(slot, p, now)
	if a.Cancel != 0 || a.Attempt != 0 || a.Finish != Going {
		s.fail("progress acted: %+v", a)
	}
	if s.live&(1<<slot) != 0 && s.k.Phase(slot) != p {
		s.fail("slot %d is in phase %v, told %v", slot, s.k.Phase(slot), p)
	}
	s.check("progress", a, now)
	return a
}

func (s *watch) reply(slot uint8, r Result, now clock.Time) Action {
	open := s.live&(1<<slot) != 0
	others := s.live &^ (1 << slot)
	if open {
		s.live = others
		if r.Disposition == DispUnsent && s.kind[slot] == Hedged || r.Disposition == DispCeiling && s.kind[slot] != First {
			s.unsent++
			s.w.put(token)
		}
	}
	s.hint = r.Hint
	a := s.k.Reply(slot, r, now)
	if !open && a != (Action{Timer: a.Timer}) {
		s.fail("a reply for slot %d, which is not open, acted: %+v", slot, a)
	}
	if open && r.Disposition == DispOK && (a.Finish != OK || a.Cancel != others) {
		s.fail("a wanted answer with %b open beside it: %+v", others, a)
	}
	if open && r.Disposition == DispFatal && (a.Finish != Failed || a.Cancel != others) {
		s.fail("a fatal failure with %b open beside it: %+v", others, a)
	}
	if (a.Finish == OK) != (open && r.Disposition == DispOK) {
		s.fail("%v after a reply %v", a.Finish, r.Disposition)
	}
	if open && others != 0 && r.Disposition != DispOK && r.Disposition != DispFatal && a != (Action{Timer: a.Timer}) {
		s.fail("a failure did not wait for %b: %+v", others, a)
	}
	s.check("reply", a, now)
	return a
}

func (s *watch) advance(now clock.Time) Action {
	live, was := s.live, s.over || !s.begun
	a := s.k.Advance(now)
	if !was && now >= s.deadline && (a.Finish != Expired || a.Cancel != live || a.TimedOut != live) {
		s.fail("advance at or after the deadline with %b open: %+v", live, a)
	}
	if d := s.w.p.Timeouts[PartAttempt].After; !was && d > 0 && a.Finish != Expired {
		for slot := range MaxOpen {
			due := live&(1<<slot) != 0 && now >= s.sent[slot].Add(d)
			if due != (a.TimedOut&(1<<slot) != 0) {
				s.fail("slot %d: timed out must be %v at %d: %+v", slot, due, now, a)
			}
		}
	}
	s.check("advance", a, now)
	return a
}

// check holds for every action after every event.
func (s *watch) check(event string, a Action, now clock.Time) {
	if s.over || !s.begun {
		if a != (Action{Timer: clock.Never}) {
			s.fail("%s: a call that is over answered %+v", event, a)
		}
		return
	}
	if a.TimedOut&^a.Cancel != 0 || a.Cancel&^s.live != 0 {
		s.fail("%s: cancelled %b, timed out %b of %b open", event, a.Cancel, a.TimedOut, s.live)
	}
	s.live &^= a.Cancel
	if a.Attempt != 0 {
		s.checkSend(event, a, now)
	}
	waits := a.Finish == Going && s.live == 0
	if waits && a.Timer == clock.Never {
		s.fail("%s: stuck, nothing is open and no timer is set", event)
	}
	if waits && !s.planned {
		s.planned = true
		s.w.take()
	}
	if a.Finish != Going {
		s.checkFinish(event, a, now)
	}
	if s.live != s.k.Open() {
		s.fail("%s: %b open, the call says %b", event, s.live, s.k.Open())
	}
	if a.Timer > s.deadline && a.Finish == Going {
		s.fail("%s: timer %d is after the deadline %d", event, a.Timer, s.deadline)
	}
	// Nothing that was due is left undone, but for a hedge at once.
	if (event == "advance" || now < s.timer) && a.Timer <= now && !(a.Attempt != 0 && a.Timer == now) {
		s.fail("%s at %d: timer %d is due and nothing was done about it: %+v", event, now, a.Timer, a)
	}
	s.checkRule(event, a, now)
	if s.w.tokens != s.w.c.funds.tokens {
		s.fail("%s: %d micro-tokens, by account %d: %+v", event, s.w.c.funds.tokens, s.w.tokens, a)
	}
	s.timer = a.Timer
}

func (s *watch) checkSend(event string, a Action, now clock.Time) {
	p := &s.w.p
	if a.Slot >= MaxOpen || s.live&(1<<a.Slot) != 0 {
		s.fail("%s: sent in slot %d while %b are open", event, a.Slot, s.live)
	}
	if a.Attempt != s.last+1 || a.Finish != Going || int(a.Replica) >= s.w.replicas {
		s.fail("%s: after attempt %d of %d replicas: %+v", event, s.last, s.w.replicas, a)
	}
	if n, kind := s.k.Attempt(a.Slot); n != a.Attempt || kind != a.Kind {
		s.fail("%s: the slot holds attempt %d (%v): %+v", event, n, kind, a)
	}
	if (a.Kind == First) != (event == "start") || (a.Kind == Hedged) != (s.live != 0) {
		s.fail("%s: sent as %v with %b open", event, a.Kind, s.live)
	}
	if now.Add(max(p.MinStart, 0)) >= s.deadline {
		s.fail("%s: sent at %d, too late for the deadline %d", event, now, s.deadline)
	}
	if a.Kind == Hedged || a.Kind == Retried && !s.planned {
		s.w.take()
	}
	s.planned = false
	s.live |= 1 << a.Slot
	s.sent[a.Slot], s.kind[a.Slot], s.last = now, a.Kind, a.Attempt
	s.sends[a.Kind]++
	total := s.sends[First] + s.sends[Retried] + s.sends[Hedged]
	switch {
	case s.sends[Retried] > max(p.Retry.Max, 0), s.sends[Hedged] > min(max(p.Hedge.Max, 0), MaxOpen-1),
		p.Attempts > 0 && total-s.unsent > p.Attempts:
		s.fail("%s: %d retries and %d hedges", event, s.sends[Retried], s.sends[Hedged])
	case total > 1 && !s.r.Idempotent && !p.Retry.Unsafe:
		s.fail("%s: a request that is not idempotent was sent %d times", event, total)
	}
}

func (s *watch) checkFinish(event string, a Action, now clock.Time) {
	if s.live != 0 || a.Timer != clock.Never || a.Attempt != 0 {
		s.fail("%s: finished with %b open: %+v", event, s.live, a)
	}
	if a.Finish == Expired && now < s.deadline && !(event == "start" && a.Refused == RuleTime) {
		s.fail("%s: expired at %d before the deadline %d", event, now, s.deadline)
	}
	if s.planned {
		s.w.put(token)
		s.planned = false
	}
	s.over = true
}

// checkRule asks whether the rule that refused had cause to.
func (s *watch) checkRule(event string, a Action, now clock.Time) {
	p := &s.w.p
	total := s.sends[First] + s.sends[Retried] + s.sends[Hedged] - s.unsent
	ok := true
	switch a.Refused {
	case RuleNone:
		ok = a.Finish != Failed || p.Retry.Max <= 0
	case RuleDisposition:
		ok = event == "reply" && a.Finish == Failed
	case RuleIdempotency:
		ok = !s.r.Idempotent && !p.Retry.Unsafe
	case RuleAttempts:
		ok = s.sends[Retried] == p.Retry.Max || total == p.Attempts
	case RuleTime:
		// The wait of a retry is not known here; it may be up to for ever.
		ok = s.deadline != clock.Never || now.Add(math.MaxInt64).Add(max(p.MinStart, 0)) == clock.Never
	case RuleBudget:
		ok = s.w.c.funds.limited && s.w.tokens < token
	case RulePushback:
		ok = event == "reply" && (s.hint < 0 || p.Retry.AfterCap > 0 && s.hint > p.Retry.AfterCap)
	case RuleCommitted:
		ok = p.Hedge.WinAtHead
	case RuleOverload:
		ok = p.Hedge.OffAbove > 0 && s.w.c.open > p.Hedge.OffAbove
	case RuleCeiling:
		ok = event == "reply" && s.unsent > 0
	case RuleProbability:
		ok = a.Attempt != 0 && p.Hedge.Probability > 0
	case RuleIdle:
		ok = p.Hedge.OnlyIdle
	case RuleSamples:
		ok = a.Attempt != 0 && s.w.c.tracker != nil && !s.w.c.tracker.ready
	default:
		ok = false
	}
	if !ok {
		s.fail("%s: refused by %v without cause: %+v", event, a.Refused, a)
	}
}

const ms = time.Millisecond

func at(d time.Duration) clock.Time { return clock.Time(d) }
