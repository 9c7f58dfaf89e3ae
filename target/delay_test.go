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
