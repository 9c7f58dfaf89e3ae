package policy

import (
	"math"
	"time"

	"latencylab/draw"
)

// backoff is a Backoff with its defaults filled in.
type backoff struct {
	kind   BackoffKind
	base   time.Duration
	bound  time.Duration // Cap; no wait is longer before its jitter
	factor float64
	steps  []time.Duration
	jitter Jitter
	share  float64       // of JitterFraction
	span   time.Duration // of JitterAbsolute
	before bool          // the jitter comes before the cap
}

func newBackoff(b Backoff) backoff {
	n := backoff{
		kind: b.Kind, base: max(b.Base, 0), bound: b.Cap, factor: b.Factor, steps: b.Steps,
		jitter: b.Jitter, share: b.Share, span: max(b.Span, 0), before: b.JitterFirst,
	}
	if n.bound <= 0 {
		n.bound = math.MaxInt64
	}
	if !(n.factor >= 1) {
		n.factor = 2
	}
	if !(n.share >= 0 && n.share <= 1) {
		n.share = 0
	}
	return n
}

// raw returns the wait before retry n, from 1, without jitter and cap:
//
//	exponential  base * factor^(n-1)
//	constant     base
//	linear       base * n
//	sum          base * (1 + factor + … + factor^(n-1))
//	table        step n, or the last one
//
// It saturates. Products only, no sum: no fused operation can change a bit of
// it. A product that leaves the range of a float64 is +Inf, which is above every
// bound.
func (b *backoff) raw(n uint32) time.Duration {
	switch b.kind {
	case BackoffTable:
		if len(b.steps) == 0 {
			return 0
		}
		return max(b.steps[min(int64(n), int64(len(b.steps)))-1], 0)
	case BackoffConstant:
		return b.base
	case BackoffLinear:
		if b.base > 0 && int64(n) > math.MaxInt64/int64(b.base) {
			return math.MaxInt64
		}
		return b.base * time.Duration(n)
	}
	if b.base == 0 {
		return 0
	}
	if b.kind == BackoffSum {
		return b.sum(n)
	}
	f := float64(b.base)
	for e, p := n-1, b.factor; e != 0; e >>= 1 {
		if e&1 != 0 {
			f = float64(f * p)
		}
		p = float64(p * p)
	}
	if !(f < math.MaxInt64) {
		return math.MaxInt64
	}
	return time.Duration(f)
}

// sum returns the wait of BackoffSum. A factor of 2 or more passes the longest
// Duration within 63 steps; one near 1 is cut off after 4,096.
func (b *backoff) sum(n uint32) time.Duration {
	const most = 4096
	var total time.Duration
	step := float64(b.base)
	for range min(n, most) {
		if !(step < math.MaxInt64) {
			return math.MaxInt64
		}
		if total = addSpan(total, time.Duration(step)); total >= b.bound {
			return total
		}
		step = float64(step * b.factor)
	}
	return total
}

// full returns the wait before retry n, from 1, without jitter.
func (b *backoff) full(n uint32) time.Duration { return min(b.raw(n), b.bound) }

// most returns a bound of wait for retry n.
func (b *backoff) most(n uint32) time.Duration {
	d := b.full(n)
	switch {
	case b.kind == BackoffDecorrelated:
		return max(b.bound, 0)
	case b.before:
		return b.bound
	case b.jitter == JitterFraction:
		return addSpan(d, scale(d, b.share))
	case b.jitter == JitterAbsolute && d > 0:
		return addSpan(d, b.span)
	}
	return d
}

// wait returns the wait before retry n, which will be the given attempt of the
// call: 0 <= wait <= most(n). prev is what it returned for retry n-1, and is
// used by the decorrelated kind only.
func (b *backoff) wait(n uint32, prev time.Duration, seed, call uint64, attempt uint32) time.Duration {
	if b.kind == BackoffDecorrelated {
		return b.decorrelated(n, prev, seed, call, attempt)
	}
	d := b.full(n)
	if b.before {
		d = b.raw(n)
	}
	if d == 0 || b.jitter == JitterNone {
		return min(d, b.bound)
	}
	u := draw.Uniform(seed, draw.Jitter, call, attempt, 0)
	d = b.spread(d, u)
	if b.before {
		d = min(d, b.bound)
	}
	return d
}

// spread returns d with the jitter of the uniform draw u in [0, 1).
func (b *backoff) spread(d time.Duration, u float64) time.Duration {
	switch b.jitter {
	case JitterEqual:
		return d/2 + scale(d-d/2, u)
	case JitterFraction:
		width := scale(d, b.share)
		return addSpan(d-width, scale(addSpan(width, width), u))
	case JitterAbsolute:
		low := max(d-b.span, 0)
		return addSpan(low, scale(addSpan(d, b.span)-low, u))
	}
	return scale(d, u)
}

// decorrelated returns min(cap, U(base, 3 * prev)), where the wait before the
// first retry is taken as base (Brooker, "Exponential Backoff And Jitter", AWS
// Architecture Blog, 2015, and its simulator).
func (b *backoff) decorrelated(n uint32, prev time.Duration, seed, call uint64, attempt uint32) time.Duration {
	if b.base == 0 {
		return 0
	}
	if n <= 1 || prev < b.base {
		prev = b.base
	}
	high := addSpan(addSpan(prev, prev), prev)
	u := draw.Uniform(seed, draw.Jitter, call, attempt, 0)
	return min(addSpan(b.base, scale(high-b.base, u)), b.bound)
}

// scale returns d times u for u in [0, 1], at most d: float64(d) may round up by
// as much as 512 ns where d is near its largest.
func scale(d time.Duration, u float64) time.Duration {
	f := float64(u * float64(d))
	if !(f < math.MaxInt64) {
		return d
	}
	return min(d, time.Duration(f))
}

// addSpan returns a + b of spans of 0 or more, at most the longest Duration.
func addSpan(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
