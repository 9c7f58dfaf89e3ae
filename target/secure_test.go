package target

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"latencylab/service"
)

// trusting returns what a caller of the target needs.
func trusting(t testing.TB, tg *Target) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(tg.CA()) {
		t.Fatal("the target has no authority")
	}
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

// dialTLS makes a connection whose handshake is not begun yet.
func dialTLS(t testing.TB, to netip.AddrPort, cfg *tls.Config) (*caller, *tls.Conn) {
	t.Helper()
	c := dial(t, to)
	s := tls.Client(c.Conn, cfg)
	c.Conn = s
	c.r.Reset(s)
	return c, s
}

// dribble is a connection that sends byte by byte.
type dribble struct{ net.Conn }

func (d dribble) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := d.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// TestTLS: every version, name and size, on kept connections.
func TestTLS(t *testing.T) {
	for _, size := range []int{0, 100, 1 << 20} {
		tg := begin(t, Config{Service: &service.Spec{Body: size}, TLS: &TLS{Names: []string{"shop.test"}}, Baseline: true})
		base, _ := tg.Baseline()
		for _, tt := range []struct {
			about, name string
			version     uint16
			at          netip.AddrPort
		}{
			{"TLS 1.3", "localhost", tls.VersionTLS13, tg.Replicas()[0]},
			{"TLS 1.2", "127.0.0.1", tls.VersionTLS12, tg.Replicas()[0]},
			{"a name of its own", "shop.test", tls.VersionTLS13, tg.Replicas()[0]},
			{"baseline", "::1", tls.VersionTLS13, base},
		} {
			cfg := trusting(t, tg)
			cfg.ServerName, cfg.MaxVersion, cfg.NextProtos = tt.name, tt.version, []string{"h2", "http/1.1"}
			c, s := dialTLS(t, tt.at, cfg)
			for range 3 {
				c.send(plainGet)
				if resp, body := c.answer("GET"); resp.StatusCode != 200 || len(body) != size {
					t.Errorf("%s: status %d with %d bytes, want 200 with %d", tt.about, resp.StatusCode, len(body), size)
				}
			}
			if got := s.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
				t.Errorf("%s: protocol %q, want http/1.1", tt.about, got)
			}
		}
	}
}

// TestTLSRecordsSplitAnywhere: a caller that sends byte by byte, and two requests
// in one record.
func TestTLSRecordsSplitAnywhere(t *testing.T) {
	tg := begin(t, Config{TLS: &TLS{}})
	c := dial(t, tg.Replicas()[0])
	s := tls.Client(dribble{c.Conn}, trusting(t, tg))
	c.Conn = s
	c.r.Reset(s)
	c.send(plainGet + plainGet)
	for range 2 {
		if resp, _ := c.answer("GET"); resp.StatusCode != 200 {
			t.Errorf("status %d, want 200", resp.StatusCode)
		}
	}
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n")
	if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != 100 {
		t.Fatalf("%v, %v, want 100", resp, err)
	}
	c.Conn.Write(bytes.Repeat([]byte("x"), 100000))
	if resp, _ := c.answer("POST"); resp.StatusCode != 200 {
		t.Errorf("status %d, want 200", resp.StatusCode)
	}
}

// TestTLSSlowReader: an answer larger than the socket waits for its reader.
func TestTLSSlowReader(t *testing.T) {
	const size = 8 << 20
	tg := begin(t, Config{Service: &service.Spec{Body: size}, TLS: &TLS{}})
	c, _ := dialTLS(t, tg.Replicas()[0], trusting(t, tg))
	c.send(plainGet)
	settle(t, "an answer", func() bool { sum := tg.Ledger().Total(); return sum.AnsweredTotal() == 1 })
	if _, body := c.answer("GET"); len(body) != size {
		t.Errorf("%d bytes, want %d", len(body), size)
	}
}

