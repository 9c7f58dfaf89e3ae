package target

import (
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"latencylab/engine"
	"latencylab/service"
)

// TestHostileCallers: whatever comes in on other connections, a well-behaved
// caller is answered, and in the end every connection is given back.
func TestHostileCallers(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1, Slots: 4, Cancel: service.CancelRunning, Time: dist(t, "uniform(0ms,2ms)"), Body: 4000}, Seed: 1})
	pieces := []string{
		plainGet, "GET / HTTP/1.1\r\n", "Host: a\r\n", "\r\n", "\n", "\x00", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
		"Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n", "0\r\n\r\n", "Expect: 100-continue\r\n", "Connection: close\r\n",
		"GET /.well-known/latencylab HTTP/1.1\r\nHost: a\r\n\r\n", strings.Repeat("a", 20_000), "Latencylab-Call: 99999999999999999999\r\n",
		"HEAD / HTTP/1.0\r\n\r\n", strings.Repeat(plainGet, 50),
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 60 {
				c, err := net.Dial("tcp", tg.Replicas()[0].String())
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(patience))
				for range 1 + rnd.IntN(6) {
					p := pieces[rnd.IntN(len(pieces))]
					io.WriteString(c, p[:1+rnd.IntN(len(p))]) // the target may have closed
				}
				switch rnd.IntN(3) {
				case 0:
					c.(*net.TCPConn).SetLinger(0)
				case 1:
					c.(*net.TCPConn).CloseWrite()
					io.Copy(io.Discard, c)
				}
				c.Close()
			}
		})
	}
	good := dial(t, tg.Replicas()[0])
	for call := range uint64(200) {
		good.send(get("good", call, 1))
		if resp, body := good.answer("GET"); resp.StatusCode != 200 || len(body) != 4000 {
			t.Fatalf("call %d: %d and %d bytes", call, resp.StatusCode, len(body))
		}
	}
	wg.Wait()
	good.Close()
	settle(t, "the end of all connections", func() bool { return tg.Ledger().Connections.Open == 0 })
	l := tg.Ledger()
	for i := range l.Runs {
		sums(t, &l.Runs[i])
		if n := l.Runs[i].InFlight; n != 0 {
			t.Errorf("run %q: %d in flight at the end", l.Runs[i].Key, n)
		}
	}
	if r := l.Run("good"); r.Arrived != 200 || r.Answered[200] != 200 {
		t.Errorf("the well-behaved caller: %+v", r)
	}
}

// TestTenThousandIdle: ten thousand connections that say nothing, or as many as
// files may be open, take nothing from a caller.
func TestTenThousandIdle(t *testing.T) {
	limit, err := engine.FileLimit()
	if err != nil {
		t.Fatal(err)
	}
	n := min(10_000, limit/2-200) // both ends are this process's
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	for range n {
		dial(t, tg.Replicas()[0])
	}
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	if resp, _ := c.answer("GET"); resp.StatusCode != 200 {
		t.Errorf("%d beside %d idle connections, want 200", resp.StatusCode, n)
	}
	if open := tg.Ledger().Connections.Open; open != uint64(n)+1 {
		t.Errorf("%d open, want %d", open, n+1)
	}
}
