package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/draw"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/units"
	"latencylab/workloads"
)

// TestOverflow: a run in which more is open than there is room for ends there,
// says so, and its books add up.
func TestOverflow(t *testing.T) {
	slots := func(c service.Cancel) *service.Spec {
		return &service.Spec{Time: dist(t, "10ms"), Slots: 1, Queue: -1, Cancel: c}
	}
	for _, c := range []struct {
		about, spec string
		svc         *service.Spec
		net         time.Duration
		calls       bool // the calls are too many, not only the attempts
	}{
		{"the queue grows", "plain", slots(service.CancelRunning), 0, true},
		{"the queue grows behind a net", "plain", slots(service.CancelNone), 3 * ms, true},
		{"nobody waits for the queue that grows", "deadline=50ms", slots(service.CancelNone), 0, false},
		{"work that never ends", "deadline=50ms", &service.Spec{Time: dist(t, "2562047h")}, 0, false},
		{"calls that wait for their retry", "retry=9,backoff=1h,jitter=none", &service.Spec{Status: []service.StatusShare{{Status: 503, Share: 1}}}, 0, true},
		{"attempts that time out at once and are sent again", "retry=1M,attempt-timeout=1ns", slots(service.CancelNone), 0, false},
		{"seven hedges at once", "hedge=0s,hedge.max=7", slots(service.CancelNone), 0, false},
	} {
		cfg := config(t, c.spec, c.svc, 0)
		cfg.Net, cfg.Open, cfg.Horizon = c.net, 200, time.Second
		cfg.Blocks = []workloads.Block{{Burn: 20 * ms, Calls: 1_000_000}, {Calls: 10}}
		r := run(t, cfg)
		o := r.Overflow
		if o == nil || !r.Stopped || len(r.Blocks) != 1 {
			t.Errorf("%s: overflow %v, stopped %v, %d blocks, want an end in the first of two", c.about, o, r.Stopped, len(r.Blocks))
			continue
		}
		b, open := r.Blocks[0], r.Ledger.Calls.Unfinished+r.Burn.Calls.Unfinished
		if o.At != b.End || b.DataEnd > b.End || time.Duration(o.At) != r.Elapsed || open != uint64(o.Calls) {
			t.Errorf("%s: %+v, %d calls unfinished, data ends at %d, block at %d", c.about, o, open, b.DataEnd, b.End)
		}
		if c.calls != (o.Calls > cfg.Open) || max(o.Calls, o.Attempts) <= cfg.Open || o.Attempts > cfg.Open+policy.MaxOpen {
			t.Errorf("%s: %+v open, want just above %d", c.about, o, cfg.Open)
		}
	}
}

// TestRoom: as many as there is room for may be open.
func TestRoom(t *testing.T) {
	svc := &service.Spec{Time: dist(t, "1h")}
	cfg := config(t, "plain", svc, 200)
	cfg.Open = 200
	if r := run(t, cfg); r.Overflow != nil || r.Stopped || r.Ledger.Calls.OK != 200 {
		t.Errorf("overflow %v, %d calls ok, want all 200", r.Overflow, r.Ledger.Calls.OK)
	}
	cfg.Open = 199
	if r := run(t, cfg); r.Overflow == nil {
		t.Error("200 calls open, and room for 199")
	}
}

