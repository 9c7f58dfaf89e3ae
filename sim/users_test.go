package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/units"
	"latencylab/workloads"
)

// closed returns a run of a closed loop.
func closed(t testing.TB, spec string, svc *service.Spec, users int, think string, b ...workloads.Block) Config {
	cfg := config(t, spec, svc, 0)
	cfg.Arrivals = workloads.Arrivals{}
	cfg.Users, cfg.Think, cfg.Blocks = users, dist(t, think), b
	return cfg
}

func runClosed(t testing.TB, cfg Config) *Result {
	t.Helper()
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Ledger.Check(); err != nil {
		t.Error(err)
	}
	if n := r.Ledger.Calls.Scheduled + r.Burn.Calls.Scheduled; n != r.Arrivals {
		t.Errorf("%d calls scheduled, want %d", n, r.Arrivals)
	}
	return r
}

// TestUsers: what users do can be counted by hand.
func TestUsers(t *testing.T) {
	slot := &service.Spec{Time: dist(t, "10ms"), Slots: 1, Queue: -1}
	free := &service.Spec{Time: dist(t, "10ms")}
	for _, c := range []struct {
		about       string
		cfg         Config
		burn, calls uint64
		mean        time.Duration
		ends        string // data's end and end of each block in ms
	}{
		{"one user that does not think: at 0, 10, … 90", closed(t, "plain", slot, 1, "0s", workloads.Block{Data: 100 * ms}), 0, 10, 10 * ms, "[100 100]"},
		{"one user that thinks: at 5, 20, … 95, the last until 105", closed(t, "plain", slot, 1, "5ms", workloads.Block{Data: 100 * ms}), 0, 7, 10 * ms, "[100 105]"},
		{"three users of one slot: the first calls take 10, 20, 30 ms, all others 30", closed(t, "plain", slot, 3, "0s", workloads.Block{Burn: 25 * ms, Data: 100 * ms}), 5, 10, 30 * ms, "[125 150]"},
		{"a number of calls", closed(t, "plain", free, 4, "0s", workloads.Block{Calls: 10}), 0, 10, 10 * ms, "[20 30]"},
		{"a second block begins with idle servers", closed(t, "plain", free, 2, "2ms", workloads.Block{Calls: 3}, workloads.Block{Data: 13 * ms}), 0, 5, 10 * ms, "[14 24] [37 37]"},
		{"calls that the horizon ends", closed(t, "plain", &service.Spec{Time: dist(t, "1h")}, 2, "0s", workloads.Block{Data: 50 * ms}), 0, 2, 0, "[50 60]"},
	} {
		c.cfg.Horizon = 10 * ms
		if c.mean == 30*ms {
			c.cfg.Horizon = 0
		}
		r := runClosed(t, c.cfg)
		var ends []string
		for _, b := range r.Blocks {
			ends = append(ends, fmt.Sprint([]clock.Time{b.DataEnd / 1e6, b.End / 1e6}))
		}
		if got := strings.Join(ends, " "); r.Burn.Calls.Scheduled != c.burn || r.Ledger.Calls.Scheduled != c.calls || r.Ledger.OK.Mean() != float64(c.mean) || got != c.ends {
			t.Errorf("%s: %d burn-in, %d calls of %.3f ms, blocks end at %s, want %d, %d, %v, %s",
				c.about, r.Burn.Calls.Scheduled, r.Ledger.Calls.Scheduled, r.Ledger.OK.Mean()/1e6, got, c.burn, c.calls, c.mean, c.ends)
		}
		if r.Ledger.Lag.Count() != 0 || r.ArrivalsDigest != 0 {
			t.Errorf("%s: a closed loop has no schedule to lag behind", c.about)
		}
	}
}

// TestMachineRepair: N users that think and share one slot, all exponential
// (Kleinrock, Queueing Systems I, 1975, 3.8): the slot is idle with probability
// 1 / sum over k of N!/(N-k)! (S/Z)^k, and by Little's law R = N S/busy - Z.
func TestMachineRepair(t *testing.T) {
	for _, c := range []struct {
		users int
		think float64 // ms, the service time is 1 ms
	}{{1, 1}, {5, 4}, {20, 10}, {50, 100}} {
		idle, term := 0.0, 1.0
		for k := 0; k <= c.users; k++ {
			idle += term
			term *= float64(c.users-k) / c.think
		}
		idle = 1 / idle
		want := float64(c.users)/(1-idle) - c.think
		svc := &service.Spec{Time: dist(t, "exponential(1ms)"), Slots: 1, Queue: -1}
		think := fmt.Sprintf("exponential(%v)", time.Duration(c.think*1e6))
		r := runClosed(t, closed(t, "plain", svc, c.users, think, workloads.Block{Burn: time.Second, Calls: 200_000 / fewer}))
		near(t, fmt.Sprintf("%d users: mean", c.users), r.Ledger.OK.Mean()/1e6, want, 0.02)
	}
}

