package target

import (
	"fmt"
	"time"

	"latencylab/clock"
	"latencylab/engine"
	"latencylab/service"
)

// Kill ends the replicas, all if none are named, as if their processes had died:
// their listeners are closed, their connections reset, and what they worked on
// or had waiting is gone. Callers are then refused, until Revive or for d if d is
// not 0. The port is held meanwhile. A replica that is dead already stays so.
func (t *Target) Kill(d time.Duration, replicas ...int) (Changed, error) {
	t.changing.Lock()
	defer t.changing.Unlock()
	numbers, err := t.numbers(replicas)
	if err != nil {
		return Changed{}, err
	}
	c, err := t.tell(true, numbers, func(l *loop, r *replica, at clock.Time) {
		l.kill(r)
		l.unplan(r)
		if d > 0 {
			l.plan(change{at: at.Add(d), do: errand(func(l *loop, at clock.Time) { l.revive(r, at) }), wakes: r})
		}
	})
	if d > 0 {
		return c.lasting(d, err)
	}
	return c, err
}

// Revive has replicas that were killed listen again at the same addresses, with
// nothing to do; all if none are named. One that is alive goes on.
func (t *Target) Revive(replicas ...int) (Changed, error) {
	t.changing.Lock()
	defer t.changing.Unlock()
	numbers, err := t.numbers(replicas)
	if err != nil {
		return Changed{}, err
	}
	errs := make([]error, len(t.replicas))
	c, err := t.tell(true, numbers, func(l *loop, r *replica, at clock.Time) {
		errs[r.index] = l.revive(r, at)
	})
	for i, e := range errs {
		if e != nil && err == nil {
			err = conflict{fmt.Errorf("replica %d: %w", i, e)}
		}
	}
	return c, err
}

// kill closes a replica's sockets and forgets what it has under way.
func (l *loop) kill(r *replica) {
	if r.killed {
		return
	}
	r.killed = true
	l.closeListener(r)
	// Held, so that no caller's connection takes the port. Where that fails, revive
	// tries again.
	if fd, _, err := engine.Bind(l.target.replicas[r.index]); err == nil {
		r.parked = fd
	}
	for tag := range r.server.Timers() {
		l.abandon(tag)
	}
	r.server.Clear(l.now)
	for i := range l.conns.Len() {
		if c := l.conns.At(uint32(i)); c.fd >= 0 && l.replicas[c.replica] == r {
			if c.rec != none { // it waits for what it calls
				l.abandon(c.rec)
			}
			if c.state == writing {
				l.tallies.at(c.run).CutShort++
			}
			if c.state == playing {
				l.cut(c)
			}
			l.sockets.Killed++
			l.shut(uint32(i), true)
		}
	}
}

// abandon forgets a request whose replica is killed.
func (l *loop) abandon(tag uint32) {
	rec := l.records.At(tag)
	t := l.tallies.at(rec.run)
	gone := rec.conn == none
	if !gone {
		c := l.conns.At(rec.conn)
		gone, c.rec = c.left, none
	}
	a := service.Answer{Worked: rec.began != clock.Never, Fault: service.FaultReset}
	rec.due = l.now
	switch {
	case rec.dropped:
		a.Fault = service.FaultNone
		l.finish(rec, &a, endDropped)
	case gone:
		t.Killed++
		t.AfterLeft++
		l.finish(rec, &a, endAfterLeft)
	default:
		t.Killed++
		t.Broken++
		l.finish(rec, &a, endBroken)
	}
	if rec.request != none {
		l.release(rec.request, -1)
		l.forget(rec)
	}
	l.due.Set(tag, clock.Never)
	l.records.Put(tag)
}

// revive has a killed replica listen again.
func (l *loop) revive(r *replica, at clock.Time) error {
	if !r.killed {
		return nil
	}
	if l.draining {
		return errEnded
	}
	l.unplan(r)
	fd := r.parked
	if fd >= 0 {
		if err := engine.ListenOn(fd); err != nil {
			return err
		}
	} else {
		var err error
		if fd, _, err = listen(l.target.replicas[r.index]); err != nil {
			return err
		}
	}
	r.fd, r.parked, r.killed = fd, -1, false
	for i := range l.replicas {
		if l.replicas[i] == r {
			return l.poll.Add(fd, listenerBit|uint64(i))
		}
	}
	return nil
}
