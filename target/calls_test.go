package target

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"latencylab/service"
)

// TestCallsAgainstAMap: a call among the last of the window is always known, and
// one that is not known never seems to be.
func TestCallsAgainstAMap(t *testing.T) {
	const window = 1 << 13
	for _, row := range []struct {
		why  string
		call func(r *rand.Rand, i uint64) uint64
	}{
		{"numbers that follow each other", func(_ *rand.Rand, i uint64) uint64 { return i }},
		{"multiples of a page", func(_ *rand.Rand, i uint64) uint64 { return i * lanes }},
		{"any numbers", func(r *rand.Rand, _ uint64) uint64 { return r.Uint64() }},
	} {
		t.Run(row.why, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			c := &calls{window: window}
			type seen struct {
				order  int // among the calls, by first arrival
				counts [deeds]uint64
			}
			known := map[[2]uint64]*seen{}
			var list [][2]uint64
			for i := range uint64(5 * window) {
				k := [2]uint64{r.Uint64N(3), row.call(r, i)}
				if len(list) > 0 && r.IntN(3) == 0 {
					k = list[max(0, len(list)-1-r.IntN(window))]
				}
				s, again := known[k]
				before, ok := c.arrive(keyOf(uint16(k[0]), k[1], 0))
				c.making.Wait()
				if !again {
					s = &seen{order: len(list)}
					known[k] = s
					list = append(list, k)
				}
				if !ok || before != min(s.counts[didArrive], 2) {
					t.Fatalf("request %d: %d before, %v; want %d", i, before, ok, s.counts[didArrive])
				}
				s.counts[didArrive]++
				if d := didWork + deed(r.IntN(2)); r.IntN(2) == 0 {
					if before, ok := c.did(keyOf(uint16(k[0]), k[1], 0), d); !ok || before != min(s.counts[d], 2) {
						t.Fatalf("request %d, deed %d: %d before, %v; want %d", i, d, before, ok, s.counts[d])
					}
					s.counts[d]++
				}
			}
			// The oldest are forgotten, and so are all after a reset.
			if _, ok := c.did(keyOf(uint16(list[0][0]), list[0][1], 0), didWork); ok {
				t.Error("the first call is known for ever")
			}
			last := list[len(list)-1]
			if _, ok := c.did(keyOf(uint16(last[0]), last[1], 1), didWork); ok {
				t.Error("the last call is known after a reset")
			}
		})
	}
}

// TestCallsFromManyLoops: each request is told as exactly one of first, second
// and later, whoever comes first.
func TestCallsFromManyLoops(t *testing.T) {
	const window, loops, each = 1 << 10, 4, 20_000
	c := &calls{window: window}
	var first, second, later, untold atomic.Uint64
	var wg sync.WaitGroup
	for range loops {
		wg.Go(func() {
			for call := range uint64(each) {
				before, ok := c.arrive(keyOf(0, call, 0))
				switch {
				case !ok:
					untold.Add(1)
				case before == 0:
					first.Add(1)
				case before == 1:
					second.Add(1)
				default:
					later.Add(1)
				}
			}
		})
	}
	wg.Wait()
	c.making.Wait()
	if n := first.Load() + second.Load() + later.Load() + untold.Load(); n != loops*each || first.Load() < each {
		t.Errorf("first %d, second %d, later %d, untold %d of %d", first.Load(), second.Load(), later.Load(), untold.Load(), loops*each)
	}
}

func TestCallsOfTheTarget(t *testing.T) {
	if n := newGeneration(KnownCalls); len(n.slots)*8 > 13<<20 {
		t.Errorf("a generation takes %d bytes, want at most 13 MiB", len(n.slots)*8)
	}
	spec := &service.Spec{Replicas: 2, Queue: 0, Slots: 1, Each: []service.Each{{Replica: 1, Time: new(dist(t, "1h"))}}, Cancel: service.CancelRunning}
	tg := begin(t, Config{Service: spec, Threads: 2})
	a, b, shed := dial(t, tg.Replicas()[0]), dial(t, tg.Replicas()[1]), dial(t, tg.Replicas()[1])
	ask := func(c *caller, call, attempt uint64) {
		t.Helper()
		c.send(get("r", call, attempt))
		c.answer("GET")
	}
	ask(a, 1, 1)
	ask(a, 2, 1)
	ask(a, 2, 2)
	b.send(get("r", 1, 2)) // the other loop works on it until its caller leaves
	settle(t, "arrival", func() bool { return tg.Ledger().Run("r").Later == 2 })
	ask(shed, 2, 3) // shed: answered without work
	b.Close()
	settle(t, "end", func() bool { return tg.Ledger().Run("r").Cancelled.Dropped == 1 })
	a.send(plainGet)
	a.answer("GET")
	r := tg.Ledger().Run("r")
	sums(t, r)
	sums(t, tg.Ledger().Run(""))
	want := Duplicates{
		Arrived:  Repeats{Calls: 2, Repeats: 3, CallsRepeated: 2},
		Worked:   Repeats{Calls: 2, Repeats: 2, CallsRepeated: 2},
		Answered: Repeats{Calls: 2, Repeats: 2, CallsRepeated: 1},
	}
	if r.Duplicates != want {
		t.Errorf("got  %+v\nwant %+v", r.Duplicates, want)
	}
	if r := tg.Ledger().Run(""); r.Duplicates.Arrived.Untold != 1 || r.Duplicates.Worked.Untold != 1 || r.Duplicates.Answered.Untold != 1 {
		t.Errorf("a request without number: %+v", r.Duplicates)
	}
	tg.Reset()
	ask(a, 1, 1)
	if got := tg.Ledger().Run("r").Duplicates.Arrived; got != (Repeats{Calls: 1}) {
		t.Errorf("after a reset: %+v", got)
	}
}

func BenchmarkCalls(b *testing.B) {
	c := &calls{window: KnownCalls}
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		k := keyOf(0, i, 0)
		c.arrive(k)
		c.did(k, didWork)
		c.did(k, didAnswer)
		i++
	}
}
