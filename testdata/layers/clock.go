// room: policy

package policy

import (
	"time"
	t "time"

	"latencylab/clock"
)

var reader = time.Now // want: clock

func readings(at time.Time) (time.Duration, time.Duration, clock.Time) {
	_, _ = clock.Pair()                             // want: clock
	_ = clock.Origin()                              // want: clock
	return t.Since(at), time.Until(at), clock.Now() // want: clock want: clock want: clock
}
