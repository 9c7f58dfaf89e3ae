package target

import (
	"fmt"

	"latencylab/clock"
	"latencylab/draw"
	"latencylab/engine"
	"latencylab/http1"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/slab"
	"latencylab/workloads"
)

// callerBit tells the poller's tokens of callers from those of connections.
const callerBit = 1 << 62

// edge is one call of one replica, which is a client of its own.
type edge struct {
	*workloads.Call
	caller *engine.Caller
	book   *book
	after  uint64 // bit k: call k comes before it
	ready  bool   // the poller has found something
	next   uint64 // number of the next call; those of all edges differ
	step   uint64 // from one number to the next
}

// book is what a loop records of one call of a service.
type book struct {
	*ledger.Ledger
	node    *node
	call    int
	leftOut uint64 // answers without it
}

// hops is what a loop holds of services that call on.
type hops struct {
	edges    []*edge
	books    []*book
	requests slab.Slab[request]
	kids     slab.Slab[kid]
	leftOut  []byte // names that the answer under way does without
}

// request is what is known, from its arrival on, of a request whose service
// calls on.
type request struct {
	record   uint32
	replica  uint16 // index in loop.replicas
	state    requestState
	deadline clock.Time // that the caller has told; clock.Never: none
	run      http1.Run
	entry    http1.Entry
	begun    uint64 // bit k: call k was begun
	ended    uint64 // bit k: call k has ended ok, or is left out
	leftOut  uint64
	ends     []copies // by call
	kids     []uint32 // copies of calls that are open
}

// requestState is what such a request waits for.
type requestState uint8

const (
	working   requestState = iota // the service's own work
	calling                       // its calls
	finishing                     // its own work after them
	silent                        // it has failed, and nobody is told
)

// copies counts what may still come of the copies of a call.
type copies struct{ need, spare int }

// kid is one copy of a call of a request.
type kid struct {
	request uint32
	place   uint32 // in request.kids
	gen     uint32 // of the slot: late ends are told by it
	call    uint8
	ref     engine.Ref
}

// connect makes the callers of call k of the loop's replicas of n.
func (l *loop) connect(n *node, k int, cfg engine.CallerConfig) error {
	b := &book{Ledger: ledger.New(nil), node: n, call: k}
	cfg.Book = b.Ledger
	for _, rp := range l.replicas {
		if rp.node != n {
			continue
		}
		caller, err := engine.NewCaller(cfg)
		if err != nil {
			return err
		}
		e := &edge{
			Call: &n.Calls[k], caller: caller, book: b,
			next: uint64(n.edges+k)<<48 | uint64(rp.index-n.first), step: uint64(n.Spec.Servers()),
		}
		for _, a := range e.After {
			e.after |= 1 << a
		}
		rp.edges = append(rp.edges, e)
		l.hops.edges = append(l.hops.edges, e)
		if err := caller.Nest(l.poll, callerBit|uint64(len(l.hops.edges)-1)); err != nil {
			return err
		}
	}
	l.hops.books = append(l.hops.books, b)
	return nil
}

// foresee notes what the calls of a request will need that has just arrived on
// connection c as record id.
func (l *loop) foresee(id uint32, c *conn, key http1.Run, deadline clock.Time) {
	i, q := l.hops.requests.Take()
	l.target.calling.Add(1)
	rec := l.records.At(id)
	*q = request{
		record: id, replica: c.replica, run: key, deadline: deadline,
		entry: http1.Entry{Call: rec.call, Attempt: rec.attempt}, ends: q.ends[:0], kids: q.kids[:0],
	}
	if rec.entry.Attempt != 0 {
		q.entry = rec.entry
	}
	rec.request = i
}

// forget drops what foresee has noted of a record.
func (l *loop) forget(rec *record) {
	if rec.request == none {
		return
	}
	l.hops.requests.Put(rec.request)
	rec.request = none
	if l.target.calling.Add(-1) == 0 && l.draining {
		for _, o := range l.target.loops { // what is called may end now
			o.poll.Wake()
		}
	}
}

