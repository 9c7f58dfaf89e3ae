package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"latencylab/draw"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/units"
	"latencylab/workloads"
)

// queueing returns a run of calls at the rate, in units of a mean service time
// of 1 ms, with the seed for arrivals and draws alike.
func queueing(t testing.TB, spec string, svc *service.Spec, perUnit float64, calls, seed uint64) Config {
	cfg := config(t, spec, svc, calls/fewer)
	cfg.Arrivals = workloads.NewArrivals(workloads.Poisson, rate(1000*perUnit), seed)
	cfg.Seed, cfg.TargetSeed = seed, seed
	return cfg
}

// near compares a figure of a simulation of many calls with a closed form. Under
// the race detector a tenth of the calls are made, and chance has three times
// the room.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if fewer > 1 {
		tolerance *= 3
	}
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s = %.4f, want %.4f within %.0f %%", what, got, want, 100*tolerance)
	}
}

// TestQueuesAreExact: the waits of queues first in, first out follow from the
// draws by Lindley's recursion (for c slots: the earliest of c to become free).
func TestQueuesAreExact(t *testing.T) {
	const calls = 50_000
	for _, c := range []struct {
		time  string
		slots int
		load  float64 // arrivals per ms
	}{
		{"exponential(1ms)", 1, 0.9},
		{"1ms", 1, 0.95},
		{"pareto(300us,1.5)", 1, 0.8},
		{"exponential(1ms)", 10, 9},
	} {
		svc := &service.Spec{Time: dist(t, c.time), Slots: c.slots, Queue: -1}
		cfg := queueing(t, "plain", svc, c.load, calls*fewer, 1)
		free, at, want := make([]time.Duration, c.slots), time.Duration(0), uint64(0)
		for i := range uint64(calls) {
			at += cfg.Arrivals.Gap(i)
			first := slices.Index(free, slices.Min(free))
			drawn, _ := svc.Draw(1, 0, i, 1)
			free[first] = max(free[first], at) + drawn
			want += draw.Mix(i, uint64(policy.OK), uint64(free[first]-at))
		}
		if got := run(t, cfg).ResultDigest; got != want {
			t.Errorf("%s, %d slots: digest of the responses %#x, want %#x", c.time, c.slots, got, want)
		}
	}
}

// TestClosedForms compares single queues with Kleinrock, Queueing Systems I
// (1975), 3.2 and 5.12, at a 25th of the calls of scripts/truth and with wider
// tolerances: one standard deviation of the mean is up to 2 %.
func TestClosedForms(t *testing.T) {
	for _, c := range []struct {
		model, time          string
		rho                  float64
		mean, p50, p99, p999 float64
		calls                uint64
	}{
		{"M/M/1", "exponential(1ms)", 0.5, 2, 1.386, 9.21, 13.816, 200_000},
		{"M/M/1", "exponential(1ms)", 0.8, 5, 3.466, 23.026, 34.539, 200_000},
		{"M/M/1", "exponential(1ms)", 0.9, 10, 6.931, 46.052, 69.078, 1_200_000},
		{"M/D/1", "1ms", 0.8, 3, 2.276, 11.356, 16.7, 200_000},
		{"M/D/1", "1ms", 0.5, 1.5, 1, 4.336, 6.168, 200_000},
	} {
		for seed := uint64(1); seed <= 3; seed++ {
			svc := &service.Spec{Time: dist(t, c.time), Slots: 1, Queue: -1}
			l := run(t, queueing(t, "plain", svc, c.rho, c.calls, seed)).Ledger
			what := c.model + " at " + units.Percent(c.rho)
			near(t, what+": mean", l.OK.Mean()/1e6, c.mean, 0.06)
			near(t, what+": p50", quantile(l, 0.5), c.p50, 0.05)
			near(t, what+": p99", quantile(l, 0.99), c.p99, 0.12)
			near(t, what+": p99.9", quantile(l, 0.999), c.p999, 0.25)
		}
	}
}

func TestBlocking(t *testing.T) {
	for _, c := range []struct {
		model        string
		slots, queue int
		offered      float64
		want         float64
	}{
		{"M/M/1/10", 1, 9, 0.8, 0.02349},
		{"Erlang B", 10, 0, 8, 0.12166},
	} {
		svc := &service.Spec{Time: dist(t, "exponential(1ms)"), Slots: c.slots, Queue: c.queue}
		l := run(t, queueing(t, "plain", svc, c.offered, 400_000, 1)).Ledger
		near(t, c.model+": blocked", float64(l.Calls.Failed)/float64(l.Calls.Scheduled), c.want, 0.05)
	}
}

