package engine

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"latencylab/policy"
)

// secureServer is an HTTPS server of the standard library, and a client's
// configuration that trusts it.
func secureServer(t *testing.T, h http.Handler, change func(*tls.Config)) (netip.AddrPort, *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if change != nil {
		change(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.Listener.Addr().(*net.TCPAddr).AddrPort(), &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

func bodyOf(size int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, strings.Repeat("x", size))
	})
}

// TestHTTPS: answers of every size come over both versions, open and closed
// loop, with the kernel's stamps.
func TestHTTPS(t *testing.T) {
	for _, tt := range []struct {
		about   string
		version uint16
		size    int
		closed  bool
		threads int
	}{
		{"TLS 1.3, one record", tls.VersionTLS13, 100, false, 1},
		{"TLS 1.2, one record", tls.VersionTLS12, 100, false, 1},
		{"TLS 1.3, answers of many records", tls.VersionTLS13, 300 << 10, true, 1},
		{"TLS 1.2, answers of many records", tls.VersionTLS12, 300 << 10, true, 2},
		{"closed loop on two threads", tls.VersionTLS13, 2000, true, 2},
	} {
		t.Run(tt.about, func(t *testing.T) {
			at, cfg := secureServer(t, bodyOf(tt.size), func(c *tls.Config) { c.MaxVersion = tt.version })
			c := config(t, []netip.AddrPort{at}, policy.Policy{})
			c.TLS, c.Resume, c.Closed, c.Threads = cfg, true, tt.closed, tt.threads
			if tt.closed {
				c.Connections = 8
			}
			d := drive(t, c, count(200)).Data
			if d.Calls.OK != 200 || d.Attempts.Sent != 200 {
				t.Errorf("%d ok of %d sent, want 200: %v", d.Calls.OK, d.Attempts.Sent, d.Errors)
			}
			if d.TLS.Count() != d.Connections.Opened || d.Connections.Opened == 0 {
				t.Errorf("%d handshakes for %d connections", d.TLS.Count(), d.Connections.Opened)
			}
			if Stamps && d.Unstamped > 0 {
				t.Errorf("%d answers without a kernel stamp", d.Unstamped)
			}
		})
	}
}

// TestHTTPSRefused: what is wrong with a certificate is told, and nothing is sent.
func TestHTTPSRefused(t *testing.T) {
	at, good := secureServer(t, bodyOf(1), nil)
	plain := httptest.NewServer(bodyOf(1))
	t.Cleanup(plain.Close)
	plain.Config.ErrorLog = log.New(io.Discard, "", 0)
	for _, tt := range []struct {
		about string
		at    netip.AddrPort
		cfg   *tls.Config
		want  string
	}{
		{"an authority that is not trusted", at, &tls.Config{ServerName: "example.com"}, "unknown authority"},
		{"a name that the certificate lacks", at, &tls.Config{RootCAs: good.RootCAs, ServerName: "other.test"}, "other.test"},
		{"a server without TLS", plain.Listener.Addr().(*net.TCPAddr).AddrPort(), good, "does not look like a TLS handshake"},
		{"no common version", at, &tls.Config{RootCAs: good.RootCAs, ServerName: "example.com", MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}, "protocol version not supported"},
	} {
		t.Run(tt.about, func(t *testing.T) {
			c := config(t, []netip.AddrPort{tt.at}, policy.Policy{})
			c.TLS = tt.cfg
			d := drive(t, c, count(5)).Data
			if d.Calls.Failed != 5 || len(d.Errors) != 1 {
				t.Fatalf("%d failed with errors %v, want 5 of one sort", d.Calls.Failed, d.Errors)
			}
			if e := d.Errors[0]; e.Class.String() != "tls" || e.Phase != policy.PhaseTLS || !strings.Contains(e.Sample, tt.want) {
				t.Errorf("%s in phase %s: %s; want tls with %q", e.Class, e.Phase, e.Sample, tt.want)
			}
		})
	}
}
