package engine

import (
	"crypto/tls"

	"latencylab/clock"
)

// maxDialing bounds the handshakes of one pool that are under way at once: a
// listener's queue holds a few hundred, and what overflows it waits a second.
const maxDialing = 64

// pool is the connections of one lane to one replica.
type pool struct {
	idle      connList // last used first
	open      int      // connections, those being dialled too
	dialing   int      // of them, those that no attempt can use yet
	shaking   int      // of those, the ones in a TLS handshake
	marked    int      // attempts that wait for them, the longest waiting ones
	wait      waiters
	connected []uint64    // connections by address of the endpoint, of all blocks
	tls       *tls.Config // nil: plain HTTP
}

// waiter is an attempt without a connection.
type waiter struct {
	call    *call
	id      uint64     // of the call, whose record may be used again
	at      clock.Time // since when it waits
	attempt uint32
	slot    uint8
}

// waiters is a queue; entries whose attempt has ended are skipped.
type waiters struct {
	q    []waiter
	head int
	live int // entries whose attempt has not ended
}

// push adds an attempt. Those that have ended make room before the queue grows,
// so that its size depends on how many wait at once.
func (w *waiters) push(e waiter) {
	if len(w.q) == cap(w.q) && w.live <= len(w.q)/2 {
		kept := w.q[:0]
		for _, old := range w.q[w.head:] {
			if old.waits() {
				kept = append(kept, old)
			}
		}
		w.q, w.head = kept, 0
	}
	w.q = append(w.q, e)
	w.live++
}

// pop takes the longest waiting attempt that has not ended.
func (w *waiters) pop() (e waiter, ok bool) {
	for w.head < len(w.q) {
		e = w.q[w.head]
		w.head++
		if e.waits() {
			w.live--
			ok = true
			break
		}
	}
	if w.head == len(w.q) {
		w.q, w.head = w.q[:0], 0
	}
	return e, ok
}

// connList is a list of connections that are linked by their next and prev: index
// plus 1, 0 at the ends. A connection is in one at most.
type connList struct{ head, tail uint32 }

// cut takes a connection out of the list that it is in.
func (l *loop) cut(from *connList, cn *conn) {
	if cn.prev != 0 {
		l.conns.At(cn.prev - 1).next = cn.next
	} else {
		from.head = cn.next
	}
	if cn.next != 0 {
		l.conns.At(cn.next - 1).prev = cn.prev
	} else {
		from.tail = cn.prev
	}
	cn.next, cn.prev = 0, 0
}

func (l *loop) pushIdle(cn *conn) {
	p := &l.lanes[cn.lane].pools[cn.endpoint].idle
	cn.state, cn.call = connIdle, nil
	cn.prev, cn.next = 0, p.head
	if p.head != 0 {
		l.conns.At(p.head - 1).prev = cn.index + 1
	} else {
		p.tail = cn.index + 1
	}
	p.head = cn.index + 1
	l.lanes[cn.lane].idle++
}

func (l *loop) unlink(cn *conn) {
	ln := &l.lanes[cn.lane]
	ln.idle--
	l.cut(&ln.pools[cn.endpoint].idle, cn)
}

// warm opens the connections of the closed loop's users in advance.
func (l *loop) warm() {
	for i := range l.ln.pools {
		if w := &l.ln.pools[i].wait; w.q == nil {
			w.q = make([]waiter, 0, l.users/len(l.ln.pools)+1)
		}
	}
	missing := l.users - l.ln.open
	for i := 0; i < min(missing, maxDialing*len(l.ln.pools)); i++ {
		l.dial(uint16(i % len(l.ln.pools)))
	}
}

func (cn *conn) token() uint64 { return uint64(cn.gen)<<32 | uint64(cn.index) }

// dialMore begins connections for attempts that wait for the replica.
func (l *loop) dialMore(endpoint uint16) {
	p := &l.ln.pools[endpoint]
	failed := len(l.pending)
	for p.dialing < min(p.wait.live, maxDialing) && l.room(endpoint) && len(l.pending) == failed {
		l.dial(endpoint)
	}
}

// dialWaiting begins connections for the attempts that wait, whichever replica
// they wait for. It begins with another one each time.
func (l *loop) dialWaiting() {
	ln := l.ln
	if ln.waiting == 0 || ln.open >= ln.ceiling && ln.idle == 0 {
		return
	}
	for i := range ln.pools {
		l.dialMore(uint16((ln.turn + i) % len(ln.pools)))
	}
	ln.turn = (ln.turn + 1) % len(ln.pools)
}

// serve gives the idle connections of a replica to the attempts that wait
// longest, and has connections dialled for those that are left.
func (l *loop) serve(endpoint uint16) {
	ln := l.ln
	if ln.waiting == 0 {
		return
	}
	p := &ln.pools[endpoint]
	for p.idle.head != 0 && p.wait.live > 0 {
		cn := l.conns.At(p.idle.head - 1)
		if cn.carried && ln.open >= ln.ceiling && l.starved() {
			l.closeConn(cn, false) // dialWaiting begins with the starved one
			break
		}
		w, ok := l.dequeue(endpoint)
		if !ok {
			break
		}
		l.unlink(cn)
		l.send(cn, w.call, w.slot, w.at, clock.Now())
		if ln.phased {
			l.timers.Set(w.call.index, l.realTime(l.launched(w.call, w.slot)))
		}
	}
	l.mark(endpoint, true)
	l.dialWaiting()
}

// starved says whether attempts wait for a replica without any connection: at
// the ceiling they would wait for as long as others are busy. It makes the next
// dialWaiting begin there.
func (l *loop) starved() bool {
	ln := l.ln
	for i := range ln.pools {
		e := (ln.turn + i) % len(ln.pools)
		if p := &ln.pools[e]; p.open == 0 && p.wait.live > 0 {
			ln.turn = e
			return true
		}
	}
	return false
}

// enqueue makes an attempt wait for a connection to the replica.
func (l *loop) enqueue(endpoint uint16, w waiter) {
	l.ln.pools[endpoint].wait.push(w)
	l.ln.waiting++
	l.mark(endpoint, false) // whoever sends it tells the policy
}

// dequeue takes the attempt that waits longest for the replica.
func (l *loop) dequeue(endpoint uint16) (w waiter, ok bool) {
	if w, ok = l.ln.pools[endpoint].wait.pop(); ok {
		l.ln.waiting--
		l.unmark(&w.call.slots[w.slot])
	}
	return w, ok
}

// unwait says that an attempt that waited for its replica has ended.
func (l *loop) unwait(a *attempt) {
	l.ln.pools[a.target].wait.live--
	l.ln.waiting--
	l.unmark(a)
}

// room says whether the lane may open a further connection; at the ceiling the
// longest idle connection to another replica makes room.
func (l *loop) room(endpoint uint16) bool {
	if l.ln.open < l.ln.ceiling {
		return true
	}
	if l.ln.idle == 0 {
		return false
	}
	for i := range l.ln.pools {
		if p := &l.ln.pools[i]; i != int(endpoint) && p.idle.tail != 0 && p.wait.live == 0 {
			l.closeConn(l.conns.At(p.idle.tail-1), false)
			return true
		}
	}
	return false
}
