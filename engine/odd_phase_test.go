package engine

import (
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"latencylab/http1"
	"latencylab/ledger"
	"latencylab/policy"
)

// TestTimeoutsByPhase: one fault a phase, and which timeout ends the attempt.
func TestTimeoutsByPhase(t *testing.T) {
	full := hole(t)
	silent := playing(t, func(c *received) { c.gone() })
	drip := playing(t, func(c *received) {
		if _, err := c.head(); err != nil {
			return
		}
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
		for c.say("x") {
			<-time.After(ms)
		}
	})
	stall := playing(t, func(c *received) {
		if _, err := c.head(); err != nil {
			return
		}
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		c.gone()
	})
	over := make(chan bool)
	deaf := playing(t, func(c *received) { <-over }) // reads nothing
	t.Cleanup(func() { close(over) })
	all := func(d time.Duration) policy.Timeouts {
		ts := policy.Timeouts{policy.PartAttempt: {After: 20 * d}}
		for p := policy.PartAcquire; p <= policy.PartRead; p++ {
			ts[p].After = d
		}
		return ts
	}
	for _, row := range []struct {
		about string
		at    netip.AddrPort
		ts    policy.Timeouts
		body  int
		class ledger.Class
		phase policy.Phase
	}{
		{"a handshake that nobody answers", full, all(10 * ms), 0, ledger.ClassConnectTimeout, policy.PhaseConnect},
		{"a server that says nothing", silent.addr, all(10 * ms), 0, ledger.ClassHeadersTimeout, policy.PhaseFirstByte},
		{"an answer that stalls half-way", stall.addr, all(20 * ms), 0, ledger.ClassReadTimeout, policy.PhaseBody},
		{"a request that is not taken", deaf.addr, all(30 * ms), 16 << 20, ledger.ClassWriteTimeout, policy.PhaseWrite},
		{"silence of any sort", silent.addr, policy.Timeouts{policy.PartIdle: {After: 10 * ms}}, 0, ledger.ClassIdleTimeout, policy.PhaseFirstByte},
		{"a drip: a read timeout does not bound it, that of the attempt does", drip.addr, policy.Timeouts{policy.PartRead: {After: 250 * ms}, policy.PartAttempt: {After: 600 * ms}}, 0, ledger.ClassAttemptTimeout, policy.PhaseBody},
	} {
		t.Run(row.about, func(t *testing.T) {
			cfg := config(t, []netip.AddrPort{row.at}, policy.Policy{Timeouts: row.ts})
			if row.body > 0 {
				request(t, &cfg, "PUT", make([]byte, row.body))
			}
			cfg.Drain = 10 * time.Second
			d := drive(t, cfg, count(1)).Data
			if len(d.Errors) != 1 || d.Errors[0].Class != row.class || d.Errors[0].Phase != row.phase || d.Attempts.TimedOut != 1 {
				t.Errorf("%+v %+v, want one %v in phase %v", d.Attempts, d.Errors, row.class, row.phase)
			}
		})
	}
}

// TestAcquireTimeout: at the ceiling the second call waits for the connection of
// the first.
func TestAcquireTimeout(t *testing.T) {
	slow := playing(t, func(c *received) {
		for {
			if _, err := c.request(); err != nil {
				return
			}
			<-time.After(100 * ms)
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	cfg := config(t, []netip.AddrPort{slow.addr}, policy.Policy{Timeouts: policy.Timeouts{policy.PartAcquire: {After: 20 * ms}}})
	cfg.Connections, cfg.Drain = 1, 10*time.Second
	d := drive(t, cfg, count(20)).Data
	if d.Calls.OK == 0 || d.Calls.Failed == 0 || d.Calls.OK+d.Calls.Failed != 20 {
		t.Fatalf("%+v", d.Calls)
	}
	for _, e := range d.Errors {
		if e.Class != ledger.ClassAcquireTimeout || e.Count != d.Calls.Failed {
			t.Errorf("%+v, want %d acquire timeouts", d.Errors, d.Calls.Failed)
		}
	}
}

// TestHeadWins: the head of the first answer ends the hedge, whose own would be
// complete long before the first one's body.
func TestHeadWins(t *testing.T) {
	var mu sync.Mutex
	hedged := map[string]chan bool{} // closed when the call's second attempt came
	p := playing(t, func(c *received) {
		r, err := c.head()
		if err != nil {
			return
		}
		id := r.Header.Get("Latencylab-Call")
		mu.Lock()
		second := hedged[id]
		if second == nil {
			hedged[id] = make(chan bool)
		} else {
			close(second)
		}
		first := hedged[id]
		mu.Unlock()
		if second != nil {
			c.gone() // until it is cancelled
			return
		}
		<-first
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhe")
		<-time.After(20 * ms)
		c.say("ad")
		c.gone()
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 5 * ms, WinAtHead: true}})
	cfg.Drain = 10 * time.Second
	b := drive(t, cfg, count(5))
	d := b.Data
	if d.Calls.OK != 5 || d.Attempts.Hedges != 5 || d.Attempts.Cancelled != 5 || d.Attempts.HedgeWins != 0 {
		t.Errorf("%+v %+v, want 5 ok, each with a hedge that the head cancelled", d.Calls, d.Attempts)
	}
	agree(t, []*Block{b}, p)
}

// TestDeadlineOnTheWire: the server reads what is left of the deadline, less on
// each attempt.
func TestDeadlineOnTheWire(t *testing.T) {
	var mu sync.Mutex
	var left []int
	p := playing(t, func(c *received) {
		for {
			r, err := c.request()
			if err != nil {
				return
			}
			n, err := strconv.Atoi(r.Header.Get("X-Deadline-Ms"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			left = append(left, n)
			mu.Unlock()
			<-time.After(5 * ms)
			c.say("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{Deadline: 5 * time.Second, Reserve: time.Second, Wire: policy.WireDeadlineMS, Retry: policy.Retry{Max: 2}})
	tm, err := http1.NewRequestTemplate("GET", "/", "test", nil, nil, &http1.LabHeaders{Run: strings.Repeat("x", http1.RunSize)})
	if err != nil {
		t.Fatal(err)
	}
	if err := tm.AddField(policy.WireDeadlineMS.Header(), policy.WireDeadlineMS.Width()); err != nil {
		t.Fatal(err)
	}
	cfg.Lanes[0].Template = tm
	if d := drive(t, cfg, count(1)).Data; d.Attempts.Sent != 3 {
		t.Fatalf("%+v", d.Attempts)
	}
	mu.Lock()
	defer mu.Unlock()
	for i, n := range left {
		if n <= 0 || n >= 4000-5*i {
			t.Errorf("attempt %d was told %d ms, want below %d", i+1, n, 4000-5*i)
		}
	}
}
