package service

import (
	"slices"
	"testing"
	"time"

	"latencylab/clock"
)

// checker drives a Server and keeps a model of it: the jobs in the order in
// which they came. After each event the server must agree with the model.
type checker struct {
	t       *testing.T
	spec    *Spec
	s       *Server
	waiting []uint32 // tags, in order
	running []uint32
	due     map[uint32]clock.Time
	job     map[uint32]Job
	shed    map[uint32]bool
	ended   map[uint32]bool
	gone    map[uint32]bool // left, and its job holds its slot on
	late    map[uint32]bool // answered 504
	cut     map[uint32]bool // stops at its deadline
	limit   map[uint32]clock.Time
	want    Counts
}

func newChecker(t *testing.T, spec *Spec) *checker {
	return &checker{t: t, spec: spec, s: New(spec, 0, 1), due: map[uint32]clock.Time{}, job: map[uint32]Job{}, shed: map[uint32]bool{}, ended: map[uint32]bool{},
		gone: map[uint32]bool{}, late: map[uint32]bool{}, cut: map[uint32]bool{}, limit: map[uint32]clock.Time{}}
}

// attempt is the number under which the checker sends a tag.
func attempt(tag uint32) uint32 { return 1 + tag%3 }

func (c *checker) begin(tag uint32, now clock.Time) {
	full := c.spec.Slots > 0 && len(c.running) >= c.spec.Slots
	r := first(tag, uint64(tag))
	r.Attempt = attempt(tag)
	if tag%4 != 0 { // some come too late, some have time left
		r.Deadline = now.Add(time.Duration(tag%4-1) * 2 * time.Millisecond)
	}
	c.limit[tag] = r.Deadline
	j, st := c.s.Begin(r, now)
	c.job[tag] = j
	switch {
	case c.spec.Deadline != DeadlineIgnore && r.Deadline <= now:
		if st.Job != j || st.Due != now {
			c.t.Fatalf("late request %d: %+v at %d, want it due at once", tag, st, now)
		}
		c.shed[tag], c.late[tag], c.due[tag] = true, true, now
		c.want.Expired++
	case !full:
		c.starts(tag, st, now)
	case c.spec.Queue < 0 || len(c.waiting) < c.spec.Queue:
		c.waiting = append(c.waiting, tag)
		c.none(st)
	default:
		if st.Job != j || st.Due != now {
			c.t.Fatalf("shed request %d: %+v at %d, want it due at once", tag, st, now)
		}
		c.shed[tag], c.due[tag] = true, now
	}
	c.check()
}

func (c *checker) starts(tag uint32, st Step, now clock.Time) {
	due := now.Add(c.s.Drawn(c.job[tag]))
	switch limit := c.limit[tag]; {
	case c.spec.Deadline != DeadlineIgnore && limit <= now:
		due, c.late[tag] = now, true
		c.want.Expired++
	case c.spec.Deadline == DeadlineRunning && limit < due:
		due, c.late[tag] = limit, true
	}
	if st.Job != c.job[tag] || st.Tag != tag || st.Due != due {
		c.t.Fatalf("step %+v at %d, want the start of %d, due at %d", st, now, tag, due)
	}
	c.running = append(c.running, tag)
	c.due[tag] = st.Due
	c.want.Worked += due.Sub(now)
	if c.late[tag] && due > now {
		c.cut[tag] = true
	}
}

func (c *checker) none(st Step) {
	if st != (Step{}) {
		c.t.Fatalf("step %+v, want none", st)
	}
}

// turn returns the tag of the waiting request that must start.
func (c *checker) turn(st Step) uint32 {
	switch c.spec.Discipline {
	case LIFO:
		return c.waiting[len(c.waiting)-1]
	case Proportional: // any of them, which TestProportionalIsFair counts
		if slices.Contains(c.waiting, st.Tag) {
			return st.Tag
		}
	case NewFirst:
		if i := slices.IndexFunc(c.waiting, func(tag uint32) bool { return attempt(tag) == 1 }); i >= 0 {
			return c.waiting[i]
		}
	}
	return c.waiting[0]
}

