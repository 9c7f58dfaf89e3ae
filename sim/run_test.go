package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/workloads"
)

// worlds are small runs that together use every part of policy and service.
func worlds(t testing.TB) []struct {
	name string
	cfg  Config
} {
	tail := func() *service.Spec { return hedgeTail(t) }
	queue := func(c service.Cancel) *service.Spec {
		return &service.Spec{Replicas: 3, Time: dist(t, "exponential(2ms)"), Slots: 1, Queue: -1, Cancel: c}
	}
	faulty := &service.Spec{Replicas: 2, Time: dist(t, "lognormal(5ms,1)"), RetryAfter: time.Second,
		Status: []service.StatusShare{{Status: 503, Share: 0.1}, {Status: 500, Share: 0.02}, {Status: 404, Share: 0.01}},
		Each:   []service.Each{{Replica: 1, Factor: 1.5}}}
	shedding := &service.Spec{Replicas: 2, Time: dist(t, "weibull(3ms,0.7)"), Slots: 1, Queue: 2, Shed: 429, Cancel: service.CancelQueued}
	slow := &service.Spec{Replicas: 4, Time: dist(t, "normal(5ms,2ms)"), Slow: service.Slow{Share: 0.3, Time: dist(t, "pareto(20ms,1.5)"), By: service.SlowByReplica}}
	mixed := &service.Spec{Replicas: 3, Time: dist(t, "mixture(90%:empirical(1ms,2ms,3ms),10%:uniform(5ms,50ms))")}
	list := []struct {
		name, spec string
		svc        *service.Spec
		net        time.Duration
	}{
		{"plain", "plain", tail(), 0},
		{"hedge", "hedge=58ms", tail(), 0},
		{"hedge at p95", "hedge=p95", tail(), 0},
		{"hedge with budget", "hedge=p90,budget=5%", tail(), 0},
		{"two hedges, drained, over a net", "hedge=45ms,hedge.max=2,cancel=drain", tail(), 3 * time.Millisecond},
		{"hedge into queues, nothing stops", "hedge=10ms,budget=10%", queue(service.CancelNone), 0},
		{"hedge into queues, waiting work stops", "hedge=5ms", queue(service.CancelQueued), 0},
		{"hedge into queues, running work stops", "hedge=5ms,cancel=reset", queue(service.CancelRunning), time.Millisecond},
		{"retries of faults", "retry=3,backoff=10ms..1s,deadline=5s", faulty, 0},
		{"retries without jitter, few in budget", "retry=2,backoff=1ms,jitter=none,budget=5%,budget.capacity=10", faulty, 500 * time.Microsecond},
		{"deadline", "deadline=30ms,min-start=2ms,retry=2,backoff=1ms", faulty, 0},
		{"attempt timeout", "attempt-timeout=15ms,retry=2,backoff=2ms,deadline=100ms", slow, 0},
		{"shed and retried", "retry=3,backoff=4ms,picker=round-robin", shedding, 0},
		{"everything", "deadline=200ms,attempt-timeout=60ms,retry=2,backoff=1ms..20ms,hedge=p90,hedge.max=2,budget=20%,picker=round-robin", mixed, 2 * time.Millisecond},
	}
	var out []struct {
		name string
		cfg  Config
	}
	for _, l := range list {
		cfg := config(t, l.spec, l.svc, 0)
		cfg.Net, cfg.Clients = l.net, 2
		cfg.Blocks = []workloads.Block{{Burn: 3 * time.Second, Data: 5 * time.Second}, {Burn: time.Second, Calls: 4000}}
		out = append(out, struct {
			name string
			cfg  Config
		}{l.name, cfg})
	}
	return out
}