// TestGoldenUsers: digests of closed loops.
func TestGoldenUsers(t *testing.T) {
	svc := &service.Spec{Replicas: 3, Time: dist(t, "exponential(2ms)"), Slots: 1, Queue: -1, Cancel: service.CancelQueued}
	for _, c := range []struct {
		spec, think string
		want        uint64
	}{
		{"plain", "exponential(10ms)", 0x22853794de4119f2},
		{"hedge=4ms,budget=10%", "uniform(0s,5ms)", 0x6cead47cf5de30e},
		{"deadline=6ms,attempt-timeout=3ms,retry=2,backoff=1ms", "0s", 0xc6639f2f9b6eabe8},
	} {
		cfg := closed(t, c.spec, svc, 12, c.think, workloads.Block{Burn: time.Second, Data: time.Second}, workloads.Block{Calls: 3000})
		cfg.Clients, cfg.Net = 5, 100*time.Microsecond
		a, b := runClosed(t, cfg), runClosed(t, cfg)
		if a.ResultDigest != c.want {
			t.Errorf("digest of the results: %q: %#x, want %#x", c.spec, a.ResultDigest, c.want)
		}
		if a.ResultDigest != b.ResultDigest || a.Events != b.Events {
			t.Errorf("%s: two runs differ", c.spec)
		}
	}
}

// TestUsersThinkAlike: what a user thinks before its n-th call does not depend on
// the policy.
func TestUsersThinkAlike(t *testing.T) {
	cfg := closed(t, "plain", &service.Spec{Time: dist(t, "1ms")}, 3, "uniform(1ms,9ms)", workloads.Block{Data: 2 * time.Second})
	fast := runClosed(t, cfg)
	cfg.Service = &service.Spec{Time: dist(t, "11ms")}
	slow := runClosed(t, cfg)
	// A turn takes 5 ms of thinking and the service time.
	near(t, "calls of fast turns", float64(fast.Arrivals), 3*2000/6.0, 0.03)
	near(t, "calls of slow turns", float64(slow.Arrivals), 3*2000/16.0, 0.03)
}

// TestStuck: users whose calls take no time are an error and not a run without
// an end; with a time however short there is an end.
func TestStuck(t *testing.T) {
	cfg := closed(t, "plain", &service.Spec{}, 2, "0s", workloads.Block{Data: time.Second})
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "the clock stands still") {
		t.Errorf("%v, want an error", err)
	}
	cfg.Blocks = []workloads.Block{{Calls: 1000}}
	if r := runClosed(t, cfg); r.Elapsed != 0 || r.Ledger.Calls.OK != 1000 {
		t.Errorf("%d calls in %v, want 1,000 at one instant", r.Ledger.Calls.OK, r.Elapsed)
	}
	cfg.Service, cfg.Blocks = &service.Spec{Time: service.Constant(1)}, []workloads.Block{{Data: 200 * time.Microsecond}}
	if r := runClosed(t, cfg); r.Ledger.Calls.OK != 400_000 {
		t.Errorf("%d calls of 1 ns in 200 µs, want 400,000", r.Ledger.Calls.OK)
	}
}

// TestStoppedUsers: a closed loop ends when it is told to, and where there is no
// room for its users.
func TestStoppedUsers(t *testing.T) {
	cfg := closed(t, "plain", hedgeTail(t), 50, "0s", workloads.Block{Burn: time.Second, Calls: 1_000_000}, workloads.Block{Calls: 5})
	asked := 0
	cfg.Stop = func() bool { asked++; return asked == 3 }
	r := runClosed(t, cfg)
	if b := r.Blocks[0]; !r.Stopped || len(r.Blocks) != 1 || b.DataEnd != b.End || b.Data.Calls.Unfinished == 0 {
		t.Errorf("stopped %v, %d blocks, data ends at %d, block at %d", r.Stopped, len(r.Blocks), b.DataEnd, b.End)
	}
	cfg.Stop, cfg.Open = nil, 49
	if r := runClosed(t, cfg); r.Overflow == nil {
		t.Error("50 users, and room for 49 calls")
	}
}

func TestBadUsers(t *testing.T) {
	for _, c := range []struct {
		about string
		edit  func(*Config)
		want  string
	}{
		{"a negative number", func(c *Config) { c.Users = -1 }, "users = -1"},
		{"think without users", func(c *Config) { c.Users = 0 }, "think is given, but no users"},
		{"users and a rate", func(c *Config) { c.Arrivals = workloads.NewArrivals(workloads.Poisson, units.Rate(1e9), 1) }, "users = 2 and a rate"},
		{"users of two policies", func(c *Config) { c.Lanes = make([]policy.Policy, 2) }, "users = 2 and 2 lanes"},
	} {
		cfg := closed(t, "plain", hedgeTail(t), 2, "1ms", workloads.Block{Calls: 10})
		c.edit(&cfg)
		if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.about, err, c.want)
		}
	}
}
