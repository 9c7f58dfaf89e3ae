package policy

import (
	"math"
	"time"
)

// Limit bounds the attempts that a client has open at once. What does not fit
// is refused and counted, and does not queue: a pure machine that is told of
// one call cannot wake another, and a queue in front of a service that is late
// already only adds its own wait.
//
// The zero Limit does not limit.
type Limit struct {
	// Max is the limit. 0 means none.
	Max int
	// Min, when it is not 0, makes the limit follow what happens, between Min
	// and Max, by additive increase and multiplicative decrease (Netflix
	// concurrency-limits, AIMDLimit): an attempt that was dropped or took longer
	// than Timeout multiplies it by Backoff, rounded down; any other adds 1 when
	// at least half of the limit was in use.
	Min int
	// Initial is the limit at the start, from Min to Max. 0 means Min.
	Initial int
	// Backoff is what a drop leaves, in (0, 1). 0 means 0.9.
	Backoff float64
	// Timeout is the time above which an attempt counts as dropped. 0 means 5 s.
	Timeout time.Duration
}

const (
	defaultLimitBackoff = 0.9
	defaultLimitTimeout = 5 * time.Second
)

// limitEnd is what an attempt's end says about the service's capacity.
type limitEnd uint8

const (
	limitServed  limitEnd = iota // it answered
	limitDropped                 // it refused for overload, or did not answer in time
	limitIgnored                 // nothing: cancelled, abandoned, never sent, or an error that has another reason
)

// limit is the state of a Limit. The zero limit does not limit. An attempt that
// take admitted is told once by end.
type limit struct {
	now      int // 0: does not limit
	least    int // 0: fixed
	most     int
	inflight int
	backoff  float64
	timeout  time.Duration
}

func newLimit(l Limit) limit {
	if !l.limits() {
		return limit{}
	}
	most := min(l.Max, math.MaxInt32)
	s := limit{now: most, most: most, backoff: defaultLimitBackoff, timeout: defaultLimitTimeout}
	if l.Min > 0 {
		s.least = min(l.Min, most)
		s.now = min(max(l.Initial, s.least), most)
	}
	if l.Backoff > 0 && l.Backoff < 1 {
		s.backoff = l.Backoff
	}
	if l.Timeout > 0 {
		s.timeout = l.Timeout
	}
	return s
}

// allow reports whether one more attempt fits. It takes nothing.
func (l *limit) allow() bool { return l.now == 0 || l.inflight < l.now }

// take admits one more attempt, or refuses it and takes nothing.
func (l *limit) take() bool {
	if !l.allow() {
		return false
	}
	l.inflight++
	return true
}

// end reports that an admitted attempt has ended after took. Upstream asks
// whether half of the limit was in use when the attempt began; here it is when
// it ends, itself included, so that nothing is kept of each attempt.
func (l *limit) end(how limitEnd, took time.Duration) {
	used := l.inflight
	l.inflight = max(used-1, 0)
	if l.least == 0 || how == limitIgnored {
		return
	}
	switch {
	case how == limitDropped || took > l.timeout:
		l.now = max(int(float64(float64(l.now)*l.backoff)), l.least)
	case 2*used >= l.now:
		l.now = min(l.now+1, l.most)
	}
}

// limits reports whether l limits anything.
func (l Limit) limits() bool { return l.Max > 0 }
