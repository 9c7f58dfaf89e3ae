package target

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"latencylab/http1"
	"latencylab/service"
)

// exchange sends one request and reads its answer of n bytes, without allocating.
func (c *caller) exchange(request, buf []byte, n int) {
	if _, err := c.Conn.Write(request); err != nil {
		c.t.Error(err)
	}
	if _, err := io.ReadFull(c.Conn, buf[:n]); err != nil {
		c.t.Error(err)
	}
}

// size asks once for the length of an answer on the wire.
func (c *caller) size(request []byte) int {
	c.send(string(request))
	var buf [64 << 10]byte
	var p http1.Response
	for have := 0; ; {
		n, err := c.Conn.Read(buf[have:])
		if err != nil {
			c.t.Fatal(err)
		}
		have += n
		p.Begin(false, false)
		if n, done, _ := p.Feed(buf[:have]); done {
			return n
		}
	}
}

func TestNoAllocationPerRequest(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1, Slots: 1, Time: dist(t, "uniform(0ms,100us)"), Body: 100}})
	c := dial(t, tg.Replicas()[0])
	request := []byte(get("r", 1, 1))
	n := c.size(request)
	buf := make([]byte, n)
	if got := testing.AllocsPerRun(500, func() { c.exchange(request, buf, n) }); got != 0 {
		t.Errorf("%v allocations per request, want 0", got)
	}
}

// BenchmarkAnswers measures one loop with callers in the same process, each of
// which waits for its answer before it asks again.
func BenchmarkAnswers(b *testing.B) {
	const callers = 64
	tg := begin(b, Config{Service: &service.Spec{Queue: -1, Body: 100}})
	request := []byte(get("bench", 1, 1))
	cs := make([]*caller, callers)
	n := 0
	for i := range cs {
		cs[i] = dial(b, tg.Replicas()[0])
		n = cs[i].size(request)
	}
	var left atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	left.Store(int64(b.N))
	for _, c := range cs {
		wg.Go(func() {
			buf := make([]byte, n)
			for left.Add(-1) >= 0 {
				c.exchange(request, buf, n)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
	runtime.KeepAlive(tg)
}

// BenchmarkBacklog asks for the backlog of 20 replicas over the admin listener.
func BenchmarkBacklog(b *testing.B) {
	tg := begin(b, Config{Service: &service.Spec{Replicas: 20}})
	r := NewRemote(tg.Admin())
	defer r.Close()
	for b.Loop() {
		if _, err := r.Backlog(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
