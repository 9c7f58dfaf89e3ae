package sim

import (
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/workloads"
)

// steady drives so many calls a second, evenly, for 1 s after a burn-in of 1 s.
func steady(t testing.TB, spec string, perSecond float64, svc *service.Spec) Config {
	cfg := config(t, spec, svc, 0)
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(perSecond), 1)
	cfg.Blocks = []workloads.Block{{Burn: time.Second, Data: time.Second}}
	cfg.Horizon = 5 * time.Second
	return cfg
}

// TestOutage: 1000 calls a second meet 100 ms without service, which count from
// the beginning of the data.
func TestOutage(t *testing.T) {
	outage := func(e service.Ending) *service.Spec {
		return &service.Spec{Time: dist(t, "1ms"), Outages: []service.Outage{{At: 200 * ms, For: 100 * ms, Ending: e}}}
	}
	refused := ledger.ErrorKey{Class: ledger.ClassRefused, Phase: policy.PhaseConnect}
	reset := ledger.ErrorKey{Class: ledger.ClassReset, Phase: policy.PhaseFirstByte}
	for _, c := range []struct {
		about, spec            string
		ending                 service.Ending
		ok, failed, unfinished uint64
		class                  ledger.ErrorKey
		errors                 uint64
	}{
		{"a status", "plain", service.Ending{Status: 503}, 900, 100, 0, ledger.ErrorKey{Class: ledger.ClassStatus, Phase: policy.PhaseBody, Status: 503}, 100},
		{"refused", "plain", service.Ending{Fault: service.FaultRefuse}, 900, 100, 0, refused, 100},
		{"reset", "plain", service.Ending{Fault: service.FaultReset}, 900, 100, 0, reset, 100},
		{"hangs for ever", "plain", service.Ending{Fault: service.FaultHang}, 900, 0, 100, ledger.ErrorKey{}, 0},
		{"hangs until the deadline", "deadline=50ms", service.Ending{Fault: service.FaultHang}, 900, 100, 0, ledger.ErrorKey{Class: ledger.ClassDeadline, Phase: policy.PhaseFirstByte}, 100},
		{"refused, and tried again when it is over", "retry=1,backoff=200ms,jitter=none", service.Ending{Fault: service.FaultRefuse}, 1000, 0, 0, refused, 100},
	} {
		for _, net := range []time.Duration{0, ms / 2} {
			cfg := steady(t, c.spec, 1000, outage(c.ending))
			cfg.Net = net
			l := run(t, cfg).Ledger
			if l.Calls.OK != c.ok || l.Calls.Failed != c.failed || l.Calls.Unfinished != c.unfinished {
				t.Errorf("%s, net %v: %+v, want %d ok, %d failed, %d unfinished", c.about, net, l.Calls, c.ok, c.failed, c.unfinished)
			}
			if n := errorsOf(l, c.class); n != c.errors || errorCount(l) != c.errors {
				t.Errorf("%s, net %v: %d errors of %+v and %d in all, want %d", c.about, net, n, c.class, errorCount(l), c.errors)
			}
		}
	}
}

func errorsOf(l *ledger.Ledger, key ledger.ErrorKey) uint64 {
	for _, e := range l.Errors {
		if e.ErrorKey == key {
			return e.Count
		}
	}
	return 0
}

// TestStall: with one stop of 100 ms at 200 ms, a call that arrives at t in it
// is answered 1 ms after its end.
func TestStall(t *testing.T) {
	svc := &service.Spec{Time: dist(t, "1ms"), Stalls: []service.Stall{{At: 200 * ms, For: dist(t, "100ms")}}}
	r := run(t, steady(t, "plain", 1000, svc))
	want := int64(0)
	for at := time.Duration(0); at < 1000*ms; at += ms {
		want += int64(ms)
		if at >= 200*ms && at < 300*ms {
			want += int64(300*ms - at)
		}
	}
	if got := r.Ledger.OK.Sum(); got != uint64(want) || r.Ledger.Calls.OK != 1000 {
		t.Errorf("sum of %d responses %d, want %d of 1000", r.Ledger.Calls.OK, got, want)
	}
}

// TestStallFillsTheQueue: one slot that is 80 % busy, against Lindley's recursion
// by hand: each request begins when it has come and the one before is done, and
// what a stop interrupts is done so much later.
func TestStallFillsTheQueue(t *testing.T) {
	svc := &service.Spec{Time: dist(t, "800us"), Slots: 1, Queue: -1, Stalls: []service.Stall{{At: 100 * ms, For: dist(t, "100ms")}}}
	cfg := steady(t, "plain", 1000, svc)
	cfg.Blocks[0].Burn = 0
	r := run(t, cfg)
	want, done := time.Duration(0), time.Duration(0)
	for at := ms; at < 1000*ms; at += ms {
		from := max(at, done)
		if from >= 100*ms && from < 200*ms {
			from = 200 * ms
		}
		done = from + 800*time.Microsecond
		if from < 100*ms && done > 100*ms {
			done += 100 * ms
		}
		want += done - at
	}
	if got := r.Ledger.OK.Sum(); got != uint64(want) || r.Ledger.Calls.OK != 999 {
		t.Errorf("sum of %d responses %d, want %d of 999", r.Ledger.Calls.OK, got, want)
	}
}

// attemptsInUse returns how many attempts are known after a run.
func attemptsInUse(t *testing.T, cfg Config) int {
	w := newWorld(&cfg)
	for _, b := range cfg.Blocks {
		if _, err := w.run(b); err != nil {
			t.Fatal(err)
		}
		w.settle()
	}
	return w.inUse()
}

// TestHungCallersLeave: a request that hangs is forgotten when its caller
// leaves, whatever the service does about callers that leave.
func TestHungCallersLeave(t *testing.T) {
	for c := service.CancelNone; c <= service.CancelRunning; c++ {
		svc := &service.Spec{Cancel: c, Outages: []service.Outage{{For: clockMax, Ending: service.Ending{Fault: service.FaultHang}}}}
		for _, spec := range []string{"plain", "attempt-timeout=5ms,retry=1", "hedge=3ms,deadline=20ms"} {
			if n := attemptsInUse(t, steady(t, spec, 1000, svc)); n != 0 {
				t.Errorf("%s, cancel %v: %d attempts are still known", spec, c, n)
			}
		}
	}
}

const clockMax = time.Duration(clock.Never)

// TestCancelCost: work of 10 ms is stopped after 4 ms, and holds its slot for
// 3 ms more. The next call comes 8 ms after the one before.
func TestCancelCost(t *testing.T) {
	for _, net := range []time.Duration{0, ms} {
		svc := &service.Spec{Time: dist(t, "10ms"), Slots: 1, Queue: -1, Cancel: service.CancelRunning, CancelCost: 3 * ms}
		cfg := config(t, "deadline=4ms", svc, 100)
		cfg.Net = net
		cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(125), 1)
		w := newWorld(&cfg)
		if _, err := w.run(cfg.Blocks[0]); err != nil {
			t.Fatal(err)
		}
		w.settle()
		want := service.Counts{Stopped: 100, Worked: 700 * ms}
		if got := w.servers[0].Counts(); got != want || w.inUse() != 0 || w.events.stale != 0 {
			t.Errorf("net %v: %+v, %d attempts and %d stale events are left, want %+v and none", net, got, w.inUse(), w.events.stale, want)
		}
	}
}
