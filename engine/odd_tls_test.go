package engine

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"latencylab/ledger"
	"latencylab/policy"
)

// ownCertificate is the one of package httptest, and a client's configuration
// that trusts it.
func ownCertificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

// secured makes a peer of a server that plays over TLS.
func secured(t *testing.T, cfg *tls.Config, play func(c *received, s *tls.Conn)) *peer {
	t.Helper()
	return playing(t, func(c *received) {
		s := tls.Server(c.TCPConn, cfg)
		if s.Handshake() != nil {
			return
		}
		c.br = bufio.NewReader(s)
		play(c, s)
	})
}

// goroutinesFall waits until no more goroutines run than before.
func goroutinesFall(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before; {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}

// TestEndlessHandshake: whatever bounds it ends the handshake, the connection and
// its goroutine.
func TestEndlessHandshake(t *testing.T) {
	old := shakeFor
	t.Cleanup(func() { shakeFor = old })
	_, client := ownCertificate(t)
	for _, row := range []struct {
		about string
		p     policy.Policy
		class ledger.Class
	}{
		{"the timeout of the handshake", policy.Policy{Timeouts: policy.Timeouts{policy.PartTLS: {After: 30 * ms}, policy.PartConnect: {After: 10 * time.Second}}}, ledger.ClassTLSTimeout},
		{"the timeout of the attempt", policy.Policy{Timeouts: policy.Timeouts{policy.PartAttempt: {After: 30 * ms}}}, ledger.ClassAttemptTimeout},
		{"the deadline", policy.Policy{Deadline: 30 * ms}, ledger.ClassDeadline},
		{"nothing but the engine", policy.Policy{}, ledger.ClassTLSTimeout},
	} {
		t.Run(row.about, func(t *testing.T) {
			shakeFor = old
			if row.p.Deadline == 0 && row.p.Timeouts == (policy.Timeouts{}) {
				shakeFor = 50 * ms
			}
			before := runtime.NumGoroutine()
			silent := playing(t, func(c *received) { c.gone() })
			cfg := config(t, []netip.AddrPort{silent.addr}, row.p)
			cfg.TLS, cfg.Drain = client, 20*time.Second
			b := drive(t, cfg, count(10))
			d := b.Data
			if len(d.Errors) != 1 || d.Errors[0].Class != row.class || d.Errors[0].Phase != policy.PhaseTLS || d.Calls.Failed != 10 {
				t.Errorf("%+v %+v, want ten %v in phase tls", d.Calls, d.Errors, row.class)
			}
			if d.Attempts.Sent != 10 || d.TLS.Count() != 0 || d.Connections.Opened != 0 {
				t.Errorf("%d sent, %d handshakes, %d connections; want 10, none and none", d.Attempts.Sent, d.TLS.Count(), d.Connections.Opened)
			}
			for end := time.Now().Add(20 * time.Second); ; { // all of them were closed
				silent.mu.Lock()
				open := len(silent.open)
				silent.mu.Unlock()
				if open == 0 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d connections are still open", open)
				}
			}
			goroutinesFall(t, before+2) // the peer's own
		})
	}
}

// TestHandshakeUnderWayAtTheEnd: a block ends, and Close does not wait for peers.
func TestHandshakeUnderWayAtTheEnd(t *testing.T) {
	_, client := ownCertificate(t)
	before := runtime.NumGoroutine()
	silent := playing(t, func(c *received) { c.gone() })
	cfg := config(t, []netip.AddrPort{silent.addr}, policy.Policy{})
	cfg.TLS, cfg.Drain, cfg.Threads, cfg.Closed = client, 100*ms, 2, true
	b := drive(t, cfg, count(10))
	if !strings.HasPrefix(b.Early, Unreachable) || !strings.Contains(b.Early, "no TLS handshake has ended") {
		t.Errorf("the block ended with %q", b.Early)
	}
	goroutinesFall(t, before+2)
}

