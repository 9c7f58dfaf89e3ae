package engine

import (
	"net/netip"
	"time"

	"latencylab/clock"
)

// DefaultFallbackDelay is the Connection Attempt Delay that RFC 8305 section 5
// recommends.
const DefaultFallbackDelay = 250 * time.Millisecond

// race says which of a name's addresses are dialled for one connection, and when
// (RFC 8305 section 5): the first at once, each further one when delay has passed
// since the last was begun, or at once when one fails. Whoever connects first
// wins. It dials nothing and reads no clock.
type race struct {
	addrs []netip.AddrPort // not its own
	delay time.Duration
	next  int        // the address that is dialled next
	open  int        // handshakes under way
	due   clock.Time // when the next begins while others are under way; Never: no more are left
}

// begin returns the index of the address to dial at now; ok is false when none
// is due.
func (r *race) begin(now clock.Time) (i int, ok bool) {
	if r.next == len(r.addrs) || r.open > 0 && now < r.due {
		return 0, false
	}
	i = r.next
	r.next++
	r.open++
	r.due = clock.Never
	if r.next < len(r.addrs) {
		r.due = now.Add(r.delay)
	}
	return i, true
}

// failed says that a handshake has failed: the next begins at once.
func (r *race) failed(now clock.Time) {
	r.open--
	if r.next < len(r.addrs) {
		r.due = now
	}
}

// lost says that every address has failed.
func (r *race) lost() bool { return r.open == 0 && r.next == len(r.addrs) }

// Interleave orders addresses for a race (RFC 8305 section 4): families take
// turns, beginning with that of the first, and keep their own order. IPv4
// addresses in IPv6 form count as IPv4.
func Interleave(addrs []netip.AddrPort) []netip.AddrPort {
	if len(addrs) < 2 {
		return addrs
	}
	var by [2][]netip.AddrPort
	first := addrs[0].Addr().Unmap().Is4()
	for _, a := range addrs {
		i := 0
		if a.Addr().Unmap().Is4() != first {
			i = 1
		}
		by[i] = append(by[i], a)
	}
	out := make([]netip.AddrPort, 0, len(addrs))
	for i := range addrs {
		for _, f := range by {
			if i < len(f) {
				out = append(out, f[i])
			}
		}
	}
	return out
}
