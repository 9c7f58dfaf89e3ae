package target

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"latencylab/engine"
	"latencylab/histo"
	"latencylab/service"
)

// Schema names the form of the ledger page.
const Schema = "latencylab.target/1"

// Ledger is what a target has recorded since it began or was reset, as its
// ledger page shows it. Read it when nothing is in flight: loops are asked one
// after the other.
type Ledger struct {
	Schema    string    `json:"schema"` // the constant Schema
	StartedAt time.Time `json:"started_at"`
	Seed      uint64    `json:"seed"`
	// Generation counts the services that the target was told, from 1; Since is when
	// the one that holds began to.
	Generation uint64    `json:"generation"`
	Since      time.Time `json:"since"`
	// Replicas are the addresses by number, of several services those of the entry.
	Replicas []string `json:"replicas"`
	// Threads is the number of loops that the replicas are dealt over.
	Threads int `json:"threads"`
	// Poller is the system call that the loops wait with; Stamps says whether
	// received bytes carry the kernel's stamp on this system.
	Poller      string      `json:"poller"`
	Stamps      bool        `json:"stamps"`
	Connections Connections `json:"connections"`
	// Front is the address in front of the replicas; nil when there is none.
	Front *FrontLedger `json:"front,omitempty"`
	// Upstream is what the target stands in front of; nil when there is nothing.
	Upstream *UpstreamLedger `json:"upstream,omitempty"`
	// KnownCalls is the number of calls over which duplicates are told: see the constant.
	KnownCalls int64 `json:"known_calls"`
	// DelayError is that of the runs below together: how exact the target is.
	DelayError Span `json:"delay_error"`
	// Runs are ordered by key; callers without Latencylab-Run have the empty one.
	Runs []Run `json:"runs"`
	// Services are all services of a file in which some call others, the entry
	// first, whose Runs and Replicas are those above.
	Services []ServiceLedger `json:"services,omitempty"`
	// Record counts the readers of the full record since the target began.
	Record RecordLedger `json:"record"`
	// Other counts the requests of run keys beyond MaxRuns; nil when there are none.
	Other *Run `json:"other,omitempty"`
	// Warnings say what limits the record.
	Warnings []string `json:"warnings,omitempty"`
}

// Connections counts connections of all replicas, and what was no request of a
// run.
type Connections struct {
	Open     uint64 `json:"open"` // now
	Accepted uint64 `json:"accepted"`
	// Refused were closed at once because of the limit on connections.
	Refused uint64 `json:"refused"`
	// TimedOut were closed because the peer owed bytes for too long.
	TimedOut uint64 `json:"timed_out"`
	// Handshakes are TLS handshakes that succeeded, Resumed those of them that went
	// on from an earlier session, and TLSFailed those that did not succeed before
	// the limit on time.
	Handshakes uint64 `json:"handshakes"`
	Resumed    uint64 `json:"resumed"`
	TLSFailed  uint64 `json:"tls_failed"`
	// Killed were reset because their replica was killed.
	Killed uint64 `json:"killed"`
	// AcceptSilence were never read, by that fault or by tls-stall; AcceptReset were
	// reset at once; BadCertificate were shown a certificate that is not good.
	AcceptSilence  uint64 `json:"accept_silence"`
	AcceptReset    uint64 `json:"accept_reset"`
	BadCertificate uint64 `json:"bad_certificate"`
	SlowRead       uint64 `json:"slow_read"`  // read a little at a time
	WellKnown      uint64 `json:"well_known"` // requests for the announcement
	// Bad400 to Bad505 count what was no valid request, by the status it got.
	Bad400 uint64 `json:"bad_400"`
	Bad431 uint64 `json:"bad_431"`
	Bad501 uint64 `json:"bad_501"`
	Bad505 uint64 `json:"bad_505"`
}

