package policy

import (
	"time"

	"latencylab/clock"
)

// MaxOpen is the largest number of attempts of one call that are open at once.
const MaxOpen = 8

// Policy says how a client reacts to slowness and failure. The zero Policy
// sends once and waits for ever.
type Policy struct {
	// Deadline bounds the call from its intended instant. 0 means none.
	Deadline time.Duration
	// MinStart is the least time that must be left before the deadline for an
	// attempt to be started. 0 means that any time left will do.
	MinStart time.Duration
	// Reserve is kept back of the deadline for the caller's own work after the
	// answer: no attempt is open later than Deadline - Reserve, where the call
	// ends. 0 means that the attempts may use all of it.
	Reserve time.Duration
	// Timeouts bound the parts of each attempt, indexed by Part.
	Timeouts Timeouts
	// Attempts caps all sends of one call, the first included. 0 means as many
	// as Retry.Max and Hedge.Max allow.
	Attempts int

	Retry   Retry
	Backoff Backoff
	Hedge   Hedge
	Budget  Budget
	Breaker Breaker
	// Throttle rejects whole calls at their start, Limit bounds the attempts
	// that are open.
	Throttle Throttle
	Limit    Limit
	// Wire is the header that tells the server how much of the Deadline is left.
	Wire Wire

	// Cancel is what the driver does to an attempt whose answer is no longer wanted.
	Cancel Cancel
	// Picker chooses the replica of each attempt.
	Picker Picker
	// Choices is the number of replicas that PickChoices and PickPeakEWMA draw. 0
	// means 2; at most 16.
	Choices int
	// Eject takes replicas that fail out of the choice.
	Eject Eject
}

// Retry says which failures are tried again.
type Retry struct {
	// Max is the number of retries of one call beside its first attempt. 0 means none.
	Max int
	// On lists the status codes that are retried. nil means 408, 429, 502, 503
	// and 504 (RFC 9110 15.5.9, RFC 6585 4, RFC 9110 15.6.3-15.6.5). Transport
	// errors and attempt timeouts are always retryable.
	On []uint16
	// Unsafe allows a second attempt of a request that is not idempotent
	// (RFC 9110 9.2.2).
	Unsafe bool
	// After says what a server's Retry-After or pushback does to the wait.
	After After
	// AfterCap bounds the wait that a server may ask for, and AfterOver says what
	// happens to one above it. 0 means no bound but the deadline.
	AfterCap  time.Duration
	AfterOver AfterOver
	// AfterSpread, in [0, 1], draws the wait that a server asks for from
	// [wait, wait * (1 + AfterSpread)], so that clients told the same do not come
	// back together (Envoy's rate_limited_retry_back_off has 0.5).
	AfterSpread float64
}

// After is what the wait that a server asks for does to a retry's own wait.
type After uint8

const (
	// AfterLonger waits the longer of backoff and the server's wait.
	AfterLonger After = iota
	// AfterExact waits what the server says, and the backoff begins anew after it
	// (gRPC's pushback, gRFC A6).
	AfterExact
	// AfterIgnore waits the backoff.
	AfterIgnore
)

// AfterOver is what becomes of a server's wait above Retry.AfterCap.
type AfterOver uint8

const (
	// AfterFail ends the call with the error it has: RulePushback.
	AfterFail AfterOver = iota
	// AfterClip waits AfterCap.
	AfterClip
	// AfterDiscard waits the backoff.
	AfterDiscard
)

// Backoff is the wait before retry n = 1, 2, …, by its Kind, at most Cap, and
// with Jitter. All arithmetic saturates: no wait is below 0 for any n.
type Backoff struct {
	Kind BackoffKind
	// Base is the wait before the first retry. 0 means that retries do not wait.
	// A table does not use it.
	Base time.Duration
	// Cap bounds the wait. 0 means no bound but the deadline.
	Cap time.Duration
	// Factor is the growth per retry of the exponential kind, at least 1. 0
	// means 2.
	Factor float64
	// Steps are the waits of a table; the last one repeats.
	Steps  []time.Duration
	Jitter Jitter
	// Share is that of JitterFraction, in (0, 1].
	Share float64
	// Span is that of JitterAbsolute.
	Span time.Duration
	// JitterFirst draws the jitter before the cap is applied, so that many waits
	// at the cap are equal; else after it, so that fraction and absolute may
	// exceed the cap.
	JitterFirst bool
}

// BackoffKind is how a backoff grows.
type BackoffKind uint8

const (
	// BackoffExponential waits Base*Factor^(n-1).
	BackoffExponential BackoffKind = iota
	// BackoffConstant waits Base.
	BackoffConstant
	// BackoffLinear waits Base*n.
	BackoffLinear
	// BackoffDecorrelated draws uniformly from [Base, 3 * the wait before]
	// (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
	// It has no further jitter.
	BackoffDecorrelated
	// BackoffSum waits Base * (1 + Factor + … + Factor^(n-1)): with a factor of 2
	// Base * (2^n - 1), as Envoy's retry_back_off.
	BackoffSum
	// BackoffTable waits Steps[n-1].
	BackoffTable
)