// freed checks what follows when a slot became free: one that waits starts.
func (c *checker) freed(tag uint32, st Step, now clock.Time) {
	c.running = without(c.running, tag)
	if len(c.waiting) == 0 {
		c.none(st)
		return
	}
	next := c.turn(st)
	c.waiting = without(c.waiting, next)
	c.starts(next, st, now)
}

func (c *checker) forget(tag uint32) {
	if c.ended[tag] {
		c.t.Fatalf("request %d ended twice", tag)
	}
	c.ended[tag] = true
	delete(c.due, tag)
	delete(c.job, tag)
}

func (c *checker) end(tag uint32, now clock.Time) {
	a, st := c.s.End(c.job[tag], now)
	if a.Tag != tag {
		c.t.Fatalf("answer %+v, want that of %d", a, tag)
	}
	c.forget(tag)
	if c.cut[tag] && !c.gone[tag] {
		c.want.Stopped++
	}
	if (a.Fault == FaultGone) != c.gone[tag] || (a.Status == 504) != (c.late[tag] && !c.gone[tag]) {
		c.t.Fatalf("answer %+v of %d, gone %v, late %v", a, tag, c.gone[tag], c.late[tag])
	}
	if c.shed[tag] && c.late[tag] {
		c.none(st)
	} else if c.shed[tag] {
		if want := max(c.spec.Shed, 503*b2u(c.spec.Shed == 0)); a.Status != want || a.Drawn != 0 {
			c.t.Fatalf("shed request %d: answer %+v, want status %d", tag, a, want)
		}
		c.none(st)
	} else {
		c.freed(tag, st, now)
	}
	c.check()
}

func (c *checker) cancel(tag uint32, now clock.Time) {
	j := c.job[tag]
	_, isDue := c.due[tag]
	dropped, st := c.s.Cancel(j, now)
	want := !c.gone[tag] && (c.spec.Cancel == CancelRunning || c.spec.Cancel == CancelQueued && !isDue)
	if dropped != want {
		c.t.Fatalf("cancel of %d (started %v): dropped %v, want %v", tag, isDue, dropped, want)
	}
	switch {
	case !dropped:
		c.none(st)
	case c.shed[tag]:
		c.forget(tag)
		c.none(st)
	case isDue:
		c.want.Stopped++
		c.want.Worked -= c.due[tag].Sub(now)
		if d := c.spec.CancelCost; d > 0 {
			if want := (Step{Job: j, Tag: tag, Due: now.Add(d)}); st != want {
				c.t.Fatalf("cancel of %d: %+v, want %+v", tag, st, want)
			}
			c.want.Worked += d
			c.gone[tag], c.due[tag] = true, st.Due
			break
		}
		c.forget(tag)
		c.freed(tag, st, now)
	default:
		c.forget(tag)
		c.waiting = without(c.waiting, tag)
		c.none(st)
	}
	c.check()
}

func (c *checker) check() {
	if got := c.s.Counts(); got != c.want {
		c.t.Fatalf("counts %+v, want %+v", got, c.want)
	}
	if c.s.Busy() != len(c.running) || c.s.Waiting() != len(c.waiting) {
		c.t.Fatalf("busy %d waiting %d, want %d and %d", c.s.Busy(), c.s.Waiting(), len(c.running), len(c.waiting))
	}
	if c.spec.Slots > 0 && c.s.Busy() > c.spec.Slots {
		c.t.Fatalf("busy %d, more than %d slots", c.s.Busy(), c.spec.Slots)
	}
	if c.spec.Slots > 0 && c.s.Busy() < c.spec.Slots && c.s.Waiting() > 0 {
		c.t.Fatalf("%d wait while %d of %d slots are busy", c.s.Waiting(), c.s.Busy(), c.spec.Slots)
	}
	if c.spec.Slots > 0 && c.spec.Queue >= 0 && c.s.Waiting() > c.spec.Queue {
		c.t.Fatalf("%d wait, more than %d", c.s.Waiting(), c.spec.Queue)
	}
}

