package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"latencylab/policy"
	"latencylab/service"
	"latencylab/workloads"
)

// chain returns a run of calls, one a second, through hops.
func chain(t testing.TB, user string, calls uint64, svc *service.Spec, hops ...Hop) Config {
	cfg := config(t, user, svc, calls)
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(1), 1)
	cfg.Hops = hops
	return cfg
}

// hop returns a hop with the policy of the spec, which tells the time left in
// x-deadline-ms if tells.
func hopOf(t testing.TB, spec string, tells bool, h Hop) Hop {
	h.Policy = parse(t, spec)
	if tells {
		h.Policy.Wire = policy.WireDeadlineMS
	}
	return h
}

// TestNestedTimeouts: a user who waits for 300 ms, A that calls B with 500 ms and
// two retries, B that calls C with 1 s and three retries, and C that works for 2 s.
// Without deadlines that go down the chain all twelve calls of C are made and
// worked on to their end, 24 s for an answer that nobody waits for. With the time
// left in a header, 20 ms kept back on the way, no retries in the middle and a C
// that stops, it is one call for 280 ms.
func TestNestedTimeouts(t *testing.T) {
	const a, b = "deadline=1s,attempt-timeout=500ms,min-start=50ms", "deadline=1s,attempt-timeout=1s,min-start=50ms"
	for _, x := range []struct {
		about    string
		good     bool
		a, b     string
		hop      Hop // what B does
		response time.Duration
		outcome  policy.Outcome
		toB, toC uint64
		work     time.Duration
		stopped  uint64
	}{
		{"bad: timeouts grow inward, retries at every hop, nothing stops", false,
			"attempt-timeout=500ms,retry=2", "attempt-timeout=1s,retry=3", Hop{}, 300 * ms, policy.Expired, 3, 12, 24 * time.Second, 0},
		{"good, and an error that nobody passes on", true, a, b + ",reserve=20ms", Hop{Silent: true}, 300 * ms, policy.Expired, 1, 1, 280 * ms, 1},
		{"good, with an answer in the time that was kept back", true, a, b + ",reserve=20ms", Hop{}, 280 * ms, policy.Failed, 1, 1, 280 * ms, 1},
		{"both hops keep 20 ms back", true, a + ",reserve=20ms", b + ",reserve=20ms", Hop{}, 260 * ms, policy.Failed, 1, 1, 260 * ms, 1},
		{"too little time is left for C", true, a, "deadline=1s,min-start=400ms", Hop{}, 0, policy.Failed, 1, 0, 0, 0},
	} {
		svc := &service.Spec{Time: dist(t, "2s")}
		if x.good {
			svc.Cancel = service.CancelRunning
		}
		x.hop.Cancels = x.good
		cfg := chain(t, "deadline=300ms", 1, svc, hopOf(t, x.a, x.good, Hop{Cancels: x.good}), hopOf(t, x.b, x.good, x.hop))
		if x.good {
			cfg.Policy.Wire = policy.WireDeadlineMS
		}
		r := run(t, cfg)
		got, response := policy.Failed, time.Duration(r.Ledger.Failed.Max())
		if r.Ledger.Censored.Count() > 0 {
			got, response = policy.Expired, time.Duration(r.Ledger.Censored.Max())
		}
		if got != x.outcome || response != x.response {
			t.Errorf("%s: the user's call ends %v after %v, want %v after %v", x.about, got, response, x.outcome, x.response)
		}
		if b, c := r.Hops[0].Data.Attempts.Sent, r.Hops[1].Data.Attempts.Sent; b != x.toB || c != x.toC {
			t.Errorf("%s: %d calls of B and %d of C, want %d and %d", x.about, b, c, x.toB, x.toC)
		}
		if s := r.Served; s.Arrived != x.toC || s.Work != x.work || s.Stopped != x.stopped || s.InFlight != 0 {
			t.Errorf("%s: C served %+v, want %d requests, %v of work, %d stopped", x.about, s, x.toC, x.work, x.stopped)
		}
	}
}

