package workloads

import (
	"math/big"
	"testing"
	"time"

	"latencylab/clock"
)

type arrival struct {
	i    uint64
	at   clock.Time
	burn bool
}

func walk(a Arrivals, b Block) (list []arrival, digest uint64) {
	s := NewSchedule(&a)
	s.Begin(1000, b)
	for {
		i, at, burn, ok := s.Next()
		if !ok {
			return list, s.Digest()
		}
		list = append(list, arrival{i, at, burn})
	}
}

// TestRamp: the ramp's arrivals come first, rise in a straight line, are burn-in,
// and leave all others as they are without it.
func TestRamp(t *testing.T) {
	const ramp = 10 * time.Second
	for _, kind := range []Kind{Poisson, Constant} {
		a := NewArrivals(kind, 1000e6, 7)
		b := Block{Burn: time.Second, Data: 2 * time.Second}
		plain, digest := walk(a, b)
		b.Ramp = ramp
		with, same := walk(a, b)
		n := len(with) - len(plain)
		if n < 4800 || n > 5200 || digest != same {
			t.Errorf("%v: %d arrivals in the ramp, want about 5,000; digest %x and %x", kind, n, digest, same)
		}
		half, last := 0, clock.Time(1000)
		for k, v := range with[:n] {
			if v.i != RampID+uint64(k) || !v.burn || v.at < last || v.at >= clock.Time(1000).Add(ramp) {
				t.Fatalf("%v: arrival %d of the ramp is %+v", kind, k, v)
			}
			if last = v.at; v.at < clock.Time(1000).Add(ramp/2) {
				half++
			}
		}
		if half < n/4-150 || half > n/4+150 {
			t.Errorf("%v: %d of %d in the first half, want a quarter", kind, half, n)
		}
		for k, v := range plain {
			if v.at = v.at.Add(ramp); with[n+k] != v {
				t.Fatalf("%v: arrival %d after the ramp is %+v, without it %+v", kind, k, with[n+k], v)
			}
		}
	}
}

// TestRoot against big integers.
func TestRoot(t *testing.T) {
	for _, d := range []uint64{1, 2, 3, 1e9, 5e9 + 7, uint64(MaxRamp)} {
		for _, s := range []uint64{0, 1, d / 7, d / 3, d/2 - d/2/1000, d / 2, d} {
			x := new(big.Int).Mul(new(big.Int).SetUint64(2*d), new(big.Int).SetUint64(s))
			want := min(x.Sqrt(x).Uint64(), d)
			if got := root(d, s); got != want {
				t.Errorf("root(%d, %d) = %d, want %d", d, s, got, want)
			}
		}
	}
}