func (c *Connections) merge(o *Connections) {
	c.Accepted += o.Accepted
	c.Refused += o.Refused
	c.TimedOut += o.TimedOut
	c.Handshakes += o.Handshakes
	c.Resumed += o.Resumed
	c.TLSFailed += o.TLSFailed
	c.Killed += o.Killed
	c.AcceptSilence += o.AcceptSilence
	c.AcceptReset += o.AcceptReset
	c.BadCertificate += o.BadCertificate
	c.SlowRead += o.SlowRead
	c.WellKnown += o.WellKnown
	c.Bad400 += o.Bad400
	c.Bad431 += o.Bad431
	c.Bad501 += o.Bad501
	c.Bad505 += o.Bad505
}

// Counts are the plain numbers of one run. At every instant
//
//	arrived = first + later
//	arrived = answered + broken + after_left + cancelled.dropped + in_flight
//	cancelled.queued + cancelled.running = cancelled.dropped + cancelled.went_on
type Counts struct {
	Arrived uint64 `json:"arrived"` // requests given to a server
	First   uint64 `json:"first"`   // those with attempt number 1
	Later   uint64 `json:"later"`   // those with a larger one
	Shed    uint64 `json:"shed"`    // answers to those that found the queue full or a window overloaded
	// Broken are requests that a fault ended without an answer that is whole and
	// valid, or that ended with their replica.
	Broken uint64 `json:"broken"`
	// Killed are those under way at a replica when it was killed; they are in Broken,
	// or in AfterLeft when their caller had left.
	Killed uint64 `json:"killed"`
	// InFlight is what has arrived and not ended.
	InFlight uint64 `json:"in_flight"`
	// AfterLeft are requests whose answer came due when the caller had left, or
	// found the connection broken.
	AfterLeft uint64 `json:"after_left"`
	// CutShort are answers that were begun and could not be written to the end.
	CutShort  uint64    `json:"cut_short"`
	Cancelled Cancelled `json:"cancelled"`
	// Unstamped are requests without a usable kernel stamp; they have no read delay.
	Unstamped uint64 `json:"unstamped"`
	// BusyPeak and QueuePeak are the most requests that a replica worked on and
	// had waiting when one of this run had just arrived, those of other runs included.
	BusyPeak  uint64 `json:"busy_peak"`
	QueuePeak uint64 `json:"queue_peak"`
	// DrawsFirst is the sum of draw.Mix(call, attempt, drawn) over attempts
	// numbered 1, DrawsAll over all. They do not depend on the order of arrival,
	// and for shed requests take what would have been drawn.
	DrawsFirst Digest `json:"draws_first_digest"`
	DrawsAll   Digest `json:"draws_all_digest"`
}

// Cancelled counts callers that left before the answer was due, or before a
// fault had done with it.
type Cancelled struct {
	Queued  uint64 `json:"queued"`  // while the request waited for a slot
	Running uint64 `json:"running"` // while it was worked on, shed, left to hang or held up by a fault
	Dropped uint64 `json:"dropped"` // the work ended with it
	WentOn  uint64 `json:"went_on"` // the work went on
}

func (c *Counts) merge(o *Counts) {
	c.Arrived += o.Arrived
	c.First += o.First
	c.Later += o.Later
	c.Shed += o.Shed
	c.Broken += o.Broken
	c.Killed += o.Killed
	c.InFlight += o.InFlight
	c.AfterLeft += o.AfterLeft
	c.CutShort += o.CutShort
	c.Cancelled.Queued += o.Cancelled.Queued
	c.Cancelled.Running += o.Cancelled.Running
	c.Cancelled.Dropped += o.Cancelled.Dropped
	c.Cancelled.WentOn += o.Cancelled.WentOn
	c.Unstamped += o.Unstamped
	c.BusyPeak = max(c.BusyPeak, o.BusyPeak)
	c.QueuePeak = max(c.QueuePeak, o.QueuePeak)
	c.DrawsFirst += o.DrawsFirst
	c.DrawsAll += o.DrawsAll
}