// TestLayers: attempts of nested retries multiply.
func TestLayers(t *testing.T) {
	broken := &service.Spec{Status: []service.StatusShare{{Status: 503, Share: 1}}}
	for _, c := range []struct {
		about string
		user  string
		hops  []string
		want  uint64
	}{
		{"three tries at three layers", "retry=2", []string{"retry=2", "retry=2"}, 27},
		{"three retries at three layers", "retry=3", []string{"retry=3", "retry=3"}, 64},
		{"five retries at two layers", "retry=5", []string{"retry=5"}, 36},
		{"retries at the first layer only", "retry=2", []string{"plain", "plain"}, 3},
		{"what is not retryable passes up and is tried once", "retry=2,retry.on=500", []string{"retry=2"}, 3},
	} {
		var hops []Hop
		for _, s := range c.hops {
			hops = append(hops, Hop{Policy: parse(t, s)})
		}
		r := run(t, chain(t, c.user, 1, broken, hops...))
		if got := r.Hops[len(r.Hops)-1].Data.Attempts.Sent; got != c.want {
			t.Errorf("%s: %d attempts reach the service, want %d", c.about, got, c.want)
		}
		if r.Ledger.Calls.Failed != 1 {
			t.Errorf("%s: the user's call has not failed", c.about)
		}
	}
}

// TestStatusPassesUp: a hop answers with the status that decided its call.
func TestStatusPassesUp(t *testing.T) {
	answer := func(status uint16) *service.Spec {
		return &service.Spec{Time: dist(t, "10ms"), Status: []service.StatusShare{{Status: status, Share: 1}}}
	}
	refuse := &service.Spec{Outages: []service.Outage{{For: time.Hour, Ending: service.Ending{Fault: service.FaultRefuse}}}}
	for _, c := range []struct {
		about string
		svc   *service.Spec
		hop   string
		want  uint16
	}{
		{"a status of the service", answer(418), "retry=2", 418},
		{"a retryable one after the last try", answer(429), "retry=2", 429},
		{"a timeout", answer(200), "attempt-timeout=5ms,retry=2", 504},
		{"the deadline", answer(200), "deadline=5ms", 504},
		{"a refused connection", refuse, "plain", 502},
	} {
		r := run(t, chain(t, "plain", 3, c.svc, Hop{Policy: parse(t, c.hop)}))
		if len(r.Ledger.Errors) != 1 || r.Ledger.Errors[0].Status != c.want || r.Ledger.Errors[0].Count != 3 {
			t.Errorf("%s: %+v, want three times %d", c.about, r.Ledger.Errors, c.want)
		}
	}
}

// TestFanOut: a call that needs all of many leaves is slow when one of them is:
// 1 - (1-p)^n (Dean and Barroso, "The Tail at Scale", CACM 2013).
func TestFanOut(t *testing.T) {
	svc := &service.Spec{Replicas: 100, Time: dist(t, "1ms"), Slow: service.Slow{Share: 0.01, Time: service.Constant(time.Second)}}
	cfg := chain(t, "plain", 20_000/fewer, svc, Hop{Policy: parse(t, "picker=round-robin"), Fan: 100})
	r := run(t, cfg)
	slow := 1 - float64(r.Ledger.OK.CountAtOrBelow(int64(500*ms)))/float64(r.Ledger.Calls.OK)
	near(t, "slow share", slow, 1-math.Pow(0.99, 100), 0.02)
	if leaves := r.Hops[0].Data; leaves.Calls.OK != 100*r.Ledger.Calls.OK || leaves.Attempts.Sent != leaves.Calls.OK {
		t.Errorf("%d leaves of %d calls, want 100 each", leaves.Calls.OK, r.Ledger.Calls.OK)
	}
}

