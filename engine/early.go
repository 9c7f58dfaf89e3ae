package engine

import (
	"fmt"
	"time"

	"latencylab/clock"
	"latencylab/units"
)

// Unreachable begins the reason of a Block that ended early because no
// connection could be made.
const Unreachable = "no connection could be made"

const (
	// refusedFor is how long dials may fail, without any having succeeded,
	// before the server counts as not there.
	refusedFor = 2 * time.Second
	// maxDropped bounds the arrivals that one loop counts as dropped: half a
	// second of work.
	maxDropped = 1 << 24
)

// giveUpAt is when the block is given up if calls could still begin by then:
// an open loop at the end of its time to drain; a counted closed loop when no
// call has ended for as long; any when no connection could be made so far.
func (l *loop) giveUpAt() clock.Time {
	at := clock.Never
	switch {
	case l.end != clock.Never:
		at = l.end.Add(l.eng.cfg.Drain)
	case l.eng.cfg.Closed:
		at = max(l.lastEnded, l.run.begin).Add(l.eng.cfg.Drain)
	}
	return min(at, l.unreachedAt())
}

// unreachedAt is when a server that no connection could be made to is given
// up, or Never.
func (l *loop) unreachedAt() clock.Time {
	if l.reached || l.dialled == 0 {
		return clock.Never
	}
	if l.eng.reached.Load() {
		l.reached = true
		return clock.Never
	}
	wait := max(l.eng.cfg.Drain, refusedFor)
	if l.dialErr != nil {
		wait = refusedFor
	}
	return l.dialled.Add(wait)
}

// cutShort ends a block of which calls could still begin, and says why unless
// only arrivals are left that have their place in the ledger as dropped.
func (l *loop) cutShort() {
	now := max(l.seen, l.run.begin)
	l.finished = true
	switch {
	case now >= l.unreachedAt():
		l.early = fmt.Sprintf("%s in %s", Unreachable, units.FormatDuration(now.Sub(l.dialled).Round(100*time.Millisecond)))
		if l.dialErr != nil {
			l.early += ": " + l.dialErr.Error()
		}
		l.end = min(l.end, now)
	case l.eng.cfg.Closed:
		if l.end == clock.Never {
			l.early = fmt.Sprintf("no call ended for %s, the time to drain", units.FormatDuration(l.eng.cfg.Drain))
			l.end = now
		}
	default:
		l.dropRest()
	}
	l.nextAt = clock.Never
}

// dropRest counts the arrivals of the block that have not begun. When there are
// more than it is worth to walk, the block ends at the first of those left.
func (l *loop) dropRest() {
	for n := 0; l.nextAt != clock.Never; n++ {
		if n == maxDropped {
			l.end = min(l.end, l.nextAt)
			l.early = fmt.Sprintf("the rate is out of reach: more than %s calls had not begun at the end of the time to drain", units.Count(maxDropped))
			return
		}
		b := l.ln.book[0]
		if l.nextBurn {
			b = l.ln.book[1]
		}
		b.Calls.Scheduled++
		b.Calls.Dropped++
		l.advance()
	}
}