// gone reports whether the caller of a record has left.
func (l *loop) gone(rec *record) bool {
	return rec.conn == none || l.conns.At(rec.conn).left
}

// callOn begins the calls of record id, whose own work is over. It returns false
// when there is nothing to call for: the service has failed the request itself,
// or the caller has left and the service heeds that.
func (l *loop) callOn(id uint32, a *service.Answer) bool {
	rec := l.records.At(id)
	rp := l.replicas[rec.replica]
	if a.Fault != service.FaultNone || a.Status != 200 || a.Shed || rp.node.Cancels && l.gone(rec) {
		l.forget(rec)
		return false
	}
	q := l.hops.requests.At(rec.request)
	q.state = calling
	for _, e := range rp.edges {
		q.ends = append(q.ends, copies{e.Needed(), e.Copies() - e.Needed()})
	}
	l.beginCalls(rec.request, rec.due)
	return true
}

// beginCalls begins the calls of a request that wait for no other; at is when
// that came to be so.
func (l *loop) beginCalls(i uint32, at clock.Time) {
	q := l.hops.requests.At(i)
	for k, e := range l.replicas[q.replica].edges {
		if bit := uint64(1) << k; q.begun&bit == 0 && e.after&^q.ended == 0 {
			q.begun |= bit
			for range e.Copies() {
				l.submit(i, k, e, at)
			}
		}
	}
}

// submit begins one copy of call k of a request.
func (l *loop) submit(i uint32, k int, e *edge, at clock.Time) {
	q := l.hops.requests.At(i)
	n, kd := l.hops.kids.Take()
	kd.request, kd.call, kd.place = i, uint8(k), uint32(len(q.kids))
	q.kids = append(q.kids, n)
	id := e.next
	e.next += e.step
	kd.ref = e.caller.Submit(engine.Submission{
		ID: id, Tag: uint64(kd.gen)<<32 | uint64(n), Intended: at, Deadline: q.deadline, Run: q.run, Entry: q.entry,
	})
}

// relay lets the callers act that have to, and takes up what has ended.
func (l *loop) relay() {
	if len(l.hops.edges) == 0 {
		return
	}
	now := clock.Now()
	for _, e := range l.hops.edges {
		if !e.ready && e.caller.Next() > now {
			continue
		}
		e.ready = false
		if err := e.caller.Turn(); err != nil {
			l.tallies.fault = fmt.Errorf("wait for what is called: %w", err)
			l.stopped = true
			return
		}
	}
	for more := true; more; { // what ends may begin further calls, which may end at once
		more = false
		for _, e := range l.hops.edges {
			for {
				end, ok := e.caller.Ended()
				if !ok {
					break
				}
				more = true
				l.callEnded(end)
			}
		}
	}
}

// relayAt is when the next caller has to act.
func (l *loop) relayAt() clock.Time {
	next := clock.Never
	for _, e := range l.hops.edges {
		next = min(next, e.caller.Next())
	}
	return next
}

// callEnded tells a request that one of its calls has ended.
func (l *loop) callEnded(end engine.Ended) {
	n := uint32(end.Tag)
	kd := l.hops.kids.At(n)
	if kd.gen != uint32(end.Tag>>32) {
		return // given up in the same turn
	}
	i, k := kd.request, kd.call
	l.dropKid(n)
	q := l.hops.requests.At(i)
	rp := l.replicas[q.replica]
	e, bit := rp.edges[k], uint64(1)<<k
	left := &q.ends[k]
	if end.Outcome == policy.OK {
		if left.need--; left.need > 0 {
			return
		}
	} else {
		if left.spare--; left.spare >= 0 {
			return
		}
		if !e.Optional {
			l.decide(i, end.Status)
			return
		}
		q.leftOut |= bit
	}
	q.ended |= bit
	l.release(i, int(k))
	if q.ended == uint64(1)<<len(rp.edges)-1 {
		l.decide(i, 200)
		return
	}
	l.beginCalls(i, clock.Now())
}

