package engine

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"

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
}

// shaken goes on with the connections whose handshakes have ended, or want more
// bytes than were read.
func (l *loop) shaken() {
	for {
		s, ok := l.shakes.Next()
		if !ok {
			return
		}
		cn := l.conns.at(uint32(s.Token))
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
	errShort = errors.New("tls: the server closed the connection in the handshake")
)

// shakeFailed closes a connection whose handshake has failed.
func (l *loop) shakeFailed(cn *conn, err error) {
	ln, endpoint := &l.lanes[cn.lane], cn.endpoint
	ln.pools[endpoint].dialing--
	l.release(cn, false)
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
