package policy

import (
	"math"
	"time"

	"latencylab/clock"
)

// Part is what a timeout bounds.
type Part uint8

const (
	PartAttempt Part = iota // an attempt, from its send to the end of its answer
	PartAcquire             // waiting for a connection
	PartDNS                 // resolving the name
	PartConnect             // dialling
	PartTLS                 // the TLS handshake
	PartWrite               // writing the request
	PartHeaders             // from the written request to the first byte of the answer
	PartRead                // silence while the answer comes in; each byte begins it anew
	PartIdle                // silence in any phase from the write on
	Parts                   // number of parts
)

// Timeouts are the timeouts of each attempt, indexed by Part. A read or idle
// timeout does not bound an attempt whose answer drips; only PartAttempt and
// the deadline do.
type Timeouts [Parts]Timeout

// Timeout bounds one part of an attempt. The zero Timeout does not.
type Timeout struct {
	// After is the bound. 0 means none. It is not used when Quantile is set.
	After time.Duration
	// Quantile, in (0, 1), makes the bound follow that quantile of the part's
	// durations on this client, plus Pad: 0.999 accepts that one attempt in a
	// thousand is cut off that would have been answered (Brooker, "Timeouts,
	// retries, and backoff with jitter", Amazon Builders' Library). Attempts that
	// are cut off count as longer than any, so that the bound does not follow
	// itself down; those that are cancelled count with the time that they had
	// run. The window is 30 s; below 100 samples nothing is cut off. 0 means the
	// fixed After.
	Quantile float64
	Pad      time.Duration
}

// set says that the timeout bounds anything.
func (t Timeout) set() bool { return t.After > 0 || t.tracks() }

func (t Timeout) tracks() bool { return t.Quantile > 0 && t.Quantile < 1 }

// track says that some timeout follows a quantile.
func (ts *Timeouts) track() bool {
	for _, t := range ts {
		if t.tracks() {
			return true
		}
	}
	return false
}

// partOf is the timeout of each phase.
var partOf = [Phases]Part{
	PhaseAcquire: PartAcquire, PhaseDNS: PartDNS, PhaseConnect: PartConnect, PhaseTLS: PartTLS,
	PhaseWrite: PartWrite, PhaseFirstByte: PartHeaders, PhaseBody: PartRead,
}

// timeouts is a Timeouts with the quantiles that it follows.
type timeouts struct {
	any    bool // some part is bounded
	phases bool // some part other than the attempt is
	fixed  [Parts]time.Duration
	pad    [Parts]time.Duration
	track  [Parts]*tracker // nil: fixed
}

func newTimeouts(ts *Timeouts) timeouts {
	var n timeouts
	for p, t := range ts {
		if !t.set() {
			continue
		}
		n.any = true
		n.phases = n.phases || Part(p) != PartAttempt
		n.pad[p] = max(t.Pad, 0)
		if t.tracks() {
			n.track[p] = newTracker(t.Quantile, defaultWindow, defaultMinSamples)
		} else {
			n.fixed[p] = t.After
		}
	}
	return n
}

// bound returns the bound of part p as it stands; 0: none.
func (t *timeouts) bound(p Part) time.Duration {
	tr := t.track[p]
	switch {
	case tr == nil:
		return t.fixed[p]
	case !tr.ready || tr.value >= lastBucket:
		return 0
	}
	return max(1, addSpan(tr.value, t.pad[p]))
}

// note records that part p took d on an attempt that went on or was cancelled.
func (t *timeouts) note(p Part, d time.Duration, now clock.Time) {
	if tr := t.track[p]; tr != nil {
		tr.record(d, now)
	}
}

// cut records that part p was cut off.
func (t *timeouts) cut(p Part, now clock.Time) { t.note(p, math.MaxInt64, now) }

// due returns the earliest instant at which a timeout ends an attempt that was
// sent then, is in that phase and was last heard of at since, and which one it
// is. clock.Never: none.
func (t *timeouts) due(sent, since clock.Time, phase Phase) (at clock.Time, part Part) {
	at = clock.Never
	if d := t.bound(PartAttempt); d > 0 {
		at = sent.Add(d)
	}
	if !t.phases {
		return at, PartAttempt
	}
	p := partOf[phase]
	if d := t.bound(p); d > 0 && since.Add(d) < at {
		at, part = since.Add(d), p
	}
	if d := t.bound(PartIdle); d > 0 && phase >= PhaseWrite && since.Add(d) < at {
		at, part = since.Add(d), PartIdle
	}
	return at, part
}

// entered records that an attempt in phase from, heard of at since, has entered
// phase to.
func (t *timeouts) entered(from, to Phase, since, now clock.Time) {
	d := now.Sub(since)
	if from != to || from == PhaseBody {
		t.note(partOf[from], d, now)
	}
	if from >= PhaseWrite {
		t.note(PartIdle, d, now)
	}
}

// closed records an attempt that ended otherwise than by a timeout of its own.
func (t *timeouts) closed(how ending, sent, since clock.Time, phase Phase, now clock.Time) {
	if how == endTimedOut {
		return
	}
	t.note(PartAttempt, now.Sub(sent), now)
	if t.phases {
		t.note(partOf[phase], now.Sub(since), now)
		if phase >= PhaseWrite {
			t.note(PartIdle, now.Sub(since), now)
		}
	}
}
