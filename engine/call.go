package engine

import (
	"fmt"
	"math/bits"
	"net/http"
	"time"

	"latencylab/clock"
	"latencylab/ledger"
	"latencylab/policy"
)

type slotState uint8

const (
	slotFree slotState = iota
	slotWaiting
	slotSent
	slotHeld // a first attempt that the ceiling ended the run for
)

// attempt is what the engine knows of an open attempt.
type attempt struct {
	conn   *conn // when sent
	number uint32
	target uint16
	kind   policy.Kind
	state  slotState
	shakes bool // waits for a connection whose TLS handshake is under way
}

// call is one call under way.
type call struct {
	k        policy.Call
	intended clock.Time // real instants
	id       uint64
	slots    [policy.MaxOpen]attempt
	index    uint32
	burn     uint8 // index of its book
	open     bool
}

// waits says whether the attempt still waits for a connection.
func (w *waiter) waits() bool {
	a := &w.call.slots[w.slot]
	return w.call.open && w.call.id == w.id && a.state == slotWaiting && a.number == w.attempt
}

// completion is the end of what a connection carried, before its turn.
type completion struct {
	cn        *conn
	stamp     int64      // kernel receive stamp of the last byte, 0: none
	at        clock.Time // that instant, or the one at which the reads were over
	err       error
	fault     ledger.Class
	call      *call  // of a head: whose attempt it answers
	number    uint32 // of that attempt
	stamped   bool
	coalesced bool
	head      bool // the head of an answer, whose end is to come
}

// start begins a call.
func (l *loop) start(id uint64, intended, now clock.Time, burn bool) {
	c := l.enroll(id, intended, now, burn)
	r := policy.Request{ID: id, Intended: l.policyTime(intended), Idempotent: l.eng.cfg.Idempotent}
	l.apply(c, c.k.Start(l.client(id), r, l.policyTime(now)), clock.Never)
}

// enroll makes a record of a call that begins.
func (l *loop) enroll(id uint64, intended, now clock.Time, burn bool) *call {
	l.now = now
	i, c := l.calls.Take()
	c.index = i
	c.id, c.intended, c.open, c.burn = id, intended, true, 0
	if burn {
		c.burn = 1
	} else {
		l.lastBegun = now
		if now < l.end {
			l.inTime++
		}
	}
	l.live++
	l.lastDue = max(l.lastDue, intended)
	b := l.ln.book[c.burn]
	b.Calls.Scheduled++
	if !l.eng.cfg.Closed {
		b.Lag.Record(int64(now.Sub(intended)))
	}
	return c
}

// apply does what an Action says, and what follows from doing it. done is the
// instant of the answer that led here, or Never.
func (l *loop) apply(c *call, a policy.Action, done clock.Time) {
	for {
		if a.Refused != policy.RuleNone {
			l.ln.book[c.burn].Refused[a.Refused]++
		}
		for m := a.Cancel; m != 0; m &= m - 1 {
			s := uint8(bits.TrailingZeros8(m))
			class := ledger.ClassNone
			if a.TimedOut&(1<<s) != 0 {
				class = timeoutClass(&a)
			}
			l.cancel(c, s, class, done)
		}
		unsent := policy.DispOK
		if a.Attempt != 0 {
			unsent = l.launch(c, &a)
			if l.ln.phased && unsent == policy.DispOK {
				a.Timer = l.launched(c, a.Slot)
			}
		}
		if a.Finish != policy.Going {
			l.finish(c, a.Finish, done)
			return
		}
		if unsent != policy.DispOK {
			a = c.k.Reply(a.Slot, policy.Result{Disposition: unsent, Phase: policy.PhaseAcquire}, l.policyTime(l.now))
			continue
		}
		due := l.realTime(a.Timer)
		if due != l.now {
			// Due now or earlier, too: it acts when the turn comes to its timers.
			// Until then an answer may be read and not yet told.
			l.timers.Set(c.index, due)
			return
		}
		// What the step itself made due, such as a hedge without delay, is done at once.
		a = c.k.Advance(l.policyTime(l.now))
	}
}

