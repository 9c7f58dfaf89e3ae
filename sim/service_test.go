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

// TestGoldenServices holds the digests of draws and results of small runs in
// which services misbehave in every way: they are equal on every machine.
func TestGoldenServices(t *testing.T) {
	fails := service.Ending{Status: 503}
	storm := &service.Spec{Capacity: service.Capacity{Requests: 60, Per: 100 * ms}, Thrash: service.Thrash{Above: 90, Factor: 0.5},
		Outages: []service.Outage{{For: time.Second, Ending: fails}}, Discipline: service.Proportional}
	late := *storm
	late.Discipline = service.NewFirst
	late.Stalls = []service.Stall{{Every: 700 * ms, For: dist(t, "exponential(90ms)"), Apart: true}}
	queue := func(d service.Discipline) *service.Spec {
		return &service.Spec{Replicas: 3, Time: dist(t, "exponential(4ms)"), Slots: 1, Queue: -1, Discipline: d,
			Cancel: service.CancelRunning, CancelCost: ms, Thrash: service.Thrash{Above: 20, Factor: 0.8}}
	}
	mixed := &service.Spec{Replicas: 2, Time: dist(t, "exponential(4ms)"), Copies: service.CopiesMixed,
		Slow: service.Slow{Share: 0.1, Factor: 7, By: service.SlowByWindow, Window: 300 * ms}, Faults: service.Faults{service.FaultRefuse: {Share: 0.02}, service.FaultReset: {Share: 0.03}, service.FaultHang: {Share: 0.01}}}
	same := &service.Spec{Replicas: 2, Time: dist(t, "lognormal(4ms,1)"), Copies: service.CopiesSame, Slow: service.Slow{Share: 0.3, Time: dist(t, "30ms"), By: service.SlowByConnection},
		Stalls: []service.Stall{{At: 300 * ms, Every: 2 * time.Second, For: dist(t, "uniform(20ms,200ms)")}, {At: time.Second, For: dist(t, "150ms"), Replicas: []int{1}}}}
	script := &service.Spec{Script: []service.Ending{fails, {Fault: service.FaultReset}, {Fault: service.FaultRefuse}, {Status: 200}}, Time: dist(t, "2ms")}
	for _, c := range []struct {
		name, spec string
		svc        *service.Spec
		want       [2]uint64
	}{
		{"storm", "retry=3,backoff=100ms..2s", storm, [2]uint64{0x649777de12279e9f, 0x85d0a2a26276499c}},
		{"storm, new first, with stalls", "retry=3,backoff=100ms..2s", &late, [2]uint64{0x649777de12279e9f, 0xbad9cbed59d2fbba}},
		{"last in first out", "hedge=10ms,deadline=300ms", queue(service.LIFO), [2]uint64{0x1bef1d5a25ecc1d4, 0xf9138801d7f1822f}},
		{"any order", "hedge=10ms,deadline=300ms", queue(service.Proportional), [2]uint64{0x1bef1d5a25ecc1d4, 0xed8d15da9f8beab3}},
		{"new first", "hedge=10ms,deadline=300ms", queue(service.NewFirst), [2]uint64{0x1bef1d5a25ecc1d4, 0x3da0da49e0484838}},
		{"size and slowness", "retry=1,backoff=1ms,hedge=9ms,attempt-timeout=200ms", mixed, [2]uint64{0x6baf3f70b0288851, 0x73cd83b71ef6b218}},
		{"copies alike", "hedge=9ms,cancel=drain", same, [2]uint64{0xac84fd9bb252da2c, 0xe16ab694f858b025}},
		{"script", "retry=4,backoff=2ms", script, [2]uint64{0x33388b1445653cbc, 0x2e78a3bbf224b82c}},
	} {
		cfg := config(t, c.spec, c.svc, 0)
		cfg.Arrivals = workloads.NewArrivals(workloads.Poisson, rate(500), 1)
		cfg.Net = ms / 4
		cfg.Blocks = []workloads.Block{{Burn: time.Second, Data: 3 * time.Second}, {Burn: 500 * ms, Data: 2 * time.Second}}
		cfg.Horizon = 5 * time.Second
		r := run(t, cfg)
		if got := [2]uint64{r.DrawsDigest, r.ResultDigest}; got != c.want {
			t.Errorf("digests of draws and results: %q: {%#x, %#x}", c.name, got[0], got[1])
		}
		if again := run(t, cfg); again.ResultDigest != r.ResultDigest || again.Events != r.Events {
			t.Errorf("%s: two runs differ", c.name)
		}
		if n := attemptsInUse(t, cfg); n != 0 {
			t.Errorf("%s: %d attempts are still known", c.name, n)
		}
	}
}

// TestTiedCopiesOutliveARefusal: a copy that is turned away has not started, so
// the one that waits elsewhere stays.
func TestTiedCopiesOutliveARefusal(t *testing.T) {
	down := service.Outage{For: time.Hour, Ending: service.Ending{Status: 503}, Replicas: []int{1}}
	svc := &service.Spec{Replicas: 2, Time: dist(t, "3ms"), Slots: 1, Queue: -1, Outages: []service.Outage{down}}
	cfg := steady(t, "hedge=1ms,deadline=50ms,cancel=tied", 1000, svc) // most wait when their hedge is due
	cfg.Blocks[0].Burn = 0                                             // the outage begins with the data
	r := run(t, cfg)
	if s := r.Served; r.Ledger.Attempts.Hedges < 50 || s.Withdrawn != 0 || s.Answered < 500 {
		t.Errorf("%d hedges, %+v, want some, and no copy withdrawn", r.Ledger.Attempts.Hedges, s)
	}
}
