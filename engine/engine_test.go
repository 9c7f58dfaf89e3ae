package engine

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"latencylab/policy"
	"latencylab/units"
	"latencylab/workloads"
)

const ms = time.Millisecond

// TestPlainOpenLoop: every scheduled call is sent once, and the server sees
// exactly the attempts that are reported.
func TestPlainOpenLoop(t *testing.T) {
	s := serve(t, ok)
	b := drive(t, config(t, []netip.AddrPort{s.addr}, policy.Policy{}), count(300))
	if b.Data.Calls.OK != 300 || b.Data.Attempts.Sent != 300 || s.requests.Load() != 300 {
		t.Errorf("%d ok, %d sent, server saw %d; want 300 of each", b.Data.Calls.OK, b.Data.Attempts.Sent, s.requests.Load())
	}
	if got := b.Data.Connections.Opened; int64(got) != s.conns.Load() {
		t.Errorf("%d connections opened, server saw %d", got, s.conns.Load())
	}
	if b.Data.Connections.Reused+b.Data.Connections.Opened < 300 {
		t.Errorf("%d reused and %d opened, want 300 attempts on them", b.Data.Connections.Reused, b.Data.Connections.Opened)
	}
	if Stamps && b.Data.Unstamped > 0 {
		t.Errorf("%d answers without a kernel stamp", b.Data.Unstamped)
	}
	if b.Arrivals != 300 {
		t.Errorf("%d arrivals consumed, want 300", b.Arrivals)
	}
}

// TestClosedLoop: as many calls as asked, over as many connections as users.
func TestClosedLoop(t *testing.T) {
	s := serve(t, ok)
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{})
	cfg.Closed, cfg.Connections = true, 8
	b := drive(t, cfg, count(1000))
	if b.Data.Calls.OK != 1000 || s.requests.Load() != 1000 || s.conns.Load() != 8 {
		t.Errorf("%d ok, server saw %d on %d connections; want 1000 on 8", b.Data.Calls.OK, s.requests.Load(), s.conns.Load())
	}
}

// TestTwoThreads: the loops share the arrivals, and nothing is sent twice.
func TestTwoThreads(t *testing.T) {
	s := serve(t, ok)
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{})
	cfg.Threads = 2
	b := drive(t, cfg, count(400))
	if b.Data.Calls.OK != 400 || s.requests.Load() != 400 {
		t.Errorf("%d ok, server saw %d, want 400", b.Data.Calls.OK, s.requests.Load())
	}
	one := cfg.Arrivals.Digest(400)
	if b.Digest != one {
		t.Errorf("digest %x of the arrivals, want %x", b.Digest, one)
	}
}

// TestClientsShareLoops: with state that calls share, the number of loops is
// bounded by the number of clients.
func TestClientsShareLoops(t *testing.T) {
	s := serve(t, ok)
	p := policy.Policy{Hedge: policy.Hedge{Max: 1, Quantile: .95}}
	cfg := config(t, []netip.AddrPort{s.addr}, p)
	cfg.Threads, cfg.Lanes[0].Clients = 3, 2
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.Loops(0) != 2 {
		t.Errorf("%d loops, want 2", e.Loops(0))
	}
	b, err := e.Run(0, count(300))
	if err != nil {
		t.Fatal(err)
	}
	if b.Data.Calls.OK != 300 {
		t.Errorf("%d ok, want 300", b.Data.Calls.OK)
	}
}

// TestHedgeWins: a first attempt that hangs is overtaken by its hedge, and its
// connection is closed.
func TestHedgeWins(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	s := serve(t, func(n int64, r *http.Request, c net.Conn) bool {
		if strings.HasSuffix(r.Header.Get("Latencylab-Attempt"), "1") {
			<-hang
			return false
		}
		return ok(n, r, c)
	})
	p := policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 5 * ms}}
	b := drive(t, config(t, []netip.AddrPort{s.addr}, p), count(20))
	d := b.Data
	if d.Calls.OK != 20 || d.Attempts.Hedges != 20 || d.Attempts.HedgeWins != 20 || d.Attempts.Cancelled != 20 {
		t.Errorf("ok %d, hedges %d, won %d, cancelled %d; want 20 of each", d.Calls.OK, d.Attempts.Hedges, d.Attempts.HedgeWins, d.Attempts.Cancelled)
	}
	if d.Connections.ClosedByCancel != 20 {
		t.Errorf("%d connections closed by cancel, want 20", d.Connections.ClosedByCancel)
	}
	if min := time.Duration(d.OK.Min()); min < 5*ms {
		t.Errorf("fastest call took %v, below the hedge delay", min)
	}
}