// timeoutClass is the class of what the Action says has timed out.
func timeoutClass(a *policy.Action) ledger.Class {
	if a.Finish == policy.Expired {
		return ledger.ClassDeadline
	}
	return ledger.TimeoutClass(a.Part)
}

// launched tells a policy that bounds phases where the attempt of a slot stands
// after its launch, and returns when to call it again.
func (l *loop) launched(c *call, slot uint8) clock.Time {
	a := &c.slots[slot]
	p := policy.PhaseFirstByte
	switch {
	case a.state == slotSent && a.conn.out != nil:
		p = policy.PhaseWrite
	case a.state == slotWaiting:
		p = l.waitPhase(a)
	}
	return c.k.Progress(slot, p, l.policyTime(l.now)).Timer
}

// waitPhase is how far the connection has come that an attempt waits for.
func (l *loop) waitPhase(a *attempt) policy.Phase {
	switch {
	case a.shakes:
		return policy.PhaseTLS
	case l.ln.pools[a.target].dialing > 0:
		return policy.PhaseConnect
	}
	return policy.PhaseAcquire
}

// progress tells the policy how far the attempt on a connection has come.
func (l *loop) progress(cn *conn, p policy.Phase) {
	a := cn.call.k.Progress(cn.slot, p, l.policyTime(l.now))
	l.timers.Set(cn.call.index, l.realTime(a.Timer))
}

// sent counts an attempt of a call of this book that was given to a connection.
func (l *loop) sent(book uint8, kind policy.Kind) {
	l.ln.book[book].Sent(kind)
	l.cur.by[book].sent++
}

// launch sends an attempt or lets it wait for a connection, and returns DispOK.
// It returns why it does neither: DispUnsent for a hedge that finds none,
// DispCeiling for a retry or hedge beyond the ceiling. A first attempt beyond it
// ends the run.
func (l *loop) launch(c *call, a *policy.Action) policy.Disposition {
	s := &c.slots[a.Slot]
	*s = attempt{number: a.Attempt, target: a.Replica, kind: a.Kind, state: slotWaiting}
	p := &l.ln.pools[a.Replica]
	now := l.now
	if a.Kind != policy.First { // start has just read the clock
		now = clock.Now()
	}
	idle := p.idle.head != 0 && p.wait.live == 0
	if !idle && a.Kind == policy.Hedged && p.dialing <= p.wait.live && !l.room(a.Replica) {
		s.state = slotFree
		l.ln.book[c.burn].Refused[policy.RuleConnections]++
		return policy.DispUnsent
	}
	if !l.passes(a.Kind, now) {
		return l.beyond(c, s)
	}
	if idle {
		cn := l.conns.At(p.idle.head - 1)
		l.unlink(cn)
		l.send(cn, c, a.Slot, now, now)
		return policy.DispOK
	}
	l.enqueue(a.Replica, waiter{call: c, id: c.id, at: now, attempt: a.Attempt, slot: a.Slot})
	l.dialMore(a.Replica)
	return policy.DispOK
}

// beyond is what becomes of an attempt that the ceiling does not admit.
func (l *loop) beyond(c *call, a *attempt) policy.Disposition {
	if a.kind == policy.First {
		a.state = slotHeld
		l.overCeiling()
		return policy.DispOK
	}
	if a.state = slotFree; a.kind == policy.Hedged { // the policy says it of a retry
		l.ln.book[c.burn].Refused[policy.RuleCeiling]++
	}
	return policy.DispCeiling
}