// TestRedundancy: copies at once on d of ten servers, the others cancelled when
// one is done (Gardner, Harchol-Balter and Scheller-Wolf, "A better model for
// job redundancy: decoupling server slowdown and job size", ToN 2017).
func TestRedundancy(t *testing.T) {
	svc := &service.Spec{Replicas: 10, Time: dist(t, "exponential(1ms)"), Slots: 1, Queue: -1, Cancel: service.CancelRunning}
	l := run(t, queueing(t, "hedge=0s", svc, 7, 400_000, 1)).Ledger
	near(t, "two copies: mean", l.OK.Mean()/1e6, 1.1016, 0.02)
	if l.Attempts.Hedges != l.Attempts.First {
		t.Errorf("%d hedges for %d calls, want one each", l.Attempts.Hedges, l.Attempts.First)
	}
}

func TestHedgeWithoutFeedback(t *testing.T) {
	svc := &service.Spec{Replicas: 3, Time: dist(t, "exponential(1ms)")}
	for _, c := range []struct {
		spec                   string
		extra, mean, p99, p999 float64
	}{
		{"hedge=2995732ns", 0.05, 0.975, 3.801, 4.952},
		{"hedge=0s", 1, 0.5, 2.303, 3.454},
	} {
		l := run(t, queueing(t, c.spec, svc, 1, 400_000, 1)).Ledger
		extra, _ := l.ExtraLoad()
		near(t, c.spec+": extra", extra, c.extra, 0.03)
		near(t, c.spec+": mean", l.OK.Mean()/1e6, c.mean, 0.01)
		near(t, c.spec+": p99", quantile(l, 0.99), c.p99, 0.03)
		near(t, c.spec+": p99.9", quantile(l, 0.999), c.p999, 0.06)
	}
}

// TestUnstableEnds: two copies without cancel double the
// load; at 0.7 the queues have no steady state and the calls pile up.
func TestUnstableEnds(t *testing.T) {
	svc := &service.Spec{Replicas: 10, Time: dist(t, "exponential(1ms)"), Slots: 1, Queue: -1}
	cfg := queueing(t, "hedge=0s", svc, 7, 50_000, 1)
	cfg.Horizon = 100 * time.Millisecond
	r := run(t, cfg)
	if r.Ledger.Calls.Unfinished == 0 || r.Ledger.Attempts.Abandoned == 0 {
		t.Errorf("calls %+v, want some unfinished at the horizon", r.Ledger.Calls)
	}
	b := r.Blocks[0]
	if b.End != b.DataEnd.Add(cfg.Horizon) {
		t.Errorf("ends at %d, want %d and the horizon", b.End, b.DataEnd)
	}
}

// TestPowerOfChoices: the mean of the least busy of d servers drawn at random is
// the sum over i of rho^((d^i-d)/(d-1)) in the limit of endless servers
// (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001).
func TestPowerOfChoices(t *testing.T) {
	for _, c := range []struct {
		spec string
		want float64
	}{
		{"picker=choices,picker.choices=2", 2.6141},
		{"picker=choices,picker.choices=3", 2.0279},
	} {
		svc := &service.Spec{Replicas: 300, Time: dist(t, "exponential(1ms)"), Slots: 1, Queue: -1}
		cfg := queueing(t, c.spec, svc, 270, 200_000, 1)
		cfg.Blocks[0].Burn = 100 * ms
		near(t, c.spec+": mean", run(t, cfg).Ledger.OK.Mean()/1e6, c.want, 0.05)
	}
}

// TestTwoCopiesHelpBelowAThird: two copies that are not cancelled make queues of
// twice the load, and the faster of them is 1/(2(1-2rho)) on average against
// 1/(1-rho): better if and only if rho < 1/3 (Vulimiri et al., "Low latency via
// redundancy", CoNEXT 2013).
func TestTwoCopiesHelpBelowAThird(t *testing.T) {
	for _, rho := range []float64{0.25, 0.42} {
		svc := &service.Spec{Replicas: 100, Time: dist(t, "exponential(1ms)"), Slots: 1, Queue: -1}
		cfg := queueing(t, "hedge=0s", svc, 100*rho, 200_000, 1)
		cfg.Blocks[0].Burn = 200 * ms
		copies := run(t, cfg).Ledger.OK.Mean()
		near(t, "two copies at "+units.Percent(rho)+": mean", copies/1e6, 1/(2*(1-2*rho)), 0.1)
		cfg.Policy = parse(t, "plain")
		if plain := run(t, cfg).Ledger.OK.Mean(); (copies < plain) != (rho < 1.0/3) {
			t.Errorf("at %v the mean is %.3f ms with two copies and %.3f with one", rho, copies/1e6, plain/1e6)
		}
	}
}