// Jitter is how a backoff is spread. Full and equal are those of Brooker,
// "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
type Jitter uint8

const (
	// JitterFull draws the wait uniformly from [0, backoff].
	JitterFull Jitter = iota
	// JitterNone waits the backoff itself.
	JitterNone
	// JitterEqual draws from [backoff/2, backoff].
	JitterEqual
	// JitterFraction draws from backoff * [1-Share, 1+Share], as gRPC does with
	// 0.2 (gRFC A6).
	JitterFraction
	// JitterAbsolute draws from [backoff-Span, backoff+Span], at least 0.
	JitterAbsolute
)

// Hedge sends a further attempt while one is open.
type Hedge struct {
	// Max is the number of hedges of one call. 0 means none.
	Max int
	// Delay is the wait after the send of the newest attempt. 0 means at once.
	// It is not used when Quantile is set.
	Delay time.Duration
	// Quantile, in (0, 1), makes the delay follow that quantile of the client's
	// first attempts, each counted from its send to the end of its call, also
	// when it was superseded. 0 means the fixed Delay.
	Quantile float64
	// Window is how far back the tracked quantile looks. 0 means 30 s.
	Window time.Duration
	// MinSamples is the number of samples in the window below which nothing is
	// hedged. 0 means 100.
	MinSamples int
	// Floor and Ceiling bound the tracked delay. 0 means no bound.
	Floor, Ceiling time.Duration
	// Probability, in (0, 1), sends each hedge only with that probability, drawn
	// by key (SingleR: Kaler, He and Elnikety, SPAA 2017). 0 means always.
	Probability float64
	// OnlyIdle sends a hedge only to a replica on which the client has no attempt
	// open (LÆDGE: Primorac, Argyraki and Bugnion, NSDI 2021).
	OnlyIdle bool
	// OffAbove stops hedging while the client has more attempts open than that. 0
	// means never: by Little's law attempts pile up when the service is
	// overloaded, and hedges would add to it.
	OffAbove int
	// OnError says what the failure of an attempt does to the hedges.
	OnError OnError
	// Win says which answer ends the call, and WinAtHead that its head is enough
	// for the others to be cancelled.
	Win       Win
	WinAtHead bool
	// Budget is one that hedges pay from beside Policy.Budget, and retries do
	// not (Finagle's BackupRequestFilter). The zero Budget does not limit.
	Budget Budget
}

// OnError is what the failure of one attempt does while hedges are left or open.
type OnError uint8

const (
	// OnErrorWait waits for the attempts that are open.
	OnErrorWait OnError = iota
	// OnErrorNext sends the next hedge at once (gRPC's non-fatal status codes).
	OnErrorNext
	// OnErrorStop ends the group: the others are cancelled, and the failure is
	// retried if retries allow (failsafe-go's default).
	OnErrorStop
)

// Win is which answer ends a group of attempts.
type Win uint8

const (
	// WinOK is the first wanted answer.
	WinOK Win = iota
	// WinAny is the first complete answer, whatever its status (hedgedhttp).
	WinAny
)

// Cancel is what a driver does with an attempt whose answer is not wanted.
type Cancel uint8

const (
	// CancelClose closes the connection with FIN, as HTTP/1.1 clients do.
	CancelClose Cancel = iota
	// CancelDrain lets the response come in, drops it and keeps the connection.
	CancelDrain
	// CancelReset closes the connection with RST (SO_LINGER 0).
	CancelReset
	// CancelTied closes it with FIN, and the servers of copies of one call tell
	// each other when one starts: the others that still wait are dropped (Dean and
	// Barroso, "The Tail at Scale", CACM 2013).
	CancelTied
)

// Picker chooses among replicas; a retry or hedge prefers those that the call
// has not tried.
type Picker uint8

const (
	// PickRandom draws keyed by (seed, call, attempt).
	PickRandom Picker = iota
	// PickRoundRobin takes call number modulo replicas first, then the next ones.
	PickRoundRobin
	// PickLeast takes the replica on which the client has the fewest attempts
	// open; ties fall by key.
	PickLeast
	// PickChoices draws Policy.Choices replicas and takes the one with the fewest
	// attempts open (Mitzenmacher, "The Power of Two Choices", 2001).
	PickChoices
	// PickPeakEWMA draws as many and takes the one with the least product of
	// attempts open and latency, a mean that decays over 10 s and jumps to peaks
	// (Finagle, Balancers.p2cPeakEwma).
	PickPeakEWMA
)

