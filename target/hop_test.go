package target

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"latencylab/workloads"
)

// chain starts the services of a file.
func chain(t testing.TB, threads int, file string) *Target {
	t.Helper()
	g, err := workloads.ParseGraph("chain.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return begin(t, Config{Graph: g, Threads: threads})
}

// checked returns the ledger once nothing is in flight, and fails where an
// identity does not hold.
func checked(t testing.TB, tg *Target) *Ledger {
	t.Helper()
	var l *Ledger
	settle(t, "nothing in flight", func() bool {
		l = tg.Ledger()
		busy := uint64(0)
		for i := range l.Services {
			s := &l.Services[i]
			sum := s.Total()
			sums(t, &sum)
			busy += sum.InFlight
			for k := range s.Calls {
				if err := s.Calls[k].Check(); err != nil {
					t.Fatal(err)
				}
				busy += s.Calls[k].Calls.InFlight
			}
		}
		return busy == 0
	})
	return l
}

// ask sends one request to the entry and returns its status and header.
func ask1(t testing.TB, tg *Target, request string) (int, http.Header) {
	t.Helper()
	c := dial(t, tg.Replicas()[0])
	c.send(request)
	resp, _ := c.answer("GET")
	return resp.StatusCode, resp.Header
}

// TestOneHop: a service calls another by a policy, which retries what fails; run
// key and entry go with the calls.
func TestOneHop(t *testing.T) {
	for _, threads := range []int{1, 2} {
		tg := chain(t, threads, `
services:
  a: {time: 1ms, calls: [{to: b, policy: "retry=2,backoff=1ms"}]}
  b: {time: 1ms, script: [503, 200], body: 100B}
`)
		if status, _ := ask1(t, tg, get("hop", 7, 1)); status != 200 {
			t.Errorf("status %d, want 200 after a retry", status)
		}
		l := checked(t, tg)
		a, b := l.Service("a"), l.Service("b")
		if got := a.Calls[0]; got.Calls.OK != 1 || got.Attempts.Retries != 1 || got.Attempts.Failed != 1 || len(got.Errors) != 1 || got.Errors[0].Status != 503 {
			t.Errorf("calls of a: %+v", got)
		}
		if r := b.Runs; len(r) != 1 || r[0].Key != "hop" || r[0].Arrived != 2 || r[0].Answered[503] != 1 || r[0].Answered[200] != 1 {
			t.Errorf("runs of b: %+v", r)
		}
		_, body := page(t, "GET", "http://"+tg.Admin().String()+"/attempts?entry=7")
		if n := strings.Count(body, `"entry":"7/1"`); n != 2 {
			t.Errorf("%d attempts for call 7 of the entry, want 2:\n%s", n, body)
		}
		if r := l.Run("hop"); r == nil || r.Arrived != 1 || r.Work.Answered.Requests != 1 {
			t.Errorf("run of a: %+v", r)
		}
		tg.Stop()
	}
}

func TestHopStatuses(t *testing.T) {
	for _, row := range []struct {
		name, file string
		status     int
		left       string
	}{
		{"the last status", `services: {a: {calls: [{to: b}]}, b: {status: {500: 100%}}}`, 500, ""},
		{"a timeout", `services: {a: {calls: [{to: b, policy: "attempt-timeout=20ms"}]}, b: {time: 5s}}`, 504, ""},
		{"the deadline", `services: {a: {calls: [{to: b, policy: "deadline=20ms"}]}, b: {time: 5s}}`, 504, ""},
		{"a broken connection", `services: {a: {calls: [{to: b}]}, b: {fault: {reset: 100%}}}`, 502, ""},
		{"nothing to connect to", `services: {a: {calls: [{to: "http://127.0.0.1:1/"}]}}`, 502, ""},
		{"its own failure calls nothing", `services: {a: {status: {503: 100%}, calls: [{to: b}]}, b: {}}`, 503, ""},
		{"an optional call that is late", `services: {a: {calls: [{to: b}, {to: c, optional: true, policy: "deadline=20ms"}]}, b: {time: 1ms}, c: {time: 5s}}`, 200, "c"},
		{"two optional calls that fail", `services: {a: {calls: [{to: b}, {to: c, name: c1, optional: true, policy: "deadline=2s"}, {to: c, name: c2, optional: true, policy: "deadline=2s"}]}, b: {}, c: {status: {500: 100%}}}`, 200, "c1,c2"},
		{"a call after an optional one", `services: {a: {calls: [{to: c, optional: true, policy: "deadline=2s"}, {to: b, after: c}]}, b: {}, c: {status: {500: 100%}}}`, 200, "c"},
		{"two of three", `services: {a: {calls: [{to: b, fan: 3, need: 2}]}, b: {replicas: 3, each: [{replica: 1, time: 5s}]}}`, 200, ""},
		{"time after", `services: {a: {time-after: 3ms, calls: [{to: b}]}, b: {}}`, 200, ""},
		{"what the caller leaves is not enough", `services: {a: {calls: [{to: b, min-start: 2s}]}, b: {}}`, 504, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			tg := chain(t, 1, row.file)
			status, head := ask1(t, tg, "GET / HTTP/1.1\r\nHost: a\r\nx-deadline-ms: 1500\r\n\r\n")
			if status != row.status || head.Get("Latencylab-Left-Out") != row.left {
				t.Errorf("status %d, left out %q, want %d and %q", status, head.Get("Latencylab-Left-Out"), row.status, row.left)
			}
		})
	}
}

