package service

import (
	"math"
	"testing"
	"time"
)

// TestMeanIsThatOfTheDraws: the closed forms agree with the mean of many draws.
func TestMeanIsThatOfTheDraws(t *testing.T) {
	five := mustParse(t, "5ms")
	for _, c := range []struct {
		about string
		spec  Spec
		want  float64 // ms; 0: not known beforehand
	}{
		{"constant", Spec{Time: five}, 5},
		{"uniform, a share slow", Spec{Time: mustParse(t, "uniform(20ms,60ms)"), Slow: Slow{Share: 0.02, Time: mustParse(t, "1s")}}, 59.2},
		{"a slower replica", Spec{Time: five, Each: []Each{{Factor: 1.5}}}, 7.5},
		{"a replica with a time of its own", Spec{Time: five, Each: []Each{{Time: &Dist{a: time.Millisecond}}}}, 1},
		{"all replicas slow", Spec{Time: five, Slow: Slow{Share: 1, Time: mustParse(t, "9ms"), By: SlowByReplica}}, 9},
		{"no replica slow, with a time that has no mean", Spec{Time: five, Slow: Slow{Time: mustParse(t, "pareto(1ms,1)"), By: SlowByReplica}}, 5},
		{"a share slower by a factor", Spec{Time: mustParse(t, "exponential(5ms)"), Slow: Slow{Share: 0.1, Factor: 11}, Copies: CopiesMixed}, 10},
		{"normal, cut at 0", Spec{Time: mustParse(t, "normal(1ms,2ms)")}, 0},
		{"lognormal", Spec{Time: mustParse(t, "lognormal(5ms,0.5)")}, 0},
		{"exponential", Spec{Time: mustParse(t, "exponential(5ms)")}, 5},
		{"pareto", Spec{Time: mustParse(t, "pareto(1ms,3)")}, 1.5},
		{"weibull", Spec{Time: mustParse(t, "weibull(5ms,2)")}, 0},
		{"mixture", Spec{Time: mustParse(t, "mixture(90%:1ms,10%:exponential(11ms))")}, 2},
		{"empirical", Spec{Time: mustParse(t, "empirical(1ms,2ms,6ms)")}, 3},
	} {
		mean, ok := c.spec.Mean(1, 0)
		if !ok || c.want > 0 && math.Abs(mean/1e6-c.want) > 1e-9 {
			t.Errorf("%s: mean %v ns, %v, want %v ms", c.about, mean, ok, c.want)
		}
		sum, n := 0.0, uint64(50_000)
		for call := range n {
			drawn, _ := c.spec.Draw(1, 0, call, 1)
			sum += float64(drawn)
		}
		if got := sum / float64(n); math.Abs(got/mean-1) > 0.03 {
			t.Errorf("%s: mean of the draws %.0f ns, of the closed form %.0f", c.about, got, mean)
		}
	}
}

func TestLoad(t *testing.T) {
	ten := mustParse(t, "10ms")
	for _, c := range []struct {
		about   string
		spec    Spec
		replica int
		rate    float64
		rho     float64
		ok      bool
	}{
		{"no limit of slots", Spec{Time: ten}, 0, 1000, 0, false},
		{"80 of 100 requests a second", Spec{Time: ten, Slots: 1}, 0, 80, 0.8, true},
		{"more than two slots can do", Spec{Time: ten, Slots: 2}, 0, 300, 1.5, true},
		{"the slower replica", Spec{Time: ten, Slots: 2, Replicas: 2, Each: []Each{{Replica: 1, Factor: 2}}}, 1, 150, 1.5, true},
		{"stalls that leave half of the time", Spec{Time: ten, Slots: 1, Stalls: []Stall{{Every: time.Second, For: Constant(500 * time.Millisecond)}}}, 0, 40, 0.8, true},
		{"stalls of another replica", Spec{Time: ten, Slots: 1, Replicas: 2, Stalls: []Stall{{Every: time.Second, For: Constant(500 * time.Millisecond), Replicas: []int{1}}}}, 0, 40, 0.4, true},
		{"80 requests a window of 100", Spec{Capacity: Capacity{Requests: 100, Per: 100 * time.Millisecond}}, 0, 800, 0.8, true},
		{"no time at all", Spec{Slots: 1}, 0, 1e9, 0, true},
		{"no finite mean", Spec{Time: mustParse(t, "pareto(1ns,1)"), Slots: 9}, 0, 1e-6, math.Inf(1), true},
		{"a mean that overflows", Spec{Time: mustParse(t, "lognormal(1ns,1000)"), Slots: 9}, 0, 1, math.Inf(1), true},
		{"a factor that overflows", Spec{Time: ten, Each: []Each{{Factor: math.MaxFloat64}}, Slots: 1}, 0, 1, math.Inf(1), true},
		{"a request that takes no time, however slow the replica", Spec{Each: []Each{{Factor: math.MaxFloat64}}, Slots: 1}, 0, 1, 0, true},
	} {
		rho, ok := c.spec.Load(1, c.replica, c.rate)
		if ok != c.ok || rho != c.rho && math.Abs(rho-c.rho) > 1e-12 {
			t.Errorf("%s: load %v, %v, want %v, %v", c.about, rho, ok, c.rho, c.ok)
		}
	}
}
