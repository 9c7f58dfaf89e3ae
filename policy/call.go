package policy

import (
	"math/bits"
	"time"

	"latencylab/clock"
)

// Call is the state of one call. It is kept by value in the driver's record and
// may be reused for another call once its Action said Finish. The zero Call is
// over: it answers every event with an Action that holds nothing.
type Call struct {
	c        *Client // nil: the call is over
	id       uint64
	deadline clock.Time // Never: none
	// next is the instant of the next hedge while an attempt is open, and of
	// the planned retry, paid for already, while none is. Never: neither.
	next       clock.Time
	first      clock.Time    // send of the first attempt
	tried      uint64        // the picker's memory
	n          uint32        // number of the newest attempt; 0: none was sent
	live       uint8         // bit s: slot s holds an open attempt
	hedges     uint8         // hedges launched, the unsent ones too
	unsent     uint8         // hedges for which the driver had no connection
	repeatable bool          // the request may be sent more than once
	waited     time.Duration // the backoff of the newest retry, for the next one's

	attempt [MaxOpen]uint32 // attempt[slot], valid while open, as the next two
	sent    [MaxOpen]clock.Time
	state   [MaxOpen]state
}

// state is the kind of an attempt in the upper and its phase in the lower half.
type state uint8

func (s state) kind() Kind   { return Kind(s >> 4) }
func (s state) phase() Phase { return Phase(s & 0xf) }

// over is the answer of a call that has ended.
var over = Action{Timer: clock.Never}

// Start begins a call of client c at now and sends its first attempt. The
// budget gets its deposit. A call whose deadline has passed already ends at
// once as Expired, and so does one with too little time left for a first
// attempt, which RuleTime refuses.
func (k *Call) Start(c *Client, r Request, now clock.Time) Action {
	k.c, k.id = c, r.ID
	k.deadline, k.next = clock.Never, clock.Never
	k.tried, k.n, k.live, k.hedges, k.unsent = 0, 0, 0, 0, 0
	k.repeatable = r.Idempotent || c.unsafe
	if c.deadline > 0 {
		k.deadline = r.Intended.Add(c.deadline)
	}
	c.budget.put()
	if now >= k.deadline {
		return k.finish(Expired, RuleNone, now)
	}
	if !c.inTime(now, k.deadline) {
		return k.finish(Expired, RuleTime, now)
	}
	return k.send(First, now)
}

// Progress reports that the attempt in slot has entered phase p. It never ends
// or sends anything.
func (k *Call) Progress(slot uint8, p Phase, now clock.Time) Action {
	if k.c == nil {
		return over
	}
	if k.open(slot) && p < Phases {
		k.state[slot] = k.state[slot]&0xf0 | state(p)
	}
	return Action{Timer: k.timer()}
}

// Reply reports that the attempt in slot has ended. A slot that holds no open
// attempt changes nothing.
//
// A wanted answer counts even when it is told after the deadline, as long as no
// Advance came before it: a driver reads what has arrived before it looks at
// its timers. DispUnsent is for hedges: a first attempt or a retry waits for
// its connection, and the report is then taken as DispRetryable.
func (k *Call) Reply(slot uint8, r Result, now clock.Time) Action {
	if k.c == nil {
		return over
	}
	if !k.open(slot) {
		return Action{Timer: k.timer()}
	}
	k.live &^= 1 << slot
	hint := r.Hint
	switch r.Disposition {
	case DispOK:
		return k.finish(OK, RuleNone, now)
	case DispRetryable:
	case DispUnsent:
		if k.state[slot].kind() == Hedged {
			k.unsent++
			k.c.budget.refund()
			hint = 0
		}
	default:
		if k.c.retries == 0 {
			return k.finish(Failed, RuleNone, now)
		}
		return k.finish(Failed, RuleDisposition, now)
	}
	if k.live != 0 {
		return Action{Timer: k.timer()}
	}
	return k.retry(hint, now)
}

// Advance reports that time has come to now. The driver calls it when the
// Timer of the last Action is due; earlier, it changes nothing.
func (k *Call) Advance(now clock.Time) Action {
	if k.c == nil {
		return over
	}
	if now >= k.deadline {
		return k.expire(now)
	}
	cut := k.overdue(now)
	k.live &^= cut
	var a Action
	switch {
	case cut != 0 && k.live == 0:
		a = k.retry(0, now)
	case now < k.next:
		a.Timer = k.timer()
	case k.live == 0:
		a = k.resend(now)
	default:
		a = k.hedge(now)
	}
	a.Cancel |= cut
	a.TimedOut |= cut
	return a
}

// Phase returns how far the attempt in slot has come, as told by Progress;
// PhaseAcquire when the slot holds no open attempt.
func (k *Call) Phase(slot uint8) Phase {
	if !k.open(slot) {
		return PhaseAcquire
	}
	return k.state[slot].phase()
}

// Open returns the set of slots that hold an open attempt: bit s for slot s.
func (k *Call) Open() uint8 { return k.live }

