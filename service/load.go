package service

import "math"

// Mean returns the expectation in nanoseconds of the time that a replica works
// on a request: of Time and Slow by their shares, times the replica's factor.
// seed is the target's seed, which decides what replicas are slow. It follows
// from the closed forms of [Dist.Mean], before rounding to integers. ok is false
// when it is not finite. Thrash and stalls make work take longer than that.
func (sp *Spec) Mean(seed uint64, replica int) (ns float64, ok bool) {
	l := sp.law(seed, replica)
	slow := part{share: l.slow.Share, dist: l.slow.Time}
	if l.slow.Factor > 0 {
		slow.dist = l.time
	}
	for i, p := range [2]part{{share: 1 - l.slow.Share, dist: l.time}, slow} {
		if p.share <= 0 {
			continue
		}
		mean, ok := p.dist.Mean()
		if !ok {
			return 0, false
		}
		if i == 1 && l.slow.Factor > 0 {
			mean *= l.slow.Factor
		}
		ns += float64(p.share * mean)
	}
	ns *= l.factor
	return ns, !math.IsInf(ns, 0)
}

// Load returns how busy a replica is with so many requests a second: above 1 it
// falls behind, or sheds. With slots it is per_s x mean / slots, with Capacity
// per_s over what the windows serve a second; stalls leave less of either. What
// thrash and outages do is not in it. ok is false when the replica has neither
// slots nor Capacity, and the load is infinite when the mean is not finite.
func (sp *Spec) Load(seed uint64, replica int, perSecond float64) (rho float64, ok bool) {
	own := sp.Of(replica)
	left := own.moving(replica)
	if c := own.Capacity; c.Per > 0 {
		return perSecond * c.Per.Seconds() / float64(c.Requests) / left, true
	}
	if own.Slots <= 0 {
		return 0, false
	}
	mean, finite := sp.Mean(seed, replica)
	if !finite {
		return math.Inf(1), perSecond > 0
	}
	return perSecond * mean / 1e9 / float64(own.Slots) / left, true
}

// moving returns the part of the time, in the long run, in which the replica
// does not stand still: rows of stalls overlap as if they knew nothing of each
// other.
func (sp *Spec) moving(replica int) float64 {
	left := 1.0
	for _, x := range sp.Stalls {
		if x.Every > 0 && among(x.Replicas, replica) {
			mean, _ := x.For.Mean()
			left *= 1 - float64(mean/float64(x.Every))
		}
	}
	return left
}

// Coupled reports whether requests take something from each other at some
// replica, so that what copies and retries cost can hurt, and a freeze can leave
// something behind.
func (sp *Spec) Coupled() bool {
	return sp.Any(func(sp *Spec) bool {
		return sp.Slots > 0 || sp.Capacity.Per > 0 || sp.Thrash.Factor > 0 && sp.Thrash.Factor < 1
	})
}
