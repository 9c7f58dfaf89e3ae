package sim

import (
	"slices"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// BenchmarkHedged simulates hedged calls with the books of both sides, and in
// turn pushes and pops the same events (arrivals, answers, timers) on a bare heap
// with the same draws and nothing else, which is the least that a simulation on
// one heap costs. The two take turns of 50,000 calls, so that a machine whose
// speed drifts slows both.
//
// Metrics: calls/s and heap-calls/s of either, and ratio, the median of the
// first's speed over the second's in all turns.
func BenchmarkHedged(b *testing.B) {
	const calls = 50_000
	b.ReportAllocs()
	cfg := config(b, "hedge=58ms", hedgeTail(b), calls)
	var f floor
	var full, bare time.Duration
	var events, pops uint64
	var ratios []float64
	for b.Loop() {
		begin := time.Now()
		r, err := Run(cfg)
		one := time.Since(begin)
		if err != nil {
			b.Fatal(err)
		}
		events += r.Events
		begin = time.Now()
		pops += f.run(calls)
		two := time.Since(begin)
		full, bare = full+one, bare+two
		ratios = append(ratios, two.Seconds()/one.Seconds())
	}
	if events > pops || events < pops-pops/1000 { // a run leaves its last timers
		b.Fatalf("%d events simulated, %d on the bare heap: want the same but for the last", events, pops)
	}
	n := float64(b.N) * calls
	b.ReportMetric(n/full.Seconds(), "calls/s")
	b.ReportMetric(n/bare.Seconds(), "heap-calls/s")
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}

// floor is the bare heap and which calls are done.
type floor struct {
	h    heap
	done []bool
}

// run pushes and pops the events of hedge=58ms on the service of hedgeTail, and
// returns how many it popped.
func (f *floor) run(calls uint32) (pops uint64) {
	drawn := func(call uint64, attempt uint32) clock.Time {
		if draw.Uniform(1, draw.Slow, call, attempt, 0) < 0.02 {
			return clock.Time(time.Second)
		}
		return 20e6 + clock.Time(40e6*draw.Uniform(1, draw.Service, call, attempt, 0))
	}
	if len(f.done) < int(calls) {
		f.done = make([]bool, calls)
	}
	clear(f.done)
	h := &f.h
	arrival := func(after clock.Time, call uint32) {
		if call < calls {
			at := after + clock.Time(1e6*-draw.Log(draw.Uniform(1, draw.Arrival, uint64(call), 0, 0))+0.5)
			h.add(h.event(at, arrivals, begin, call))
		}
	}
	for arrival(0, 0); len(h.a) > 0; pops++ {
		e := h.pop()
		switch {
		case e.what == begin:
			h.add(h.event(e.at+drawn(uint64(e.index), 1), answers, end, e.index))
			h.add(h.event(e.at+58e6, timers, timer, e.index))
			arrival(e.at, e.index+1)
		case f.done[e.index]:
		case e.what == end:
			f.done[e.index] = true
		default:
			h.add(h.event(e.at+drawn(uint64(e.index), 2), answers, end, e.index))
		}
	}
	return pops
}
