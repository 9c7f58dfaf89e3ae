package target

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"latencylab/clock"
	"latencylab/service"
)

// lead is how long before its instant the loops are told of a change, so that
// all of them make it at that instant: a request that arrives before it, by its
// stamp, meets the service as it was, and one that arrives after it as it is then.
const lead = 2 * time.Millisecond

// change is something that a loop tells its servers at an instant. It does not
// touch connections: the loop may be reading one.
type change struct {
	at clock.Time
	do func(l *loop, at clock.Time)
	// wakes is the replica that goes on by it; there is one such change of each.
	wakes *replica
}

// errEnded says that the loops are gone.
var errEnded = errors.New("the target has ended")

// plan, in mail or within a change, puts a change on the agenda.
func (l *loop) plan(c change) {
	if c.wakes != nil {
		l.unplan(c.wakes)
	}
	i, _ := slices.BinarySearchFunc(l.agenda, c, func(a, b change) int {
		if a.at <= b.at { // after those of the same instant
			return -1
		}
		return 1
	})
	l.agenda = slices.Insert(l.agenda, i, c)
}

// unplan takes the change that wakes a replica from the agenda.
func (l *loop) unplan(r *replica) {
	l.agenda = slices.DeleteFunc(l.agenda, func(c change) bool { return c.wakes == r })
}

// until is when a replica is woken or revived; clock.Never if that is not planned.
func (l *loop) until(r *replica) clock.Time {
	for _, c := range l.agenda {
		if c.wakes == r {
			return c.at
		}
	}
	return clock.Never
}

// planned is when the next change is due.
func (l *loop) planned() clock.Time {
	if len(l.agenda) == 0 {
		return clock.Never
	}
	return l.agenda[0].at
}

// Changed says since when something holds that was told to the replicas.
type Changed struct {
	// At is the instant, by the target's wall clock, from which it holds for the
	// requests that arrive.
	At time.Time `json:"at"`
	// LateNS is how much later than At the last of the loops came to it, in ns. 0
	// means that all did it at that instant.
	LateNS int64 `json:"late_ns"`
	// Until is when it ends of itself; nil when it does not.
	Until *time.Time `json:"until,omitempty"`
	// Generation is that of the service that holds: see Ledger.Generation.
	Generation uint64 `json:"generation"`
	// Replicas are the numbers of those that were told.
	Replicas []int `json:"replicas"`
}

// apply has every loop do f at one instant of the time of its services, and
// waits until all have done so. With sockets f may touch those, and is done at
// the end of the turn in which that instant lies. The caller holds changing.
func (t *Target) apply(sockets bool, f func(l *loop, at clock.Time)) (Changed, error) {
	now, wall := clock.Pair()
	at := now.Add(lead)
	out := Changed{At: time.Unix(0, wall).Add(lead).UTC(), Generation: t.holds.Load().generation}
	late := make([]time.Duration, len(t.loops))
	ran := make([]chan struct{}, len(t.loops))
	for i, l := range t.loops {
		ran[i] = make(chan struct{})
		do := func(l *loop, at clock.Time) { f(l, at); close(ran[i]) }
		l.do(func() {
			when := max(at, l.now) // it has done all until now
			late[i] = when.Sub(at)
			if sockets {
				l.plan(change{at: when, do: errand(do)})
			} else {
				l.plan(change{at: when, do: do})
			}
		})
	}
	for i, l := range t.loops {
		select {
		case <-ran[i]:
			out.LateNS = max(out.LateNS, int64(late[i]))
		case <-l.done:
			return out, errEnded
		}
	}
	return out, nil
}

// errand is a change that puts f off to the end of the turn.
func errand(f func(l *loop, at clock.Time)) func(l *loop, at clock.Time) {
	return func(l *loop, at clock.Time) { l.errands = append(l.errands, func() { f(l, at) }) }
}

// those returns the loop's replicas with these numbers.
func (l *loop) those(numbers []int) (list []*replica) {
	for _, r := range l.replicas {
		if slices.Contains(numbers, r.index) {
			list = append(list, r)
		}
	}
	return list
}