// TestHopOrder: calls that wait for others are begun after them, others together.
func TestHopOrder(t *testing.T) {
	tg := chain(t, 1, `
services:
  a: {calls: [{to: b}, {to: c, after: b}, {to: d, after: [b, c]}]}
  b: {time: 30ms}
  c: {time: 30ms}
  d: {time: 30ms}
`)
	began := time.Now()
	if status, _ := ask1(t, tg, plainGet); status != 200 || time.Since(began) < 90*time.Millisecond {
		t.Errorf("status %d after %v, want 200 after at least 90ms", status, time.Since(began))
	}
	l := checked(t, tg)
	for _, c := range l.Service("a").Calls {
		if c.Calls.OK != 1 || c.Response.Count != 1 {
			t.Errorf("call %s: %+v", c.Name, c)
		}
	}
}

// TestHopCallerLeaves: a service that cancels stops its calls with its caller,
// one that does not goes on.
func TestHopCallerLeaves(t *testing.T) {
	for _, cancels := range []bool{true, false} {
		file := `services: {a: {CANCELS calls: [{to: b}]}, b: {time: 1s, cancel: running}}`
		word := ""
		if cancels {
			word = "cancels: true,"
		}
		tg := chain(t, 1, strings.Replace(file, "CANCELS", word, 1))
		c := dial(t, tg.Replicas()[0])
		c.send(plainGet)
		settle(t, "the call", func() bool { s := tg.Ledger().Service("b").Total(); return s.Arrived == 1 })
		c.Close()
		l := checked(t, tg)
		a, b, call := l.Service("a").Total(), l.Service("b").Total(), l.Service("a").Calls[0]
		if cancels && (a.Cancelled.Dropped != 1 || b.Cancelled.Dropped != 1 || call.Calls.Unfinished != 1 || call.Attempts.Cancelled != 1) {
			t.Errorf("cancels: a %+v, b %+v, calls %+v", a.Counts, b.Counts, call)
		}
		if !cancels && (a.Cancelled.WentOn != 1 || a.AfterLeft != 1 || b.AnsweredTotal() != 1 || call.Calls.OK != 1) {
			t.Errorf("goes on: a %+v, b %+v, calls %+v", a.Counts, b.Counts, call)
		}
	}
}

// TestHopSilent: a failure is not answered, and its caller's leaving ends it.
func TestHopSilent(t *testing.T) {
	tg := chain(t, 1, `services: {a: {silent: true, calls: [{to: b}]}, b: {status: {500: 100%}}}`)
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	settle(t, "the failure", func() bool { return tg.Ledger().Service("a").Calls[0].Calls.Failed == 1 })
	c.Close()
	if a := checked(t, tg).Service("a").Total(); a.Cancelled.Dropped != 1 || a.AnsweredTotal() != 0 {
		t.Errorf("a: %+v", a.Counts)
	}
}

// TestHopReset: what is under way at a reset counts as begun then.
func TestHopReset(t *testing.T) {
	tg := chain(t, 1, `services: {a: {calls: [{to: b, fan: 3}]}, b: {time: 300ms}}`)
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	settle(t, "the calls", func() bool { s := tg.Ledger().Service("b").Total(); return s.Arrived == 3 })
	tg.Reset()
	c.answer("GET")
	if call := checked(t, tg).Service("a").Calls[0]; call.Calls.Begun != 3 || call.Calls.OK != 3 || call.Attempts.Sent != 3 {
		t.Errorf("%+v", call)
	}
}

