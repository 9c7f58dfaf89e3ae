package sim

import (
	"testing"
	"time"

	"latencylab/policy"
	"latencylab/workloads"
)

// TestNothingIsAllocatedForACall: four times the calls take the same memory, but
// for what grows with the largest number that is open at once and with the
// largest response.
func TestNothingIsAllocatedForACall(t *testing.T) {
	for _, c := range []struct {
		about string
		cfg   func() Config
	}{
		{"hedges", func() Config { return config(t, "hedge=58ms", hedgeTail(t), 0) }},
		{"everything", func() Config {
			return config(t, "deadline=200ms,attempt-timeout=60ms,retry=2,backoff=1ms..20ms,hedge=p90,hedge.max=2,budget=20%", hedgeTail(t), 0)
		}},
		{"lanes", func() Config {
			cfg := config(t, "plain", hedgeTail(t), 0)
			cfg.Lanes = []policy.Policy{parse(t, "plain"), parse(t, "hedge=58ms")}
			return cfg
		}},
		{"users", func() Config {
			cfg := config(t, "hedge=58ms", hedgeTail(t), 0)
			cfg.Arrivals, cfg.Users, cfg.Think = workloads.Arrivals{}, 50, dist(t, "exponential(10ms)")
			return cfg
		}},
		{"hops that fan out", func() Config {
			cfg := config(t, "hedge=58ms", hedgeTail(t), 0)
			cfg.Hops = []Hop{{Policy: parse(t, "retry=1,deadline=1s"), Fan: 3, Need: 2, Cancels: true}}
			return cfg
		}},
		{"samples", func() Config {
			cfg := config(t, "hedge=58ms", hedgeTail(t), 0)
			cfg.Sample, cfg.OnSample = time.Millisecond, func(Sample) {}
			cfg.OnInterval = func(Interval) {}
			return cfg
		}},
	} {
		of := func(calls uint64) float64 {
			return testing.AllocsPerRun(1, func() {
				cfg := c.cfg()
				cfg.Blocks = []workloads.Block{{Burn: time.Second, Calls: calls}}
				if _, err := Run(cfg); err != nil {
					t.Fatal(err)
				}
			})
		}
		if few, many := of(5_000), of(20_000); many > few+60 {
			t.Errorf("%s: %.0f allocations for 5,000 calls and %.0f for 20,000", c.about, few, many)
		}
	}
}
