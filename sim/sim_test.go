package sim

import (
	"math"
	"testing"
	"time"

	"latencylab/draw"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/units"
	"latencylab/workloads"
)

const ms = time.Millisecond

func dist(t testing.TB, s string) service.Dist {
	t.Helper()
	d, err := service.ParseDist(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// parse reads a policy as users write it.
func parse(t testing.TB, spec string) policy.Policy {
	t.Helper()
	p, err := workloads.ParsePolicy(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p.Policy
}

// hedgeTail is the service on which hedging is at its best: three replicas
// without limits, 2 % of the attempts slow.
func hedgeTail(t testing.TB) *service.Spec {
	return &service.Spec{Replicas: 3, Time: dist(t, "uniform(20ms,60ms)"), Slow: service.Slow{Share: 0.02, Time: service.Constant(time.Second)}}
}

func config(t testing.TB, spec string, svc *service.Spec, calls uint64) Config {
	return Config{
		Policy: parse(t, spec), Service: svc, TargetSeed: 1, Seed: 1, Idempotent: true,
		Arrivals: workloads.NewArrivals(workloads.Poisson, 1000*1e6, 1),
		Within:   []time.Duration{50 * ms, 100 * ms},
		Blocks:   []workloads.Block{{Calls: calls}},
	}
}

func run(t testing.TB, cfg Config) *Result {
	t.Helper()
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	check(t, &cfg, r)
	return r
}

// check tests what must hold of every run.
func check(t testing.TB, cfg *Config, r *Result) {
	t.Helper()
	if err := r.Ledger.Check(); err != nil {
		t.Errorf("data: %v", err)
	}
	if err := r.Burn.Check(); err != nil {
		t.Errorf("burn-in: %v", err)
	}
	if n := r.Ledger.Calls.Scheduled + r.Burn.Calls.Scheduled; n != r.Arrivals {
		t.Errorf("%d calls scheduled, want the %d arrivals", n, r.Arrivals)
	}
	if got, want := r.ArrivalsDigest, cfg.Arrivals.Digest(r.Arrivals); got != want {
		t.Errorf("arrivals digest %#x, want %#x", got, want)
	}
	checkServed(t, r)
	l := r.Ledger
	for _, h := range []struct {
		what      string
		got, want uint64
	}{
		{"ok", l.OK.Count(), l.Calls.OK},
		{"failed and censored", l.Failed.Count() + l.Censored.Count(), l.Calls.Failed + l.Calls.Unfinished},
		{"lag", l.Lag.Count(), l.Calls.Scheduled},
		{"pool wait", l.PoolWait.Count(), l.Attempts.First + l.Attempts.Retries},
		{"attempts by kind", attemptCount(l), l.Attempts.Sent},
		{"hedge wins", l.Won[policy.Hedged].Count(), l.Attempts.HedgeWins},
		{"errors", errorCount(l), l.Attempts.Failed + l.Attempts.TimedOut},
	} {
		if h.got != h.want {
			t.Errorf("%s: %d recorded, want %d", h.what, h.got, h.want)
		}
	}
	var calls uint64
	for i := range r.Blocks {
		b := &r.Blocks[i]
		calls += b.Data.Calls.Scheduled
		if err := b.Data.Check(); err != nil {
			t.Errorf("block %d: %v", i, err)
		}
		if b.Start > b.DataStart || b.DataStart > b.DataEnd || b.DataEnd > b.End {
			t.Errorf("block %d: start %d, data %d to %d, end %d", i, b.Start, b.DataStart, b.DataEnd, b.End)
		}
		if i > 0 && b.Start != r.Blocks[i-1].End {
			t.Errorf("block %d starts at %d, but the policy's clock stood at %d", i, b.Start, r.Blocks[i-1].End)
		}
	}
	if calls != l.Calls.Scheduled {
		t.Errorf("%d calls in the blocks, want %d", calls, l.Calls.Scheduled)
	}
}

// checkServed tests the books of the servers and against those of who sent to them.
func checkServed(t testing.TB, r *Result) {
	t.Helper()
	v, c := r.Served, r.Served.Cancelled
	sent, ok := r.Ledger.Attempts.Sent+r.Burn.Attempts.Sent, r.Ledger.Attempts.OK+r.Burn.Attempts.OK
	if n := len(r.Hops); n > 0 {
		h := &r.Hops[n-1]
		sent, ok = h.Data.Attempts.Sent+h.Burn.Attempts.Sent, h.Data.Attempts.OK+h.Burn.Attempts.OK
	}
	switch {
	case v.Arrived > sent || v.First+v.Later != v.Arrived || v.Shed > v.Arrived:
		t.Errorf("servers: %+v of %d attempts sent", v, sent)
	case c.Queued+c.Running != c.Dropped+c.WentOn || v.Stopped+v.Expired > v.Arrived:
		t.Errorf("servers: callers that left do not add up: %+v", v)
	case v.InFlight > v.Arrived || v.Answered < ok || v.Work < 0:
		t.Errorf("servers: what has ended does not add up: %+v; %d attempts ended ok", v, ok)
	}
}

func attemptCount(l *ledger.Ledger) (n uint64) {
	for k := range policy.Kinds {
		n += l.Won[k].Count() + l.Lost[k].Count() + l.Cut[k]
	}
	return n
}

func errorCount(l *ledger.Ledger) (n uint64) {
	for _, e := range l.Errors {
		n += e.Count
	}
	return n
}

func quantile(l *ledger.Ledger, q float64) float64 {
	ns, ok := l.OK.QuantileOf(q, l.Calls.Scheduled)
	if !ok {
		return math.Inf(1)
	}
	return float64(ns) / 1e6
}

// TestHedgeTail compares with the exact distribution: P(T > t) = S(t) before the
// hedge and S(t) S(t-D) after it.
func TestHedgeTail(t *testing.T) {
	for _, c := range []struct {
		spec               string
		p50, p99, p999     float64 // ms
		tol50, tol99, t999 float64
		extra, tolExtra    float64
	}{
		{"plain", 40.4, 1000, 1000, 0.2, 1, 1, 0, 0},
		{"hedge=58ms", 40.4, 98.4, 116.8, 0.2, 2, 0.6, 0.069, 0.0025},
		{"hedge=p95", 40.4, 98.4, 118.0, 0.3, 2, 1.5, 0.05, 0.0025},
	} {
		cfg := config(t, c.spec, hedgeTail(t), 400_000/min(fewer, 4))
		cfg.Blocks[0].Burn = 30 * time.Second
		r := run(t, cfg)
		extra, _ := r.Ledger.ExtraLoad()
		p50, p99, p999 := quantile(r.Ledger, 0.5), quantile(r.Ledger, 0.99), quantile(r.Ledger, 0.999)
		t.Logf("%s: %.2f %.2f %.2f ms, extra %.3f%%", c.spec, p50, p99, p999, 100*extra)
		if math.Abs(p50-c.p50) > c.tol50 || math.Abs(p99-c.p99) > c.tol99 || math.Abs(p999-c.p999) > c.t999 {
			t.Errorf("%s: p50 %.2f, p99 %.2f, p99.9 %.2f ms, want %v, %v, %v", c.spec, p50, p99, p999, c.p50, c.p99, c.p999)
		}
		if math.Abs(extra-c.extra) > c.tolExtra {
			t.Errorf("%s: extra load %.4f, want %.4f", c.spec, extra, c.extra)
		}
	}
}

// TestPlainIsTheDraws: without policy, queue and net, each response is what was
// drawn; so the digest of the results is that of the draws (policy.OK is 1).
func TestPlainIsTheDraws(t *testing.T) {
	svc := hedgeTail(t)
	cfg := config(t, "plain", svc, 20_000)
	r := run(t, cfg)
	want, digest := ledger.New(cfg.Within), uint64(0)
	for i := range uint64(20_000) {
		drawn, _ := svc.Draw(1, 0, i, 1)
		want.CallOK(drawn)
		digest += draw.Mix(i, 1, uint64(drawn))
	}
	if r.ResultDigest != digest || r.DrawsDigest != digest {
		t.Errorf("digests of results %#x and draws %#x, want %#x", r.ResultDigest, r.DrawsDigest, digest)
	}
	if r.Ledger.OK.Sum() != want.OK.Sum() || r.Ledger.WithinCount[0] != want.WithinCount[0] || r.Ledger.WithinCount[1] != want.WithinCount[1] {
		t.Errorf("sum %d, within %v, want %d, %v", r.Ledger.OK.Sum(), r.Ledger.WithinCount, want.OK.Sum(), want.WithinCount)
	}
	for _, q := range []float64{0.01, 0.5, 0.9, 0.97, 0.99, 0.999} {
		if got, want := r.Ledger.OK.Quantile(q), want.OK.Quantile(q); got != want {
			t.Errorf("quantile %v: %d, want %d", q, got, want)
		}
	}
}

func rate(perSecond float64) units.Rate { return units.Rate(perSecond * 1e6) }
