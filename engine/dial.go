package engine

import (
	"net/netip"
	"strings"

	"latencylab/clock"
	"latencylab/ledger"
	"latencylab/policy"
)

// dialling is a connection in the making: the handshakes with the addresses of
// its endpoint. Its errors stay valid until it is put back.
type dialling struct {
	race
	errs     []dialError // of the addresses that have failed
	began    clock.Time
	index    uint32
	conns    uint32 // handshakes under way: index plus 1, linked by conn.next
	endpoint uint16
	lane     uint8
}

// dialError is how the handshake with one address failed.
type dialError struct {
	addr netip.AddrPort
	err  error
}

// Error lists every address with what was wrong with it.
func (d *dialling) Error() string {
	var s []string
	for _, e := range d.errs {
		s = append(s, e.addr.String()+": "+e.err.Error())
	}
	return strings.Join(s, "; ")
}

// failure is what went wrong with the address that failed last, for its class,
// or with all of several.
func (d *dialling) failure() (key ledger.ErrorKey, err error) {
	last := d.errs[len(d.errs)-1].err
	key = ledger.ErrorKey{Class: classOf(last, ledger.ClassOther), Phase: policy.PhaseConnect}
	if len(d.errs) > 1 {
		return key, d
	}
	return key, last
}

// dial begins a connection to the replica. A failure at once is told by
// flushPending.
func (l *loop) dial(endpoint uint16) {
	now := clock.Now()
	if l.dialled == 0 {
		l.dialled = now
	}
	p := &l.ln.pools[endpoint]
	i, d := l.dials.Take()
	*d = dialling{
		race: race{addrs: l.eng.cfg.Endpoints[endpoint].Addrs, delay: l.eng.cfg.FallbackDelay},
		errs: d.errs[:0], began: now, index: i, endpoint: endpoint, lane: uint8(l.run.lane),
	}
	l.ln.open++
	p.open++
	p.dialing++
	if !l.goOn(d, now) {
		l.endDial(d)
		l.pending = append(l.pending, failure{dial: d})
	}
}

// goOn begins the handshakes of d that are due. It returns false when every
// address has failed.
func (l *loop) goOn(d *dialling, now clock.Time) bool {
	for {
		i, ok := d.begin(now)
		if !ok {
			break
		}
		if err := l.handshake(d, i); err != nil {
			d.errs = append(d.errs, dialError{d.addrs[i], err})
			d.failed(now)
		}
	}
	if d.lost() {
		return false
	}
	l.dialTimers.Set(d.index, d.due)
	return true
}

// handshake begins the one with address number to.
func (l *loop) handshake(d *dialling, to int) error {
	fd, err := Dial(d.addrs[to])
	if err != nil {
		return err
	}
	i, cn := l.conns.Take()
	*cn = conn{index: i, gen: cn.gen + 1, fd: int32(fd), endpoint: d.endpoint, lane: d.lane, state: connDialing, sent: d.began, dial: d.index, to: uint16(to)}
	if err := l.poll.Add(fd, cn.token()); err != nil {
		l.hangUp(cn)
		return err
	}
	cn.next, d.conns = d.conns, i+1
	return nil
}

// hangUp closes a handshake that is in no list.
func (l *loop) hangUp(cn *conn) {
	Close(int(cn.fd), false)
	cn.state = connFree
	cn.gen++
	l.conns.Put(cn.index)
}

// leave takes a handshake out of the list of d.
func (l *loop) leave(d *dialling, cn *conn) {
	at := &d.conns
	for *at != cn.index+1 {
		at = &l.conns.At(*at - 1).next
	}
	*at, cn.next = cn.next, 0
}

// endDial takes a failed dialling off the counts; flushPending or its caller
// puts it back when its errors are told.
func (l *loop) endDial(d *dialling) {
	l.dialTimers.Set(d.index, clock.Never)
	ln := &l.lanes[d.lane]
	ln.open--
	ln.pools[d.endpoint].open--
	ln.pools[d.endpoint].dialing--
}

// won ends the race that cn has won: the other handshakes are closed.
func (l *loop) won(cn *conn) {
	d, b := l.dials.At(cn.dial), l.lanes[cn.lane].book[l.phase()]
	l.leave(d, cn)
	l.lanes[cn.lane].pools[cn.endpoint].connected[cn.to]++
	for d.conns != 0 {
		other := l.conns.At(d.conns - 1)
		d.conns = other.next
		l.hangUp(other)
		b.Connections.Lost++
	}
	b.Connections.Fallbacks += uint64(len(d.errs))
	l.dialTimers.Set(d.index, clock.Never)
	l.dials.Put(d.index)
}

// refused goes on after the handshake of cn has failed.
func (l *loop) refused(cn *conn, err error) {
	d := l.dials.At(cn.dial)
	l.leave(d, cn)
	d.errs = append(d.errs, dialError{d.addrs[cn.to], err})
	l.hangUp(cn)
	d.failed(l.now)
	l.resume(d)
}

// resume goes on with a dialling whose time has come.
func (l *loop) resume(d *dialling) {
	if l.goOn(d, clock.Now()) {
		return
	}
	l.endDial(d)
	if &l.lanes[d.lane] == l.ln {
		l.tellDial(d)
	}
	l.dials.Put(d.index)
}

// tellDial ends the attempt that waits longest for what could not be dialled.
func (l *loop) tellDial(d *dialling) {
	key, err := d.failure()
	l.openFailed(d.endpoint, key, err)
}

// dialsDue goes on with the races in which a further address is due.
func (l *loop) dialsDue() {
	for {
		id, ok := l.dialTimers.Pop(l.seen)
		if !ok {
			return
		}
		l.resume(l.dials.At(id))
	}
}
