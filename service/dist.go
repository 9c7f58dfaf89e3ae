package service

import (
	"math"
	"slices"
	"time"

	"latencylab/draw"
)

// Dist is a distribution of service times. It is an immutable value, cheap to
// copy; [ParseDist] makes one. The zero Dist is constant 0.
//
// Every draw uses a fixed number of uniforms and the inverse distribution
// function, so that two policies that send the same attempt meet the same
// delay, and a longer delay always belongs to a larger (or always to a smaller)
// uniform.
type Dist struct {
	kind kind
	// a and b are durations, x is a number without unit; see the kinds.
	a, b time.Duration
	x    float64
	list *list // of mixture, empirical, sequence and hdr only
}

// list is what does not fit a Dist of fixed size. It is never changed.
type list struct {
	parts  []part          // of a mixture, in order
	values []time.Duration // of empirical, ascending; of sequence, in order
	code   string          // of hdr: its encoding
	steps  []step          // of hdr, ascending
}

type part struct {
	share float64 // of the mixture, in (0, 1]
	below float64 // sum of the shares up to this one; 1 in the last part
	dist  Dist
}

type kind uint8

const (
	constant    kind = iota // a
	uniform                 // from a to b
	normal                  // mean a, standard deviation b, what is below 0 counts as 0
	lognormal               // median a, exp(x z)
	exponential             // mean a
	pareto                  // smallest value a, exponent x: P(T > t) = (a/t)^x
	weibull                 // scale a, shape x: P(T > t) = exp(-(t/a)^x)
	mixture                 // list.parts
	empirical               // list.values, each equally likely
	sequence                // list.values, in turn by the number of the call
	hdr                     // list.steps, within each uniform
	kinds
)

var kindNames = [kinds]string{"constant", "uniform", "normal", "lognormal", "exponential", "pareto", "weibull", "mixture", "empirical", "sequence", "hdr"}

// Constant returns the distribution that is always d; a negative d counts as 0.
func Constant(d time.Duration) Dist { return Dist{a: max(d, 0)} }

// IsZero reports whether d is the zero Dist, constant 0.
func (d Dist) IsZero() bool { return d.kind == constant && d.a == 0 }

// Equal reports whether d and o are the same distribution, written the same way.
func (d Dist) Equal(o Dist) bool {
	if d.kind != o.kind || d.a != o.a || d.b != o.b || d.x != o.x || (d.list == nil) != (o.list == nil) {
		return false
	}
	if d.list == nil {
		return true
	}
	same := func(p, q part) bool { return p.share == q.share && p.dist.Equal(q.dist) }
	return slices.EqualFunc(d.list.parts, o.list.parts, same) && slices.Equal(d.list.values, o.list.values) && d.list.code == o.list.code
}

// Draw returns the service time of (call, attempt) in the stream s, at least 0
// and at most the largest Duration. A mixture picks its part with uniform 0 and
// draws from it with the next ones. A sequence needs none for attempt 1 of call
// i, which takes value i modulo their number, nor for stall i; later attempts
// draw one of its values, each equally likely.
func (d Dist) Draw(seed uint64, s draw.Stream, call uint64, attempt uint32) time.Duration {
	return d.drawAt(seed, s, call, attempt, 0)
}

func (d *Dist) drawAt(seed uint64, s draw.Stream, call uint64, attempt, i uint32) time.Duration {
	if d.kind == constant {
		return d.a
	}
	if d.kind == sequence && (attempt <= 1 || s == draw.Stall) {
		return d.list.values[call%uint64(len(d.list.values))]
	}
	u := draw.Uniform(seed, s, call, attempt, i)
	a := float64(d.a)
	switch d.kind {
	case uniform:
		return nanoseconds(a + float64(u*float64(d.b-d.a)))
	case normal:
		return nanoseconds(a + float64(float64(d.b)*draw.NormalQuantile(u)))
	case lognormal:
		return nanoseconds(a * draw.Exp(float64(d.x*draw.NormalQuantile(u))))
	case exponential:
		return nanoseconds(a * -draw.Log(u))
	case pareto:
		return nanoseconds(a * draw.Pow(u, -1/d.x))
	case weibull:
		return nanoseconds(a * draw.Pow(-draw.Log(u), 1/d.x))
	case mixture:
		ps := d.list.parts
		k := 0
		for k < len(ps)-1 && u >= ps[k].below {
			k++
		}
		return ps[k].dist.drawAt(seed, s, call, attempt, i+1)
	case hdr:
		return d.list.at(u)
	case empirical, sequence:
		vs := d.list.values
		return vs[min(int(u*float64(len(vs))), len(vs)-1)]
	}
	return 0
}

// nanoseconds rounds down to whole nanoseconds and saturates at 0 and at the
// largest Duration.
func nanoseconds(x float64) time.Duration {
	switch {
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x > 0:
		return time.Duration(x)
	}
	return 0
}

// scale returns d times f, saturating; f is at least 0.
func scale(d time.Duration, f float64) time.Duration {
	if f == 1 {
		return d
	}
	return nanoseconds(float64(d) * f)
}

// Mean returns the expectation in nanoseconds, before rounding to integers. ok
// is false when it is not finite (a pareto of exponent 1 or less).
func (d Dist) Mean() (ns float64, ok bool) {
	a, b := float64(d.a), float64(d.b)
	switch d.kind {
	case constant, exponential:
		ns = a
	case uniform:
		ns = a + float64((b-a)/2)
	case normal: // E max(0, X) = m Phi(m/s) + s phi(m/s)
		if b == 0 {
			return a, true
		}
		r := a / b
		ns = float64(a*0.5*math.Erfc(-r/math.Sqrt2)) + float64(b*math.Exp(-r*r/2)/math.Sqrt(2*math.Pi))
	case lognormal:
		ns = a * math.Exp(d.x*d.x/2)
	case pareto:
		if d.x <= 1 {
			return 0, false
		}
		ns = a * d.x / (d.x - 1)
	case weibull:
		ns = a * math.Gamma(1+1/d.x)
	case mixture:
		for _, p := range d.list.parts {
			m, ok := p.dist.Mean()
			if !ok {
				return 0, false
			}
			ns += float64(p.share * m)
		}
	case hdr:
		ns = d.list.mean()
	case empirical, sequence:
		for _, v := range d.list.values {
			ns += float64(v)
		}
		ns /= float64(len(d.list.values))
	}
	if math.IsInf(ns, 0) || ns != ns {
		return 0, false
	}
	return ns, true
}
