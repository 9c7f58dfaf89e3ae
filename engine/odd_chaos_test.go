package engine

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"latencylab/policy"
	"latencylab/units"
	"latencylab/workloads"
)

// chaos is a peer each of whose connections and answers is odd in a way that it
// draws: most are quick, the others break every rule that a server may break.
func chaos(t testing.TB, seed uint64) *peer {
	var n atomic.Uint64
	return playing(t, func(c *received) {
		r := rand.New(rand.NewPCG(seed, n.Add(1)))
		switch r.IntN(40) {
		case 0:
			return // accepts and closes
		case 1:
			c.reset()
			return
		case 2:
			c.say("220 service ready\r\n") // speaks first
			c.gone()
			return
		case 3:
			c.gone() // never answers
			return
		}
		for {
			if _, err := c.request(); err != nil || !c.odd(r) {
				return
			}
		}
	})
}

// odd answers one request, and says whether the connection goes on.
func (c *received) odd(r *rand.Rand) bool {
	const half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
	switch r.IntN(48) {
	case 0:
		c.reset()
		return false
	case 1:
		c.say(half)
		c.reset()
		return false
	case 2:
		c.say(half)
		return false
	case 3:
		return false
	case 4:
		c.gone()
		return false
	case 5:
		c.say(half)
		c.gone()
		return false
	case 6:
		return c.say(hello + hello)
	case 7:
		if !c.say(hello) {
			return false
		}
		return c.say("junk")
	case 8:
		for i := range hello {
			if !c.say(hello[i : i+1]) {
				return false
			}
		}
		return true
	case 9:
		c.say(hello)
		return false // closes without saying so
	case 10:
		c.say(hello)
		c.CloseWrite()
		c.gone()
		return false
	case 11:
		return c.say("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 0\r\n\r\n")
	case 12:
		return c.say("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno")
	case 13:
		return c.say("HTTP/1.1 103 Early Hints\r\n\r\n" + hello)
	case 14:
		return c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n")
	case 15:
		c.say("HTTP/1.0 200 OK\r\n\r\nto the end")
		return false
	case 16:
		return c.say("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n") && c.say(strings.Repeat("x", 200_000))
	case 17:
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello")
		c.gone()
		return false
	case 18:
		return c.say("HTTP/1.1 204 No Content\r\n\r\n")
	case 19:
		c.say(hello)
		c.reset()
		return false
	case 20, 21, 22, 23, 24, 25:
		<-time.After(time.Duration(r.IntN(int(4 * ms))))
	}
	return c.say(hello)
}

// everything is a policy that uses all there is.
func everything(r *rand.Rand) policy.Policy {
	p := policy.Policy{
		Deadline: 60 * ms,
		Timeouts: policy.Timeouts{policy.PartAttempt: {After: time.Duration(4+r.IntN(10)) * ms}},
		Retry:    policy.Retry{Max: 1 + r.IntN(3)},
		Backoff:  policy.Backoff{Base: time.Duration(r.IntN(3)) * ms, Cap: 5 * ms},
		Hedge:    policy.Hedge{Max: 1 + r.IntN(3), Delay: time.Duration(r.IntN(4)) * ms},
		Cancel:   policy.Cancel(r.IntN(3)),
		Picker:   policy.Picker(r.IntN(2)),
	}
	if r.IntN(2) == 0 {
		p.Budget = policy.Budget{Deposit: .2, Capacity: 20}
	}
	if r.IntN(3) == 0 {
		p.Hedge.Quantile, p.Hedge.MinSamples, p.Hedge.Window = .9, 20, 300*ms
	}
	if r.IntN(4) == 0 {
		p.Deadline, p.MinStart = 20*ms, 2*ms
	}
	return p
}

// TestChaos: policies with everything against servers that do everything wrong:
// the ledgers add up, agree with what the servers saw, and nothing is left open.
func TestChaos(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		threads := 1 + r.IntN(3)
		ceiling := []int{threads, threads + r.IntN(3), 64}[r.IntN(3)]
		closed := r.IntN(3) == 0
		t.Run(fmt.Sprintf("seed %d, %d threads, %d connections, closed %v", seed, threads, ceiling, closed), func(t *testing.T) {
			tight(t)
			var ps []*peer
			var at []netip.AddrPort
			for i := range 1 + r.IntN(4) {
				p := chaos(t, seed*10+uint64(i))
				ps, at = append(ps, p), append(at, p.addr)
			}
			if r.IntN(3) == 0 {
				at = append(at, closedPort(t))
			}
			cfg := config(t, at, everything(r), everything(r))
			request(t, &cfg, []string{"GET", "HEAD", "PUT"}[r.IntN(3)], nil)
			cfg.Threads, cfg.Connections, cfg.Closed, cfg.Drain = threads, ceiling, closed, 40*ms
			cfg.Lanes[0].Clients, cfg.Lanes[1].Clients = 1+r.IntN(4), 1+r.IntN(4)
			cfg.Arrivals = workloads.NewArrivals(workloads.Poisson, units.Rate(3000e6), seed)
			if closed {
				cfg.Connections = threads + r.IntN(8)
			}
			cfg.Interval = 7 * ms
			var ended, sent uint64
			cfg.OnInterval = func(iv Interval) { ended += iv.Ended; sent += iv.Sent }
			bs := alternate(t, cfg, []int{0, 1, 1, 0})
			agree(t, bs, ps...)
			for _, b := range bs {
				ended -= b.Data.Calls.Scheduled + b.Burn.Calls.Scheduled
				sent -= b.Data.Attempts.Sent + b.Burn.Attempts.Sent
			}
			if ended != 0 || sent != 0 {
				t.Errorf("the intervals hold %d calls and %d attempts more than the blocks", int64(ended), int64(sent))
			}
		})
	}
}

