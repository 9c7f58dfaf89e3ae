package target

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"latencylab/clock"
	"latencylab/engine"
	"latencylab/http1"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/slab"
)

// none is no index of a slab.
const none = ^uint32(0)

// listenerBit tells the poller's tokens of listeners from those of connections.
const listenerBit = 1 << 63

// readSize is what a loop reads at once. A caller that sends requests ahead can
// make the target keep that much for it, beside one line of a head.
const readSize = 16 << 10

// retryAccept is how long a listener waits after accept has failed, for want of
// file descriptors or memory.
const retryAccept = 100 * time.Millisecond

// replica is one server and its listener.
type replica struct {
	index     int // number among all
	node      *node
	edges     []*edge // its calls
	fd        int     // listener; -1 while closed
	parked    int     // holds the address of a killed replica; -1 while there is none
	killed    bool
	server    *service.Server
	does      *service.Spec // what server does
	arrivals  uint64        // requests without Latencylab-Call
	accepted  uint64        // connections
	wellKnown []byte        // body of the answer at http1.WellKnownPath
}

// record is a request that the server knows.
type record struct {
	job     service.Job
	due     clock.Time // clock.Never while it waits for a slot
	conn    uint32     // none once its connection is closed
	request uint32     // what its service calls for it; none: nothing
	replica uint16     // index in loop.replicas
	run     uint16     // index of the tally

	call     uint64
	attempt  uint32
	numbered bool          // it carried Latencylab-Call
	entry    http1.Entry   // that it carried; Attempt 0: none
	outside  time.Duration // between began and due, in which its service waited for its calls
	dropped  bool          // its caller has left and it was dropped, but stopping takes time
	read     uint32        // read delay in ns, unread if there is none
	arrived  clock.Time    // when it arrived
	began    clock.Time    // when its work began; clock.Never before that
	left     clock.Time    // when its caller was seen to leave; clock.Never before that
	written  clock.Time    // when its answer was; 0 before that
	up       *passage      // the request for the upstream; nil without one
}

// loop serves some of the replicas on one thread. Everything but do, stop and
// the fields below them belongs to that thread.
type loop struct {
	target   *Target
	poll     *engine.Poller
	events   *engine.Events
	rx       *engine.Receiver
	shakes   *engine.Handshakes // nil without TLS
	plain    []byte             // what was decrypted; nil without TLS
	out      outbox
	replicas []*replica
	conns    slab.Slab[conn]
	records  slab.Slab[record]
	plays    slab.Slab[play]
	due      engine.Timers // by record
	idle     engine.Timers // by connection
	hops     hops
	tallies  tallies
	resets   uint64   // of the ledger so far
	ring     ring     // the last attempts that have ended
	ready    []uint64 // tokens of connections to go on with in the next turn
	again    []uint64 // the same, being worked through
	front    *front   // nil: none
	beyond   *beyond  // the upstream; nil: none
	inbox    inbox    // connections that the front has dealt to this loop
	errands  []func() // what changes do to sockets, at the end of the turn
	ramped   bool     // the slots of a replica change over time
	agenda   []change // what the servers are told at an instant, the next first

	now      clock.Time // when the last wait ended
	asked    clock.Time // when it had begun
	before   clock.Time // when the one before it had begun: nothing unread is older
	early    early      // how long before an answer is due it polls
	patience time.Duration
	maxConns int64
	starved  bool       // an accept has failed: ask again without an event
	shutTo   clock.Time // some listener is left alone until then; clock.Never: none
	draining bool
	stopped  bool
	sockets  Connections

	running bool // run was started
	gate    sync.Mutex
	mail    chan func()
	done    chan struct{}
	closed  bool // the poller is closed; guarded by gate
}

func newLoop(t *Target, cfg *Config) (*loop, error) {
	p, err := engine.NewPoller()
	if err != nil {
		return nil, err
	}
	l := &loop{
		target: t, poll: p, events: engine.NewEvents(512), rx: engine.NewReceiver(readSize),
		patience: cfg.Idle, maxConns: int64(cfg.MaxConnections),
		shutTo: clock.Never, early: early{late: firstLead, told: cfg.Spin},
		mail: make(chan func(), 1), done: make(chan struct{}),
	}
	if t.tls != nil {
		l.shakes, l.plain = engine.NewHandshakes(p), make([]byte, engine.PlainSize(readSize))
	}
	l.out.init()
	l.tallies.init(&t.runs, t.servers)
	l.ring.init(t.kept)
	return l, nil
}

