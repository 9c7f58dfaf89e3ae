package draw

import "math"

// The functions in this file give the same bits on every architecture. The Go
// compiler may fuse x*y+z into one operation with one rounding (it does on
// arm64 and with GOAMD64=v3), and package math has assembly for some functions
// on some machines; so every product that feeds a sum stands in float64(...),
// which forbids the fusion, and nothing of package math is used whose result is
// not exact by definition. Polynomials are written out in Horner's form.

// Natural logarithm of 2 in two parts: the upper 33 bits, and the rest.
const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// Log returns the natural logarithm of x with an error below 1 ulp. Log(0) is
// -Inf, Log(+Inf) is +Inf, and of a negative number or NaN it is NaN.
//
// With x = 2^k (1+f), sqrt(1/2) <= 1+f < sqrt(2) and s = f/(2+f),
//
//	log(1+f) = 2s + 2/3 s^3 + 2/5 s^5 + … = f - f^2/2 + s (f^2/2 + R(s^2))
//
// where R is a minimax polynomial (FreeBSD, lib/msun/src/e_log.c).
func Log(x float64) float64 {
	const (
		l1 = 6.666666666666735130e-01
		l2 = 3.999999999940941908e-01
		l3 = 2.857142874366239149e-01
		l4 = 2.222219843214978396e-01
		l5 = 1.818357216161805012e-01
		l6 = 1.531383769920937332e-01
		l7 = 1.479819860511658591e-01
	)
	switch {
	case !(x >= 0):
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case x > math.MaxFloat64:
		return x
	}
	e := 0
	if x < 0x1p-1022 {
		x *= 0x1p54
		e = -54
	}
	bits := math.Float64bits(x)
	e += int(bits>>52) - 1023
	m := math.Float64frombits(bits&(1<<52-1) | 1023<<52) // in [1, 2)
	if m >= math.Sqrt2 {
		m /= 2
		e++
	}
	f, k := m-1, float64(e)
	s := f / (2 + f)
	z := float64(s * s)
	w := float64(z * z)
	odd := float64(z * (l1 + float64(w*(l3+float64(w*(l5+float64(w*l7)))))))
	even := float64(w * (l2 + float64(w*(l4+float64(w*l6)))))
	h := float64(float64(0.5*f) * f)
	return float64(k*ln2Hi) - ((h - (float64(s*(h+(odd+even))) + float64(k*ln2Lo))) - f)
}

// Exp returns e^x with an error below 1 ulp. It is 0 where e^x is below the
// smallest number and +Inf where it is above the largest; Exp(NaN) is NaN.
//
// With x = k log(2) + r, |r| <= log(2)/2, and c = r - r^2 P(r^2),
//
//	e^r = 1 + r + r c/(2-c)
//
// where P is a minimax polynomial (FreeBSD, lib/msun/src/e_exp.c).
func Exp(x float64) float64 {
	const (
		p1 = 1.66666666666666657415e-01
		p2 = -2.77777777770155933842e-03
		p3 = 6.61375632143793436117e-05
		p4 = -1.65339022054652515390e-06
		p5 = 4.13813679705723846039e-08

		invLn2   = 1.44269504088896338700e+00
		overflow = 7.09782712893383973096e+02
		vanish   = -7.45133219101941108420e+02
	)
	switch {
	case x != x:
		return x
	case x > overflow:
		return math.Inf(1)
	case x < vanish:
		return 0
	}
	k := 0
	if x < 0 {
		k = int(float64(invLn2*x) - 0.5)
	} else {
		k = int(float64(invLn2*x) + 0.5)
	}
	hi := x - float64(float64(k)*ln2Hi)
	lo := float64(float64(k) * ln2Lo)
	r := hi - lo
	t := float64(r * r)
	c := r - float64(t*(p1+float64(t*(p2+float64(t*(p3+float64(t*(p4+float64(t*p5)))))))))
	y := 1 - ((lo - float64(r*c)/(2-c)) - hi)
	return math.Ldexp(y, k)
}

// Pow returns x^y for x >= 0 as Exp(y*Log(x)); its relative error is below
// 1e-15 (1 + |y log x|). Pow(x, 0) is 1. For negative x it is NaN.
func Pow(x, y float64) float64 {
	if y == 0 {
		return 1
	}
	return Exp(float64(y * Log(x)))
}

// NormalQuantile returns the z for which a standard normal variable is below z
// with probability p, with a relative error of about 1e-16 beside p = 1/2 and
// below 1e-15 elsewhere. It is -Inf at 0, +Inf at 1 and NaN outside [0, 1].
//
// Algorithm AS 241, PPND16 (Wichura, "The percentage points of the normal
// distribution", Applied Statistics 37, 1988): three rational approximations,
// one for |p-1/2| <= 0.425 and two in r = sqrt(-log(min(p, 1-p))).
func NormalQuantile(p float64) float64 {
	switch {
	case !(p >= 0 && p <= 1):
		return math.NaN()
	case p == 0:
		return math.Inf(-1)
	case p == 1:
		return math.Inf(1)
	}
	q := p - 0.5
	if math.Abs(q) <= 0.425 {
		r := 0.180625 - float64(q*q)
		return q * (horner(&as241A, r) / horner(&as241B, r))
	}
	tail := p
	if q > 0 {
		tail = 1 - p
	}
	r := math.Sqrt(-Log(tail))
	var z float64
	if r <= 5 {
		r -= 1.6
		z = horner(&as241C, r) / horner(&as241D, r)
	} else {
		r -= 5
		z = horner(&as241E, r) / horner(&as241F, r)
	}
	if q < 0 {
		return -z
	}
	return z
}

// horner returns c[0] + c[1] x + … + c[7] x^7.
func horner(c *[8]float64, x float64) float64 {
	s := c[7]
	for i := 6; i >= 0; i-- {
		s = float64(s*x) + c[i]
	}
	return s
}

// Coefficients of AS 241, PPND16: numerators A, C, E and denominators B, D, F.
var (
	as241A = [8]float64{3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
		4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3}
	as241B = [8]float64{1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
		2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3}
	as241C = [8]float64{1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
		1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4}
	as241D = [8]float64{1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
		1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9}
	as241E = [8]float64{6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
		2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7}
	as241F = [8]float64{1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
		7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15}
)
