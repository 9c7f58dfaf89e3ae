package sim

import (
	"fmt"
	"math/bits"
	"time"

	"latencylab/clock"
	"latencylab/draw"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/service"
)

// call is one call under way.
type call struct {
	k        policy.Call
	id       uint64
	intended clock.Time
	due      clock.Time // when its timer is to act; Never: not
	// at and order are those of its event in the heap; order 0: there is none.
	// The event may come earlier than due, and is then pushed anew.
	at    clock.Time
	order uint64
	slots [policy.MaxOpen]uint32 // attempt in each slot; 0: none
	next  uint32                 // in the free list
	// from is the user, in a closed loop; of a hop's call the join, and part its
	// number there.
	from, part uint32
	book       uint8
	open       bool
	status     uint16 // of the last failure: 502 without an answer, 504 by a timeout
}

// attempt is one send, from the client's side until nobody waits for its answer
// and from the server's side until its job is over.
type attempt struct {
	sent    clock.Time
	id      uint64        // of the call: it keys the draws
	order   uint64        // of its event in the heap: request, end or reply; 0: none
	leave   uint64        // of its event that the caller has left; 0: none
	hint    time.Duration // of the answer; on the way in: the time left that was told, 0: none
	call    uint32        // index, while wanted; in the free list: the next attempt
	number  uint32
	job     service.Job // 0: its server does not know it, or not any more; at a hop: its join
	replica uint16
	status  uint16        // of the answer on its way
	fault   service.Fault // the same
	slot    uint8
	kind    policy.Kind
	wanted  bool
	book    uint8 // of the call
	gone    bool  // the server knows that the caller has left, and works on
	joined  bool  // its service calls on for it: job is its join
	// deadline is what the request has told, where its service calls on; Never: nothing.
	deadline clock.Time
	// Of an answer that a fault spoils: it is under way, the client has heard of it,
	// and so many pieces are to come.
	playing, heard bool
	backlog        bool // nobody has accepted its connection yet
	pieces         uint32
}

// start begins the call of an arrival, or of a user.
func (w *world) start(id uint64, user uint32, at clock.Time, burn bool) {
	w.count++
	var own uint8
	if !burn {
		w.counted++
	}
	if len(w.cfg.Lanes) > 0 {
		l, skip := w.split.assign(id, at)
		own, burn = l, burn || skip
	}
	i := w.take(id, at, book(own, burn))
	c := &w.calls[i]
	c.from = user
	w.live++
	r := policy.Request{ID: id, Intended: at, Idempotent: w.cfg.Idempotent}
	key := id
	if len(w.users) > 0 {
		key = uint64(user)
	}
	w.apply(i, c.k.Start(w.lanes[own].client(key), r, at))
}

// take makes a record of a call that begins.
func (w *world) take(id uint64, intended clock.Time, book uint8) uint32 {
	i := w.freeCall
	if i != 0 {
		w.freeCall = w.calls[i].next
	} else {
		i = uint32(len(w.calls))
		w.calls = append(w.calls, call{})
		w.grown(len(w.calls))
	}
	c := &w.calls[i]
	c.id, c.intended, c.due, c.open, c.book, c.status = id, intended, clock.Never, true, book, 0
	w.book[book].Calls.Scheduled++
	return i
}

// apply does what an Action says, and what follows from doing it.
func (w *world) apply(i uint32, a policy.Action) {
	c := &w.calls[i]
	for {
		if a.Refused != policy.RuleNone {
			w.book[c.book].Refused[a.Refused]++
		}
		for m := a.Cancel; m != 0; m &= m - 1 {
			slot := uint8(bits.TrailingZeros8(m))
			class := ledger.ClassNone
			if a.TimedOut&(1<<slot) != 0 {
				class = timeoutClass(&a)
			}
			w.cancel(c, slot, class)
		}
		if a.Attempt != 0 {
			w.send(i, c, &a)
			if w.lanes[c.book>>1].phased {
				a.Timer = c.k.Progress(a.Slot, policy.PhaseFirstByte, w.now).Timer
			}
		}
		if a.Finish != policy.Going {
			w.conclude(i, c, a.Finish)
			return
		}
		if a.Timer > w.now {
			w.arm(i, c, a.Timer)
			return
		}
		a = c.k.Advance(w.now)
	}
}

