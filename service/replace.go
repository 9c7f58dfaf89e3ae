package service

import "latencylab/clock"

// Replace has the server do what another valid spec says from now on, with as
// many replicas. What has begun ends as it began: it keeps its service time, its
// status or fault, and its due instant; a window under way is decided by what it
// holds. What waits keeps its place, and what was drawn for it; where the new
// spec has more slots, or none, the first of it start now, and are returned. With
// fewer slots nothing starts until so many are free; a queue that has become too
// long empties by and by. Body, RetryAfter, Cancel and CancelCost are asked for
// when an answer is sent or a caller leaves, and are then those of the new spec.
//
// Draws are functions of the same keys as before. The mark stays, as do a pause,
// an outage begun at run time, and what was counted. A replacement by an equal
// spec changes nothing, except that it ends a window.
func (s *Server) Replace(spec *Spec, now clock.Time) (started []Step) {
	if s.window.line.n > 0 {
		s.decide()
	}
	waiting := s.queue.drain(s.jobs)
	n := New(spec, int(s.queue.replica), s.seed)
	n.base, n.marks = s.base, s.marks
	n.ordered, n.paused, n.until = s.ordered, s.paused, s.until
	n.jobs, n.free, n.busy, n.open = s.jobs, s.free, s.busy, s.open
	n.work, n.worked, n.counts = s.work, s.worked, s.counts
	n.queue.turns = s.queue.turns
	if n.scriptKey == s.scriptKey {
		n.keys = s.keys
	}
	n.stalls.begin(s.base, s.marks)
	n.stalls.held = s.stalls.held
	if n.window.Per == s.window.Per {
		n.window.decided, n.window.end = s.window.decided, s.window.end
	}
	*s = *n
	s.tune(now)
	for _, j := range waiting {
		s.queue.push(s.jobs, j)
	}
	for s.queue.n > 0 {
		st := s.next(now)
		if st.Job == 0 {
			break
		}
		started = append(started, st)
	}
	return started
}

// drain takes all jobs out, in the order of their arrival where the discipline
// knows it.
func (q *queue) drain(jobs []job) (list []Job) {
	for i := range q.lines {
		for j := q.lines[i].head; j != 0; j = jobs[j].next {
			list = append(list, j)
		}
	}
	list = append(list, q.any...)
	q.clear()
	return list
}
