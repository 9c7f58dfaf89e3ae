package draw

import (
	"math"
	"math/bits"
	"testing"
)

// TestGolden holds the numbers themselves: a result is reproducible only while
// every machine and every version draws these.
func TestGolden(t *testing.T) {
	fold := func(f func(i uint64) uint64) (sum uint64) {
		for i := range uint64(100_000) {
			sum += Mix(i, 0, f(i))
		}
		return sum
	}
	uniform := func(i uint64) float64 { return Uniform(1, Service, i/4, uint32(i%4), 0) }
	for _, c := range []struct {
		what string
		got  uint64
		want uint64
	}{
		{"bits of (0, arrival, 0, 0, 0)", Bits(0, Arrival, 0, 0, 0), 0x6e58cb0c94d02cfc},
		{"bits of (1, service, 2, 3, 4)", Bits(1, Service, 2, 3, 4), 0x9bad0c35be55e8e3},
		{"bits of the largest key", Bits(math.MaxUint64, Phase, math.MaxUint64, math.MaxUint32, math.MaxUint32), 0xd09876155993f35e},
		{"mix of 1, 2, 3", Mix(1, 2, 3), 0x33c612f9c3e5e744},
		{"uniforms", fold(func(i uint64) uint64 { return math.Float64bits(uniform(i)) }), 0x1493fa23913c2916},
		{"logarithms", fold(func(i uint64) uint64 { return math.Float64bits(Log(uniform(i))) }), 0x9aff229efe0ae941},
		{"exponentials", fold(func(i uint64) uint64 { return math.Float64bits(Exp(40 * (uniform(i) - 0.5))) }), 0x717506212958c985},
		{"powers", fold(func(i uint64) uint64 { return math.Float64bits(Pow(uniform(i), -1/1.7)) }), 0xb9466da8a1d902ac},
		{"normal quantiles", fold(func(i uint64) uint64 { return math.Float64bits(NormalQuantile(uniform(i))) }), 0x73865a16551f7ed7},
	} {
		if c.got != c.want {
			t.Errorf("%s: digest %#016x, want %#016x", c.what, c.got, c.want)
		}
	}
}

// chiSquare returns how many standard deviations the statistic of cells lies
// from its mean: for n cells it has mean n-1 and variance 2(n-1).
func chiSquare(cells []int) float64 {
	total := 0
	for _, c := range cells {
		total += c
	}
	want, x2 := float64(total)/float64(len(cells)), 0.0
	for _, c := range cells {
		x2 += (float64(c) - want) * (float64(c) - want) / want
	}
	df := float64(len(cells) - 1)
	return (x2 - df) / math.Sqrt(2*df)
}

func TestUniformAndIndependent(t *testing.T) {
	const n = 200_000
	for _, c := range []struct {
		what string
		pair func(i uint64) (a, b float64)
	}{
		{"neighbouring calls", func(i uint64) (a, b float64) {
			return Uniform(1, Service, i, 1, 0), Uniform(1, Service, i+1, 1, 0)
		}},
		{"attempts 1 and 2 of a call", func(i uint64) (a, b float64) {
			return Uniform(1, Service, i, 1, 0), Uniform(1, Service, i, 2, 0)
		}},
		{"numbers 0 and 1 of an attempt", func(i uint64) (a, b float64) {
			return Uniform(1, Service, i, 1, 0), Uniform(1, Service, i, 1, 1)
		}},
		{"neighbouring streams", func(i uint64) (a, b float64) {
			return Uniform(1, Slow, i, 1, 0), Uniform(1, SlowTime, i, 1, 0)
		}},
		{"neighbouring seeds", func(i uint64) (a, b float64) {
			return Uniform(i, Arrival, 0, 0, 0), Uniform(i+1, Arrival, 0, 0, 0)
		}},
		{"attempts of one call", func(i uint64) (a, b float64) {
			return Uniform(3, Jitter, 5, uint32(i), 0), Uniform(3, Jitter, 5, uint32(i+1), 0)
		}},
		{"streams and seeds that differ in one bit", func(i uint64) (a, b float64) {
			return Uniform(i, Pick, i>>3, 1, 0), Uniform(i^1<<40, Pick, i>>3, 1, 0)
		}},
	} {
		line, square := make([]int, 1000), make([]int, 32*32)
		for i := range uint64(n) {
			a, b := c.pair(i)
			line[int(a*float64(len(line)))]++
			square[int(a*32)*32+int(b*32)]++
		}
		if x := chiSquare(line); math.Abs(x) > 4 {
			t.Errorf("%s: the first is not uniform, chi-square %.1f sigma off", c.what, x)
		}
		if x := chiSquare(square); math.Abs(x) > 4 {
			t.Errorf("%s: the pair is not uniform, chi-square %.1f sigma off", c.what, x)
		}
	}
}

func TestEveryPartOfTheKeyFlipsHalfTheBits(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		what string
		bits int
		flip func(i uint64, b int) uint64
	}{
		{"seed", 64, func(i uint64, b int) uint64 { return Bits(i^1<<b, Service, 9, 1, 0) ^ Bits(i, Service, 9, 1, 0) }},
		{"call", 64, func(i uint64, b int) uint64 { return Bits(1, Service, i^1<<b, 1, 0) ^ Bits(1, Service, i, 1, 0) }},
		{"attempt", 32, func(i uint64, b int) uint64 {
			return Bits(1, Service, i, 1^1<<b, 0) ^ Bits(1, Service, i, 1, 0)
		}},
		{"number", 32, func(i uint64, b int) uint64 { return Bits(1, Service, i, 1, 1<<b) ^ Bits(1, Service, i, 1, 0) }},
	} {
		for b := range c.bits {
			flipped := 0
			for i := range uint64(n / 64) {
				flipped += bits.OnesCount64(c.flip(i, b))
			}
			total := float64(n / 64 * 64)
			if x := (float64(flipped) - total/2) / math.Sqrt(total/4); math.Abs(x) > 5 {
				t.Errorf("bit %d of the %s flips a share of %.3f of the bits", b, c.what, float64(flipped)/total)
			}
		}
	}
}

func TestUniformIsInside(t *testing.T) {
	for i := range uint64(1_000_000) {
		if u := Uniform(2, Replica, i, 0, 0); !(u > 0 && u < 1) {
			t.Fatalf("uniform of %d = %g, want inside (0, 1)", i, u)
		}
	}
}