// timeoutClass is the class of what the Action says has timed out.
func timeoutClass(a *policy.Action) ledger.Class {
	if a.Finish == policy.Expired {
		return ledger.ClassDeadline
	}
	return ledger.TimeoutClass(a.Part)
}

// arm sets the call's timer. An event that comes too early stays: it is cheaper
// to push it anew then than to take it out now.
func (w *world) arm(i uint32, c *call, due clock.Time) {
	c.due = due
	if due == clock.Never || c.order != 0 && c.at <= due {
		return
	}
	if c.order != 0 {
		w.events.stale++
	}
	c.at, c.order = due, w.events.push(due, timers, timer, i)
}

// timer takes the call's event out of the heap.
func (w *world) timer(i uint32) {
	c := &w.calls[i]
	c.order = 0
	if c.due > w.now {
		w.arm(i, c, c.due)
		return
	}
	w.apply(i, c.k.Advance(w.now))
}

// send gives an attempt to the net.
func (w *world) send(i uint32, c *call, act *policy.Action) {
	n := w.freeAtt
	if n != 0 {
		w.freeAtt = w.attempts[n].call
	} else {
		n = uint32(len(w.attempts))
		w.attempts = append(w.attempts, attempt{})
		w.grown(len(w.attempts))
	}
	w.attempts[n] = attempt{sent: w.now, id: c.id, call: i, number: act.Attempt, replica: act.Replica + w.lanes[c.book>>1].first, slot: act.Slot, kind: act.Kind, wanted: true, book: c.book}
	c.slots[act.Slot] = n
	w.book[c.book].Sent(act.Kind)
	w.cur[c.book].Sent++
	l := &w.lanes[c.book>>1]
	if wire := l.policy.Wire; wire != policy.WireNone {
		w.attempts[n].hint = w.told(c, wire)
	}
	if w.cfg.Net == 0 && !l.toHop {
		w.arrive(n)
		return
	}
	w.attempts[n].order = w.events.push(w.now.Add(w.cfg.Net), inbound, request, n)
}

// arrive gives an attempt to its server.
func (w *world) arrive(n uint32) {
	a := &w.attempts[n]
	l := &w.lanes[a.book>>1]
	if l.toHop && !l.works {
		a.deadline = w.heard(a)
		w.enter(n)
		return
	}
	if a.wanted && w.tied && w.served(a) {
		w.withdraw(a.call, a.slot)
		return
	}
	s := w.servers[a.replica]
	if at := s.Opens(w.now); at > w.now { // it waits for its connection to be accepted
		if a.backlog = true; at != clock.Never {
			a.order = w.events.push(at, inbound, request, n)
		}
		return
	}
	a.backlog = false
	a.deadline = w.heard(a)
	j, st := s.Begin(service.Request{Tag: n, Call: a.id, Attempt: a.number, Deadline: a.deadline}, w.now)
	a.job = j
	w.arrived(s, a)
	if st.Job == 0 && s.Hangs(j) != service.FaultNone {
		w.books.Faults[s.Hangs(j)]++
	}
	if a.number == 1 && (w.cfg.Graph == nil || l.next == 0) {
		w.draws += draw.Mix(a.id, 1, uint64(s.Drawn(j)))
	}
	server := a.replica
	w.begun(st)
	w.watch(server)
}

// begun notes when the job of the step is due, which may have been due at
// another instant before.
func (w *world) begun(st service.Step) {
	if st.Job == 0 {
		return
	}
	a := &w.attempts[st.Tag]
	if a.order != 0 {
		a.order = 0
		w.events.stale++
	}
	if st.Due != clock.Never {
		a.order = w.events.push(st.Due, answers, end, st.Tag)
	}
	if a.wanted && w.tied && w.servers[a.replica].Running(st.Job) { // not for one that is turned away
		w.tie(a)
	}
}

