package engine

import (
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/policy"
	"latencylab/units"
	"latencylab/workloads"
)

// TestHedgeThatWaitsIsNotSent: the answer comes while the hedge waits for a
// connection; the one that becomes free is not used for it.
func TestHedgeThatWaitsIsNotSent(t *testing.T) {
	tight(t)
	release := make(chan struct{})
	p := playing(t, func(c *received) {
		if _, err := c.request(); err != nil {
			return
		}
		<-release
		c.say(hello)
		always(hello)(c)
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{Hedge: policy.Hedge{Max: 1}})
	cfg.Closed, cfg.Connections = true, 1
	cfg.Lanes[0].Policy.Hedge.Delay = 20 * ms
	l := stepping(t, cfg, count(1))
	pool := &l.ln.pools[0]
	turns(t, l, func() bool { return l.ln.book[0].Attempts.Sent == 1 })
	pool.dialing++ // a handshake that takes its time
	turns(t, l, func() bool { return pool.wait.live == 1 })
	close(release)
	turns(t, l, func() bool { return l.live == 0 })
	pool.dialing--
	if a := l.ln.book[0].Attempts; a.OK != 1 || a.Cancelled != 1 || a.HedgeWins != 0 {
		t.Errorf("%+v, want the hedge cancelled", a)
	}
	if n := served(t, p); n != 1 {
		t.Errorf("the server saw %d attempts, want 1", n)
	}
}

// TestDrainOfHalfWrittenRequest: the answer to a cancelled attempt comes while
// its body is not written whole; its connection is not used again.
func TestDrainOfHalfWrittenRequest(t *testing.T) {
	tight(t)
	const calls = 4
	over := make(chan struct{})
	var won sync.Map // by call
	p := playing(t, func(c *received) {
		for {
			r, err := c.head()
			if err != nil {
				return
			}
			ch, _ := won.LoadOrStore(r.Header.Get("Latencylab-Call"), make(chan struct{}))
			if strings.HasSuffix(r.Header.Get("Latencylab-Attempt"), "1") {
				<-ch.(chan struct{})
				c.say(hello)
				<-over
				return
			}
			if _, err := c.br.Discard(len(bigBody)); err != nil || !c.say(hello) {
				return
			}
			close(ch.(chan struct{}))
		}
	})
	pol := policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 5 * ms}, Cancel: policy.CancelDrain}
	cfg := config(t, []netip.AddrPort{p.addr}, pol)
	cfg.Closed, cfg.Connections, cfg.Drain = true, 1, 10*time.Second
	request(t, &cfg, "PUT", bigBody)
	b := drive(t, cfg, count(calls))
	close(over)
	if b.Data.Calls.OK != calls || b.Data.Attempts.HedgeWins != calls {
		t.Errorf("%+v %+v, want %d calls won by hedges", b.Data.Calls, b.Data.Attempts, calls)
	}
	agree(t, []*Block{b}, p)
}

// TestClosedLoopNumbersGoOn: over the blocks of a lane and over loops, no call
// number is used twice.
func TestClosedLoopNumbersGoOn(t *testing.T) {
	tight(t)
	p := playing(t, always(hello))
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{}, policy.Policy{})
	request(t, &cfg, "GET", nil)
	cfg.Closed, cfg.Connections, cfg.Threads = true, 5, 2
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var bs []*Block
	for _, lane := range []int{0, 1, 0, 1, 0} {
		b, err := e.Run(lane, workloads.Block{Burn: 3 * ms, Calls: 51})
		if err != nil {
			t.Fatal(err)
		}
		if b.Data.Calls.OK != 51 {
			t.Errorf("%+v, want 51 ok", b.Data.Calls)
		}
		bs = append(bs, b)
	}
	agree(t, bs, p)
}

// TestWaitersForgetTheDead: what waits and is given up does not add up.
func TestWaitersForgetTheDead(t *testing.T) {
	var w waiters
	cs := make([]call, 40)
	for i := range 100_000 {
		c := &cs[i%len(cs)]
		if c.open {
			w.live--
		}
		c.open, c.id = true, uint64(i)
		c.slots[0] = attempt{number: 1, state: slotWaiting}
		w.push(waiter{call: c, id: c.id, attempt: 1})
		if i%1000 == 999 {
			e, ok := w.pop()
			if !ok || e.id != uint64(i+1-len(cs)) {
				t.Fatalf("call %d, %v came out after %d, want the oldest that waits", e.id, ok, i)
			}
			e.call.open = false
		}
	}
	if cap(w.q) > 4*len(cs) || w.live > len(cs) {
		t.Errorf("the queue holds %d places for %d that wait", cap(w.q), w.live)
	}
}