// TestRedundancyOfAll: copies on all ten servers, the others cancelled when one
// is done, are one server of ten times the speed: M/M/1 (Gardner,
// Harchol-Balter and Scheller-Wolf, ToN 2017, d = k).
func TestRedundancyOfAll(t *testing.T) {
	svc := &service.Spec{Replicas: 10, Time: dist(t, "exponential(1ms)"), Slots: 1, Queue: -1, Cancel: service.CancelRunning}
	cfg := queueing(t, "plain", svc, 7, 100_000, 1)
	cfg.Hops = []Hop{{Policy: parse(t, "picker=round-robin"), Fan: 10, Need: 1}}
	r := run(t, cfg)
	near(t, "ten copies: mean", r.Ledger.OK.Mean()/1e6, 1.0/3, 0.04)
	if h := r.Hops[0].Data; h.Calls.OK != r.Ledger.Calls.OK || h.Calls.Unfinished != 9*h.Calls.OK {
		t.Errorf("%+v of the copies of %d calls, want one ok and nine cancelled for each", h.Calls, r.Ledger.Calls.OK)
	}
}

// TestNeed: of five leaves so many must answer; the others are not waited for,
// and when too many fail the call fails at once.
func TestNeed(t *testing.T) {
	each := func(times ...string) (list []service.Each) {
		for i, s := range times {
			d := dist(t, s)
			list = append(list, service.Each{Replica: i, Time: &d})
		}
		return list
	}
	slow := each("10ms", "20ms", "30ms", "40ms", "50ms")
	down := []service.Outage{{For: time.Hour, Ending: service.Ending{Status: 500}, Replicas: []int{1, 3}}}
	for _, c := range []struct {
		about    string
		need     int
		outages  []service.Outage
		ok       bool
		response time.Duration
	}{
		{"one", 1, nil, true, 10 * ms}, {"three", 3, nil, true, 30 * ms}, {"all", 0, nil, true, 50 * ms},
		{"three, and two are down", 3, down, true, 50 * ms}, {"four, and two are down", 4, down, false, 0},
	} {
		svc := &service.Spec{Replicas: 5, Each: slow, Outages: c.outages, Cancel: service.CancelRunning}
		r := run(t, chain(t, "plain", 4, svc, Hop{Policy: parse(t, "picker=round-robin"), Fan: 5, Need: c.need}))
		h := r.Ledger.OK
		if !c.ok {
			h = r.Ledger.Failed
		}
		if h.Count() != 4 || h.Min() != int64(c.response) || h.Max() != int64(c.response) {
			t.Errorf("need %s: %d calls of %d to %d ns, want 4 of %v", c.about, h.Count(), h.Min(), h.Max(), c.response)
		}
	}
}

// TestTell: what is told is the time left as the header rounds it, from arrival
// on, or an instant.
func TestTell(t *testing.T) {
	for _, c := range []struct {
		about string
		wire  policy.Wire
		net   time.Duration
		want  time.Duration // when the hop's call expires, from its begin
	}{
		{"nothing is told", policy.WireNone, 0, time.Hour},
		{"in milliseconds, rounded down", policy.WireDeadlineMS, 0, 99 * ms},
		{"in microseconds", policy.WireGRPC, 0, 99_700 * time.Microsecond},
		{"the net takes its time, and the header does not know", policy.WireDeadlineMS, 10 * ms, 99 * ms},
		{"an instant", policy.WireRFC3339, 10 * ms, 89_700 * time.Microsecond},
	} {
		cfg := chain(t, "deadline=99700us", 1, &service.Spec{Time: dist(t, "2h")}, Hop{Policy: parse(t, "deadline=1h")})
		cfg.Policy.Wire, cfg.Net = c.wire, c.net
		h := run(t, cfg).Hops[0].Data
		if h.Censored.Count() != 1 || h.Censored.Max() != int64(c.want) {
			t.Errorf("%s: the hop's call ends after %v, want %v", c.about, time.Duration(h.Censored.Max()), c.want)
		}
	}
}