// Eject takes a replica out of the choice after failures in a row, for a time
// that grows with each ejection (Envoy, outlier detection). When every replica
// is out, or more than Max of them would be, replicas stay in. The zero Eject
// ejects nothing.
type Eject struct {
	// Failures is the number of failures in a row, timeouts included. 0 means
	// never; Envoy's default is 5.
	Failures int
	// For is the time out, times the number of times that the replica was out. 0
	// means 30 s.
	For time.Duration
	// Max is the share of replicas in (0, 1] that may be out at once, at least
	// one replica. 0 means 10 %.
	Max float64
}

// Kind is why an attempt is sent.
type Kind uint8

const (
	First   Kind = iota // the first attempt of the call
	Retried             // after another has failed and none is open
	Hedged              // while another is open
	Kinds               // number of kinds
)

// Phase is how far an attempt has come.
type Phase uint8

const (
	PhaseAcquire   Phase = iota // waiting for a connection
	PhaseDNS                    // resolving the name
	PhaseConnect                // dialling
	PhaseTLS                    // TLS handshake
	PhaseWrite                  // writing the request
	PhaseFirstByte              // written, no byte of the answer yet
	PhaseBody                   // the answer is coming in
	Phases                      // number of phases
)

// Disposition is what an attempt's result means for the call.
type Disposition uint8

const (
	// DispOK is an answer that the user wanted.
	DispOK Disposition = iota
	// DispRetryable is a failure that another attempt may mend.
	DispRetryable
	// DispFatal is a failure that another attempt would meet as well.
	DispFatal
	// DispUnsent reports that the driver had no connection for a hedge: the
	// attempt was never sent, and its token goes back.
	DispUnsent
	// DispWithdrawn reports that the servers dropped the attempt because another
	// copy has started: see CancelTied.
	DispWithdrawn
	// DispCeiling reports that the driver may send no more for now: the retry or
	// hedge was never sent, and its token goes back. A call whose retry it was has
	// failed, unless an attempt of it is still open.
	DispCeiling
)

// Outcome is how a call ended.
type Outcome uint8

const (
	// Going: the call has not ended.
	Going Outcome = iota
	// OK: an attempt brought a wanted answer.
	OK
	// Failed: the last attempt failed and no other may be sent.
	Failed
	// Expired: the deadline came while the call waited; its response time is
	// known only to be at least the deadline.
	Expired
)

// Rule is the rule that refused an attempt.
type Rule uint8

const (
	RuleNone        Rule = iota
	RuleDisposition      // the failure is not retryable
	RuleIdempotency      // the request is not safe to send twice
	RuleAttempts         // no attempts left
	RuleTime             // not enough time left before the deadline
	RuleBudget           // no token
	RuleConnections      // no free connection for a hedge
	RuleSamples          // the tracked delay has too few samples
	RuleThrottle         // the client throttles itself
	RuleBreaker          // the breaker of every replica in question is open
	RuleLimit            // the limit of attempts open at once
	RuleOverload         // hedging is off: too many attempts are open
	RuleIdle             // no replica is idle for a hedge
	RuleProbability      // the draw of Hedge.Probability
	RulePushback         // the server asked not to retry, or to wait longer than allowed
	RuleCommitted        // the head of an answer was accepted, so its failure is final
	RuleCeiling          // the driver's ceiling on attempts a second
	Rules                // number of rules
)

// Result is how one attempt ended, as the driver saw it.
type Result struct {
	Disposition Disposition
	Phase       Phase
	Status      uint16 // 0 when there was no answer
	// Hint is Retry-After from the receipt of the answer; 0 means none. Negative
	// asks not to retry (gRPC's pushback).
	Hint time.Duration
}

// Action is what the driver must do next, in field order: cancel, send, finish,
// then set the call's single timer. One step sends at most one attempt; when
// Timer is due at once the driver calls Advance again.
type Action struct {
	Cancel   uint8      // bit s: the attempt in slot s is no longer wanted
	TimedOut uint8      // the part of Cancel that a timeout or the deadline ended
	Slot     uint8      // slot of the attempt to send, below MaxOpen
	Kind     Kind       // why it is sent
	Attempt  uint32     // number of the attempt to send, from 1; 0: nothing to send
	Replica  uint16     // replica picked for it
	Finish   Outcome    // how the call ended, or Going
	Refused  Rule       // the rule that refused an attempt at this step, or RuleNone
	Part     Part       // the timeout that ended TimedOut, when the deadline did not
	Timer    clock.Time // when to call Advance; clock.Never: no timer
}

// Request is what a call is about.
type Request struct {
	// ID numbers the calls of one policy in one run from 0; it keys the draws.
	ID uint64
	// Intended is when the schedule wanted the call sent; the deadline counts from it.
	Intended clock.Time
	// Deadline is the instant that a caller has set: the earlier of it and
	// Policy.Deadline counts. 0 means none.
	Deadline clock.Time
	// Idempotent says that the request may be sent more than once.
	Idempotent bool
}
