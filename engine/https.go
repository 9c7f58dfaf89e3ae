package engine

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"latencylab/clock"
	"latencylab/ledger"
	"latencylab/policy"
)

// Agreed is what a TLS handshake agreed on, as numbers of crypto/tls. The zero
// Agreed says that there was none.
type Agreed struct{ Version, Cipher uint16 }

// tlsConfigs returns the configuration of each endpoint for one lane, nil for
// plain HTTP. Each has a cache of its own: what one server issued is of no use
// to another, and policies do not profit from each other.
func (cfg *Config) tlsConfigs() []*tls.Config {
	if cfg.TLS == nil {
		return nil
	}
	all := make([]*tls.Config, len(cfg.Endpoints))
	for i := range all {
		c := cfg.TLS.Clone()
		if c.ServerName == "" {
			c.ServerName, _, _ = net.SplitHostPort(cfg.Endpoints[i].Name)
		}
		c.NextProtos = []string{"http/1.1"}
		c.DynamicRecordSizingDisabled = true
		c.ClientSessionCache = nil
		if cfg.Resume {
			c.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		}
		all[i] = c
	}
	return all
}

// close closes the socket; with reset the peer gets RST instead of FIN.
func (cn *conn) close(reset bool) {
	if cn.sec != nil {
		cn.sec.Close(reset)
		return
	}
	Close(int(cn.fd), reset)
}

// shake begins the TLS handshake of a connection that has just been made.
func (l *loop) shake(cn *conn, cfg *tls.Config) {
	cn.state, cn.sent = connShaking, l.polled
	cn.sec = l.shakes.Client(int(cn.fd), cn.token(), cfg)
	cn.prev, cn.next = l.shaking.tail, 0
	if l.shaking.tail != 0 {
		l.conns.At(l.shaking.tail - 1).next = cn.index + 1
	} else {
		l.shaking.head = cn.index + 1
	}
	l.shaking.tail = cn.index + 1
	ln := &l.lanes[cn.lane]
	ln.pools[cn.endpoint].shaking++
	if ln == l.ln {
		l.mark(cn.endpoint, true)
	}
}

// shakeOver takes a connection out of those whose handshake is under way.
func (l *loop) shakeOver(cn *conn) {
	l.cut(&l.shaking, cn)
	l.lanes[cn.lane].pools[cn.endpoint].shaking--
}

// mark makes as many of the attempts that wait longest for the replica wait for a
// TLS handshake as there are handshakes under way, and tells the policy if tell.
func (l *loop) mark(endpoint uint16, tell bool) {
	p := &l.ln.pools[endpoint]
	for i := p.wait.head; p.marked < min(p.shaking, p.wait.live) && i < len(p.wait.q); i++ {
		w := &p.wait.q[i]
		if !w.waits() || w.call.slots[w.slot].shakes {
			continue
		}
		w.call.slots[w.slot].shakes = true
		p.marked++
		if tell && l.ln.phased {
			a := w.call.k.Progress(w.slot, policy.PhaseTLS, l.policyTime(l.now))
			l.timers.Set(w.call.index, l.realTime(a.Timer))
		}
	}
}

// unmark says that an attempt waits no longer.
func (l *loop) unmark(a *attempt) {
	if a.shakes {
		a.shakes = false
		l.ln.pools[a.target].marked--
		l.remark = true
	}
}

// markAll is mark for all replicas.
func (l *loop) markAll() {
	l.remark = false
	for e := range l.ln.pools {
		l.mark(uint16(e), true)
	}
}

// dropShake closes the connection to the replica whose handshake has taken
// longest: the attempt that waited for it has timed out.
func (l *loop) dropShake(endpoint uint16) {
	for i := l.shaking.head; i != 0; {
		cn := l.conns.At(i - 1)
		if cn.endpoint == endpoint && &l.lanes[cn.lane] == l.ln {
			l.closeShake(cn)
			l.dialWaiting()
			return
		}
		i = cn.next
	}
}

// closeShake gives up a connection in its handshake.
func (l *loop) closeShake(cn *conn) {
	l.shakeOver(cn)
	l.lanes[cn.lane].pools[cn.endpoint].dialing--
	l.release(cn, false)
}

// shakeFor is how long a TLS handshake may take where the policy allows no more:
// what net/http allows by default. A peer that says nothing would else keep its
// connection, and one of the places for new ones, for ever.
var shakeFor = 10 * time.Second

// shakeEnd is when the handshake that has taken longest is given up.
func (l *loop) shakeEnd() clock.Time {
	if l.shaking.head == 0 {
		return clock.Never
	}
	cn := l.conns.At(l.shaking.head - 1)
	limit := max(shakeFor, l.lanes[cn.lane].policy.Timeouts[policy.PartTLS].After)
	return cn.sent.Add(limit)
}