// listen gives the loop replica number index of all, whose listener is fd.
func (l *loop) listen(index, fd int) error {
	n := l.target.nodeOf(index)
	r := &replica{index: index, node: n, fd: fd, parked: -1, does: &n.Spec, server: service.New(&n.Spec, index-n.first, n.seed)}
	r.server.Mark(clock.Now())
	l.replicas = append(l.replicas, r)
	l.ramped = l.ramped || r.server.Ramped()
	return l.poll.Add(fd, listenerBit|uint64(len(l.replicas)-1))
}

// run is the loop's goroutine. It never unlocks its thread, which has lost its
// timer slack and ends with it.
func (l *loop) run() {
	runtime.LockOSThread()
	engine.PreciseThread()
	defer close(l.done)
	l.now = clock.Now()
	l.asked = l.now
	for !l.stopped {
		l.turn()
	}
	l.closeAll()
	if l.shakes != nil {
		l.shakes.Wait()
	}
	if l.tallies.fault != nil {
		select {
		case l.target.failed <- l.tallies.fault:
		default: // one is enough
		}
	}
}

// turn waits once and does what has become possible, in this order: sockets,
// connections left over from the last turn, due answers, peers that took too
// long, mail.
func (l *loop) turn() {
	l.before, l.asked = l.asked, clock.Now()
	l.early.turned(l.asked.Sub(l.before))
	d := l.wait(l.asked)
	n, err := l.poll.Wait(l.events, d)
	l.now = clock.Now()
	if n == 0 && d > 0 {
		l.early.waited(d, l.now.Sub(l.asked))
	}
	if err != nil {
		l.tallies.fault = fmt.Errorf("wait for sockets: %w", err)
		l.stopped = true
		return
	}
	for i := range n {
		token, r := l.events.At(i)
		switch {
		case token == listenerBit|frontToken:
			l.acceptFront()
			continue
		case token&listenerBit != 0:
			l.accept(int(token &^ listenerBit))
			continue
		case token&callerBit != 0:
			l.hops.edges[token&^callerBit].ready = true
			continue
		}
		l.event(token, r)
	}
	if l.shakes != nil {
		l.shaken()
	}
	if n == l.events.Len() {
		l.asked = l.before // what did not fit may be as old
	}
	if l.starved || l.shutTo != clock.Never {
		l.starved, l.shutTo = false, clock.Never
		for i := range l.replicas {
			l.accept(i)
		}
		if l == l.target.loops[0] {
			l.acceptFront()
		}
	}
	l.takeHanded(false)
	l.takeBack()
	l.goOn()
	l.expire(l.now)
	l.relay()
	l.closeIdle()
	for _, f := range l.errands {
		f()
	}
	l.errands = l.errands[:0]
	select {
	case f := <-l.mail:
		if f(); l.shutTo != clock.Never { // the listeners may be open now
			l.shutTo = l.now
		}
	default:
	}
	if l.drained() {
		l.stopped = true
	}
}

// wait is how long the poller may wait at now.
func (l *loop) wait(now clock.Time) time.Duration {
	l.early.polls = false
	if len(l.ready) > 0 {
		return 0
	}
	next := min(l.due.Next(), l.idle.Next(), l.shutTo, l.planned(), l.rises(), l.relayAt())
	if l.starved {
		next = min(next, now.Add(retryAccept))
	}
	if next == clock.Never {
		return -1
	}
	d := next.Sub(now)
	if d > 0 && next == l.due.Next() {
		d -= l.early.lead()
		l.early.polls = d <= 0
	}
	return max(d, 0)
}

// goOn takes up the connections that the last turn has left for this one.
func (l *loop) goOn() {
	l.again, l.ready = l.ready, l.again[:0]
	for _, token := range l.again {
		id, c := l.connOf(token)
		if c == nil {
			continue
		}
		switch c.state {
		case reading:
			l.resume(id)
		case writing:
			l.flush(id)
		case playing:
			l.playOn(id)
		case lingering:
			l.linger(id)
		}
	}
}

// later puts a connection on the list of the next turn.
func (l *loop) later(id uint32) { l.ready = append(l.ready, l.token(id)) }

// arrival is the instant at which bytes just read have arrived: by their kernel
// stamp, if it says something that can be, else the end of the last wait. delay
// is how long they lay unread; ok is false without a usable stamp.
func (l *loop) arrival(stamp int64) (at clock.Time, delay time.Duration, ok bool) {
	if stamp == 0 {
		return l.now, 0, false
	}
	now, wall := clock.Pair()
	delay = time.Duration(wall - stamp)
	at = now.Add(-delay)
	if delay < 0 || at < l.before {
		return l.now, 0, false
	}
	return at, delay, true
}

