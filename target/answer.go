package target

import (
	"syscall"
	"time"

	"latencylab/clock"
	"latencylab/http1"
	"latencylab/service"
)

const (
	headRoom  = 512      // of outbox.buf, for a head in front of its body
	fillSize  = 64 << 10 // of outbox.buf, the body
	phase     = 64       // bytes after which the body of http1.AppendResponse repeats
	flushSize = 1 << 20  // bytes written to one connection in a turn
	keepBuf   = 1 << 10  // buffers in reserve
	maxBuf    = 4 << 10  // largest buffer that is kept in reserve
)

// outbox holds what a loop writes answers with.
type outbox struct {
	buf     []byte // headRoom bytes, then fillSize+phase bytes of body
	head    []byte // scratch
	goAhead []byte
	date    []byte // value of Date until dateEnd
	dateEnd clock.Time
	chunked bool // its body comes in chunks
	worked  bool // the answer that is begun says so, and for how long
	work    time.Duration
	spare   [][]byte // buffers for what connections keep, empty
}

func (o *outbox) init() {
	whole := http1.AppendResponse(nil, http1.Answer{Status: 200, Body: fillSize + phase, Replica: -1})
	o.buf = make([]byte, headRoom+fillSize+phase)
	copy(o.buf[headRoom:], whole[len(whole)-fillSize-phase:])
	o.head = make([]byte, 0, headRoom)
	o.goAhead = []byte(http1.Continue)
	o.date = make([]byte, 0, 32)
}

// get returns an empty buffer, give takes it back; nil is no buffer.
func (o *outbox) get() []byte {
	if n := len(o.spare); n > 0 {
		b := o.spare[n-1]
		o.spare = o.spare[:n-1]
		return b
	}
	return make([]byte, 0, 512)
}

func (o *outbox) give(b []byte) {
	if b != nil && cap(b) <= maxBuf && len(o.spare) < keepBuf {
		o.spare = append(o.spare, b[:0])
	}
}

// answer writes what the server decided about a request.
func (l *loop) answer(rec *record, a *service.Answer) {
	t := l.tallies.at(rec.run)
	if rec.conn == none {
		t.AfterLeft++
		l.finish(rec, a, endAfterLeft)
		return
	}
	l.conns.At(rec.conn).rec = none
	l.reply(rec.conn, rec, a)
}

// reply writes the answer of a record whose connection is id and has let go of it.
func (l *loop) reply(id uint32, rec *record, a *service.Answer) {
	t := l.tallies.at(rec.run)
	left := l.conns.At(id).left
	rec.carry(l.conns.At(id))
	l.out.worked, l.out.work = a.Worked, rec.worked()
	wrote := l.write(id, int(a.Status), a.RetryAfter, nil, a.Body)
	l.out.worked = false
	rec.written = clock.Now()
	t.delayError.Record(int64(rec.written - rec.due))
	if left || !wrote {
		t.AfterLeft++
		l.finish(rec, a, endAfterLeft)
		return
	}
	t.answered[a.Status-firstStatus]++
	l.finish(rec, a, endAnswered)
}

// breakOff closes the connection of a request instead of an answer, as the
// fault says.
func (l *loop) breakOff(rec *record, a *service.Answer) {
	t := l.tallies.at(rec.run)
	if rec.conn == none {
		t.AfterLeft++
		l.finish(rec, a, endAfterLeft)
		return
	}
	c := l.conns.At(rec.conn)
	end := endBroken
	if c.left {
		end = endAfterLeft
		t.AfterLeft++
	} else {
		t.Broken++
		t.faults[a.Fault]++
	}
	c.rec = none
	l.shut(rec.conn, a.Fault == service.FaultReset)
	rec.written = clock.Now()
	t.delayError.Record(int64(rec.written - rec.due))
	l.finish(rec, a, end)
}

// announce answers the well-known path: not counted, not delayed.
func (l *loop) announce(id uint32) {
	c := l.conns.At(id)
	l.sockets.WellKnown++
	c.run = noRun
	l.write(id, 200, 0, l.replicas[c.replica].wellKnown, 0)
}

// refuse answers bytes that are no request and gives the connection up.
func (l *loop) refuse(id uint32, fault http1.Fault) {
	c := l.conns.At(id)
	l.letGo(c)
	c.final, c.run = true, noRun
	status := fault.Status()
	switch status {
	case 431:
		l.sockets.Bad431++
	case 501:
		l.sockets.Bad501++
	case 505:
		l.sockets.Bad505++
	default:
		l.sockets.Bad400++
	}
	c.held = true // there may be more of it
	l.write(id, status, 0, faultBody[fault], 0)
}

