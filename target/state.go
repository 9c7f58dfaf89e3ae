package target

import (
	"fmt"
	"math"
	"slices"
	"time"

	"latencylab/clock"
)

// Backlog is what is under way at the replicas, at one instant for those of one
// loop. It costs some microseconds, and may be asked for every few milliseconds.
type Backlog struct {
	At time.Time `json:"at"` // by the target's wall clock
	// WorkNS is the unfinished work of all replicas: see service.Server.Backlog.
	WorkNS int64 `json:"work_ns"`
	// InFlight is the number of requests that have arrived and not ended.
	InFlight int `json:"in_flight"`
	// Replicas are ordered by number.
	Replicas []ReplicaBacklog `json:"replicas"`
}

// ReplicaBacklog is what is under way at one replica.
type ReplicaBacklog struct {
	WorkNS   int64 `json:"work_ns"`
	InFlight int   `json:"in_flight"`
	Busy     int   `json:"busy"`    // worked on, or in the window under way
	Waiting  int   `json:"waiting"` // for a slot
}

// Backlog returns what is under way.
func (t *Target) Backlog() Backlog {
	now, wall := clock.Pair()
	b := Backlog{At: time.Unix(0, wall).UTC(), Replicas: make([]ReplicaBacklog, len(t.replicas))}
	for _, l := range t.loops {
		l.do(func() {
			for _, r := range l.replicas {
				s := r.server
				b.Replicas[r.index] = ReplicaBacklog{int64(s.Backlog(now)), s.Jobs(), s.Busy(), s.Waiting()}
			}
		})
	}
	for _, r := range b.Replicas {
		b.InFlight += r.InFlight
		if b.WorkNS += r.WorkNS; b.WorkNS < 0 {
			b.WorkNS = math.MaxInt64
		}
	}
	return b
}

// States of a replica.
const (
	StateUp     = "up"
	StatePaused = "paused" // nothing proceeds
	StateKilled = "killed" // callers are refused
)

// ReplicaState is what a replica is doing.
type ReplicaState struct {
	Replica int    `json:"replica"`
	Address string `json:"address"`
	State   string `json:"state"` // one of the constants StateUp to StateKilled
	// Until is when a pause ends, or a killed replica is revived; nil when there is
	// no such state, or no end is set.
	Until *time.Time `json:"until,omitempty"`
	// Outage is how requests fail by Target.Outage, until OutageUntil; "" when they
	// do not.
	Outage      string     `json:"outage,omitempty"`
	OutageUntil *time.Time `json:"outage_until,omitempty"`
}

// States returns what the replicas are doing, by number.
func (t *Target) States() []ReplicaState {
	now, wall := clock.Pair()
	instant := func(at clock.Time) *time.Time {
		w := time.Unix(0, wall).Add(at.Sub(now)).UTC()
		return &w
	}
	list := make([]ReplicaState, len(t.replicas))
	for _, l := range t.loops {
		l.do(func() {
			for _, r := range l.replicas {
				s := ReplicaState{Replica: r.index, Address: t.replicas[r.index].String(), State: StateUp}
				if r.server.Paused() {
					s.State = StatePaused
				}
				if r.killed {
					s.State = StateKilled
				}
				if until := l.until(r); until != clock.Never {
					s.Until = instant(until)
				}
				if e, until, ok := r.server.OutageNow(now); ok {
					s.Outage, s.OutageUntil = e.String(), instant(until)
				}
				list[r.index] = s
			}
		})
	}
	return list
}

// numbers checks numbers of replicas and returns them in order, all if there
// are none.
func (t *Target) numbers(replicas []int) ([]int, error) {
	n := len(t.replicas)
	if len(replicas) == 0 {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all, nil
	}
	list := slices.Clone(replicas)
	slices.Sort(list)
	list = slices.Compact(list)
	for _, r := range list {
		if r < 0 || r >= n {
			return nil, fmt.Errorf("replica %d, want 0 to %d", r, n-1)
		}
	}
	return list, nil
}