// TestSlowHandshakes: every other handshake hangs; the calls that wait for one get
// the next connection, or are cut off and sent again.
func TestSlowHandshakes(t *testing.T) {
	server, client := ownCertificate(t)
	p := playing(t, func(c *received) {
		if c.n%2 == 0 {
			c.gone() // no handshake
			return
		}
		s := tls.Server(c.TCPConn, server)
		if s.Handshake() != nil {
			return
		}
		c.br = bufio.NewReader(s)
		for {
			if _, err := c.request(); err != nil {
				return
			}
			io.WriteString(s, hello)
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{Timeouts: policy.Timeouts{policy.PartTLS: {After: 300 * ms}}, Retry: policy.Retry{Max: 20}})
	cfg.TLS, cfg.Drain = client, 20*time.Second
	b := drive(t, cfg, count(300))
	if b.Data.Calls.OK != 300 {
		t.Errorf("%d ok of 300: %+v", b.Data.Calls.OK, b.Data.Errors)
	}
	agree(t, []*Block{b}, p)
}

// afterShaking is an alert that a server of TLS 1.3 sends when the client takes the
// handshake for ended (RFC 8446 4.4.2.4): it is seen at the end of the handshake or
// in the first request, by which of them the client comes to first.
const afterShaking = policy.Phase(255)

// TestTLSEnds: how a stream ends, and what that says of the answer.
func TestTLSEnds(t *testing.T) {
	server, client := ownCertificate(t)
	mutual := server.Clone()
	mutual.ClientAuth = tls.RequireAnyClientCert
	mutual12 := mutual.Clone()
	mutual12.MaxVersion = tls.VersionTLS12
	const untilEnd = "HTTP/1.0 200 OK\r\n\r\nall of it"
	say := func(answer string, then func(c *received, s *tls.Conn)) *peer {
		return secured(t, server, func(c *received, s *tls.Conn) {
			if _, err := c.request(); err != nil {
				return
			}
			io.WriteString(s, answer)
			then(c, s)
		})
	}
	for _, row := range []struct {
		about string
		p     *peer
		class ledger.Class // none: ok
		phase policy.Phase
		has   string // of the sample
	}{
		{"close_notify ends a body", say(untilEnd, func(c *received, s *tls.Conn) { s.CloseWrite() }), ledger.ClassNone, 0, ""},
		{"FIN alone may have cut a body", say(untilEnd, func(c *received, s *tls.Conn) { c.CloseWrite() }), ledger.ClassTruncatedBody, policy.PhaseBody, ""},
		{"FIN after a body of known length", say(hello, func(c *received, s *tls.Conn) { c.CloseWrite() }), ledger.ClassNone, 0, ""},
		{"close_notify within a body", say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", func(c *received, s *tls.Conn) { s.Close() }), ledger.ClassTruncatedBody, policy.PhaseBody, ""},
		{"FIN within a record", say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", func(c *received, s *tls.Conn) {
			c.say("\x17\x03\x03\x01\x00half a record")
			c.CloseWrite()
		}), ledger.ClassTruncatedBody, policy.PhaseBody, ""},
		{"a damaged record", say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", func(c *received, s *tls.Conn) {
			c.say("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32))
			c.gone()
		}), ledger.ClassTLS, policy.PhaseBody, "bad record MAC"},
		{"close_notify in place of an answer", secured(t, server, func(c *received, s *tls.Conn) { c.request(); s.Close() }), ledger.ClassClosedBeforeResponse, policy.PhaseFirstByte, ""},
		{"RST in the handshake", playing(t, func(c *received) { c.br.Peek(1); c.reset() }), ledger.ClassReset, policy.PhaseTLS, ""},
		{"FIN in the handshake", playing(t, func(c *received) { c.br.Peek(1); c.CloseWrite(); c.gone() }), ledger.ClassTLS, policy.PhaseTLS, "closed the connection in the handshake"},
		{"an alert in the handshake", playing(t, func(c *received) { c.br.Peek(1); c.say("\x15\x03\x01\x00\x02\x02\x28"); c.gone() }), ledger.ClassTLS, policy.PhaseTLS, "handshake failure"},
		{"a server that wants the client's certificate", secured(t, mutual, func(c *received, s *tls.Conn) {}), ledger.ClassTLS, afterShaking, "certificate required"},
		{"the same in TLS 1.2, within the handshake", secured(t, mutual12, func(c *received, s *tls.Conn) {}), ledger.ClassTLS, policy.PhaseTLS, "handshake failure"},
	} {
		t.Run(row.about, func(t *testing.T) {
			cfg := config(t, []netip.AddrPort{row.p.addr}, policy.Policy{})
			cfg.TLS, cfg.Drain = client, 20*time.Second
			b := drive(t, cfg, count(1))
			d := b.Data
			if row.class == ledger.ClassNone {
				if d.Calls.OK != 1 || len(d.Errors) != 0 {
					t.Errorf("%+v %+v, want one ok", d.Calls, d.Errors)
				}
				return
			}
			if row.phase == afterShaking && len(d.Errors) == 1 {
				if row.phase = policy.PhaseFirstByte; d.Errors[0].Phase == policy.PhaseTLS {
					row.phase = policy.PhaseTLS
				}
			}
			if len(d.Errors) != 1 || d.Errors[0].Class != row.class || d.Errors[0].Phase != row.phase || !strings.Contains(d.Errors[0].Sample, row.has) {
				t.Errorf("%+v, want one %v in phase %v with %q", d.Errors, row.class, row.phase, row.has)
			}
		})
	}
}

