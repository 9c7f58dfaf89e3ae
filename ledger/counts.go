// Package ledger keeps what is recorded of every call and every attempt of one
// policy: counts whose sums are identities, and histograms.
//
// Each loop of a driver fills its own Ledger; they are merged at the end. The
// package does no I/O and reads no clock. Not safe for concurrent use.
package ledger

import (
	"fmt"
	"math"
	"time"

	"latencylab/policy"
)

// Calls counts calls by how they ended.
type Calls struct {
	Scheduled  uint64 // wanted by the schedule; in closed loop: begun by a user
	OK         uint64
	Failed     uint64 // the answer was a failure, or the deadline came first
	Unfinished uint64 // still open when the run ended
	Dropped    uint64 // never begun; only where dropping was allowed
}

// Attempts counts attempts by why they were sent and how they ended.
type Attempts struct {
	Sent             uint64 // given to a connection, dialling included
	First            uint64
	Retries          uint64
	Hedges           uint64
	OK               uint64 // answered with a wanted status
	Failed           uint64 // answered with a failure, or broken on the way
	TimedOut         uint64 // ended by an attempt timeout or the deadline
	Cancelled        uint64 // ended because another attempt had won or the call had failed
	Abandoned        uint64 // open when the run ended
	HedgeWins        uint64 // hedges whose answer ended the call
	SpuriousHedges   uint64 // sent although the stamp shows that the answer was there
	SpuriousTimeouts uint64 // timed out although the stamp shows that the answer was there
}

// Connections counts what became of connections.
type Connections struct {
	Opened         uint64 // handshakes that succeeded
	Reused         uint64 // attempts sent on a connection that had carried one before
	ClosedByCancel uint64
	Lost           uint64 // TCP handshakes closed because another address of the name was faster
	Fallbacks      uint64 // addresses that failed before another one of the name was connected
	Resumed        uint64 // of Opened: TLS sessions that went on from an earlier one
}

// Work is work that a server says it has done for attempts: see Latencylab-Work.
type Work struct {
	Attempts uint64
	Time     time.Duration // saturates
}

// Add counts the work of one attempt.
func (w *Work) Add(d time.Duration) { w.merge(Work{1, d}) }

func (w *Work) merge(o Work) {
	w.Attempts += o.Attempts
	if w.Time += o.Time; w.Time < 0 {
		w.Time = math.MaxInt64
	}
}

// ErrorKey identifies errors of one sort.
type ErrorKey struct {
	Class  Class
	Phase  policy.Phase
	Status uint16 // 0 when there was no answer
}

// Error counts errors of one sort.
type Error struct {
	ErrorKey
	Count  uint64
	Sample string // one message in full, from the first that came
}

// maxErrors bounds the sorts of errors that are told apart; what comes after
// is counted under ClassOther.
const maxErrors = 64

// Counts is the part of a Ledger that is plain numbers.
type Counts struct {
	Calls       Calls
	Attempts    Attempts
	Connections Connections
	// Work is what servers say of the answers that ended their call ok (Used) and
	// of those with a status that is not wanted (Failed).
	Work struct{ Used, Failed Work }
	// Refused counts refused attempts by policy.Rule.
	Refused [policy.Rules]uint64
	// Errors are attempts that failed or timed out, by sort, in order of first
	// appearance; at most maxErrors.
	Errors []Error
	// Unstamped counts answers without a usable kernel receive stamp; Coalesced
	// those whose stamp may belong to later bytes of the same read.
	Unstamped, Coalesced uint64
	// BytesIn and BytesOut count wire bytes of HTTP.
	BytesIn, BytesOut uint64
}

// AddError counts one error; sample is kept when the sort is new.
func (c *Counts) AddError(k ErrorKey, sample string) { c.addErrors(k, 1, sample) }

// Again counts one error of a sort that has been seen; it returns false, and
// counts nothing, when the sort is new.
func (c *Counts) Again(k ErrorKey) bool {
	for i := range c.Errors {
		if c.Errors[i].ErrorKey == k {
			c.Errors[i].Count++
			return true
		}
	}
	return false
}

