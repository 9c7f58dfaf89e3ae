package lab

import "math"

// published is the generator of random numbers behind the published figures of
// hedge and jitter: the linear congruential generator of glibc's rand, written
// in JavaScript,
//
//	s = (s * 1103515245 + 12345) & 0x7fffffff
//	u = s / 0x7fffffff
//
// where every number is a float64. The product passes 2^53 and loses its low
// bits, the conversion to 32 bits keeps the low ones; what is left runs, from
// every seed that was tried, into one cycle of about 10,000 states.
type published struct{ s uint32 }

// next returns a number in [0, 1].
func (p *published) next() float64 {
	x := float64(float64(p.s)*1103515245) + 12345
	p.s = uint32(uint64(math.Mod(x, 1<<32))) & 0x7fffffff // ToInt32 (ECMA-262 7.1.6), then the mask
	return float64(p.s) / 0x7fffffff
}

// cycle returns the number of states after which the generator repeats itself.
func (p published) cycle() int {
	slow, fast := p, p
	for {
		slow.next()
		fast.next()
		fast.next()
		if slow == fast {
			break
		}
	}
	n := 1
	for slow.next(); slow != fast; n++ {
		slow.next()
	}
	return n
}
