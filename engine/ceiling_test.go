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
	"latencylab/draw"
	"latencylab/policy"
	"latencylab/units"
	"latencylab/workloads"
)

// TestCeilingInEveryWindow: whatever asks, no window holds more than the burst and
// what the rate gives in it, and first attempts have half of the burst to
// themselves.
func TestCeilingInEveryWindow(t *testing.T) {
	for _, rate := range []units.Rate{1e6, 90e6, 1000e6, 250_000e6} {
		for _, loops := range []int{1, 3} {
			var c ceiling
			c.set(rate, loops)
			burst := uint64(max(leastBurst, ceilingSpan/c.each))
			var passed []clock.Time
			now := clock.Time(0)
			for i := range uint64(20_000) {
				now = now.Add(time.Duration(draw.Uniform(1, draw.Ramp, i, 0, 0) * float64(c.each)))
				if c.admits(policy.Kind(i%3), now) {
					passed = append(passed, now)
				}
			}
			if len(passed) < 20 {
				t.Fatalf("%v: %d of 20000 passed", rate, len(passed))
			}
			for i := range passed {
				for _, n := range []int{1, 5, 50, 500, 5000} {
					if i+n >= len(passed) {
						break
					}
					w := passed[i+n].Sub(passed[i])
					if most := burst + uint64(w/c.each) + 1; uint64(n+1) > most {
						t.Fatalf("%v on %d loops: %d attempts in %v, want at most %d", rate, loops, n+1, w, most)
					}
				}
			}
		}
	}
	var c ceiling
	c.set(100e6, 1)
	extra, first := 0, 0
	for c.admits(policy.Retried, 0) {
		extra++
	}
	for c.admits(policy.First, 0) {
		first++
	}
	if extra != leastBurst/2 || first != leastBurst-extra {
		t.Errorf("%d retries and then %d first attempts pass at once, want half of %d each", extra, first, leastBurst)
	}
	if at := c.opens(); !c.admits(policy.First, at) || c.admits(policy.First, at) {
		t.Errorf("one first attempt passes at %v, want exactly one", at)
	}
	if !new(ceiling).admits(policy.Hedged, 0) {
		t.Error("no ceiling refuses")
	}
}

func busy(_ int64, _ *http.Request, c net.Conn) bool {
	_, err := io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
	return err == nil
}

// driveThrough drives a block until it does not end early: a machine that stops for
// long makes first attempts come all at once. again is called before each further one.
func driveThrough(t *testing.T, cfg Config, block workloads.Block, again func()) *Block {
	t.Helper()
	var b *Block
	for range 5 {
		if b = drive(t, cfg, block); b.Early == "" {
			return b
		}
		t.Log(b.Early)
		again()
	}
	t.Fatal(b.Early)
	return nil
}

// TestRetryStormBelowTheCeiling: a policy that would send ten attempts a call sends
// no more than the ceiling; what it does not send is counted, and every call ends.
func TestRetryStormBelowTheCeiling(t *testing.T) {
	for _, threads := range []int{1, 2} {
		s := serve(t, busy)
		p := policy.Policy{Retry: policy.Retry{Max: 9}, Backoff: policy.Backoff{Base: time.Microsecond, Factor: 1, Jitter: policy.JitterNone}}
		cfg := config(t, []netip.AddrPort{s.addr}, p)
		cfg.Threads, cfg.Ceiling = threads, 2000e6
		cfg.Arrivals = workloads.NewArrivals(workloads.Poisson, 500e6, 1)
		before := s.requests.Load()
		b := driveThrough(t, cfg, workloads.Block{Data: time.Second}, func() { before = s.requests.Load() })
		d := b.Data
		burst := uint64(threads) * uint64(max(leastBurst, 2000/10/threads))
		most := burst + uint64(b.End.Sub(b.Start).Seconds()*2000) + 1
		if d.Attempts.Sent > most || int64(d.Attempts.Sent) != s.requests.Load()-before {
			t.Errorf("%d threads: %d attempts sent, the server saw %d; want at most %d", threads, d.Attempts.Sent, s.requests.Load()-before, most)
		}
		if d.Refused[policy.RuleCeiling] == 0 || d.Attempts.Retries == 0 {
			t.Errorf("%d threads: %d retries, %d refused, want some of both", threads, d.Attempts.Retries, d.Refused[policy.RuleCeiling])
		}
		if c := d.Calls; c.Failed != c.Scheduled || d.Attempts.First != c.Scheduled {
			t.Errorf("%d threads: calls %+v of %d first attempts, want all sent and failed", threads, c, d.Attempts.First)
		}
	}
}

// TestHedgesBelowTheCeiling: hedges are held back and calls go on without.
func TestHedgesBelowTheCeiling(t *testing.T) {
	s := serve(t, ok)
	p := policy.Policy{Hedge: policy.Hedge{Max: 7}}
	cfg := config(t, []netip.AddrPort{s.addr}, p)
	cfg.Ceiling = 3000e6
	d := driveThrough(t, cfg, workloads.Block{Data: 500 * time.Millisecond}, func() {}).Data
	if d.Refused[policy.RuleCeiling] == 0 || d.Calls.OK != d.Calls.Scheduled {
		t.Errorf("%d hedges refused, calls %+v, want all OK", d.Refused[policy.RuleCeiling], d.Calls)
	}
}

// TestFirstAttemptsReachTheCeiling: the run ends at once and says why.
func TestFirstAttemptsReachTheCeiling(t *testing.T) {
	s := serve(t, ok)
	for _, p := range []policy.Policy{{}, {Deadline: 10 * ms}, {Timeouts: [policy.Parts]policy.Timeout{policy.PartConnect: {After: time.Second}}}} {
		cfg := config(t, []netip.AddrPort{s.addr}, p)
		cfg.Ceiling = 100e6
		b := drive(t, cfg, workloads.Block{Data: 5 * time.Second})
		if !strings.HasPrefix(b.Early, Ceiling) || !strings.Contains(b.Early, "100/s") || b.Stopped {
			t.Errorf("early %q, stopped %v", b.Early, b.Stopped)
		}
		if n := b.Data.Attempts.Sent; n > 10+uint64(b.End.Sub(b.Start).Seconds()*100)+1 {
			t.Errorf("%d attempts sent in %v", n, b.End.Sub(b.Start))
		}
	}
}

// TestClosedLoopWaitsForTheCeiling: its users begin no more calls than it allows.
func TestClosedLoopWaitsForTheCeiling(t *testing.T) {
	s := serve(t, ok)
	cfg := config(t, []netip.AddrPort{s.addr}, policy.Policy{})
	cfg.Closed, cfg.Connections, cfg.Ceiling = true, 16, 500e6
	b := drive(t, cfg, count(300))
	took := b.End.Sub(b.Start)
	if b.Data.Calls.OK != 300 || took < 490*time.Millisecond {
		t.Errorf("%d calls OK in %v, want 300 in (300 - 50) / 500 s at least", b.Data.Calls.OK, took)
	}
	if b.Busy > .9 {
		t.Errorf("the loop was busy for %v of the time, want it to sleep", b.Busy)
	}
}
