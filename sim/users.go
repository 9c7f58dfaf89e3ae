package sim

import (
	"errors"
	"fmt"

	"latencylab/clock"
	"latencylab/draw"
)

// user begins a call when its last one has ended and it has thought.
type user struct {
	order uint64 // of its event in the heap; 0: it has a call, or begins no more
	begun uint32 // calls begun, which keys what it thinks before the next
}

// stuck is how many calls may begin at one instant, those of the users' first
// calls aside, before the run counts as one whose clock stands still.
const stuck = 1_000_000

var errStuck = errors.New("users: calls take no time and neither does think, so the clock stands still")

// checkUsers returns an error for a closed loop that makes no sense.
func (c *Config) checkUsers() error {
	switch {
	case c.Users < 0:
		return fmt.Errorf("users = %d, want 1 or more, or 0 for an open loop", c.Users)
	case c.Users == 0 && !c.Think.IsZero():
		return errors.New("think is given, but no users: in an open loop nobody thinks")
	case c.Users == 0 && c.Arrivals.Rate() == 0:
		return errors.New("no rate of arrivals")
	case c.Users > 0 && c.Arrivals.Rate() != 0:
		return fmt.Errorf("users = %d and a rate of arrivals: a closed loop has none", c.Users)
	case c.Users > 0 && len(c.Lanes) > 0:
		return fmt.Errorf("users = %d and %d lanes: in a closed loop a faster policy raises the load of all", c.Users, len(c.Lanes))
	}
	return nil
}

// gather lets all users think at the begin of a block.
func (w *world) gather() {
	w.herd, w.herdAt, w.dispersed = 0, w.now, false
	if w.block.Calls == 0 {
		w.noMore()
	}
	for u := range w.users {
		w.think(uint32(u))
	}
}

// think sets the instant at which the user begins its next call, if the block
// will have room for it then.
func (w *world) think(u uint32) {
	if w.stopped || w.dispersed {
		return
	}
	p := &w.users[u]
	at := w.now.Add(w.cfg.Think.Draw(w.cfg.Seed, draw.Think, uint64(u), p.begun+1))
	if at >= w.dataEnd && w.block.Calls == 0 || at == clock.Never {
		return
	}
	p.order = w.events.push(at, arrivals, begin, u)
	w.thinking++
}

// ready begins the call of a user.
func (w *world) ready(u uint32) {
	p := &w.users[u]
	p.order = 0
	w.thinking--
	if w.now != w.herdAt {
		w.herd, w.herdAt = 0, w.now
	}
	if w.herd++; w.herd > stuck+len(w.users) {
		w.err, w.stopped = errStuck, true
		return
	}
	p.begun++
	id := w.userCalls
	w.userCalls++
	w.start(id, u, w.now, w.now < w.dataStart)
	if w.block.Calls > 0 && w.counted == w.block.Calls {
		w.disperse()
		w.noMore()
	}
}

// disperse lets no user begin a further call in the block.
func (w *world) disperse() {
	w.dispersed = true
	for u := range w.users {
		if p := &w.users[u]; p.order != 0 {
			p.order = 0
			w.thinking--
			w.events.stale++
		}
	}
}
