package target

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"latencylab/clock"
	"latencylab/engine"
	"latencylab/http1"
	"latencylab/service"
)

// keptIdle times Config.Idle is how long a connection may stay unused between
// requests.
const keptIdle = 10

// lingerFor is how long a connection whose request was refused is read on, so
// that the answer is not lost to the reset that unread bytes would cause (RFC
// 9112 9.6).
const lingerFor = 2 * time.Second

// connState is what a connection is doing.
type connState uint8

const (
	reading   connState = iota // a request, or waiting for one
	serving                    // its request is with the server
	writing                    // an answer that the socket did not take at once
	playing                    // an answer that a fault spoils
	deaf                       // accepted, and never read
	lingering                  // answered and half closed; what still comes is dropped
	shaking                    // the TLS handshake is under way
)

// conn is one connection, in the slab of its loop. Requests on it are served
// one after the other: what a caller sends ahead stays in the socket or in `in`.
type conn struct {
	fd      int            // -1 while the slot is free
	sec     *engine.Secure // nil: plain HTTP
	gen     uint32         // of the slot; old events are told by it
	replica uint16         // index in loop.replicas
	run     uint16         // tally of the last request
	rec     uint32         // record while serving, else none
	play    uint32         // index in loop.plays while playing, else none
	number  uint64         // among those that the replica has accepted, from 1
	state   connState
	// readable: bytes or the end may lie in the socket. held: they may have been
	// lying there while a request was served. hungUp: the peer has closed its
	// side or the connection broke. left: the server was told so.
	readable, held, hungUp, left bool
	// served: it has carried a request. again: and another one before. part: some
	// of the next one has come, and
	// its time runs. continued: 100 was sent for it. final: the connection closes
	// after the answer.
	served, again, part, continued, final bool
	// slow: it is read a little at a time, the next time at the instant next.
	slow        bool
	next        clock.Time
	since       clock.Time // when the state, or the progress in it, began
	in          []byte     // read and not consumed; nil when there is none
	rest        []byte     // of the answer's head, not written yet; nil when there is none
	fill, whole int        // bytes of the answer's body, not written yet and in all
	req         http1.Request
	up          *passage // the request being read, or the answer being written; nil without upstream
}

// begun reports whether a request is on its way in.
func (c *conn) begun() bool { return c.part || len(c.in) > 0 }

// token is what the poller returns for the connection.
func (l *loop) token(id uint32) uint64 {
	return uint64(id) | uint64(l.conns.At(id).gen&(1<<30-1))<<32
}

// connOf returns the connection of a token, nil when it is gone.
func (l *loop) connOf(token uint64) (uint32, *conn) {
	id := uint32(token)
	if int(id) >= l.conns.Len() || l.token(id) != token || l.conns.At(id).fd < 0 {
		return none, nil
	}
	return id, l.conns.At(id)
}

// accept takes every connection that waits at a listener.
func (l *loop) accept(replica int) {
	rp := l.replicas[replica]
	for fd := rp.fd; fd >= 0; {
		if at := rp.server.Opens(l.now); at > l.now {
			l.shutTo = min(l.shutTo, at)
			return
		}
		c, ok := l.acceptOne(fd)
		if !ok {
			return
		}
		if c >= 0 {
			l.open(c, replica)
		}
	}
}

// acceptOne takes a connection that waits at a listener; ok is false when there
// is none, and fd negative when there may be more but this one is gone.
func (l *loop) acceptOne(listener int) (fd int, ok bool) {
	c, again, err := engine.Accept(listener)
	switch {
	case again:
		return -1, false
	case err != nil:
		l.starved = true
		return -1, false
	case c < 0:
		return -1, true
	}
	if l.target.open.Add(1) > l.maxConns {
		l.target.open.Add(-1)
		engine.Close(c, false)
		l.sockets.Refused++
		return -1, true
	}
	return c, true
}

// open makes a connection of an accepted socket and reads what it has brought.
func (l *loop) open(fd, replica int) {
	id, c := l.conns.Take()
	rp := l.replicas[replica]
	rp.accepted++
	l.front.changed(rp.index, 1)
	*c = conn{fd: fd, gen: c.gen, replica: uint16(replica), number: rp.accepted, run: noRun, rec: none, play: none, readable: true, since: l.now}
	c.watch(rp)
	l.sockets.Accepted++
	if err := l.poll.Add(fd, l.token(id)); err != nil {
		l.close(id)
		return
	}
	cfg := l.target.tls
	switch f := rp.server.Accept(c.number, l.now); {
	case f == service.FaultAcceptReset:
		l.sockets.AcceptReset++
		l.shut(id, true)
		return
	case f == service.FaultAcceptSilence || f == service.FaultTLSStall && cfg != nil: // until its caller leaves
		l.sockets.AcceptSilence++
		c.state = deaf
		return
	case f == service.FaultSlowRead:
		l.sockets.SlowRead++
		c.slow = true
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, slowWindow) // what fails is read with a larger window
	case f.Phase() == service.PhaseTLS && cfg != nil:
		l.sockets.BadCertificate++
		cfg = l.target.badTLS[f]
	}
	if cfg != nil {
		c.sec, c.state = l.shakes.Server(fd, l.token(id), cfg), shaking
	}
	l.idle.Set(id, l.now.Add(l.patience))
	l.resume(id)
}

