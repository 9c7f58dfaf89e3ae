package ledger

import (
	"time"

	"latencylab/histo"
	"latencylab/policy"
)

// Ledger is the record of one policy on one loop, for the calls that a
// measurement is about. Burn-in has Counts of its own.
//
// A call that failed or was given up ranks above every answer in the response
// time: the response distribution is OK plus Failed and Censored as +infinity.
type Ledger struct {
	Counts
	// Within holds the thresholds of the objective and, at the same index in
	// WithinCount, the calls answered OK in at most that response time.
	Within      []time.Duration
	WithinCount []uint64

	// OK is the response time (done - intended) of the calls that ended ok.
	OK *histo.Histogram
	// Failed is the response time of the calls that ended with a failure.
	Failed *histo.Histogram
	// Censored is how long the calls had run that were given up without an
	// answer (deadline, end of the run): their response time is at least that.
	Censored *histo.Histogram
	// Won is the service time (done - sent) of the attempts that ended their
	// call ok, by policy.Kind.
	Won [policy.Kinds]*histo.Histogram
	// Lost is the service time of all other attempts that were answered, with
	// whatever status, by policy.Kind.
	Lost [policy.Kinds]*histo.Histogram
	// Cut counts attempts that ended without a complete answer, by policy.Kind;
	// they rank as +infinity in their kind.
	Cut [policy.Kinds]uint64

	// Tail holds the slowest call of each slice of time.
	Tail Tail

	Lag      *histo.Histogram // started - intended of every call begun
	PoolWait *histo.Histogram // sent - started of first attempts and retries
	// ReadDelay is the instant of our read less the kernel's receive stamp.
	ReadDelay *histo.Histogram
	Connect   *histo.Histogram // TCP handshakes
	TLS       *histo.Histogram // TLS handshakes
	// FirstByte is from the written request to the first byte of the answer,
	// recorded only when that read did not also end the answer.
	FirstByte *histo.Histogram
	Body      *histo.Histogram // from first byte to last, same answers as FirstByte
}

// New returns an empty ledger with the thresholds of the objective, ascending.
// It keeps within.
func New(within []time.Duration) *Ledger {
	l := &Ledger{Within: within, WithinCount: make([]uint64, len(within))}
	for _, p := range l.histograms() {
		*p = histo.New()
	}
	l.Errors = make([]Error, 0, maxErrors)
	return l
}

// histograms lists the histograms in a fixed order, for merging.
func (l *Ledger) histograms() []**histo.Histogram {
	hs := []**histo.Histogram{&l.OK, &l.Failed, &l.Censored, &l.Lag, &l.PoolWait, &l.ReadDelay, &l.Connect, &l.TLS, &l.FirstByte, &l.Body}
	for k := range policy.Kinds {
		hs = append(hs, &l.Won[k], &l.Lost[k])
	}
	return hs
}

// Merge adds another loop's or block's ledger of the same thresholds.
func (l *Ledger) Merge(o *Ledger) {
	l.Counts.Merge(&o.Counts)
	for i := range l.WithinCount {
		l.WithinCount[i] += o.WithinCount[i]
	}
	for k := range policy.Kinds {
		l.Cut[k] += o.Cut[k]
	}
	l.Tail.Merge(&o.Tail)
	to, from := l.histograms(), o.histograms()
	for i := range to {
		(*to[i]).Merge(*from[i])
	}
}

// Reset empties the ledger and keeps its thresholds and memory.
func (l *Ledger) Reset() {
	l.Counts = Counts{Errors: l.Errors[:0]}
	clear(l.WithinCount)
	l.Cut = [policy.Kinds]uint64{}
	l.Tail.Reset()
	for _, p := range l.histograms() {
		(*p).Reset()
	}
}

// CallOK records a call that ended ok after response.
func (l *Ledger) CallOK(response time.Duration) {
	l.Calls.OK++
	l.OK.Record(int64(response))
	for i, t := range l.Within {
		if response <= t {
			l.WithinCount[i]++
		}
	}
}

// CallFailed records a call that ended with a failure after response.
func (l *Ledger) CallFailed(response time.Duration) {
	l.Calls.Failed++
	l.Failed.Record(int64(response))
}

// CallExpired records a call that its deadline ended after open.
func (l *Ledger) CallExpired(open time.Duration) {
	l.Calls.Failed++
	l.Censored.Record(int64(open))
}

// CallUnfinished records a call that was still open, for open, when the run ended.
func (l *Ledger) CallUnfinished(open time.Duration) {
	l.Calls.Unfinished++
	l.Censored.Record(int64(open))
}

// Sent records an attempt of kind k that was given to a connection.
func (c *Counts) Sent(k policy.Kind) {
	c.Attempts.Sent++
	switch k {
	case policy.First:
		c.Attempts.First++
	case policy.Retried:
		c.Attempts.Retries++
	case policy.Hedged:
		c.Attempts.Hedges++
	}
}

// AttemptWon records the answer of an attempt of kind k that ended its call ok.
func (l *Ledger) AttemptWon(k policy.Kind, service time.Duration) {
	l.Attempts.OK++
	if k == policy.Hedged {
		l.Attempts.HedgeWins++
	}
	l.Won[k].Record(int64(service))
}

// AttemptAnswered records an answer of an unwanted status.
func (l *Ledger) AttemptAnswered(k policy.Kind, service time.Duration) {
	l.Attempts.Failed++
	l.Lost[k].Record(int64(service))
}

// AttemptBroken records an attempt that failed without a complete answer.
func (l *Ledger) AttemptBroken(k policy.Kind) {
	l.Attempts.Failed++
	l.Cut[k]++
}

// AttemptTimedOut records an attempt that a timeout ended.
func (l *Ledger) AttemptTimedOut(k policy.Kind) {
	l.Attempts.TimedOut++
	l.Cut[k]++
}

// AttemptCancelled records an attempt whose answer was no longer wanted.
func (l *Ledger) AttemptCancelled(k policy.Kind) {
	l.Attempts.Cancelled++
	l.Cut[k]++
}

// AttemptAbandoned records an attempt that was open when the run ended.
func (l *Ledger) AttemptAbandoned(k policy.Kind) {
	l.Attempts.Abandoned++
	l.Cut[k]++
}
