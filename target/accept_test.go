package target

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"latencylab/service"
)

// TestAccept: what a caller meets before its request is read; a script counts
// connections for such entries.
func TestAccept(t *testing.T) {
	spec := &service.Spec{Queue: -1, Script: []service.Ending{{Fault: service.FaultAcceptReset}, {Fault: service.FaultAcceptSilence}, {Status: 200}}}
	tg := begin(t, Config{Service: spec})
	c, err := net.Dial("tcp", tg.Replicas()[0].String())
	if err == nil {
		_, err = io.ReadAll(c)
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the first connection: %v, want a reset", err)
	}
	d := dial(t, tg.Replicas()[0])
	d.send(plainGet)
	d.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := d.Read(make([]byte, 1)); n != 0 || !isTimeout(err) {
		t.Errorf("the second: %d bytes, %v, want silence", n, err)
	}
	d.Close()
	settle(t, "that it has left", func() bool { return tg.Ledger().Connections.Open == 0 })
	d = dial(t, tg.Replicas()[0])
	for range 2 {
		d.send(plainGet)
		if resp, _ := d.answer("GET"); resp.StatusCode != 200 {
			t.Errorf("the third: status %d", resp.StatusCode)
		}
	}
	l := tg.Ledger()
	if c := l.Connections; c.Accepted != 3 || c.AcceptReset != 1 || c.AcceptSilence != 1 || l.Run("").Arrived != 2 {
		t.Errorf("%+v", c)
	}
}

// TestNoAccept: a connection made in the window waits for its end, and one made
// before goes on.
func TestNoAccept(t *testing.T) {
	const window = 300 * time.Millisecond
	spec := &service.Spec{Queue: -1, Outages: []service.Outage{{At: time.Hour, For: window, Ending: service.Ending{Fault: service.FaultNoAccept}}}}
	tg := begin(t, Config{Service: spec})
	old := dial(t, tg.Replicas()[0])
	old.send(plainGet)
	old.answer("GET")
	tg.Mark(-time.Hour, 0)
	began := time.Now()
	fresh := dial(t, tg.Replicas()[0])
	fresh.send(plainGet)
	old.send(plainGet)
	old.answer("GET")
	fresh.answer("GET")
	if took := time.Since(began); took < window/2 {
		t.Errorf("the new connection is answered after %v, want about %v", took, window)
	}
	if c := tg.Ledger().Connections; c.Accepted != 2 {
		t.Errorf("%+v", c)
	}
}

// TestFaultsOfTLS: a client that verifies does not take what is shown, and one
// that waits hears nothing. Half of a script of connections is good.
func TestFaultsOfTLS(t *testing.T) {
	spec := &service.Spec{Queue: -1, Script: []service.Ending{{Fault: service.FaultTLSWrongName}, {Fault: service.FaultTLSExpired},
		{Fault: service.FaultTLSUntrusted}, {Fault: service.FaultTLSStall}, {Status: 200}}}
	if _, err := Start(Config{Service: spec}); err == nil || err.Error() != "tls-wrong-name needs TLS: want tls: true in the service, or --tls" {
		t.Errorf("without TLS: %v", err)
	}
	tg := begin(t, Config{Service: spec, TLS: &TLS{}})
	for _, want := range []string{"certificate is valid for wrong.invalid, not localhost", "certificate has expired", "certificate signed by unknown authority", "timeout", ""} {
		c, err := net.Dial("tcp", tg.Replicas()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		if want == "timeout" {
			c.SetDeadline(time.Now().Add(50 * time.Millisecond))
		}
		s := tls.Client(c, trusting(t, tg))
		if err := s.Handshake(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		c.Close()
	}
	settle(t, "that all have left", func() bool { return tg.Ledger().Connections.Open == 0 })
	if c := tg.Ledger().Connections; c.BadCertificate != 3 || c.AcceptSilence != 1 || c.Accepted != 5 || c.Handshakes != 1 {
		t.Errorf("%+v", c)
	}
}

// TestSlowRead: a small request is read at once, a large one a little at a time.
func TestSlowRead(t *testing.T) {
	const size = 256 << 10
	tg := begin(t, Config{Service: always(service.FaultSlowRead, service.FaultSpec{Interval: time.Millisecond})})
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	c.answer("GET")
	began := time.Now()
	c.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size)))
	c.answer("POST")
	// No read brings more than the loop's buffer holds.
	if took, least := time.Since(began), (size/readSize-2)*time.Millisecond; took < least {
		t.Errorf("the large one took %v, want %v or more", took, least)
	}
	if l := tg.Ledger(); l.Connections.SlowRead != 1 || l.Run("").Answered[200] != 2 {
		t.Errorf("%+v", l.Connections)
	}
}