// watch has the next request on the connection keep what its script goes by.
func (c *conn) watch(rp *replica) {
	if name := rp.server.ScriptKey(); name != "" {
		c.req.Watch(name)
	}
}

// scriptKey is what the script of the request goes by: 0, the attempt, where its
// caller numbers its calls or names a run; see service.Spec.ScriptKey.
func (c *conn) scriptKey(rp *replica) uint64 {
	if rp.server.ScriptKey() == "" {
		return 0
	}
	_, numbered := c.req.LabCall()
	if _, run := c.req.LabRun(); numbered || run {
		return 0
	}
	if key, ok := c.req.Key(); ok {
		return key
	}
	return 1 // of all without
}

// close ends a connection. A request that it still carries goes on without it.
func (l *loop) close(id uint32) { l.shut(id, false) }

// shut is close, by RST instead of FIN if reset.
func (l *loop) shut(id uint32, reset bool) {
	c := l.conns.At(id)
	if c.rec != none {
		l.records.At(c.rec).conn = none
		c.rec = none
	}
	if c.play != none {
		l.plays.Put(c.play)
		c.play = none
	}
	if c.sec != nil {
		c.sec.Close(reset)
	} else {
		engine.Close(c.fd, reset)
	}
	l.idle.Set(id, clock.Never)
	l.letGo(c)
	l.out.give(c.in)
	l.out.give(c.rest)
	c.fd, c.sec, c.in, c.rest = -1, nil, nil, nil
	c.gen++
	l.front.changed(l.replicas[c.replica].index, -1)
	l.conns.Put(id)
	l.target.open.Add(-1)
}

// event is what the poller has found on a connection.
func (l *loop) event(token uint64, r engine.Ready) {
	id, c := l.connOf(token)
	if c == nil {
		return
	}
	if r&engine.HungUp != 0 {
		c.hungUp = true
	}
	if r&(engine.Readable|engine.HungUp) != 0 {
		c.readable = true
	}
	if r&engine.Writable != 0 && c.unsent() && c.state != writing {
		c.sec.Flush() // if it fails, a read tells
	}
	switch c.state {
	case reading, shaking:
		l.resume(id)
	case serving:
		c.held = c.held || c.readable
		if c.hungUp {
			l.leave(id)
		}
	case writing:
		c.held = c.held || c.readable
		if r&(engine.Writable|engine.HungUp) != 0 {
			l.flush(id)
		}
	case playing:
		c.held = c.held || c.readable
		if c.hungUp {
			l.forsake(id)
		} else if r&engine.Writable != 0 {
			l.playOn(id)
		}
	case deaf:
		if c.hungUp {
			l.close(id)
		}
	case lingering:
		l.linger(id)
	}
}

// resume takes up input: first what was read before, then what lies in the
// socket, until there is none or a request is whole.
func (l *loop) resume(id uint32) {
	c := l.conns.At(id)
	if c.state == shaking {
		l.shake(id)
		return
	}
	gen := c.gen
	alive := func() bool { return c.fd >= 0 && c.gen == gen && c.state == reading }
	if !c.part && len(c.in) > 0 { // sent ahead
		l.input(id, c.in, l.now)
	}
	for alive() && c.readable {
		if c.slow && !l.mayRead(id) {
			break
		}
		n, stamp, e := l.rx.Read(c.fd)
		if e == syscall.EINTR {
			continue
		}
		if e == syscall.EAGAIN && !c.hungUp {
			c.readable = false
			break
		}
		if e != 0 || n == 0 { // broken or at its end, with or without half a request
			l.close(id)
			return
		}
		if n < len(l.rx.Buf) && !c.hungUp {
			c.readable = false
		}
		if c.sec == nil {
			l.received(id, l.rx.Buf[:n], stamp)
		} else if !l.decrypt(id, l.rx.Buf[:n], stamp) {
			return
		}
	}
	if c.fd < 0 || c.gen != gen {
		return
	}
	if c.state == reading {
		c.held = false
	}
	if c.state == serving && c.hungUp {
		l.leave(id)
	}
}

// slowWindow is the receive buffer of a connection that is read slowly, in bytes:
// with much less, TCP itself would set the pace, by its probes of a closed window;
// the kernel doubles it.
const slowWindow = 64 << 10