// Attempt returns the number of the attempt in slot, and why it was sent; 0
// when the slot holds no open attempt.
func (k *Call) Attempt(slot uint8) (n uint32, kind Kind) {
	if !k.open(slot) {
		return 0, First
	}
	return k.attempt[slot], k.state[slot].kind()
}

func (k *Call) open(slot uint8) bool { return k.live&(1<<slot) != 0 }

// send opens an attempt in the lowest free slot and arms the next hedge. A slot
// is free: first attempts and retries are sent when none is open, and a call
// has fewer than MaxOpen hedges.
func (k *Call) send(kind Kind, now clock.Time) Action {
	c := k.c
	slot := uint8(bits.TrailingZeros8(^k.live)) % MaxOpen
	k.n++
	k.live |= 1 << slot
	k.attempt[slot] = k.n
	k.sent[slot] = now
	k.state[slot] = state(kind) << 4 // PhaseAcquire
	switch kind {
	case First:
		k.first = now
	case Hedged:
		k.hedges++
	}
	a := Action{Slot: slot, Kind: kind, Attempt: k.n, Replica: c.picker.pick(k.id, k.n, &k.tried)}
	k.next = clock.Never
	if k.hedges < c.hedges {
		a.Refused = k.arm(now)
	}
	a.Timer = k.timer()
	return a
}

// arm sets the instant of the next hedge.
func (k *Call) arm(now clock.Time) Rule {
	d := k.c.hedgeDelay
	if t := k.c.tracker; t != nil {
		var ok bool
		if d, ok = t.delay(now); !ok {
			return RuleSamples
		}
	}
	k.next = now.Add(d)
	return RuleNone
}

// hedge sends the hedge that is due, or lets it go for good.
func (k *Call) hedge(now clock.Time) Action {
	k.next = clock.Never
	rule := k.refuses(true, 0, now)
	if rule == RuleNone {
		return k.send(Hedged, now)
	}
	return Action{Refused: rule, Timer: k.timer()}
}

// retry plans a retry after the last open attempt has failed, or ends the call.
// hint is the wait that the server asked for.
func (k *Call) retry(hint time.Duration, now clock.Time) Action {
	c := k.c
	if c.retries == 0 {
		return k.finish(Failed, RuleNone, now)
	}
	n := k.n - uint32(k.hedges) // number of this retry, from 1
	backoff := c.backoff.wait(n, k.waited, c.seed, k.id, k.n+1)
	k.waited = backoff
	wait := max(backoff, hint)
	if rule := k.refuses(n <= c.retries, wait, now); rule != RuleNone {
		return k.finish(Failed, rule, now)
	}
	if wait == 0 {
		return k.send(Retried, now)
	}
	k.next = now.Add(wait)
	return Action{Timer: k.timer()}
}

// resend sends the retry whose wait is over. A driver that is late may have let
// too little time; the token goes back then.
func (k *Call) resend(now clock.Time) Action {
	if !k.c.inTime(now, k.deadline) {
		k.c.budget.refund()
		return k.finish(Failed, RuleTime, now)
	}
	return k.send(Retried, now)
}

// refuses asks the rules about one more attempt after wait, the budget last,
// and returns the first that says no. RuleNone: the attempt is paid for. left
// says that the cap on attempts of its kind allows it.
func (k *Call) refuses(left bool, wait time.Duration, now clock.Time) Rule {
	c := k.c
	switch {
	case !k.repeatable:
		return RuleIdempotency
	case !left || k.n-uint32(k.unsent) >= c.sends:
		return RuleAttempts
	case !c.inTime(now.Add(wait), k.deadline):
		return RuleTime
	case !c.budget.take():
		return RuleBudget
	}
	return RuleNone
}

// expire ends the call at its deadline, with or without open attempts. The
// token of a retry that was planned and not sent goes back.
func (k *Call) expire(now clock.Time) Action {
	if k.live == 0 {
		k.c.budget.refund()
	}
	a := k.finish(Expired, RuleNone, now)
	a.TimedOut = a.Cancel
	return a
}

// finish ends the call and cancels what is open.
func (k *Call) finish(o Outcome, rule Rule, now clock.Time) Action {
	if t := k.c.tracker; t != nil && k.n > 0 {
		t.record(now.Sub(k.first), now)
	}
	a := Action{Cancel: k.live, Finish: o, Refused: rule, Timer: clock.Never}
	k.c, k.live = nil, 0
	return a
}

// overdue returns the open attempts whose timeout has come.
func (k *Call) overdue(now clock.Time) uint8 {
	d := k.c.attemptTimeout
	if d == 0 {
		return 0
	}
	var cut uint8
	for s := k.live; s != 0; s &= s - 1 {
		if slot := bits.TrailingZeros8(s) % MaxOpen; now >= k.sent[slot].Add(d) {
			cut |= 1 << slot
		}
	}
	return cut
}

// timer returns the earliest instant at which something is due.
func (k *Call) timer() clock.Time {
	t := min(k.deadline, k.next)
	if d := k.c.attemptTimeout; d > 0 {
		for s := k.live; s != 0; s &= s - 1 {
			t = min(t, k.sent[bits.TrailingZeros8(s)%MaxOpen].Add(d))
		}
	}
	return t
}
