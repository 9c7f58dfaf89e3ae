package service

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"
)

// Each changes one replica.
type Each struct {
	Replica int
	// Factor multiplies every service time of the replica. 0 means 1.
	Factor float64
	// Time, if set, replaces the service's Time on this replica.
	Time *Dist
	// Own, if set, is what this replica does, all of it, in place of the service;
	// its Each is empty, and its Replicas are those of the service. Time is then
	// not set.
	Own *Spec
}

// Of returns what a replica does: sp, or what stands in its place there. Factor
// and Time of its Each are not in it.
func (sp *Spec) Of(replica int) *Spec {
	for i := range sp.Each {
		if e := &sp.Each[i]; e.Replica == replica && e.Own != nil {
			return e.Own
		}
	}
	return sp
}

// All yields sp and what stands in its place at single replicas.
func (sp *Spec) All() iter.Seq[*Spec] {
	return func(yield func(*Spec) bool) {
		if !yield(sp) {
			return
		}
		for i := range sp.Each {
			if own := sp.Each[i].Own; own != nil && !yield(own) {
				return
			}
		}
	}
}

// Any reports whether f holds of sp, or of what stands in its place at a replica.
func (sp *Spec) Any(f func(*Spec) bool) bool {
	for s := range sp.All() {
		if f(s) {
			return true
		}
	}
	return false
}

// Frozen returns a copy of sp whose replicas stand still from the instant at
// after the mark for the time length, as [Server.Freeze] does it.
func (sp *Spec) Frozen(at, length time.Duration) *Spec {
	out := *sp
	if out.Capacity.Per > 0 {
		out.Outages = append([]Outage{{At: at, For: length, Ending: Ending{Status: 503}}}, out.Outages...)
	} else {
		out.Stalls = append(slices.Clip(out.Stalls), Stall{At: at, For: Constant(length)})
	}
	out.Each = slices.Clone(out.Each)
	for i := range out.Each {
		if e := &out.Each[i]; e.Own != nil {
			e.Own = e.Own.Frozen(at, length)
		}
	}
	return &out
}

func (sp *Spec) validateEach() error {
	for i, e := range sp.Each {
		if e.Replica < 0 || e.Replica >= sp.Servers() {
			return fmt.Errorf("each[%d].replica = %d, want 0 to %d", i, e.Replica, sp.Servers()-1)
		}
		if err := sp.validateOne(fmt.Sprintf("each[%d]", i), &e); err != nil {
			return err
		}
		for _, o := range sp.Each[:i] {
			if o.Replica == e.Replica {
				return fmt.Errorf("each[%d].replica = %d is given twice", i, e.Replica)
			}
		}
	}
	return nil
}

func (sp *Spec) validateOne(key string, e *Each) error {
	if !(e.Factor >= 0) || math.IsInf(e.Factor, 0) {
		return fmt.Errorf("%s.factor = %v, want more than 0", key, e.Factor)
	}
	if sp.Of(e.Replica).Capacity.Per > 0 && (e.Time != nil || e.Factor != 0) {
		return fmt.Errorf("%s contradicts capacity: a window answers at its end", key)
	}
	own := e.Own
	switch {
	case own == nil:
		return nil
	case e.Time != nil:
		return fmt.Errorf("%s has both a time and a service of its own, which is to hold the time", key)
	case len(own.Each) > 0:
		return fmt.Errorf("%s has an each within", key)
	case own.Servers() != sp.Servers():
		return fmt.Errorf("%s has replicas = %d, want those of the service, %d", key, own.Servers(), sp.Servers())
	case own.TLS != sp.TLS:
		return fmt.Errorf("%s has tls = %v, want that of the service, %v: a URL has one scheme", key, own.TLS, sp.TLS)
	}
	if err := own.Validate(); err != nil {
		return fmt.Errorf("%s, replica %d: %w", key, e.Replica, err)
	}
	return nil
}
