package engine

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/http1"
	"latencylab/ledger"
	"latencylab/policy"
)

// caller returns a Caller of a server, nested in a poller, and its book.
func caller(t *testing.T, p *policy.Policy, s *server) (*Caller, *Poller, *ledger.Ledger) {
	t.Helper()
	tmpl, err := http1.NewRequestTemplate("GET", "/", "b", nil, nil, &http1.LabHeaders{Hop: true})
	if err != nil {
		t.Fatal(err)
	}
	book := ledger.New(nil)
	k, err := NewCaller(CallerConfig{Policy: p, Endpoints: EndpointsAt(s.addr), Template: tmpl, Idempotent: true, Book: book})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	poll, err := NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(poll.Close)
	if err := k.Nest(poll, 7); err != nil {
		t.Fatal(err)
	}
	return k, poll, book
}

// end drives the Caller by what its poller and Next say until a call has ended.
func end(t *testing.T, k *Caller, poll *Poller) Ended {
	t.Helper()
	events := NewEvents(4)
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); {
		if e, ok := k.Ended(); ok {
			return e
		}
		d := 20 * time.Second
		if next := k.Next(); next != clock.Never {
			d = max(next.Sub(clock.Now()), 0)
		}
		if _, err := poll.Wait(events, d); err != nil {
			t.Fatal(err)
		}
		if err := k.Turn(); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no call has ended")
	return Ended{}
}

func answerWith(status string) func(int64, *http.Request, net.Conn) bool {
	return func(_ int64, _ *http.Request, c net.Conn) bool {
		io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n")
		return true
	}
}

func TestCaller(t *testing.T) {
	var run http1.Run
	copy(run[:], "run-1")
	for _, row := range []struct {
		name    string
		policy  policy.Policy
		answer  func(n int64, r *http.Request, c net.Conn) bool
		within  time.Duration // of the submission; 0: no deadline
		outcome policy.Outcome
		status  uint16
		sent    uint64
	}{
		{"ok", policy.Policy{}, answerWith("200 OK"), 0, policy.OK, 0, 1},
		{"the last status", policy.Policy{Retry: policy.Retry{Max: 2}}, answerWith("503 No"), 0, policy.Failed, 503, 3},
		{"a timeout", policy.Policy{Timeouts: policy.Timeouts{policy.PartAttempt: {After: 20 * time.Millisecond}}}, hang, 0, policy.Failed, 504, 1},
		{"the caller's deadline", policy.Policy{}, hang, 30 * time.Millisecond, policy.Expired, 504, 1},
		{"the connection", policy.Policy{}, func(int64, *http.Request, net.Conn) bool { return false }, 0, policy.Failed, 502, 1},
		{"what is passed on", policy.Policy{Wire: policy.WireDeadlineMS}, func(_ int64, r *http.Request, c net.Conn) bool {
			status := "200 OK"
			if r.Header.Get("Latencylab-Run") != "run-1" || r.Header.Get("Latencylab-Entry") != "00000000000000000003/0000000002" ||
				r.Header.Get("Latencylab-Call") != "00000000000000000009" || r.Header.Get("X-Deadline-Ms") != "" {
				status = "400 No"
			}
			return answerWith(status)(0, r, c)
		}, 0, policy.OK, 0, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			k, poll, book := caller(t, &row.policy, serve(t, row.answer))
			now, deadline := clock.Now(), clock.Never
			if row.within > 0 {
				deadline = now.Add(row.within)
			}
			k.Submit(Submission{ID: 9, Tag: 5, Intended: now, Deadline: deadline, Run: run, Entry: http1.Entry{Call: 3, Attempt: 2}})
			e := end(t, k, poll)
			if e.Tag != 5 || e.Outcome != row.outcome || e.Status != row.status || book.Attempts.Sent != row.sent {
				t.Errorf("%+v after %d attempts, want %v %d after %d", e, book.Attempts.Sent, row.outcome, row.status, row.sent)
			}
			if err := book.Check(); err != nil || k.Live() != 0 || k.Open() != (Open{}) {
				t.Errorf("%v, %d under way", err, k.Live())
			}
		})
	}
}

// hang answers nothing and keeps the connection.
func hang(int64, *http.Request, net.Conn) bool { return true }

func TestCallerCancel(t *testing.T) {
	got := make(chan struct{}, 1)
	k, poll, book := caller(t, &policy.Policy{}, serve(t, func(int64, *http.Request, net.Conn) bool { got <- struct{}{}; return true }))
	ref := k.Submit(Submission{ID: 1, Intended: clock.Now(), Deadline: clock.Never})
	events := NewEvents(4)
	for arrived := false; !arrived; {
		poll.Wait(events, 10*time.Millisecond)
		if err := k.Turn(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-got:
			arrived = true
		default:
		}
	}
	book.Reset()
	k.Recount()
	k.Cancel(ref)
	k.Cancel(ref) // it has ended
	if _, ok := k.Ended(); ok {
		t.Error("a call that was given up has ended of itself")
	}
	if c := book.Counts; c.Calls.Scheduled != 1 || c.Calls.Unfinished != 1 || c.Attempts.Cancelled != 1 || c.Connections.ClosedByCancel != 1 {
		t.Errorf("%+v", c.Calls)
	}
	if err := book.Check(); err != nil {
		t.Error(err)
	}
}