// TestGolden holds the digests of small runs: they are equal on every machine,
// and a change of any of them is a change of what users are told.
func TestGolden(t *testing.T) {
	golden := map[string][2]uint64{
		"plain":                                 {0x206a8ec3fce41a9b, 0x206a8ec3fce41a9b},
		"hedge":                                 {0x206a8ec3fce41a9b, 0x95fef86039d27b96},
		"hedge at p95":                          {0x206a8ec3fce41a9b, 0xe0a08280c046dcc2},
		"hedge with budget":                     {0x206a8ec3fce41a9b, 0x5043be5ede0cf9f6},
		"two hedges, drained, over a net":       {0x206a8ec3fce41a9b, 0x672b7e770c40c0ce},
		"hedge into queues, nothing stops":      {0x6a5d92e5e4485e61, 0xd62d1eab2fa8702a},
		"hedge into queues, waiting work stops": {0x6a5d92e5e4485e61, 0xba882edf3750154d},
		"hedge into queues, running work stops": {0x6a5d92e5e4485e61, 0xaca0367777eef229},
		"retries of faults":                     {0x7227126740b3690d, 0xc4164269f91b95d3},
		"retries without jitter, few in budget": {0x7227126740b3690d, 0xa7c9d81c941357be},
		"deadline":                              {0x7227126740b3690d, 0xa6c60614ea2fd96f},
		"attempt timeout":                       {0x201c7ae17381b6ed, 0x81a3daa5d4a13f64},
		"shed and retried":                      {0xadbd7e693e830e74, 0xa33c30bb84965cc2},
		"everything":                            {0x4abaca9df2b0a3cc, 0xc88ad92c4a231114},
	}
	for _, w := range worlds(t) {
		r := run(t, w.cfg)
		want := golden[w.name]
		if got := [2]uint64{r.DrawsDigest, r.ResultDigest}; got != want {
			t.Errorf("digests of draws and results:\n\t\t%q: {%#x, %#x},", w.name, got[0], got[1])
		}
		again := run(t, w.cfg)
		if again.ResultDigest != r.ResultDigest || again.DrawsDigest != r.DrawsDigest || again.Events != r.Events || again.Elapsed != r.Elapsed {
			t.Errorf("%s: two runs differ", w.name)
		}
		other := w.cfg
		other.TargetSeed = 2
		if run(t, other).ResultDigest == r.ResultDigest {
			t.Errorf("%s: another seed of the target gives the same result", w.name)
		}
	}
}

// TestPoliciesMeetTheSameDraws: what first attempts draw does not depend on the
// policy, nor does who arrives when.
func TestPoliciesMeetTheSameDraws(t *testing.T) {
	var first *Result
	for _, spec := range []string{"plain", "hedge=58ms", "hedge=p95", "retry=2,attempt-timeout=100ms"} {
		cfg := config(t, spec, hedgeTail(t), 5000)
		r := run(t, cfg)
		if first == nil {
			first = r
		}
		if r.DrawsDigest != first.DrawsDigest || r.ArrivalsDigest != first.ArrivalsDigest {
			t.Errorf("%s: draws %#x, arrivals %#x, want %#x, %#x as plain", spec, r.DrawsDigest, r.ArrivalsDigest, first.DrawsDigest, first.ArrivalsDigest)
		}
	}
}

// TestOrderWithinAnInstant: reply before timer before arrival.
func TestOrderWithinAnInstant(t *testing.T) {
	steady := func(spec string, svc *service.Spec) *Result {
		cfg := config(t, spec, svc, 1000)
		cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(1000), 1)
		return run(t, cfg)
	}
	for _, c := range []struct {
		about, spec string
		svc         *service.Spec
		ok, hedges  uint64
	}{
		{"the answer comes at the deadline", "deadline=5ms", &service.Spec{Time: dist(t, "5ms")}, 1000, 0},
		{"the answer comes one ns after the deadline", "deadline=4999999ns", &service.Spec{Time: dist(t, "5ms")}, 0, 0},
		{"the answer comes when the hedge is due", "hedge=5ms", &service.Spec{Time: dist(t, "5ms")}, 1000, 0},
		{"the answer comes one ns after the hedge is due", "hedge=4999999ns", &service.Spec{Time: dist(t, "5ms")}, 1000, 1000},
		{"a call arrives when the only slot becomes free", "plain", &service.Spec{Time: dist(t, "1ms"), Slots: 1}, 1000, 0},
		{"a call arrives one ns before the only slot becomes free", "plain", &service.Spec{Time: dist(t, "1000001ns"), Slots: 1}, 500, 0},
		{"an answer at once", "deadline=1ns", &service.Spec{}, 1000, 0},
	} {
		l := steady(c.spec, c.svc).Ledger
		if l.Calls.OK != c.ok || l.Attempts.Hedges != c.hedges {
			t.Errorf("%s: %d ok, %d hedges, want %d, %d", c.about, l.Calls.OK, l.Attempts.Hedges, c.ok, c.hedges)
		}
	}
}

// TestNet: every answer takes two ways longer.
func TestNet(t *testing.T) {
	cfg := config(t, "plain", hedgeTail(t), 2000)
	near := run(t, cfg)
	cfg.Net = 7 * time.Millisecond
	far := run(t, cfg)
	if got, want := far.Ledger.OK.Sum(), near.Ledger.OK.Sum()+2000*14e6; got != want {
		t.Errorf("sum of responses %d, want %d", got, want)
	}
	if far.DrawsDigest != near.DrawsDigest {
		t.Error("the net changes the draws")
	}
}

