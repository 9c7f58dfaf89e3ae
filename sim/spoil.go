package sim

import (
	"time"

	"latencylab/clock"
	"latencylab/http1"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/service"
)

// errorsOfFaults is what a client makes of each fault that fails an attempt.
var errorsOfFaults = [service.Kinds]ledger.ErrorKey{
	service.FaultRefuse:          {Class: ledger.ClassRefused, Phase: policy.PhaseConnect},
	service.FaultReset:           {Class: ledger.ClassReset, Phase: policy.PhaseFirstByte},
	service.FaultClose:           {Class: ledger.ClassClosedBeforeResponse, Phase: policy.PhaseFirstByte},
	service.FaultHeadTruncated:   {Class: ledger.ClassTruncatedHeader, Phase: policy.PhaseBody},
	service.FaultBodyReset:       {Class: ledger.ClassReset, Phase: policy.PhaseBody},
	service.FaultBadStatusLine:   {Class: ledger.ClassBadStatusLine, Phase: policy.PhaseBody},
	service.FaultBadHeader:       {Class: ledger.ClassBadHeader, Phase: policy.PhaseBody},
	service.FaultDuplicateLength: {Class: ledger.ClassBadFraming, Phase: policy.PhaseBody},
	service.FaultLengthLong:      {Class: ledger.ClassTruncatedBody, Phase: policy.PhaseBody},
	service.FaultChunkCut:        {Class: ledger.ClassTruncatedBody, Phase: policy.PhaseBody},
	service.FaultAcceptReset:     {Class: ledger.ClassReset, Phase: policy.PhaseFirstByte},
	service.FaultCloseOnReuse:    {Class: ledger.ClassStaleConnection, Phase: policy.PhaseFirstByte},
	service.FaultTLSWrongName:    {Class: ledger.ClassTLS, Phase: policy.PhaseTLS},
	service.FaultTLSExpired:      {Class: ledger.ClassTLS, Phase: policy.PhaseTLS},
	service.FaultTLSUntrusted:    {Class: ledger.ClassTLS, Phase: policy.PhaseTLS},
}

// perform begins an answer that a fault spoils: attempt n has come due with it.
// From here on the instants are those of the caller, who sees all of it later by
// the time of the net.
func (w *world) perform(n uint32, ans *service.Answer) {
	a := &w.attempts[n]
	w.books.Faults[ans.Fault]++
	a.playing, a.pieces = true, pieces(ans, w.servers[a.replica].Shape(ans.Fault), int(a.replica))
	if w.cfg.Net > 0 {
		a.order = w.events.push(w.now.Add(w.cfg.Net), answers, piece, n)
		return
	}
	w.act(n)
}

// pieces is how many pieces follow the first bytes of a spoiled answer, one each
// interval.
func pieces(ans *service.Answer, shape *service.Shape, replica int) uint32 {
	switch ans.Fault {
	case service.FaultBodyDrip:
		return uint32(shape.Pieces(ans.Body))
	case service.FaultHeadDrip:
		return uint32(shape.Pieces(headSize(ans, replica)) - 1)
	case service.FaultInterim:
		return uint32(shape.Times)
	}
	return 0
}

// headSize is the length of the head of an answer as a target writes it on a
// connection that stays, for work that nothing held up.
func headSize(ans *service.Answer, replica int) int {
	var date [32]byte
	return len(http1.AppendResponse(nil, http1.Answer{Status: int(ans.Status), Body: ans.Body, Replica: replica, Head: true,
		KeepAlive: true, Worked: true, Work: ans.Drawn, Date: http1.AppendDate(date[:0], 0)}))
}

// act brings the caller of attempt n the next piece of a spoiled answer. A policy
// that looks at phases hears of each, another one of the first and the last.
func (w *world) act(n uint32) {
	a := &w.attempts[n]
	a.order = 0
	switch {
	case a.pieces > 0:
		w.hear(n)
		if a = &w.attempts[n]; !a.playing { // a timeout was due
			return
		}
		step := a.pieces
		if w.lanes[a.book>>1].phased {
			step = 1
		}
		a.pieces -= step
		every := w.servers[a.replica].Shape(a.fault).Interval
		at := w.now
		if every <= time.Duration(clock.Never-w.now)/time.Duration(step) {
			at = at.Add(every * time.Duration(step))
		} else {
			at = clock.Never
		}
		a.order = w.events.push(at, answers, piece, n)
	case a.fault == service.FaultBodyStall:
		w.hear(n)
	default:
		a.playing = false
		w.replied(a.fault, false)
		w.answer(n)
	}
}

// hear tells the call of attempt n, if it still wants the answer, that some of
// it has come.
func (w *world) hear(n uint32) {
	a := &w.attempts[n]
	if !a.wanted {
		return
	}
	c, l := &w.calls[a.call], &w.lanes[a.book>>1]
	first := !a.heard && a.fault.Phase() == service.PhaseBody // the head is whole
	a.heard = true
	switch {
	case first && l.policy.Hedge.WinAtHead:
		w.apply(a.call, c.k.Head(a.slot, l.policy.Classify(a.status), w.now))
	case l.phased:
		w.arm(a.call, c, c.k.Progress(a.slot, policy.PhaseBody, w.now).Timer)
	}
}

// desert ends the spoiled answer to attempt n, whose caller has left.
func (w *world) desert(n uint32) {
	a := &w.attempts[n]
	a.playing = false
	w.quit(false, true)
	w.forget(n)
}

// forget gives up the event of attempt n and its record.
func (w *world) forget(n uint32) {
	if a := &w.attempts[n]; a.order != 0 {
		a.order = 0
		w.events.stale++
	}
	w.free(n)
}