// earliest returns the started request that is due first.
func (c *checker) earliest() (tag uint32, at clock.Time, ok bool) {
	at = clock.Never
	for g, d := range c.due {
		if d < at || d == at && ok && g < tag {
			tag, at, ok = g, d, true
		}
	}
	return tag, at, ok
}

func without(tags []uint32, tag uint32) []uint32 {
	for i, g := range tags {
		if g == tag {
			return append(tags[:i:i], tags[i+1:]...)
		}
	}
	return tags
}

func b2u(b bool) uint16 {
	if b {
		return 1
	}
	return 0
}

// FuzzServer plays arbitrary arrivals, answers and departures.
func FuzzServer(f *testing.F) {
	f.Add(uint8(1), int8(-1), uint8(2), []byte{0, 0, 0, 1, 2, 2, 2, 9, 17, 1, 1})
	f.Add(uint8(1), int8(-1), uint8(5), []byte{0, 0, 0, 0, 0, 0, 1, 10, 2, 1, 1, 1, 0, 0, 1, 1})
	f.Add(uint8(1), int8(9), uint8(8), []byte{0, 0, 0, 0, 0, 0, 1, 10, 2, 1, 1, 1, 0, 0, 1, 1})
	f.Add(uint8(2), int8(-1), uint8(10), []byte{0, 0, 0, 0, 0, 0, 1, 10, 2, 1, 1, 1, 0, 0, 1, 1})
	f.Add(uint8(2), int8(1), uint8(1), []byte{0, 0, 0, 0, 0, 5, 1, 1, 1, 6, 10, 14, 1})
	f.Add(uint8(0), int8(0), uint8(0), []byte{0, 3, 0, 3, 1, 2})
	for deadline := range uint8(3) {
		f.Add(uint8(1), int8(-1), 12*deadline+2, []byte{0, 0, 0, 0, 0, 0, 63, 1, 10, 2, 1, 1, 1, 0, 0, 1, 1, 6, 1, 1})
		f.Add(uint8(2), int8(2), 12*deadline+2+132, []byte{0, 0, 0, 0, 0, 0, 2, 63, 1, 10, 2, 1, 1, 1, 0, 0, 1, 1, 6, 1, 1})
	}
	f.Fuzz(func(t *testing.T, slots uint8, queue int8, cancel uint8, events []byte) {
		spec := &Spec{Time: mustParse(t, "mixture(50%:uniform(1ms,9ms),50%:1ms)"), Deadline: Deadline(cancel / 12 % 3), Slots: int(slots % 5), Queue: int(queue), Cancel: Cancel(cancel % 3), Discipline: Discipline(cancel / 3 % 4), Shed: 429}
		if cancel >= 128 && spec.Cancel == CancelRunning && spec.Slots > 0 {
			spec.CancelCost = 2 * time.Millisecond
		}
		c := newChecker(t, spec)
		now, tag := clock.Time(0), uint32(0)
		for _, e := range events {
			switch e % 4 {
			case 0:
				c.begin(tag, now)
				tag++
			case 1:
				if g, at, ok := c.earliest(); ok {
					now = max(now, at)
					c.end(g, now)
				}
			case 2:
				if g := uint32(e / 4); c.job[g] != 0 {
					c.cancel(g, now)
				}
			case 3:
				d := clock.Time(e/4) * 1e5
				if _, at, ok := c.earliest(); ok {
					d = min(d, max(0, at-now))
				}
				now += d
			}
		}
		for {
			g, at, ok := c.earliest()
			if !ok {
				break
			}
			now = max(now, at)
			c.end(g, now)
		}
		if len(c.ended) != int(tag) || len(c.job) != 0 {
			t.Fatalf("%d of %d requests ended, %d are open", len(c.ended), tag, len(c.job))
		}
	})
}
