package sim

import "latencylab/clock"

// events are those to come, the next one first: the order of a heap of all of
// them. Most events come a fixed time after they were pushed (a hedge, a
// deadline, the net), and therefore in the order in which they were pushed: they
// wait in lines, first in, first out, and only what fits in no line goes to the
// heap. A line costs the same however many wait in it.
type events struct {
	heap  heap
	lines [numLines]line
	// stale is the number of events that their owner has given up.
	stale int
	from  int // where the next event stands, as peek found it: a line, or numLines
}

// Lines of timers take those of different delays, and the last one what the net
// carries.
const (
	timerLines = 2
	netLine    = timerLines
	numLines   = timerLines + 1
)

// len returns the number of events.
func (q *events) len() int {
	n := len(q.heap.a)
	for i := range q.lines {
		n += q.lines[i].n
	}
	return n
}

// push adds an event and returns its order, which is never 0: the owner keeps
// it to tell the event from those that it gave up.
func (q *events) push(at clock.Time, c class, w what, index uint32) uint64 {
	e := q.heap.event(at, c, w, index)
	switch w {
	case timer:
		// Of the lines that it fits in, the one that ends last: those with longer
		// delays are left to them.
		best := -1
		for i := range timerLines {
			if l := &q.lines[i]; l.fits(&e) && (best < 0 || q.lines[best].end < l.end) {
				best = i
			}
		}
		if best >= 0 {
			q.lines[best].add(e)
			return e.order
		}
	case request, reply, leave:
		if l := &q.lines[netLine]; l.fits(&e) {
			l.add(e)
			return e.order
		}
	}
	q.heap.add(e)
	return e.order
}

// peek returns when the next event comes, clock.Never when there is none.
func (q *events) peek() clock.Time {
	at, order := clock.Never, ^uint64(0)
	if len(q.heap.a) > 0 {
		at, order = q.heap.a[0].at, q.heap.a[0].order
	}
	q.from = numLines
	for i := range q.lines {
		l := &q.lines[i]
		if l.n == 0 {
			continue
		}
		if e := l.first(); e.at < at || e.at == at && e.order < order {
			at, order, q.from = e.at, e.order, i
		}
	}
	return at
}

// pop removes and returns the event that peek has just found.
func (q *events) pop() event {
	if q.from == numLines {
		return q.heap.pop()
	}
	return q.lines[q.from].take()
}

// crowded says that more than half of the events are stale and it is worth
// sweeping: with timers far in the future of calls that ended long ago, there
// would otherwise be as many as there were calls.
func (q *events) crowded() bool { return q.stale > 1024 && q.stale > q.len()/2 }

// sweep removes the events that are not live.
func (q *events) sweep(live func(*event) bool) {
	q.heap.sweep(live)
	for i := range q.lines {
		q.lines[i].sweep(live)
	}
	q.stale = 0
}

// line is a queue of events, each of which comes before the next.
type line struct {
	a       []event    // ring; its length is 0 or a power of two
	head, n int        // index of the first event, number of events
	end     clock.Time // of the last event, also when it has been taken
}

// fits reports whether the event comes after all in the line. Of one instant it
// does so if it is of no earlier class than the last: it was pushed later.
func (l *line) fits(e *event) bool {
	return l.n == 0 || e.at > l.end || e.at == l.end && e.order > l.a[(l.head+l.n-1)&(len(l.a)-1)].order
}

// add appends an event that fits.
func (l *line) add(e event) {
	if l.n == len(l.a) {
		l.grow()
	}
	l.a[(l.head+l.n)&(len(l.a)-1)] = e
	l.n++
	l.end = e.at
}

// first returns the first event of a line that is not empty.
func (l *line) first() *event { return &l.a[l.head&(len(l.a)-1)] }

// take removes and returns the first event.
func (l *line) take() event {
	e := *l.first()
	l.head++
	l.n--
	return e
}

func (l *line) grow() {
	a := make([]event, max(64, 2*len(l.a)))
	for i := range l.n {
		a[i] = l.a[(l.head+i)&(len(l.a)-1)]
	}
	l.a, l.head = a, 0
}

// sweep removes the events that are not live.
func (l *line) sweep(live func(*event) bool) {
	kept := 0
	for i := range l.n {
		e := &l.a[(l.head+i)&(len(l.a)-1)]
		if live(e) {
			l.a[(l.head+kept)&(len(l.a)-1)] = *e
			kept++
		}
	}
	l.n = kept
}