// TestTLSResume: connections resume sessions only when told to, and do not share
// them between replicas.
func TestTLSResume(t *testing.T) {
	for _, resume := range []bool{true, false} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			at, client := secureServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "close")
			}), func(c *tls.Config) { c.MaxVersion = version })
			cfg := config(t, []netip.AddrPort{at}, policy.Policy{})
			cfg.TLS, cfg.Resume, cfg.Closed, cfg.Connections = client, resume, true, 1
			b := drive(t, cfg, count(20))
			d := b.Data
			if d.Calls.OK != 20 || d.Connections.Opened < 20 || (d.Connections.Resumed >= 19) != resume || !resume && d.Connections.Resumed > 0 {
				t.Errorf("resume %v, version %x: %d ok, %d opened, %d resumed", resume, version, d.Calls.OK, d.Connections.Opened, d.Connections.Resumed)
			}
			if b.TLS.Version != version || b.TLS.Cipher == 0 {
				t.Errorf("agreed on %+v, want version %x", b.TLS, version)
			}
		}
	}
}

// slowly is a connection whose writes are cut into pieces.
type slowly struct {
	net.Conn
	size int
}

func (c slowly) Write(b []byte) (int, error) {
	for n := 0; n < len(b); {
		m, err := c.Conn.Write(b[n:min(len(b), n+c.size)])
		n += m
		if err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// TestRecordsCutAnywhere: handshake and answers that come in small pieces.
func TestRecordsCutAnywhere(t *testing.T) {
	server, client := ownCertificate(t)
	for _, size := range []int{1, 3, 7, 1000} {
		p := playing(t, func(c *received) {
			s := tls.Server(slowly{c.TCPConn, size}, server)
			c.br = bufio.NewReader(s)
			for {
				if _, err := c.request(); err != nil {
					return
				}
				io.WriteString(s, "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n")
				io.WriteString(s, strings.Repeat("x", 300))
			}
		})
		cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
		cfg.TLS, cfg.Closed, cfg.Connections = client, true, 2
		b := drive(t, cfg, count(20))
		if b.Data.Calls.OK != 20 || b.Data.Connections.Opened > 2 {
			t.Errorf("pieces of %d: %d ok on %d connections: %+v", size, b.Data.Calls.OK, b.Data.Connections.Opened, b.Data.Errors)
		}
		agree(t, []*Block{b}, p)
	}
}

// TestTLSLargeRequest: a request larger than the socket takes, to a server that
// is slow to read it.
func TestTLSLargeRequest(t *testing.T) {
	server, client := ownCertificate(t)
	p := secured(t, server, func(c *received, s *tls.Conn) {
		<-time.After(50 * ms)
		for {
			if _, err := c.request(); err != nil {
				return
			}
			io.WriteString(s, hello)
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{Timeouts: policy.Timeouts{policy.PartWrite: {After: 20 * time.Second}}})
	request(t, &cfg, "PUT", bytes.Repeat([]byte("0123456789"), 800_000))
	cfg.TLS, cfg.Closed, cfg.Connections, cfg.Drain = client, true, 2, 20*time.Second
	b := drive(t, cfg, count(4))
	if b.Data.Calls.OK != 4 {
		t.Errorf("%d ok: %+v", b.Data.Calls.OK, b.Data.Errors)
	}
	agree(t, []*Block{b}, p)
}

// records writes TLS 1.3 records of a server by hand, with AES-128-GCM (RFC 8446
// 5.2, 7.1 to 7.3).
type records struct {
	t      *testing.T
	to     io.Writer
	secret []byte
	seq    uint64
}

func (r *records) expand(label string, n int) []byte {
	label = "tls13 " + label
	info := append([]byte{byte(n >> 8), byte(n), byte(len(label))}, label...)
	key, err := hkdf.Expand(sha256.New, r.secret, string(append(info, 0)), n)
	if err != nil {
		r.t.Error(err)
	}
	return key
}

func (r *records) write(kind byte, content []byte) {
	block, err := aes.NewCipher(r.expand("key", 16))
	if err != nil {
		r.t.Error(err)
		return
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		r.t.Error(err)
		return
	}
	nonce := r.expand("iv", 12)
	var seq [8]byte
	binary.BigEndian.PutUint64(seq[:], r.seq)
	for i, b := range seq {
		nonce[4+i] ^= b
	}
	r.seq++
	plain := append(bytes.Clone(content), kind)
	head := []byte{0x17, 3, 3, 0, byte(len(plain) + gcm.Overhead())}
	r.to.Write(append(head, gcm.Seal(nil, nonce, plain, head)...))
}

// update sends a KeyUpdate that asks for one in return (RFC 8446 4.6.3).
func (r *records) update() {
	r.write(22, []byte{24, 0, 0, 1, 1})
	r.secret, r.seq = r.expand("traffic upd", sha256.Size), 0
}

// TestKeyUpdate: keys change before every answer, and the client's with them.
func TestKeyUpdate(t *testing.T) {
	server, client := ownCertificate(t)
	p := playing(t, func(c *received) {
		var log bytes.Buffer
		cfg := server.Clone()
		cfg.SessionTicketsDisabled, cfg.KeyLogWriter = true, &log
		s := tls.Server(c.TCPConn, cfg)
		if s.Handshake() != nil {
			return
		}
		r := &records{t: t, to: c.TCPConn}
		for line := range strings.Lines(log.String()) {
			if f := strings.Fields(line); f[0] == "SERVER_TRAFFIC_SECRET_0" {
				r.secret, _ = hex.DecodeString(f[2])
			}
		}
		c.br = bufio.NewReader(s)
		for {
			if _, err := c.request(); err != nil {
				return
			}
			r.update()
			r.write(23, []byte(hello))
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
	cfg.TLS, cfg.Closed, cfg.Connections = client, true, 1
	b := drive(t, cfg, count(10))
	if b.Data.Calls.OK != 10 || b.Data.Connections.Opened != 1 {
		t.Errorf("%d ok on %d connections: %+v", b.Data.Calls.OK, b.Data.Connections.Opened, b.Data.Errors)
	}
	agree(t, []*Block{b}, p)
}
