package policy

import (
	"math/bits"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// Call is the state of one call. It is kept by value in the driver's record and
// may be reused for another call once its Action said Finish. The zero Call is
// over: it answers every event with an Action that holds nothing.
type Call struct {
	c        *Client // nil: the call is over
	id       uint64
	deadline clock.Time // Never: none
	// next is the instant of the next hedge while an attempt is open, and of
	// the planned retry while none is. Never: neither.
	next   clock.Time
	first  clock.Time    // send of the first attempt
	waited time.Duration // backoff before the newest retry, without the server's hint
	tried  uint64        // the picker's memory
	cost   int64         // of the newest paid attempt, or of the planned retry
	n      uint32        // number of the newest attempt; 0: none was sent
	reset  uint32        // retries before which the backoff began anew
	live   uint8         // bit s: slot s holds an open attempt
	hedges uint8         // hedges launched, the unsent ones too
	unsent uint8         // attempts that the driver did not send
	probes uint8         // bit s: the attempt in slot s probes a breaker
	cause  cause         // of the newest failure
	flags  flags

	attempt [MaxOpen]uint32 // attempt[slot], valid while open, as the next four
	sent    [MaxOpen]clock.Time
	since   [MaxOpen]clock.Time // last heard of; kept when phases are bounded
	replica [MaxOpen]uint16
	state   [MaxOpen]state
}

// flags are facts about a call.
type flags uint8

const (
	repeatable flags = 1 << iota // the request may be sent more than once
	touched                      // an attempt may have reached a server
	committed                    // the head of an answer was accepted
	accepted                     // the service took the call on: the throttle was told
	paid                         // the planned retry has its token
)

func (f flags) has(g flags) bool { return f&g != 0 }

// state is the kind of an attempt in the upper and its phase in the lower half.
type state uint8

func (s state) kind() Kind   { return Kind(s >> 4) }
func (s state) phase() Phase { return Phase(s & 0xf) }

// ending is how an attempt ended, for what the client's calls share.
type ending uint8

const (
	endOK       ending = iota
	endAnswered        // with a failure that is not the replica's, such as 404
	endFailed
	endThrottled // 429 or 503
	endTimedOut
	endCancelled // its answer was no longer wanted
	endUnsent
	endAbandoned
)

// over is the answer of a call that has ended.
var over = Action{Timer: clock.Never}

// Start begins a call of client c at now and sends its first attempt. The
// budget gets its deposit. A call whose deadline has passed already ends at
// once as Expired, and so does one with too little time left for a first
// attempt, which RuleTime refuses. One whose first attempt another rule refuses
// ends as Failed.
func (k *Call) Start(c *Client, r Request, now clock.Time) Action {
	k.c, k.id = c, r.ID
	k.next = clock.Never
	k.waited, k.tried, k.n, k.reset, k.live, k.hedges, k.unsent = 0, 0, 0, 0, 0, 0, 0
	k.cost, k.probes, k.cause, k.flags = 0, 0, causeFailure, 0
	if r.Idempotent || c.unsafe {
		k.flags = repeatable
	}
	k.deadline = c.deadlineOf(&r)
	c.funds.call(now)
	if now >= k.deadline {
		return k.finish(Expired, RuleNone, now)
	}
	if !c.inTime(now, k.deadline) {
		return k.finish(Expired, RuleTime, now)
	}
	if c.throttle.k != 0 && c.throttle.request(now, draw.Uniform(c.seed, draw.Reject, k.id, 0, 0)) {
		return k.finish(Failed, RuleThrottle, now)
	}
	replica, rule := k.admit(First, now)
	if rule != RuleNone {
		return k.finish(Failed, rule, now)
	}
	return k.send(First, replica, now)
}

// deadlineOf returns the instant after which no attempt of the call is open.
func (c *Client) deadlineOf(r *Request) clock.Time {
	d := clock.Never
	if c.deadline > 0 {
		d = r.Intended.Add(c.deadline)
	}
	if r.Deadline != 0 {
		d = min(d, r.Deadline)
	}
	if d != clock.Never {
		d = d.Add(-c.reserve)
	}
	return d
}

// Deadline returns the instant after which no attempt of the call is open: what
// a driver tells the servers. It is clock.Never when there is none.
func (k *Call) Deadline() clock.Time {
	if k.c == nil {
		return clock.Never
	}
	return k.deadline
}

// Left returns the time that is left of the deadline at now, what a driver tells
// the server by Policy.Wire. ok is false when there is none.
func (k *Call) Left(now clock.Time) (left time.Duration, ok bool) {
	d := k.Deadline()
	return max(d.Sub(now), 0), d != clock.Never
}

// Progress reports that the attempt in slot has entered phase p, or that more
// of the answer has come in phase PhaseBody. It never ends or sends anything.
func (k *Call) Progress(slot uint8, p Phase, now clock.Time) Action {
	if k.c == nil {
		return over
	}
	if k.open(slot) && p < Phases {
		k.enter(slot, p, now)
	}
	return Action{Timer: k.timer()}
}

func (k *Call) enter(slot uint8, p Phase, now clock.Time) {
	from := k.state[slot].phase()
	if t := &k.c.timeouts; t.phases {
		t.entered(from, p, k.since[slot], now)
		if from != p || p == PhaseBody {
			k.since[slot] = now
		}
	}
	k.state[slot] = k.state[slot]&0xf0 | state(p)
	if p >= PhaseWrite {
		k.flags |= touched
	}
}

// Head reports that the head of the answer in slot has come and what its status
// means; PhaseBody begins. Where the head is enough to win (Hedge.WinAtHead),
// the other attempts are cancelled, no further one is sent, and what becomes of
// the answer is final. A driver that knows only complete answers need not call
// it: Reply does the same.
func (k *Call) Head(slot uint8, d Disposition, now clock.Time) Action {
	if k.c == nil {
		return over
	}
	if !k.open(slot) {
		return Action{Timer: k.timer()}
	}
	k.enter(slot, PhaseBody, now)
	h := &k.c.hedge
	if !h.WinAtHead || d != DispOK && h.Win != WinAny {
		return Action{Timer: k.timer()}
	}
	k.flags |= committed
	k.next = clock.Never
	a := Action{Cancel: k.drop(k.live&^(1<<slot), endCancelled, now)}
	a.Timer = k.timer()
	return a
}

// Reply reports that the attempt in slot has ended. A slot that holds no open
// attempt changes nothing.
//
// A wanted answer counts even when it is told after the deadline, as long as no
// Advance came before it: a driver reads what has arrived before it looks at
// its timers. DispUnsent is for hedges: a first attempt or a retry waits for
// its connection, and the report is then taken as DispRetryable. So is DispCeiling
// for a first attempt.
func (k *Call) Reply(slot uint8, r Result, now clock.Time) Action {
	if k.c == nil {
		return over
	}
	if !k.open(slot) {
		return Action{Timer: k.timer()}
	}
	kind := k.state[slot].kind()
	hedge := kind == Hedged
	if r.Status != 0 || r.Phase == PhaseAcquire || r.Phase >= PhaseWrite {
		k.flags |= touched // else it failed before a request could be written
	}
	switch {
	case r.Disposition == DispOK:
		k.accept(now)
		k.close(slot, endOK, now)
		return k.finish(OK, RuleNone, now)
	case r.Disposition == DispUnsent && hedge, r.Disposition == DispCeiling && kind != First:
		k.close(slot, endUnsent, now)
		k.unsent++
		k.c.funds.refund(kind, k.cost, now)
		k.cost = 0
		switch {
		case hedge:
			return k.lost(now)
		case k.live != 0:
			return Action{Refused: RuleCeiling, Timer: k.timer()}
		}
		return k.finish(Failed, RuleCeiling, now)
	case r.Disposition == DispWithdrawn:
		k.close(slot, endCancelled, now)
		return k.lost(now)
	}
	k.cause = causeFailure
	how := endOf(r.Status)
	if how == endThrottled {
		k.cause = causeThrottled
	} else if r.Status != 0 {
		k.accept(now)
	}
	k.close(slot, how, now)
	switch {
	case k.flags.has(committed):
		return k.finish(Failed, RuleCommitted, now)
	case r.Disposition == DispFatal:
		k.c.funds.answered(k.cost, now)
		if k.c.retries == 0 {
			return k.finish(Failed, RuleNone, now)
		}
		return k.finish(Failed, RuleDisposition, now)
	}
	k.c.funds.failed()
	return k.failed(r, now)
}

// endOf is how an attempt ended whose answer, of that status, is not wanted.
func endOf(status uint16) ending {
	switch {
	case status == 429 || status == 503:
		return endThrottled
	case status != 0 && status < 500:
		return endAnswered
	}
	return endFailed
}

// accept tells the throttle once that the service took the call on: it gave an
// answer other than 429 and 503.
func (k *Call) accept(now clock.Time) {
	if k.c.throttle.k != 0 && !k.flags.has(accepted) {
		k.flags |= accepted
		k.c.throttle.accepted(now)
	}
}

// lost goes on after an attempt that ended without any answer of its own.
func (k *Call) lost(now clock.Time) Action {
	if k.live != 0 {
		return Action{Timer: k.timer()}
	}
	return k.retry(0, now)
}

// failed goes on after a failure that another attempt may mend; the attempt is
// closed.
func (k *Call) failed(r Result, now clock.Time) Action {
	h := &k.c.hedge
	won := h.Win == WinAny && r.Status != 0 // it ends the group, which may be retried
	var cancel uint8
	if won || h.OnError == OnErrorStop {
		cancel = k.drop(k.live, endCancelled, now)
		k.next = clock.Never
	}
	var a Action
	switch {
	case !won && h.OnError == OnErrorNext && k.hedges < k.c.hedges:
		a = k.nextNow(r.Hint, now)
	case k.live != 0:
		a.Timer = k.timer()
	default:
		a = k.retry(r.Hint, now)
	}
	a.Cancel |= cancel
	return a
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
	cut, part := k.overdue(now)
	for m := cut; m != 0; m &= m - 1 {
		k.cause = causeTimeout
		k.c.funds.failed()
	}
	var a Action
	switch {
	case cut != 0 && k.flags.has(committed):
		a = k.finish(Failed, RuleCommitted, now)
	case cut != 0 && (k.live == 0 || k.c.hedge.OnError != OnErrorWait):
		a = k.failed(Result{}, now)
	case now < k.next:
		a.Timer = k.timer()
	case k.live == 0:
		a = k.resend(now)
	default:
		a = k.hedge(now)
	}
	a.Cancel |= cut
	a.TimedOut |= cut
	a.Part = part
	return a
}

// Abandon ends the call without an outcome, at the end of a run: what it holds
// of the client's goes back. The driver drops what is open.
func (k *Call) Abandon(now clock.Time) {
	if k.c == nil {
		return
	}
	k.giveBack(now)
	k.drop(k.live, endAbandoned, now)
	k.c.funds.over()
	k.c = nil
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

// close takes the attempt in slot, which is open, out of the books.
func (k *Call) close(slot uint8, how ending, now clock.Time) {
	k.live &^= 1 << slot
	c := k.c
	c.open--
	s := slot % MaxOpen
	if kind := k.state[s].kind(); kind != First {
		c.funds.ended(kind)
	}
	if c.breakers != nil {
		k.tellBreaker(s, how, now)
	}
	if c.limit.now != 0 {
		c.limit.end(limitEnds[how], now.Sub(k.sent[s]))
	}
	if c.peers.list != nil {
		c.peers.ended(k.replica[s], how, now.Sub(k.sent[s]), now)
	}
	if c.timeouts.any && how <= endCancelled {
		c.timeouts.closed(how, k.sent[s], k.since[s], k.state[s].phase(), now)
	}
}

// limitEnds is what each ending says about the capacity of the service.
var limitEnds = [...]limitEnd{
	endOK: limitServed, endAnswered: limitServed, endFailed: limitIgnored, endThrottled: limitDropped,
	endTimedOut: limitDropped, endCancelled: limitIgnored, endUnsent: limitIgnored, endAbandoned: limitIgnored,
}

// tellBreaker tells the breaker of the attempt's replica how it has ended.
func (k *Call) tellBreaker(s uint8, how ending, now clock.Time) {
	b, probe := &k.c.breakers[k.replica[s]], k.probes&(1<<s) != 0
	k.probes &^= 1 << s
	switch how {
	case endOK, endAnswered, endFailed, endThrottled, endTimedOut:
		b.report(how >= endFailed, now.Sub(k.sent[s]), k.sent[s], probe, now)
	default:
		b.release(k.sent[s], probe, now)
	}
}

// drop closes all attempts of a set and returns it.
func (k *Call) drop(slots uint8, how ending, now clock.Time) uint8 {
	for s := slots; s != 0; s &= s - 1 {
		k.close(uint8(bits.TrailingZeros8(s)), how, now)
	}
	return slots
}

// giveBack returns the token of a retry that was planned and not sent.
func (k *Call) giveBack(now clock.Time) {
	if k.flags.has(paid) {
		k.flags &^= paid
		k.c.funds.dropped(Retried, k.cost, now)
		k.cost = 0
	}
}

// expire ends the call at its deadline, with or without open attempts.
func (k *Call) expire(now clock.Time) Action {
	cut := k.drop(k.live, endTimedOut, now)
	a := k.finish(Expired, RuleNone, now)
	a.Cancel, a.TimedOut = cut, cut
	return a
}

// finish ends the call and cancels what is open.
func (k *Call) finish(o Outcome, rule Rule, now clock.Time) Action {
	if t := k.c.tracker; t != nil && k.n > 0 {
		t.record(now.Sub(k.first), now)
	}
	k.giveBack(now)
	if o == OK {
		k.c.funds.succeeded(k.cost, now)
	}
	k.c.funds.over()
	a := Action{Cancel: k.drop(k.live, endCancelled, now), Finish: o, Refused: rule, Timer: clock.Never}
	k.c = nil
	return a
}

// overdue closes the open attempts whose timeout has come, and returns them and
// one of the timeouts.
func (k *Call) overdue(now clock.Time) (cut uint8, part Part) {
	if !k.c.timeouts.any {
		return 0, PartAttempt
	}
	for s := k.live; s != 0; s &= s - 1 {
		slot := bits.TrailingZeros8(s) % MaxOpen
		if at, p := k.c.timeouts.due(k.sent[slot], k.since[slot], k.state[slot].phase()); now >= at {
			cut |= 1 << slot
			part = p
			if !k.c.timeouts.phases || k.state[slot].phase() >= PhaseWrite {
				k.flags |= touched
			}
			k.c.timeouts.cut(p, now)
			k.close(uint8(slot), endTimedOut, now)
		}
	}
	return cut, part
}

// timer returns the earliest instant at which something is due.
func (k *Call) timer() clock.Time {
	t := min(k.deadline, k.next)
	if k.c.timeouts.any {
		for s := k.live; s != 0; s &= s - 1 {
			slot := bits.TrailingZeros8(s) % MaxOpen
			at, _ := k.c.timeouts.due(k.sent[slot], k.since[slot], k.state[slot].phase())
			t = min(t, at)
		}
	}
	return t
}
