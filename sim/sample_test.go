package sim

import (
	"fmt"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/service"
	"latencylab/workloads"
)

// TestSamples: two servers that take 20 ms for a call, one call each 8 ms, in
// turn; the first arrives at 8 ms. What is unfinished can be counted by hand.
func TestSamples(t *testing.T) {
	svc := &service.Spec{Replicas: 2, Time: dist(t, "20ms"), Slots: 1, Queue: -1}
	cfg := config(t, "picker=round-robin", svc, 6)
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(125), 1)
	var got []string
	cfg.Sample = 8 * ms
	cfg.OnSample = func(s Sample) {
		got = append(got, fmt.Sprintf("%d: %d ms of %d requests, %d calls, %d begun, %d sent", s.At/1e6, s.Work/ms, s.Requests, s.Calls, s.Begun, s.Sent))
	}
	run(t, cfg)
	want := []string{ // server 0 gets 8, 24, 40; server 1 gets 16, 32, 48
		"0: 0 ms of 0 requests, 0 calls, 0 begun, 0 sent",
		"8: 0 ms of 0 requests, 0 calls, 0 begun, 0 sent", // before what happens at the instant
		"16: 12 ms of 1 requests, 1 calls, 1 begun, 1 sent",
		"24: 16 ms of 2 requests, 2 calls, 1 begun, 1 sent",
		"32: 20 ms of 2 requests, 2 calls, 1 begun, 1 sent",
		"40: 24 ms of 2 requests, 2 calls, 1 begun, 1 sent",
		"48: 28 ms of 3 requests, 3 calls, 1 begun, 1 sent",
		"56: 32 ms of 3 requests, 3 calls, 1 begun, 1 sent",
		"64: 16 ms of 2 requests, 2 calls, 0 begun, 0 sent",
		"72: 4 ms of 1 requests, 1 calls, 0 begun, 0 sent",
	}
	if a, b := fmt.Sprintln(got), fmt.Sprintln(want); a != b {
		t.Errorf("samples\n%s want\n%s", a, b)
	}
}

// TestSamplesChangeNothing: a run with samples is the run without, its samples
// lie at multiples of their distance, and what they count adds up.
func TestSamplesChangeNothing(t *testing.T) {
	for _, c := range worlds(t) {
		plain := run(t, c.cfg)
		var begun, sent uint64
		last := clock.Time(-1)
		c.cfg.Sample = 7 * ms
		c.cfg.OnSample = func(s Sample) {
			if s.At <= last || s.At%clock.Time(7*ms) != 0 {
				t.Errorf("%s: a sample at %d after %d", c.name, s.At, last)
			}
			if (s.Work > 0) != (s.Requests > 0) {
				t.Errorf("%s: at %d %d requests, %v of work", c.name, s.At, s.Requests, s.Work)
			}
			last = s.At
			begun += s.Begun
			sent += s.Sent
		}
		r := run(t, c.cfg)
		if r.ResultDigest != plain.ResultDigest || r.Events != plain.Events || r.Elapsed != plain.Elapsed {
			t.Errorf("%s: samples change the result", c.name)
		}
		// What begins after the last sample of a block is in none.
		if all := r.Ledger.Attempts.Sent + r.Burn.Attempts.Sent; begun > r.Arrivals || sent > all || begun < r.Arrivals*9/10 || sent < all*9/10 {
			t.Errorf("%s: samples with %d calls begun and %d attempts sent, want about %d and %d", c.name, begun, sent, r.Arrivals, all)
		}
	}
}

// TestNoSamplesOfNothing: an hour in which nothing happens has few samples.
func TestNoSamplesOfNothing(t *testing.T) {
	cfg := config(t, "plain", &service.Spec{Time: dist(t, "10000h")}, 2)
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(1), 1)
	n := 0
	cfg.Sample = ms
	cfg.OnSample = func(Sample) { n++ }
	run(t, cfg)
	if n > 10 {
		t.Errorf("%d samples of two calls", n)
	}
}

// TestSamplesGoOnWithTheHops: a hop's call that nobody waits for is seen until
// the server is idle.
func TestSamplesGoOnWithTheHops(t *testing.T) {
	cfg := chain(t, "deadline=100ms", 1, &service.Spec{Time: dist(t, "1s")}, Hop{Policy: parse(t, "plain")})
	cfg.Sample = 10 * ms
	var busy time.Duration
	cfg.OnSample = func(s Sample) { busy += time.Duration(s.Requests) * cfg.Sample }
	run(t, cfg)
	if busy != time.Second {
		t.Errorf("samples show %v of work, want 1s", busy)
	}
}
