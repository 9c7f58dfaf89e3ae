package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"latencylab/service"
)

// TestOutage: what a caller sees of an outage that lasts as long as the target.
func TestOutage(t *testing.T) {
	for _, row := range []struct {
		what   string
		ending service.Ending
		read   func(c *caller)
		want   Counts
		status map[uint16]uint64
	}{
		{what: "an answer with its status, and the connection goes on", ending: service.Ending{Status: 503},
			read: func(c *caller) {
				resp, _ := c.answer("GET")
				if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "2" {
					c.t.Errorf("answer %d with Retry-After %q, want 503 with 2", resp.StatusCode, resp.Header.Get("Retry-After"))
				}
			},
			want: Counts{Arrived: 1, First: 1}, status: map[uint16]uint64{503: 1}},
		{what: "the connection closes without an answer", ending: service.Ending{Fault: service.FaultRefuse},
			read: (*caller).closed, want: Counts{Arrived: 1, First: 1, Broken: 1}},
		{what: "the connection is reset", ending: service.Ending{Fault: service.FaultReset},
			read: func(c *caller) {
				if _, err := io.ReadAll(c.r); !errors.Is(err, syscall.ECONNRESET) {
					c.t.Errorf("read: %v, want a reset", err)
				}
			},
			want: Counts{Arrived: 1, First: 1, Broken: 1}},
		{what: "nothing comes until the caller leaves", ending: service.Ending{Fault: service.FaultHang},
			read: func(c *caller) {
				c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.EAGAIN) && !isTimeout(err) {
					c.t.Errorf("read %d bytes, %v, want nothing", n, err)
				}
				c.Close()
			},
			want: Counts{Arrived: 1, First: 1, Cancelled: Cancelled{Running: 1, Dropped: 1}}},
	} {
		t.Run(row.what, func(t *testing.T) {
			spec := &service.Spec{Queue: -1, Slots: 1, Time: dist(t, "1h"),
				Outages: []service.Outage{{For: time.Hour, Ending: row.ending}}}
			if row.ending.Status != 0 {
				spec.RetryAfter = 2 * time.Second
			}
			tg := begin(t, Config{Service: spec})
			c := dial(t, tg.Replicas()[0])
			c.send(get("r", 1, 1))
			row.read(c)
			settle(t, "the end of the request", func() bool { r := tg.Ledger().Run("r"); return r != nil && r.InFlight == 0 })
			r := tg.Ledger().Run("r")
			sums(t, r)
			row.want.DrawsFirst, row.want.DrawsAll, row.want.Unstamped = r.DrawsFirst, r.DrawsAll, r.Unstamped
			if r.Counts != row.want || len(r.Answered) != len(row.status) || r.Answered[503] != row.status[503] {
				t.Errorf("%+v, answered %v, want %+v and %v", r.Counts, r.Answered, row.want, row.status)
			}
			if want := digestOf(1, 1, time.Hour); r.DrawsAll != want {
				t.Errorf("draws %x, want %x as without an outage", r.DrawsAll, want)
			}
		})
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// TestDeadlineFromTheWire: a service that heeds deadlines stops at what each
// header says, and one that does not works on.
func TestDeadlineFromTheWire(t *testing.T) {
	for _, row := range []struct {
		aware  service.Deadline
		header string
		status int
	}{
		{service.DeadlineRunning, "x-deadline-ms: 0000000000030", 504},
		{service.DeadlineRunning, "grpc-timeout: 30m", 504},
		{service.DeadlineRunning, "x-request-deadline: " + time.Now().Add(30*time.Millisecond).UTC().Format(time.RFC3339Nano), 504},
		{service.DeadlineRunning, "x-deadline-ms: soon", 200},
		{service.DeadlineIgnore, "x-deadline-ms: 30", 200},
	} {
		spec := &service.Spec{Queue: -1, Time: dist(t, "200ms"), Deadline: row.aware}
		c := dial(t, begin(t, Config{Service: spec}).Replicas()[0])
		c.send("GET / HTTP/1.1\r\nHost: a\r\n" + row.header + "\r\n\r\n")
		if resp, _ := c.answer("GET"); resp.StatusCode != row.status {
			t.Errorf("%v, %s: status %d, want %d", row.aware, row.header, resp.StatusCode, row.status)
		}
	}
}

// TestStall: the target's clock of stalls begins with the target.
func TestStall(t *testing.T) {
	began := time.Now()
	spec := &service.Spec{Queue: -1, Time: dist(t, "1ms"), Stalls: []service.Stall{{For: dist(t, "150ms")}}}
	tg := begin(t, Config{Service: spec})
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	c.answer("GET")
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("an answer %v after the target began, want none in the first 150 ms", took)
	}
}

