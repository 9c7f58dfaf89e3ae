package sim

import "latencylab/clock"

// rising is the event at which a server whose slots change over time may have one
// for a request that waits.
type rising struct {
	at    clock.Time
	order uint64 // 0: there is none
}

// watch sets the server's event anew, after something has happened at it.
func (w *world) watch(server uint16) {
	if w.rises == nil {
		return
	}
	r, at := &w.rises[server], w.servers[server].Wake()
	if at != clock.Never {
		at = max(at, w.now)
	}
	if r.order != 0 {
		if r.at == at {
			return
		}
		r.order = 0
		w.events.stale++
	}
	if at != clock.Never {
		r.at, r.order = at, w.events.push(at, answers, rise, uint32(server))
	}
}

// risen starts the request whose turn it is.
func (w *world) risen(server uint32) {
	w.rises[server].order = 0
	w.begun(w.servers[server].Advance(w.now))
	w.watch(uint16(server))
}