// TestMutualTLS: callers need a certificate of the authority that was named.
func TestMutualTLS(t *testing.T) {
	own, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(own.PEM())
	tg := begin(t, Config{TLS: &TLS{ClientCAs: pool}})
	good, err := own.Issue(Leaf{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Issue(Leaf{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		about string
		show  []tls.Certificate
		want  string // of the error; "" is none
	}{
		{"its own authority's", []tls.Certificate{good}, ""},
		{"none", nil, "certificate required"},
		{"another authority's", []tls.Certificate{foreign}, "unknown certificate authority"},
	} {
		cfg := trusting(t, tg)
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if tt.show == nil {
				return &tls.Certificate{}, nil
			}
			return &tt.show[0], nil
		}
		c, _ := dialTLS(t, tg.Replicas()[0], cfg)
		io.WriteString(c.Conn, plainGet)
		_, err := http.ReadResponse(c.r, nil)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: error %v, want %q", tt.about, err, tt.want)
		}
	}
	// The alert leaves before the loop counts.
	settle(t, "the count of failures", func() bool { return tg.Ledger().Connections.TLSFailed >= 2 })
	l := tg.Ledger()
	if l.Total().Arrived != 1 || l.Connections.Handshakes != 1 || l.Connections.TLSFailed != 2 {
		t.Errorf("%d arrived, %d handshakes, %d failed; want 1, 1 and 2", l.Total().Arrived, l.Connections.Handshakes, l.Connections.TLSFailed)
	}
}

// TestTLSHostile: whoever does not finish the handshake loses the connection,
// others are served.
func TestTLSHostile(t *testing.T) {
	tg := begin(t, Config{TLS: &TLS{}, Idle: 200 * time.Millisecond})
	at := tg.Replicas()[0]
	hello := helloOf(t)
	for _, tt := range []struct {
		about  string
		bytes  []byte
		failed uint64 // handshakes
		late   uint64 // closed by the limit
	}{
		{"silence", nil, 0, 1},
		{"half a hello", hello[:len(hello)/2], 0, 1},
		{"a hello, then silence", hello, 0, 1},
		{"plain HTTP", []byte(plainGet), 1, 0},
		{"noise", bytes.Repeat([]byte{0x16, 3, 1, 0xff, 0xff}, 20000), 1, 0},
		{"a record too long", append([]byte{0x16, 3, 1, 0x7f, 0xff}, make([]byte, 70000)...), 1, 0},
	} {
		tg.Reset()
		c := dial(t, at)
		c.Conn.Write(tt.bytes)
		io.Copy(io.Discard, c.Conn) // to the end, which the target makes
		settle(t, tt.about, func() bool {
			l := tg.Ledger().Connections
			return l.TLSFailed == tt.failed && l.TimedOut == tt.late && l.Open == 0
		})
	}
	c, _ := dialTLS(t, at, trusting(t, tg))
	c.send(plainGet)
	c.answer("GET")
}

// helloOf is what a client sends first.
func helloOf(t *testing.T) []byte {
	t.Helper()
	here, there := net.Pipe()
	go tls.Client(there, &tls.Config{InsecureSkipVerify: true}).Handshake()
	b := make([]byte, 16<<10)
	n, err := here.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	here.Close()
	return b[:n]
}

// TestTLSEndsAtOnce: a target stops, and drains, with handshakes under way.
func TestTLSEndsAtOnce(t *testing.T) {
	for _, drain := range []bool{false, true} {
		tg := begin(t, Config{TLS: &TLS{}})
		hello := helloOf(t)
		for i := range 20 {
			c := dial(t, tg.Replicas()[0])
			c.Conn.Write(hello[:len(hello)-i%2])
		}
		settle(t, "20 connections", func() bool { return tg.Ledger().Connections.Accepted == 20 })
		if drain && !tg.Drain(patience) {
			t.Error("the drain was not over in time")
		}
		tg.Stop()
	}
}

// TestTLSCallerLeaves: close_notify and FIN tell a server that its caller left.
func TestTLSCallerLeaves(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Time: dist(t, "1h"), Cancel: service.CancelRunning}, TLS: &TLS{}})
	c, _ := dialTLS(t, tg.Replicas()[0], trusting(t, tg))
	c.send(get("r", 0, 1))
	settle(t, "a request", func() bool { return tg.Ledger().Total().Arrived == 1 })
	c.Conn.Close()
	settle(t, "its end", func() bool { return tg.Ledger().Total().Cancelled.Dropped == 1 })
	if n := tg.Ledger().Connections.Open; n != 0 {
		t.Errorf("%d connections open, want none", n)
	}
}

// TestTLSHalfClose: a caller that sends all at once, and its end with it, gets
// its answer.
func TestTLSHalfClose(t *testing.T) {
	tg := begin(t, Config{TLS: &TLS{}})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cfg := trusting(t, tg)
		cfg.MaxVersion = version
		c, s := dialTLS(t, tg.Replicas()[0], cfg)
		c.send(plainGet)
		s.CloseWrite()
		s.NetConn().(*net.TCPConn).CloseWrite()
		if resp, _ := c.answer("GET"); resp.StatusCode != 200 {
			t.Errorf("status %d, want 200", resp.StatusCode)
		}
		c.closed()
	}
}

// TestTLSResumption: sessions resume, and the ledger counts it.
func TestTLSResumption(t *testing.T) {
	tg := begin(t, Config{TLS: &TLS{}})
	cfg := trusting(t, tg)
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	for range 3 {
		c, _ := dialTLS(t, tg.Replicas()[0], cfg)
		c.send(plainGet)
		c.answer("GET")
		c.Conn.Close()
	}
	if l := tg.Ledger().Connections; l.Handshakes != 3 || l.Resumed != 2 {
		t.Errorf("%d handshakes, %d resumed; want 3 and 2", l.Handshakes, l.Resumed)
	}
}

// TestAnnouncementOverTLS: whoever trusts the target finds its ledger.
func TestAnnouncementOverTLS(t *testing.T) {
	tg := begin(t, Config{TLS: &TLS{}})
	a, ok, err := FetchAnnouncement(t.Context(), fmt.Sprintf("https://%v/", tg.Replicas()[0]), trusting(t, tg))
	if err != nil || !ok || !a.TLS || a.Ledger != tg.LedgerURL() {
		t.Errorf("%+v, %v, %v", a, ok, err)
	}
}
