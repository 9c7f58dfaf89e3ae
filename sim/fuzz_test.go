package sim

import (
	"testing"
	"time"

	"latencylab/draw"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/workloads"
)

// FuzzSim runs small worlds of any shape: the identities hold, records come
// back, and a second run is equal.
func FuzzSim(f *testing.F) {
	for i := range uint64(12) {
		f.Add(i)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		cfg := arbitrary(t, seed)
		if cfg.Policy.Validate() != nil || cfg.Service.Validate() != nil {
			return
		}
		r := run(t, cfg)
		if again := run(t, cfg); again.ResultDigest != r.ResultDigest || again.Events != r.Events {
			t.Errorf("two runs differ")
		}
		if t.Failed() {
			t.Logf("policy %+v, service %+v, net %v, horizon %v", cfg.Policy, cfg.Service, cfg.Net, cfg.Horizon)
		}
	})
}

// arbitrary makes a configuration out of a seed.
func arbitrary(t testing.TB, seed uint64) Config {
	n := uint32(0)
	pick := func(of int) int {
		n++
		return int(draw.Bits(seed, draw.Phase, 0, 0, n) % uint64(of))
	}
	span := func() time.Duration {
		if pick(3) == 0 {
			return 0
		}
		return time.Duration(pick(20_000)) * time.Microsecond
	}
	dists := []string{"0s", "3ms", "uniform(0s,20ms)", "exponential(5ms)", "pareto(1ms,0.8)", "mixture(90%:2ms,10%:200ms)"}
	p := policy.Policy{
		Deadline: 5 * span(), MinStart: span() / 4, Timeouts: policy.Timeouts{policy.PartAttempt: {After: span()}}, Attempts: pick(4),
		Retry:   policy.Retry{Max: pick(4), Unsafe: pick(2) == 0},
		Backoff: policy.Backoff{Base: span(), Jitter: policy.Jitter(pick(2))},
		Hedge:   policy.Hedge{Max: pick(4), Delay: span()},
		Cancel:  policy.Cancel(pick(3)), Picker: policy.Picker(pick(2)),
	}
	if pick(3) == 0 {
		p.Hedge.Delay, p.Hedge.Quantile, p.Hedge.MinSamples = 0, 0.9, 20
	}
	if pick(3) == 0 {
		p.Budget = policy.Budget{Deposit: 0.1, Capacity: float64(1 + pick(5))}
	}
	svc := &service.Spec{
		Replicas: 1 + pick(4), Time: dist(t, dists[pick(len(dists))]), Slots: pick(4), Queue: pick(6) - 1,
		Cancel: service.Cancel(pick(3)), RetryAfter: time.Duration(pick(2)) * time.Second,
	}
	if pick(2) == 0 {
		svc.Slow = service.Slow{Share: 0.1, Time: dist(t, "50ms"), By: service.SlowBy(pick(2))}
	}
	if pick(2) == 0 {
		svc.Status = []service.StatusShare{{Status: 503, Share: 0.2}, {Status: 400, Share: 0.1}}
	}
	kind := workloads.Kind(pick(2))
	misbehave(t, pick, svc)
	return Config{
		Policy: p, Service: svc, TargetSeed: seed, Seed: seed + 1, Idempotent: pick(4) > 0,
		Arrivals: workloads.NewArrivals(kind, rate(float64(50+pick(2000))), seed),
		Clients:  1 + pick(3), Net: span() / 10, Within: []time.Duration{10 * ms},
		Blocks:  []workloads.Block{{Burn: span(), Data: 10 * span()}, {Burn: span(), Calls: uint64(1 + pick(300))}},
		Horizon: time.Duration(pick(3)) * 100 * ms,
	}
}

// misbehave adds outages, stalls and faults to a service, half of the time none.
func misbehave(t testing.TB, pick func(of int) int, svc *service.Spec) {
	if pick(2) == 0 {
		return
	}
	few := func() time.Duration { return time.Duration(pick(200)) * ms }
	if pick(4) == 0 {
		svc.Capacity = service.Capacity{Requests: 1 + pick(50), Per: 1 + few()/4}
		svc.Slots, svc.Time, svc.Slow = 0, service.Dist{}, service.Slow{}
	}
	if pick(3) == 0 {
		svc.Thrash = service.Thrash{Above: pick(6), Factor: 0.5}
	}
	if svc.Queue != 0 {
		svc.Discipline = service.Discipline(pick(4))
	}
	if svc.Slots > 0 && svc.Cancel == service.CancelRunning && pick(2) == 0 {
		svc.CancelCost = few() / 20
	}
	if svc.Slow.Share > 0 {
		svc.Slow.By = service.SlowBy(pick(4))
		if svc.Slow.By == service.SlowByWindow {
			svc.Slow.Window = 1 + few()
		}
	}
	svc.Copies = service.Copies(pick(3))
	if pick(3) == 0 {
		svc.Faults = service.Faults{service.FaultRefuse: {Share: 0.1}, service.FaultReset: {Share: 0.1}, service.FaultHang: {Share: 0.02}}
		if pick(2) == 0 {
			svc.Body = 1 + pick(500)
			for f := service.FaultClose; f < service.Kinds; f++ {
				svc.Faults[f].Share = 0.05 * float64(pick(2))
			}
			svc.Faults[service.FaultNoAccept].Share = 0
			svc.Faults[service.FaultBodyDrip].Interval = 1 + few()/10
		}
	} else if pick(3) == 0 {
		svc.Status, svc.Script = nil, []service.Ending{{Status: 503}, {Fault: service.Fault(1 + pick(3))}, {Status: 200}}
	}
	svc.Deadline = service.Deadline(pick(3))
	for range pick(3) {
		e := []service.Ending{{Status: 503}, {Fault: service.FaultRefuse}, {Fault: service.FaultReset}, {Fault: service.FaultHang}, {Fault: service.FaultNoAccept}}
		o := service.Outage{At: few(), For: 1 + few(), Ending: e[pick(5)], Share: float64(pick(3)) / 3}
		if o.Ending.Fault == service.FaultNoAccept {
			o.Share = 0
		}
		if pick(2) == 0 {
			o.Every = o.For + 1 + few()
		}
		svc.Outages = append(svc.Outages, o)
	}
	for range pick(3) {
		keys := []string{"factor", "slots", "status.503", "fault.reset", "capacity.requests", "queue"}
		r := service.Ramp{Key: keys[pick(6)], At: few(), For: few()}
		switch r.To = float64(1 + pick(4)); {
		case r.IsShare():
			r.To /= 10
		case r.Key == "slots" && svc.Slots == 0, r.Key == "queue" && (svc.Slots == 0 || svc.Queue < 0), r.Key == "capacity.requests" && svc.Capacity.Per == 0, r.Key == "factor" && svc.Capacity.Per > 0:
			continue
		}
		if r.IsShare() && len(svc.Script) > 0 {
			continue
		}
		if pick(2) == 0 {
			r.Every = r.For + few() + ms
		}
		svc.Ramps = append(svc.Ramps, r)
	}
	for range pick(3) {
		x := service.Stall{At: few(), Every: few(), For: dist(t, "exponential(5ms)")}
		if x.Every < 10*ms {
			x.Every = 0
		}
		x.Apart = x.Every > 0 && pick(2) == 0
		svc.Stalls = append(svc.Stalls, x)
	}
}