// TestHedgePrefersAnotherReplica: the replica that hangs is overtaken by others.
func TestHedgePrefersAnotherReplica(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	slow := serve(t, func(int64, *http.Request, net.Conn) bool { <-hang; return false })
	fast := serve(t, ok)
	p := policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 2 * ms}}
	b := drive(t, config(t, []netip.AddrPort{slow.addr, fast.addr}, p), count(40))
	if b.Data.Calls.OK != 40 {
		t.Errorf("%d ok, want 40: a hedge went to the replica that the call had tried", b.Data.Calls.OK)
	}
}

// TestCancelDrain: the loser's answer is let in and its connection kept.
func TestCancelDrain(t *testing.T) {
	var released sync.Map // by call
	s := serve(t, func(n int64, r *http.Request, c net.Conn) bool {
		ch, _ := released.LoadOrStore(r.Header.Get("Latencylab-Call"), make(chan struct{}))
		if strings.HasSuffix(r.Header.Get("Latencylab-Attempt"), "1") {
			<-ch.(chan struct{})
			return ok(n, r, c)
		}
		defer close(ch.(chan struct{}))
		return ok(n, r, c)
	})
	p := policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 3 * ms}, Cancel: policy.CancelDrain}
	b := drive(t, config(t, []netip.AddrPort{s.addr}, p), count(10))
	d := b.Data
	if d.Calls.OK != 10 || d.Connections.ClosedByCancel != 0 {
		t.Errorf("%d ok, %d closed by cancel; want 10 and 0", d.Calls.OK, d.Connections.ClosedByCancel)
	}
}

// TestRetryAfterFailure: 503 then 200, with one retry.
func TestRetryAfterFailure(t *testing.T) {
	s := serve(t, func(n int64, r *http.Request, c net.Conn) bool {
		if strings.HasSuffix(r.Header.Get("Latencylab-Attempt"), "1") {
			_, err := io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
			return err == nil
		}
		return ok(n, r, c)
	})
	p := policy.Policy{Retry: policy.Retry{Max: 1}, Backoff: policy.Backoff{Base: 1 * ms}}
	b := drive(t, config(t, []netip.AddrPort{s.addr}, p), count(20))
	d := b.Data
	if d.Calls.OK != 20 || d.Attempts.Retries != 20 || d.Attempts.Failed != 20 {
		t.Errorf("ok %d, retries %d, failed attempts %d; want 20 of each", d.Calls.OK, d.Attempts.Retries, d.Attempts.Failed)
	}
	if got := errorsOf(b); got != "status/body" {
		t.Errorf("errors %q, want status/body", got)
	}
}

// TestDeadline: a server that never answers; every call is censored.
func TestDeadline(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	s := serve(t, func(int64, *http.Request, net.Conn) bool { <-hang; return false })
	b := drive(t, config(t, []netip.AddrPort{s.addr}, policy.Policy{Deadline: 30 * ms}), count(20))
	d := b.Data
	if d.Calls.Failed != 20 || d.Censored.Count() != 20 || d.Attempts.TimedOut != 20 {
		t.Errorf("failed %d, censored %d, timed out %d; want 20 of each", d.Calls.Failed, d.Censored.Count(), d.Attempts.TimedOut)
	}
	if min := time.Duration(d.Censored.Min()); min < 30*ms {
		t.Errorf("a call was given up after %v, before its deadline of 30ms", min)
	}
	if got := errorsOf(b); got != "deadline/first_byte" {
		t.Errorf("errors %q, want deadline/first_byte", got)
	}
}

// TestDrainEnds: without a deadline, calls that are never answered are
// unfinished at the end of the time to drain.
func TestDrainEnds(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	s := serve(t, func(int64, *http.Request, net.Conn) bool { <-hang; return false })
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{})
	cfg.Drain = 20 * ms
	b := drive(t, cfg, count(10))
	if d := b.Data; d.Calls.Unfinished != 10 || d.Attempts.Abandoned != 10 || d.Censored.Count() != 10 {
		t.Errorf("unfinished %d, abandoned %d, censored %d; want 10 of each", d.Calls.Unfinished, d.Attempts.Abandoned, d.Censored.Count())
	}
}

