package target

import (
	"net"
	"testing"
	"time"

	"latencylab/service"
)

func TestCallerLeaves(t *testing.T) {
	forever := "1h"
	for _, row := range []struct {
		what   string
		cancel service.Cancel
		reset  bool // the caller leaves with RST instead of FIN
		late   bool // the caller that waits in the queue leaves
		want   Cancelled
	}{
		{what: "nothing stops: work goes on for nobody", cancel: service.CancelNone, want: Cancelled{Running: 1, WentOn: 1}},
		{what: "nothing stops after a reset either", cancel: service.CancelNone, reset: true, want: Cancelled{Running: 1, WentOn: 1}},
		{what: "nothing stops: a waiting request goes on", cancel: service.CancelNone, late: true, want: Cancelled{Queued: 1, WentOn: 1}},
		{what: "queued only: running work goes on", cancel: service.CancelQueued, want: Cancelled{Running: 1, WentOn: 1}},
		{what: "queued only: a waiting request is dropped", cancel: service.CancelQueued, late: true, want: Cancelled{Queued: 1, Dropped: 1}},
		{what: "running work is dropped", cancel: service.CancelRunning, want: Cancelled{Running: 1, Dropped: 1}},
		{what: "running work is dropped after a reset", cancel: service.CancelRunning, reset: true, want: Cancelled{Running: 1, Dropped: 1}},
		{what: "a waiting request is dropped too", cancel: service.CancelRunning, late: true, want: Cancelled{Queued: 1, Dropped: 1}},
	} {
		t.Run(row.what, func(t *testing.T) {
			tg := begin(t, Config{Service: &service.Spec{Queue: -1, Slots: 1, Time: dist(t, forever), Cancel: row.cancel}})
			first, second := dial(t, tg.Replicas()[0]), dial(t, tg.Replicas()[0])
			arrived := func(n uint64) {
				settle(t, "arrival", func() bool { r := tg.Ledger().Run("r"); return r != nil && r.Arrived == n })
			}
			first.send(get("r", 1, 1))
			arrived(1)
			second.send(get("r", 2, 1))
			arrived(2)
			leaver := first
			if row.late {
				leaver = second
			}
			if row.reset {
				leaver.Conn.(*net.TCPConn).SetLinger(0)
			}
			leaver.Close()
			settle(t, "the leaving", func() bool { return tg.Ledger().Run("r").Cancelled == row.want })
			r := tg.Ledger().Run("r")
			sums(t, r)
			if r.InFlight != 2-row.want.Dropped || r.QueuePeak != 1 || r.BusyPeak != 1 {
				t.Errorf("%+v, want %d in flight", r.Counts, 2-row.want.Dropped)
			}
		})
	}
}

func TestDroppedWorkFreesItsSlot(t *testing.T) {
	spec := &service.Spec{Queue: -1, Slots: 1, Cancel: service.CancelRunning, Time: dist(t, "1ms"), Slow: service.Slow{Share: 0.5, Time: dist(t, "1h")}}
	tg := begin(t, Config{Service: spec, Seed: 1})
	var slow, fast uint64
	for call := range uint64(100) {
		if drawn, _ := spec.Draw(1, 0, call, 1); drawn > time.Second {
			slow = call
		} else {
			fast = call
		}
	}
	holder, waiter := dial(t, tg.Replicas()[0]), dial(t, tg.Replicas()[0])
	holder.send(get("r", slow, 1))
	settle(t, "arrival", func() bool { r := tg.Ledger().Run("r"); return r != nil && r.BusyPeak == 1 })
	waiter.send(get("r", fast, 1))
	settle(t, "waiting", func() bool { return tg.Ledger().Run("r").QueuePeak == 1 })
	holder.Close()
	waiter.answer("GET")
	r := tg.Ledger().Run("r")
	sums(t, r)
	if r.Answered[200] != 1 || r.Cancelled.Dropped != 1 {
		t.Errorf("%+v, want one answered and one dropped", r)
	}
}

