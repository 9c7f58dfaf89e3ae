package target

import (
	"fmt"
	"syscall"
	"time"

	"latencylab/clock"
	"latencylab/http1"
	"latencylab/service"
)

// play is an answer under way that a fault spoils: what of it goes out when, and
// what comes after. Its bytes are those that the connection has to write; the
// loop's timers let them out.
type play struct {
	rec   record
	a     service.Answer
	then  curtain
	size  int        // bytes of the body in all
	open  int        // bytes that may go now
	more  int        // bytes that may go later
	piece int        // of them, at each Interval
	tail  int        // bytes that go with the last piece
	times int        // interim answers that are still to come
	every int64      // the Interval, in ns
	next  clock.Time // when the next piece may go
}

// curtain is what comes after the last byte of a play.
type curtain uint8

const (
	goesOn curtain = iota // the answer is whole
	stalls                // nothing more comes
	closes                // FIN
	resets                // RST
)

// perform begins an answer that a fault spoils.
func (l *loop) perform(rec *record, a *service.Answer) {
	t := l.tallies.at(rec.run)
	if rec.conn == none {
		t.AfterLeft++
		l.finish(rec, a, endAfterLeft)
		return
	}
	id := rec.conn
	c := l.conns.At(id)
	c.rec = none
	if c.left { // nobody is left to spoil it for
		t.AfterLeft++
		l.close(id)
		l.finish(rec, a, endAfterLeft)
		return
	}
	if a.Fault.NeedsBody() && (c.req.Head() || a.Body == 0) {
		l.reply(id, rec, a)
		return
	}
	rec.carry(c)
	t.faults[a.Fault]++
	n, p := l.plays.Take()
	*p = play{rec: *rec, a: *a, next: l.now}
	c.play = n
	l.stage(c, p)
	c.state, c.since = playing, l.now
	due := rec.due
	l.playOn(id)
	t.delayError.Record(int64(clock.Now() - due))
}

// stage gives the connection the bytes of the answer, and says what of them goes
// when.
func (l *loop) stage(c *conn, p *play) {
	shape := l.shapeOf(c, p)
	if p.a.Fault == service.FaultInterim {
		p.every, p.times = int64(shape.Interval), shape.Times
		l.interim(c, p)
		return
	}
	head := l.whole(c, p)
	switch p.a.Fault {
	case service.FaultHeadTruncated:
		p.open, p.then = min(max(shape.Sent(head), 1), head-1), closes
	case service.FaultHeadDrip:
		p.piece, p.every = shape.Bytes, int64(shape.Interval)
		p.open = min(p.piece, head)
		p.more, p.tail = head-p.open, c.fill
		if p.more == 0 {
			p.open, p.tail = head+c.fill, 0
		}
	case service.FaultBodyStall:
		p.open, p.then = head+shape.Sent(c.fill), stalls
	case service.FaultBodyReset:
		p.open, p.then = head+shape.Sent(c.fill), resets
	case service.FaultChunkCut:
		p.open, p.then = head+shape.Sent(c.fill), closes
	case service.FaultBodyDrip:
		p.open, p.more = head, c.fill
		p.piece, p.every = shape.Bytes, int64(shape.Interval)
	case service.FaultBadStatusLine, service.FaultBadHeader, service.FaultDuplicateLength, service.FaultLengthLong, service.FaultCloseAfter:
		p.then = closes
	}
}

// shapeOf is what the fault of the play looks like at its replica.
func (l *loop) shapeOf(c *conn, p *play) *service.Shape {
	return l.replicas[c.replica].server.Shape(p.a.Fault)
}

// whole gives the connection all bytes of the answer, with what the fault puts
// into them, and lets them go at once. It returns the length of the head.
func (l *loop) whole(c *conn, p *play) (head int) {
	c.final = c.final || l.draining
	says, surplus := p.a.Body, 0 // the length in the head, and what comes beyond
	switch p.a.Fault {
	case service.FaultLengthLong:
		says += l.shapeOf(c, p).Bytes
	case service.FaultLengthShort:
		surplus = l.shapeOf(c, p).Bytes
	}
	l.out.worked, l.out.work = p.a.Worked, p.rec.worked()
	l.out.chunked = p.a.Fault == service.FaultChunkCut
	if c.rest == nil {
		c.rest = l.out.get()
	}
	b := l.appendHead(c.rest[:0], c, int(p.a.Status), p.a.RetryAfter, says)
	l.out.worked, l.out.chunked = false, false
	switch p.a.Fault {
	case service.FaultBadStatusLine:
		b[len("HTTP/1.1 2")] = 'x'
	case service.FaultBadHeader:
		b = append(b[:len(b)-2], "this line is no field\r\n\r\n"...)
	case service.FaultDuplicateLength:
		b = fmt.Appendf(b[:len(b)-2], "Content-Length: %d\r\n\r\n", says+1)
	case service.FaultChunkCut:
		b = fmt.Appendf(b, "%x\r\n", p.a.Body)
	}
	c.rest = b
	if c.fill = p.a.Body + surplus; c.req.Head() {
		c.fill = 0
	}
	p.size = c.fill
	p.open = len(b) + c.fill
	return len(b)
}

