package engine

import (
	"cmp"
	"slices"
	"syscall"

	"latencylab/clock"
	"latencylab/http1"
	"latencylab/ledger"
	"latencylab/policy"
)

// maxRead is how much of one socket is read before others get their turn.
const maxRead = 1 << 20

type connState uint8

const (
	connFree connState = iota
	connDialing
	connShaking // the TLS handshake is under way
	connIdle
	connBusy     // carries an attempt
	connAnswered // its answer is complete and waits for its turn
	connDraining // carries an attempt that was cancelled
)

// conn is one connection. A conn without a partial answer or request holds no
// memory beside this record.
type conn struct {
	resp http1.Response
	call *call      // whose attempt it carries; nil when none
	sec  *Secure    // nil: plain HTTP
	sent clock.Time // of that attempt; while dialling and shaking: when that began
	// first is the instant of the answer's first byte when its last came in a
	// later read, else 0.
	first      clock.Time
	in         *[]byte // bytes of a partial line of the answer
	out        *[]byte // bytes of the request that the socket did not take yet
	next, prev uint32  // idle list of its pool, or list of handshakes: index plus 1, 0 at the ends
	index, gen uint32
	dial       uint32 // while dialling: the number of what it takes part in
	fd         int32
	endpoint   uint16
	to         uint16 // number of the address among those that it was dialled from
	lane       uint8
	slot       uint8
	state      connState
	carried    bool // has carried an attempt before
	headed     bool // the head of the answer was told
	closing    bool // the peer has closed, or sent what was not asked for
}

// failure is something that went wrong inside a step and is told after it, so
// that no step is entered twice: an attempt's write, or a dial.
type failure struct {
	cn   *conn // nil: a dial
	dial *dialling
	gen  uint32
	err  error
}

// flushPending tells the failures of the steps before.
func (l *loop) flushPending() {
	for i := 0; i < len(l.pending); i++ {
		f := l.pending[i]
		if f.cn == nil {
			l.tellDial(f.dial)
			l.dials.Put(f.dial.index)
		} else if f.cn.gen == f.gen && f.cn.state == connBusy {
			l.broken(f.cn, f.cn.staleOr(classOf(f.err, ledger.ClassWrite)), policy.PhaseWrite, f.err)
		}
	}
	l.pending = l.pending[:0]
}

// ready handles what the poller found on one connection.
func (l *loop) ready(token uint64, r Ready) {
	cn := l.conns.At(uint32(token))
	if cn.gen != uint32(token>>32) || cn.state == connFree {
		return // closed earlier in this turn
	}
	if cn.state == connDialing {
		if r&(Writable|HungUp) == 0 {
			return
		}
		l.connected(cn)
		if cn.state == connFree || cn.gen != uint32(token>>32) {
			return
		}
	}
	if r&Writable != 0 && (cn.out != nil || cn.state == connShaking) {
		l.writeRest(cn)
	}
	if r&(Readable|HungUp) != 0 {
		l.receive(cn, r)
	}
}

// connected ends a TCP handshake, well or not.
func (l *loop) connected(cn *conn) {
	ln := &l.lanes[cn.lane]
	if err := SocketError(int(cn.fd)); err != nil {
		l.refused(cn, err)
		return
	}
	l.won(cn)
	ln.book[l.phase()].Connect.Record(int64(l.polled.Sub(cn.sent)))
	if cfg := ln.pools[cn.endpoint].tls; cfg != nil {
		l.shake(cn, cfg)
		return
	}
	l.opened(cn)
}

// opened makes a connection available.
func (l *loop) opened(cn *conn) {
	ln := &l.lanes[cn.lane]
	ln.pools[cn.endpoint].dialing--
	if !l.reached {
		l.reached = true
		l.eng.reached.Store(true)
	}
	l.pushIdle(cn)
	ln.book[l.phase()].Connections.Opened++
	if ln == l.ln { // else its own lane's block has ended meanwhile
		l.serve(cn.endpoint)
	}
}

// phase is the book that events without a call of their own are written in.
func (l *loop) phase() int {
	if l.polled < l.run.dataStart && l.run.block.Ramp+l.run.block.Burn > 0 {
		return 1
	}
	return 0
}

// closeConn closes a connection in any state but free and dialling; it tells no call.
func (l *loop) closeConn(cn *conn, reset bool) {
	switch cn.state {
	case connIdle:
		l.unlink(cn)
	case connDraining:
		l.lanes[cn.lane].draining--
	}
	l.release(cn, reset)
}

func (l *loop) release(cn *conn, reset bool) {
	cn.close(reset)
	ln := &l.lanes[cn.lane]
	ln.open--
	ln.pools[cn.endpoint].open--
	cn.state, cn.call, cn.sec, cn.in, cn.out = connFree, nil, nil, nil, nil
	cn.gen++
	l.conns.Put(cn.index)
}