// TestSettle: one slot, work of 10 ms, a deadline of 4 ms, one call each 8 ms.
// What goes on after the last call has ended is finished between blocks.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		about  string
		cancel service.Cancel
	}{
		{"running work stops", service.CancelRunning},
		{"running work goes on", service.CancelNone},
	} {
		svc := &service.Spec{Time: dist(t, "10ms"), Slots: 1, Queue: -1, Cancel: c.cancel}
		cfg := config(t, "deadline=4ms", svc, 100)
		cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(125), 1)
		w := newWorld(&cfg)
		w.run(cfg.Blocks[0])
		if n := w.book[dataBook].Attempts.TimedOut; n != 100 {
			t.Errorf("%s: %d timed out, want 100", c.about, n)
		}
		if idle := w.servers[0].Busy() == 0 && w.servers[0].Waiting() == 0; idle != (c.cancel == service.CancelRunning) {
			t.Errorf("%s: idle %v at the end", c.about, idle)
		}
		w.settle()
		if w.servers[0].Busy() != 0 || w.servers[0].Waiting() != 0 || w.events.len() != 0 {
			t.Errorf("%s: not idle after settling", c.about)
		}
	}
}

// TestEveryRecordIsGivenBack: after a run nothing holds a record any more.
func TestEveryRecordIsGivenBack(t *testing.T) {
	for _, c := range worlds(t) {
		w := newWorld(&c.cfg)
		for _, b := range c.cfg.Blocks {
			w.run(b)
			w.settle()
		}
		free := 0
		for n := w.freeAtt; n != 0; n = w.attempts[n].call {
			free++
		}
		if free != len(w.attempts)-1 {
			t.Errorf("%s: %d of %d attempts are free", c.name, free, len(w.attempts)-1)
		}
		free = 0
		for n := w.freeCall; n != 0; n = w.calls[n].next {
			free++
		}
		if free != len(w.calls)-1 || w.live != 0 {
			t.Errorf("%s: %d of %d calls are free, %d open", c.name, free, len(w.calls)-1, w.live)
		}
		if w.events.stale != 0 {
			t.Errorf("%s: %d events are stale in an empty heap", c.name, w.events.stale)
		}
	}
}

// TestBlocks: the policy's clock stands still between blocks, burn-in is kept
// apart, and arrivals go on where they were.
func TestBlocks(t *testing.T) {
	cfg := config(t, "plain", &service.Spec{Time: dist(t, "700ms")}, 0)
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(10), 1)
	cfg.Blocks = []workloads.Block{{Burn: time.Second, Data: 2 * time.Second}, {Data: time.Second}, {Burn: time.Second, Calls: 7}}
	r := run(t, cfg)
	for i, want := range []struct {
		start, data, dataEnd, end clock.Time // in ms
		calls, burn               uint64
	}{
		{0, 1000, 3000, 3600, 20, 9},
		{3600, 3600, 4600, 5200, 9, 0},
		{5200, 6200, 6800, 7500, 7, 9},
	} {
		b := r.Blocks[i]
		got := []clock.Time{b.Start / 1e6, b.DataStart / 1e6, b.DataEnd / 1e6, b.End / 1e6}
		if fmt.Sprint(got) != fmt.Sprint([]clock.Time{want.start, want.data, want.dataEnd, want.end}) {
			t.Errorf("block %d: start, data, data's end, end at %v ms, want %v", i, got, want)
		}
		if b.Data.Calls.Scheduled != want.calls || b.Burn.Calls.Scheduled != want.burn {
			t.Errorf("block %d: %d calls, %d in burn-in, want %d, %d", i, b.Data.Calls.Scheduled, b.Burn.Calls.Scheduled, want.calls, want.burn)
		}
	}
	if r.Elapsed != 7500*time.Millisecond {
		t.Errorf("elapsed %v, want 7.5s", r.Elapsed)
	}
}

// TestClockStandsStill: work that goes on after a block is not the next one's,
// neither in queues nor on the policy's clock.
func TestClockStandsStill(t *testing.T) {
	svc := &service.Spec{Time: dist(t, "100ms"), Slots: 1, Queue: -1} // far too slow
	cfg := config(t, "deadline=150ms", svc, 0)
	cfg.Blocks = []workloads.Block{{Calls: 100}, {Calls: 100}}
	r := run(t, cfg)
	for i := range r.Blocks {
		l := r.Blocks[i].Data
		if l.Calls.OK == 0 || l.OK.Min() != 100e6 {
			t.Errorf("block %d: %d ok, fastest %d ns: it did not begin with an idle server", i, l.Calls.OK, l.OK.Min())
		}
	}
	if gap := r.Blocks[1].Start.Sub(r.Blocks[0].End); gap != 0 || r.Elapsed > time.Second {
		t.Errorf("the clock moved by %v between the blocks, %v in all", gap, r.Elapsed)
	}
}