// alternate runs short blocks of the lanes.
func alternate(t *testing.T, cfg Config, order []int) []*Block {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var bs []*Block
	for i, lane := range order {
		b, err := e.Run(lane, workloads.Block{Burn: time.Duration(i%2) * 20 * ms, Data: 50 * ms})
		if err != nil {
			t.Fatal(err)
		}
		sound(t, e)
		bs = append(bs, b)
	}
	return bs
}

// TestStopAnywhere: Stop at any moment of any state leaves ledgers that add up.
func TestStopAnywhere(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 2))
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			tight(t)
			p := chaos(t, seed)
			cfg := config(t, []netip.AddrPort{p.addr}, everything(r))
			cfg.Threads, cfg.Connections, cfg.Closed, cfg.Drain = 1+r.IntN(2), 8, r.IntN(2) == 0, time.Duration(r.IntN(2))*30*ms
			e, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			stopped := make(chan struct{})
			after := time.Duration(r.IntN(40)) * ms
			go func() {
				defer close(stopped)
				<-time.After(after)
				e.Stop()
			}()
			b, err := e.Run(0, workloads.Block{Burn: 10 * ms, Data: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			<-stopped
			sound(t, e)
			next, err := e.Run(0, workloads.Block{Data: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if !b.Stopped || !next.Stopped || next.Data.Calls.Scheduled != 0 {
				t.Errorf("stopped %v, then %v with %d calls", b.Stopped, next.Stopped, next.Data.Calls.Scheduled)
			}
			agree(t, []*Block{b, next}, p)
		})
	}
}

// TestSilence: a listener whose queue is full, and a server that accepts and
// says nothing: attempt timeouts, retries and deadlines end every call.
func TestSilence(t *testing.T) {
	full := hole(t)
	silent := playing(t, func(c *received) { io.Copy(io.Discard, c) })
	for _, row := range []struct {
		about string
		at    netip.AddrPort
		p     policy.Policy
	}{
		{"nobody accepts; deadline", full, policy.Policy{Deadline: 30 * ms}},
		{"nobody accepts; attempt timeout and retries", full, policy.Policy{Deadline: 50 * ms, Timeouts: policy.Timeouts{policy.PartAttempt: {After: 8 * ms}}, Retry: policy.Retry{Max: 3}}},
		{"nobody accepts; hedges", full, policy.Policy{Deadline: 30 * ms, Hedge: policy.Hedge{Max: 2, Delay: 3 * ms}}},
		{"nobody answers; attempt timeout and retries", silent.addr, policy.Policy{Timeouts: policy.Timeouts{policy.PartAttempt: {After: 8 * ms}}, Retry: policy.Retry{Max: 3}}},
		{"nobody answers; everything", silent.addr, policy.Policy{Deadline: 30 * ms, Timeouts: policy.Timeouts{policy.PartAttempt: {After: 8 * ms}}, Retry: policy.Retry{Max: 2}, Hedge: policy.Hedge{Max: 2, Delay: 3 * ms}}},
	} {
		t.Run(row.about, func(t *testing.T) {
			for _, ceiling := range []int{1, 3, 64} {
				cfg := config(t, []netip.AddrPort{row.at}, row.p)
				cfg.Connections, cfg.Drain = ceiling, 10*time.Second
				b := drive(t, cfg, count(60))
				d := b.Data
				if d.Calls.Failed != 60 || d.Calls.Unfinished != 0 || d.Attempts.OK+d.Attempts.Abandoned != 0 {
					t.Errorf("ceiling %d: %+v %+v, want 60 failed", ceiling, d.Calls, d.Attempts)
				}
				if d.Attempts.SpuriousTimeouts != 0 || d.Attempts.TimedOut > d.Attempts.Sent {
					t.Errorf("ceiling %d: %+v", ceiling, d.Attempts)
				}
				agree(t, []*Block{b})
			}
		})
	}
}
