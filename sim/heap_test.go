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

// TestHeapSorts pushes and pops in a random mix, with few distinct instants so
// that most comparisons are decided by class and sequence.
func TestHeapSorts(t *testing.T) {
	var h heap
	var want []event
	for i := range uint64(20_000) {
		u := draw.Bits(1, draw.Phase, i, 0, 0)
		if u%3 != 0 || len(want) == 0 {
			at, c := clock.Time(u>>8%50), class(u>>16%3)
			e := event{at: at, what: what(u >> 24 % 5), index: uint32(i)}
			e.order = h.push(at, c, e.what, e.index)
			n, _ := slices.BinarySearchFunc(want, e, compare)
			want = slices.Insert(want, n, e)
			continue
		}
		if got := h.pop(); got != want[0] {
			t.Fatalf("step %d: popped %+v, want %+v", i, got, want[0])
		}
		want = want[1:]
		if i%1000 == 0 {
			odd := func(e *event) bool { return e.index%2 == 1 }
			h.sweep(odd)
			want = slices.DeleteFunc(want, func(e event) bool { return !odd(&e) })
		}
	}
	for len(want) > 0 {
		if got := h.pop(); got != want[0] {
			t.Fatalf("popped %+v, want %+v", got, want[0])
		}
		want = want[1:]
	}
	if len(h.a) != 0 {
		t.Errorf("%d events left", len(h.a))
	}
}

func TestSweepOfEverything(t *testing.T) {
	for n := range 6 {
		var h heap
		for i := range n {
			h.push(clock.Time(i), timers, timer, 0)
		}
		h.sweep(func(*event) bool { return false })
		if len(h.a) != 0 {
			t.Errorf("%d of %d events left", len(h.a), n)
		}
	}
}

// TestTimersDoNotPileUp: calls end in 5 ms and their deadlines lie hours ahead.
func TestTimersDoNotPileUp(t *testing.T) {
	cfg := config(t, "deadline=2h,hedge=1h", hedgeTail(t), 200_000)
	w := newWorld(&cfg)
	w.run(cfg.Blocks[0])
	if n := cap(w.events.a); n > 8192 {
		t.Errorf("room for %d events at the end, want a few thousand at most", n)
	}
	if n := len(w.calls); n > 500 {
		t.Errorf("%d records of calls, want those that were open at once", n)
	}
}
