package workloads

import (
	"math"
	"math/big"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/draw"
	"latencylab/units"
)

func TestConstantArrivalsDoNotDrift(t *testing.T) {
	for _, c := range []struct {
		why  string
		rate units.Rate
	}{
		{"a round rate", 1000e6},
		{"three a second is no whole number of ns", 3e6},
		{"one an hour", 278},
		{"the smallest rate", 1},
		{"the largest rate", units.MaxRate},
		{"a prime", 1_000_003},
	} {
		a := NewArrivals(Constant, c.rate, 1)
		for _, from := range []uint64{0, 1, 1e6, 1 << 40, 1<<63 - 3, math.MaxUint64 - 5} {
			for i := from; i < from+5; i++ {
				exact := func(n uint64) *big.Int {
					x := new(big.Int).Mul(new(big.Int).SetUint64(n), big.NewInt(unit))
					return x.Div(x, big.NewInt(int64(c.rate)))
				}
				want := new(big.Int).Sub(exact(i+1), exact(i))
				if got := a.Gap(i); !want.IsInt64() || int64(got) != want.Int64() {
					t.Errorf("%s: gap %d = %d, want %v", c.why, i, got, want)
				}
			}
		}
	}
	// A second of any whole rate is a second.
	for _, perSecond := range []int64{1, 3, 7, 1000, 99991} {
		a := NewArrivals(Constant, units.Rate(perSecond*1e6), 1)
		var sum time.Duration
		for i := range uint64(perSecond) {
			sum += a.Gap(i)
		}
		if sum != time.Second {
			t.Errorf("%d gaps at %d/s take %v", perSecond, perSecond, sum)
		}
	}
}

func TestPoissonArrivals(t *testing.T) {
	const n = 200_000
	a := NewArrivals(Poisson, 1000e6, 7)
	var sum, square float64
	above := 0
	for i := range uint64(n) {
		g := a.Gap(i)
		if g < 0 {
			t.Fatalf("gap %d is %v", i, g)
		}
		x := float64(g) / 1e6
		sum += x
		square += x * x
		if g > time.Millisecond {
			above++
		}
	}
	mean := sum / n
	// Six standard errors: of the mean 1/sqrt(n), of the second moment sqrt(20/n).
	if math.Abs(mean-1) > 6/math.Sqrt(n) {
		t.Errorf("mean gap %g ms, want 1", mean)
	}
	if m2 := square / n; math.Abs(m2-2) > 6*math.Sqrt(20.0/n) {
		t.Errorf("mean square %g, want 2", m2)
	}
	p := float64(above) / n
	if want := math.Exp(-1); math.Abs(p-want) > 6*math.Sqrt(want*(1-want)/n) {
		t.Errorf("share of gaps above the mean %g, want %g", p, want)
	}
	if b := NewArrivals(Poisson, 1000e6, 8); b.Digest(100) == a.Digest(100) {
		t.Error("two seeds give the same arrivals")
	}
	slow := NewArrivals(Poisson, 1, 7)
	for i := range uint64(1000) {
		if g := slow.Gap(i); g < 0 {
			t.Fatalf("gap %d of the smallest rate is %v", i, g)
		}
	}
}

// The digests pin the arrivals: they are part of every stored result.
func TestArrivalsDigest(t *testing.T) {
	for _, c := range []struct {
		why  string
		a    Arrivals
		want uint64
	}{
		{"poisson", NewArrivals(Poisson, 1000e6, 1), 0xb7abc160d646b36c},
		{"another seed", NewArrivals(Poisson, 1000e6, 2), 0xa5dac58a706f8d15},
		{"constant", NewArrivals(Constant, 3e6, 1), 0xea1ce369d00efdf0},
	} {
		if got := c.a.Digest(10_000); got != c.want {
			t.Errorf("%s: digest %#x, want %#x", c.why, got, c.want)
		}
		var sum uint64
		for i := range uint64(10) {
			sum += draw.Mix(i, uint64(c.a.Gap(i)), 0)
		}
		if got := c.a.Digest(10); got != sum {
			t.Errorf("%s: digest of ten %#x, want the sum %#x", c.why, got, sum)
		}
	}
}

func TestScheduleWalksBlocks(t *testing.T) {
	a := NewArrivals(Constant, 1000e6, 1) // one a millisecond
	s := NewSchedule(&a)
	if _, _, _, ok := s.Next(); ok {
		t.Error("an arrival before any block")
	}
	const ms = clock.Time(time.Millisecond)
	for _, c := range []struct {
		why         string
		base        clock.Time
		block       Block
		first, last uint64
		burn        uint64     // arrivals in burn-in
		at          clock.Time // of the first
	}{
		{"the first arrival is one gap after the base; one at the end is not consumed", 100 * ms,
			Block{Burn: 3 * time.Millisecond, Data: 4 * time.Millisecond}, 0, 5, 2, 101 * ms},
		{"numbers go on in the next block", 500 * ms, Block{Data: 3 * time.Millisecond}, 6, 7, 0, 501 * ms},
		{"a number of data calls ends a block", 600 * ms, Block{Burn: 2 * time.Millisecond, Calls: 5}, 8, 13, 1, 601 * ms},
		{"burn-in alone", 700 * ms, Block{Burn: 3 * time.Millisecond}, 14, 15, 2, 701 * ms},
	} {
		s.Begin(c.base, c.block)
		next, burns := c.first, uint64(0)
		for {
			i, at, burn, ok := s.Next()
			if !ok {
				break
			}
			if i != next {
				t.Fatalf("%s: arrival %d, want %d", c.why, i, next)
			}
			if want := c.at + clock.Time(i-c.first)*ms; at != want {
				t.Errorf("%s: arrival %d at %d, want %d", c.why, i, at, want)
			}
			if burn {
				burns++
				if i >= c.first+c.burn {
					t.Errorf("%s: arrival %d is burn-in", c.why, i)
				}
			}
			next++
		}
		if next != c.last+1 || burns != c.burn {
			t.Errorf("%s: up to %d with %d of burn-in, want %d and %d", c.why, next-1, burns, c.last, c.burn)
		}
		if _, _, _, ok := s.Next(); ok {
			t.Errorf("%s: an arrival after the end", c.why)
		}
		if s.Count() != next || s.Digest() != a.Digest(next) {
			t.Errorf("%s: count %d digest %#x, want %d %#x", c.why, s.Count(), s.Digest(), next, a.Digest(next))
		}
	}
	s.Begin(0, Block{})
	if _, _, _, ok := s.Next(); ok {
		t.Error("an arrival in an empty block")
	}
	s.Begin(clock.Never-10, Block{Burn: time.Hour, Calls: 1})
	if _, _, _, ok := s.Next(); ok {
		t.Error("an arrival at the end of time")
	}
}