// TestStopEndsTheData: when a run is stopped, its data ends at that instant, and
// the arrival that would have been the next is not begun.
func TestStopEndsTheData(t *testing.T) {
	for _, c := range []struct {
		about string
		block workloads.Block
		data  bool
	}{
		{"after a number of calls", workloads.Block{Burn: time.Second, Calls: 1_000_000}, true},
		{"after a time", workloads.Block{Burn: time.Second, Data: time.Hour}, true},
		{"in the burn-in", workloads.Block{Burn: time.Hour, Calls: 1_000_000}, false},
		{"in the burn-in of a block that ends after a time", workloads.Block{Burn: time.Hour, Data: time.Hour}, false},
	} {
		cfg := config(t, "plain", hedgeTail(t), 0)
		cfg.Blocks = []workloads.Block{c.block}
		asked := 0
		cfg.Stop = func() bool { asked++; return asked == 3 }
		b := run(t, cfg).Blocks[0]
		if b.DataEnd != b.End || (b.DataEnd > b.DataStart) != c.data {
			t.Errorf("%s: data from %d to %d, end at %d", c.about, b.DataStart, b.DataEnd, b.End)
		}
		if n := b.Data.Calls.Scheduled; n > 0 != c.data {
			t.Errorf("%s: %d calls in the data", c.about, n)
		}
	}
}

// TestTheClockEnds: nothing is left out in silence when time runs out.
func TestTheClockEnds(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, c := range []struct {
		about string
		per_s float64
		block []workloads.Block
	}{
		{"calls that take 31,710 years", 1e-6, []workloads.Block{{Calls: 1_000_000}}},
		{"three centuries of burn-in and data", 1e-6, []workloads.Block{{Burn: 2 * century, Data: century}}},
		{"three blocks of a century", 1e-6, []workloads.Block{{Data: century}, {Data: century}, {Data: century}}},
	} {
		cfg := config(t, "plain", hedgeTail(t), 0)
		cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(c.per_s), 1)
		cfg.Blocks = c.block
		cfg.OnInterval = func(Interval) {}
		if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "the clock") {
			t.Errorf("%s: %v, want an error about the clock", c.about, err)
		}
	}
}

// TestWorkOfCenturiesBetweenBlocks: what the servers still do when a block has
// ended takes none of the clock, however long it lasts.
func TestWorkOfCenturiesBetweenBlocks(t *testing.T) {
	svc := &service.Spec{Time: dist(t, "1752000h")}
	cfg := config(t, "deadline=1s", svc, 0)
	cfg.Blocks = []workloads.Block{{Data: time.Second}, {Data: time.Second}, {Calls: 500}, {Data: time.Second}}
	r := run(t, cfg)
	if len(r.Blocks) != 4 || r.Ledger.Calls.Failed != r.Arrivals || r.Elapsed > 10*time.Second {
		t.Errorf("%d blocks, %+v in %v, want four of about a second in which every call expires", len(r.Blocks), r.Ledger.Calls, r.Elapsed)
	}
}

// FuzzExtremes runs worlds whose figures lie at the ends of their ranges: they
// end, and their books add up, or they are refused.
func FuzzExtremes(f *testing.F) {
	for i := range uint64(300) {
		f.Add(i)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		cfg := extreme(t, seed)
		if cfg.Policy.Validate() != nil {
			return
		}
		intervals := 0
		cfg.OnInterval = func(Interval) { intervals++ }
		r, err := Run(cfg)
		if err != nil {
			if !strings.Contains(err.Error(), "the clock") {
				t.Error(err)
			}
			return
		}
		check(t, &cfg, r)
		if most := 1000 * (int(r.Arrivals) + len(cfg.Blocks)) * (2 + cfg.Policy.Retry.Max); intervals > most {
			t.Errorf("%d intervals of %d calls", intervals, r.Arrivals)
		}
		if t.Failed() {
			t.Logf("policy %+v, service %+v, net %v, horizon %v, blocks %v", cfg.Policy, cfg.Service, cfg.Net, cfg.Horizon, cfg.Blocks)
		}
	})
}

