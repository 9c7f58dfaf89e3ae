package service

import "math"

// Mean returns the expectation in nanoseconds of the time that a replica works
// on a request: of Time and Slow by their shares, times the replica's factor.
// seed is the target's seed, which decides what replicas are slow. It follows
// from the closed forms of [Dist.Mean], before rounding to integers. ok is false
// when it is not finite.
func (sp *Spec) Mean(seed uint64, replica int) (ns float64, ok bool) {
	l := sp.law(seed, replica)
	for _, p := range [2]part{{share: 1 - l.share, dist: l.time}, {share: l.share, dist: l.slow}} {
		if p.share <= 0 {
			continue
		}
		mean, ok := p.dist.Mean()
		if !ok {
			return 0, false
		}
		ns += float64(p.share * mean)
	}
	ns *= l.factor
	return ns, !math.IsInf(ns, 0)
}

// Load returns how busy a replica's slots are with so many requests a second,
// per_s x mean / slots: above 1 it falls behind. ok is false when the replica
// has no limit of slots, and the load is infinite when the mean is not finite.
func (sp *Spec) Load(seed uint64, replica int, perSecond float64) (rho float64, ok bool) {
	if sp.Slots <= 0 {
		return 0, false
	}
	mean, finite := sp.Mean(seed, replica)
	if !finite {
		return math.Inf(1), perSecond > 0
	}
	return perSecond * mean / 1e9 / float64(sp.Slots), true
}
