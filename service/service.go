// Package service decides what a server does to a request: how long it works
// on it, whether it queues, sheds or fails it, and what a cancelled caller
// changes.
//
// It does no I/O, reads no clock and starts no goroutine. A driver (the target
// on sockets, the simulator in virtual time) reports arrivals, due answers and
// callers that left; the Server answers with what starts next and when it is
// due. Nothing here is safe for concurrent use.
package service

import (
	"time"

	"latencylab/clock"
)

// Spec describes the replicas of one service. The zero Spec is one replica that
// answers 200 at once.
type Spec struct {
	// Replicas is the number of servers. 0 means 1; at most 65,535.
	Replicas int
	// Time is the service time of a request. The zero Dist is constant 0.
	Time Dist
	// Slow replaces Time for a share of the requests, connections, replicas or
	// moments.
	Slow Slow
	// Copies is what the attempts of one call have in common.
	Copies Copies
	// Slots is the number of requests a replica works on at once. 0 means no limit.
	Slots int
	// Queue is the number of requests that may wait for a slot. Negative means
	// no limit; 0 means none: a request that finds no slot is shed.
	Queue int
	// Capacity serves by windows of time in place of slots, queue and time.
	Capacity Capacity
	// Thrash is what overload costs.
	Thrash Thrash
	// Discipline is which waiting request gets a slot that became free, or which
	// requests of an overloaded window are served.
	Discipline Discipline
	// Shed is the status of a request that found the queue full or its window
	// overloaded. 0 means 503.
	Shed uint16
	// Status lists the shares of requests that are answered with a status other
	// than 200. The shares add up to at most 1.
	Status []StatusShare
	// Faults are the shares of requests that end otherwise than by a plain answer,
	// and what each kind looks like.
	Faults Faults
	// Script, if not empty, is how attempts end by their number: the first entry
	// that of attempt 1, the last that of all later ones too. It stands in place
	// of Status and Faults.
	Script []Ending
	// ScriptKey, if set, is the name of a request header. Callers that do not number
	// their attempts then meet the script by the number of the request among those
	// with the same value at the replica; a request without the header among all
	// without.
	ScriptKey string
	// RetryAfter is sent with 429 and 503 answers, in whole seconds (RFC 9110
	// 10.2.3). 0 means none.
	RetryAfter time.Duration
	// Cancel is what happens to work whose caller has left.
	Cancel Cancel
	// CancelCost is how long running work that Cancel stops still holds its slot.
	// 0 means that the slot is free at once.
	CancelCost time.Duration
	// Deadline is what the service does about requests whose deadline passes.
	Deadline Deadline
	// Outages are stretches in which requests that arrive fail. Work under way and
	// what waits goes on. Where they overlap, the first in the list counts.
	Outages []Outage
	// Stalls are stretches in which the replicas stop: whatever is due moves by
	// the part of a stall that lies before it.
	Stalls []Stall
	// Ramps change figures of the service over time.
	Ramps []Ramp
	// Body is the length of the answer's body in bytes.
	Body int
	// TLS has the replicas speak TLS on sockets. It changes nothing of what the
	// server does.
	TLS bool
	// Each changes single replicas, by number from 0.
	Each []Each
}

// Scheduled reports whether anything that the service does counts from a mark.
func (sp *Spec) Scheduled() bool {
	return sp.Any(func(sp *Spec) bool {
		return len(sp.Outages) > 0 || len(sp.Stalls) > 0 || len(sp.Ramps) > 0 || sp.Capacity.Per > 0 || sp.Slow.By == SlowByWindow
	})
}

// Slow is a share of slow requests, connections, replicas or moments.
type Slow struct {
	// Share in [0, 1] of what By names is slow.
	Share float64
	// Time is the service time of what is slow.
	Time Dist
	By   SlowBy
	// Factor, if not 0, is used instead of Time: what is slow takes so many times
	// as long.
	Factor float64
	// Window is the length of the windows of SlowByWindow, which lie side by side
	// from the mark on. A request is slow by the window in which it arrives.
	Window time.Duration
}

// SlowBy is what slowness sticks to.
type SlowBy uint8

const (
	// SlowByRequest draws anew for each (call, attempt): copies are independent.
	SlowByRequest SlowBy = iota
	// SlowByReplica draws once for each replica.
	SlowByReplica
	// SlowByConnection draws once for each connection of a replica; where the
	// connection is not known, for each (call, attempt).
	SlowByConnection
	// SlowByWindow draws once for each window of time of a replica.
	SlowByWindow
)

// Capacity is what a replica serves in each window of time. The windows lie side
// by side from the mark on. What arrives in one is answered at its end: as many
// as Requests are served, and the others shed. An outage leaves no capacity: who
// arrives in it fails at the window's end. The zero Capacity is none: slots and
// times decide.
type Capacity struct {
	Requests int
	Per      time.Duration
}

// Thrash lowers what a replica can do while too much is asked of it. The zero
// Thrash does not.
type Thrash struct {
	// Above is the number of requests above which a replica is overloaded: those
	// that run and wait when a job starts, itself included, or with Capacity those
	// of the window.
	Above int
	// Factor in (0, 1] is what is left: a job that starts then takes 1/Factor times
	// its service time, a window serves Factor of its capacity.
	Factor float64
}

