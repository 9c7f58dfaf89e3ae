package sim

import "latencylab/clock"

// event is something that happens at an instant, 24 bytes.
type event struct {
	at    clock.Time
	order uint64 // class and sequence: see heap.event
	index uint32 // of a call (timer), a user (begin), a server (rise) or an attempt (all others)
	what  what
}

// what an event is.
type what uint8

const (
	end     what = iota // a job is due at its server
	reply               // an answer reaches the client
	timer               // a call's timer
	request             // an attempt reaches its server
	leave               // a server hears that its caller has left
	begin               // a user begins a call
	rise                // a server may have a slot for a request that waits
	piece               // some of an answer that a fault spoils reaches the client
)

// class ranks events of the same instant: answers come before timers, so that
// no timer acts while the answer is there; what reaches a server comes after
// what leaves it. Arrivals of calls come last: those of a schedule are not in the
// heap, those of users are.
type class uint64

const (
	answers class = iota
	timers
	inbound
	arrivals
)

const classShift = 62

// heap holds events, the next one first: a heap with four children
// to a node, whose children lie side by side. Events of one instant come by
// class, then in the order in which they were pushed: no two are equal, so the
// order in which they come out depends on nothing else.
type heap struct {
	a []event
	// seq counts the events made.
	seq uint64
}

func before(x, y *event) bool {
	return x.at < y.at || x.at == y.at && x.order < y.order
}

// event makes an event that comes after those of its instant and class that
// were made before. Its order is not 0.
func (h *heap) event(at clock.Time, c class, w what, index uint32) event {
	h.seq++
	return event{at: at, order: uint64(c)<<classShift | h.seq, index: index, what: w}
}

// add puts an event in.
func (h *heap) add(e event) {
	h.a = append(h.a, e)
	h.up(len(h.a)-1, e)
}

// pop removes and returns the next event; the heap is not empty.
func (h *heap) pop() event {
	top := h.a[0]
	n := len(h.a) - 1
	e := h.a[n]
	h.a = h.a[:n]
	if n > 0 {
		h.down(0, e)
	}
	return top
}

// up places e at i or above; the entry at i is free.
func (h *heap) up(i int, e event) {
	a := h.a
	for i > 0 {
		p := (i - 1) / 4
		if !before(&e, &a[p]) {
			break
		}
		a[i] = a[p]
		i = p
	}
	a[i] = e
}

// down places e at i or below; the entry at i is free.
func (h *heap) down(i int, e event) {
	a := h.a
	for {
		c := 4*i + 1
		if c >= len(a) {
			break
		}
		m := c
		for j := c + 1; j < min(c+4, len(a)); j++ {
			if before(&a[j], &a[m]) {
				m = j
			}
		}
		if !before(&a[m], &e) {
			break
		}
		a[i] = a[m]
		i = m
	}
	a[i] = e
}

// sweep removes the events that are not live.
func (h *heap) sweep(live func(*event) bool) {
	kept := h.a[:0]
	for i := range h.a {
		if live(&h.a[i]) {
			kept = append(kept, h.a[i])
		}
	}
	h.a = kept
	for i := (len(kept) - 2) / 4; i >= 0 && len(kept) > 1; i-- {
		h.down(i, kept[i])
	}
}
