package trial

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/engine"
	"latencylab/histo"
	"latencylab/workloads"
)

// quarters feeds a rule with intervals of 250 ms and returns the number of the
// one at which it acted, from 1; 0: at none.
func quarters(t *testing.T, rule string, list []engine.Interval) int {
	t.Helper()
	stops, err := workloads.ParseStops(rule)
	if err != nil {
		t.Fatal(err)
	}
	w, at := newWatcher(stops), clock.Time(0)
	for i, iv := range list {
		iv.Start, iv.End = at, at.Add(250*time.Millisecond)
		at = iv.End
		if iv.OK == nil {
			iv.OK = histo.New()
		}
		if w.add(iv) != nil {
			return i + 1
		}
	}
	return 0
}

func TestStopRules(t *testing.T) {
	times := func(n int, iv engine.Interval) (list []engine.Interval) {
		for range n {
			list = append(list, iv)
		}
		return list
	}
	took := func(n uint64, d time.Duration) *histo.Histogram {
		h := histo.New()
		h.RecordN(int64(d), n)
		return h
	}
	bad, good := engine.Interval{Ended: 10, Failed: 6}, engine.Interval{Ended: 10}
	for _, c := range []struct {
		why, rule string
		list      []engine.Interval
		want      int
	}{
		{"errors act when the window is full", "errors>50% for 1s", times(8, bad), 4},
		{"not at the limit itself", "errors>60% for 1s", times(8, bad), 0},
		{"not when good calls are as many", "errors>50% for 1s", append(times(4, good), times(2, bad)...), 0},
		{"what is older than the window does not count", "errors>50% for 1s", append(times(40, good), times(4, bad)...), 44},
		{"fewer than ten calls wait for more", "errors>50% for 1s", times(20, engine.Interval{Ended: 1, Failed: 1}), 10},
		{"one failure alone ends nothing", "errors>5% for 250ms", append(times(1, engine.Interval{Ended: 10, Failed: 1}), times(9, good)...), 0},
		{"p99 counts slow ones", "p99>2s for 1s", times(8, engine.Interval{Ended: 100, OK: took(2, 3*time.Second)}), 4},
		{"1 % of them is allowed", "p99>2s for 1s", times(8, engine.Interval{Ended: 100, OK: took(1, 3*time.Second)}), 0},
		{"failures are slow", "p90>2s for 1s", times(8, engine.Interval{Ended: 10, Failed: 2}), 4},
		{"open acts at once", "open>9", []engine.Interval{{Open: 9}, {Open: 10}}, 2},
		{"or after a while in a row", "open>9 for 500ms", []engine.Interval{{Open: 10}, {Open: 9}, {Open: 10}, {Open: 10}}, 4},
	} {
		if got := quarters(t, c.rule, c.list); got != c.want {
			t.Errorf("%s: acted at interval %d, want %d", c.why, got, c.want)
		}
	}
}

// TestStopWindowStaysSmall: however long nothing ends.
func TestStopWindowStaysSmall(t *testing.T) {
	stops, _ := workloads.ParseStops("errors>50% for 1s")
	r := &ruling{Stop: stops[0]}
	for i := range 100_000 {
		r.push(slice{250 * time.Millisecond, uint64(i % 1000 / 999), 0})
	}
	if n := len(r.window); n > 2*leastEnded+8 {
		t.Errorf("%d slices", n)
	}
}

// TestRunStops: a service that fails ends the run long before its time, and the
// result says why; what was open is accounted for.
func TestRunStops(t *testing.T) {
	hang := make(chan struct{})
	for _, c := range []struct {
		why, rule string
		handler   http.HandlerFunc
	}{
		{"failures", "errors>50% for 250ms", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }},
		{"calls that hang", "open>20", func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}},
	} {
		server := httptest.NewServer(c.handler)
		site, err := ParseSite(server.URL, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		w := workload(t, "plain", "hedge=1s")
		w.Rate, w.Duration = 200e6, time.Hour
		if w.Stops, err = workloads.ParseStops(c.rule); err != nil {
			t.Fatal(err)
		}
		p := plan(t, w, false)
		s := &Setup{Site: site, CallHeaders: "auto"}
		if err := s.Check(p); err != nil {
			t.Fatal(err)
		}
		r, err := Real(context.Background(), p, s)
		if err != nil {
			t.Fatal(err)
		}
		if r.Stopped == nil || r.Stopped.Rule != c.rule || !strings.Contains(r.Void, c.rule) || r.Verdict.Valid || r.Interrupted {
			t.Errorf("%s: stopped %+v, void %q, valid %v", c.why, r.Stopped, r.Void, r.Verdict.Valid)
		}
		server.CloseClientConnections()
		server.Close()
	}
	close(hang)
}

// TestIdempotencyKey: a POST is hedged only with a key, which is the same on all
// attempts of a call and on no other.
func TestIdempotencyKey(t *testing.T) {
	for _, c := range []struct {
		why, key string
		safe     bool
		hedges   bool
	}{
		{"a POST is sent once", "", false, false},
		{"with a key it is hedged", "Idempotency-Key", false, true},
		{"or when the user says so", "", true, true},
	} {
		var mu sync.Mutex
		keys := map[string]int{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			keys[r.Header.Get("Idempotency-Key")]++
			first := keys[r.Header.Get("Idempotency-Key")] == 1
			mu.Unlock()
			if first {
				select {
				case <-r.Context().Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}))
		site, err := ParseSite(server.URL, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		w := workload(t, "hedge=1ms")
		w.Request = workloads.Request{Method: "POST", Path: "/", Key: c.key, Safe: c.safe}
		w.Rate, w.Requests, w.WarmupGiven = 200e6, 20, true
		p := plan(t, w, false)
		s := &Setup{Site: site, CallHeaders: "off"}
		if err := s.Check(p); err != nil {
			t.Fatal(err)
		}
		r, err := Real(context.Background(), p, s)
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		rp := &r.Policies[0]
		if got := rp.Attempts.Hedges > 0; got != c.hedges || (rp.Refused["idempotency"] > 0) == c.hedges {
			t.Errorf("%s: %d hedges, refused %v", c.why, rp.Attempts.Hedges, rp.Refused)
		}
		if c.key != "" && (len(keys) != 20 || keys[""] != 0) {
			t.Errorf("%s: %d keys for 20 calls: %v", c.why, len(keys), keys)
		}
	}
}
