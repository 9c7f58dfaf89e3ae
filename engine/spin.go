package engine

import (
	"fmt"
	"time"

	"latencylab/units"
)

// maxSpin is the longest time worth polling: one tick of a 100 Hz kernel, the
// latest that an idle machine wakes a sleeper. Longer only burns the processor
// that the other side may need.
const maxSpin = 10 * time.Millisecond

// ParseSpin reads for how long to poll before something is due: a duration from 0
// to 10 ms.
func ParseSpin(s string) (time.Duration, error) {
	d, err := units.ParseDuration(s)
	if err == nil && d > maxSpin {
		err = fmt.Errorf("%q, want at most %s: no machine wakes later than that without load", s, units.FormatDuration(maxSpin))
	}
	return d, err
}
