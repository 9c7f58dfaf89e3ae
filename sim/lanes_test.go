package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/workloads"
)

// lanes returns a run of policies that share queues on which hedges hurt others.
func lanes(t testing.TB, split Split, specs ...string) Config {
	svc := &service.Spec{Replicas: 3, Time: dist(t, "exponential(2ms)"), Slots: 1, Queue: -1}
	cfg := config(t, "plain", svc, 0)
	for _, s := range specs {
		cfg.Lanes = append(cfg.Lanes, parse(t, s))
	}
	cfg.Split = split
	cfg.Clients = 2
	cfg.Blocks = []workloads.Block{{Burn: time.Second, Data: 3 * time.Second}, {Burn: time.Second, Calls: 2000}}
	return cfg
}

// TestGoldenLanes: digests of runs in which policies share the servers.
func TestGoldenLanes(t *testing.T) {
	slices := Split{Kind: Slices, Slice: 300 * time.Millisecond, Skip: 0.2}
	for _, c := range []struct {
		name  string
		cfg   Config
		want  uint64
		lanes []uint64 // data calls
	}{
		{"coin", lanes(t, Split{}, "plain", "hedge=4ms"), 0x57b62af60145f88f, []uint64{2503, 2504}},
		{"slices", lanes(t, slices, "plain", "hedge=4ms"), 0x997ffc334f9f00d7, nil},
		{"three lanes by coin", lanes(t, Split{}, "hedge=p90,budget=10%", "plain", "deadline=20ms,attempt-timeout=5ms,retry=2,backoff=1ms"), 0x4ecfbb8a01294b86, nil},
	} {
		r := run(t, c.cfg)
		if r.ResultDigest != c.want {
			t.Errorf("digest of the results: %q: %#x, want %#x", c.name, r.ResultDigest, c.want)
		}
		for i, want := range c.lanes {
			if got := r.Lanes[i].Data.Calls.Scheduled; got != want {
				t.Errorf("%s: lane %d has %d data calls, want %d", c.name, i, got, want)
			}
		}
	}
}

// TestLanesAddUp: the books of the lanes add up to those of the run, in every
// block, and their intervals to their books.
func TestLanesAddUp(t *testing.T) {
	cfg := lanes(t, Split{Kind: Slices, Slice: 70 * time.Millisecond, Skip: 0.2}, "plain", "hedge=4ms", "hedge=2ms")
	var ended, burned, sent [3]uint64
	cfg.OnInterval = func(i Interval) {
		ended[i.Lane] += i.Ended
		sent[i.Lane] += i.Sent
		if i.Burn {
			burned[i.Lane] += i.Ended
		}
	}
	r := run(t, cfg)
	if len(r.Lanes) != 3 {
		t.Fatalf("%d lanes, want 3", len(r.Lanes))
	}
	var calls, burn, hedges uint64
	for i := range r.Lanes {
		l := &r.Lanes[i]
		if err := l.Data.Check(); err != nil {
			t.Errorf("lane %d: %v", i, err)
		}
		calls += l.Data.Calls.Scheduled
		burn += l.Burn.Calls.Scheduled
		hedges += l.Data.Attempts.Hedges
		var inBlocks uint64
		for _, b := range r.Blocks {
			inBlocks += b.Lanes[i].Data.Calls.Scheduled
		}
		if inBlocks != l.Data.Calls.Scheduled {
			t.Errorf("lane %d: %d calls in the blocks, want %d", i, inBlocks, l.Data.Calls.Scheduled)
		}
		if want := l.Data.Calls.Scheduled + l.Burn.Calls.Scheduled; ended[i] != want {
			t.Errorf("lane %d: %d calls in its intervals, want %d", i, ended[i], want)
		}
		if want := l.Burn.Calls.Scheduled; burned[i] != want {
			t.Errorf("lane %d: %d calls in its intervals of burn-in, want %d", i, burned[i], want)
		}
		if want := l.Data.Attempts.Sent + l.Burn.Attempts.Sent; sent[i] != want {
			t.Errorf("lane %d: %d attempts in its intervals, want %d", i, sent[i], want)
		}
	}
	if calls != r.Ledger.Calls.Scheduled || burn != r.Burn.Calls.Scheduled || hedges != r.Ledger.Attempts.Hedges {
		t.Errorf("lanes have %d calls, %d burn-in, %d hedges, want %d, %d, %d", calls, burn, hedges, r.Ledger.Calls.Scheduled, r.Burn.Calls.Scheduled, r.Ledger.Attempts.Hedges)
	}
	if r.Lanes[0].Data.Attempts.Hedges != 0 || r.Lanes[1].Data.Attempts.Hedges == 0 {
		t.Errorf("hedges %d of plain and %d of hedge=4ms", r.Lanes[0].Data.Attempts.Hedges, r.Lanes[1].Data.Attempts.Hedges)
	}
}

