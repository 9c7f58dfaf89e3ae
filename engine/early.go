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
	// maxVain is how many attempts may end without an answer, since the last
	// answer, before a call that goes on trying counts as stuck.
	maxVain = 100
	// maxDropped bounds the arrivals that one loop counts as dropped: half a
	// second of work.
	maxDropped = 1 << 24
)

// giveUpAt is when the block is given up if calls could still begin by then:
// an open loop at the end of its time to drain; a counted closed loop when
// nothing was answered and no call ended for as long; any when no connection
// could be made so far.
func (l *loop) giveUpAt() clock.Time {
	at := clock.Never
	switch {
	case l.end != clock.Never:
		at = l.end.Add(l.eng.cfg.Drain)
	case l.eng.cfg.Closed:
		at = max(l.heard, l.run.begin).Add(l.eng.cfg.Drain)
	}
	return min(at, l.unreachedAt())
}

// unreached says whether dials were made and none of them, by any loop, has
// succeeded.
func (l *loop) unreached() bool {
	l.reached = l.reached || l.eng.reached.Load()
	return !l.reached && l.dialled != 0
}

// unreachedAt is when a server that no connection could be made to is given
// up, or Never. Where dials fail, one must have failed at the end of the wait
// too: a server may start late, and dials may be rare.
func (l *loop) unreachedAt() clock.Time {
	switch at := l.dialled.Add(refusedFor); {
	case !l.unreached():
		return clock.Never
	case l.dialErr == nil:
		return l.dialled.Add(max(l.eng.cfg.Drain, refusedFor))
	case l.failedAt >= at:
		return at
	}
	return clock.Never
}

// stuck says whether nothing can be hoped for of a counted closed loop in which
// nothing was answered for the time to drain: an attempt has been open for as
// long, or attempts end in vain without end. Calls that only wait for their next
// attempt are not stuck; they are looked at again later.
func (l *loop) stuck(now clock.Time) bool {
	if l.vain > maxVain {
		return true
	}
	hangs := false
	l.calls.Each(func(c *call) {
		for s := range c.slots {
			a := &c.slots[s]
			hangs = hangs || c.open && (a.state == slotWaiting || a.state == slotSent && now.Sub(a.conn.sent) >= l.eng.cfg.Drain)
		}
	})
	if !hangs {
		l.heard = now
	}
	return hangs
}

// cutShort ends a block of which calls could still begin, and says why unless
// only arrivals are left that have their place in the ledger as dropped.
func (l *loop) cutShort() {
	now := max(l.seen, l.run.begin)
	l.finished = true
	switch {
	case l.unreached():
		l.nothingThere(now)
		l.end = min(l.end, now)
	case l.eng.cfg.Closed:
		if l.end == clock.Never {
			l.early = fmt.Sprintf("nothing was answered for %s, the time to drain", units.FormatDuration(l.eng.cfg.Drain))
			l.end = now
		}
	default:
		l.dropRest()
	}
	l.nextAt = clock.Never
}

// nothingThere says that the block is about nothing: no connection was made.
func (l *loop) nothingThere(now clock.Time) {
	l.early = fmt.Sprintf("%s in %s", Unreachable, units.FormatDuration(now.Sub(l.dialled).Round(100*time.Millisecond)))
	switch {
	case l.dialErr != nil:
		l.early += ": " + l.dialErr.Error()
	case l.shaking.head != 0:
		l.early += fmt.Sprintf(": %s: no TLS handshake has ended", l.eng.cfg.Endpoints[l.conns.At(l.shaking.head-1).endpoint].Name)
	}
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