func (c *Counts) addErrors(k ErrorKey, n uint64, sample string) {
	for i := range c.Errors {
		if c.Errors[i].ErrorKey == k {
			c.Errors[i].Count += n
			return
		}
	}
	if len(c.Errors) >= maxErrors-1 && k != (ErrorKey{Class: ClassOther}) {
		c.addErrors(ErrorKey{Class: ClassOther}, n, "further sorts of errors")
		return
	}
	c.Errors = append(c.Errors, Error{ErrorKey: k, Count: n, Sample: sample})
}

// Merge adds the counts of another loop or block.
func (c *Counts) Merge(o *Counts) {
	c.Calls.Scheduled += o.Calls.Scheduled
	c.Calls.OK += o.Calls.OK
	c.Calls.Failed += o.Calls.Failed
	c.Calls.Unfinished += o.Calls.Unfinished
	c.Calls.Dropped += o.Calls.Dropped

	c.Attempts.Sent += o.Attempts.Sent
	c.Attempts.First += o.Attempts.First
	c.Attempts.Retries += o.Attempts.Retries
	c.Attempts.Hedges += o.Attempts.Hedges
	c.Attempts.OK += o.Attempts.OK
	c.Attempts.Failed += o.Attempts.Failed
	c.Attempts.TimedOut += o.Attempts.TimedOut
	c.Attempts.Cancelled += o.Attempts.Cancelled
	c.Attempts.Abandoned += o.Attempts.Abandoned
	c.Attempts.HedgeWins += o.Attempts.HedgeWins
	c.Attempts.SpuriousHedges += o.Attempts.SpuriousHedges
	c.Attempts.SpuriousTimeouts += o.Attempts.SpuriousTimeouts

	c.Connections.Opened += o.Connections.Opened
	c.Connections.Reused += o.Connections.Reused
	c.Connections.ClosedByCancel += o.Connections.ClosedByCancel
	c.Connections.Lost += o.Connections.Lost
	c.Connections.Fallbacks += o.Connections.Fallbacks
	c.Connections.Resumed += o.Connections.Resumed
	c.Work.Used.merge(o.Work.Used)
	c.Work.Failed.merge(o.Work.Failed)
	for i := range c.Refused {
		c.Refused[i] += o.Refused[i]
	}
	for i := range o.Errors {
		e := &o.Errors[i]
		c.addErrors(e.ErrorKey, e.Count, e.Sample)
	}
	c.Unstamped += o.Unstamped
	c.Coalesced += o.Coalesced
	c.BytesIn += o.BytesIn
	c.BytesOut += o.BytesOut
}

// Check returns an error that names the first identity that does not hold:
//
//	scheduled = ok + failed + unfinished + dropped
//	sent = ok + failed + timed_out + cancelled + abandoned
//	sent = first + retries + hedges
//	first <= scheduled - dropped
func (c *Counts) Check() error {
	k, a := &c.Calls, &c.Attempts
	if sum := k.OK + k.Failed + k.Unfinished + k.Dropped; sum != k.Scheduled {
		return fmt.Errorf("calls: %d scheduled, but ok+failed+unfinished+dropped = %d", k.Scheduled, sum)
	}
	if sum := a.OK + a.Failed + a.TimedOut + a.Cancelled + a.Abandoned; sum != a.Sent {
		return fmt.Errorf("attempts: %d sent, but ok+failed+timed_out+cancelled+abandoned = %d", a.Sent, sum)
	}
	if sum := a.First + a.Retries + a.Hedges; sum != a.Sent {
		return fmt.Errorf("attempts: %d sent, but first+retries+hedges = %d", a.Sent, sum)
	}
	if a.First > k.Scheduled-k.Dropped {
		return fmt.Errorf("attempts: %d first, but only %d calls begun", a.First, k.Scheduled-k.Dropped)
	}
	return nil
}

// ExtraLoad is attempts sent over first attempts, less 1. ok is false when
// nothing was sent.
func (c *Counts) ExtraLoad() (x float64, ok bool) {
	if c.Attempts.First == 0 {
		return 0, false
	}
	return float64(c.Attempts.Sent)/float64(c.Attempts.First) - 1, true
}

// Amplification is attempts sent over calls scheduled. ok is false when no call
// was scheduled.
func (c *Counts) Amplification() (x float64, ok bool) {
	if c.Calls.Scheduled == 0 {
		return 0, false
	}
	return float64(c.Attempts.Sent) / float64(c.Calls.Scheduled), true
}