// cancel ends an attempt that is no longer wanted. class is that of the timeout
// that ended it, or none.
func (l *loop) cancel(c *call, slot uint8, class ledger.Class, done clock.Time) {
	a := &c.slots[slot]
	b := l.ln.book[c.burn]
	timedOut := class != ledger.ClassNone
	if timedOut {
		l.vain++
		l.noteStatus(c, statusTimedOut)
	}
	switch a.state {
	case slotWaiting:
		l.cancelWaiting(a, c.burn, class)
		return
	case slotHeld:
		*a = attempt{}
		return
	}
	cn := a.conn
	*a = attempt{kind: a.kind}
	if timedOut {
		b.AttemptTimedOut(a.kind)
		l.count(b, ledger.ErrorKey{Class: class, Phase: cn.phase()}, nil, cn.endpoint)
		l.lookOnce(cn, b)
	} else {
		b.AttemptCancelled(a.kind)
		if a.kind == policy.Hedged && done != clock.Never && cn.sent > done {
			b.Attempts.SpuriousHedges++
		}
	}
	if cn.state == connAnswered {
		// Its answer came in the same turn; answer closes or keeps the connection.
		cn.call = nil
		return
	}
	if l.ln.policy.Cancel == policy.CancelDrain && !timedOut {
		cn.state, cn.call = connDraining, nil
		l.ln.draining++
		return
	}
	endpoint := cn.endpoint
	l.closeConn(cn, l.ln.policy.Cancel == policy.CancelReset)
	b.Connections.ClosedByCancel++
	l.dialWaiting()
	if l.ln.open < l.ln.ceiling && !l.finished && l.ln.pools[endpoint].dialing < maxDialing {
		l.dial(endpoint)
	}
}

// cancelWaiting ends an attempt that has no connection yet.
func (l *loop) cancelWaiting(a *attempt, book uint8, class ledger.Class) {
	kind, endpoint, b := a.kind, a.target, l.ln.book[book]
	timedOut := class != ledger.ClassNone
	phase := l.waitPhase(a)
	if l.leaveQueue(a, book) {
		if timedOut {
			b.AttemptTimedOut(kind)
		} else {
			b.AttemptCancelled(kind)
		}
	}
	*a = attempt{}
	if timedOut {
		if phase == policy.PhaseTLS {
			l.dropShake(endpoint)
		}
		l.count(b, ledger.ErrorKey{Class: class, Phase: phase}, nil, endpoint)
	}
}

// leaveQueue ends the wait of an attempt that got no connection. It counts as
// sent when a handshake to its replica was under way; else a first attempt's
// call never got a connection.
func (l *loop) leaveQueue(a *attempt, book uint8) (sent bool) {
	l.unwait(a)
	if l.ln.pools[a.target].dialing > 0 {
		l.sent(book, a.kind)
		return true
	}
	if a.kind == policy.First && book == 0 {
		l.stranded++
	}
	return false
}

// lookOnce reads what lies on a connection whose attempt timed out: an answer
// that the stamp shows to have come before makes the timeout spurious.
func (l *loop) lookOnce(cn *conn, b *ledger.Ledger) {
	if cn.state == connAnswered {
		b.Attempts.SpuriousTimeouts++
		return
	}
	n, stamp, e := l.recv.Read(int(cn.fd))
	if e != 0 || n == 0 || stamp == 0 || stamp > l.wall-int64(l.polled-l.seen) {
		return
	}
	got := l.recv.Buf[:n]
	if cn.sec != nil {
		got, _ = cn.sec.Receive(got, l.plain)
	}
	if _, done, _ := cn.resp.Feed(got); done && cn.in == nil {
		b.Attempts.SpuriousTimeouts++
	}
}

// phase is how far the attempt on the connection has come.
func (cn *conn) phase() policy.Phase {
	switch {
	case cn.out != nil:
		return policy.PhaseWrite
	case cn.resp.Started():
		return policy.PhaseBody
	}
	return policy.PhaseFirstByte
}

// headCame passes on the head of an answer, in its turn.
func (l *loop) headCame(e *completion) {
	cn := e.cn
	if cn.call == nil || cn.call != e.call || cn.call.slots[cn.slot].number != e.number {
		return // it was cancelled meanwhile
	}
	a := cn.call.k.Head(cn.slot, l.ln.policy.Classify(uint16(cn.resp.Status())), l.policyTime(l.now))
	l.apply(cn.call, a, e.at)
}

