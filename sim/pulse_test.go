package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"latencylab/service"
	"latencylab/workloads"
)

// TestPulseByHand: one server that takes 6 ms for a call, one call every 10 ms;
// it stops at 100 ms for 50 ms. The calls that come meanwhile wait, and
// from 150 ms on the server has 4 ms in every 10 ms for what has waited.
func TestPulseByHand(t *testing.T) {
	cfg := config(t, "plain", &service.Spec{Time: dist(t, "6ms"), Slots: 1, Queue: -1}, 1)
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(100), 1)
	p, err := RunPulse(cfg, Pulse{Lead: 100 * ms, For: 50 * ms, Look: 55 * ms, Above: 5 * ms})
	if err != nil {
		t.Fatal(err)
	}
	// Before: 6 ms at 50, 60, … ms and 4 ms less each 4 ms; the mean of
	// max(0, 6 - x) over x in [0, 10) is 1.8 ms. Release: five calls of 6 ms, of
	// 100 to 140 ms, before the one at 150 ms. After, at 205 ms: 11 calls came
	// from 100 to 200 ms, 66 ms of work, of which 55 ms are done.
	if p.Before < 17*ms/10 || p.Before > 19*ms/10 || p.Release != 30*ms || p.After != 11*ms || p.Recovered || p.Above != 5*ms {
		t.Errorf("%v before, %v at the release, %v after, recovered %v; want 1.8ms, 30ms, 11ms, not recovered", p.Before, p.Release, p.After, p.Recovered)
	}
	p, err = RunPulse(cfg, Pulse{Lead: 100 * ms, For: 50 * ms, Look: 120 * ms})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Recovered || p.Above != 4*p.Before {
		t.Errorf("%v after, above %v: want it recovered by four times the %v before", p.After, p.Above, p.Before)
	}
	if len(cfg.Service.Stalls) != 0 {
		t.Error("the pulse changed the caller's service")
	}
}

// TestPulseFindsTheBadState: 20 servers at 70 %, a hedge at plain's own p95. The
// servers stop for 100 units and are looked at 2,000 units later: plain has
// recovered, so has a hedge with a budget or with work that can be cancelled;
// without, the copies keep the queues as long as they are.
func TestPulseFindsTheBadState(t *testing.T) {
	const u = time.Millisecond
	for _, c := range []struct {
		spec      string
		cancel    service.Cancel
		recovered bool
	}{
		{"plain", service.CancelNone, true},
		{"hedge=73ms", service.CancelNone, false},
		{"hedge=73ms,budget=10%", service.CancelNone, true},
		{"hedge=73ms", service.CancelRunning, true},
	} {
		for seed := range uint64(3) {
			svc := &service.Spec{Replicas: 20, Time: dist(t, "mixture(98%:exponential(1ms),2%:exponential(20ms))"), Slots: 1, Queue: -1, Cancel: c.cancel}
			cfg := queueing(t, c.spec, svc, 20*0.7/1.38, fewer, seed+1)
			p, err := RunPulse(cfg, Pulse{Lead: 500 * u, For: 100 * u, Look: 2000 * u, Above: 60 * u})
			if err != nil {
				t.Fatal(err)
			}
			if p.Recovered != c.recovered || p.Before > 40*u || p.Release < 60*u {
				t.Errorf("%s, work cancelled: %v, seed %d: %v before, %v at the release, %v after, want recovered %v",
					c.spec, c.cancel, seed+1, p.Before, p.Release, p.After, c.recovered)
			}
		}
	}
}

// TestPulseWithoutRoom: a run that ends before the look has not recovered.
func TestPulseWithoutRoom(t *testing.T) {
	cfg := config(t, "plain", &service.Spec{Time: dist(t, "5ms"), Slots: 1, Queue: -1}, 1)
	cfg.Open = 100
	p, err := RunPulse(cfg, Pulse{Lead: time.Second, For: time.Second, Look: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if p.Recovered || p.Result.Overflow == nil {
		t.Errorf("recovered %v, overflow %v", p.Recovered, p.Result.Overflow)
	}
}

func TestBadPulses(t *testing.T) {
	for _, c := range []struct {
		p    Pulse
		want string
	}{
		{Pulse{}, "lead = 0s, for = 0s and look = 0s"},
		{Pulse{Lead: 1, For: -1, Look: 1}, "for = -1ns"},
		{Pulse{Lead: 1, For: 1, Look: 1, Above: -1}, "above = -1ns"},
	} {
		if _, err := RunPulse(config(t, "plain", hedgeTail(t), 1), c.p); err == nil || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%+v: %v, want %q", c.p, err, c.want)
		}
	}
	if _, err := RunPulse(Config{}, Pulse{Lead: 1, For: 1, Look: 1}); err == nil || !strings.Contains(err.Error(), "no service") {
		t.Errorf("no service: %v", err)
	}
}
