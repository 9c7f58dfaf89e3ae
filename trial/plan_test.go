package trial

import (
	"strings"
	"testing"
	"time"

	"latencylab/service"
	"latencylab/units"
	"latencylab/workloads"
)

const ms = time.Millisecond

// workload returns one at 1,000/s with the policies.
func workload(t *testing.T, specs ...string) *workloads.Workload {
	t.Helper()
	w := workloads.New()
	w.Rate = units.Rate(1000e6)
	for _, s := range specs {
		np, err := workloads.ParsePolicy(s)
		if err != nil {
			t.Fatal(err)
		}
		w.Policies = append(w.Policies, np)
	}
	return w
}

func TestPlanFillsInDefaults(t *testing.T) {
	set := func(f func(*workloads.Workload)) func(*workloads.Workload) { return f }
	for _, c := range []struct {
		why      string
		specs    []string
		change   func(*workloads.Workload)
		rounds   int
		warmup   time.Duration
		lead     time.Duration
		duration time.Duration
		drain    time.Duration
	}{
		{"one stateless policy has one block and no warm-up",
			[]string{"plain"}, nil, 1, 0, 0, 10 * time.Second, 5 * time.Second},
		{"no policy is plain",
			nil, nil, 1, 0, 0, 10 * time.Second, 5 * time.Second},
		{"two policies alternate in four blocks each of 2.5 s",
			[]string{"plain", "hedge=10ms"}, nil, 4, 3 * time.Second, 250 * ms, 10 * time.Second, 5 * time.Second},
		{"a minute is cut into blocks of 10 s",
			[]string{"plain", "hedge=10ms"}, set(func(w *workloads.Workload) { w.Duration = time.Minute }), 6, 3 * time.Second, 250 * ms, time.Minute, 5 * time.Second},
		{"an hour does not get more than 40 blocks",
			[]string{"plain", "hedge=10ms"}, set(func(w *workloads.Workload) { w.Duration = time.Hour }), 40, 3 * time.Second, 250 * ms, time.Hour, 5 * time.Second},
		{"a short run has two blocks, and a lead-in of at most a fifth of each",
			[]string{"plain", "hedge=10ms"}, set(func(w *workloads.Workload) { w.Duration = time.Second }), 2, 3 * time.Second, 100 * ms, time.Second, 5 * time.Second},
		{"a tracked delay at a low rate trains until its window is full",
			[]string{"hedge=p95"}, set(func(w *workloads.Workload) { w.Rate = units.Rate(10e6) }), 1, 30 * time.Second, 0, 10 * time.Second, 5 * time.Second},
		{"a tracked delay at 500/s trains for 3,000 samples",
			[]string{"hedge=p95"}, set(func(w *workloads.Workload) { w.Rate = units.Rate(500e6) }), 1, 6 * time.Second, 0, 10 * time.Second, 5 * time.Second},
		{"four clients train four times as long",
			[]string{"hedge=p95"}, set(func(w *workloads.Workload) { w.Clients = 4 }), 1, 12 * time.Second, 0, 10 * time.Second, 5 * time.Second},
		{"a budget is state: 3 s",
			[]string{"hedge=10ms,budget=10%"}, nil, 1, 3 * time.Second, 0, 10 * time.Second, 5 * time.Second},
		{"what the user says counts, also none",
			[]string{"plain", "hedge=p95"}, set(func(w *workloads.Workload) { w.WarmupGiven = true }), 4, 0, 250 * ms, 10 * time.Second, 5 * time.Second},
		{"drain lasts at least the longest deadline",
			[]string{"deadline=20s"}, nil, 1, 0, 0, 10 * time.Second, 20 * time.Second},
	} {
		w := workload(t, c.specs...)
		if c.change != nil {
			c.change(w)
		}
		p, err := NewPlan(w, Choices{})
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		if p.Rounds != c.rounds || p.Warmup != c.warmup || p.Lead != c.lead || p.Workload.Duration != c.duration || p.Workload.Drain != c.drain {
			t.Errorf("%s: got rounds %d, warm-up %v, lead-in %v, duration %v, drain %v; want %d, %v, %v, %v, %v", c.why,
				p.Rounds, p.Warmup, p.Lead, p.Workload.Duration, p.Workload.Drain, c.rounds, c.warmup, c.lead, c.duration, c.drain)
		}
	}
}

