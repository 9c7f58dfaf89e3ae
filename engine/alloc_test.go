package engine

import (
	"net"
	"net/netip"
	"runtime"
	"testing"

	"latencylab/policy"
)

// bare answers whatever comes in one read, without allocating.
func bare(t testing.TB) netip.AddrPort {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf, reply := make([]byte, 4096), []byte(hello)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					if _, err := c.Write(reply); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// TestCallsDoNotAllocate: what a block allocates does not depend on the number
// of its calls, also with hedges, deadline and retries armed.
func TestCallsDoNotAllocate(t *testing.T) {
	p := policy.Policy{Deadline: 1000 * ms, Timeouts: policy.Timeouts{policy.PartAttempt: {After: 500 * ms}}, Retry: policy.Retry{Max: 2}, Hedge: policy.Hedge{Max: 1, Delay: 400 * ms}, Budget: policy.Budget{Deposit: .1}}
	cfg := config(t, []netip.AddrPort{bare(t)}, p)
	cfg.Closed, cfg.Connections = true, 4
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	mallocs := func(calls uint64) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := e.Run(0, count(calls)); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	mallocs(100)
	few, many := mallocs(100), mallocs(10_100)
	if many > few+500 {
		t.Errorf("10,100 calls made %d allocations, 100 calls %d", many, few)
	}
}

// BenchmarkClosedLoop is one call over loopback, server included.
func BenchmarkClosedLoop(b *testing.B) {
	p := policy.Policy{}
	cfg := benchConfig(b, bare(b), &p)
	e, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := e.Run(0, count(uint64(b.N))); err != nil {
		b.Fatal(err)
	}
}
