package policy

import (
	"math/bits"

	"latencylab/draw"
)

// maxReplicas is the number of replicas that Action.Replica can name.
const maxReplicas = 1 << 16

// maxTried is the number of attempts of one call whose replicas are remembered
// when there are more replicas than a word has bits.
const maxTried = 16

// picker chooses the replica of each attempt.
type picker struct {
	kind     Picker
	replicas uint32 // 1 … maxReplicas
	seed     uint64
}

// pick returns the replica for attempt n, from 1, of the call. tried is the
// call's memory: 0 at first, kept by the caller, changed by pick only.
func (p *picker) pick(call uint64, n uint32, tried *uint64) uint16 {
	switch {
	case p.replicas == 1:
		return 0
	case p.kind == PickRoundRobin:
		return uint16((call%uint64(p.replicas) + uint64(n-1)) % uint64(p.replicas))
	case p.replicas > 64:
		return p.replay(call, n)
	}
	all := ^uint64(0) >> (64 - p.replicas)
	if *tried == all {
		*tried = 0
	}
	free := all &^ *tried
	i := p.below(call, n, uint32(bits.OnesCount64(free)))
	for ; i > 0; i-- {
		free &= free - 1
	}
	*tried |= free & -free
	return uint16(bits.TrailingZeros64(free))
}

// replay picks for attempt n among more than 64 replicas. Replicas are numbers
// drawn by key, so those of the attempts before n need not be kept: they are
// drawn again, up to maxTried of them. Attempts 17 to 32 form a round of their
// own that remembers nothing of the first, and so on.
func (p *picker) replay(call uint64, n uint32) uint16 {
	var sorted [maxTried]uint16 // picks of this round, in ascending order
	begin := (n-1)/maxTried*maxTried + 1
	for m := begin; ; m++ {
		count := int(m - begin)
		// The r-th replica that is free: every tried one at or below it shifts it by one.
		r := p.below(call, m, p.replicas-uint32(count))
		i := 0
		for ; i < count && uint32(sorted[i]) <= r; i++ {
			r++
		}
		if m == n {
			return uint16(r)
		}
		copy(sorted[i+1:count+1], sorted[i:count])
		sorted[i] = uint16(r)
	}
}

// first returns the replica that a search for attempt n begins with.
func (p *picker) first(call uint64, n uint32) uint32 {
	if p.kind == PickRoundRobin {
		return uint32((call%uint64(p.replicas) + uint64(n-1)) % uint64(p.replicas))
	}
	return p.belowAt(call, n, 0, p.replicas)
}

// below draws a number in [0, limit) for attempt n of the call.
func (p *picker) below(call uint64, n, limit uint32) uint32 { return p.belowAt(call, n, 0, limit) }

// belowAt draws number i of such numbers.
func (p *picker) belowAt(call uint64, n, i, limit uint32) uint32 {
	hi, _ := bits.Mul64(draw.Bits(p.seed, draw.Pick, call, n, i), uint64(limit))
	return uint32(hi)
}
