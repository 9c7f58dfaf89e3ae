package workloads

import (
	"math"
	"math/bits"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// Block is one stretch of a measurement in which a single policy is driven, in
// time on that policy's own clock. Arrivals intended in the first Burn are
// burn-in; those of the Data that follows are measured.
type Block struct {
	// Ramp precedes the burn-in: the rate rises in a straight line from 0, or in
	// closed loop the users come one by one. Its arrivals are burn-in, with numbers
	// of their own from RampID on, and change none of the others. 0 means none.
	Ramp       time.Duration
	Burn, Data time.Duration
	// Calls above 0 ends the data after that many data calls; Data is then not used.
	Calls uint64
}

// Schedule walks the arrivals of successive blocks. Arrival numbers go on over
// the blocks: an arrival at or beyond a block's end is not consumed, and its
// number starts the next block. Every loop of a driver walks all arrivals and
// keeps its own, so that loops need not talk to each other. It does not
// allocate. Not safe for concurrent use.
type Schedule struct {
	arrivals Arrivals
	i        uint64 // number of the next arrival
	digest   uint64
	at       clock.Time // last arrival of the block, or its base
	burnEnd  clock.Time
	end      clock.Time
	calls    uint64 // data calls left; only when counted
	counted  bool
	base     clock.Time
	ramp     time.Duration // 0: none, or it is over
	ramped   uint64        // arrivals of ramps so far, of all blocks
	sum      uint64        // ns: the gaps of this ramp's arrivals at the full rate
}

// RampID is the number of the first arrival of a ramp.
const RampID = 1 << 62

// MaxRamp is the longest ramp.
const MaxRamp = 24 * time.Hour

// NewSchedule returns a schedule before its first block, at arrival 0. Next
// gives nothing before Begin.
func NewSchedule(a *Arrivals) *Schedule { return &Schedule{arrivals: *a} }

// Begin starts a block at base: its first arrival is at base plus the gap of
// the next arrival number. It may be called at any time; what is left of the
// block before is given up.
func (s *Schedule) Begin(base clock.Time, b Block) {
	s.base, s.ramp, s.sum = base, min(max(b.Ramp, 0), MaxRamp), 0
	s.at = base.Add(s.ramp)
	s.burnEnd = s.at.Add(b.Burn)
	s.end = s.burnEnd.Add(b.Data)
	s.calls, s.counted = b.Calls, b.Calls > 0
	if s.counted {
		s.end = clock.Never
	}
}

// Next consumes the next arrival of the block: its number, its intended
// instant and whether it is burn-in. ok is false, and nothing is consumed, when
// the block has no more.
func (s *Schedule) Next() (i uint64, at clock.Time, burn, ok bool) {
	if s.ramp > 0 {
		if i, at, ok = s.rising(); ok {
			return i, at, true, true
		}
	}
	if s.counted && s.calls == 0 {
		return 0, 0, false, false
	}
	gap := s.arrivals.Gap(s.i)
	at = s.at.Add(gap)
	if at >= s.end {
		return 0, 0, false, false
	}
	i, burn = s.i, at < s.burnEnd
	if s.counted && !burn {
		s.calls--
	}
	s.digest += draw.Mix(i, uint64(gap), 0)
	s.at = at
	s.i++
	return i, at, burn, true
}

// rising returns the next arrival of the ramp. Where arrivals at the full rate
// lie at s, those of a rate that rises to it over D lie at sqrt(2 D s): by then
// the integral of the rate, t^2 / (2 D) of the full one, has come to s (time
// change of a Poisson process: Çinlar, "Introduction to Stochastic Processes",
// 1975, chapter 4).
func (s *Schedule) rising() (i uint64, at clock.Time, ok bool) {
	sum := s.sum + uint64(s.arrivals.rampGap(s.ramped))
	t := root(uint64(s.ramp), sum)
	if t >= uint64(s.ramp) {
		s.ramp = 0
		return 0, 0, false
	}
	i = RampID + s.ramped
	s.sum = sum
	s.ramped++
	return i, s.base.Add(time.Duration(t)), true
}

// root returns floor(sqrt(2 d s)), or d where that is d or more.
func root(d, s uint64) uint64 {
	if s >= d/2+d%2 {
		return d
	}
	hi, lo := bits.Mul64(2*d, s)
	r := uint64(math.Sqrt(float64(float64(hi)*(1<<32)*(1<<32)) + float64(lo)))
	above := func(r uint64) bool {
		h, l := bits.Mul64(r, r)
		return h > hi || h == hi && l > lo
	}
	for above(r) {
		r--
	}
	for !above(r + 1) {
		r++
	}
	return r
}

// Count returns the number of arrivals consumed so far, those of ramps aside, which is the number of
// the next one.
func (s *Schedule) Count() uint64 { return s.i }

// Digest identifies the arrivals consumed so far; it equals
// Arrivals.Digest(Count()).
func (s *Schedule) Digest() uint64 { return s.digest }

// Order returns which policy each block of a measurement drives: rounds rounds
// in each of which every one of the policies (numbered from 0) has one block.
// Either argument below 1 gives nil.
//
// For two policies it is the Thue-Morse sequence 01 10 10 01 10 01 01 10 …,
// which cancels linear, quadratic … drift and holds 0→0, 0→1, 1→0 and 1→1, so
// that what one block leaves to the next can be estimated.
//
// For k policies the rounds come in pairs. Pair j is row j mod k of Williams'
// square, whose first row is 0, 1, k-1, 2, k-2, … and whose further rows add 1
// to every entry modulo k, and then the same row backwards: within rounds each
// policy follows each other one equally often after k pairs (Williams,
// "Experimental designs balanced for the estimation of residual effects of
// treatments", 1949), and at the middle of a pair a policy follows itself. In
// every k pairs whose number c has an odd count of one bits, each pair is
// turned round; with k = 2 this is the Thue-Morse sequence.
func Order(policies, rounds int) []int {
	if policies < 1 || rounds < 1 {
		return nil
	}
	order := make([]int, 0, policies*rounds)
	for n := range policies * rounds {
		order = append(order, Turn(policies, n))
	}
	return order
}

// Turn returns entry n, from 0, of the sequence of [Order], which has no end: a
// driver that does not know how many turns there will be asks for each of them.
// policies is 1 or more, n 0 or more.
func Turn(policies, n int) int {
	r := n / policies
	pair := r / 2
	cycle := pair / policies
	n %= policies
	if backwards := (r%2 == 1) != (bits.OnesCount(uint(cycle))%2 == 1); backwards {
		n = policies - 1 - n
	}
	return (zigzag(n, policies) + pair%policies) % policies
}

// zigzag returns entry n of 0, 1, k-1, 2, k-2, …
func zigzag(n, k int) int {
	if n%2 == 1 {
		return (n + 1) / 2
	}
	return (k - n/2) % k
}