// TestBrokenAnswers: each way an answer breaks has its class and phase.
func TestBrokenAnswers(t *testing.T) {
	for _, row := range []struct{ about, reply, want string }{
		{"the body stops half-way", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "truncated_body/body"},
		{"the head stops half-way", "HTTP/1.1 200 OK\r\nContent-Le", "truncated_header/body"},
		{"nothing comes at all", "", "closed_before_response/first_byte"},
		{"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", "bad_status_line/first_byte"},
	} {
		t.Run(row.about, func(t *testing.T) {
			s := serve(t, func(_ int64, _ *http.Request, c net.Conn) bool {
				io.WriteString(c, row.reply)
				return false
			})
			b := drive(t, config(t, []netip.AddrPort{s.addr}, policy.Policy{}), count(5))
			if b.Data.Calls.Failed != 5 {
				t.Errorf("%d calls failed, want 5", b.Data.Calls.Failed)
			}
			if got := errorsOf(b); got != row.want {
				t.Errorf("errors %q, want %q", got, row.want)
			}
		})
	}
}

// TestAnswersThatEndWithTheStream: a body without length, and Connection: close.
func TestAnswersThatEndWithTheStream(t *testing.T) {
	for _, row := range []struct{ about, reply string }{
		{"no length, then the end of the stream", "HTTP/1.1 200 OK\r\n\r\nabcdef"},
		{"Connection: close with a length", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"},
		{"an interim answer first", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	} {
		t.Run(row.about, func(t *testing.T) {
			s := serve(t, func(_ int64, _ *http.Request, c net.Conn) bool {
				io.WriteString(c, row.reply)
				return false
			})
			b := drive(t, config(t, []netip.AddrPort{s.addr}, policy.Policy{}), count(20))
			if b.Data.Calls.OK+b.Data.Calls.Failed != 20 || s.requests.Load() != int64(b.Data.Attempts.Sent)-int64(b.Data.Calls.Failed) {
				t.Errorf("ok %d failed %d, server saw %d", b.Data.Calls.OK, b.Data.Calls.Failed, s.requests.Load())
			}
			if !strings.Contains(row.reply, "Early") && b.Data.Calls.OK != 20 {
				t.Errorf("%d ok, want 20 (%s)", b.Data.Calls.OK, errorsOf(b))
			}
		})
	}
}

// TestSplitAnswer: an answer in three pieces is one answer, with its first byte
// and body told apart.
func TestSplitAnswer(t *testing.T) {
	step := make(chan struct{})
	s := serve(t, func(_ int64, _ *http.Request, c net.Conn) bool {
		for _, part := range []string{"HTTP/1.1 200 OK\r\nConte", "nt-Length: 5\r\n\r\nhe", "llo"} {
			if _, err := io.WriteString(c, part); err != nil {
				return false
			}
			select {
			case <-step:
			case <-time.After(3 * ms):
			}
		}
		return true
	})
	b := drive(t, config(t, []netip.AddrPort{s.addr}, policy.Policy{}), count(10))
	if b.Data.Calls.OK != 10 || b.Data.Body.Count() != 10 {
		t.Errorf("%d ok, %d with a body phase; want 10 (%s)", b.Data.Calls.OK, b.Data.Body.Count(), errorsOf(b))
	}
}

// TestRefused: nobody listens; every attempt fails in phase connect.
func TestRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().(*net.TCPAddr).AddrPort()
	ln.Close()
	b := drive(t, config(t, []netip.AddrPort{addr}, policy.Policy{Retry: policy.Retry{Max: 1}}), count(20))
	if d := b.Data; d.Calls.Failed != 20 || d.Attempts.Sent != 40 {
		t.Errorf("failed %d, sent %d; want 20 and 40", d.Calls.Failed, d.Attempts.Sent)
	}
	if got := errorsOf(b); got != "refused/connect" {
		t.Errorf("errors %q, want refused/connect", got)
	}
}

// TestCeiling: with one connection, calls wait for it and hedges are refused.
func TestCeiling(t *testing.T) {
	s := serve(t, func(n int64, r *http.Request, c net.Conn) bool {
		<-time.After(4 * ms)
		return ok(n, r, c)
	})
	p := policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 1 * ms}}
	cfg := config(t, []netip.AddrPort{s.addr}, p)
	cfg.Connections = 1
	b := drive(t, cfg, count(30))
	d := b.Data
	if d.Calls.OK != 30 || s.conns.Load() != 1 || d.Attempts.Hedges != 0 {
		t.Errorf("ok %d on %d connections, %d hedges; want 30 on 1 and none", d.Calls.OK, s.conns.Load(), d.Attempts.Hedges)
	}
	if d.Refused[policy.RuleConnections] == 0 || time.Duration(d.PoolWait.Max()) < 4*ms {
		t.Errorf("%d hedges refused, longest pool wait %v", d.Refused[policy.RuleConnections], time.Duration(d.PoolWait.Max()))
	}
}

