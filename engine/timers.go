package engine

import "latencylab/clock"

// Timers holds at most one timer for each of a dense set of ids, in an indexed
// heap with four children a node: set, move and remove in O(log n), no
// allocation once the largest id was seen. The zero Timers is empty.
type Timers struct {
	heap []entry
	pos  []int32 // pos[id] is the index in heap plus 1, 0 when not set
}

type entry struct {
	at clock.Time
	id uint32
}

// Next returns the earliest instant, or clock.Never.
func (t *Timers) Next() clock.Time {
	if len(t.heap) == 0 {
		return clock.Never
	}
	return t.heap[0].at
}

// Len returns how many timers are set.
func (t *Timers) Len() int { return len(t.heap) }

// Pop takes the earliest timer that is due at now; ok is false when none is.
func (t *Timers) Pop(now clock.Time) (id uint32, ok bool) {
	if len(t.heap) == 0 || t.heap[0].at > now {
		return 0, false
	}
	id = t.heap[0].id
	t.Set(id, clock.Never)
	return id, true
}

// Set moves the timer of id to at; clock.Never removes it.
func (t *Timers) Set(id uint32, at clock.Time) {
	for int(id) >= len(t.pos) {
		t.pos = append(t.pos, 0)
	}
	i := int(t.pos[id]) - 1
	if at == clock.Never {
		if i >= 0 {
			t.remove(i)
		}
		return
	}
	if i < 0 {
		i = len(t.heap)
		t.heap = append(t.heap, entry{})
		t.up(i, entry{at, id})
		return
	}
	was := t.heap[i].at
	if at < was {
		t.up(i, entry{at, id})
	} else if at > was {
		t.down(i, entry{at, id})
	}
}

func (t *Timers) remove(i int) {
	t.pos[t.heap[i].id] = 0
	n := len(t.heap) - 1
	e := t.heap[n]
	t.heap = t.heap[:n]
	if i == n {
		return
	}
	if i > 0 && e.at < t.heap[(i-1)/4].at {
		t.up(i, e)
	} else {
		t.down(i, e)
	}
}

func (t *Timers) up(i int, e entry) {
	for i > 0 {
		p := (i - 1) / 4
		if t.heap[p].at <= e.at {
			break
		}
		t.place(i, t.heap[p])
		i = p
	}
	t.place(i, e)
}

func (t *Timers) down(i int, e entry) {
	for {
		c := 4*i + 1
		if c >= len(t.heap) {
			break
		}
		m := c
		for j := c + 1; j < min(c+4, len(t.heap)); j++ {
			if t.heap[j].at < t.heap[m].at {
				m = j
			}
		}
		if t.heap[m].at >= e.at {
			break
		}
		t.place(i, t.heap[m])
		i = m
	}
	t.place(i, e)
}

func (t *Timers) place(i int, e entry) {
	t.heap[i] = e
	t.pos[e.id] = int32(i) + 1
}