// ended takes the answer of a due job from its server.
func (w *world) ended(n uint32) {
	a := &w.attempts[n]
	server := a.replica
	ans, st := w.servers[server].End(a.job, w.now)
	spoiled := ans.Fault.Spoils() && !a.gone
	calls := w.callsOn(a, &ans)
	if !spoiled && !calls {
		w.replied(ans.Fault, a.gone)
	}
	if ans.Shed {
		w.books.Shed++
	}
	a.order, a.job = 0, 0
	w.begun(st)
	w.watch(server)
	a.status, a.hint, a.fault = ans.Status, ans.RetryAfter, ans.Fault
	if spoiled {
		w.perform(n, &ans)
		return
	}
	if calls {
		w.enter(n)
		return
	}
	if w.cfg.Net == 0 || !a.wanted {
		w.answer(n)
		return
	}
	a.order = w.events.push(w.now.Add(w.cfg.Net), answers, reply, n)
}

// answer gives an answer to its call, if that still wants it.
func (w *world) answer(n uint32) {
	a := &w.attempts[n]
	i, slot, kind, replica, took := a.call, a.slot, a.kind, a.replica, w.now.Sub(a.sent)
	status, hint, fault := a.status, a.hint, a.fault
	wanted := a.wanted
	w.free(n)
	if !wanted {
		return
	}
	c := &w.calls[i]
	c.slots[slot] = 0
	if fault.Breaks() {
		w.broken(i, c, slot, kind, replica, fault)
		return
	}
	d := w.lanes[c.book>>1].policy.Classify(status)
	act := c.k.Reply(slot, policy.Result{Disposition: d, Phase: policy.PhaseBody, Status: status, Hint: hint}, w.now)
	b := w.book[c.book]
	if d == policy.DispOK {
		b.AttemptWon(kind, took)
	} else {
		c.status = status
		b.AttemptAnswered(kind, took)
		key := ledger.ErrorKey{Class: ledger.ClassStatus, Phase: policy.PhaseBody, Status: status}
		if !b.Again(key) {
			b.AddError(key, fmt.Sprintf("%d from replica %d", status, replica))
		}
	}
	w.apply(i, act)
}

// broken ends an attempt that a fault broke.
func (w *world) broken(i uint32, c *call, slot uint8, kind policy.Kind, replica uint16, fault service.Fault) {
	key := errorsOfFaults[fault]
	act := c.k.Reply(slot, policy.Result{Disposition: policy.DispRetryable, Phase: key.Phase}, w.now)
	b := w.book[c.book]
	b.AttemptBroken(kind)
	c.status = 502
	if !b.Again(key) {
		b.AddError(key, fmt.Sprintf("%s by replica %d", key.Class, replica))
	}
	w.apply(i, act)
}

// cancel ends an attempt that is no longer wanted. Like the client on sockets,
// it drains only what is cancelled: a timed-out attempt's connection is closed.
// timeout is the class of the timeout that ended it, or none.
func (w *world) cancel(c *call, slot uint8, timeout ledger.Class) {
	n := c.slots[slot]
	c.slots[slot] = 0
	a := &w.attempts[n]
	a.wanted = false
	b := w.book[c.book]
	if timeout != ledger.ClassNone {
		c.status = 504
		b.AttemptTimedOut(a.kind)
		w.overdue(b, a, timeout)
	} else {
		b.AttemptCancelled(a.kind)
		if w.lanes[c.book>>1].policy.Cancel == policy.CancelDrain {
			w.drain(n)
			return
		}
	}
	b.Connections.ClosedByCancel++
	w.depart(n)
}

// overdue counts an attempt that a timeout or the deadline ended.
func (w *world) overdue(b *ledger.Ledger, a *attempt, class ledger.Class) {
	key := ledger.ErrorKey{Class: class, Phase: policy.PhaseFirstByte}
	if a.heard {
		key.Phase = policy.PhaseBody
	}
	if !b.Again(key) {
		b.AddError(key, fmt.Sprintf("%s in phase %s, replica %d", key.Class, key.Phase, a.replica))
	}
}

