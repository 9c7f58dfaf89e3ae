// Package clock holds instants on one monotonic time line and the few
// functions that read the machine's clocks.
//
// It does not sleep and sets no timer. Pure packages (policy, service,
// workloads, sim) use its types only; the readers Now and Pair are for
// drivers. Functions without receiver may be called from any goroutine.
package clock

import (
	"math"
	"time"
)

// Time is an instant in nanoseconds since an origin that its driver chose:
// the start of the process in real time, the start of the run in virtual
// time. Instants of different origins are not comparable.
type Time int64

// Never is later than every instant; a timer at Never is not set.
const Never Time = math.MaxInt64

// Add returns t+d. It saturates at Never and at the smallest instant instead
// of wrapping round; Never plus anything is Never.
func (t Time) Add(d time.Duration) Time {
	if t == Never {
		return Never
	}
	s := t + Time(d)
	if d >= 0 && s < t {
		return Never
	}
	if d < 0 && s > t {
		return math.MinInt64
	}
	return s
}

// Sub returns t-u, saturating at the largest and smallest Duration.
func (t Time) Sub(u Time) time.Duration {
	d := t - u
	if t >= u && d < 0 {
		return math.MaxInt64
	}
	if t < u && d > 0 {
		return math.MinInt64
	}
	return time.Duration(d)
}

// origin anchors the process: the runtime's monotonic reading inside it makes
// time.Since a single vDSO call.
var origin = time.Now()

// Now reads the monotonic clock.
func Now() Time { return Time(time.Since(origin)) }

// Pair reads the monotonic and the wall clock together. wall is in
// nanoseconds since 1970 UTC (CLOCK_REALTIME) and steps when that clock is
// set; the two readings lie within tens of nanoseconds of each other.
func Pair() (now Time, wall int64) {
	t := time.Now()
	return Time(t.Sub(origin)), t.UnixNano()
}

// Origin returns the wall-clock instant of Time 0 of this process, for
// stamping results; it is not used in arithmetic on instants.
func Origin() time.Time { return origin }
