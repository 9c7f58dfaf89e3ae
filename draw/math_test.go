package draw

import (
	"math"
	"testing"
)

// relative returns |got-want| over |want|, or the absolute error where want is
// below 1e-300.
func relative(got, want float64) float64 {
	if got == want {
		return 0
	}
	return math.Abs(got-want) / max(math.Abs(want), 1e-300)
}

func TestFunctionsAgainstMath(t *testing.T) {
	var worstLog, worstExp, worstPow, worstZ float64
	for i := range uint64(200_000) {
		u := Uniform(7, Phase, i, 0, 0)
		x := math.Ldexp(u, int(i%2000)-1000)
		worstLog = max(worstLog, relative(Log(x), math.Log(x)))
		worstLog = max(worstLog, relative(Log(u), math.Log(u)))
		e := (u - 0.5) * 1400
		worstExp = max(worstExp, relative(Exp(e), math.Exp(e)))
		y := (Uniform(7, Phase, i, 0, 1) - 0.5) * 40
		worstPow = max(worstPow, relative(Pow(u, y), math.Pow(u, y))/(1+math.Abs(y*math.Log(u))))
		p := u
		if i%2 == 0 {
			p = math.Ldexp(u, -int(i%200))
		}
		// Inverse of the distribution function, which math has to a relative error of 1e-15:
		// an error dz of z shows as dz*phi(z)/Phi(z) in p.
		z := NormalQuantile(p)
		back := 0.5 * math.Erfc(-z/math.Sqrt2)
		phi := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
		if z < 0 {
			worstZ = max(worstZ, math.Abs(back-p)/phi/math.Abs(z))
		}
	}
	for _, c := range []struct {
		what        string
		worst, want float64
	}{
		{"log", worstLog, 4e-16},
		{"exp", worstExp, 4e-16},
		{"pow over 1+|y log x|", worstPow, 1e-15},
		{"normal quantile", worstZ, 1e-13},
	} {
		t.Logf("%s: largest relative error %.2g", c.what, c.worst)
		if c.worst > c.want {
			t.Errorf("%s: largest relative error %g, want at most %g", c.what, c.worst, c.want)
		}
	}
}

func TestFunctionsAtTheEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"log of 0", Log(0), -inf},
		{"log of 1", Log(1), 0},
		{"log of +Inf", Log(inf), inf},
		{"log of a negative number", Log(-1), nan},
		{"log of NaN", Log(nan), nan},
		{"log of the smallest number, 2^-1074", Log(math.SmallestNonzeroFloat64), -744.4400719213812},
		{"exp of 0", Exp(0), 1},
		{"exp of -Inf", Exp(-inf), 0},
		{"exp of +Inf", Exp(inf), inf},
		{"exp of NaN", Exp(nan), nan},
		{"exp just above the largest", Exp(710), inf},
		{"exp into the subnormal numbers", Exp(-745), math.Exp(-745)},
		{"anything to the power 0", Pow(inf, 0), 1},
		{"0 to a positive power", Pow(0, 2), 0},
		{"0 to a negative power", Pow(0, -2), inf},
		{"a power that overflows", Pow(10, 400), inf},
		{"normal quantile of 0", NormalQuantile(0), -inf},
		{"normal quantile of 1", NormalQuantile(1), inf},
		{"normal quantile of 1/2", NormalQuantile(0.5), 0},
		{"normal quantile above 1", NormalQuantile(1.5), nan},
	} {
		if c.got != c.want && !(math.IsNaN(c.got) && math.IsNaN(c.want)) {
			t.Errorf("%s = %g, want %g", c.what, c.got, c.want)
		}
	}
	// Published values of PPND16 (Wichura 1988, section 3).
	for p, want := range map[float64]float64{0.25: -0.6744897501960817, 0.001: -3.090232306167814, 1e-20: -9.262340089798408} {
		if got := NormalQuantile(p); relative(got, want) > 1e-15 {
			t.Errorf("normal quantile of %g = %.17g, want %.17g", p, got, want)
		}
	}
}

func BenchmarkLog(b *testing.B) {
	x, s := 0.0, 0.0
	for b.Loop() {
		x += 1e-9
		s += Log(x)
	}
	_ = s
}