// mayRead reports whether the interval of a connection that is read slowly has
// passed; if not, the idle timer comes back to it.
func (l *loop) mayRead(id uint32) bool {
	c := l.conns.At(id)
	if c.next > l.now {
		l.idle.Set(id, c.next)
		return false
	}
	c.next = l.now.Add(l.replicas[c.replica].server.Shape(service.FaultSlowRead).Interval)
	return true
}

// received is input with the instant and the read delay from the kernel's stamp.
func (l *loop) received(id uint32, b []byte, stamp int64) {
	c := l.conns.At(id)
	at, delay, ok := l.arrival(stamp)
	if c.held { // it lay there because an earlier request was being served
		at, ok = l.now, false
	}
	if len(c.in) > 0 {
		c.in = append(c.in, b...)
		b = c.in
	}
	if !l.input(id, b, at) {
		return
	}
	t := l.tallies.at(c.run)
	if ok {
		if c.rec != none {
			l.records.At(c.rec).read = uint32(min(delay, unread-1))
		}
		t.readDelay.Record(int64(delay))
	} else {
		t.Unstamped++
	}
}

// input feeds bytes to the request parser and keeps what is left. It reports
// whether a request was handed to the server.
func (l *loop) input(id uint32, b []byte, at clock.Time) (began bool) {
	c := l.conns.At(id)
	gen := c.gen
	for c.state == reading && len(b) > 0 {
		n, done, fault := c.req.Feed(b)
		if l.beyond != nil && fault == http1.FaultNone && !l.keepRequest(id, b[:n]) {
			return false
		}
		b = b[n:]
		if fault != http1.FaultNone {
			l.refuse(id, fault)
			return false
		}
		if !done {
			if !l.partial(id, len(b)) {
				return false
			}
			break
		}
		c.again, c.served = c.served, true
		c.final = !c.req.KeepAlive()
		if c.req.WellKnown() {
			l.announce(id)
		} else {
			began = true
			l.begin(id, at)
		}
		if c.fd < 0 || c.gen != gen {
			return began
		}
	}
	l.keep(c, b)
	return began
}

// keep stores bytes for the next input; they may be the end of what is kept.
func (l *loop) keep(c *conn, b []byte) {
	if len(b) == 0 {
		l.out.give(c.in)
		c.in = nil
		return
	}
	if c.in == nil {
		c.in = l.out.get()
	}
	c.in = append(c.in[:0], b...)
}

// partial is a request of which more must come. It asks for the body of a
// caller that waits for it, and limits the time: a head has Config.Idle from
// its first byte, a body from its last progress.
func (l *loop) partial(id uint32, left int) bool {
	c := l.conns.At(id)
	if !c.part || c.req.HeadDone() {
		c.since = l.now
	}
	if !c.part {
		c.part = true
		l.idle.Set(id, l.now.Add(l.patience))
	}
	if left == 0 && !c.continued && c.req.Expect100() {
		c.continued = true
		if n, _ := c.send(l.out.goAhead); n != len(l.out.goAhead) {
			l.close(id)
			return false
		}
	}
	return true
}

// closeIdle closes the connections whose peers took too long. Their timers are
// not moved at every request: one that fires early is set again.
func (l *loop) closeIdle() {
	for {
		id, ok := l.idle.Pop(l.now)
		if !ok {
			return
		}
		c := l.conns.At(id)
		limit := l.patience
		switch {
		case c.state == serving:
			l.idle.Set(id, l.now.Add(limit))
			continue
		case c.state == playing:
			l.cue(id)
			continue
		case c.slow && c.readable && c.state == reading:
			l.idle.Set(id, l.now.Add(limit))
			l.resume(id)
			continue
		case c.state == lingering:
			limit = lingerFor
		case c.state == reading && c.served && !c.part:
			limit *= keptIdle
		}
		if at := c.since.Add(limit); at > l.now {
			l.idle.Set(id, at)
			continue
		}
		if c.state != lingering {
			l.sockets.TimedOut++
		}
		if c.state == writing {
			l.tallies.at(c.run).CutShort++
		}
		l.close(id)
	}
}

// lingerOn half-closes a connection and drops what still comes.
func (l *loop) lingerOn(id uint32) {
	c := l.conns.At(id)
	if c.sec != nil {
		c.sec.Shut()
	}
	if unix.Shutdown(c.fd, unix.SHUT_WR) != nil {
		l.close(id)
		return
	}
	c.state, c.since = lingering, l.now
	l.idle.Set(id, l.now.Add(lingerFor))
	l.later(id) // not now: the read buffer may be in use
}

// linger reads and drops, at most a few buffers a turn.
func (l *loop) linger(id uint32) {
	c := l.conns.At(id)
	for range 8 {
		n, _, e := l.rx.Read(c.fd)
		switch {
		case e == syscall.EAGAIN:
			return
		case e == syscall.EINTR:
		case e != 0 || n == 0:
			l.close(id)
			return
		}
	}
	l.later(id)
}
