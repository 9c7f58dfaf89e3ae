package target

import (
	"sync"
	"sync/atomic"

	"latencylab/draw"
)

const (
	// KnownCalls is the number of calls over which repeats are told: a call is
	// known until at least so many newer ones, of all runs, have arrived, and is
	// forgotten before twice as many have.
	KnownCalls = 1 << 20

	lanes     = 512 // slots of a page: neighbouring calls lie in 4 KiB
	maxProbes = 64  // pages that a call may lie in
)

// calls tells which calls have arrived, were worked on and were answered before,
// whatever replica and loop they came to. Loops share it without locks: a call is
// one word of 64 bits.
//
// It keeps two generations. A call that neither knows goes to the current one;
// when that has as many as the window, it becomes the previous one, and what was
// previous is forgotten. The third, which will be the next, is emptied by a
// goroutine of its own meanwhile. The memory is fixed: 36 MiB from the second
// million calls on.
type calls struct {
	window            int64
	current, previous atomic.Pointer[generation]
	next              atomic.Pointer[generation] // empty; nil while it is made
	turning           sync.Mutex                 // one loop turns the generations
	retired           *generation                // guarded by turning, then that of the goroutine
	making            sync.WaitGroup
}

// generation is a table with open addressing. Slot j of a page holds calls whose
// number ends in j, mixed; a page that has another call there leads to the next.
type generation struct {
	pages uint32
	slots []atomic.Uint64
	used  atomic.Int64
}

// A word holds 58 bits of the hash of (run, call) and, for each deed, whether it
// was done never, once or more often.
const (
	deedBits = 2
	deedMask = 1<<deedBits - 1
	hashMask = ^uint64(1<<(deedBits*deeds) - 1)
)

// deed is what is counted of a call.
type deed uint8

const (
	didArrive deed = iota
	didWork
	didAnswer
	deeds
)

// key is a call as the tables know it.
type key struct {
	hash uint64 // of (run, call), without the low bits
	page uint64 // hash of (run, page of the call)
	lane uint32
}

// keyOf is the key of a call of the run with that number since that reset.
func keyOf(run uint16, call, resets uint64) key {
	page := draw.Mix(uint64(run), call/lanes, resets)
	return key{draw.Mix(uint64(run), call, resets) & hashMask, page, uint32(call^page>>52) % lanes}
}

func newGeneration(window int64) *generation {
	// A third of the slots stays free, so that no call finds all of its slots taken
	// but by a chance of one in a billion. With few pages lanes would differ more.
	pages := uint32(max(window*3/2/lanes, 256)) | 1
	return &generation{pages: pages, slots: make([]atomic.Uint64, int(pages)*lanes)}
}

// find returns the slot of k, or the free one where it would go. nil means that
// all that it may have are taken.
func (g *generation) find(k key) (slot *atomic.Uint64, word uint64) {
	p := uint32((k.page >> 32) * uint64(g.pages) >> 32)
	step := 1 + uint32((k.page&(1<<32-1))*uint64(g.pages-1)>>32)
	for range maxProbes {
		slot = &g.slots[p*lanes+k.lane]
		if word = slot.Load(); word == 0 || word&hashMask == k.hash {
			return slot, word
		}
		if p += step; p >= g.pages {
			p -= g.pages
		}
	}
	return nil, 0
}

// Repeats counts what was done for calls more than once: requests done = calls +
// repeats + untold.
type Repeats struct {
	Calls   uint64 `json:"calls"`   // for which it was done at least once
	Repeats uint64 `json:"repeats"` // requests for which it was done although it had been done before
	// CallsRepeated are the calls for which it was done more than once.
	CallsRepeated uint64 `json:"calls_repeated"`
	// Untold are requests without Latencylab-Call or of a run key beyond MaxRuns,
	// and ends of calls that were forgotten while they were under way.
	Untold uint64 `json:"untold"`
}

func (r *Repeats) add(o Repeats) {
	r.Calls += o.Calls
	r.Repeats += o.Repeats
	r.CallsRepeated += o.CallsRepeated
	r.Untold += o.Untold
}

