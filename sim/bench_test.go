package sim

import (
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// BenchmarkHedged is a million and more hedged calls a second on one core.
func BenchmarkHedged(b *testing.B) {
	const calls = 500_000
	b.ReportAllocs()
	var events uint64
	for b.Loop() {
		r, err := Run(config(b, "hedge=58ms", hedgeTail(b), calls))
		if err != nil {
			b.Fatal(err)
		}
		events += r.Events
	}
	s := b.Elapsed().Seconds()
	b.ReportMetric(calls*float64(b.N)/s, "calls/s")
	b.ReportMetric(float64(events)/s, "events/s")
}

// BenchmarkHeapFloor is the least that a simulation of the same calls costs: the
// events and the draws, and nothing else.
func BenchmarkHeapFloor(b *testing.B) {
	const calls = 500_000
	drawn := func(call uint64, attempt uint32) clock.Time {
		if draw.Uniform(1, draw.Slow, call, attempt, 0) < 0.02 {
			return clock.Time(time.Second)
		}
		return 20e6 + clock.Time(40e6*draw.Uniform(1, draw.Service, call, attempt, 0))
	}
	done := make([]bool, calls)
	for b.Loop() {
		clear(done)
		var h heap
		at, next := clock.Time(0), uint32(0)
		for next < calls || len(h.a) > 0 {
			if next < calls && (len(h.a) == 0 || at < h.a[0].at) {
				h.push(at+drawn(uint64(next), 1), answers, end, next)
				h.push(at+58e6, timers, timer, next)
				at += clock.Time(1e6 * -draw.Log(draw.Uniform(1, draw.Arrival, uint64(next), 0, 0)))
				next++
				continue
			}
			e := h.pop()
			switch {
			case done[e.index]:
			case e.what == end:
				done[e.index] = true
			default:
				h.push(e.at+drawn(uint64(e.index), 2), answers, end, e.index)
			}
		}
	}
	b.ReportMetric(calls*float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