// send writes the attempt's request on an idle connection. since is when the
// attempt began to wait for one, now a fresh reading of the clock.
func (l *loop) send(cn *conn, c *call, slot uint8, since, now clock.Time) {
	ln := l.ln
	t := ln.template
	at := &c.slots[slot]
	if ln.policy.Wire != policy.WireNone && !l.setDeadline(t, c) && ln.bare != nil {
		t = ln.bare
	}
	t.SetCall(c.id)
	t.SetAttempt(at.number)
	if l.fed != nil {
		l.fed.trace(t, c)
	}
	cn.resp.Begin(t.Head(), cn.carried)
	cn.state, cn.call, cn.slot, cn.first, cn.headed = connBusy, c, slot, 0, false
	at.state, at.conn = slotSent, cn
	b := ln.book[c.burn]
	l.sent(c.burn, at.kind)
	if cn.carried {
		b.Connections.Reused++
	}
	cn.carried = true
	cn.sent = now
	if at.kind != policy.Hedged {
		b.PoolWait.Record(int64(now.Sub(since)))
	}
	req := t.Bytes()
	b.BytesOut += uint64(len(req))
	if cn.sec != nil {
		l.sendSecure(cn, req)
		return
	}
	n, e := Write(int(cn.fd), req)
	if e == syscall.EINTR {
		n, e = Write(int(cn.fd), req)
	}
	if e != 0 && e != syscall.EAGAIN {
		l.pending = append(l.pending, failure{cn: cn, gen: cn.gen, err: e})
		return
	}
	if n < len(req) {
		rest := append([]byte(nil), req[n:]...)
		cn.out = &rest
	}
}

// setDeadline writes the time that is left of the call's deadline into its
// request. It returns false for a call without one.
func (l *loop) setDeadline(t *http1.RequestTemplate, c *call) bool {
	now := clock.Now()
	left, ok := c.k.Left(l.policyTime(now))
	if !ok {
		return false
	}
	var b [40]byte
	t.SetField(l.ln.policy.Wire.Append(b[:0], left, l.wall+int64(now.Sub(l.polled))))
	return true
}

// writeRest goes on with a request that the socket did not take whole.
func (l *loop) writeRest(cn *conn) {
	if cn.sec != nil {
		l.writeSecure(cn)
		return
	}
	for len(*cn.out) > 0 {
		n, e := Write(int(cn.fd), *cn.out)
		if e == syscall.EINTR {
			continue
		}
		if e == syscall.EAGAIN {
			return
		}
		if e != 0 {
			// A server may answer and close before it has read all: what it
			// sent is read first, and the read tells the failure.
			return
		}
		*cn.out = (*cn.out)[n:]
	}
	l.written(cn)
}

// written says that the request is written whole.
func (l *loop) written(cn *conn) {
	cn.out = nil
	if cn.state == connBusy {
		l.progress(cn, policy.PhaseFirstByte)
	}
}

// unfinished is a socket that was not read to its end.
type unfinished struct {
	token uint64
	ready Ready
}

// receive reads all that lies in a socket. While a long answer keeps coming in
// as fast as it is read, it stops at what lay there after maxRead bytes and goes
// on in the next turn.
func (l *loop) receive(cn *conn, r Ready) {
	gen, left, last := cn.gen, maxRead, false
	for cn.gen == gen {
		n, stamp, e := l.recv.Read(int(cn.fd))
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			return
		case cn.sec != nil:
			if !l.receiveSecure(cn, n, stamp, e) {
				return
			}
		case e != 0:
			l.readFailed(cn, e, classOf(e, ledger.ClassRead))
			return
		case n == 0:
			l.endOfStream(cn, false)
			return
		default:
			l.feed(cn, l.recv.Buf[:n], stamp)
		}
		if n < len(l.recv.Buf) && r&HungUp == 0 {
			return
		}
		if left -= n; left > 0 {
			continue
		}
		if last {
			l.again = append(l.again, unfinished{cn.token(), r})
			return
		}
		left, last = Unread(int(cn.fd)), true
	}
}

// feed passes received bytes to the parser of the connection.
func (l *loop) feed(cn *conn, b []byte, stamp int64) {
	switch cn.state {
	case connIdle:
		l.lanes[cn.lane].book[l.phase()].AddError(ledger.ErrorKey{Class: ledger.ClassUnexpectedBytes, Phase: policy.PhaseAcquire}, "bytes on an idle connection")
		l.closeConn(cn, false)
		return
	case connAnswered:
		cn.closing = true // bytes behind the answer
		l.surplus(cn)
		return
	}
	if cn.in != nil {
		*cn.in = append(*cn.in, b...)
		b = *cn.in
	}
	n, done, f := l.memo.feed(&cn.resp, b)
	switch {
	case f != http1.FaultNone:
		cn.closing = true
		l.finishConn(cn, completion{fault: classOfFault(f)}, stamp)
	case done:
		e := completion{coalesced: n < len(b)}
		if n < len(b) {
			cn.closing = true
			l.surplus(cn)
		}
		l.finishConn(cn, e, stamp)
	default:
		if cn.in == nil && n < len(b) {
			rest := append([]byte(nil), b[n:]...)
			cn.in = &rest
		} else if cn.in != nil {
			*cn.in = append((*cn.in)[:0], b[n:]...)
			if len(*cn.in) == 0 {
				cn.in = nil
			}
		}
		if cn.state == connBusy && cn.first == 0 && cn.resp.Started() {
			l.read = clock.Now()
			l.now = l.read
			cn.first = l.instant(stamp, cn.sent)
			if cn.first == clock.Never {
				cn.first = l.read
			}
			l.progress(cn, policy.PhaseBody)
		} else if cn.state == connBusy && l.ln.phased && cn.first != 0 {
			l.now = clock.Now()
			l.progress(cn, policy.PhaseBody)
		}
		if l.ln.heads && cn.state == connBusy && !cn.headed && cn.resp.HeadDone() {
			cn.headed = true
			l.done = append(l.done, completion{cn: cn, stamp: stamp, head: true, call: cn.call, number: cn.call.slots[cn.slot].number})
		}
	}
}