// dropKid takes a copy of a call out of its request.
func (l *loop) dropKid(n uint32) {
	kd := l.hops.kids.At(n)
	q := l.hops.requests.At(kd.request)
	last := len(q.kids) - 1
	moved := q.kids[last]
	q.kids[kd.place] = moved
	l.hops.kids.At(moved).place = kd.place
	q.kids = q.kids[:last]
	kd.gen++
	l.hops.kids.Put(n)
}

// release cancels the open copies of call k of a request, or of all if k is
// negative.
func (l *loop) release(i uint32, k int) {
	q := l.hops.requests.At(i)
	for p := len(q.kids) - 1; p >= 0; p-- {
		n := q.kids[p]
		kd := l.hops.kids.At(n)
		if k < 0 || int(kd.call) == k {
			l.replicas[q.replica].edges[kd.call].caller.Cancel(kd.ref)
			l.dropKid(n)
		}
	}
}

// decide ends the calls of a request, which is to be answered with the status.
func (l *loop) decide(i uint32, status uint16) {
	l.release(i, -1)
	q := l.hops.requests.At(i)
	rec, n := l.records.At(q.record), l.replicas[q.replica].node
	l.waited(rec, clock.Now())
	switch {
	case status == 200 && !n.After.IsZero():
		q.state = finishing
		rec.due = rec.due.Add(n.After.Draw(n.seed, draw.AfterCalls, rec.call, rec.attempt))
		l.due.Set(q.record, rec.due)
	case status != 200 && n.Silent && !l.gone(rec):
		q.state = silent
	default:
		l.conclude(q.record, status)
	}
}

// waited notes that the service of a record has waited for its calls until now.
func (l *loop) waited(rec *record, now clock.Time) {
	rec.outside += now.Sub(rec.due)
	rec.due = now
}

// finishes answers record id if that was due after the calls.
func (l *loop) finishes(id uint32) bool {
	if l.hops.requests.At(l.records.At(id).request).state != finishing {
		return false
	}
	l.conclude(id, 200)
	return true
}

// conclude answers record id, whose calls are over.
func (l *loop) conclude(id uint32, status uint16) {
	rec := *l.records.At(id)
	q, rp := l.hops.requests.At(rec.request), l.replicas[rec.replica]
	names := l.hops.leftOut[:0]
	for k, e := range rp.edges {
		if status != 200 || q.leftOut&(1<<k) == 0 {
			continue
		}
		e.book.leftOut++
		if len(names) > 0 {
			names = append(names, ',')
		}
		names = append(names, e.Name...)
	}
	l.forget(&rec)
	l.records.Put(id)
	l.hops.leftOut = names
	l.answer(&rec, &service.Answer{Status: status, Body: rp.spec().Body, Worked: true})
	l.hops.leftOut = names[:0]
}

// dropCalls decides what becomes of the calls for the request on connection id,
// whose caller has left. It returns false if the request is still with its server.
func (l *loop) dropCalls(id uint32, t *tally) bool {
	c := l.conns.At(id)
	rec := l.records.At(c.rec)
	if rec.request == none {
		return false
	}
	q := l.hops.requests.At(rec.request)
	if q.state == working {
		return false
	}
	t.Cancelled.Running++
	if q.state != silent && !l.replicas[rec.replica].node.Cancels {
		t.Cancelled.WentOn++
		return true
	}
	t.Cancelled.Dropped++
	l.release(rec.request, -1)
	if q.state == finishing {
		rec.due = min(rec.due, l.now)
	} else {
		l.waited(rec, l.now)
	}
	l.finish(rec, &service.Answer{Worked: true}, endDropped)
	l.forget(rec)
	l.due.Set(c.rec, clock.Never)
	l.records.Put(c.rec)
	c.rec = none
	l.close(id)
	return true
}

// closeCallers gives up all calls.
func (l *loop) closeCallers() {
	for _, e := range l.hops.edges {
		e.caller.Close()
	}
	l.hops.edges = nil
}

// drained reports whether nothing keeps the loop from its end: no request, here
// or at a service that may call one of its own.
func (l *loop) drained() bool {
	if !l.draining || l.target.calling.Load() > 0 {
		return false
	}
	l.closeUnused(true)
	return l.conns.Used() == 0 && l.records.Used() == 0
}
