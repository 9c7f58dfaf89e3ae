package ledger

import (
	"math"
	"time"
)

// tailBins bounds the memory of a Tail; past it, neighbouring bins merge.
const tailBins = 4096

// tailShift is the width of a bin at first: 2^23 ns, about 8.4 ms.
const tailShift = 23

// Tail keeps the largest response time in each of at most 4,096 slices of time,
// so that runs of slow calls can be told apart afterwards: what counts for the
// precision of a tail figure is independent episodes, not slow calls. When the
// slices are used up, neighbours merge and the slices double. The zero Tail is
// empty.
type Tail struct {
	shift uint8
	max   []uint32 // largest response in the slice in µs, rounded up; 0: no call
}

// Record notes a call that was intended at offset after the start of the
// measurement and took response; failed calls rank as infinitely slow.
func (t *Tail) Record(offset, response time.Duration, failed bool) {
	if t.max == nil {
		t.max = make([]uint32, 0, tailBins)
		t.shift = tailShift
	}
	v := uint32(math.MaxUint32)
	if us := (uint64(max(response, 0)) + 999) / 1000; !failed && us < math.MaxUint32 {
		v = uint32(us)
	}
	i := uint64(max(offset, 0)) >> t.shift
	for i >= tailBins {
		t.halve()
		i >>= 1
	}
	for i >= uint64(len(t.max)) {
		t.max = append(t.max, 0)
	}
	t.max[i] = max(t.max[i], v)
}

func (t *Tail) halve() {
	for i := range (len(t.max) + 1) / 2 {
		m := t.max[2*i]
		if 2*i+1 < len(t.max) {
			m = max(m, t.max[2*i+1])
		}
		t.max[i] = m
	}
	t.max = t.max[:(len(t.max)+1)/2]
	t.shift++
}

// Merge adds another loop's record of the same stretch of time.
func (t *Tail) Merge(o *Tail) {
	if o.max == nil {
		return
	}
	if t.max == nil {
		t.max, t.shift = make([]uint32, 0, tailBins), o.shift
	}
	for t.shift < o.shift {
		t.halve()
	}
	by := t.shift - o.shift
	for i, m := range o.max {
		k := i >> by
		for k >= len(t.max) {
			t.max = append(t.max, 0)
		}
		t.max[k] = max(t.max[k], m)
	}
}

// Episodes counts the runs of neighbouring slices that hold a call slower than
// above. It errs on the low side: episodes within one slice count once.
func (t *Tail) Episodes(above time.Duration) int {
	n, in := 0, false
	limit := uint64(max(above, 0)) / 1000
	for _, m := range t.max {
		slow := uint64(m) > limit && m != 0
		if slow && !in {
			n++
		}
		in = slow
	}
	return n
}

// Reset empties the record and keeps its memory.
func (t *Tail) Reset() { t.max, t.shift = t.max[:0], tailShift }
