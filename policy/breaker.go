package policy

import (
	"math"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// Breaker stops sending to a replica that fails, each replica by itself. It is
// closed and lets everything pass until its Kind says that too much has failed;
// then it is open and lets nothing pass for a while; then it is half-open and
// lets a few probes pass, whose outcomes close it or open it again.
//
// The zero Breaker never opens. Settings of some libraries:
//
//	sony/gobreaker   Failures 6, Open 60 s
//	Finagle          Failures 5, Open 5 s, OpenCap 300 s
//	Hystrix          BreakerTime, FailureShare .5, Window 10 s, MinCalls 20, Open 5 s
//	resilience4j     BreakerCount, FailureShare .5, Calls 100, Open 60 s, Permits 10, Need 10
//	Polly            BreakerTime, FailureShare .1, Window 30 s, MinCalls 100, Open 5 s
//	Brooker          any of these with GateRetries
type Breaker struct {
	// Kind is what is counted while the breaker is closed.
	Kind BreakerKind
	// Failures is the number of failures in a row that opens it. 0 means never.
	// Consecutive.
	Failures int
	// FailureShare, in (0, 1], is the share of failed attempts that opens it. 0
	// means that failures alone do not. Count, time and EMA.
	FailureShare float64
	// Calls is the number of attempts that are looked back on; in BreakerEMA an
	// attempt's weight falls to 1/e over as many. 0 means 100, the most is
	// 10,000. Count and EMA.
	Calls int
	// Window is the time that is looked back on, in ten parts. 0 means 10 s. Time.
	Window time.Duration
	// MinCalls is the number of attempts since the breaker closed, in
	// BreakerTime those of the Window, below which it does not open. 0 means 20
	// in BreakerTime, else Calls. Count, time and EMA.
	MinCalls int
	// Slow is the time above which an attempt counts as slow. 0 means none does.
	// Consecutive takes a slow attempt for a failed one.
	Slow time.Duration
	// SlowShare, in (0, 1], is the share of slow attempts that opens it. 0 means
	// 1. Count, time and EMA.
	SlowShare float64
	// Open is how long it stays open. 0 means 5 s.
	Open time.Duration
	// OpenCap bounds the doubling of Open each time that the probes fail. 0
	// means that it does not grow.
	OpenCap time.Duration
	// Permits is the number of probes that may be open at once while it is
	// half-open. 0 means 1.
	Permits int
	// Need is the number of probes that must succeed, without one that fails,
	// for it to close. 0 means Permits.
	Need int
	// MaxWait is how long a probe may hold its permit; when the latest one has
	// held it for longer, all are taken to be lost and the next attempt may
	// probe. 0 means Open.
	MaxWait time.Duration
	// Gates says which attempts it stops.
	Gates BreakerGates
}

// BreakerKind is what a closed breaker counts.
type BreakerKind uint8

const (
	// BreakerConsecutive counts failures in a row.
	BreakerConsecutive BreakerKind = iota
	// BreakerCount looks at the last Calls attempts.
	BreakerCount
	// BreakerTime looks at the attempts that ended in the last Window.
	BreakerTime
	// BreakerEMA follows an exponential moving average over attempts:
	// share = w*share + (1-w)*x with w = exp(-1/Calls) and x 1 for a failure, 0
	// else; the first x is the first share (Finagle's FailureAccrualPolicy.successRate).
	BreakerEMA
)

// BreakerGates is which attempts a breaker stops.
type BreakerGates uint8

const (
	// GateAll stops every attempt.
	GateAll BreakerGates = iota
	// GateRetries stops retries and hedges. First attempts always pass, and
	// probe when the breaker is half-open (Brooker, "Will circuit breakers solve
	// my problems?", 2022).
	GateRetries
)

const (
	defaultBreakerCalls = 100
	maxBreakerCalls     = 10_000
	defaultBreakerTime  = 10 * time.Second
	defaultMinCalls     = 20 // of BreakerTime, as in Hystrix
	defaultOpen         = 5 * time.Second
	maxOpenGrowth       = 24 * time.Hour // bounds what doubling makes of Open
)

// breakerState is the state of a breaker.
type breakerState uint8

const (
	breakerClosed breakerState = iota
	breakerOpen
	breakerHalfOpen
)

// breakerRules is what the breakers of a client's replicas share: a Breaker
// with its defaults.
type breakerRules struct {
	kind          BreakerKind
	gates         BreakerGates
	failures      uint32
	share         float64 // above 1: never
	slowShare     float64 // above 1: never
	keep          float64 // EMA: weight of what was
	calls         uint32
	minCalls      uint32
	permits, need uint32
	slow          time.Duration // 0: none is slow
	open, openCap time.Duration
	maxWait       time.Duration
	words         int // 64-bit words of one ring of bits
}

// breaker is the state of one replica's breaker. The zero breaker lets
// everything pass and forgets everything.
//
// An attempt that passed is told once, by report when it has an outcome that
// says something about the replica, else by release.
type breaker struct {
	r     *breakerRules
	since clock.Time // of the latest change of state; older attempts say nothing
	until clock.Time // end of the open state
	last  clock.Time // latest permit
	span  time.Duration
	state breakerState

	out    uint32 // permits in use
	streak uint32 // half-open: probes that succeeded; closed, consecutive: failures in a row

	total, failed, slow uint32 // attempts counted
	at                  uint32 // count: place of the next attempt in the rings
	ring                []uint64
	parts               []breakerPart
	slide               slider
	failing, slowing    float64 // EMA: shares
}

// breakerPart is one part of the window of BreakerTime.
type breakerPart struct{ total, failed, slow uint32 }

// newBreakers returns the breakers of n replicas, nil when b never opens.
func newBreakers(b Breaker, n int) []breaker {
	if !b.limits() || n < 1 {
		return nil
	}
	r := b.rules()
	all := make([]breaker, n)
	var rings []uint64
	var parts []breakerPart
	switch b.Kind {
	case BreakerCount:
		rings = make([]uint64, n*2*r.words)
	case BreakerTime:
		parts = make([]breakerPart, n*windowSlots)
	}
	for i := range all {
		k := &all[i]
		k.r, k.since = r, math.MinInt64
		switch b.Kind {
		case BreakerCount:
			k.ring = rings[i*2*r.words:][:2*r.words]
		case BreakerTime:
			k.parts = parts[i*windowSlots:][:windowSlots]
			k.slide = newSlider(b.window())
		}
	}
	return all
}

// rules fills the defaults in.
func (b Breaker) rules() *breakerRules {
	r := &breakerRules{
		kind: b.Kind, gates: b.Gates,
		failures: uint32(min(max(b.Failures, 0), math.MaxInt32)),
		share:    b.FailureShare, slowShare: b.SlowShare,
		calls: uint32(b.calls()), minCalls: uint32(b.minCalls()),
		permits: uint32(min(max(b.Permits, 1), math.MaxInt32)),
		slow:    max(b.Slow, 0),
		open:    b.open(), openCap: min(max(b.OpenCap, 0), maxOpenGrowth),
		maxWait: b.open(),
	}
	r.need = uint32(min(max(b.Need, 0), math.MaxInt32))
	if r.need == 0 {
		r.need = r.permits
	}
	if b.MaxWait > 0 {
		r.maxWait = b.MaxWait
	}
	if !(r.share > 0) {
		r.share = 2
	}
	switch {
	case r.slow == 0:
		r.slowShare = 2
	case !(r.slowShare > 0):
		r.slowShare = 1
	}
	r.words = (int(r.calls) + 63) / 64
	r.keep = draw.Exp(-1 / float64(r.calls))
	return r
}

// allow reports whether an attempt may be sent at now. It takes nothing.
func (b *breaker) allow(now clock.Time) bool {
	switch b.tick(now) {
	case breakerClosed:
		return true
	case breakerHalfOpen:
		return b.permit(now)
	}
	return false
}

// gates reports whether attempts of kind k need allow.
func (b *breaker) gates(k Kind) bool {
	return b.r != nil && (k != First || b.r.gates == GateAll)
}

// take reports that an attempt is sent at now. probe says that it holds a
// permit, which report or release gives back.
func (b *breaker) take(now clock.Time) (probe bool) {
	if b.tick(now) != breakerHalfOpen || !b.permit(now) {
		return false
	}
	if b.out >= b.r.permits { // those that hold one are lost
		b.out, b.since = 0, now
	}
	b.out++
	b.last = now
	return true
}

// report tells how the attempt that was sent at the given instant has ended:
// failed or not, after took. probe is what take said.
func (b *breaker) report(failed bool, took time.Duration, sent clock.Time, probe bool, now clock.Time) {
	if b.r == nil {
		return
	}
	slow := b.r.slow > 0 && took > b.r.slow
	state := b.tick(now)
	if sent < b.since {
		return
	}
	switch state {
	case breakerClosed:
		if b.count(failed, slow, now) {
			b.trip(now, b.r.open)
		}
	case breakerHalfOpen:
		if !probe || b.out == 0 {
			return
		}
		b.out--
		if failed || slow {
			b.trip(now, b.grown())
		} else if b.streak++; b.streak >= b.r.need {
			b.enter(breakerClosed, now)
		}
	}
}

// release tells that the attempt that was sent at the given instant has ended
// and says nothing about the replica: it was cancelled, abandoned or not sent
// after all.
func (b *breaker) release(sent clock.Time, probe bool, now clock.Time) {
	if probe && b.tick(now) == breakerHalfOpen && sent >= b.since && b.out > 0 {
		b.out--
	}
}

// tick makes an open breaker half-open when its time is over, and returns the
// state.
func (b *breaker) tick(now clock.Time) breakerState {
	if b.state == breakerOpen && now >= b.until {
		b.enter(breakerHalfOpen, now)
	}
	return b.state
}

// permit reports whether a half-open breaker has a permit to give.
func (b *breaker) permit(now clock.Time) bool {
	return b.out < b.r.permits || now >= b.last.Add(b.r.maxWait)
}

// trip opens the breaker for span.
func (b *breaker) trip(now clock.Time, span time.Duration) {
	b.enter(breakerOpen, now)
	b.span, b.until = span, now.Add(span)
}

// grown returns the next span of a breaker whose probes failed.
func (b *breaker) grown() time.Duration {
	if b.r.openCap == 0 {
		return b.r.open
	}
	return max(min(2*b.span, b.r.openCap), b.r.open)
}

// enter changes the state. What was counted before says nothing about what
// comes.
func (b *breaker) enter(s breakerState, now clock.Time) {
	b.state, b.since = s, now
	b.out, b.streak, b.total, b.failed, b.slow, b.at = 0, 0, 0, 0, 0, 0
	clear(b.parts)
}

// count counts an attempt of a closed breaker and reports whether it is to open.
func (b *breaker) count(failed, slow bool, now clock.Time) bool {
	r := b.r
	switch r.kind {
	case BreakerConsecutive:
		if !failed && !slow {
			b.streak = 0
			return false
		}
		b.streak++
		return b.streak >= r.failures
	case BreakerCount:
		b.countRing(failed, slow)
	case BreakerTime:
		b.countPart(failed, slow, now)
	default:
		b.total = min(b.total+1, r.calls)
		if b.total == 1 {
			b.failing, b.slowing = one(failed), one(slow)
		} else {
			b.failing = float64(r.keep*b.failing) + float64((1-r.keep)*one(failed))
			b.slowing = float64(r.keep*b.slowing) + float64((1-r.keep)*one(slow))
		}
		return b.total >= r.minCalls && (b.failing >= r.share || b.slowing >= r.slowShare)
	}
	n := float64(b.total)
	return b.total >= r.minCalls &&
		(float64(b.failed) >= float64(r.share*n) || float64(b.slow) >= float64(r.slowShare*n))
}

// countRing puts an attempt into the rings of bits, in place of the oldest.
func (b *breaker) countRing(failed, slow bool) {
	word, bit := int(b.at/64), uint64(1)<<(b.at%64)
	fails, slows := &b.ring[word], &b.ring[b.r.words+word]
	if b.total == b.r.calls {
		if *fails&bit != 0 {
			b.failed--
		}
		if *slows&bit != 0 {
			b.slow--
		}
	} else {
		b.total++
	}
	*fails &^= bit
	*slows &^= bit
	if failed {
		*fails |= bit
		b.failed++
	}
	if slow {
		*slows |= bit
		b.slow++
	}
	if b.at++; b.at == b.r.calls {
		b.at = 0
	}
}

// countPart puts an attempt into the current part of the window.
func (b *breaker) countPart(failed, slow bool, now clock.Time) {
	for n := b.slide.turn(now); n > 0; n-- {
		part := &b.parts[b.slide.next()]
		b.total -= part.total
		b.failed -= part.failed
		b.slow -= part.slow
		*part = breakerPart{}
	}
	part := &b.parts[b.slide.slot]
	if b.total == math.MaxUint32 {
		return
	}
	part.total++
	b.total++
	if failed {
		part.failed++
		b.failed++
	}
	if slow {
		part.slow++
		b.slow++
	}
}

// one is 1 for true and 0 for false.
func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// limits reports whether b ever opens.
func (b Breaker) limits() bool {
	if b.Kind == BreakerConsecutive {
		return b.Failures > 0
	}
	return b.FailureShare > 0 || b.Slow > 0
}

// calls returns Calls with its default.
func (b Breaker) calls() int {
	if b.Calls <= 0 {
		return defaultBreakerCalls
	}
	return min(b.Calls, maxBreakerCalls)
}

// minCalls returns MinCalls with its default, brought to what can be reached.
func (b Breaker) minCalls() int {
	switch {
	case b.Kind == BreakerTime && b.MinCalls <= 0:
		return defaultMinCalls
	case b.Kind == BreakerTime:
		return min(b.MinCalls, math.MaxInt32)
	case b.MinCalls <= 0:
		return b.calls()
	}
	return min(b.MinCalls, b.calls())
}

// window returns Window with its default.
func (b Breaker) window() time.Duration {
	if b.Window <= 0 {
		return defaultBreakerTime
	}
	return min(b.Window, maxWindow)
}

// open returns Open with its default.
func (b Breaker) open() time.Duration {
	if b.Open <= 0 {
		return defaultOpen
	}
	return min(b.Open, maxOpenGrowth)
}
