package sim

import (
	"testing"

	"latencylab/service"
	"latencylab/workloads"
)

// TestTiedCopiesRunOnce: of copies whose servers tell each other, one is worked
// on, whether the other waits when it starts or comes later (Dean and Barroso,
// "The Tail at Scale", CACM 2013).
func TestTiedCopiesRunOnce(t *testing.T) {
	cfg := config(t, "hedge=1ms,cancel=tied", &service.Spec{Replicas: 2, Slots: 1, Queue: -1, Time: dist(t, "10ms")}, 200)
	cfg.Arrivals = workloads.NewArrivals(workloads.Poisson, rate(100), 1)
	var work, most int // of samples at every ms
	cfg.Sample = ms
	cfg.OnSample = func(s Sample) {
		work += s.Requests
		most = max(most, s.Requests)
	}
	r := run(t, cfg)
	a := &r.Ledger.Attempts
	if a.Sent != 400 || a.OK != 200 || a.Cancelled != 200 || a.Hedges != 200 {
		t.Errorf("attempts %+v, want two of each call, one ok and one cancelled", *a)
	}
	// Each call waits at both servers until one starts it, so the two are nearly
	// one queue: M/D/2 at rho .5 has a mean of about 1.2 service times. Without
	// ties each copy would be worked on, and the queues would not end.
	if mean := r.Ledger.OK.Mean() / 1e6; mean < 10 || mean > 13.5 || most < 3 {
		t.Errorf("calls take %.2f ms with up to %d requests at the servers, want little more than the 10 ms of work", mean, most)
	}
	if r.Ledger.Calls.OK != 200 || work == 0 {
		t.Errorf("%d of 200 calls ok", r.Ledger.Calls.OK)
	}
}

// TestATiedCopyThatComesLateIsNotBegun: the other server is idle, and still the
// copy is not worked on, for the first one is.
func TestATiedCopyThatComesLateIsNotBegun(t *testing.T) {
	for _, c := range []struct {
		spec string
		want int // of the most requests at the servers
	}{{"hedge=1ms", 2}, {"hedge=1ms,cancel=tied", 1}} {
		cfg := config(t, c.spec, &service.Spec{Replicas: 2, Slots: 1, Queue: -1, Time: dist(t, "10ms")}, 20)
		cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(10), 1)
		most := 0
		cfg.Sample = ms
		cfg.OnSample = func(s Sample) { most = max(most, s.Requests) }
		r := run(t, cfg)
		if most != c.want || r.Ledger.Attempts.Sent != 40 {
			t.Errorf("%s: %d requests at the servers and %d attempts, want %d and 40", c.spec, most, r.Ledger.Attempts.Sent, c.want)
		}
	}
}