// depart tells the server that the caller of the attempt has left.
func (w *world) depart(n uint32) {
	if w.cfg.Net == 0 && !w.lanes[w.attempts[n].book>>1].toHop {
		w.vacate(n)
		return
	}
	w.attempts[n].leave = w.events.push(w.now.Add(w.cfg.Net), inbound, leave, n)
}

// left brings the news of a departure to the server, which may have answered
// meanwhile. The request came before it: the net keeps the order.
func (w *world) left(n uint32) {
	a := &w.attempts[n]
	a.leave = 0
	switch {
	case a.job != 0 || a.playing || a.backlog:
		w.vacate(n)
	case a.order == 0:
		w.free(n)
	}
}

// vacate lets the server decide what becomes of the work.
func (w *world) vacate(n uint32) {
	a := &w.attempts[n]
	switch {
	case a.joined:
		w.forsaken(n)
		return
	case a.backlog:
		a.backlog = false
		w.forget(n)
		return
	case a.playing:
		w.desert(n)
		return
	}
	server := a.replica
	s := w.servers[server]
	queued := s.Queued(a.job)
	dropped, st := s.Cancel(a.job, w.now)
	w.quit(queued, dropped)
	a.gone = !dropped
	if dropped && st.Job != a.job { // else the job holds its slot on
		if a.order != 0 {
			a.order = 0
			w.events.stale++
		}
		w.free(n)
	}
	w.begun(st)
	w.watch(server)
}

// free gives the record back, unless the news of its departure is on its way.
func (w *world) free(n uint32) {
	a := &w.attempts[n]
	a.job, a.wanted = 0, false
	if a.leave == 0 {
		a.call, w.freeAtt = w.freeAtt, n
	}
}

// conclude records the end of a call.
func (w *world) conclude(i uint32, c *call, o policy.Outcome) {
	b := w.book[c.book]
	response := w.now.Sub(c.intended)
	switch o {
	case policy.OK:
		b.CallOK(response)
		if h := w.cur[c.book].OK; h != nil {
			h.Record(int64(response))
		}
	case policy.Expired:
		b.CallExpired(response)
	default:
		b.CallFailed(response)
	}
	w.drop(i, c, o, response)
}

// drop notes the response and gives the call's record back.
func (w *world) drop(i uint32, c *call, o policy.Outcome, response time.Duration) {
	if c.book&1 == dataBook {
		w.book[c.book].Tail.Record(c.intended.Sub(w.dataStart), response, o != policy.OK)
	}
	cur := &w.cur[c.book]
	cur.Ended++
	if o != policy.OK {
		cur.Failed++
	}
	if c.order != 0 {
		c.order = 0
		w.events.stale++
	}
	c.open = false
	c.next, w.freeCall = w.freeCall, i
	if int(c.book) >= w.hopBooks {
		w.inner--
		if c.from != 0 && !w.stopped {
			w.joined(c.from, c.part, o, c.answered(o))
		}
		return
	}
	w.results += draw.Mix(c.id, uint64(o), uint64(response))
	w.live--
	if len(w.users) > 0 {
		w.think(c.from)
	}
}

// giveUp ends all calls that are open of users, or of hops, in the order of their
// records.
func (w *world) giveUp(hops bool) {
	left := &w.live
	if hops {
		left = &w.inner
	}
	for i := 1; *left > 0 && i < len(w.calls); i++ {
		c := &w.calls[i]
		if !c.open || hops != (int(c.book) >= w.hopBooks) {
			continue
		}
		b := w.book[c.book]
		for slot, n := range c.slots {
			if n == 0 {
				continue
			}
			c.slots[slot] = 0
			w.attempts[n].wanted = false
			b.AttemptAbandoned(w.attempts[n].kind)
			w.depart(n)
		}
		c.k.Abandon(w.now)
		response := w.now.Sub(c.intended)
		b.CallUnfinished(response)
		w.drop(uint32(i), c, policy.Going, response)
	}
}
