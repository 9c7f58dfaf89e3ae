package policy

import (
	"math"
	"time"

	"latencylab/clock"
)

// Throttle rejects calls before they are sent, by chance, while the service
// accepts too few of those that are (Google, "Site Reliability Engineering",
// 2016, ch. 21, "Client-Side Throttling"):
//
//	p = max(0, (requests - K*accepts) / (requests + Pad))
//
// over the last Window. A call counts among the requests when it is attempted,
// also when it is rejected here: a service that refuses everything is so asked
// less and less, and one that recovers is found out by the few that pass.
//
// The zero Throttle never rejects. Finagle's NackAdmissionFilter is K 2 with
// Max .75 and MinRate 5; failsafe-go's adaptive throttler is K 1/.9 with Max .9
// and a Window of 1 min.
type Throttle struct {
	// K is how many requests are let through for each that is accepted, at
	// least 1. The book has 2; 1.1 rejects sooner. 0 means no throttle.
	K float64
	// Pad keeps a client of few calls from rejecting at the first failures. 0
	// means 1, as in the book.
	Pad float64
	// Window is how far back it looks, in ten parts. 0 means 2 min.
	Window time.Duration
	// Max, in (0, 1], bounds the probability. 0 means 1.
	Max float64
	// MinRate is the number of requests a second, on the average of a whole
	// Window, below which nothing is rejected. 0 means none.
	MinRate float64
}

const (
	defaultThrottleWindow = 2 * time.Minute
	defaultThrottlePad    = 1
)

// throttle is the state of a Throttle. The zero throttle never rejects.
type throttle struct {
	k, pad, most float64
	least        float64 // requests in the window below which nothing is rejected
	requests     uint64
	accepts      uint64
	slide        slider
	parts        [windowSlots]struct{ requests, accepts uint64 }
}

func newThrottle(t Throttle) throttle {
	if !t.limits() {
		return throttle{}
	}
	s := throttle{k: min(t.K, math.MaxFloat64), pad: defaultThrottlePad, most: 1, slide: newSlider(t.window())}
	if t.Pad > 0 {
		s.pad = t.Pad
	}
	if t.Max > 0 && t.Max < 1 {
		s.most = t.Max
	}
	if t.MinRate > 0 {
		s.least = float64(t.MinRate * t.window().Seconds())
	}
	return s
}

// request counts a call and reports whether it is rejected. u is uniform in
// [0, 1).
func (t *throttle) request(now clock.Time, u float64) (reject bool) {
	if t.k == 0 {
		return false
	}
	t.turn(now)
	reject = u < t.chance()
	t.requests++
	t.parts[t.slide.slot].requests++
	return reject
}

// accepted counts a call that the service took on: it has answered, and neither
// refused for overload nor failed.
func (t *throttle) accepted(now clock.Time) {
	if t.k == 0 {
		return
	}
	t.turn(now)
	t.accepts++
	t.parts[t.slide.slot].accepts++
}

// chance returns the probability of a rejection, as of the last event.
func (t *throttle) chance() float64 {
	n := float64(t.requests)
	if t.k == 0 || n < t.least {
		return 0
	}
	over := n - float64(t.k*float64(t.accepts))
	return max(0, min(over/(n+t.pad), t.most))
}

// turn forgets the parts that have left the window at now.
func (t *throttle) turn(now clock.Time) {
	for n := t.slide.turn(now); n > 0; n-- {
		part := &t.parts[t.slide.next()]
		t.requests -= part.requests
		t.accepts -= part.accepts
		part.requests, part.accepts = 0, 0
	}
}

// limits reports whether t ever rejects.
func (t Throttle) limits() bool { return t.K > 0 }

// window returns the window with its default.
func (t Throttle) window() time.Duration {
	if t.Window <= 0 {
		return defaultThrottleWindow
	}
	return min(t.Window, maxWindow)
}