func TestAnswerAfterTheCallerLeft(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1, Time: dist(t, "50ms"), Body: 10}})
	c := dial(t, tg.Replicas()[0])
	c.send(get("r", 1, 1))
	c.Close()
	settle(t, "the end", func() bool { r := tg.Ledger().Run("r"); return r != nil && r.AfterLeft == 1 })
	l := tg.Ledger()
	sums(t, l.Run("r"))
	if r := l.Run("r"); r.Cancelled != (Cancelled{Running: 1, WentOn: 1}) || len(r.Answered) != 0 || r.DelayError.Count != 1 {
		t.Errorf("%+v, want one that went on and was answered to nobody", r)
	}
	settle(t, "the close", func() bool { return tg.Ledger().Connections.Open == 0 })
}

func TestShed(t *testing.T) {
	spec := &service.Spec{Queue: 1, Slots: 1, Shed: 429, RetryAfter: 3 * time.Second, Time: dist(t, "1h")}
	tg := begin(t, Config{Service: spec, Seed: 1})
	for call := range uint64(3) {
		c := dial(t, tg.Replicas()[0])
		c.send(get("r", call, 1))
		if call < 2 {
			settle(t, "arrival", func() bool { r := tg.Ledger().Run("r"); return r != nil && r.Arrived == call+1 })
			continue
		}
		if resp, _ := c.answer("GET"); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "3" {
			t.Errorf("status %d, Retry-After %q, want 429 and 3", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
	}
	r := tg.Ledger().Run("r")
	sums(t, r)
	if r.Shed != 1 || r.Answered[429] != 1 || r.InFlight != 2 {
		t.Errorf("%+v, want one shed", r)
	}
	var want Digest
	for call := range uint64(3) {
		drawn, _ := spec.Draw(1, 0, call, 1)
		want += digestOf(call, 1, drawn)
	}
	if r.DrawsFirst != want {
		t.Errorf("digest %x, want %x whatever was shed", r.DrawsFirst, want)
	}
}

func TestSlowPeers(t *testing.T) {
	for _, row := range []struct{ what, send string }{
		{"a connection that never says anything", ""},
		{"a head that does not end", "GET / HTTP/1.1\r\nHo"},
		{"a body that does not end", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"},
	} {
		t.Run(row.what, func(t *testing.T) {
			tg := begin(t, Config{Service: &service.Spec{Queue: -1}, Idle: 20 * time.Millisecond})
			c := dial(t, tg.Replicas()[0])
			c.send(row.send)
			if said := c.lost(); said != "" {
				t.Errorf("read %q, want nothing", said)
			}
			if n := tg.Ledger().Connections.TimedOut; n != 1 {
				t.Errorf("%d timed out, want 1", n)
			}
		})
	}
	t.Run("a reader that does not read its answer", func(t *testing.T) {
		tg := begin(t, Config{Service: &service.Spec{Queue: -1, Body: 64 << 20}, Idle: 50 * time.Millisecond})
		c := dial(t, tg.Replicas()[0])
		c.send(plainGet)
		settle(t, "the end of patience", func() bool { return tg.Ledger().Connections.TimedOut == 1 })
		if r := tg.Ledger().Run(""); r.CutShort != 1 {
			t.Errorf("%+v, want one cut short", r)
		}
	})
	t.Run("a connection between requests is kept longer", func(t *testing.T) {
		tg := begin(t, Config{Service: &service.Spec{Queue: -1, Time: dist(t, "150ms")}, Idle: 50 * time.Millisecond})
		c := dial(t, tg.Replicas()[0])
		c.send(plainGet) // served for longer than the limit
		c.answer("GET")
		c.closed() // ten times the limit later
		if n := tg.Ledger().Connections.TimedOut; n != 1 {
			t.Errorf("%d timed out, want 1", n)
		}
	})
}

func TestConnectionLimit(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}, MaxConnections: 2})
	a, b := dial(t, tg.Replicas()[0]), dial(t, tg.Replicas()[0])
	a.send(plainGet)
	a.answer("GET")
	b.send(plainGet)
	b.answer("GET")
	dial(t, tg.Replicas()[0]).closed()
	if l := tg.Ledger(); l.Connections.Refused != 1 || l.Connections.Open != 2 {
		t.Errorf("%+v, want 2 open and 1 refused", l.Connections)
	}
	a.Close()
	settle(t, "the close", func() bool { return tg.Ledger().Connections.Open == 1 })
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	c.answer("GET")
}
