package engine

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latencylab/clock"
	"latencylab/policy"
	"latencylab/workloads"
)

// stepping returns the only loop of an engine inside a block of lane 0; the
// test makes its turns. Its own goroutine sleeps.
func stepping(t *testing.T, cfg Config, b workloads.Block) *loop {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	l, begin := e.loops[0], clock.Now()
	r := &run{loops: 1, block: b, begin: begin, dataStart: begin.Add(b.Burn), end: begin.Add(b.Burn + b.Data)}
	if b.Calls > 0 {
		r.end = clock.Never
	}
	l.enter(r)
	return l
}

// turns makes turns until done.
func turns(t *testing.T, l *loop, done func() bool) {
	t.Helper()
	for !done() {
		if l.over() {
			t.Fatal("the block is over")
		}
		if err := l.turn(); err != nil {
			t.Fatal(err)
		}
	}
}

// unread waits until n of the loop's connections hold bytes that it has not read.
func unread(t *testing.T, l *loop, n int) {
	t.Helper()
	give := time.After(10 * time.Second)
	for {
		have := 0
		l.conns.Each(func(cn *conn) {
			var b [1]byte
			if cn.state == connBusy || cn.state == connDraining {
				if k, _, _ := unix.Recvfrom(int(cn.fd), b[:], unix.MSG_PEEK); k > 0 {
					have++
				}
			}
		})
		if have >= n {
			return
		}
		select {
		case <-give:
			t.Fatalf("%d connections hold an answer, want %d", have, n)
		case <-time.After(ms):
		}
	}
}

// past waits until the instant has passed.
func past(at clock.Time) {
	for clock.Now() <= at {
		<-time.After(at.Sub(clock.Now()) + 1)
	}
}

// TestNoTimerWhileAnswersLieUnread: the loop comes back late, when the deadline
// has passed and an answer that came in time lies unread behind another one.
func TestNoTimerWhileAnswersLieUnread(t *testing.T) {
	for _, row := range []struct{ about, first string }{
		{"the other attempt's answer has only begun", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"},
		{"the other attempt's answer is a retryable failure", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"},
		{"the other attempt's connection broke", ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			tight(t)
			both := make(chan struct{}, 2)
			release, told := make(chan struct{}), make(chan struct{})
			p := playing(t, func(c *received) {
				r, err := c.request()
				if err != nil {
					return
				}
				both <- struct{}{}
				<-release
				if strings.HasSuffix(r.Header.Get("Latencylab-Attempt"), "1") {
					if row.first == "" {
						c.reset()
						close(told)
						return
					}
					c.say(row.first)
					close(told)
				} else {
					<-told
					c.say(hello)
				}
				c.gone()
			})
			pol := policy.Policy{Deadline: 300 * ms, Hedge: policy.Hedge{Max: 1}, Retry: policy.Retry{Max: 1}}
			cfg := config(t, []netip.AddrPort{p.addr}, pol)
			cfg.Closed, cfg.Connections = true, 1
			l := stepping(t, cfg, count(1))
			turns(t, l, func() bool { return l.ln.book[0].Attempts.Sent == 2 })
			<-both
			<-both
			close(release)
			answers := 2
			if row.first == "" {
				answers = 1
			}
			unread(t, l, answers)
			past(l.run.begin.Add(350 * ms)) // well behind the deadline
			turns(t, l, func() bool { return l.live == 0 })
			if b := l.ln.book[0]; b.Calls.OK != 1 || b.Attempts.TimedOut != 0 {
				t.Errorf("%+v, %+v; want the answer to count", b.Calls, b.Attempts)
			}
		})
	}
}

// TestTimersActUnderLoad: more sockets are ready at every look than it can
// tell, and the deadline of a call that hangs still acts.
func TestTimersActUnderLoad(t *testing.T) {
	tight(t)
	const calls, enough = 20_000, 15_000 // enough answers to last much longer than the deadline
	hung := make(chan struct{})
	late := make(chan bool, 1)
	p := playing(t, func(c *received) {
		for {
			r, err := c.request()
			if err != nil {
				return
			}
			if strings.HasSuffix(r.Header.Get("Latencylab-Call"), "00") && strings.Trim(r.Header.Get("Latencylab-Call"), "0") == "" {
				c.gone()
				close(hung)
				return
			}
			c.p.mu.Lock()
			n := c.p.requests
			c.p.mu.Unlock()
			if n == enough {
				select {
				case <-hung:
					late <- false
				default:
					late <- true
				}
			}
			if !c.say(hello) {
				return
			}
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{Deadline: 5 * ms})
	cfg.Closed, cfg.Connections = true, 16
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.loops[0].events = NewEvents(1)
	b, err := e.Run(0, count(calls))
	if err != nil {
		t.Fatal(err)
	}
	if <-late {
		t.Errorf("%d requests were answered before a deadline of 5ms acted", enough)
	}
	agree(t, []*Block{b}, p)
}