func TestPlanRefusesContradictions(t *testing.T) {
	for _, c := range []struct {
		why     string
		specs   []string
		change  func(*workloads.Workload)
		virtual bool
		want    []string // parts of the error
	}{
		{"two ends", nil, func(w *workloads.Workload) { w.Duration, w.Requests = time.Second, 5 }, false, []string{"duration=1s", "requests=5"}},
		{"a comparison without a schedule", []string{"plain", "hedge=1ms"}, func(w *workloads.Workload) { w.Rate = 0 }, false, []string{"--policy", "--rate"}},
		{"virtual time without a rate", nil, func(w *workloads.Workload) { w.Rate = 0 }, true, []string{"--rate"}},
		{"virtual time without a service", nil, nil, true, []string{"service"}},
		{"the same name twice", []string{"plain", "plain"}, nil, false, []string{`"plain"`}},
	} {
		w := workload(t, c.specs...)
		if c.change != nil {
			c.change(w)
		}
		_, err := NewPlan(w, Choices{Virtual: c.virtual})
		for _, part := range c.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error is %v, want one that names %s", c.why, err, part)
			}
		}
	}
}

// TestBlocksAddUp: every policy gets all of its data, in as many blocks as any
// other, and the same burn-in at the same place, so that it meets the same
// arrivals.
func TestBlocksAddUp(t *testing.T) {
	for _, requests := range []uint64{0, 1, 7, 1000} {
		for policies := 1; policies <= 5; policies++ {
			w := workload(t, []string{"a:plain", "b:plain", "c:plain", "d:plain", "e:plain"}[:policies]...)
			w.Requests = requests
			p, err := NewPlan(w, Choices{})
			if err != nil {
				t.Fatal(err)
			}
			first := p.blocksOf(0)
			for k := range policies {
				var data time.Duration
				var calls uint64
				for i, b := range p.blocksOf(k) {
					data += b.Data
					calls += b.Calls
					if b != first[i] {
						t.Errorf("block %d of policy %d is %+v, that of the first policy %+v", i, k, b, first[i])
					}
				}
				if calls != requests || requests == 0 && data != DefaultDuration {
					t.Errorf("policy %d of %d gets %d calls and %v, want %d calls or %v", k, policies, calls, data, requests, DefaultDuration)
				}
			}
		}
	}
}

func TestParseSite(t *testing.T) {
	for _, c := range []struct {
		why       string
		url       string
		endpoints []string
		host      string
		path      string
		names     string // joined by a space
		err       string
	}{
		{"a URL with all parts", "http://h.example:81/a/b?c=d", nil, "h.example:81", "/a/b?c=d", "h.example:81", ""},
		{"port and path have defaults", "http://h.example", nil, "h.example", "/", "h.example:80", ""},
		{"an IPv6 address keeps its brackets", "http://[::1]:8080/", nil, "[::1]:8080", "/", "[::1]:8080", ""},
		{"endpoints replace the host, which stays the header", "http://h.example/x", []string{"127.0.0.1:1", "http://127.0.0.1:2"}, "h.example", "/x", "127.0.0.1:1 127.0.0.1:2", ""},
		{"endpoints without a URL", "", []string{"a:1", "b:2"}, "a:1", "/", "a:1 b:2", ""},
		{"the fragment is not sent", "http://h/x#y", nil, "h", "/x", "h:80", ""},
		{"https has a port of its own", "HTTPS://h/", nil, "h", "/", "h:443", ""},
		{"endpoints have the scheme of the URL", "https://h/", []string{"a:1", "https://b"}, "h", "/", "a:1 b:443", ""},
		{"another scheme", "gopher://h/", nil, "", "", "", `scheme "gopher"`},
		{"no host", "http:///x", nil, "", "", "", "no host"},
		{"port 0", "http://h:0/", nil, "", "", "", "port 0"},
		{"a port that is no number", "http://h:x/", nil, "", "", "", "invalid port"},
		{"a user", "http://u@h/", nil, "", "", "", "Authorization"},
		{"an endpoint without port", "http://h/", []string{"a"}, "", "", "", "no port"},
		{"an endpoint with a path", "http://h/", []string{"http://a:1/x"}, "", "", "", "has a path"},
		{"an endpoint with TLS, the URL without", "http://h/", []string{"https://a:1"}, "", "", "", "is not http://"},
		{"nothing", "", nil, "", "", "", "no URL"},
	} {
		s, err := ParseSite(c.url, "", c.endpoints)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error is %v, want one with %q", c.why, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		if got := strings.Join(s.Names, " "); s.Host != c.host || s.Path != c.path || got != c.names {
			t.Errorf("%s: host %q, path %q, replicas %q; want %q, %q, %q", c.why, s.Host, s.Path, got, c.host, c.path, c.names)
		}
	}
}