// chains are small runs that together use every part of a chain.
func chains(t testing.TB) []struct {
	name string
	cfg  Config
} {
	svc := func(c service.Cancel) *service.Spec {
		return &service.Spec{Replicas: 3, Time: dist(t, "exponential(5ms)"), Slots: 2, Queue: 20, Cancel: c,
			Status: []service.StatusShare{{Status: 503, Share: 0.05}, {Status: 500, Share: 0.01}}}
	}
	hop := func(spec string, h Hop) Hop {
		h.Policy = parse(t, spec)
		return h
	}
	var out []struct {
		name string
		cfg  Config
	}
	add := func(name, user string, svc *service.Spec, edit func(*Config), hops ...Hop) {
		cfg := config(t, user, svc, 0)
		cfg.Arrivals = workloads.NewArrivals(workloads.Poisson, rate(300), 1)
		cfg.Clients, cfg.Hops = 2, hops
		cfg.Blocks = []workloads.Block{{Burn: time.Second, Data: 2 * time.Second}, {Burn: time.Second, Calls: 1000}}
		if edit != nil {
			edit(&cfg)
		}
		out = append(out, struct {
			name string
			cfg  Config
		}{name, cfg})
	}
	add("one hop that passes on", "plain", svc(service.CancelNone), nil, hop("plain", Hop{}))
	add("retries everywhere, nothing stops", "deadline=40ms,retry=1", svc(service.CancelNone), nil,
		hop("attempt-timeout=30ms,retry=1", Hop{}), hop("attempt-timeout=20ms,retry=2,backoff=1ms", Hop{}))
	add("deadlines and cancels over a net", "deadline=40ms,hedge=15ms", svc(service.CancelRunning), func(c *Config) { c.Net, c.Policy.Wire = ms, policy.WireDeadlineMS },
		hopOf(t, "deadline=30ms,reserve=2ms,min-start=5ms", true, Hop{Cancels: true}), hop("deadline=1s,retry=1,min-start=3ms", Hop{Cancels: true}))
	add("fan-out of hedged leaves, silent", "deadline=200ms", svc(service.CancelQueued), func(c *Config) { c.Net = 300 * time.Microsecond },
		hop("hedge=10ms,budget=10%", Hop{Fan: 4, Need: 3, Cancels: true, Silent: true}))
	add("silent, and calls that go on", "deadline=30ms", svc(service.CancelNone), func(c *Config) { c.Net = ms },
		hop("attempt-timeout=12ms,retry=1", Hop{Silent: true}))
	add("cancels that drain", "hedge=2ms,cancel=drain", svc(service.CancelRunning), nil, hop("deadline=30ms,hedge=p90,cancel=drain", Hop{Cancels: true, Fan: 2, Need: 1}))
	add("two policies share a hop", "plain", svc(service.CancelNone), func(c *Config) {
		c.Lanes = []policy.Policy{parse(t, "plain"), parse(t, "hedge=10ms")}
	}, hop("retry=1", Hop{}))
	add("users that think", "deadline=50ms", svc(service.CancelRunning), func(c *Config) {
		c.Arrivals, c.Users, c.Think = workloads.Arrivals{}, 5, dist(t, "exponential(10ms)")
	}, hop("retry=2", Hop{Cancels: true}))
	return out
}

