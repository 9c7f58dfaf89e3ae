package policy

import (
	"time"

	"latencylab/clock"
)

// windowSlots is the number of parts that the window of a budget, a breaker and
// a throttle turns over in, as in Finagle's WindowedAdder (util-core): such a
// window covers between 9/10 of its length and all of it.
const windowSlots = 10

// slider says which of the windowSlots parts of a sliding window is current.
// The zero slider with a width begins at the first instant that it is told.
type slider struct {
	width time.Duration // of one part, at least 1 ns
	until clock.Time    // end of the current part
	slot  int           // the current part
	begun bool          // until is set
}

func newSlider(window time.Duration) slider { return slider{width: max(1, window/windowSlots)} }

// turn moves on to the part that holds now, and returns how many parts have to
// be emptied on the way, 0 … windowSlots: those that next names in turn. An
// instant before the current part changes nothing.
func (s *slider) turn(now clock.Time) (n int) {
	if !s.begun {
		s.begun, s.until = true, now.Add(s.width)
	}
	if now < s.until {
		return 0
	}
	over := now.Sub(s.until)
	s.until = now.Add(s.width - over%s.width)
	return int(min(over/s.width+1, windowSlots))
}

// next makes the oldest part the current one and returns it. When every part is
// emptied, which of them is the current one does not matter.
func (s *slider) next() int {
	s.slot = (s.slot + 1) % windowSlots
	return s.slot
}