func TestResolveTakesAddressesAsTheyAre(t *testing.T) {
	s := &Site{Names: []string{"127.0.0.1:80", "[::1]:81", "[::ffff:127.0.0.1]:82"}}
	if err := s.Resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"127.0.0.1:80", "[::1]:81", "127.0.0.1:82"} {
		if got := s.Endpoints[i].Addrs[0].String(); got != want {
			t.Errorf("replica %d is %s, want %s", i, got, want)
		}
	}
}

func TestCheckNamesTheFileLimit(t *testing.T) {
	w := workload(t, "plain")
	w.Service = &service.Spec{}
	w.Connections = 1 << 30
	p, err := NewPlan(w, Choices{})
	if err != nil {
		t.Fatal(err)
	}
	err = (&Setup{}).Check(p)
	if err == nil || !strings.Contains(err.Error(), "connections = 1073741824") || !strings.Contains(err.Error(), "file limit") {
		t.Errorf("error is %v, want one with both numbers", err)
	}
	p.Workload.Connections = 0
	if err := (&Setup{}).Check(p); err != nil || p.Workload.Connections < 1 {
		t.Errorf("the ceiling is %d (%v), want what the file limit allows", p.Workload.Connections, err)
	}
}

func TestCallHeadersAreSentWhereTheyMatter(t *testing.T) {
	site := &Site{Host: "h", Path: "/"}
	for _, c := range []struct {
		why   string
		specs []string
		site  *Site
		how   string
		want  bool
	}{
		{"one plain policy at a stranger's server", []string{"plain"}, site, "auto", false},
		{"a hedge sends twice", []string{"hedge=1ms"}, site, "auto", true},
		{"so does a retry", []string{"retry=1"}, site, "auto", true},
		{"policies are compared", []string{"a:plain", "b:plain"}, site, "auto", true},
		{"the embedded target wants them", []string{"plain"}, nil, "auto", true},
		{"on is on", []string{"plain"}, site, "on", true},
		{"off is off", []string{"hedge=1ms"}, nil, "off", false},
	} {
		p, err := NewPlan(workload(t, c.specs...), Choices{})
		if err != nil {
			t.Fatal(err)
		}
		s := &Setup{Site: c.site, CallHeaders: c.how}
		if got := s.callHeaders(p); got != c.want {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
		ts, err := s.templates(p, newRunID(), newRunID())
		if err != nil {
			t.Fatal(err)
		}
		if sent := strings.Contains(string(ts[0].Bytes()), "Latencylab-Run: "); sent != c.want {
			t.Errorf("%s: header sent is %v, want %v", c.why, sent, c.want)
		}
	}
}

// TestSpin: by itself a loop polls for a tenth of its time at most.
func TestSpin(t *testing.T) {
	for _, c := range []struct {
		why     string
		given   time.Duration
		perS    int64
		threads int
		want    time.Duration
	}{
		{"100 µs at a low rate", -1, 10, 1, 100 * time.Microsecond},
		{"a tenth of the time between calls at a high one", -1, 20_000, 1, 5 * time.Microsecond},
		{"each loop has its part of the rate", -1, 20_000, 2, 10 * time.Microsecond},
		{"as the user says", time.Millisecond, 20_000, 1, time.Millisecond},
		{"not at all", 0, 10, 1, 0},
		{"in closed loop nothing is due", -1, 0, 1, 0},
	} {
		p := &Plan{Closed: c.perS == 0}
		p.Workload.Rate, p.Workload.Threads = units.Rate(c.perS*1e6), c.threads
		if got := (&Setup{Spin: c.given}).spin(p); got != c.want {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
}

// TestBestCase: the services in which nothing that a hedge costs can hurt, and a
// second attempt does not share the luck of the first.
func TestBestCase(t *testing.T) {
	for _, row := range []struct {
		why, service string
		best         bool
	}{
		{"times that each attempt draws", "time: exponential(5ms)\nslow: {share: 2%, time: 1s}\n", true},
		{"a queue", "time: 5ms\nslots: 1\n", false},
		{"windows of capacity", "capacity: {requests: 10, per: 1s}\n", false},
		{"copies of one size", "time: exponential(5ms)\ncopies: mixed\n", false},
		{"slow replicas", "slow: {share: 2%, time: 1s, by: replica}\n", false},
		{"slow moments", "slow: {share: 2%, time: 1s, by: window, window: 1s}\n", false},
		{"all replicas stop at once", "stall: {every: 1s, for: 10ms}\n", false},
		{"an outage", "outage: {for: 10ms}\n", false},
	} {
		if got := bestCase(parseService(t, row.service)); got != row.best {
			t.Errorf("%s: best case %v, want %v", row.why, got, row.best)
		}
	}
}
