package results

import (
	"math"
	"slices"
	"time"
)

// windowTimes is how many relaxation times the autocorrelation is summed over.
// Madras and Sokal take 4 to 10.
const windowTimes = 5

// minTimes is how many relaxation times a stretch must last for its relaxation
// time to be known to about a third.
const minTimes = 50

// Tau returns the integrated autocorrelation time of a figure sampled at equal
// steps, the time after which a system has forgotten what it was like:
//
//	tau = step (1/2 + sum of rho(k) for k from 1 to M)
//
// with the autocorrelation rho and the smallest M of at least 5 tau / step
// (Madras and Sokal, "The pivot algorithm", Journal of Statistical Physics 50,
// 1988, appendix C; Sokal, "Monte Carlo Methods in Statistical Mechanics", 1996,
// section 3). For a figure that decays exponentially it is the time constant.
// It is step/2 at least. Of a stretch that is shorter than 50 times tau only a
// lower bound is known.
func Tau(xs []float64, step time.Duration) Figure {
	n := len(xs)
	if n < 2*minTimes {
		return Absentf("%s, a relaxation time wants %d or more", counted(uint64(n), "sample"), 2*minTimes)
	}
	mean, _ := meanDeviation(xs)
	ys := make([]float64, n)
	var variance float64
	for i, x := range xs {
		ys[i] = x - mean
		variance += ys[i] * ys[i]
	}
	if variance == 0 {
		return Num(math.Round(float64(step) / 2))
	}
	tau, window := 0.5, 0
	for k := 1; k < n/2; k++ {
		var c float64
		for i := range n - k {
			c += ys[i] * ys[i+k]
		}
		tau += c / variance
		if float64(k) >= windowTimes*tau {
			window = k
			break
		}
	}
	tau = max(tau, 0.5)
	at := math.Round(tau * float64(step))
	if window == 0 || float64(n) < minTimes*tau {
		f := Absentf("the stretch lasts %.0f times as long only, want %d", float64(n)/tau, minTimes)
		f.AtLeast = at
		return f
	}
	return Num(at)
}

// batches is how many parts a sustained stretch is cut into.
const batches = 20

// batch returns the means of so many equal parts of xs, which has as many or more.
func batch(xs []float64) []float64 {
	out := make([]float64, batches)
	for i := range out {
		part := xs[i*len(xs)/batches : (i+1)*len(xs)/batches]
		out[i], _ = meanDeviation(part)
	}
	return out
}

// trend is a straight line through batch means by least squares.
type trend struct {
	growth    float64 // over the whole stretch
	low, high float64 // its interval of 99.9 %
}

// trendOf fits the means of equal parts; their errors are taken as independent,
// which batches that are longer than the relaxation time bear out.
func trendOf(ys []float64) trend {
	n := float64(len(ys))
	mid, mean := (n-1)/2, 0.0
	for _, y := range ys {
		mean += y / n
	}
	var sxy, sxx float64
	for i, y := range ys {
		x := float64(i) - mid
		sxy += x * (y - mean)
		sxx += x * x
	}
	slope := sxy / sxx
	var rest float64
	for i, y := range ys {
		e := y - mean - slope*(float64(i)-mid)
		rest += e * e
	}
	width := studentQuantile(0.9995, n-2) * math.Sqrt(rest/(n-2)/sxx)
	return trend{growth: slope * n, low: (slope - width) * n, high: (slope + width) * n}
}

// median returns that of xs, of which there is at least one.
func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