// Run is what was recorded of one run key.
type Run struct {
	Key string `json:"run"`
	Counts
	// Answered counts answers to callers that were there, by status.
	Answered map[uint16]uint64 `json:"answered"`
	// Faults counts requests that met a fault, by its kind, from the instant at
	// which it began to strike; nil when there were none. What they are in Counts:
	// see docs/target.md.
	Faults map[string]uint64 `json:"faults,omitempty"`
	// ByReplica counts arrived requests, by number of the replica.
	ByReplica  []uint64   `json:"by_replica"`
	Duplicates Duplicates `json:"duplicates"`
	// Work is the work on requests that have ended, by how they ended.
	Work WorkBy `json:"work"`
	// QueueWait is how long requests waited for their work to begin, WorkTime how
	// long that took; of the requests whose work began and that have ended.
	// Requests of windows have neither.
	QueueWait Span `json:"queue_wait"`
	WorkTime  Span `json:"work_time"`
	// ReadDelay is how long requests lay in the kernel before they were read.
	ReadDelay Span `json:"read_delay"`
	// DelayError is how much later than due the answers were written.
	DelayError Span `json:"delay_error"`
}

// AnsweredTotal is the sum over all statuses.
func (r *Run) AnsweredTotal() (n uint64) {
	for _, k := range r.Answered { // order does not show: a sum
		n += k
	}
	return n
}

// Add adds the counts of o, of a run of the same service. Key and spans stay.
func (r *Run) Add(o *Run) {
	r.Counts.merge(&o.Counts)
	r.Work.add(&o.Work)
	r.Duplicates.add(&o.Duplicates)
	if r.Answered == nil {
		r.Answered = map[uint16]uint64{}
	}
	for status, n := range o.Answered { // order does not show: sums by key
		r.Answered[status] += n
	}
	for kind, n := range o.Faults { // order does not show: sums by key
		if r.Faults == nil {
			r.Faults = map[string]uint64{}
		}
		r.Faults[kind] += n
	}
	for len(r.ByReplica) < len(o.ByReplica) {
		r.ByReplica = append(r.ByReplica, 0)
	}
	for i, n := range o.ByReplica {
		r.ByReplica[i] += n
	}
}

// Digest is a sum of draw.Mix values. In JSON it is a string of 16 hexadecimal
// digits.
type Digest uint64

// MarshalText returns the 16 digits.
func (d Digest) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(d)), nil }

// UnmarshalText reads what MarshalText has written.
func (d *Digest) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil || len(b) != 16 {
		return fmt.Errorf("digest = %q, want 16 hexadecimal digits", b)
	}
	*d = Digest(v)
	return nil
}

// Run returns the record of the run with this key, nil when nothing of it has
// arrived.
func (l *Ledger) Run(key string) *Run {
	for i := range l.Runs {
		if l.Runs[i].Key == key {
			return &l.Runs[i]
		}
	}
	return nil
}

// Total returns the sum over all runs, without spans.
func (l *Ledger) Total() Run {
	var sum Run
	for i := range l.Runs {
		sum.Add(&l.Runs[i])
	}
	if l.Other != nil {
		sum.Add(l.Other)
	}
	return sum
}

// Ledger returns what was recorded so far of every run. It may also be called
// after Stop.
func (t *Target) Ledger() *Ledger { return t.ledger(nil) }

// LedgerOf is Ledger with the one run of this key, or with none.
func (t *Target) LedgerOf(run string) *Ledger { return t.ledger(&run) }

func (t *Target) ledger(only *string) *Ledger {
	out, _ := t.collect(only)
	return out
}