// TestHopForwardsDeadline: what is told of the deadline is heeded, and where
// nothing is forwarded nobody knows of it.
func TestHopForwardsDeadline(t *testing.T) {
	for _, row := range []struct {
		forward string
		expired uint64
	}{{"true", 1}, {"grpc-timeout", 1}, {"false", 0}} {
		tg := chain(t, 1, `services: {a: {calls: [{to: b, forward-deadline: `+row.forward+`}]}, b: {time: 150ms, deadline: running}}`)
		if status, _ := ask1(t, tg, "GET / HTTP/1.1\r\nHost: a\r\nx-deadline-ms: 60\r\n\r\n"); status != 504 {
			t.Errorf("forward %s: status %d, want 504", row.forward, status)
		}
		l := checked(t, tg)
		b := l.Service("b").Total()
		if work := b.Work.Total().NS < uint64(140*time.Millisecond); work != (row.expired == 1) {
			t.Errorf("forward %s: b worked for %v", row.forward, time.Duration(b.Work.Total().NS))
		}
		tg.Reset()
		// Without a deadline nothing is said of one.
		if status, _ := ask1(t, tg, plainGet); status != 200 {
			t.Errorf("forward %s: status %d without a deadline, want 200", row.forward, status)
		}
	}
}

// TestHopDrain: a request that is under way may still call what it has not yet
// called, on whichever loop.
func TestHopDrain(t *testing.T) {
	for _, threads := range []int{1, 3} {
		tg := chain(t, threads, `services: {a: {time: 150ms, calls: [{to: b}]}, b: {time: 50ms, calls: [{to: c}]}, c: {time: 50ms}}`)
		warm := dial(t, tg.Services()[2].Replicas[0]) // a caller from outside, which stays
		warm.send(plainGet)
		warm.answer("GET")
		c := dial(t, tg.Replicas()[0])
		c.send(plainGet)
		settle(t, "arrival", func() bool { s := tg.Ledger().Service("a").Total(); return s.Arrived == 1 })
		ended := make(chan bool, 1)
		go func() { ended <- tg.Drain(patience) }()
		if resp, _ := c.answer("GET"); resp.StatusCode != 200 {
			t.Errorf("%d threads: status %d, want 200", threads, resp.StatusCode)
		}
		if !<-ended {
			t.Errorf("%d threads: the drain was not clean", threads)
		}
	}
}

// TestHopSeesLeaving tells how long after a caller has closed its connection the
// service it had called, and the one behind it, have stopped for it. It holds
// that all do, not how fast: that depends on the machine.
func TestHopSeesLeaving(t *testing.T) {
	const n = 200
	tg := chain(t, 1, `services: {a: {cancels: true, calls: [{to: b}]}, b: {time: 10s, cancel: running}}`)
	closed := make([]time.Time, n)
	for i := range closed {
		c := dial(t, tg.Replicas()[0])
		c.send(get("leave", uint64(i), 1))
		settle(t, "the call", func() bool { return worksOn(tg, 1) })
		closed[i] = time.Now()
		c.Close()
		settle(t, "the stop", func() bool { return !worksOn(tg, 1) })
	}
	l := checked(t, tg)
	if a, b := l.Run("leave"), l.Service("b").Total(); a.Cancelled.Dropped != n || b.Cancelled.Dropped != n {
		t.Fatalf("a dropped %d and b %d, want %d", a.Cancelled.Dropped, b.Cancelled.Dropped, n)
	}
	late := [2][]time.Duration{}
	buf := make([]entry, 4*n)
	tg.reading.Lock()
	defer tg.reading.Unlock()
	tg.copyFrom(0, 0, buf, func(b *batch) {
		for _, e := range b.entries {
			seen := wallOf(e.arrived).Add(e.left)
			k := len(late[e.replica])
			late[e.replica] = append(late[e.replica], seen.Sub(closed[k]))
		}
	})
	for i, name := range []string{"a", "b"} {
		slices.Sort(late[i])
		t.Logf("%s saw its caller leave %v (p50), %v (p99), %v (most) after the entry's caller had", name, late[i][n/2], late[i][n*99/100], late[i][n-1])
	}
}

// worksOn reports whether a replica works on something.
func worksOn(tg *Target, replica int) bool { return tg.Backlog().Replicas[replica].Busy > 0 }

// TestHopAllocatesNothing: requests that call on allocate nothing once memory for
// as many was had.
func TestHopAllocatesNothing(t *testing.T) {
	tg := chain(t, 1, `services: {a: {calls: [{to: b, fan: 2}, {to: c, after: b, policy: "retry=1"}]}, b: {}, c: {}}`)
	c := dial(t, tg.Replicas()[0])
	request := []byte(plainGet)
	buf := make([]byte, 4096)
	size := c.size(request)
	for range 500 {
		c.exchange(request, buf, size)
	}
	if n := testing.AllocsPerRun(1000, func() { c.exchange(request, buf, size) }); n > 0.1 {
		t.Errorf("%v allocations a request", n)
	}
}
