package policy

import (
	"math"
	"time"

	"latencylab/draw"
)

// backoff is a Backoff with its defaults filled in.
type backoff struct {
	base   time.Duration
	bound  time.Duration // no wait is longer
	factor float64
	jitter Jitter
}

func newBackoff(b Backoff) backoff {
	n := backoff{base: max(b.Base, 0), bound: b.Cap, factor: b.Factor, jitter: b.Jitter}
	if n.bound <= 0 {
		n.bound = math.MaxInt64
	}
	if !(n.factor >= 1) {
		n.factor = 2
	}
	return n
}

// full returns the wait before retry n, from 1, without jitter:
//
//	min(bound, base * factor^(n-1))
//
// Products only, no sum: no fused operation can change a bit of it. A product
// that leaves the range of a float64 is +Inf, which is above every bound.
func (b *backoff) full(n uint32) time.Duration {
	if b.base == 0 {
		return 0
	}
	f := float64(b.base)
	for e, p := n-1, b.factor; e != 0; e >>= 1 {
		if e&1 != 0 {
			f = float64(f * p)
		}
		p = float64(p * p)
	}
	if !(f < float64(b.bound)) {
		return b.bound
	}
	return time.Duration(f)
}

// wait returns the wait before retry n, which will be the given attempt of the
// call, with jitter: 0 <= wait <= full(n).
func (b *backoff) wait(n uint32, seed, call uint64, attempt uint32) time.Duration {
	d := b.full(n)
	if d == 0 || b.jitter == JitterNone {
		return d
	}
	// float64(d) may round up by as much as 512 ns where d is near its largest.
	u := draw.Uniform(seed, draw.Jitter, call, attempt, 0)
	return min(d, time.Duration(float64(u*float64(d))))
}