// TestOneLane: a lane that has all calls is a run of its policy, and lanes that
// do the same are a run of one of them.
func TestOneLane(t *testing.T) {
	for _, c := range []struct {
		about string
		split Split
		specs []string
	}{
		{"one lane by coin", Split{}, []string{"hedge=p90,budget=10%"}},
		{"one lane in slices", Split{Kind: Slices, Slice: 100 * time.Millisecond}, []string{"hedge=p90,budget=10%"}},
		{"the same policy twice by coin", Split{}, []string{"hedge=4ms", "hedge=4ms"}},
		{"the same policy twice in slices", Split{Kind: Slices, Slice: 100 * time.Millisecond, Skip: 0.5}, []string{"hedge=4ms", "hedge=4ms"}},
	} {
		cfg := lanes(t, c.split, c.specs...)
		shared := run(t, cfg)
		cfg.Policy, cfg.Lanes = cfg.Lanes[0], nil
		alone := run(t, cfg)
		if shared.ResultDigest != alone.ResultDigest || shared.DrawsDigest != alone.DrawsDigest || shared.Events != alone.Events {
			t.Errorf("%s: result %#x, draws %#x, want %#x, %#x as alone", c.about, shared.ResultDigest, shared.DrawsDigest, alone.ResultDigest, alone.DrawsDigest)
		}
	}
}

// TestCoin: of every permuted block each lane has its share, and the coin knows
// neither what came before nor how long the run is.
func TestCoin(t *testing.T) {
	for _, n := range []int{1, 2, 3, MaxLanes} {
		cfg := Config{Lanes: make([]policy.Policy, n), Seed: 7}
		s := newSplitter(&cfg)
		same, blocks := 0, 2000
		var last uint8
		for b := range blocks {
			count := make([]int, n)
			for i := range coinShare * n {
				l, burn := s.assign(uint64(b*coinShare*n+i), clock.Time(i))
				if burn {
					t.Fatal("a coin makes no burn-in")
				}
				count[l]++
				if i == 0 {
					if l == last {
						same++
					}
					last = l
				}
			}
			for l, c := range count {
				if c != coinShare {
					t.Fatalf("%d lanes, block %d: %d calls of lane %d, want %d", n, b, c, l, coinShare)
				}
			}
		}
		// The first call of a block is of the lane of the block before with
		// probability 1/n: within five standard deviations.
		p := 1 / float64(n)
		if d := math.Abs(float64(same) - p*float64(blocks)); d > 5*math.Sqrt(float64(blocks)*p*(1-p))+1e-9 {
			t.Errorf("%d lanes: %d of %d blocks begin as the one before", n, same, blocks)
		}
	}
}

// TestSlices: a call belongs to the slice of its intended instant, the first
// share of which is skipped; in each block slices begin anew.
func TestSlices(t *testing.T) {
	cfg := Config{Lanes: make([]policy.Policy, 2), Split: Split{Kind: Slices, Slice: 100, Skip: 0.2}}
	s := newSplitter(&cfg)
	for _, c := range []struct {
		base, at clock.Time
		lane     uint8
		burn     bool
	}{
		{1000, 1000, 0, true}, {1000, 1019, 0, true}, {1000, 1020, 0, false}, {1000, 1099, 0, false},
		{1000, 1100, 1, true}, {1000, 1199, 1, false}, {1000, 1200, 1, true}, {1000, 1320, 0, false},
		{1000, 1750, 1, false}, {2000, 2005, 0, true}, {2000, 2130, 1, false},
	} {
		if c.base != s.base {
			s.begin(c.base)
		}
		if lane, burn := s.assign(0, c.at); lane != c.lane || burn != c.burn {
			t.Errorf("block at %d, call at %d: lane %d, burn-in %v, want %d, %v", c.base, c.at, lane, burn, c.lane, c.burn)
		}
	}
}

// TestNothingDrainsBetweenSlices: what the hedging lane leaves in the queues is
// met by the plain lane, which alone would be faster.
func TestNothingDrainsBetweenSlices(t *testing.T) {
	cfg := lanes(t, Split{Kind: Slices, Slice: 100 * time.Millisecond}, "plain", "hedge=1ms")
	shared := run(t, cfg).Lanes[0].Data.OK.Mean()
	cfg.Lanes = nil
	if alone := run(t, cfg).Ledger.OK.Mean(); shared < 1.2*alone {
		t.Errorf("mean of plain %.2f ms in slices, %.2f ms alone: nothing is left in the queues", shared/1e6, alone/1e6)
	}
}

func TestBadSplits(t *testing.T) {
	for _, c := range []struct {
		split Split
		lanes int
		want  string
	}{
		{Split{Kind: Coin, Slice: time.Second}, 2, "a split by coin has no slice"},
		{Split{Kind: Slices}, 2, "slice = 0s"},
		{Split{Kind: Slices, Slice: time.Second, Skip: 1}, 2, "skip = 1"},
		{Split{Kind: Slices, Slice: time.Second, Skip: math.NaN()}, 2, "skip = NaN"},
		{Split{Kind: 2}, 2, "split = 2"},
		{Split{}, MaxLanes + 1, "65 lanes"},
	} {
		cfg := config(t, "plain", hedgeTail(t), 10)
		cfg.Lanes, cfg.Split = make([]policy.Policy, c.lanes), c.split
		if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v among %d: %v, want %q", c.split, c.lanes, err, c.want)
		}
	}
	cfg := config(t, "plain", hedgeTail(t), 10)
	cfg.Lanes = []policy.Policy{{}, {Deadline: -1}}
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "lane 1: policy:") {
		t.Errorf("%v, want the lane named", err)
	}
}