// interim gives the connection the next interim answer.
func (l *loop) interim(c *conn, p *play) {
	p.times--
	if c.rest == nil {
		c.rest = l.out.get()
	}
	c.rest = http1.AppendInterim(c.rest[:0], int(l.shapeOf(c, p).Status))
	p.open, p.more = len(c.rest), 1
}

// playOn writes what may go, as far as the socket takes it.
func (l *loop) playOn(id uint32) {
	c := l.conns.At(id)
	p := l.plays.At(c.play)
	for budget := flushSize; p.open > 0 || c.unsent(); {
		if budget <= 0 {
			l.later(id)
			return
		}
		w, e := l.playSome(c, p)
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			l.idle.Set(id, c.since.Add(l.patience))
			return
		case e != 0:
			l.forsake(id)
			return
		}
		budget -= w
		c.since = l.now
	}
	if p.more > 0 {
		p.next = p.next.Add(time.Duration(p.every))
		l.idle.Set(id, p.next)
		return
	}
	l.curtain(id)
}

// playSome writes some of what may go, and first what TLS has left of it.
func (l *loop) playSome(c *conn, p *play) (w int, e syscall.Errno) {
	if c.unsent() {
		if err := c.sec.Flush(); err != nil {
			return 0, errno(err)
		}
		if c.unsent() {
			return 0, syscall.EAGAIN
		}
		return 0, 0
	}
	b := c.rest
	if len(b) == 0 {
		b = l.body(c, p.size-c.fill, c.fill)
	}
	if w, e = c.send(b[:min(len(b), p.open)]); e == 0 {
		p.open -= w
		c.wrote(&l.out, w)
	}
	return w, e
}

// wrote takes w bytes from the front of what the connection has to write.
func (c *conn) wrote(o *outbox, w int) {
	if len(c.rest) == 0 {
		c.fill -= w
		return
	}
	if n := copy(c.rest, c.rest[w:]); n > 0 {
		c.rest = c.rest[:n]
		return
	}
	o.give(c.rest)
	c.rest = nil
}

// cue is the timer of a play: the next piece may go, or a peer that does not
// read has had its time.
func (l *loop) cue(id uint32) {
	p := l.plays.At(l.conns.At(id).play)
	switch {
	case p.open > 0 || l.conns.At(id).unsent():
		l.sockets.TimedOut++
		l.forsake(id)
	case p.more > 0:
		l.more(l.conns.At(id), p)
		l.playOn(id)
	}
}

// more lets the next piece go.
func (l *loop) more(c *conn, p *play) {
	if p.a.Fault == service.FaultInterim {
		if p.times > 0 {
			l.interim(c, p)
			return
		}
		p.more = 0
		l.whole(c, p)
		return
	}
	p.open = min(p.piece, p.more)
	if p.more -= p.open; p.more == 0 {
		p.open += p.tail
	}
}

// curtain ends a play of which every byte is written.
func (l *loop) curtain(id uint32) {
	c := l.conns.At(id)
	p := l.plays.At(c.play)
	if p.then == stalls { // until its caller leaves
		l.idle.Set(id, clock.Never)
		return
	}
	t, how := l.tallies.at(p.rec.run), endBroken
	if p.a.Fault.Breaks() {
		t.Broken++
	} else {
		t.answered[p.a.Status-firstStatus]++
		how = endAnswered
	}
	then := p.then
	l.lower(c, p, how)
	switch then {
	case goesOn:
		l.idle.Set(id, l.now.Add(l.patience))
		l.ended(id)
	case resets:
		l.shut(id, true)
	default:
		c.final = true
		l.ended(id)
	}
}

// lower takes the play from its connection and records the end of its request.
func (l *loop) lower(c *conn, p *play, how end) {
	p.rec.written = l.now
	l.finish(&p.rec, &p.a, how)
	l.plays.Put(c.play)
	c.play = none
	l.out.give(c.rest)
	c.rest, c.fill = nil, 0
}

// forsake ends a play whose caller has left, or does not take it.
func (l *loop) forsake(id uint32) {
	c := l.conns.At(id)
	p := l.plays.At(c.play)
	t := l.tallies.at(p.rec.run)
	t.Cancelled.Running++
	t.Cancelled.Dropped++
	t.CutShort++
	p.rec.left = l.now
	l.lower(c, p, endDropped)
	l.close(id)
}

// cut ends a play whose replica is killed.
func (l *loop) cut(c *conn) {
	p := l.plays.At(c.play)
	t := l.tallies.at(p.rec.run)
	t.Killed++
	t.Broken++
	t.CutShort++
	l.lower(c, p, endBroken)
}
