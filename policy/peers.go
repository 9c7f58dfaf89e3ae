package policy

import (
	"math"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

const (
	// ewmaDecay is the time in which an observation's weight falls to 1/e, and
	// ewmaPenalty the cost in ns of a replica that is busy and has answered
	// nothing yet (Finagle, com.twitter.finagle.loadbalancer.PeakEwma).
	ewmaDecay   = 10 * time.Second
	ewmaPenalty = float64(math.MaxInt64 >> 16)

	defaultEjectFor = 30 * time.Second
	defaultEjectMax = 0.1
	defaultChoices  = 2
	maxChoices      = 16
	// randomDraws is how often a random choice is drawn again before the next
	// replica that may be chosen is taken.
	randomDraws = 8
)

// peer is what a client knows of one replica.
type peer struct {
	open     uint32 // attempts open
	failures uint32 // in a row
	times    uint32 // how often it was ejected
	out      bool   // ejected
	until    clock.Time
	cost     float64 // peak EWMA of latency in ns, as of seen
	seen     clock.Time
}

// peers are all replicas of a client. Its zero value, without replicas, knows
// nothing and leaves the choice to the picker.
type peers struct {
	list   []peer
	eject  Eject
	most   int // replicas that may be out at once
	out    int // of them, those that are
	pickBy Picker
	draws  uint32 // before all are searched in turn
}

// watches reports whether a policy's choice of replicas needs peers.
func (p *Policy) watches() bool {
	return p.Picker >= PickLeast || p.Eject.Failures > 0 || p.Breaker.limits() || p.Hedge.Max > 0 && p.Hedge.OnlyIdle
}

func newPeers(p *Policy, replicas int) peers {
	n := peers{list: make([]peer, replicas), eject: p.Eject, pickBy: p.Picker}
	switch p.Picker {
	case PickRandom:
		n.draws = randomDraws
	case PickChoices, PickPeakEWMA:
		n.draws = defaultChoices
		if p.Choices > 0 {
			n.draws = uint32(min(p.Choices, maxChoices))
		}
	}
	if n.eject.For <= 0 {
		n.eject.For = defaultEjectFor
	}
	share := n.eject.Max
	if !(share > 0 && share <= 1) {
		share = defaultEjectMax
	}
	n.most = max(1, int(float64(share*float64(replicas))))
	return n
}

// in reports whether replica r may be chosen at now.
func (ps *peers) in(r int, now clock.Time) bool {
	p := &ps.list[r]
	if p.out && now >= p.until {
		p.out, p.failures = false, 0
		ps.out--
	}
	return !p.out || ps.out == len(ps.list)
}

// sent notes that an attempt to replica r was opened.
func (ps *peers) sent(r uint16) { ps.list[r].open++ }

// ended notes that an attempt to replica r has ended after took.
func (ps *peers) ended(r uint16, how ending, took time.Duration, now clock.Time) {
	p := &ps.list[r]
	p.open--
	if how == endUnsent || how == endAbandoned {
		return
	}
	if ps.pickBy == PickPeakEWMA {
		p.observe(float64(took), now)
	}
	switch how {
	case endOK, endAnswered:
		p.failures = 0
	case endFailed, endThrottled, endTimedOut:
		p.failures++
		if n := ps.eject.Failures; n > 0 && int64(p.failures) >= int64(n) && !p.out && ps.out < ps.most {
			p.times++
			p.out, p.until = true, now.Add(multiply(ps.eject.For, p.times))
			ps.out++
		}
	}
}

// multiply returns d times n, at most the longest Duration.
func multiply(d time.Duration, n uint32) time.Duration {
	if d > math.MaxInt64/time.Duration(max(n, 1)) {
		return math.MaxInt64
	}
	return d * time.Duration(n)
}

// observe takes a latency of x ns into the mean:
//
//	cost = x                          if x > cost
//	cost = cost*w + x*(1-w), w = exp(-(now-seen)/ewmaDecay)   else
func (p *peer) observe(x float64, now clock.Time) {
	w := draw.Exp(-float64(now.Sub(p.seen)) / float64(ewmaDecay))
	if x > p.cost {
		p.cost = x
	} else {
		p.cost = float64(p.cost*w) + float64(x*(1-w))
	}
	p.seen = now
}

// load is what a choice by peak EWMA minimises.
func (p *peer) load(now clock.Time) float64 {
	if p.cost == 0 && p.open != 0 {
		return ewmaPenalty + float64(p.open)
	}
	w := draw.Exp(-float64(now.Sub(p.seen)) / float64(ewmaDecay))
	return float64(float64(p.cost*w) * float64(p.open+1))
}

// less reports whether replica a is the better choice than b.
func (ps *peers) less(a, b uint32, now clock.Time) bool {
	p, q := &ps.list[a], &ps.list[b]
	if ps.pickBy == PickPeakEWMA {
		return p.load(now) < q.load(now)
	}
	return p.open < q.open
}

// tried is the memory of a call among replicas: a set of bits up to 64 of them,
// else the last four replicas, each plus 1.
type tried uint64

func (t tried) has(r, replicas uint32) bool {
	if replicas <= 64 {
		return t>>r&1 != 0
	}
	for ; t != 0; t >>= 16 {
		if uint32(t&0xffff) == (r+1)&0xffff {
			return true
		}
	}
	return false
}

func (t tried) with(r, replicas uint32) tried {
	if replicas <= 64 {
		return t | 1<<r
	}
	return t<<16 | tried((r+1)&0xffff)
}

// pass says which replicas a round of choosing leaves out.
type pass uint8

const (
	passFresh pass = iota // those that were tried, and those that are out
	passIn                // those that are out
	passes
)

// choose returns the replica for attempt n of the call that ok accepts, a
// function of the replica alone: an untried one where there is one. found is
// false when ok accepts none of those that are in.
func (ps *peers) choose(pk *picker, call uint64, n uint32, t tried, now clock.Time, ok func(r int) bool) (r uint16, found bool) {
	if t == 0 {
		r, found = ps.round(pk, call, n, t, passIn, now, ok)
		return r, found
	}
	for p := passFresh; p < passes && !found; p++ {
		r, found = ps.round(pk, call, n, t, p, now, ok)
	}
	return r, found
}

// round chooses among the replicas that a pass leaves.
func (ps *peers) round(pk *picker, call uint64, n uint32, t tried, p pass, now clock.Time, ok func(r int) bool) (uint16, bool) {
	size := uint32(len(ps.list))
	fits := func(r uint32) bool {
		return (p != passFresh || !t.has(r, size)) && ps.in(int(r), now) && ok(int(r))
	}
	best, found := uint32(0), false
	if ps.draws > 0 {
		for i := range ps.draws {
			r := pk.belowAt(call, n, i, size)
			if !fits(r) {
				continue
			}
			if ps.pickBy == PickRandom {
				return uint16(r), true
			}
			if !found || ps.less(r, best, now) {
				best, found = r, true
			}
		}
		if found {
			return uint16(best), true
		}
	}
	begin := pk.first(call, n)
	for i := range size {
		r := begin + i
		if r >= size {
			r -= size
		}
		if !fits(r) {
			continue
		}
		if ps.pickBy < PickLeast {
			return uint16(r), true
		}
		if !found || ps.less(r, best, now) {
			best, found = r, true
		}
	}
	return uint16(best), found
}
