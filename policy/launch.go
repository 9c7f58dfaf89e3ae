package policy

import (
	"math/bits"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// admit asks the rules that guard one more attempt and chooses its replica by
// them; they take nothing yet.
func (k *Call) admit(kind Kind, now clock.Time) (replica uint16, rule Rule) {
	c := k.c
	if c.peers.list != nil {
		if replica, rule = k.choose(kind, now); rule != RuleNone {
			return 0, rule
		}
	} // else send picks it
	if !c.limit.allow() {
		return 0, RuleLimit
	}
	return replica, RuleNone
}

// choose finds the replica of one more attempt among those that the breakers
// let through.
func (k *Call) choose(kind Kind, now clock.Time) (replica uint16, rule Rule) {
	c := k.c
	idle := kind == Hedged && c.hedge.OnlyIdle
	fits := func(r int) bool {
		if idle && c.peers.list[r].open != 0 {
			return false
		}
		return c.breakers == nil || !c.breakers[r].gates(kind) || c.breakers[r].allow(now)
	}
	r, found := c.peers.choose(&c.picker, k.id, k.n+1, tried(k.tried), now, fits)
	switch {
	case found:
		return r, RuleNone
	case c.breakers == nil:
		return 0, RuleIdle
	}
	return 0, RuleBreaker
}

// send opens an attempt in the lowest free slot and arms the next hedge. A slot
// is free: first attempts and retries are sent when none is open, and a call
// has fewer than MaxOpen hedges.
func (k *Call) send(kind Kind, replica uint16, now clock.Time) Action {
	c := k.c
	slot := uint8(bits.TrailingZeros8(^k.live)) % MaxOpen
	k.n++
	k.live |= 1 << slot
	k.attempt[slot] = k.n
	k.sent[slot], k.since[slot] = now, now
	if ps := &c.peers; ps.list == nil {
		replica = c.picker.pick(k.id, k.n, &k.tried)
	} else {
		ps.sent(replica)
		k.tried = uint64(tried(k.tried).with(uint32(replica), uint32(len(ps.list))))
	}
	k.replica[slot] = replica
	if c.breakers != nil && c.breakers[replica].take(now) {
		k.probes |= 1 << slot
	}
	k.state[slot] = state(kind) << 4 // PhaseAcquire
	switch kind {
	case First:
		k.first = now
	case Hedged:
		k.hedges++
	}
	if kind != First {
		c.funds.sent(kind)
	}
	if c.limit.now != 0 {
		c.limit.take()
	}
	c.open++
	a := Action{Slot: slot, Kind: kind, Attempt: k.n, Replica: replica}
	k.next = clock.Never
	if k.hedges < c.hedges {
		a.Refused = k.arm(now)
	}
	a.Timer = k.timer()
	return a
}

// arm sets the instant of the next hedge.
func (k *Call) arm(now clock.Time) Rule {
	c := k.c
	d := c.hedge.Delay
	if t := c.tracker; t != nil {
		var ok bool
		if d, ok = t.delay(now); !ok {
			return RuleSamples
		}
		d = c.hedge.clamp(d)
	}
	if p := c.hedge.Probability; p > 0 && p < 1 && draw.Uniform(c.seed, draw.Coin, k.id, k.n, 0) >= p {
		return RuleProbability
	}
	k.next = now.Add(d)
	return RuleNone
}

// hedge sends the hedge that is due, or lets it go for good.
func (k *Call) hedge(now clock.Time) Action {
	k.next = clock.Never
	replica, rule := k.mayHedge(now)
	if rule == RuleNone {
		return k.send(Hedged, replica, now)
	}
	return Action{Refused: rule, Timer: k.timer()}
}

// mayHedge asks all rules about a hedge at now. RuleNone: it is paid for.
func (k *Call) mayHedge(now clock.Time) (replica uint16, rule Rule) {
	c := k.c
	if rule = k.refuses(true, 0, now); rule != RuleNone {
		return 0, rule
	}
	if n := c.hedge.OffAbove; n > 0 && c.open > n {
		return 0, RuleOverload
	}
	if replica, rule = k.admit(Hedged, now); rule != RuleNone {
		return 0, rule
	}
	kind := Hedged
	if k.live == 0 {
		kind = Retried // see nextNow
	}
	cost, ok := c.funds.take(kind, k.cause, now)
	if !ok {
		return 0, RuleBudget
	}
	k.cost = cost
	return replica, RuleNone
}

// nextNow sends the next hedge after a failure, without its delay. Where
// nothing is open it is a retry by kind, and when it is refused a retry may
// still follow. hint is the wait that the server asked for.
func (k *Call) nextNow(hint time.Duration, now clock.Time) Action {
	wait, rule := k.hinted(0, hint)
	if rule == RuleNone && wait > 0 && k.live != 0 {
		k.next = now.Add(wait)
		return Action{Timer: k.timer()}
	}
	var replica uint16
	if rule == RuleNone && wait == 0 {
		if replica, rule = k.mayHedge(now); rule == RuleNone {
			if k.live != 0 {
				return k.send(Hedged, replica, now)
			}
			k.hedges++ // it counts among the hedges, not among the retries
			return k.send(Retried, replica, now)
		}
	}
	if k.live != 0 {
		k.next = clock.Never
		return Action{Refused: rule, Timer: k.timer()}
	}
	if rule != RuleNone && k.c.retries == 0 {
		return k.finish(Failed, rule, now)
	}
	return k.retry(hint, now)
}

// retry plans a retry after the last open attempt has failed, or ends the call.
// hint is the wait that the server asked for.
func (k *Call) retry(hint time.Duration, now clock.Time) Action {
	c := k.c
	if c.retries == 0 {
		return k.finish(Failed, RuleNone, now)
	}
	n := k.n - uint32(k.hedges) // number of this retry, from 1
	backoff := c.backoff.wait(n-k.reset, k.waited, c.seed, k.id, k.n+1)
	k.waited = backoff
	wait, rule := k.hinted(backoff, hint)
	if rule == RuleNone {
		rule = k.refuses(n <= c.retries, wait, now)
	}
	if rule != RuleNone {
		return k.finish(Failed, rule, now)
	}
	if c.retry.After == AfterExact && hint > 0 {
		k.reset, k.waited = n, 0
	}
	if !c.atFire && !k.pay(now) {
		return k.finish(Failed, RuleBudget, now)
	}
	k.next = now.Add(wait)
	if wait == 0 {
		return k.resend(now)
	}
	return Action{Timer: k.timer()}
}

// pay takes what the planned retry costs. It reports whether the budget allows it.
func (k *Call) pay(now clock.Time) bool {
	cost, ok := k.c.funds.take(Retried, k.cause, now)
	if ok {
		k.cost = cost
		k.flags |= paid
	}
	return ok
}

// hinted returns the wait before a retry whose own wait is backoff, after a
// server has asked for hint. Negative asks not to retry.
func (k *Call) hinted(backoff, hint time.Duration) (time.Duration, Rule) {
	r := &k.c.retry
	if hint == 0 || r.After == AfterIgnore {
		return backoff, RuleNone
	}
	if hint < 0 {
		return 0, RulePushback
	}
	if r.AfterCap > 0 && hint > r.AfterCap {
		switch r.AfterOver {
		case AfterFail:
			return 0, RulePushback
		case AfterDiscard:
			return backoff, RuleNone
		}
		hint = r.AfterCap
	}
	if r.AfterSpread > 0 {
		u := draw.Uniform(k.c.seed, draw.Hint, k.id, k.n+1, 0)
		hint = addSpan(hint, scale(hint, float64(u*min(r.AfterSpread, 1))))
	}
	if r.After == AfterExact {
		return hint, RuleNone
	}
	return max(backoff, hint), RuleNone
}

// resend sends the retry whose wait is over. A driver that is late may have let
// too little time, and the guards may have closed; the token goes back then.
func (k *Call) resend(now clock.Time) Action {
	k.next = clock.Never
	if !k.c.inTime(now, k.deadline) {
		return k.finish(Failed, RuleTime, now)
	}
	replica, rule := k.admit(Retried, now)
	if rule != RuleNone {
		return k.finish(Failed, rule, now)
	}
	if c := k.c; c.atFire && !k.pay(now) {
		return k.finish(Failed, RuleBudget, now)
	}
	k.flags &^= paid
	return k.send(Retried, replica, now)
}

// refuses asks the rules that a call alone decides about one more attempt after
// wait, and returns the first that says no. left says that the cap on attempts
// of its kind allows it.
func (k *Call) refuses(left bool, wait time.Duration, now clock.Time) Rule {
	c := k.c
	switch {
	case !k.flags.has(repeatable) && (k.live != 0 || k.flags.has(touched)):
		return RuleIdempotency
	case !left || k.n-uint32(k.unsent) >= c.sends:
		return RuleAttempts
	case !c.inTime(now.Add(wait), k.deadline):
		return RuleTime
	}
	return RuleNone
}