// TestGoldenChains: digests of what users see behind hops, and of what the hops did.
func TestGoldenChains(t *testing.T) {
	golden := map[string][3]uint64{
		"one hop that passes on":            {0x7eae44348b61249d, 2207, 2076},
		"retries everywhere, nothing stops": {0xc7500856207af16d, 4572, 4376},
		"deadlines and cancels over a net":  {0xebe990e826369986, 5448, 4533},
		"fan-out of hedged leaves, silent":  {0x5f1e9886ad68fe13, 9809, 6311},
		"silent, and calls that go on":      {0x16897406ed3a2b59, 2638, 2102},
		"cancels that drain":                {0x627f0cc45d6cee21, 8858, 3720},
		"two policies share a hop":          {0x3b61200a06759709, 2531, 2387},
		"users that think":                  {0x91cdb341a5f7ced6, 2423, 2285},
	}
	for _, c := range chains(t) {
		r, err := Run(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		var sum [3]uint64
		sum[0] = r.ResultDigest
		for i := range r.Hops {
			h := &r.Hops[i]
			if err := h.Data.Check(); err != nil {
				t.Errorf("%s: hop %d: %v", c.name, i, err)
			}
			if err := h.Burn.Check(); err != nil {
				t.Errorf("%s: burn-in of hop %d: %v", c.name, i, err)
			}
			sum[1] += h.Data.Attempts.Sent + h.Burn.Attempts.Sent
			sum[2] += h.Data.Calls.OK + h.Burn.Calls.OK
		}
		if want := golden[c.name]; sum != want {
			t.Errorf("digest of the results, attempts and ok calls of the hops:\n\t\t%q: {%#x, %d, %d},", c.name, sum[0], sum[1], sum[2])
		}
	}
}

// TestChainsGiveBack: after a run nothing holds a record any more.
func TestChainsGiveBack(t *testing.T) {
	for _, c := range chains(t) {
		w := newWorld(&c.cfg)
		for _, b := range c.cfg.Blocks {
			if _, err := w.run(b); err != nil {
				t.Fatal(err)
			}
			w.settle()
		}
		free := 0
		for n := w.freeJoin; n != 0; n = w.joins[n].next {
			free++
		}
		open := 0
		for i := range w.calls {
			if w.calls[i].open {
				open++
			}
		}
		if n := w.inUse(); n != 0 || open != 0 || free != len(w.joins)-1 || w.events.stale != 0 {
			t.Errorf("%s: %d attempts in use, %d calls open, %d of %d joins free, %d events stale", c.name, n, open, free, len(w.joins)-1, w.events.stale)
		}
		for i, l := range w.lanes {
			for _, client := range l.clients {
				if n := client.InFlight(); n != 0 {
					t.Errorf("%s: a client of lane %d has %d attempts open", c.name, i, n)
				}
			}
		}
	}
}

// TestStoppedChain: a chain that is stopped, or has no room, ends with books that
// add up.
func TestStoppedChain(t *testing.T) {
	for _, c := range chains(t) {
		for _, open := range []int{0, 3} {
			asked := 0
			c.cfg.Open = open
			c.cfg.Stop = func() bool { asked++; return asked == 1 }
			c.cfg.Blocks = []workloads.Block{{Calls: 100_000}}
			r, err := Run(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Stopped || (open > 0) != (r.Overflow != nil) {
				t.Errorf("%s: stopped %v, overflow %v", c.name, r.Stopped, r.Overflow)
			}
			if err := r.Ledger.Check(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			for i := range r.Hops {
				if err := r.Hops[i].Data.Check(); err != nil {
					t.Errorf("%s: hop %d: %v", c.name, i, err)
				}
			}
		}
	}
}

func TestBadHops(t *testing.T) {
	for _, c := range []struct {
		about string
		edit  func(*Config)
		want  string
	}{
		{"a policy that makes no sense", func(c *Config) { c.Hops[0].Policy.Deadline = -1 }, "hop 0: "},
		{"a negative fan", func(c *Config) { c.Hops[0].Fan = -1 }, "hop 0: fan = -1"},
		{"more needed than there are", func(c *Config) { c.Hops[0].Need = 2 }, "hop 0: need = 2, want 1 to fan=1"},
		{"copies tied at a hop", func(c *Config) { c.Policy = parse(t, "hedge=1ms,cancel=tied") }, "cancel=tied"},
		{"too many", func(c *Config) { c.Hops = make([]Hop, MaxHops+1) }, "17 hops"},
	} {
		cfg := chain(t, "plain", 1, &service.Spec{}, Hop{})
		c.edit(&cfg)
		if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.about, err, c.want)
		}
	}
}