// answer passes on the end of an attempt, in its turn. The connection is free
// before the call is told, for its next attempt; others that wait get it after,
// when what the call no longer wants has stopped waiting.
func (l *loop) answer(e *completion) {
	cn, endpoint := e.cn, e.cn.endpoint
	c, slot := cn.call, cn.slot
	r := reply{completion: e, phase: cn.phase(), sent: cn.sent, first: cn.first, status: uint16(cn.resp.Status())}
	e.coalesced = e.coalesced || cn.closing
	early := cn.out != nil // answered before the request was written whole
	reuse := !early && !cn.closing && cn.resp.Reuse() && !l.ln.template.Close()
	if cn.resp.Target() {
		l.ln.target = true
	}
	wire := cn.resp.WireBytes()
	r.work, r.worked = cn.resp.Work()
	if after, ok := cn.resp.RetryAfter(); ok && r.status >= 400 {
		r.hint = after.Wait(l.wall)
	}
	cn.call, cn.in, cn.out = nil, nil, nil
	if reuse {
		l.pushIdle(cn)
	} else {
		l.release(cn, false)
	}
	if c != nil { // else it was cancelled, in this turn or before
		l.ln.book[c.burn].BytesIn += wire
		l.tell(c, slot, endpoint, &r)
	}
	l.serve(endpoint)
}

// reply is what the end of an attempt says of it.
type reply struct {
	*completion
	phase       policy.Phase
	sent, first clock.Time
	status      uint16
	hint        time.Duration
	work        time.Duration // of the server, if it said worked
	worked      bool
}

// tell records how an attempt ended and passes it to the policy.
func (l *loop) tell(c *call, slot uint8, endpoint uint16, r *reply) {
	if r.fault != ledger.ClassNone {
		l.fail(c, slot, endpoint, ledger.ErrorKey{Class: r.fault, Phase: r.phase}, r.err, r.at)
		return
	}
	kind, b := c.slots[slot].kind, l.ln.book[c.burn]
	c.slots[slot] = attempt{}
	l.heard, l.vain = l.now, 0
	l.stamps(b, r)
	disposition := l.ln.policy.Classify(r.status)
	act := c.k.Reply(slot, policy.Result{Disposition: disposition, Phase: policy.PhaseBody, Status: r.status, Hint: r.hint}, l.policyTime(l.now))
	service := r.at.Sub(r.sent)
	if disposition == policy.DispOK {
		b.AttemptWon(kind, service)
		if r.worked {
			b.Work.Used.Add(r.work)
		}
	} else {
		l.noteStatus(c, r.status)
		b.AttemptAnswered(kind, service)
		if r.worked {
			b.Work.Failed.Add(r.work)
		}
		l.count(b, ledger.ErrorKey{Class: ledger.ClassStatus, Phase: policy.PhaseBody, Status: r.status}, nil, endpoint)
	}
	l.apply(c, act, r.at)
}

// stamps records what the instants of a complete answer say.
func (l *loop) stamps(b *ledger.Ledger, r *reply) {
	if r.coalesced {
		b.Coalesced++
	}
	if r.stamped {
		b.ReadDelay.Record(int64(l.read.Sub(r.at)))
	} else {
		b.Unstamped++
	}
	if r.first != 0 {
		b.FirstByte.Record(int64(r.first.Sub(r.sent)))
		b.Body.Record(int64(r.at.Sub(r.first)))
	}
}

// broken ends an attempt whose connection failed outside of a read.
func (l *loop) broken(cn *conn, class ledger.Class, phase policy.Phase, err error) {
	c, slot, endpoint := cn.call, cn.slot, cn.endpoint
	l.closeConn(cn, false)
	l.dialWaiting()
	l.fail(c, slot, endpoint, ledger.ErrorKey{Class: class, Phase: phase}, err, l.now)
}

