package engine

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/policy"
	"latencylab/units"
	"latencylab/workloads"
)

// TestRateOutOfReach: what has not begun at the end of the time to drain is
// dropped, in the book that it belongs to, and the block ends.
func TestRateOutOfReach(t *testing.T) {
	s := serve(t, ok)
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{})
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, units.Rate(5e6*1e6), 1)
	cfg.Drain = 20 * ms
	b := drive(t, cfg, workloads.Block{Burn: 20 * ms, Data: 100 * ms})
	k := b.Data.Calls
	if k.Scheduled != 500_000 || b.Burn.Calls.Scheduled+k.Scheduled != b.Arrivals {
		t.Errorf("%d of data and %d of burn-in scheduled, want 500000 and %d in all", k.Scheduled, b.Burn.Calls.Scheduled, b.Arrivals)
	}
	if k.Dropped == 0 || b.Early != "" || b.Digest != cfg.Arrivals.Digest(b.Arrivals) {
		t.Errorf("%d dropped, early %q, digest %x; want some, none, %x", k.Dropped, b.Early, b.Digest, cfg.Arrivals.Digest(b.Arrivals))
	}
	if began := k.Scheduled - k.Dropped; b.InTime > began {
		t.Errorf("%d calls in time of %d begun", b.InTime, began)
	}
}

// TestRateBeyondCounting: a rest that would take hours to walk ends the block at
// its first arrival.
func TestRateBeyondCounting(t *testing.T) {
	s := serve(t, ok)
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{})
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, units.Rate(1e9*1e6), 1)
	cfg.Drain = 5 * ms
	b := drive(t, cfg, workloads.Block{Data: 200 * ms})
	if !strings.Contains(b.Early, "out of reach") || b.Data.Calls.Dropped != maxDropped {
		t.Errorf("early %q, %d dropped; want the rate out of reach and %d", b.Early, b.Data.Calls.Dropped, maxDropped)
	}
	if length := b.DataEnd.Sub(b.DataStart); length >= 200*ms || length < maxDropped {
		t.Errorf("the data end after %v, want an end before the 200 ms asked for", length)
	}
}

// TestNothingEnds: a counted closed loop against a server that never answers,
// and one whose calls retry for ever.
func TestNothingEnds(t *testing.T) {
	for _, row := range []struct {
		about string
		p     policy.Policy
	}{
		{"no policy", policy.Policy{}},
		{"retries without end", policy.Policy{Timeouts: policy.Timeouts{policy.PartAttempt: {After: ms}}, Retry: policy.Retry{Max: 1 << 30}, Backoff: policy.Backoff{Base: ms, Cap: ms}}},
	} {
		t.Run(row.about, func(t *testing.T) {
			p := playing(t, func(c *received) { c.gone() })
			cfg := config(t, []netip.AddrPort{p.addr}, row.p)
			cfg.Closed, cfg.Connections, cfg.Drain = true, 4, 100*ms
			b := drive(t, cfg, count(20))
			if !strings.Contains(b.Early, "nothing was answered for 100ms") || b.Data.Calls.Unfinished != 4 || b.Data.Calls.Scheduled != 4 {
				t.Errorf("early %q, %+v; want 4 calls unfinished", b.Early, b.Data.Calls)
			}
		})
	}
}

// TestSlowIsNotStuck: a counted closed loop goes on for as long as calls end,
// however long that takes.
func TestSlowIsNotStuck(t *testing.T) {
	s := serve(t, ok)
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{})
	cfg.Closed, cfg.Connections, cfg.Drain = true, 1, time.Minute
	l := stepping(t, cfg, count(1_000_000))
	turns(t, l, func() bool { return l.ln.book[0].Calls.OK == 10 })
	l.run.begin -= clock.Time(time.Hour)
	if left := l.giveUpAt().Sub(l.seen); left < time.Minute-10*time.Second {
		t.Errorf("given up in %v, although a call has just ended; want about a minute", left)
	}
}

// TestWaitingIsNotStuck: the server has answered, and the calls wait for longer
// than the time to drain before they try again.
func TestWaitingIsNotStuck(t *testing.T) {
	s := serve(t, func(_ int64, _ *http.Request, c net.Conn) bool {
		_, err := io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		return err == nil
	})
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{Retry: policy.Retry{Max: 1}, Backoff: policy.Backoff{Base: time.Hour}})
	cfg.Closed, cfg.Connections, cfg.Drain = true, 2, time.Minute
	l := stepping(t, cfg, count(10))
	turns(t, l, func() bool { return l.ln.book[0].Attempts.Failed == 2 })
	l.heard -= clock.Time(time.Minute)
	l.run.begin -= clock.Time(time.Minute)
	if l.seen = clock.Now(); l.over() {
		t.Fatalf("given up: %s", l.early)
	}
	if left := l.giveUpAt().Sub(l.seen); left < time.Minute {
		t.Errorf("looked at again in %v, want a minute", left)
	}
	l.abandon()
}

