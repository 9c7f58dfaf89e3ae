package results

import "math"

// studentQuantile returns the p quantile of Student's t with df degrees of
// freedom, p in (0, 1), df >= 1. It inverts
//
//	P(T <= t) = 1 - I_x(df/2, 1/2)/2,  x = df/(df + t^2),  t >= 0
//
// by bisection on x; I is the regularised incomplete beta function (NIST
// Digital Library of Mathematical Functions, 8.17 and 26.5.27 of Abramowitz and
// Stegun).
func studentQuantile(p, df float64) float64 {
	if p == 0.5 {
		return 0
	}
	if p < 0.5 {
		return -studentQuantile(1-p, df)
	}
	tail := 2 * (1 - p)
	lo, hi := 0.0, 1.0 // I grows with x
	for range 200 {
		mid := lo + (hi-lo)/2
		if incompleteBeta(df/2, 0.5, mid) < tail {
			lo = mid
		} else {
			hi = mid
		}
	}
	x := lo + (hi-lo)/2
	return math.Sqrt(df * (1 - x) / x)
}

// incompleteBeta returns I_x(a, b) for a, b > 0 and x in [0, 1].
func incompleteBeta(a, b, x float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log1p(-x))
	if x < (a+1)/(a+b+2) {
		return front * betaFraction(a, b, x) / a
	}
	return 1 - front*betaFraction(b, a, 1-x)/b
}

// betaFraction evaluates the continued fraction 8.17.22 of the Digital Library
// by the method of Lentz, which converges for x < (a+1)/(a+b+2).
func betaFraction(a, b, x float64) float64 {
	const tiny = 1e-300
	c, d := 1.0, 1-(a+b)*x/(a+1)
	if math.Abs(d) < tiny {
		d = tiny
	}
	d = 1 / d
	f := d
	for m := 1.0; m <= 500; m++ {
		for _, k := range [2]float64{
			m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)),
			-(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1)),
		} {
			d = 1 + k*d
			if math.Abs(d) < tiny {
				d = tiny
			}
			c = 1 + k/c
			if math.Abs(c) < tiny {
				c = tiny
			}
			d = 1 / d
			f *= d * c
		}
		if math.Abs(d*c-1) < 1e-15 {
			break
		}
	}
	return f
}