// TestIntervals: of each book they follow each other and add up to it, whenever
// its calls end.
func TestIntervals(t *testing.T) {
	cfg := config(t, "hedge=58ms,deadline=500ms", hedgeTail(t), 0)
	cfg.Blocks = []workloads.Block{{Burn: 1500 * time.Millisecond, Data: 3 * time.Second}, {Data: 2 * time.Second}}
	var list [2][]Interval
	var sum [2]Interval
	var ok [2]uint64
	cfg.OnInterval = func(i Interval) {
		book := 0
		if i.Burn {
			book = 1
		}
		ok[book] += i.OK.Count()
		sum[book].Ended += i.Ended
		sum[book].Failed += i.Failed
		sum[book].Sent += i.Sent
		list[book] = append(list[book], i)
	}
	r := run(t, cfg)
	for book, c := range []*ledger.Counts{&r.Ledger.Counts, &r.Burn} {
		k, at := &c.Calls, clock.Time(0)
		for n, i := range list[book] {
			if n > 0 && i.Start != at || i.End <= i.Start || i.End.Sub(i.Start) > time.Second {
				t.Errorf("book %d: interval from %d to %d follows one that ended at %d", book, i.Start, i.End, at)
			}
			at = i.End
		}
		if got := sum[book]; ok[book] != k.OK || got.Ended != k.Scheduled || got.Failed != k.Scheduled-k.OK || got.Sent != c.Attempts.Sent {
			t.Errorf("book %d: intervals with %d ok, %d ended, %d failed, %d sent do not add up to %+v and %+v", book, ok[book], got.Ended, got.Failed, got.Sent, *k, c.Attempts)
		}
	}
	// The burn-in ends at 1.5 s, and its last call at most 500 ms later.
	if first, last := list[0][0], list[1][len(list[1])-1]; first.Start != clock.Time(time.Second) || last.End != clock.Time(2*time.Second) {
		t.Errorf("data from the interval at %d, burn-in to the one that ends at %d", first.Start, last.End)
	}
	if end := list[0][len(list[0])-1].End; end != clock.Time(r.Elapsed) {
		t.Errorf("the last interval ends at %d, the run at %d", end, r.Elapsed)
	}
}

// TestLongGap: a call that takes a year does not give 30 million intervals.
func TestLongGap(t *testing.T) {
	cfg := config(t, "plain", &service.Spec{Time: dist(t, "8760h")}, 3)
	n := 0
	cfg.OnInterval = func(Interval) { n++ }
	run(t, cfg)
	if n > 2*longGap {
		t.Errorf("%d intervals", n)
	}
}

func TestStop(t *testing.T) {
	cfg := config(t, "hedge=58ms", hedgeTail(t), 1_000_000)
	cfg.Blocks = append(cfg.Blocks, workloads.Block{Calls: 10})
	asked := 0
	cfg.Stop = func() bool { asked++; return asked == 3 }
	r := run(t, cfg)
	if !r.Stopped || len(r.Blocks) != 1 || r.Ledger.Calls.Unfinished == 0 || r.Ledger.Calls.OK == 0 {
		t.Errorf("stopped %v after %d blocks, calls %+v", r.Stopped, len(r.Blocks), r.Ledger.Calls)
	}
}

// TestNeverAnswered: work that lasts for ever does not keep the run from ending.
func TestNeverAnswered(t *testing.T) {
	svc := &service.Spec{Time: dist(t, "2562047h"), Each: []service.Each{{Factor: 1e9}}}
	r := run(t, config(t, "plain", svc, 10))
	if r.Ledger.Calls.Unfinished != 10 || r.Ledger.Attempts.Abandoned != 10 {
		t.Errorf("calls %+v, want all unfinished", r.Ledger.Calls)
	}
	r = run(t, config(t, "deadline=1s", svc, 10))
	if r.Ledger.Calls.Failed != 10 || r.Ledger.Censored.Min() != 1e9 {
		t.Errorf("calls %+v, censored from %d ns, want all expired after 1 s", r.Ledger.Calls, r.Ledger.Censored.Min())
	}
}

