package service

import (
	"latencylab/clock"
	"latencylab/draw"
)

// Accept decides about a connection that is accepted now, number conn of the
// replica, from 1: FaultNone, or a fault of the connection, of TLS or of the request. A script
// counts connections for its entries of that phase.
func (s *Server) Accept(conn uint64, now clock.Time) Fault {
	if !s.strikesConnections() {
		return FaultNone
	}
	return s.accept(conn, s.queue.replica, 0, conn, now)
}

// strikesConnections says that some fault of the service is of connections.
func (s *Server) strikesConnections() bool {
	return s.gated || s.ordered.ending.Fault.ofConnections()
}

// accept is Accept with the key of its draws and the number in the script.
func (s *Server) accept(a uint64, b, c uint32, turn uint64, now clock.Time) Fault {
	if s.ordered.from <= now && now < s.ordered.to && s.ordered.ending.Fault.ofConnections() {
		return s.ordered.ending.Fault
	}
	for i := range s.outages {
		o := &s.outages[i]
		if o.Ending.Fault.ofConnections() && o.lasts(s.base, now) &&
			(o.Share == 0 || draw.Uniform(s.seed, draw.Accept, a, b, c+2*uint32(i+1)) < o.Share) {
			return o.Ending.Fault
		}
	}
	if n := uint64(len(s.law.script)); n > 0 {
		if f := s.law.script[min(max(turn, 1), n)-1].Fault; f.ofConnections() {
			return f
		}
		return FaultNone
	}
	if len(s.law.accepts) > 0 {
		u := draw.Uniform(s.seed, draw.Accept, a, b, c)
		for _, f := range s.law.accepts {
			if u -= f.share; u < 0 {
				return f.fault
			}
		}
	}
	return FaultNone
}

// Opens returns now, or the instant until which the replica accepts no connection
// (FaultNoAccept).
func (s *Server) Opens(now clock.Time) clock.Time {
	if !s.strikesConnections() {
		return now
	}
	at := now
	if o := &s.ordered; o.ending.Fault == FaultNoAccept && o.from <= now && now < o.to {
		at = o.to
	}
	for i := range s.outages {
		if o := &s.outages[i]; o.Ending.Fault == FaultNoAccept && o.lasts(s.base, now) {
			at = max(at, o.end(s.base, now))
		}
	}
	return at
}

// end returns when the outage that lasts now, counted from base, is over.
func (o *Outage) end(base, now clock.Time) clock.Time {
	in := now.Sub(base.Add(o.At))
	if o.Every > 0 {
		in %= o.Every
	}
	return now.Add(o.For - in)
}