// TestNobodyThere: arrivals end before a server that takes no connection is
// given up; that it was never reached is said all the same.
func TestNobodyThere(t *testing.T) {
	cfg := config(t, []netip.AddrPort{hole(t)}, policy.Policy{})
	cfg.Drain = 20 * ms
	b := drive(t, cfg, count(5))
	if !strings.HasPrefix(b.Early, Unreachable) || b.Data.Calls.Unfinished != 5 {
		t.Errorf("early %q, %+v", b.Early, b.Data.Calls)
	}
}

// TestCountedRate: the data of a counted block last until its calls were begun,
// not only until they were due, and what was late is not in time.
func TestCountedRate(t *testing.T) {
	s := serve(t, ok)
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{})
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, units.Rate(1e9*1e6), 1)
	b := drive(t, cfg, count(20_000))
	if took := b.DataEnd.Sub(b.DataStart); took < time.Millisecond || b.InTime > 2000 {
		t.Errorf("20,000 calls due in 20 µs: %v of data, %d in time", took, b.InTime)
	}
	cfg.Closed, cfg.Connections = true, 4
	b = drive(t, cfg, count(100))
	if b.DataEnd != b.End {
		t.Errorf("closed loop: data to %v, the last call ended at %v", b.DataEnd, b.End)
	}
}

// TestUnreachable: dials that fail, or that hang, end the block soon; a
// connection that was made once keeps it going.
func TestUnreachable(t *testing.T) {
	const drain = time.Minute
	for _, row := range []struct {
		about  string
		at     netip.AddrPort
		closed bool
		wait   time.Duration
	}{
		{"refused, open loop", closedPort(t), false, refusedFor},
		{"refused, closed loop", closedPort(t), true, refusedFor},
		{"no handshake", hole(t), false, drain},
	} {
		t.Run(row.about, func(t *testing.T) {
			cfg := config(t, []netip.AddrPort{row.at}, policy.Policy{Retry: policy.Retry{Max: 3}, Backoff: policy.Backoff{Base: 100 * ms, Cap: 100 * ms}})
			cfg.Closed, cfg.Drain = row.closed, drain
			l := stepping(t, cfg, workloads.Block{Data: time.Hour})
			turns(t, l, func() bool { return l.dialErr != nil || row.wait == drain && l.ln.waiting > 0 })
			want := clock.Never // until a dial fails at the end of the wait, too
			if row.wait == drain {
				want = l.dialled.Add(drain)
			}
			if at := l.unreachedAt(); at != want {
				t.Errorf("given up %v after the first dial, want %v", at.Sub(l.dialled), want.Sub(l.dialled))
			}
			l.dialled -= clock.Time(row.wait)
			for !l.over() {
				if err := l.turn(); err != nil {
					t.Fatal(err)
				}
			}
			if !strings.Contains(l.early, "no connection could be made in ") {
				t.Errorf("early %q, want that no connection could be made", l.early)
			}
			if err := l.ln.book[0].Check(); err != nil || l.live != 0 {
				t.Errorf("%v, %d calls open", err, l.live)
			}
		})
	}
	t.Run("an outage is not the same", func(t *testing.T) {
		s := serve(t, ok)
		cfg := config(t, []netip.AddrPort{s.addr, closedPort(t)}, policy.Policy{})
		l := stepping(t, cfg, workloads.Block{Data: time.Hour})
		turns(t, l, func() bool { return l.ln.book[0].Calls.OK > 0 && l.dialErr != nil })
		l.dialled -= clock.Time(time.Hour)
		for _, own := range []bool{true, false} {
			l.reached = own // else by another loop
			if at := l.giveUpAt(); at != l.end.Add(cfg.Drain) {
				t.Errorf("reached by this loop: %v: given up at %v, want at the end of the time to drain", own, at)
			}
		}
	})
	t.Run("nothing was dialled yet", func(t *testing.T) {
		cfg := config(t, []netip.AddrPort{closedPort(t)}, policy.Policy{})
		cfg.Arrivals = workloads.NewArrivals(workloads.Constant, units.Rate(1), 1)
		l := stepping(t, cfg, workloads.Block{Data: time.Hour})
		if at := l.giveUpAt(); at != l.end.Add(cfg.Drain) {
			t.Errorf("given up at %v, want at the end of the time to drain", at)
		}
	})
}