// timers sets those of a replica's requests anew, after its server has moved
// many of them.
func (l *loop) timers(r *replica) {
	for tag, due := range r.server.Timers() {
		l.records.At(tag).due = due
		l.due.Set(tag, due)
	}
	l.unplan(r)
	if until := r.server.Until(); until != clock.Never {
		l.plan(change{at: until, do: func(l *loop, at clock.Time) { l.wake(r, at) }, wakes: r})
	}
}

// wake ends the pause of a replica, unless it lasts longer by now.
func (l *loop) wake(r *replica, at clock.Time) {
	if r.server.Until() <= at {
		r.server.Resume(at)
		l.timers(r)
	}
}

// told checks the numbers of replicas, which must be alive, and has f done for
// each of them at one instant. Without numbers it is for all that are alive.
func (t *Target) told(replicas []int, f func(l *loop, r *replica, at clock.Time)) (Changed, error) {
	t.changing.Lock()
	defer t.changing.Unlock()
	numbers, err := t.numbers(replicas)
	if err != nil {
		return Changed{}, err
	}
	var alive []int
	for _, n := range numbers {
		switch killed := t.States()[n].State == StateKilled; {
		case !killed:
			alive = append(alive, n)
		case len(replicas) > 0:
			return Changed{}, conflict{fmt.Errorf("replica %d is killed, want it revived first", n)}
		}
	}
	return t.tell(false, alive, f)
}

// tell has f done for each of these replicas: see apply.
func (t *Target) tell(sockets bool, numbers []int, f func(l *loop, r *replica, at clock.Time)) (Changed, error) {
	c, err := t.apply(sockets, func(l *loop, at clock.Time) {
		for _, r := range l.those(numbers) {
			f(l, r, at)
		}
	})
	c.Replicas = append([]int{}, numbers...)
	return c, err
}

// conflict is an error because of the state in which a replica is.
type conflict struct{ error }

// lasting adds the end of what takes d.
func (c Changed) lasting(d time.Duration, err error) (Changed, error) {
	until := c.At.Add(d)
	c.Until = &until
	return c, err
}

// Pulse freezes the replicas, all if none are named, for d and then lets them
// go on: the trigger of a pulse stage, on sockets. It returns once they stand
// still. See service.Server.Freeze for what is done, which is what the simulator
// does.
func (t *Target) Pulse(d time.Duration, replicas ...int) (Changed, error) {
	c, err := t.told(replicas, func(l *loop, r *replica, at clock.Time) {
		r.server.Freeze(at, at.Add(d))
		l.timers(r)
	})
	return c.lasting(d, err)
}

// Pause stops all work of the replicas, all if none are named, for d, or until
// Resume if d is 0: connections and requests are accepted, and nothing proceeds.
func (t *Target) Pause(d time.Duration, replicas ...int) (Changed, error) {
	c, err := t.told(replicas, func(l *loop, r *replica, at clock.Time) {
		until := clock.Never
		if d > 0 {
			until = at.Add(d)
		}
		r.server.Pause(at, until)
		l.timers(r)
	})
	if d > 0 {
		return c.lasting(d, err)
	}
	return c, err
}

// Resume ends pauses and pulses of the replicas, all if none are named, and
// outages that Outage has begun.
func (t *Target) Resume(replicas ...int) (Changed, error) {
	return t.told(replicas, func(l *loop, r *replica, at clock.Time) {
		r.server.Outage(at, at, service.Ending{})
		r.server.Resume(at)
		l.timers(r)
	})
}

// Outage has requests that arrive at the replicas, all if none are named, fail
// as e says for d, which replaces an outage begun before: see
// service.Server.Outage.
func (t *Target) Outage(d time.Duration, e service.Ending, replicas ...int) (Changed, error) {
	c, err := t.told(replicas, func(l *loop, r *replica, at clock.Time) {
		r.server.Outage(at, at.Add(d), e)
	})
	return c.lasting(d, err)
}