// expire answers what is due at until or earlier, and makes the changes that
// are planned until then, each in its turn.
func (l *loop) expire(until clock.Time) {
	for l.planned() <= until {
		c := l.agenda[0]
		l.agenda = append(l.agenda[:0], l.agenda[1:]...)
		l.expireDue(c.at)
		c.do(l, c.at)
	}
	l.expireDue(until)
}

// expireDue answers what is due at until or earlier. A slot becomes free at the
// instant the answer was due, not when this loop came to it: the queue runs on
// the service's time.
func (l *loop) expireDue(until clock.Time) {
	for {
		l.rise(min(until, l.due.Next()))
		id, ok := l.due.Pop(until)
		if !ok {
			return
		}
		rec := *l.records.At(id)
		if rec.request != none && l.finishes(id) {
			continue
		}
		answer, st := l.replicas[rec.replica].server.End(rec.job, rec.due)
		l.start(st, rec.due)
		if rec.request != none && l.callOn(id, &answer) {
			continue
		}
		if rec.up != nil && l.forward(id, &answer) {
			continue
		}
		l.records.Put(id)
		if answer.Shed {
			l.tallies.at(rec.run).Shed++
		}
		switch answer.Fault {
		case service.FaultNone:
			l.answer(&rec, &answer)
		case service.FaultRefuse, service.FaultReset, service.FaultClose, service.FaultCloseOnReuse:
			l.breakOff(&rec, &answer)
		case service.FaultGone:
			l.finish(&rec, &answer, endDropped)
		default:
			l.perform(&rec, &answer)
		}
	}
}

// start sets the timer of the job that a step names, which began at now.
func (l *loop) start(st service.Step, now clock.Time) {
	if st.Job == 0 {
		return
	}
	rec := l.records.At(st.Tag)
	if rec.began == clock.Never && l.replicas[rec.replica].server.Running(st.Job) {
		rec.began = now
	}
	rec.due = st.Due
	l.due.Set(st.Tag, st.Due)
}

// begin hands the request that connection id has read to its server; at is when
// it arrived.
func (l *loop) begin(id uint32, at clock.Time) {
	l.expire(at)
	c := l.conns.At(id)
	rp := l.replicas[c.replica]
	call, numbered := c.req.LabCall()
	attempt, _ := c.req.LabAttempt()
	if !numbered {
		call, attempt = rp.arrivals, 1
		rp.arrivals++
	}
	attempt = max(attempt, 1)
	var key http1.Run
	if run, ok := c.req.LabRun(); ok {
		key = run
	}
	run := l.tallies.find(key, rp.node)
	r, rec := l.records.Take()
	deadline := l.deadline(c, at)
	job, st := rp.server.Begin(service.Request{Tag: r, Call: call, Attempt: attempt, Conn: c.number, Fresh: !c.again, Key: c.scriptKey(rp), Deadline: deadline}, at)
	*rec = record{
		job: job, due: clock.Never, conn: id, request: none, replica: c.replica, run: run,
		call: call, attempt: attempt, numbered: numbered, read: unread,
		arrived: at, began: clock.Never, left: clock.Never, up: c.up,
	}
	c.up = nil
	if e, ok := c.req.LabEntry(); ok {
		rec.entry = e
	}
	if len(rp.edges) > 0 {
		l.foresee(r, c, key, deadline)
	}
	l.start(st, at)
	c.state, c.rec, c.run, c.left = serving, r, run, false

	drawn := rp.server.Drawn(job)
	if rp.server.Shed(job) { // the digest is about the keys, not about the queue
		drawn, _ = rp.does.Draw(rp.node.seed, rp.index-rp.node.first, call, attempt)
	}
	t := l.tallies.at(run)
	t.arrived(rp, call, attempt, drawn)
	if st.Job == 0 {
		t.faults[rp.server.Hangs(job)]++
	}
	l.repeated(l.records.At(r), &t.repeats.Arrived, didArrive)
}

// deadline is the instant until which the caller of the request on c, which
// arrived at, wants an answer. A value that makes no sense sets none.
func (l *loop) deadline(c *conn, at clock.Time) clock.Time {
	by, value := c.req.Deadline()
	if by == http1.NoDeadline {
		return clock.Never
	}
	w, _ := policy.WireNamed(by.String())
	wall := int64(0)
	if w.Absolute() {
		now, w := clock.Pair()
		wall = w - int64(now.Sub(at))
	}
	left, ok, err := w.Parse(string(value), wall)
	if !ok || err != nil {
		return clock.Never
	}
	return at.Add(left)
}