// count adds what a deed for a call was, by how often it had been done.
func (r *Repeats) count(before uint64, ok bool) {
	switch {
	case !ok:
		r.Untold++
	case before == 0:
		r.Calls++
	case before == 1:
		r.CallsRepeated++
		r.Repeats++
	default:
		r.Repeats++
	}
}

// Duplicates says of the requests that have arrived, of those that were worked
// on and have ended, and of those that were answered while their caller was
// there, how many were of a call for which that had been done before.
type Duplicates struct {
	Arrived  Repeats `json:"arrived"`
	Worked   Repeats `json:"worked"`
	Answered Repeats `json:"answered"`
}

func (d *Duplicates) add(o *Duplicates) {
	d.Arrived.add(o.Arrived)
	d.Worked.add(o.Worked)
	d.Answered.add(o.Answered)
}

// arrive notes that a request of k has arrived. It returns how many had before,
// 2 for more than one; ok is false when there is no room.
func (c *calls) arrive(k key) (before uint64, ok bool) {
	cur := c.current.Load()
	if cur == nil {
		cur = c.begin()
	}
	for {
		slot, word := cur.find(k)
		if word == 0 {
			if before, ok := c.note(c.previous.Load(), k, didArrive); ok {
				return before, true
			}
			if slot == nil {
				return 0, false
			}
			if slot.CompareAndSwap(0, k.hash|1) {
				c.taken(cur)
				return 0, true
			}
			continue // another loop was there first, perhaps with the same call
		}
		if before, ok := bump(slot, word, didArrive); ok {
			return before, true
		}
	}
}

// did is arrive for what is done to a request that has arrived.
func (c *calls) did(k key, d deed) (before uint64, ok bool) {
	if before, ok = c.note(c.current.Load(), k, d); !ok {
		before, ok = c.note(c.previous.Load(), k, d)
	}
	return before, ok
}

// note counts a deed for k if the generation knows it.
func (c *calls) note(g *generation, k key, d deed) (before uint64, ok bool) {
	if g == nil {
		return 0, false
	}
	for {
		slot, word := g.find(k)
		if word == 0 {
			return 0, false
		}
		if before, ok := bump(slot, word, d); ok {
			return before, true
		}
	}
}

// bump counts a deed in a word; ok is false when it has changed meanwhile.
func bump(slot *atomic.Uint64, word uint64, d deed) (before uint64, ok bool) {
	shift := deedBits * d
	before = word >> shift & deedMask
	if before == 2 {
		return 2, true
	}
	return before, slot.CompareAndSwap(word, word+1<<shift)
}

// begin makes the first generation, when the first call that has a number arrives.
func (c *calls) begin() *generation {
	c.turning.Lock()
	defer c.turning.Unlock()
	if c.current.Load() == nil {
		c.current.Store(newGeneration(c.window))
	}
	return c.current.Load()
}

// taken counts a call that was put into g, and turns the generations when that
// was the last. The next one is made in time; if it is late, g takes some more.
func (c *calls) taken(g *generation) {
	n := g.used.Add(1)
	if n == c.window/2 {
		c.making.Go(c.prepare)
	}
	if n < c.window || !c.turning.TryLock() {
		return
	}
	defer c.turning.Unlock()
	next := c.next.Load()
	if next == nil || c.current.Load() != g {
		return
	}
	c.next.Store(nil)
	c.retired = c.previous.Load()
	c.previous.Store(g)
	c.current.Store(next)
}

// prepare empties the retired generation, or makes a new one, to be the next.
func (c *calls) prepare() {
	c.turning.Lock()
	g := c.retired
	c.retired = nil
	c.turning.Unlock()
	if g == nil {
		g = newGeneration(c.window)
	} else {
		for i := range g.slots {
			g.slots[i].Store(0)
		}
		g.used.Store(0)
	}
	c.next.Store(g)
}

// repeated counts a deed for a request in the tally of its run.
func (l *loop) repeated(rec *record, to *Repeats, d deed) {
	if !rec.numbered || rec.run >= otherRun {
		to.Untold++
		return
	}
	k := keyOf(rec.run, rec.call, l.resets)
	if d == didArrive {
		to.count(l.target.calls.arrive(k))
	} else {
		to.count(l.target.calls.did(k, d))
	}
}
