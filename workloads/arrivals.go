package workloads

import (
	"math/bits"
	"time"

	"latencylab/draw"
	"latencylab/units"
)

// Kind is how arrivals are spread.
type Kind uint8

const (
	// Poisson arrivals have independent exponential gaps.
	Poisson Kind = iota
	// Constant arrivals have equal gaps.
	Constant
)

// String returns "poisson" or "constant", as workload files write it.
func (k Kind) String() string {
	if k == Constant {
		return "constant"
	}
	return "poisson"
}

// unit is a second in the unit that rates divide: nanoseconds times the
// millionths of an event per second of units.Rate.
const unit = 1e9 * 1e6

// Arrivals is the schedule of an open loop: gaps keyed by the arrival's number,
// the same for every policy, block, loop and machine. It holds no state; a copy
// is as good as the original, and all methods may be called from any goroutine.
type Arrivals struct {
	kind Kind
	rate units.Rate
	seed uint64
	mean float64 // ns between arrivals
}

// NewArrivals returns the arrivals of the rate, which must lie between 1 and
// units.MaxRate; seed keys Poisson gaps and does not matter to Constant.
func NewArrivals(kind Kind, rate units.Rate, seed uint64) Arrivals {
	rate = min(max(rate, 1), units.MaxRate)
	return Arrivals{kind: kind, rate: rate, seed: seed, mean: unit / float64(rate)}
}

// Kind returns how the arrivals are spread.
func (a *Arrivals) Kind() Kind { return a.kind }

// Rate returns the mean rate.
func (a *Arrivals) Rate() units.Rate { return a.rate }

// Gap returns the time between arrivals i-1 and i (for 0: between the start and
// the first), 0 or more. A Poisson gap is -ln(u)/rate with the uniform u keyed
// by i, rounded half up to a nanosecond. A constant gap is
// floor((i+1)/rate) - floor(i/rate) in whole nanoseconds, so that any number of
// gaps adds up to the exact instant and nothing drifts.
func (a *Arrivals) Gap(i uint64) time.Duration {
	if a.kind == Constant {
		return time.Duration(a.instant(i+1) - a.instant(i))
	}
	u := draw.Uniform(a.seed, draw.Arrival, i, 0, 0)
	// The conversion keeps the product from being fused with the sum, which
	// would round differently on machines that have such an instruction.
	return time.Duration(float64(-draw.Log(u)*a.mean) + 0.5)
}

// rampGap is Gap for arrival i of ramps, keyed apart.
func (a *Arrivals) rampGap(i uint64) time.Duration {
	if a.kind == Constant {
		return a.Gap(i)
	}
	u := draw.Uniform(a.seed, draw.Ramp, i, 0, 0)
	return time.Duration(float64(-draw.Log(u)*a.mean) + 0.5)
}

// instant returns floor(n/rate) in ns modulo 2^64.
func (a *Arrivals) instant(n uint64) uint64 {
	rate := uint64(a.rate)
	hi, lo := bits.Mul64(n, unit)
	q, _ := bits.Div64(hi%rate, lo, rate)
	return q
}

// Digest identifies the first n gaps: the sum over i < n of
// draw.Mix(i, gap, 0) modulo 2^64. It takes time in proportion to n; a
// Schedule adds the same digest up as it goes.
func (a *Arrivals) Digest(n uint64) uint64 {
	var sum uint64
	for i := range n {
		sum += draw.Mix(i, uint64(a.Gap(i)), 0)
	}
	return sum
}
