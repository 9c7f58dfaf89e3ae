package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"latencylab/clock"
)

// TestTimersAgainstSort sets, moves and removes timers at random and compares
// what Pop gives with a sorted list.
func TestTimersAgainstSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var tm Timers
	want := map[uint32]clock.Time{}
	for range 20_000 {
		id := uint32(r.IntN(200))
		switch r.IntN(4) {
		case 0:
			tm.Set(id, clock.Never)
			delete(want, id)
		default:
			at := clock.Time(r.IntN(1000))
			tm.Set(id, at)
			want[id] = at
		}
		if tm.Len() != len(want) {
			t.Fatalf("%d timers set, want %d", tm.Len(), len(want))
		}
	}
	var due []clock.Time
	for _, at := range want {
		due = append(due, at)
	}
	slices.Sort(due)
	for i, at := range due {
		if tm.Next() != at {
			t.Fatalf("timer %d is due at %d, want %d", i, tm.Next(), at)
		}
		if id, ok := tm.Pop(at - 1); ok {
			t.Fatalf("timer of %d fired before it was due", id)
		}
		id, ok := tm.Pop(at)
		if !ok || want[id] != at {
			t.Fatalf("Pop(%d) = %d, %v; its timer is due at %d", at, id, ok, want[id])
		}
	}
	if tm.Next() != clock.Never {
		t.Fatal("timers are left after all have fired")
	}
}

func TestTimersDoNotAllocate(t *testing.T) {
	var tm Timers
	for id := range uint32(100) {
		tm.Set(id, 5)
	}
	n := testing.AllocsPerRun(100, func() {
		for id := range uint32(100) {
			tm.Set(id, clock.Time(id))
		}
		for id := range uint32(100) {
			tm.Set(id, clock.Never)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