// endShakes gives up the handshakes that have taken too long.
func (l *loop) endShakes() {
	for l.polled >= l.shakeEnd() {
		cn := l.conns.At(l.shaking.head - 1)
		ln, endpoint := &l.lanes[cn.lane], cn.endpoint
		l.closeShake(cn)
		if ln == l.ln {
			l.openFailed(endpoint, ledger.ErrorKey{Class: ledger.ClassTLSTimeout, Phase: policy.PhaseTLS}, errSlow)
		}
	}
}

// shaken goes on with the connections whose handshakes have ended, or want more
// bytes than were read.
func (l *loop) shaken() {
	for {
		s, ok := l.shakes.Next()
		if !ok {
			return
		}
		cn := l.conns.At(uint32(s.Token))
		if cn.sec != s || cn.state != connShaking {
			continue
		}
		ended, at, err := s.Ended()
		if !ended {
			l.receive(cn, Readable|HungUp)
			continue
		}
		if err == nil {
			err = leftOver(s.Receive(nil, l.plain))
		}
		if err != nil {
			l.shakeFailed(cn, err)
			continue
		}
		l.shakeOver(cn)
		ln, gen := &l.lanes[cn.lane], cn.gen
		st, b := s.State(), ln.book[l.phase()]
		ln.agreed = Agreed{st.Version, st.CipherSuite}
		b.TLS.Record(int64(at.Sub(cn.sent)))
		if st.DidResume {
			b.Connections.Resumed++
		}
		l.opened(cn)
		if cn.gen == gen {
			l.receive(cn, Readable|HungUp) // what came while the handshake was behind
		}
	}
}

// leftOver is what is wrong with what came behind the handshake: nothing was
// asked for yet.
func leftOver(plain []byte, err error) error {
	if err == nil && len(plain) > 0 {
		return errEarly
	}
	return err
}

var (
	errEarly = errors.New("tls: the server sent data before it was asked")
	errSlow  = errors.New("tls: the handshake took too long")
	errShort = errors.New("tls: the server closed the connection in the handshake")
)

// shakeFailed closes a connection whose handshake has failed.
func (l *loop) shakeFailed(cn *conn, err error) {
	ln, endpoint := &l.lanes[cn.lane], cn.endpoint
	l.closeShake(cn)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = errShort
	}
	if ln == l.ln {
		l.openFailed(endpoint, ledger.ErrorKey{Class: classOf(err, ledger.ClassTLS), Phase: policy.PhaseTLS}, err)
	}
}

// receiveSecure handles a read of the socket of a TLS connection: n bytes, the
// end of the stream, or an error. It returns whether to read on.
func (l *loop) receiveSecure(cn *conn, n int, stamp int64, e syscall.Errno) bool {
	if n == 0 || e != 0 {
		cause := error(e)
		if e == 0 {
			cause = io.EOF
		}
		l.secureEnd(cn, cn.sec.End(cause))
		return false
	}
	gen := cn.gen
	plain, err := cn.sec.Receive(l.recv.Buf[:n], l.plain)
	if len(plain) > 0 {
		l.feed(cn, plain, stamp)
	}
	if err != nil && cn.gen == gen {
		l.secureEnd(cn, err)
	}
	return err == nil && cn.gen == gen && !cn.sec.Full()
}

// secureEnd handles the end of a TLS stream: see Secure.End.
func (l *loop) secureEnd(cn *conn, err error) {
	switch err {
	case nil: // the handshake will tell
	case io.EOF, ErrTruncated:
		l.endOfStream(cn, err == ErrTruncated)
	default:
		l.readFailed(cn, err, classOf(err, ledger.ClassTLS))
	}
}

// sendSecure encrypts and writes a request.
func (l *loop) sendSecure(cn *conn, req []byte) {
	n, err := cn.sec.Write(req)
	if err != nil && err != syscall.EAGAIN {
		l.pending = append(l.pending, failure{cn: cn, gen: cn.gen, err: err})
		return
	}
	if n < len(req) || cn.sec.Pending() {
		rest := append([]byte(nil), req[n:]...)
		cn.out = &rest
	}
}

// writeSecure is writeRest of a TLS connection, whose handshake may be under way.
func (l *loop) writeSecure(cn *conn) {
	for cn.sec.Flush() == nil && !cn.sec.Pending() {
		if cn.out == nil {
			return
		}
		if len(*cn.out) == 0 {
			l.written(cn)
			return
		}
		n, err := cn.sec.Write(*cn.out)
		if *cn.out = (*cn.out)[n:]; err != nil && err != syscall.EAGAIN {
			return // what the server sent is read first, and the read tells the failure
		}
	}
}
