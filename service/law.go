package service

import (
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// law is what is drawn at one replica: a Spec resolved for it.
type law struct {
	time   Dist
	slow   Slow    // Share is 0 or 1 where slowness is the replica's
	factor float64 // of every time
	status []StatusShare
	copies Copies
	faults []faultShare
	// accepts are the faults of connections.
	accepts []faultShare
	script  []Ending
	sure    bool // every attempt that is not turned away is answered 200
}

// law resolves the spec for a replica; seed decides whether it is a slow one.
func (sp *Spec) law(seed uint64, replica int) law {
	own := sp.Of(replica)
	l := law{time: own.Time, slow: own.Slow, factor: 1, status: own.Status, copies: own.Copies, faults: own.Faults.shares(false), accepts: own.Faults.shares(true), script: own.Script}
	for i := range sp.Each {
		e := &sp.Each[i]
		if e.Replica != replica {
			continue
		}
		if e.Time != nil {
			l.time = *e.Time
		}
		if e.Factor != 0 {
			l.factor = e.Factor
		}
	}
	l.sure = len(l.status) == 0 && len(l.script) == 0 && len(l.faults) == 0
	if own.Slow.By == SlowByReplica {
		l.slow.Share = 0
		if draw.Uniform(seed, draw.Replica, uint64(replica), 0, 0) < own.Slow.Share {
			l.slow.Share = 1
		}
	}
	return l
}

// keys returns the attempt numbers under which the size of an attempt is drawn,
// and everything else.
func (l *law) keys(attempt uint32) (size, other uint32) {
	switch l.copies {
	case CopiesSame:
		return 1, 1
	case CopiesMixed:
		return 1, attempt
	}
	return attempt, attempt
}

// slowRequest says whether an attempt is slow where that is drawn for each.
func (l *law) slowRequest(seed, call uint64, attempt uint32) bool {
	if l.slow.Share == 0 {
		return false
	}
	_, attempt = l.keys(attempt)
	return l.slow.Share >= 1 || l.slow.Share > 0 && draw.Uniform(seed, draw.Slow, call, attempt, 0) < l.slow.Share
}

// draw returns the service time of one attempt, and how it ends; turn is its
// number in the script.
func (l *law) draw(seed, call uint64, attempt, turn uint32, slow bool) (drawn time.Duration, e Ending) {
	size, other := l.keys(attempt)
	if slow && l.slow.Factor == 0 {
		drawn = l.slow.Time.drawAt(seed, draw.SlowTime, call, other, 0)
	} else {
		drawn = l.time.drawAt(seed, draw.Service, call, size, 0)
		if slow {
			drawn = scale(drawn, l.slow.Factor)
		}
	}
	if l.factor != 1 {
		drawn = scale(drawn, l.factor)
	}
	if l.sure {
		return drawn, Ending{Status: 200}
	}
	return drawn, l.ending(seed, call, turn, other)
}

// ending returns how an attempt ends that nothing else comes in the way of; key
// is the attempt number that it is drawn under.
func (l *law) ending(seed, call uint64, turn, key uint32) Ending {
	if n := uint32(len(l.script)); n > 0 {
		if e := l.script[min(max(turn, 1), n)-1]; !e.Fault.ofConnections() {
			return e
		}
		return Ending{Status: 200}
	}
	if len(l.faults) > 0 {
		u := draw.Uniform(seed, draw.Fault, call, key, 0)
		for _, f := range l.faults {
			if u -= f.share; u < 0 {
				return Ending{Fault: f.fault}
			}
		}
	}
	if len(l.status) > 0 {
		u, below := draw.Uniform(seed, draw.Status, call, key, 0), 0.0
		for _, s := range l.status {
			below += s.Share
			if u < below {
				return Ending{Status: s.Status}
			}
		}
	}
	return Ending{Status: 200}
}

// Draw returns the service time and the status that the replica draws for an
// attempt, without queue, shedding and schedules; the status is 0 for one that
// ends with a fault. It is a function of its arguments alone: the exact result
// of a policy without queues, and the digest of the draws, follow from it. Where
// slowness sticks to connections, each attempt has a connection of its own; where
// it sticks to windows of time, the attempt comes in one that is not slow.
func (sp *Spec) Draw(seed uint64, replica int, call uint64, attempt uint32) (drawn time.Duration, status uint16) {
	l := sp.law(seed, replica)
	slow := l.slow.By != SlowByWindow && l.slowRequest(seed, call, attempt)
	drawn, e := l.draw(seed, call, attempt, attempt, slow)
	return drawn, e.Status
}

// draw draws for a request that arrives now.
func (s *Server) draw(r *Request, now clock.Time) (time.Duration, Ending) {
	var slow bool
	switch by := s.law.slow.By; {
	case by == SlowByConnection && r.Conn != 0:
		slow = draw.Uniform(s.seed, draw.SlowConn, r.Conn, s.queue.replica, 0) < s.law.slow.Share
	case by == SlowByWindow:
		k := uint64(floorDiv(now.Sub(s.base), s.law.slow.Window))
		slow = draw.Uniform(s.seed, draw.SlowMoment, k, s.queue.replica, s.marks) < s.law.slow.Share
	default:
		slow = s.law.slowRequest(s.seed, r.Call, r.Attempt)
	}
	turn := r.Attempt
	if r.Key != 0 && len(s.law.script) > 0 {
		turn = s.keys.next(r.Key)
	}
	return s.law.draw(s.seed, r.Call, r.Attempt, turn, slow)
}

// floorDiv returns a/b rounded down; b is above 0.
func floorDiv(a, b time.Duration) int64 {
	q := a / b
	if a < 0 && a%b != 0 {
		q--
	}
	return int64(q)
}
