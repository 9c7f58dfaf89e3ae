package target

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"latencylab/service"
)

// lost waits until the target has closed a connection, whatever it says first,
// and returns that.
func (c *caller) lost() string {
	c.t.Helper()
	b, err := io.ReadAll(c.r)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		c.t.Fatalf("still open after %v, read %q", patience, b)
	}
	return string(b)
}

// TestSlowCallersLoseTheirConnection: who owes bytes for too long is closed and
// counted; a head that comes in drips gains no time by them.
func TestSlowCallersLoseTheirConnection(t *testing.T) {
	tg := begin(t, Config{Idle: 100 * time.Millisecond})
	for i, row := range []struct{ what, sends, drips string }{
		{"says nothing, as a host that is gone", "", ""},
		{"half a head, and then nothing", "GET / HTTP/1.1\r\nHo", ""},
		{"a head in drips", "GET / HTTP/1.1\r\nHost: ", "a"},
		{"half a body, and then nothing", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345", ""},
	} {
		c := dial(t, tg.Replicas()[0])
		io.WriteString(c, row.sends)
		if row.drips != "" {
			go func() {
				for {
					if _, err := io.WriteString(c, row.drips); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond) // the pace of the drip is what is tested
				}
			}()
		}
		c.lost()
		if n := tg.Ledger().Connections.TimedOut; n != uint64(i+1) {
			t.Errorf("%s: %d connections timed out, want %d", row.what, n, i+1)
		}
	}
}

// TestEndlessHead: a head without end is refused at its limit.
func TestEndlessHead(t *testing.T) {
	tg := begin(t, Config{})
	for i, line := range []string{"X: " + strings.Repeat("y", 1000) + "\r\n", strings.Repeat("z", 1000)} {
		c := dial(t, tg.Replicas()[0])
		go func() {
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n")
			for range 1 << 20 {
				if _, err := io.WriteString(c, line); err != nil {
					return
				}
			}
		}()
		if said := c.lost(); said != "" && !strings.HasPrefix(said, "HTTP/1.1 431 ") {
			t.Errorf("the target says %.40q, want 431", said)
		}
		if n := tg.Ledger().Connections.Bad431; n != uint64(i+1) {
			t.Errorf("%d heads refused, want %d", n, i+1)
		}
	}
}

// TestHugeBody: a body of any size is read and dropped; no memory grows by it.
func TestHugeBody(t *testing.T) {
	const size = 1 << 30
	tg := begin(t, Config{})
	c := dial(t, tg.Replicas()[0])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n")
	block := bytes.Repeat([]byte("b"), 1<<20)
	for range size / len(block) {
		if _, err := c.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if resp, _ := c.answer("POST"); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// TestIdleConnections: of many connections that say nothing those beyond the
// limit are closed and counted, and a caller that has one is served.
func TestIdleConnections(t *testing.T) {
	const limit, more = 200, 50
	tg := begin(t, Config{MaxConnections: limit, Service: &service.Spec{}})
	good := dial(t, tg.Replicas()[0])
	for range limit - 1 {
		dial(t, tg.Replicas()[0])
	}
	settle(t, "the limit", func() bool { return tg.Ledger().Connections.Open == limit })
	for range more {
		dial(t, tg.Replicas()[0]).lost()
	}
	good.send(plainGet)
	if resp, _ := good.answer("GET"); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if c := tg.Ledger().Connections; c.Refused != more || c.Open != limit {
		t.Errorf("refused %d and open %d, want %d and %d", c.Refused, c.Open, more, limit)
	}
}

// TestDrainOfWhatDoesNotEnd: paused replicas and requests that hang do not hold
// a target for longer than it was told.
func TestDrainOfWhatDoesNotEnd(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Replicas: 3, Faults: service.Faults{service.FaultHang: {Share: 1}}, Time: dist(t, "1ms")}, Threads: 2, Front: DealRoundRobin})
	if _, err := tg.Pause(0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := tg.Kill(0, 2); err != nil {
		t.Fatal(err)
	}
	var list []*caller
	for i := range 2 {
		c := dial(t, tg.Replicas()[i])
		c.send(plainGet)
		list = append(list, c)
	}
	settle(t, "two in flight", func() bool { return tg.Backlog().InFlight == 2 })
	if tg.Drain(50 * time.Millisecond) {
		t.Error("clean, want that two were in flight")
	}
	for _, c := range list {
		c.lost()
	}
	if r := tg.Ledger().Run(""); r.InFlight != 2 {
		t.Errorf("in flight %d, want 2 in the ledger after the end", r.InFlight)
	}
	if _, err := tg.Resume(); err == nil {
		t.Error("a target that has ended obeys")
	}
}
