package engine

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"latencylab/policy"
)

// TestCeilingOverReplicas: with fewer connections than replicas every replica
// gets its turn: no attempt waits for one that idles or is busy elsewhere.
func TestCeilingOverReplicas(t *testing.T) {
	for _, ceiling := range []int{1, 2, 3} {
		tight(t)
		play := func(c *received) {
			for {
				if _, err := c.request(); err != nil || !c.say(hello) {
					return
				}
			}
		}
		ps := []*peer{playing(t, play), playing(t, play), playing(t, play)}
		cfg := config(t, []netip.AddrPort{ps[0].addr, ps[1].addr, ps[2].addr}, policy.Policy{})
		cfg.Connections, cfg.Drain = ceiling, time.Minute
		b := drive(t, cfg, count(300))
		if b.Data.Calls.OK != 300 {
			t.Errorf("ceiling %d: %+v, want 300 ok (%s)", ceiling, b.Data.Calls, errorsOf(b))
		}
		agree(t, []*Block{b}, ps...)
	}
}

// TestNoReplicaStarves: calls keep a busy replica's only connection in use
// without end, and those for the other still get through.
func TestNoReplicaStarves(t *testing.T) {
	tight(t)
	slow := playing(t, func(c *received) {
		for {
			if _, err := c.request(); err != nil {
				return
			}
			<-time.After(2 * ms)
			if !c.say(hello) {
				return
			}
		}
	})
	other := playing(t, func(c *received) {
		for {
			if _, err := c.request(); err != nil || !c.say(hello) {
				return
			}
		}
	})
	cfg := config(t, []netip.AddrPort{slow.addr, other.addr}, policy.Policy{})
	cfg.Connections, cfg.Drain = 1, time.Minute // about 1,000 calls a second, of which one connection carries fewer
	b := drive(t, cfg, count(400))
	if b.Data.Calls.OK != 400 {
		t.Errorf("%+v, want 400 ok", b.Data.Calls)
	}
	agree(t, []*Block{b}, slow, other)
	if slow.accepted.Load() < 2 {
		t.Error("the busy replica kept the only connection until none waited for it")
	}
}

// TestMoreUsersThanHandshakes: more users than handshakes may be under way get
// a connection each, although no answer comes before all have asked.
func TestMoreUsersThanHandshakes(t *testing.T) {
	tight(t)
	const users = 2*maxDialing + 50
	var all sync.WaitGroup
	all.Add(users)
	p := playing(t, func(c *received) {
		if _, err := c.request(); err != nil {
			return
		}
		all.Done()
		all.Wait()
		c.say(hello)
		c.gone()
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
	cfg.Closed, cfg.Connections, cfg.Drain = true, users, time.Minute
	b := drive(t, cfg, count(users))
	if b.Data.Calls.OK != users || b.Data.Connections.Opened != users {
		t.Errorf("%+v, %d connections opened; want %d of each", b.Data.Calls, b.Data.Connections.Opened, users)
	}
	for range users - served(t, p) { // let the peers go
		all.Done()
	}
}

// TestStranded: calls that waited at the ceiling to their end are told apart
// from those that were sent.
func TestStranded(t *testing.T) {
	p := playing(t, func(c *received) { c.gone() })
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
	cfg.Connections, cfg.Drain = 2, 100*ms
	b := drive(t, cfg, count(12))
	if b.Stranded != 10 || b.Data.Attempts.First != 2 || b.Data.Calls.Unfinished != 12 {
		t.Errorf("%d stranded, %d sent, %+v; want 10, 2 and 12 unfinished", b.Stranded, b.Data.Attempts.First, b.Data.Calls)
	}
}