// Ending is how an exchange ends: with an answer of that status, or with a fault.
type Ending struct {
	Status uint16 // 0 with a fault
	Fault  Fault
}

// Outage is a stretch of time, or a row of them, counted from the mark.
type Outage struct {
	At  time.Duration // beginning of the first
	For time.Duration // length of each, above 0
	// Every is the time from one beginning to the next. 0 means there is one only.
	Every time.Duration
	// Ending is what happens to a request that arrives: at once a status from 400
	// on or a fault in place of the answer; or, where the fault spoils the answer,
	// that after the work.
	Ending Ending
	// Share in [0, 1] of the requests that it strikes. 0 means all.
	Share float64
	// Replicas are the numbers of those it strikes. Empty means all.
	Replicas []int
}

// Stall is a stretch of time, or a row of them, counted from the mark.
type Stall struct {
	At time.Duration // beginning of the first
	// Every is the time from one beginning to the next. 0 means there is one only.
	Every time.Duration
	// For is the length of each, drawn for each stall and at most Every.
	For Dist
	// Apart lets each replica stop by itself: its stalls begin later by a part of
	// Every that is drawn for it, and their lengths are its own. Otherwise all
	// replicas stop at once.
	Apart bool
	// Replicas are the numbers of those it strikes. Empty means all.
	Replicas []int
}

// Copies is what the attempts of one call have in common.
type Copies uint8

const (
	// CopiesIndependent: nothing. Each attempt draws anew.
	CopiesIndependent Copies = iota
	// CopiesSame: everything that is drawn for requests. A second copy is as slow
	// as the first, and ends alike.
	CopiesSame
	// CopiesMixed: Time, which is the size of the request, but not Slow, which is
	// the server's, nor how it ends. With Slow.Factor it is the S&X model of
	// Gardner, Harchol-Balter, Scheller-Wolf and Van Houdt, "A better model for job
	// redundancy: decoupling server slowdown and job size", IEEE/ACM Transactions
	// on Networking 25 (2017).
	CopiesMixed
)

// StatusShare is the share in [0, 1] of requests answered with Status.
type StatusShare struct {
	Status uint16
	Share  float64
}

// Cancel is what a server does when the caller of a request has left.
type Cancel uint8

const (
	// CancelNone: nothing stops; queued and running work goes on.
	CancelNone Cancel = iota
	// CancelQueued: a request that waits is dropped, running work goes on.
	CancelQueued
	// CancelRunning: running work stops too and frees its slot.
	CancelRunning
)

// Discipline is the order in which waiting requests are served.
type Discipline uint8

const (
	// FIFO serves the request that has waited longest.
	FIFO Discipline = iota
	// LIFO serves the one that came last.
	LIFO
	// Proportional serves any of those that wait, each as likely as the other: so
	// first attempts and retries are served in proportion to their numbers.
	Proportional
	// NewFirst serves first attempts (number 1) before later ones, and among each
	// the one that has waited longest.
	NewFirst
)

// Deadline is what a server does about requests that nobody wants answered any
// more (Request.Deadline). It answers them 504.
type Deadline uint8

const (
	// DeadlineIgnore: nothing; they are served as others.
	DeadlineIgnore Deadline = iota
	// DeadlineQueued: no work is begun for them.
	DeadlineQueued
	// DeadlineRunning: work under way stops at the deadline too, and its slot is free.
	DeadlineRunning
)

// Counts are what a server has counted since New.
type Counts struct {
	// Expired is the number of requests that were answered 504 without work.
	Expired uint64
	// Stopped is the number of jobs that began and were stopped: at their
	// deadline, or because their caller had left.
	Stopped uint64
	// Worked is the time from the start to the end of each job, added up over all
	// that ran; a job under way counts to the instant at which it is due. The time of
	// a pause is not in it.
	Worked time.Duration
}

// Job names an admitted request until its End or a Cancel that dropped it.
// 0 names none.
type Job uint32

// Request is what arrives at a server.
type Request struct {
	// Tag is the driver's mark, given back in Step and Answer.
	Tag uint32
	// Call and Attempt, which counts from 1, key the draws.
	Call    uint64
	Attempt uint32
	// Conn identifies the connection that it came by; 0: not known.
	Conn uint64
	// Key, if not 0, stands for the value of Spec.ScriptKey, or for its absence: the
	// caller does not number its attempts.
	Key uint64
	// Fresh says that the connection has carried no request before.
	Fresh bool
	// Deadline is the instant after which nobody wants the answer. clock.Never:
	// there is none.
	Deadline clock.Time
}

// Step is what an event changes in the driver's timers: at most one job. Its
// timer is set to Due, in place of the one that the job may have already: work
// that is stopped at a cost (Cancel) names the same job again.
type Step struct {
	Job Job        // the job that starts, or whose due instant moves; 0: none
	Tag uint32     // the driver's mark of that job
	Due clock.Time // when the driver calls End
}

// Answer is what a due job sends.
type Answer struct {
	Status     uint16        // 0 with a fault in place of the answer
	Fault      Fault         // what is done instead of an answer, or to it
	Shed       bool          // it found the queue full or its window overloaded
	Worked     bool          // it was worked on: had a slot, needed none, or its window served it
	RetryAfter time.Duration // 0: no header
	Body       int           // bytes
	Drawn      time.Duration // the service time that was drawn for the job
	Tag        uint32
}
