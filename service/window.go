package service

import (
	"math"
	"time"

	"latencylab/clock"
)

// ages is how many attempt numbers a window tells apart: those from the last on
// count as one.
const ages = 64

// window serves requests by windows of time (Capacity). What arrives in one
// waits for its end, and is then served or shed.
type window struct {
	Capacity
	line    line       // of the window under way, in order of arrival
	end     clock.Time // of that window
	decided clock.Time // end of the last window that was decided
}

// begin counts the windows anew; those before are over.
func (w *window) begin() { w.decided = math.MinInt64 }

// endOf returns when the window of a request that arrives now ends. One that
// comes late, when its window is decided, belongs to the next.
func (w *window) endOf(base, now clock.Time) clock.Time {
	k := floorDiv(now.Sub(base), w.Per)
	return max(base.Add(time.Duration(k+1)*w.Per), w.decided.Add(w.Per))
}

// admit puts j, whose request arrives now, into its window.
func (s *Server) admit(j Job, now clock.Time) Step {
	w, b := &s.window, &s.jobs[j]
	end := w.endOf(s.base, now)
	if end != w.end && w.line.n > 0 { // the driver is late
		s.decide()
		end = w.endOf(s.base, now)
	}
	w.end = end
	b.state, b.due = pending, s.stalls.after(end, 0)
	w.line.push(s.jobs, j)
	s.busy++
	return Step{Job: j, Tag: b.tag, Due: b.due}
}

// room returns how many of load requests the window can serve: less when it is
// overloaded, and in proportion less when the replica stands still in it.
func (s *Server) room(load int) int {
	if len(s.figures) > 0 {
		s.tune(s.window.end.Add(-s.window.Per)) // what it began with counts
	}
	n := float64(s.window.Requests)
	if s.thrash.Factor > 0 && load > s.thrash.Above {
		n = math.Round(n * s.thrash.Factor)
	}
	if len(s.stalls.series) > 0 {
		per := s.window.Per
		still := s.stalls.still(s.window.end.Add(-per), s.window.end)
		n = math.Floor(n * float64(per-still) / float64(per))
	}
	return int(n)
}

// decide ends the window: each request of it is served or shed.
func (s *Server) decide() {
	w := &s.window
	var load, fail [ages]int // by age: requests, and those to be shed
	all := 0
	for j := w.line.head; j != 0; j = s.jobs[j].next {
		if b := &s.jobs[j]; !s.late(b) {
			load[b.age()]++
			all++
		}
	}
	over := max(all-s.room(all), 0)
	if over > 0 {
		s.share(&load, &fail, all, over)
	}
	// Of those of one age, FIFO and NewFirst shed the last, LIFO the first.
	keep := all - over
	for j := w.line.head; j != 0; {
		b := &s.jobs[j]
		next, a := b.next, b.age()
		b.state, j = aside, next
		if s.late(b) {
			b.status, b.fault = 504, FaultNone
			s.counts.Expired++
			continue
		}
		shed := false
		switch s.queue.discipline {
		case FIFO:
			shed = keep == 0
			keep -= b2i(!shed)
		case LIFO:
			shed = over > 0
			over -= b2i(shed)
		case NewFirst:
			shed = load[a] <= fail[a]
		case Proportional: // selection sampling (Knuth, TAOCP 2, 3.4.2 S): exactly fail[a] of load[a]
			shed = fail[a] > 0 && (fail[a] == load[a] || s.queue.toss()*float64(load[a]) < float64(fail[a]))
		}
		load[a]--
		fail[a] -= b2i(shed)
		if b.served = !shed; shed {
			b.status, b.fault, b.full = s.shed, FaultNone, true
		}
	}
	s.busy -= w.line.n
	w.line = line{}
	w.decided = w.end
}

// late reports whether the answer at the window's end comes too late for a
// service that minds.
func (s *Server) late(b *job) bool {
	return s.aware != DeadlineIgnore && b.deadline < s.window.end
}

// share says how many requests of each age are shed, of over in all: under
// Proportional the same part of every age, to the nearest whole number; under
// NewFirst the oldest first. The other disciplines do not ask for the age.
func (s *Server) share(load, fail *[ages]int, all, over int) {
	switch s.queue.discipline {
	case Proportional:
		for a, n := range load {
			fail[a] = (2*n*over + all) / (2 * all)
		}
	case NewFirst:
		for a := ages - 1; a >= 0 && over > 0; a-- {
			fail[a] = min(load[a], over)
			over -= fail[a]
		}
	}
}

// age returns the attempt's number from 0, at most ages-1.
func (b *job) age() int { return int(min(max(b.attempt, 1), ages)) - 1 }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// work returns what n requests of the window count for in a Backlog.
func (w *window) work(n int) time.Duration {
	return nanoseconds(float64(w.Per) / float64(w.Requests) * float64(n))
}
