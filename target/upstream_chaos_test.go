package target

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"latencylab/service"
)

// TestUpstreamChaos has callers of every kind at once, that leave at any moment,
// over faults, shedding and a replica that is killed; nothing may be left.
func TestUpstreamChaos(t *testing.T) {
	spec := &service.Spec{
		Replicas: 2, Slots: 4, Queue: 2, Body: 64, Cancel: service.CancelRunning, Time: dist(t, "uniform(0ms,2ms)"),
		Status: []service.StatusShare{{Status: 503, Share: 0.1}},
	}
	for _, f := range []service.Fault{service.FaultBodyReset, service.FaultBodyStall, service.FaultLengthLong, service.FaultReset, service.FaultHang} {
		spec.Faults[f].Share = 0.05
	}
	tg := inFront(t, spec, Upstream{Connections: 3, Timeout: 50 * time.Millisecond, Body: 20_000}, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/0":
			<-r.Context().Done()
		case "/1":
			panic(http.ErrAbortHandler)
		case "/2":
			io.WriteString(w, strings.Repeat("x", 20_001))
		case "/3":
			w.WriteHeader(204)
		default:
			io.WriteString(w, strings.Repeat("x", 20_000))
		}
	})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 40 {
				c, err := net.Dial("tcp", tg.Replicas()[k%2].String())
				if err != nil { // it is killed
					continue
				}
				c.SetDeadline(time.Now().Add(time.Duration(1+k%7*5) * time.Millisecond)) // then it leaves
				body := strings.Repeat("y", 3_000*(k%8))                                 // some are too large
				fmt.Fprintf(c, "POST /%d HTTP/1.1\r\nHost: a\r\nLatencylab-Run: r\r\nLatencylab-Call: %d\r\nContent-Length: %d\r\n\r\n%s", k%6, i*40+k, len(body), body)
				io.Copy(io.Discard, io.LimitReader(c, int64(1+k%5*5_000)))
				c.Close()
			}
		})
	}
	all.Go(func() {
		for range 5 {
			if _, err := tg.Kill(0, 1); err != nil {
				t.Error(err)
			}
			if _, err := tg.Revive(1); err != nil {
				t.Error(err)
			}
			passed(t, tg)
		}
	})
	all.Wait()
	settle(t, "the end of all", func() bool {
		l := tg.Ledger()
		return l.Upstream.InFlight == 0 && l.Run("r").InFlight == 0 && l.Connections.Open == 0
	})
	settle(t, "the room", func() bool { return tg.upstream.held.Load() == 0 })
	if u := passed(t, tg); u.Forwarded == 0 {
		t.Errorf("%+v, want some forwarded", u)
	}
	if !tg.Drain(patience) {
		t.Error("not clean")
	}
}
