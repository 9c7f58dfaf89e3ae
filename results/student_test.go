package results

import (
	"math"
	"testing"
)

// The values are those of printed tables of Student's t (two-sided 95 % and
// 99 %), and for one degree of freedom of the Cauchy distribution.
func TestStudentQuantile(t *testing.T) {
	for _, c := range []struct{ p, df, want float64 }{
		{0.975, 1, math.Tan(math.Pi * 0.475)},
		{0.975, 2, 4.302652730},
		{0.975, 3, 3.182446305},
		{0.975, 4, 2.776445105},
		{0.975, 9, 2.262157163},
		{0.975, 29, 2.045229642},
		{0.975, 120, 1.979930405},
		{0.975, 1e6, 1.959966},
		{0.995, 5, 4.032142984},
		{0.025, 3, -3.182446305},
		{0.5, 3, 0},
	} {
		if got := studentQuantile(c.p, c.df); math.Abs(got-c.want) > 1e-6*math.Max(1, math.Abs(c.want)) {
			t.Errorf("t quantile %g with %g degrees = %.9f, want %.9f", c.p, c.df, got, c.want)
		}
	}
}