// TestIntervalsGoOnWhileNothingHappens: a loop without events still hands over.
func TestIntervalsGoOnWhileNothingHappens(t *testing.T) {
	tight(t)
	three := make(chan struct{})
	p := playing(t, func(c *received) {
		if _, err := c.request(); err == nil {
			<-three
			c.say(hello)
			c.gone()
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{Retry: policy.Retry{Max: 1}})
	cfg.Closed, cfg.Connections = true, 2
	cfg.Interval, cfg.Drain = 10*ms, 10*time.Second
	var n int
	var last clock.Time
	cfg.OnInterval = func(iv Interval) {
		if n > 0 && iv.Start != last {
			t.Errorf("interval %d begins at %v, the last ended at %v", n, iv.Start, last)
		}
		last = iv.End
		if n < 3 && iv.Open != 2 {
			t.Errorf("%d calls are open at the end of interval %d, want both", iv.Open, n)
		}
		if n++; n == 3 {
			close(three)
		}
	}
	b := drive(t, cfg, count(2))
	if b.Data.Calls.OK != 2 {
		t.Errorf("%+v, %d intervals; want the answers after three", b.Data.Calls, n)
	}
}

// TestIntervalsHoldEveryAttempt: failed handshakes and attempts that are given
// up count in the intervals as in the ledger.
func TestIntervalsHoldEveryAttempt(t *testing.T) {
	tight(t)
	var odd atomic.Int64
	p := playing(t, func(c *received) {
		for {
			if _, err := c.request(); err != nil {
				return
			}
			if odd.Add(1)%7 == 0 {
				c.gone()
				return
			}
			if !c.say(hello) {
				return
			}
		}
	})
	gone := playing(t, func(*received) {})
	cfg := config(t, []netip.AddrPort{p.addr, gone.addr, closedPort(t)}, policy.Policy{Deadline: 30 * ms, Retry: policy.Retry{Max: 2}})
	cfg.Interval = 5 * ms
	var sent, ended, failed uint64
	cfg.OnInterval = func(iv Interval) { sent += iv.Sent; ended += iv.Ended; failed += iv.Failed }
	b := drive(t, cfg, count(300))
	d := b.Data
	if sent != d.Attempts.Sent || ended != d.Calls.Scheduled || failed != d.Calls.Failed+d.Calls.Unfinished {
		t.Errorf("intervals hold %d sent, %d ended, %d failed; the ledger %+v %+v", sent, ended, failed, d.Attempts, d.Calls)
	}
	agree(t, []*Block{b}, p, gone)
}

// TestStopEndsTheData: after Stop the block ends where it was stopped, not at
// the next arrival that it would have begun, and not when it has drained.
func TestStopEndsTheData(t *testing.T) {
	tight(t)
	var e *Engine
	ready := make(chan struct{})
	p := playing(t, func(c *received) {
		if _, err := c.request(); err == nil {
			<-ready
			e.Stop()
			<-time.After(20 * ms)
			c.say(hello)
			c.gone()
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
	for seed := uint64(1); ; seed++ { // one call soon, the next one late
		cfg.Arrivals = workloads.NewArrivals(workloads.Poisson, units.Rate(1e6), seed)
		if cfg.Arrivals.Gap(0) < 20*ms && cfg.Arrivals.Gap(1) > 5*time.Second {
			break
		}
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	close(ready)
	defer e.Close()
	b, err := e.Run(0, workloads.Block{Data: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if !b.Stopped || b.Data.Calls.OK != 1 || b.DataEnd >= b.End || b.DataEnd <= b.Start {
		t.Errorf("stopped %v, %+v, data from %v to %v, end %v", b.Stopped, b.Data.Calls, b.DataStart, b.DataEnd, b.End)
	}
}

// TestEndlessBodies: answers without end do not keep the loop from its timers.
func TestEndlessBodies(t *testing.T) {
	tight(t)
	part := strings.Repeat("x", 1<<20)
	p := playing(t, func(c *received) {
		if _, err := c.request(); err == nil && c.say("HTTP/1.1 200 OK\r\n\r\n") {
			for c.say(part) {
			}
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{Deadline: 20 * ms})
	cfg.Closed, cfg.Connections = true, 3
	b := drive(t, cfg, workloads.Block{Data: 300 * ms})
	if b.Data.Calls.Scheduled < 6 || b.Data.Calls.Failed != b.Data.Calls.Scheduled || b.Data.Censored.Count() != b.Data.Calls.Failed {
		t.Errorf("%+v, %d censored; want every user's calls to end at their deadline", b.Data.Calls, b.Data.Censored.Count())
	}
	agree(t, []*Block{b}, p)
}

// TestFewerCallsThanLoops: loops without a call of their own end with the others.
func TestFewerCallsThanLoops(t *testing.T) {
	tight(t)
	p := playing(t, always(hello))
	for _, closed := range []bool{false, true} {
		cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
		cfg.Threads, cfg.Closed, cfg.Connections = 3, closed, 3
		b := drive(t, cfg, count(1))
		if b.Data.Calls.OK != 1 {
			t.Errorf("closed %v: %+v, want one call", closed, b.Data.Calls)
		}
	}
}
