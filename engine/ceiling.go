package engine

import (
	"fmt"
	"time"

	"latencylab/clock"
	"latencylab/policy"
	"latencylab/units"
)

const (
	// ceilingSpan is how much of a second's attempts may come at once, leastBurst
	// the least such number on each loop.
	ceilingSpan = 100 * time.Millisecond
	leastBurst  = 10
)

// Ceiling begins the reason of a Block that ended because first attempts alone
// would have passed Config.Ceiling.
const Ceiling = "the ceiling on attempts was reached by first attempts"

// ceiling is a loop's part of Config.Ceiling: a token bucket in the form of a
// virtual schedule (GCRA, ITU-T I.371 annex A). With burst n and each ns an
// attempt, at most n + w/each attempts pass in any w. Half of the bucket is kept
// for first attempts. The zero ceiling lets everything pass.
type ceiling struct {
	each  time.Duration // between two attempts at the rate; 0: no ceiling
	burst time.Duration // how far full may be ahead for a first attempt
	extra time.Duration // and for a retry or hedge
	full  clock.Time    // when the bucket is full again
}

// set makes c one of loops equal parts of a rate; what is in its bucket stays.
func (c *ceiling) set(rate units.Rate, loops int) {
	if rate == 0 {
		return
	}
	const perSecond = 1e15 // ns of a second × Rate's millionths
	c.each = time.Duration((perSecond*int64(loops) + int64(rate) - 1) / int64(rate))
	n := max(leastBurst, ceilingSpan/c.each)
	c.burst, c.extra = (n-1)*c.each, (n/2-1)*c.each
}

// admits takes an attempt of the kind, or returns false when it must not be sent.
func (c *ceiling) admits(k policy.Kind, now clock.Time) bool {
	if c.each == 0 {
		return true
	}
	ahead := c.burst
	if k != policy.First {
		ahead = c.extra
	}
	full := max(c.full, now)
	if full.Sub(now) > ahead {
		return false
	}
	c.full = full.Add(c.each)
	return true
}

// opens is when a first attempt is next admitted.
func (c *ceiling) opens() clock.Time { return c.full.Add(-c.burst) }

// passes says whether an attempt may be sent now. Users of a closed loop have
// waited for it before their calls began.
func (l *loop) passes(k policy.Kind, now clock.Time) bool {
	return l.ceiling.each == 0 || k == policy.First && l.eng.cfg.Closed || l.ceiling.admits(k, now)
}

// overCeiling ends the run: to drop first attempts would measure another load
// than the schedule's, and to send them is what the ceiling forbids.
func (l *loop) overCeiling() {
	if l.early == "" {
		l.early = fmt.Sprintf("%s: %s of them in a second at the most", Ceiling, l.eng.cfg.Ceiling)
	}
	l.eng.Abort()
}
