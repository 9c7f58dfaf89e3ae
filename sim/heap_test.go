package sim

import (
	"cmp"
	"slices"
	"testing"

	"latencylab/clock"
	"latencylab/draw"
)

func compare(x, y event) int {
	return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.order, y.order))
}

// TestEventsSort pushes and pops in a random mix, with few distinct instants so
// that most comparisons are decided by class and sequence, and with many, so that
// lines and heap hold some.
func TestEventsSort(t *testing.T) {
	for _, spread := range []uint64{1, 50, 1000, 1 << 40} {
		sorts(t, spread)
	}
}

func sorts(t *testing.T, spread uint64) {
	t.Helper()
	var h events
	var want []event
	for i := range uint64(20_000) {
		u := draw.Bits(1, draw.Phase, i, 0, 0)
		if u%3 != 0 || len(want) == 0 {
			// Timers come some time after the one pushed before, most of them in order.
			at, c := clock.Time(i/2*spread/10+u>>8%spread), class(u>>56%4)
			e := event{at: at, what: what(u >> 60 % 6), index: uint32(i)}
			e.order = h.push(at, c, e.what, e.index)
			n, _ := slices.BinarySearchFunc(want, e, compare)
			want = slices.Insert(want, n, e)
			continue
		}
		if got := next(&h); got != want[0] {
			t.Fatalf("spread %d, step %d: popped %+v, want %+v", spread, i, got, want[0])
		}
		want = want[1:]
		if i%1000 == 0 {
			odd := func(e *event) bool { return e.index%2 == 1 }
			h.sweep(odd)
			want = slices.DeleteFunc(want, func(e event) bool { return !odd(&e) })
		}
	}
	for len(want) > 0 {
		if got := next(&h); got != want[0] {
			t.Fatalf("spread %d: popped %+v, want %+v", spread, got, want[0])
		}
		want = want[1:]
	}
	if h.len() != 0 || h.peek() != clock.Never {
		t.Errorf("%d events left", h.len())
	}
}

func next(q *events) event {
	at := q.peek()
	e := q.pop()
	if e.at != at {
		return event{}
	}
	return e
}

func TestSweepOfEverything(t *testing.T) {
	for n := range 6 {
		var h events
		for i := range n {
			h.push(clock.Time(i), timers, timer, 0)
			h.push(clock.Time(i), answers, end, 0)
		}
		h.sweep(func(*event) bool { return false })
		if h.len() != 0 {
			t.Errorf("%d of %d events left", h.len(), 2*n)
		}
	}
}

// TestTimersDoNotPileUp: calls end in 5 ms and their deadlines lie hours ahead.
func TestTimersDoNotPileUp(t *testing.T) {
	cfg := config(t, "deadline=2h,hedge=1h", hedgeTail(t), 200_000)
	w := newWorld(&cfg)
	w.run(cfg.Blocks[0])
	n := cap(w.events.heap.a)
	for i := range w.events.lines {
		n += cap(w.events.lines[i].a)
	}
	if n > 8192 {
		t.Errorf("room for %d events at the end, want a few thousand at most", n)
	}
	if n := len(w.calls); n > 500 {
		t.Errorf("%d records of calls, want those that were open at once", n)
	}
}