// openFailed ends the attempt that waits longest for the replica: a connection
// that was to serve it did not come about.
func (l *loop) openFailed(endpoint uint16, key ledger.ErrorKey, err error) {
	if l.failedAt = l.now; l.dialErr == nil {
		l.dialErr = fmt.Errorf("%s: %s", l.eng.cfg.Endpoints[endpoint].Name, err) // err may be used again
	}
	w, ok := l.dequeue(endpoint)
	l.dialWaiting()
	if !ok {
		l.count(l.ln.book[l.phase()], key, err, endpoint)
		return
	}
	l.sent(w.call.burn, w.call.slots[w.slot].kind)
	l.fail(w.call, w.slot, endpoint, key, err, l.now)
}

// fail ends an attempt without a complete answer; at is when that was known.
func (l *loop) fail(c *call, slot uint8, endpoint uint16, key ledger.ErrorKey, err error, at clock.Time) {
	kind, b := c.slots[slot].kind, l.ln.book[c.burn]
	c.slots[slot] = attempt{}
	b.AttemptBroken(kind)
	l.vain++
	l.noteStatus(c, statusBroken)
	l.count(b, key, err, endpoint)
	r := policy.Result{Disposition: policy.DispRetryable, Phase: key.Phase}
	l.apply(c, c.k.Reply(slot, r, l.policyTime(l.now)), at)
}

// count adds an error; its sample is written only for the first of its sort.
func (l *loop) count(b *ledger.Ledger, key ledger.ErrorKey, err error, endpoint uint16) {
	if b.Again(key) {
		return
	}
	at := l.eng.cfg.Endpoints[endpoint].Name
	var sample string
	switch {
	case key.Status != 0:
		sample = fmt.Sprintf("%d %s from %s", key.Status, http.StatusText(int(key.Status)), at)
	case err != nil:
		sample = fmt.Sprintf("%s: %v", at, err)
	default:
		sample = fmt.Sprintf("%s in phase %s, %s", key.Class, key.Phase, at)
	}
	b.AddError(key, sample)
}

// finish records the end of a call.
func (l *loop) finish(c *call, o policy.Outcome, done clock.Time) {
	b := l.ln.book[c.burn]
	if done == clock.Never {
		done = l.now
	}
	response, cur := done.Sub(c.intended), &l.cur.by[c.burn]
	cur.ended++
	switch o {
	case policy.OK:
		b.CallOK(response)
		if l.report {
			cur.ok.Record(int64(response))
		}
	case policy.Expired:
		b.CallExpired(response)
		cur.failed++
	default:
		b.CallFailed(response)
		cur.failed++
	}
	if c.burn == 0 {
		b.Tail.Record(c.intended.Sub(l.run.dataStart), response, o != policy.OK)
	}
	l.drop(c)
	if l.fed != nil {
		l.fed.end(c, o)
	}
}

// drop frees a call's record.
func (l *loop) drop(c *call) {
	l.timers.Set(c.index, clock.Never)
	c.open = false
	l.calls.Put(c.index)
	l.live--
	if l.eng.cfg.Closed {
		l.users++
	}
	l.heard, l.vain = l.now, 0
}

// giveUp ends a call at the end of the time to drain.
func (l *loop) giveUp(c *call, now clock.Time) {
	b := l.ln.book[c.burn]
	for s := range c.slots {
		a := &c.slots[s]
		kind := a.kind
		switch a.state {
		case slotWaiting:
			if l.leaveQueue(a, c.burn) {
				b.AttemptAbandoned(kind)
			}
		case slotSent:
			b.AttemptAbandoned(kind)
			l.closeConn(a.conn, false)
		}
		*a = attempt{}
	}
	c.k.Abandon(l.policyTime(now))
	l.recordUnfinished(c, now)
	l.drop(c)
}

// recordUnfinished records a call that is given up.
func (l *loop) recordUnfinished(c *call, now clock.Time) {
	b, response := l.ln.book[c.burn], now.Sub(c.intended)
	b.CallUnfinished(response)
	if c.burn == 0 {
		b.Tail.Record(c.intended.Sub(l.run.dataStart), response, true)
	}
	l.cur.by[c.burn].ended++
	l.cur.by[c.burn].failed++
}
