package target

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"latencylab/service"
)

// TestReplay: a caller without headers meets the values of a sequence in turn,
// and the page of the service has all of them.
func TestReplay(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1, Time: dist(t, "sequence(1ms,30ms,2ms)")}})
	c := dial(t, tg.Replicas()[0])
	values := []time.Duration{1e6, 30e6, 2e6}
	var want Digest
	for i := range 7 {
		began := time.Now()
		c.send(plainGet)
		c.answer("GET")
		if took := time.Since(began); took < values[i%3] {
			t.Errorf("answer %d took %v, want %v or more", i, took, values[i%3])
		}
		want += digestOf(uint64(i), 1, values[i%3])
	}
	if r := tg.Ledger().Run(""); r.DrawsAll != want {
		t.Errorf("digest %016x, want %016x", r.DrawsAll, want)
	}
	if _, text := page(t, http.MethodGet, "http://"+tg.Admin().String()+"/service"); !strings.Contains(text, "time: sequence(1ms,30ms,2ms)\n") {
		t.Errorf("the page of the service is\n%s", text)
	}
}

// TestRampOnSockets: what a ramp changes, it changes at its instant after the
// mark, also for requests that wait.
func TestRampOnSockets(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1, Slots: 1, Time: dist(t, "200ms"), Ramps: []service.Ramp{
		{Key: "slots", To: 3}, {Key: "status.503", To: 1}, {Key: "factor", To: 0.001},
	}}})
	tg.Mark(time.Hour, 1)
	var callers []*caller
	for i := range 3 {
		callers = append(callers, dial(t, tg.Replicas()[0]))
		callers[i].send(get("", uint64(i), 1))
	}
	settle(t, "one works and two wait", func() bool { b := tg.Backlog().Replicas[0]; return b.Busy == 1 && b.Waiting == 2 })
	tg.Mark(0, 2)
	settle(t, "none waits", func() bool { return tg.Backlog().Replicas[0].Waiting == 0 })
	for i, c := range callers {
		// They have come before the mark, and drew their status then.
		if resp, _ := c.answer("GET"); resp.StatusCode != 200 {
			t.Errorf("request %d: status %d", i, resp.StatusCode)
		}
	}
	c := callers[0]
	c.send(get("", 9, 1))
	if resp, _ := c.answer("GET"); resp.StatusCode != 503 {
		t.Errorf("after the mark: status %d, want 503", resp.StatusCode)
	}
	sums(t, tg.Ledger().Run(""))
}
