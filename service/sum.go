package service

import (
	"math"
	"math/bits"
	"time"

	"latencylab/clock"
)

// sum is a sum of integers in 128 bits, two's complement: instants of many jobs
// do not overflow it. The zero sum is 0.
type sum struct{ hi, lo uint64 }

func (s *sum) add(x int64) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(x), 0)
	s.hi, _ = bits.Add64(s.hi, uint64(x>>63), carry)
}

func (s *sum) sub(x int64) {
	var borrow uint64
	s.lo, borrow = bits.Sub64(s.lo, uint64(x), 0)
	s.hi, _ = bits.Sub64(s.hi, uint64(x>>63), borrow)
}

// less returns the sum less n times now, between 0 and the largest Duration; n
// is at least 0.
func (s sum) less(n int, now clock.Time) time.Duration {
	hi, lo := bits.Mul64(uint64(n), uint64(now))
	if now < 0 {
		hi -= uint64(n)
	}
	lo, borrow := bits.Sub64(s.lo, lo, 0)
	hi, _ = bits.Sub64(s.hi, hi, borrow)
	switch {
	case int64(hi) < 0:
		return 0
	case hi > 0 || lo > math.MaxInt64:
		return math.MaxInt64
	}
	return time.Duration(lo)
}