// TestCancelCost: work that is stopped holds its slot on, and the next request
// waits for that.
func TestCancelCost(t *testing.T) {
	const cost = 100 * time.Millisecond
	spec := &service.Spec{Queue: -1, Slots: 1, Time: dist(t, "1ms"), Slow: service.Slow{Share: 0.5, Time: dist(t, "1h")},
		Cancel: service.CancelRunning, CancelCost: cost}
	var slow, fast uint64
	for call := range uint64(100) {
		if drawn, _ := spec.Draw(1, 0, call, 1); drawn > time.Second {
			slow = call
		} else {
			fast = call
		}
	}
	tg := begin(t, Config{Service: spec, Seed: 1})
	holder, waiter := dial(t, tg.Replicas()[0]), dial(t, tg.Replicas()[0])
	holder.send(get("r", slow, 1))
	settle(t, "arrival", func() bool { r := tg.Ledger().Run("r"); return r != nil && r.BusyPeak == 1 })
	waiter.send(get("r", fast, 1))
	settle(t, "waiting", func() bool { return tg.Ledger().Run("r").QueuePeak == 1 })
	left := time.Now()
	holder.Close()
	waiter.answer("GET")
	if took := time.Since(left); took < cost {
		t.Errorf("the next is answered after %v, want %v or more", took, cost)
	}
	r := tg.Ledger().Run("r")
	sums(t, r)
	if r.Answered[200] != 1 || r.Cancelled.Dropped != 1 || r.AfterLeft != 0 || r.InFlight != 0 {
		t.Errorf("%+v, want one answered and one dropped", r)
	}
}

// TestScript: attempt by attempt, whatever the connection.
func TestScript(t *testing.T) {
	spec := &service.Spec{Queue: -1, Script: []service.Ending{{Status: 503}, {Fault: service.FaultReset}, {Fault: service.FaultRefuse}, {Fault: service.FaultHang}, {Status: 200}}}
	tg := begin(t, Config{Service: spec})
	c := dial(t, tg.Replicas()[0])
	again := func() { c = dial(t, tg.Replicas()[0]) }
	for attempt := uint64(1); attempt <= 6; attempt++ {
		c.send(get("r", 1, attempt))
		switch attempt {
		case 2:
			if _, err := io.ReadAll(c.r); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("attempt 2: %v, want a reset", err)
			}
			again()
		case 3:
			c.closed()
			again()
		case 4:
			settle(t, "arrival", func() bool { return tg.Ledger().Run("r").Arrived == 4 })
			c.Close()
			again()
		default:
			if resp, _ := c.answer("GET"); (resp.StatusCode == 503) != (attempt == 1) {
				t.Errorf("attempt %d: status %d", attempt, resp.StatusCode)
			}
		}
	}
	settle(t, "the end of all", func() bool { return tg.Ledger().Run("r").InFlight == 0 })
	r := tg.Ledger().Run("r")
	sums(t, r)
	if r.Answered[503] != 1 || r.Answered[200] != 2 || r.Broken != 2 || r.Cancelled.Dropped != 1 {
		t.Errorf("%+v, want one 503, two 200, two broken and one dropped", r)
	}
}

// TestSlowConnections: what is slow stays slow for all that one connection
// carries, and half of the connections are not.
func TestSlowConnections(t *testing.T) {
	spec := &service.Spec{Queue: -1, Slow: service.Slow{Share: 0.5, Time: dist(t, "30ms"), By: service.SlowByConnection}}
	tg := begin(t, Config{Service: spec, Seed: 3})
	slow := 0
	for i := range 12 {
		c, key := dial(t, tg.Replicas()[0]), fmt.Sprintf("r%d", i)
		var fast, late Digest
		for call := range uint64(3) {
			c.send(get(key, call, 1))
			c.answer("GET")
			fast += digestOf(call, 1, 0)
			late += digestOf(call, 1, 30*time.Millisecond)
		}
		c.Close()
		r := tg.Ledger().Run(key)
		sums(t, r)
		switch r.DrawsAll {
		case late:
			slow++
		case fast:
		default:
			t.Errorf("connection %d was slow for some of its requests only", i)
		}
	}
	if slow == 0 || slow == 12 {
		t.Errorf("%d of 12 connections are slow, want some", slow)
	}
}

// TestMark: what the schedules count from.
func TestMark(t *testing.T) {
	spec := &service.Spec{Replicas: 2, Queue: -1, Outages: []service.Outage{{For: time.Nanosecond, Ending: service.Ending{Status: 500}}, {At: time.Hour, For: time.Hour, Ending: service.Ending{Status: 503}}}}
	tg := begin(t, Config{Service: spec, Threads: 2})
	status := func() int {
		c := dial(t, tg.Replicas()[1])
		c.send(plainGet)
		resp, _ := c.answer("GET")
		return resp.StatusCode
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, row := range []struct {
		what string
		mark func() error
		want int
	}{
		{"after the start", func() error { return nil }, 200},
		{"an hour after a mark", func() error { tg.Mark(-time.Hour, 0); return nil }, 503},
		{"after a mark", func() error { tg.Mark(0, 7); return nil }, 200},
		{"before a mark to come, asked for at the page", func() error { return PostMark(ctx, tg.LedgerURL(), time.Hour, 3) }, 200},
	} {
		if err := row.mark(); err != nil {
			t.Fatal(err)
		}
		if got := status(); got != row.want {
			t.Errorf("%s: status %d, want %d", row.what, got, row.want)
		}
	}
	if err := PostMark(ctx, "http://"+tg.Replicas()[0].String()+"/ledger", 0, 1); err == nil {
		t.Error("a replica took the mark of an admin listener")
	}
}