// faultBody[f] is the body of the answer to a request of that fault.
var faultBody = func() (b [256][]byte) {
	for f := range b {
		b[f] = []byte(http1.Fault(f).String() + "\n")
	}
	return b
}()

// write begins an answer whose body is text, or fill bytes of the service's body
// when text is nil, and goes on with it as far as the socket takes it. ok is false when
// the connection is broken; it is then closed.
func (l *loop) write(id uint32, status int, retryAfter time.Duration, text []byte, fill int) (ok bool) {
	c := l.conns.At(id)
	o := &l.out
	c.final = c.final || l.draining
	b := l.appendHead(o.head[:0], c, status, retryAfter, len(text)+fill)
	if c.req.Head() || status == 204 || status == 304 {
		text, fill = nil, 0
	}
	b = append(b, text...)
	n := len(b) // bytes before the filler
	if c.up != nil {
		b = append(b, l.body(c, 0, fill)...)
	}
	o.head = b[:0]
	if fill > 0 && c.up == nil && n <= headRoom {
		copy(o.buf[headRoom-n:], b)
		b = o.buf[headRoom-n : headRoom+min(fill, fillSize)]
	}
	w, e := c.send(b)
	if e != 0 && e != syscall.EAGAIN && e != syscall.EINTR {
		l.close(id)
		return false
	}
	if w == n+fill && !c.unsent() {
		l.ended(id)
		return true
	}
	if w < n {
		c.rest = append(o.get(), b[w:n]...)
		c.fill = fill
	} else {
		c.fill = fill - (w - n)
	}
	c.whole = fill
	c.state, c.since = writing, l.now
	l.idle.Set(id, l.now.Add(l.patience))
	l.flush(id)
	return true
}

// flush goes on with an answer that the socket did not take whole.
func (l *loop) flush(id uint32) {
	c := l.conns.At(id)
	for budget := flushSize; budget > 0; {
		if c.sec != nil && !l.flushSecure(id) {
			return
		}
		b := c.rest
		if len(b) == 0 {
			b = l.body(c, c.whole-c.fill, c.fill)
		}
		w, e := c.send(b)
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			return
		case e != 0:
			l.tallies.at(c.run).CutShort++
			l.close(id)
			return
		}
		budget -= w
		c.since = l.now
		if len(c.rest) == 0 {
			c.fill -= w
		} else if c.rest = c.rest[w:]; len(c.rest) == 0 {
			c.rest = nil
		}
		if c.rest == nil && c.fill == 0 && !c.unsent() {
			l.ended(id)
			return
		}
	}
	l.later(id)
}

// ended closes a connection after its answer, or turns it to the next request.
func (l *loop) ended(id uint32) {
	c := l.conns.At(id)
	l.letGo(c)
	if c.final {
		if c.held || c.readable || len(c.in) > 0 {
			l.lingerOn(id)
		} else {
			l.close(id)
		}
		return
	}
	c.req.Begin()
	c.watch(l.replicas[c.replica])
	c.state, c.since = reading, l.now
	c.part, c.continued = false, false
	if len(c.in) > 0 || c.readable || c.hungUp {
		l.later(id)
	}
}

// appendHead appends the head of an answer with a body of n bytes.
func (l *loop) appendHead(b []byte, c *conn, status int, retryAfter time.Duration, n int) []byte {
	if c.up != nil {
		return l.appendUpstream(b, c, status, n)
	}
	return http1.AppendResponse(b, http1.Answer{
		Status:     status,
		RetryAfter: int((retryAfter + time.Second - 1) / time.Second),
		Body:       n,
		Replica:    l.replicas[c.replica].index,
		Worked:     l.out.worked,
		Work:       l.out.work,
		LeftOut:    l.hops.leftOut,
		Chunked:    l.out.chunked,
		Head:       true, // the body follows by other means
		KeepAlive:  !c.final,
		HTTP10:     c.req.HTTP10(),
		Date:       l.out.dateOf(l.now),
	})
}

// dateOf returns the value of Date at now, which is made anew once a second.
func (o *outbox) dateOf(now clock.Time) []byte {
	if now >= o.dateEnd {
		_, wall := clock.Pair()
		second := wall / int64(time.Second)
		o.date = http1.AppendDate(o.date[:0], second)
		o.dateEnd = now.Add(time.Duration((second+1)*int64(time.Second) - wall))
	}
	return o.date
}

// filler returns bytes of the repeating body from offset at, at most n of them.
func (o *outbox) filler(at, n int) []byte {
	if at %= phase; at < 0 {
		at += phase
	}
	return o.buf[headRoom+at : headRoom+at+min(n, fillSize)]
}