// However a time is cut into blocks, the same arrivals come.
func TestScheduleIsTheSameForAllLoops(t *testing.T) {
	a := NewArrivals(Poisson, 5000e6, 3)
	x, y := NewSchedule(&a), NewSchedule(&a)
	for b := range 20 {
		block := Block{Burn: time.Duration(b%3) * time.Millisecond, Data: time.Duration(1+b) * time.Millisecond}
		x.Begin(clock.Time(b)*1e9, block)
		y.Begin(clock.Time(b)*7e9, block)
		for {
			i, at, burn, ok := x.Next()
			j, bt, curn, pk := y.Next()
			if i != j || burn != curn || ok != pk || ok && at-clock.Time(b)*1e9 != bt-clock.Time(b)*7e9 {
				t.Fatalf("block %d: %d %d %v %v, other base %d %d %v %v", b, i, at, burn, ok, j, bt, curn, pk)
			}
			if !ok {
				break
			}
		}
	}
	if x.Count() == 0 || x.Digest() != a.Digest(x.Count()) {
		t.Errorf("%d arrivals, digest %#x", x.Count(), x.Digest())
	}
}

func TestScheduleDoesNotAllocate(t *testing.T) {
	a := NewArrivals(Poisson, 5000e6, 3)
	s := NewSchedule(&a)
	if n := testing.AllocsPerRun(100, func() {
		s.Begin(0, Block{Data: time.Millisecond})
		for {
			if _, _, _, ok := s.Next(); !ok {
				return
			}
		}
	}); n != 0 {
		t.Errorf("%g allocations a block", n)
	}
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		why              string
		policies, rounds int
		want             []int
	}{
		{"two policies follow Thue and Morse", 2, 8, []int{0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0}},
		{"one policy", 1, 3, []int{0, 0, 0}},
		{"three policies, there and back", 3, 4, []int{0, 1, 2, 2, 1, 0, 1, 2, 0, 0, 2, 1}},
		{"no policy", 0, 3, nil},
		{"no round", 2, 0, nil},
	} {
		got := Order(c.policies, c.rounds)
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", c.why, got, c.want)
				break
			}
		}
	}
	// Thue-Morse by its own definition: the parity of the one bits of the index.
	for i, p := range Order(2, 512) {
		n := 0
		for x := i; x > 0; x &= x - 1 {
			n++
		}
		if p != n%2 {
			t.Fatalf("entry %d of two policies is %d, want %d", i, p, n%2)
		}
	}
}

func TestOrderIsBalanced(t *testing.T) {
	for k := 2; k <= 9; k++ {
		rounds := 2 * k // k pairs
		order := Order(k, rounds)
		within := make([][]int, k) // within[a][b]: b follows a in one round
		for i := range within {
			within[i] = make([]int, k)
		}
		same := 0
		for r := range rounds {
			seen := make([]bool, k)
			for n := range k {
				p := order[r*k+n]
				if seen[p] {
					t.Fatalf("%d policies: round %d has %d twice", k, r, p)
				}
				seen[p] = true
				if n > 0 {
					within[order[r*k+n-1]][p]++
				}
			}
			if r > 0 && order[r*k] == order[r*k-1] {
				same++
			}
		}
		for a := range k {
			for b := range k {
				want := 2
				if a == b {
					want = 0
				}
				if within[a][b] != want {
					t.Errorf("%d policies: %d follows %d %d times, want %d", k, b, a, within[a][b], want)
				}
			}
		}
		if same < k {
			t.Errorf("%d policies: one follows itself %d times, want %d or more", k, same, k)
		}
	}
}

func BenchmarkScheduleNext(b *testing.B) {
	a := NewArrivals(Poisson, 5000e6, 3)
	s := NewSchedule(&a)
	s.Begin(0, Block{Calls: math.MaxUint64})
	b.ReportAllocs()
	for b.Loop() {
		s.Next()
	}
}

// TestTurn: a turn asked for alone is the entry of every sequence that holds it.
func TestTurn(t *testing.T) {
	for policies := 1; policies <= 7; policies++ {
		for n, want := range Order(policies, 40) {
			if got := Turn(policies, n); got != want {
				t.Fatalf("turn %d of %d policies is %d, want %d", n, policies, got, want)
			}
		}
	}
}
