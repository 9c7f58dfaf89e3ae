package target

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"latencylab/engine"
	"latencylab/service"
)

// TLS says how replicas and baseline speak TLS. The zero TLS shows a certificate
// of an authority generated for this target, and asks callers for none.
type TLS struct {
	// Certificate is what the servers show. nil means one of the generated
	// authority, for localhost, the loopback addresses, Config.Host and Names.
	Certificate *tls.Certificate
	// Names are further names and addresses of the generated certificate.
	Names []string
	// ClientCAs are the authorities one of which must have signed the caller's
	// certificate (mutual TLS). nil: callers need none.
	ClientCAs *x509.CertPool
}

// secure makes the TLS configuration of all servers.
func (t *Target) secure(cfg *Config) error {
	if cfg.TLS == nil && t.nodes[0].Spec.TLS {
		cfg.TLS = &TLS{}
	}
	o := cfg.TLS
	if o == nil {
		for _, n := range t.nodes {
			if f := n.Spec.NeedsTLS(); f != service.FaultNone {
				return fmt.Errorf("%v needs TLS: want tls: true in the service, or --tls", f)
			}
		}
		return nil
	}
	if t.edges > 0 {
		return errors.New("TLS with services that call each other: their calls are plain HTTP, want no TLS")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, DynamicRecordSizingDisabled: true}
	if o.ClientCAs != nil {
		c.ClientCAs, c.ClientAuth = o.ClientCAs, tls.RequireAndVerifyClientCert
	}
	if o.Certificate != nil {
		c.Certificates = []tls.Certificate{*o.Certificate}
	} else {
		var err error
		if t.ca, err = NewAuthority(); err != nil {
			return err
		}
		cert, err := t.ca.Issue(Leaf{Names: names(cfg)})
		if err != nil {
			return err
		}
		c.Certificates = []tls.Certificate{cert}
	}
	t.tls = c
	return t.insecure(cfg)
}

// insecure makes the configurations of the faults of certificates.
func (t *Target) insecure(cfg *Config) error {
	trusted := t.ca
	stranger, err := NewAuthority()
	if err != nil {
		return err
	}
	if trusted == nil { // the servers show a certificate of their own
		trusted = stranger
	}
	over := time.Now().Add(-certified)
	for _, bad := range []struct {
		fault service.Fault
		by    *Authority
		leaf  Leaf
	}{
		{service.FaultTLSWrongName, trusted, Leaf{Names: []string{"wrong.invalid"}}},
		{service.FaultTLSExpired, trusted, Leaf{Names: names(cfg), From: over.Add(-certified), Until: over}},
		{service.FaultTLSUntrusted, stranger, Leaf{Names: names(cfg)}},
	} {
		cert, err := bad.by.Issue(bad.leaf)
		if err != nil {
			return err
		}
		c := t.tls.Clone()
		c.Certificates = []tls.Certificate{cert}
		c.SessionTicketsDisabled = true // a session that is resumed shows none
		t.badTLS[bad.fault] = c
	}
	return nil
}

// names are those of the generated certificate.
func names(cfg *Config) []string {
	all := append([]string{"localhost", "127.0.0.1", "::1"}, cfg.TLS.Names...)
	for _, a := range append([]netip.Addr{cfg.Host}, cfg.Hosts...) {
		if host := a.WithZone("").String(); !a.IsUnspecified() && !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

// Secure says whether replicas and baseline speak TLS.
func (t *Target) Secure() bool { return t.tls != nil }

// CA returns the certificate of the generated authority as PEM; nil when there
// is none.
func (t *Target) CA() []byte {
	if t.ca == nil {
		return nil
	}
	return t.ca.PEM()
}

// shake hands what lies in the socket to the handshake of connection id.
func (l *loop) shake(id uint32) {
	c := l.conns.At(id)
	for c.readable && !c.sec.Full() {
		n, _, e := l.rx.Read(c.fd)
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			c.readable = false
			return
		case e != 0:
			l.sockets.TLSFailed++
			l.close(id)
			return
		case n == 0: // what came before may be the whole handshake and a request
			c.readable = false
			c.sec.End(io.EOF)
			return
		}
		if n < len(l.rx.Buf) && !c.hungUp {
			c.readable = false
		}
		c.sec.Receive(l.rx.Buf[:n], l.plain)
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
		id, c := l.connOf(s.Token)
		if c == nil || c.sec != s || c.state != shaking {
			continue
		}
		c.readable = true
		ended, _, err := s.Ended()
		switch {
		case !ended:
			l.shake(id)
		case err != nil:
			l.sockets.TLSFailed++
			l.close(id)
		default:
			l.sockets.Handshakes++
			if s.State().DidResume {
				l.sockets.Resumed++
			}
			c.state, c.since = reading, l.now
			if l.decrypt(id, nil, 0) {
				l.resume(id)
			}
		}
	}
}

// decrypt passes on the plaintext that comes with bytes just received. It
// reports whether the connection is still there.
func (l *loop) decrypt(id uint32, b []byte, stamp int64) (there bool) {
	c := l.conns.At(id)
	gen := c.gen
	plain, err := c.sec.Receive(b, l.plain)
	if len(plain) > 0 {
		l.received(id, plain, stamp)
	}
	if c = l.conns.At(id); c.fd < 0 || c.gen != gen {
		return false
	}
	if err == nil {
		return true
	}
	// close_notify is what FIN is without TLS. After anything else the stream is
	// of no use either; who is being served is told to have left.
	if c.hungUp = true; c.state == reading {
		l.close(id)
		return false
	}
	return true
}

// send writes what the socket takes of b at once; of a TLS connection, ciphertext
// of it may be unsent.
func (c *conn) send(b []byte) (n int, e syscall.Errno) {
	if c.sec == nil {
		return engine.Write(c.fd, b)
	}
	n, err := c.sec.Write(b)
	return n, errno(err)
}

// unsent says that ciphertext waits for room in the socket.
func (c *conn) unsent() bool { return c.sec != nil && c.sec.Pending() }

// flushSecure writes the ciphertext of an answer that the socket did not take. It
// reports whether the answer goes on.
func (l *loop) flushSecure(id uint32) (goesOn bool) {
	c := l.conns.At(id)
	switch err := c.sec.Flush(); {
	case err != nil:
		l.tallies.at(c.run).CutShort++
		l.close(id)
	case c.sec.Pending():
	case c.rest == nil && c.fill == 0:
		l.ended(id)
	default:
		return true
	}
	return false
}

// errno is err as that of a socket; EPIPE for what only TLS knows.
func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	e := syscall.EPIPE
	errors.As(err, &e)
	return e
}