// FuzzShapes runs small worlds with lanes, users and hops: they end, the books of
// all add up, records come back, and a second run is equal.
func FuzzShapes(f *testing.F) {
	for i := range uint64(40) {
		f.Add(i)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		cfg := shaped(t, seed)
		if cfg.check() != nil {
			return
		}
		r, err := Run(cfg)
		if err != nil { // users whose calls take no time
			if cfg.Users == 0 {
				t.Error(err)
			}
			return
		}
		for _, l := range [][]Record{{{Data: r.Ledger, Burn: r.Burn}}, r.Lanes, r.Hops} {
			for i := range l {
				if err := l[i].Data.Check(); err != nil {
					t.Error(err)
				}
				if err := l[i].Burn.Check(); err != nil {
					t.Error(err)
				}
			}
		}
		checkServed(t, r)
		if again, _ := Run(cfg); again.ResultDigest != r.ResultDigest || again.Events != r.Events || again.Served != r.Served {
			t.Errorf("two runs differ")
		}
		if !r.Stopped {
			empty(t, &cfg)
		}
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
}

// empty runs the blocks and tests that nothing holds a record at the end.
func empty(t *testing.T, cfg *Config) {
	t.Helper()
	w := newWorld(cfg)
	for _, b := range cfg.Blocks {
		if _, err := w.run(b); err != nil {
			t.Error(err)
			return
		}
		w.settle()
	}
	held := w.inUse()
	if hangs(cfg.Service) {
		held = 0 // a caller that drains waits for ever, and its attempt with it
	}
	open, joins := 0, 0
	for i := range w.calls {
		if w.calls[i].open {
			open++
		}
	}
	for i := range w.joins {
		if w.joins[i].attempt != 0 {
			joins++
		}
	}
	if held != 0 || open != 0 || joins != 0 || w.events.len() != 0 || w.events.stale != 0 || w.thinking != 0 {
		t.Errorf("left over: %d attempts, %d calls, %d joins, %d events, %d stale, %d users that think", held, open, joins, w.events.len(), w.events.stale, w.thinking)
	}
}

// hangs reports whether the service leaves requests without an answer.
func hangs(s *service.Spec) bool {
	return s.Has(service.FaultHang) || s.Has(service.FaultBodyStall) || s.Has(service.FaultAcceptSilence) || s.Has(service.FaultTLSStall)
}

// shaped makes a configuration with lanes, users or hops out of a seed.
func shaped(t testing.TB, seed uint64) Config {
	n := uint32(0)
	pick := func(of int) int {
		n++
		return int(draw.Bits(seed, draw.Phase, 2, 0, n) % uint64(of))
	}
	cfg := arbitrary(t, seed)
	cfg.Open = 2000
	part := func() policy.Policy {
		other := arbitrary(t, draw.Bits(seed, draw.Phase, 3, 0, uint32(pick(100))))
		other.Policy.Wire = policy.Wire(pick(3))
		return other.Policy
	}
	cfg.Policy.Wire = policy.Wire(pick(4))
	switch pick(4) {
	case 0:
		cfg.Lanes = []policy.Policy{part(), part(), part()}[:1+pick(3)]
		if pick(2) == 0 {
			cfg.Split = Split{Kind: Slices, Slice: time.Duration(1+pick(50)) * ms, Skip: float64(pick(4)) / 4}
		}
	case 1:
		cfg.Arrivals, cfg.Users = workloads.Arrivals{}, 1+pick(20)
		cfg.Think = dist(t, []string{"0s", "1us", "exponential(3ms)", "pareto(1ms,0.8)"}[pick(4)])
	}
	for range pick(4) {
		h := Hop{Policy: part(), Fan: pick(4), Cancels: pick(2) == 0, Silent: pick(4) == 0}
		h.Need = pick(h.fan() + 1)
		cfg.Hops = append(cfg.Hops, h)
	}
	return cfg
}