// collect is ledger, with the histograms of all runs that it shows together.
func (t *Target) collect(only *string) (*Ledger, *tally) {
	t.reading.Lock()
	defer t.reading.Unlock()
	out := &Ledger{
		Schema: Schema, StartedAt: t.began.UTC(), Seed: t.seed, Threads: len(t.loops),
		Stamps: engine.Stamps, KnownCalls: t.calls.window, Runs: []Run{},
	}
	now := t.holds.Load()
	out.Generation, out.Since = now.generation, now.since
	out.Services = t.serviceLedgers()
	out.Replicas = out.Services[0].Replicas
	sums := map[uint16]*tally{}
	var times *histo.Histogram
	if u := t.upstream; u != nil {
		out.Upstream, times = &UpstreamLedger{Address: u.Address}, histo.New()
	}
	for _, l := range t.loops {
		out.Poller = l.poll.Method()
		l.do(func() {
			out.Connections.merge(&l.sockets)
			if l.front != nil && l == t.loops[0] {
				out.Front = l.front.ledger()
			}
			l.tallies.addTo(sums, only)
			l.hops.addTo(out.Services)
			if l.beyond != nil {
				l.beyond.addTo(out.Upstream, times)
			}
			if l.tallies.fault != nil {
				out.Warnings = append(out.Warnings, "a loop has ended: "+l.tallies.fault.Error())
			}
		})
	}
	var e histo.Encoder
	if out.Upstream != nil {
		out.Upstream.Opened, out.Upstream.Time = t.upstream.opened.Load(), spanOf(times, &e)
	}
	out.Record = RecordLedger{t.following.readers.Load(), t.following.records.Load(), t.following.lost.Load()}
	out.Connections.Open = uint64(max(t.open.Load(), 0))
	all := newTally(tallyKey{}, len(t.replicas))
	for i, sum := range sums { // order does not show: sorted below
		all.merge(sum)
		r := sum.run(&e)
		if i == otherRun {
			out.Other = &r
			out.Warnings = append(out.Warnings, fmt.Sprintf("more than %d run keys: the requests of further ones are counted under \"other\"", MaxRuns))
			continue
		}
		n := t.nodes[sum.key.node]
		r.ByReplica = r.ByReplica[n.first:][:n.Spec.Servers()]
		s := &out.Services[n.index]
		s.Runs = append(s.Runs, r)
	}
	for i := range out.Services {
		slices.SortFunc(out.Services[i].Runs, func(a, b Run) int { return cmp.Compare(a.Key, b.Key) })
	}
	if out.Runs = out.Services[0].Runs; t.edges == 0 && len(t.nodes) == 1 {
		out.Services = nil
	}
	out.DelayError = spanOf(all.delayError, &e)
	return out, all
}

// addTo adds copies of the loop's tallies to sums, all or only that of one key.
func (ts *tallies) addTo(sums map[uint16]*tally, only *string) {
	for i, t := range ts.list[:noRun] {
		if t == nil || only != nil && i != otherRun && t.key.run.String() != *only {
			continue
		}
		sum := sums[uint16(i)]
		if sum == nil {
			sum = newTally(t.key, ts.replicas)
			sums[uint16(i)] = sum
		}
		sum.merge(t)
	}
}

// run turns a sum into its public form.
func (t *tally) run(e *histo.Encoder) Run {
	r := Run{
		Key: t.key.run.String(), Counts: t.Counts, Answered: map[uint16]uint64{}, ByReplica: t.replica,
		Duplicates: t.repeats, Work: t.workBy(),
		QueueWait: spanOf(t.queueWait, e), WorkTime: spanOf(t.workTime, e),
		ReadDelay: spanOf(t.readDelay, e), DelayError: spanOf(t.delayError, e),
	}
	for i, n := range t.answered {
		if n > 0 {
			r.Answered[uint16(firstStatus+i)] = n
		}
	}
	for f, n := range t.faults {
		if n > 0 && service.Fault(f) != service.FaultNone {
			if r.Faults == nil {
				r.Faults = map[string]uint64{}
			}
			r.Faults[service.Fault(f).String()] = n
		}
	}
	r.InFlight = r.Arrived - r.AnsweredTotal() - r.Broken - r.AfterLeft - r.Cancelled.Dropped
	return r
}