// TestRetryAfter: the server's wait is longer than the backoff, and is kept.
func TestRetryAfter(t *testing.T) {
	svc := &service.Spec{Time: dist(t, "1ms"), Status: []service.StatusShare{{Status: 503, Share: 1}}, RetryAfter: 3 * time.Second}
	r := run(t, config(t, "retry=1,backoff=1ms", svc, 100))
	l := r.Ledger
	if l.Calls.Failed != 100 || l.Attempts.Retries != 100 || l.Failed.Min() != 3002e6 || l.Failed.Max() != 3002e6 {
		t.Errorf("%+v, failed after %d to %d ns, want 100 after 3.002 s", l.Attempts, l.Failed.Min(), l.Failed.Max())
	}
	if len(l.Errors) != 1 || l.Errors[0].Count != 200 || l.Errors[0].Sample != "503 from replica 0" {
		t.Errorf("errors %+v", l.Errors)
	}
	r = run(t, config(t, "retry=1,backoff=1ms,deadline=2s", svc, 100))
	if n := r.Ledger.Refused[policy.RuleTime]; n != 100 || r.Ledger.Attempts.Retries != 0 {
		t.Errorf("%d refused for time, %d retries, want 100, 0", n, r.Ledger.Attempts.Retries)
	}
}

func TestClientsDoNotShare(t *testing.T) {
	cfg := config(t, "hedge=20ms,budget=1%,budget.capacity=10", hedgeTail(t), 2000)
	one := run(t, cfg).Ledger.Attempts.Hedges
	cfg.Clients = 10
	ten := run(t, cfg).Ledger.Attempts.Hedges
	if one > 30 || ten < 100 || ten > 120 {
		t.Errorf("%d hedges by one client, %d by ten, want about 30 and 120: full buckets and 1 %%", one, ten)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		about  string
		change func(*Config)
		want   string
	}{
		{"a policy that contradicts itself", func(c *Config) {
			c.Policy.Deadline, c.Policy.Hedge = time.Second, policy.Hedge{Max: 1, Delay: time.Hour}
		}, "policy: "},
		{"no service", func(c *Config) { c.Service = nil }, "no service"},
		{"a service that makes no sense", func(c *Config) { c.Service = &service.Spec{Slots: -1} }, "service: slots = -1"},
		{"no rate", func(c *Config) { c.Arrivals = workloads.Arrivals{} }, "no rate"},
		{"no block", func(c *Config) { c.Blocks = nil }, "no block"},
		{"a block of negative length", func(c *Config) { c.Blocks[0].Data = -1 }, "block 0"},
		{"a negative number of clients", func(c *Config) { c.Clients = -1 }, "clients = -1"},
		{"a negative net", func(c *Config) { c.Net = -1 }, "net = "},
		{"a negative horizon", func(c *Config) { c.Horizon = -1 }, "horizon = "},
		{"a negative interval", func(c *Config) { c.Interval = -1 }, "interval = "},
	} {
		cfg := config(t, "plain", hedgeTail(t), 1)
		c.change(&cfg)
		if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.about, err, c.want)
		}
	}
}

// TestAllocationsDoNotGrow: ten times the calls cost no more allocations.
func TestAllocationsDoNotGrow(t *testing.T) {
	allocs := func(calls uint64) float64 {
		cfg := config(t, "hedge=58ms,deadline=2s,retry=1", hedgeTail(t), calls)
		return testing.AllocsPerRun(1, func() { run(t, cfg) })
	}
	few, many := allocs(20_000), allocs(200_000)
	if many > few+20 {
		t.Errorf("%v allocations for 20,000 calls, %v for 200,000", few, many)
	}
}

// TestAnAnswerComesBeforeATimerSetEarlier: an answer that is scheduled after
// the deadline's timer, for the same instant, still comes first.
func TestAnAnswerComesBeforeATimerSetEarlier(t *testing.T) {
	svc := &service.Spec{Time: service.Constant(5 * ms), Slots: 1, Queue: -1}
	cfg := config(t, "deadline=9ms", svc, 2)
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(1000), 1)
	// The second call arrives 1 ms after the first, waits 4 ms for the slot and
	// is answered 9 ms after its arrival.
	if r := run(t, cfg); r.Ledger.Calls.OK != 2 {
		t.Errorf("%d calls ok, want 2: the deadline came before the answer of the same instant", r.Ledger.Calls.OK)
	}
}

// TestTheClientHasASeedOfItsOwn: the picker's draws follow Seed, not the
// target's.
func TestTheClientHasASeedOfItsOwn(t *testing.T) {
	svc := hedgeTail(t)
	svc.Each = []service.Each{{Replica: 1, Factor: 2}}
	cfg := config(t, "plain", svc, 1000)
	one := run(t, cfg)
	cfg.Seed = 2
	if two := run(t, cfg); two.ResultDigest == one.ResultDigest {
		t.Error("another seed of the client picks the same replicas")
	}
}
