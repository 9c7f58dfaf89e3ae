package policy

import "time"

// Bound returns the longest wait that b allows before retry n, from 1, jitter
// included; the largest Duration when nothing bounds it.
func (b Backoff) Bound(n int) time.Duration {
	f := newBackoff(b)
	return f.most(uint32(max(n, 1)))
}

// Memory returns what a tracked delay looks back on: the window, and the number
// of samples in it below which nothing is hedged.
func (h Hedge) Memory() (window time.Duration, samples int) {
	if h.MinSamples > 0 {
		return h.window(), h.MinSamples
	}
	return h.window(), defaultMinSamples
}

// Memory returns the same of a timeout that follows a quantile.
func (t Timeout) Memory() (window time.Duration, samples int) {
	return defaultWindow, defaultMinSamples
}

// BoundsRetries says whether something bounds the retries that a client sends
// in all, whatever fails: a budget that they pay from, a breaker or a throttle.
func (p *Policy) BoundsRetries() bool {
	return p.Breaker.limits() || p.Throttle.limits() || p.Budget.limits() && p.Budget.For != BudgetHedges
}

// BoundsHedges says whether something bounds the hedges that a client sends in
// all, however slow everything is.
func (p *Policy) BoundsHedges() bool {
	return p.Hedge.OffAbove > 0 || p.Hedge.OnlyIdle || p.Limit.limits() || p.Hedge.Budget.limits() ||
		p.Budget.limits() && p.Budget.For != BudgetRetries
}
