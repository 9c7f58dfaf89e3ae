package service

import (
	"iter"
	"time"

	"latencylab/clock"
)

// While a server is paused no work goes on: the due field of a job that holds a
// slot is then the time that it still needs, and that of one whose answer needs
// no work is Never. The driver sees no job become due.

// Pause stops all work from now on until Resume, as a stall does: requests are
// taken in, wait and are shed as before, but nothing of them is done, and
// nothing is answered. until is the instant at which the driver calls Resume,
// clock.Never if that is not known; [Server.Until] says it. All jobs that were
// due by now must have ended. Afterwards the driver sets its timers anew: see
// [Server.Timers]. Of a server that is paused already only until changes.
func (s *Server) Pause(now, until clock.Time) {
	s.until = max(until, now)
	if s.paused {
		return
	}
	for i := range s.jobs {
		switch b := &s.jobs[i]; b.state {
		case running, stopping:
			left := max(b.due.Sub(now)-s.stalls.still(now, b.due), 0)
			s.worked.add(int64(left - b.due.Sub(now)))
			s.work.sub(int64(b.due))
			s.work.add(int64(left))
			b.due = clock.Time(left)
		case pending:
			b.due = clock.Never
		case aside:
			if b.fault == FaultNone {
				b.due = clock.Never
			}
		}
	}
	s.paused = true
	s.stalls.held.from, s.stalls.held.to = now, clock.Never
}

// Resume ends a pause: all work goes on from now on where it stood. Afterwards
// the driver sets its timers anew: see [Server.Timers]. It does nothing to a
// server that is not paused.
func (s *Server) Resume(now clock.Time) {
	if !s.paused {
		return
	}
	s.paused = false
	s.stalls.held.to = now
	for i := range s.jobs {
		switch b := &s.jobs[i]; b.state {
		case running, stopping:
			s.goOn(b, now)
		case pending:
			b.due = s.stalls.after(max(s.window.end, now), 0)
		case aside:
			if b.due == clock.Never {
				b.due = s.stalls.after(now, 0)
			}
		}
	}
}

// goOn gives b, which holds a slot, a due instant again.
func (s *Server) goOn(b *job, now clock.Time) {
	left := time.Duration(b.due)
	b.due = s.stalls.after(now, left)
	if b.state == running && s.aware == DeadlineRunning && !b.expired && b.deadline < b.due {
		b.cut, b.status, b.fault = true, 504, FaultNone
		b.due = s.stalls.after(max(b.deadline, now), 0)
	}
	s.work.sub(int64(left))
	s.work.add(int64(b.due))
	s.worked.add(int64(b.due.Sub(now) - left))
}

// hold lets j take a slot of a paused server for work.
func (s *Server) hold(j Job, work time.Duration) Step {
	b := &s.jobs[j]
	b.due = clock.Time(work)
	s.work.add(int64(work))
	s.worked.add(int64(work))
	return Step{Job: j, Tag: b.tag, Due: clock.Never}
}

// left is the time until b, which holds a slot, is due.
func (s *Server) left(b *job, now clock.Time) time.Duration {
	if s.paused {
		return time.Duration(b.due)
	}
	return b.due.Sub(now)
}

// Paused reports whether a pause lasts.
func (s *Server) Paused() bool { return s.paused }

// Until returns the instant at which the driver ends the pause that lasts;
// clock.Never if it does not know, or there is none.
func (s *Server) Until() clock.Time {
	if !s.paused {
		return clock.Never
	}
	return s.until
}

// Outage has requests that arrive from now on until the instant until end as e
// says, as one of [Spec.Outages] does, which it goes before. A later one takes
// its place; one whose until is not after now ends it.
func (s *Server) Outage(now, until clock.Time, e Ending) {
	s.ordered.from, s.ordered.to, s.ordered.ending = now, until, e
}

// OutageNow returns the outage that Outage has begun and that lasts at now.
func (s *Server) OutageNow(now clock.Time) (e Ending, until clock.Time, ok bool) {
	o := &s.ordered
	return o.ending, o.to, o.from <= now && now < o.to
}

// Freeze has the server stand still from now until the instant until: it is
// paused, or, where windows have a capacity, an outage of 503. That is what a
// pulse does. It does not shorten a pause that lasts.
func (s *Server) Freeze(now, until clock.Time) {
	if s.window.Per > 0 {
		s.Outage(now, until, Ending{Status: 503})
		return
	}
	if s.paused {
		until = max(until, s.until)
	}
	s.Pause(now, until)
}

// Clear forgets every request and ends pauses and outages begun at run time, as
// a process that dies and starts again. What is counted, and the mark, stay.
func (s *Server) Clear(now clock.Time) {
	for i := range s.jobs {
		j, b := Job(i), &s.jobs[i]
		switch b.state {
		case unused:
			continue
		case running, stopping:
			s.worked.sub(int64(s.left(b, now)))
			s.counts.Stopped++
		}
		s.release(j)
	}
	s.queue.clear()
	s.window.line = line{}
	s.busy, s.work, s.paused = 0, sum{}, false
	s.stalls.held.to = min(s.stalls.held.to, now)
	s.ordered.to = min(s.ordered.to, now)
}

// Timers yields the tag and the due instant of every job, clock.Never for those
// that are not due yet or ever, in no order that means anything. Pause and
// Resume move many due instants at once; the driver then sets its timers by it.
func (s *Server) Timers() iter.Seq2[uint32, clock.Time] {
	return func(yield func(uint32, clock.Time) bool) {
		for i := range s.jobs {
			b := &s.jobs[i]
			if b.state != unused && !yield(b.tag, s.due(b)) {
				return
			}
		}
	}
}

// due is when b is due.
func (s *Server) due(b *job) clock.Time {
	switch {
	case b.state == waiting, s.paused && (b.state == running || b.state == stopping):
		return clock.Never
	}
	return b.due
}

// Jobs returns the number of requests that the server knows.
func (s *Server) Jobs() int { return s.open }
