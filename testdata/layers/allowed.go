// room: policy

// Near misses: nothing here breaks a rule.
package policy

import (
	"maps"
	"slices"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// Now is a field, not a clock.
type state struct{ Now clock.Time }

func (s *state) wait(d time.Duration) clock.Time { return s.Now.Add(time.Duration(d.Nanoseconds())) }

func noise(seed uint64) uint64 { return draw.Bits(seed, draw.Jitter, 0, 1, 0) }

func total(counts map[string]int, list []int) (sum int) {
	for _, n := range counts { // order does not show: a sum of integers
		sum += n
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		sum += len(k)
	}
	for _, n := range list {
		sum += n
	}
	for range 3 {
		sum++
	}
	return sum
}

func local() time.Duration {
	type clockLike struct{ Sleep, After time.Duration }
	time := clockLike{}
	return time.Sleep + time.After
}