// leave tells the server of connection id, which is serving, that its caller
// has left, and closes the connection unless the work goes on.
func (l *loop) leave(id uint32) {
	c := l.conns.At(id)
	if c.left {
		return
	}
	c.left = true
	rec := l.records.At(c.rec)
	rec.left = l.now
	t := l.tallies.at(rec.run)
	if l.dropCalls(id, t) || l.dropPassage(id, t) {
		return
	}
	server := l.replicas[rec.replica].server
	if server.Queued(rec.job) {
		t.Cancelled.Queued++
	} else {
		t.Cancelled.Running++
	}
	hangs := server.Hangs(rec.job)
	dropped, st := server.Cancel(rec.job, l.now)
	if !dropped {
		t.Cancelled.WentOn++
		// A caller that closed only its sending side still reads. When
		// connections get scarce, those that must be gone have to go.
		if l.target.open.Load() > l.maxConns/2 {
			l.close(id)
		}
		return
	}
	t.Cancelled.Dropped++
	if st.Job == rec.job { // the job holds its slot on, and nobody is answered
		rec.dropped = true
	} else {
		rec.due = l.now
		l.finish(rec, &service.Answer{Fault: hangs, Worked: rec.began != clock.Never}, endDropped)
		l.due.Set(c.rec, clock.Never)
		l.forget(rec)
		l.records.Put(c.rec)
		c.rec = none
	}
	l.start(st, l.now)
	l.close(id)
}

// closeAll ends the loop's sockets. Requests in flight stay in the tallies as such.
func (l *loop) closeAll() {
	l.takeHanded(true)
	l.closeCallers()
	l.closeBeyond()
	l.closeListeners()
	for id := range l.conns.Len() {
		if l.conns.At(uint32(id)).fd >= 0 {
			l.close(uint32(id))
		}
	}
}

func (l *loop) closeListeners() {
	if f := l.front; f != nil && l == l.target.loops[0] && f.fd >= 0 {
		engine.Close(f.fd, false)
		f.fd = -1
	}
	for _, r := range l.replicas {
		l.closeListenerOf(r)
	}
}

// closeListenerOf closes the listener of a replica and what holds its address.
func (l *loop) closeListenerOf(r *replica) {
	l.closeListener(r)
	if r.parked >= 0 {
		engine.Close(r.parked, false)
		r.parked = -1
	}
}

func (l *loop) closeListener(r *replica) {
	if r.fd >= 0 {
		engine.Close(r.fd, false)
		r.fd = -1
	}
}

// drain, in mail: no new connections, and none is kept for another request.
// Services that others call go on for as long as a request may need them.
func (l *loop) drain() {
	l.draining = true
	l.closeUnused(false)
}

// closeUnused closes the listeners, and the connections without a request, of all
// services, or but of those that others call.
func (l *loop) closeUnused(called bool) {
	for _, r := range l.replicas {
		if called || !r.node.called {
			l.closeListenerOf(r)
		}
	}
	for id := range l.conns.Len() {
		c := l.conns.At(uint32(id))
		if c.fd >= 0 && (c.state == shaking || c.state == deaf || c.state == reading && !c.begun()) && (called || !l.replicas[c.replica].node.called) {
			l.close(uint32(id))
		}
	}
}

// reset, in mail, empties the tallies.
func (l *loop) reset() {
	if l.front != nil && l == l.target.loops[0] {
		clear(l.front.dealt)
	}
	l.tallies.reset()
	l.resets++
	l.ring.reset()
	l.records.Each(func(r *record) { r.run = noRun })
	l.conns.Each(func(c *conn) { c.run = noRun })
	l.plays.Each(func(p *play) { p.rec.run = noRun })
	for _, r := range l.replicas {
		r.arrivals = 0
		r.server.ForgetKeys()
	}
	l.sockets = Connections{}
	l.hops.reset()
	if l.beyond != nil {
		l.beyond.reset()
	}
}

// do runs f on the loop's thread and waits for it; once the loop has ended, or
// before it has begun, it runs f itself. Any goroutine but the loop's may call it.
func (l *loop) do(f func()) {
	l.gate.Lock()
	defer l.gate.Unlock()
	if !l.running || ended(l.done) {
		f()
		return
	}
	ran := make(chan struct{})
	l.mail <- func() { f(); close(ran) } // never blocks: the gate lets one in
	l.poll.Wake()
	select {
	case <-ran:
	case <-l.done:
		if !ended(ran) {
			f()
		}
	}
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stop ends the loop and waits for it. Any goroutine but the loop's may call it,
// also twice.
func (l *loop) stop() {
	l.do(func() { l.stopped = true })
	if l.running {
		<-l.done
	}
	l.gate.Lock()
	defer l.gate.Unlock()
	if !l.closed {
		l.closed = true
		l.closeListeners()
		l.poll.Close()
	}
}