// extreme makes a configuration out of a seed.
func extreme(t testing.TB, seed uint64) Config {
	n := uint32(0)
	pick := func(of int) int {
		n++
		return int(draw.Bits(seed, draw.Phase, 1, 0, n) % uint64(of))
	}
	span := func() time.Duration {
		return []time.Duration{0, 0, 0, 1, 2, 1000, ms, time.Second, time.Hour, 1 << 61, math.MaxInt64}[pick(11)]
	}
	dists := []string{"0s", "1ns", "1ms", "2562047h", "uniform(0s,2562047h)", "exponential(1ns)", "pareto(1ns,0.000001)", "lognormal(1s,1000000)",
		"weibull(1ms,0.000001)", "normal(0s,2562047h)", "mixture(99%:1ms,1%:2562047h)", "exponential(876000h)"}
	p := policy.Policy{
		Deadline: span(), MinStart: span(), Timeouts: policy.Timeouts{policy.PartAttempt: {After: span()}}, Attempts: pick(4),
		Retry:   policy.Retry{Max: pick(40)},
		Backoff: policy.Backoff{Base: span(), Jitter: policy.Jitter(pick(2)), Factor: []float64{0, 1, 1e300}[pick(3)]},
		Hedge:   policy.Hedge{Max: pick(8), Delay: span()},
		Cancel:  policy.Cancel(pick(3)), Picker: policy.Picker(pick(2)),
	}
	if pick(3) == 0 {
		p.Hedge = policy.Hedge{Max: 1, Quantile: 0.9, MinSamples: 1, Window: []time.Duration{ms, time.Second, time.Hour}[pick(3)]}
	}
	if pick(3) == 0 {
		p.Budget = policy.Budget{Deposit: 1e-6, Capacity: 1}
	}
	svc := &service.Spec{
		Replicas: []int{1, 2, 100}[pick(3)], Time: dist(t, dists[pick(len(dists))]), Slots: pick(3), Queue: pick(3) - 1,
		Cancel: service.Cancel(pick(3)), RetryAfter: []time.Duration{0, time.Second, math.MaxInt64 / time.Second * time.Second}[pick(3)],
		Each: []service.Each{{Factor: []float64{0, 1e-300, 1e300}[pick(3)]}},
	}
	if pick(2) == 0 {
		svc.Slow = service.Slow{Share: 0.5, Time: dist(t, dists[1+pick(len(dists)-1)]), By: service.SlowBy(pick(2))}
	}
	if pick(2) == 0 {
		svc.Status = []service.StatusShare{{Status: 503, Share: []float64{0.5, 1}[pick(2)]}}
	}
	block := func() workloads.Block {
		if pick(2) == 0 {
			return workloads.Block{Burn: []time.Duration{0, 1, ms}[pick(3)], Calls: uint64(1 + pick(300))}
		}
		return workloads.Block{Burn: []time.Duration{0, 1, ms}[pick(3)], Data: []time.Duration{0, 1, 1000, ms}[pick(4)]}
	}
	return Config{
		Policy: p, Service: svc, TargetSeed: seed, Seed: seed + 1, Idempotent: true,
		Arrivals: workloads.NewArrivals(workloads.Kind(pick(2)), []units.Rate{1, 1e6, 1e9, units.MaxRate / 1000}[pick(4)], seed),
		Clients:  1 + 99*pick(2), Net: span(), Within: []time.Duration{1, math.MaxInt64}, Open: []int{10, 500}[pick(2)],
		Blocks:  []workloads.Block{block(), block(), block()},
		Horizon: []time.Duration{0, 1, time.Second, 1 << 61}[pick(4)],
	}
}

// TestNoIntervalEndsLater: the intervals of a run that is stopped by its limits
// end with it.
func TestNoIntervalEndsLater(t *testing.T) {
	cfg := config(t, "plain", &service.Spec{Time: dist(t, "1h"), Slots: 1, Queue: -1}, 100_000)
	cfg.Open = 5000
	last, ended := clock.Time(0), uint64(0)
	cfg.OnInterval = func(i Interval) { last, ended = i.End, ended+i.Ended }
	r := run(t, cfg)
	if last != clock.Time(r.Elapsed) || ended != r.Arrivals {
		t.Errorf("intervals to %d with %d calls, want to %d with %d", last, ended, r.Elapsed, r.Arrivals)
	}
}
