package sim

import (
	"math"
	"time"

	"latencylab/service"
)

// Served is what the servers of a run record, burn-in included, in the words of
// a target's ledger. At every instant
//
//	arrived = first + later
//	arrived = answered + broken + after_left + withdrawn + cancelled.dropped + in_flight
//	cancelled.queued + cancelled.running = cancelled.dropped + cancelled.went_on
type Served struct {
	Arrived uint64 // requests given to a server
	First   uint64 // those with attempt number 1
	Later   uint64 // those with a larger one
	Shed    uint64 // answers to those that found the queue full or a window overloaded
	// Answered are those whose answer was sent whole to a caller who had not left
	// as far as the server knew, and Broken those that a fault ended otherwise.
	Answered, Broken uint64
	// Faults counts requests that met a fault, by kind.
	Faults    [service.Kinds]uint64
	AfterLeft uint64 // those whose answer came due when the caller had left
	Withdrawn uint64 // copies that waited when another one started
	Cancelled Cancelled
	// InFlight is what has arrived and not ended.
	InFlight uint64
	// BusyPeak and QueuePeak are the most requests that one server worked on and
	// had waiting when one had just arrived.
	BusyPeak, QueuePeak int
	// Expired are requests that were answered 504 without work, their deadline
	// being over.
	Expired uint64
	// Work is the time for which requests were worked on, all together: stalls
	// count, waiting does not. Work under way counts to its end.
	Work time.Duration
	// Stopped are requests that a server began to work on and stopped before the
	// end, because the caller had left or at their deadline.
	Stopped uint64
}

// Cancelled counts callers that left before the answer was due.
type Cancelled struct {
	Queued  uint64 // while the request waited for a slot
	Running uint64 // while it was worked on, shed, left to hang or held up by a fault
	Dropped uint64 // the work ended with it
	WentOn  uint64 // the work went on
}

// arrived counts a request that the server has just taken.
func (w *world) arrived(s *service.Server, a *attempt) {
	v := &w.books
	v.Arrived++
	if w.came != nil {
		w.came[a.replica]++
	}
	if a.number == 1 {
		v.First++
	}
	v.BusyPeak = max(v.BusyPeak, s.Busy())
	v.QueuePeak = max(v.QueuePeak, s.Waiting())
}

// replied counts a request that has come due.
func (w *world) replied(f service.Fault, gone bool) {
	v := &w.books
	switch {
	case f == service.FaultGone: // counted when its caller left
	case gone:
		v.AfterLeft++
	default:
		if f != service.FaultNone && !f.Spoils() {
			v.Faults[f]++
		}
		if f.Breaks() {
			v.Broken++
		} else {
			v.Answered++
		}
	}
}

// quit counts a caller that has left.
func (w *world) quit(queued, dropped bool) {
	c := &w.books.Cancelled
	if queued {
		c.Queued++
	} else {
		c.Running++
	}
	if dropped {
		c.Dropped++
	} else {
		c.WentOn++
	}
}

// tally returns the books of the servers as they stand.
func (w *world) tally() Served {
	v := w.books
	v.Later = v.Arrived - v.First
	v.InFlight = v.Arrived - v.Answered - v.Broken - v.AfterLeft - v.Withdrawn - v.Cancelled.Dropped
	for _, s := range w.servers {
		c := s.Counts()
		v.Expired += c.Expired
		v.Stopped += c.Stopped
		if v.Work += c.Worked; v.Work < 0 {
			v.Work = math.MaxInt64
		}
	}
	return v
}