// TestBlocksGoOn: the arrivals of a lane go on over its blocks, burn-in is kept
// apart, and two lanes of one policy have equal arrivals.
func TestBlocksGoOn(t *testing.T) {
	s := serve(t, ok)
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{}, policy.Policy{})
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var last [2]*Block
	var calls [2]uint64
	for _, lane := range []int{0, 1, 1, 0} {
		b, err := e.Run(lane, workloads.Block{Burn: 20 * ms, Data: 60 * ms})
		if err != nil {
			t.Fatal(err)
		}
		last[lane] = b
		calls[lane] += b.Data.Calls.Scheduled + b.Burn.Calls.Scheduled
		if b.Burn.Calls.Scheduled == 0 || b.DataStart.Sub(b.Start) != 20*ms || b.DataEnd.Sub(b.DataStart) != 60*ms {
			t.Errorf("block %+v", b)
		}
	}
	for lane, b := range last {
		if b.Arrivals != calls[lane] || b.Digest != cfg.Arrivals.Digest(b.Arrivals) {
			t.Errorf("lane %d: %d arrivals consumed, %d calls; digest %x", lane, b.Arrivals, calls[lane], b.Digest)
		}
	}
}

// TestStop ends a block at once when nothing is under way.
func TestStop(t *testing.T) {
	s := serve(t, ok)
	e, err := New(config(t, []netip.AddrPort{s.addr}, policy.Policy{}))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s2 := make(chan struct{})
	go func() {
		for s.requests.Load() < 50 {
			<-time.After(ms)
		}
		e.Stop()
		close(s2)
	}()
	b, err := e.Run(0, workloads.Block{Data: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	<-s2
	if !b.Stopped || b.Data.Calls.OK < 50 {
		t.Errorf("stopped %v with %d ok", b.Stopped, b.Data.Calls.OK)
	}
}

// TestIntervals: what the intervals hold adds up to the block.
func TestIntervals(t *testing.T) {
	s := serve(t, ok)
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{})
	cfg.Interval = 20 * ms
	var ended, okN [2]uint64
	cfg.OnInterval = func(iv Interval) {
		i := 0
		if iv.Burn {
			i = 1
		}
		ended[i] += iv.Ended
		okN[i] += iv.OK.Count()
	}
	// Many calls of the burn-in end, and are reported, among those of the data.
	b := drive(t, cfg, workloads.Block{Burn: 33 * ms, Calls: 200})
	if ended[0] != 200 || okN[0] != b.Data.Calls.OK {
		t.Errorf("intervals hold %d calls, %d ok; want 200 and %d", ended[0], okN[0], b.Data.Calls.OK)
	}
	if ended[1] != b.Burn.Calls.Scheduled || ended[1] == 0 {
		t.Errorf("intervals hold %d calls of the burn-in, want %d", ended[1], b.Burn.Calls.Scheduled)
	}
}

// TestDeadlineCountsFromTheSchedule: of calls that are all due at once, the last
// are begun after their deadline; those end without an attempt.
func TestDeadlineCountsFromTheSchedule(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	s := serve(t, func(int64, *http.Request, net.Conn) bool { <-hang; return false })
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{Deadline: 20 * time.Microsecond})
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, units.Rate(1e9*1e6), 1)
	const calls = 2000 // 2 µs of schedule; beginning them takes longer than the deadline
	b := drive(t, cfg, count(calls))
	if b.Data.Calls.Failed != calls {
		t.Fatalf("%d calls failed, want %d", b.Data.Calls.Failed, calls)
	}
	var ended uint64
	for _, e := range b.Data.Errors {
		ended += e.Count
	}
	if ended == calls {
		t.Error("every call had an attempt, also those begun after their deadline")
	}
}
