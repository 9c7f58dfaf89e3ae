package target

import "latencylab/clock"

// rises is when the next replica whose slots change over time may have one for a
// request that waits.
func (l *loop) rises() clock.Time {
	next := clock.Never
	if l.ramped {
		for _, r := range l.replicas {
			next = min(next, r.server.Wake())
		}
	}
	return next
}

// rise starts the requests for which replicas have a slot by until, in the order
// of the instants at which they have.
func (l *loop) rise(until clock.Time) {
	if !l.ramped {
		return
	}
	for {
		var first *replica
		for _, r := range l.replicas {
			if r.server.Wake() <= until && (first == nil || r.server.Wake() < first.server.Wake()) {
				first = r
			}
		}
		if first == nil {
			return
		}
		at := first.server.Wake()
		l.start(first.server.Advance(at), at)
	}
}