func (l *loop) surplus(cn *conn) {
	l.lanes[cn.lane].book[l.phase()].AddError(ledger.ErrorKey{Class: ledger.ClassUnexpectedBytes, Phase: policy.PhaseBody}, "bytes behind a complete answer")
}

// instant turns a kernel stamp into an instant between sent and the read, or
// Never when it does not lie there.
func (l *loop) instant(stamp int64, sent clock.Time) clock.Time {
	if stamp == 0 {
		return clock.Never
	}
	at := l.polled + clock.Time(stamp-l.wall)
	if at < sent || at > l.read {
		return clock.Never
	}
	return at
}

// endOfStream handles a peer that closed its side. cut says that it may have
// wanted to send more: what only the end of the stream completes is not whole.
func (l *loop) endOfStream(cn *conn, cut bool) {
	switch cn.state {
	case connIdle:
		l.closeConn(cn, false)
	case connAnswered:
		cn.closing = true
	case connBusy, connDraining:
		cn.closing = true
		f := cn.eof()
		if cut && f == http1.FaultNone {
			f = http1.TruncatedBody
		}
		l.finishConn(cn, completion{fault: classOfFault(f)}, 0)
	}
}

// readFailed handles an error of reading.
func (l *loop) readFailed(cn *conn, err error, class ledger.Class) {
	switch cn.state {
	case connIdle:
		l.closeConn(cn, false)
	case connAnswered:
		cn.closing = true
	case connBusy, connDraining:
		cn.closing = true
		l.finishConn(cn, completion{fault: cn.staleOr(class), err: err}, 0)
	}
}

// eof tells the parser that nothing more comes, and returns what is wrong with that.
func (cn *conn) eof() http1.Fault {
	pending := 0
	if cn.in != nil {
		pending = len(*cn.in)
	}
	_, f := cn.resp.EOF(pending)
	return f
}

// staleOr corrects the class of an error of reading or writing. A server that
// closes an idle connection just when it is used again may answer the request
// with RST: that is stale as well.
func (cn *conn) staleOr(class ledger.Class) ledger.Class {
	if class == ledger.ClassReset && cn.eof() == http1.StaleConnection {
		return ledger.ClassStaleConnection
	}
	return class
}

// finishConn queues the end of what the connection carried.
func (l *loop) finishConn(cn *conn, e completion, stamp int64) {
	if cn.state == connDraining {
		l.ln.draining--
	}
	cn.state = connAnswered
	e.cn, e.stamp = cn, stamp
	l.done = append(l.done, e)
}

// order dates what the reads of this turn brought and puts it in the order of
// its instants.
func (l *loop) order() {
	if len(l.done) == 0 {
		return
	}
	l.read = clock.Now()
	l.now = l.read
	sorted, last := true, clock.Time(0)
	for i := range l.done {
		e := &l.done[i]
		e.at = l.instant(e.stamp, e.cn.sent)
		e.stamped = e.at != clock.Never
		if !e.stamped {
			e.at = l.read
		}
		sorted = sorted && e.at >= last
		last = e.at
	}
	if !sorted {
		slices.SortStableFunc(l.done, func(a, b completion) int { return cmp.Compare(a.at, b.at) })
	}
}

var faultClasses = map[http1.Fault]ledger.Class{
	http1.FaultNone:            ledger.ClassNone,
	http1.BadStatusLine:        ledger.ClassBadStatusLine,
	http1.BadFraming:           ledger.ClassBadFraming,
	http1.BadHeader:            ledger.ClassBadHeader,
	http1.HeaderTooLarge:       ledger.ClassHeaderTooLarge,
	http1.UnexpectedUpgrade:    ledger.ClassUnexpectedUpgrade,
	http1.TruncatedHeader:      ledger.ClassTruncatedHeader,
	http1.TruncatedBody:        ledger.ClassTruncatedBody,
	http1.ClosedBeforeResponse: ledger.ClassClosedBeforeResponse,
	http1.StaleConnection:      ledger.ClassStaleConnection,
	http1.UnexpectedBytes:      ledger.ClassUnexpectedBytes,
}

func classOfFault(f http1.Fault) ledger.Class {
	if c, ok := faultClasses[f]; ok {
		return c
	}
	return ledger.ClassOther
}
