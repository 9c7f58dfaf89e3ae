package service

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// Ramp changes one figure of a service over time, counted from the mark. From
// the beginning of a ramp to its end the figure goes from From to To, and stays
// there until the next ramp of the same figure begins; before the first one it
// is what the service says. Of those that have begun, the one that began last
// counts, of the same instant the last in the list.
type Ramp struct {
	// Key names the figure as service files do; see RampKeys.
	Key string
	// From is the value at the beginning. nil means the To of the ramp of the same
	// figure that stands before it in the list, or else what the service says.
	From *float64
	// To is the value from the end on. Counts are whole numbers; between From and
	// To they go by ones, shares and factors by as little as there is.
	To float64
	At time.Duration // beginning
	// For is how long it takes. 0 means that the figure jumps.
	For time.Duration
	// Steps, if not 0, is in how many equal steps it goes, the last one at the end.
	Steps int
	// Every is the time from one beginning to the next. 0 means there is one only.
	Every time.Duration
	// Replicas are the numbers of those whose figure changes. Empty means all.
	Replicas []int
}

// RampKeys describes the figures that a Ramp may change, for errors and usage
// texts.
const RampKeys = "factor, slots, queue, capacity.requests, slow.share, status.CODE or fault.KIND"

// figureKind says what a ramp changes.
type figureKind uint8

const (
	noFigure       figureKind = iota
	factorFigure              // of every service time
	slotsFigure               // Spec.Slots
	queueFigure               // Spec.Queue
	requestsFigure            // Capacity.Requests
	slowFigure                // Slow.Share
	statusFigure              // the share of a status
	faultFigure               // the share of a fault
)

// figureOf reads the key of a ramp; n is the status or the fault.
func figureOf(key string) (kind figureKind, n uint16) {
	switch key {
	case "factor":
		return factorFigure, 0
	case "slots":
		return slotsFigure, 0
	case "queue":
		return queueFigure, 0
	case "capacity.requests":
		return requestsFigure, 0
	case "slow.share":
		return slowFigure, 0
	}
	if word, ok := strings.CutPrefix(key, "status."); ok {
		if v, err := strconv.ParseUint(word, 10, 16); err == nil && len(word) == 3 && finalStatus(uint16(v)) {
			return statusFigure, uint16(v)
		}
	}
	if word, ok := strings.CutPrefix(key, "fault."); ok {
		if e, ok := EndingNamed(word); ok && e.Fault != FaultNone && !e.Fault.ofConnections() {
			return faultFigure, uint16(e.Fault)
		}
	}
	return noFigure, 0
}

// IsCount reports whether the values of the ramp are counts, and IsShare whether
// they are shares in [0, 1]; those of a factor are neither.
func (r *Ramp) IsCount() bool {
	kind, _ := figureOf(r.Key)
	return kind == slotsFigure || kind == queueFigure || kind == requestsFigure
}

// IsShare: see IsCount.
func (r *Ramp) IsShare() bool {
	kind, _ := figureOf(r.Key)
	return kind >= slowFigure
}

// maxRamps is the number of ramps that a service may list.
const maxRamps = 1000

func (sp *Spec) validateRamps() error {
	if len(sp.Ramps) > maxRamps {
		return fmt.Errorf("ramp: a list of %d, want at most %d", len(sp.Ramps), maxRamps)
	}
	for i := range sp.Ramps {
		r, key := &sp.Ramps[i], fmt.Sprintf("ramp[%d]", i)
		if err := sp.validateFigure(r, key); err != nil {
			return err
		}
		switch {
		case r.At < 0:
			return fmt.Errorf("%s.at = %v, want 0 or more", key, r.At)
		case r.For < 0:
			return fmt.Errorf("%s.for = %v, want 0 or more", key, r.For)
		case r.Steps < 0:
			return fmt.Errorf("%s.steps = %d, want 1 or more", key, r.Steps)
		case r.Steps > 0 && r.For == 0:
			return fmt.Errorf("%s.steps = %d, but %s.for is not given", key, r.Steps, key)
		case r.Every != 0 && r.Every < time.Millisecond:
			return fmt.Errorf("%s.every = %v, want 1ms or more", key, r.Every)
		case r.Every > 0 && r.For > r.Every:
			return fmt.Errorf("%s.for = %v is above %s.every = %v", key, r.For, key, r.Every)
		}
		if err := sp.validateReplicas(key, r.Replicas); err != nil {
			return err
		}
	}
	return nil
}

// validateFigure checks what the ramp changes, and its values.
func (sp *Spec) validateFigure(r *Ramp, key string) error {
	kind, _ := figureOf(r.Key)
	switch {
	case kind == noFigure:
		return fmt.Errorf("%s.key = %q, want %s", key, r.Key, RampKeys)
	case kind == slotsFigure && sp.Slots == 0:
		return fmt.Errorf("%s.key = slots needs slots", key)
	case kind == queueFigure && (sp.Slots == 0 || sp.Queue < 0):
		return fmt.Errorf("%s.key = queue needs slots and a queue that is not unlimited", key)
	case kind == requestsFigure && sp.Capacity.Per == 0:
		return fmt.Errorf("%s.key = capacity.requests needs capacity", key)
	case (kind == factorFigure || kind == slowFigure) && sp.Capacity.Per > 0:
		return fmt.Errorf("%s.key = %s contradicts capacity: a window answers at its end", key, r.Key)
	case kind == slowFigure && sp.Slow.Time.IsZero() && sp.Slow.Factor == 0:
		return fmt.Errorf("%s.key = slow.share needs slow, with its time or factor", key)
	case (kind == statusFigure || kind == faultFigure) && len(sp.Script) > 0:
		return fmt.Errorf("%s.key = %s contradicts script: it says how every attempt ends", key, r.Key)
	}
	values := []float64{r.To}
	if r.From != nil {
		values = append(values, *r.From)
	}
	for i, v := range values {
		which := [2]string{"to", "from"}[i]
		switch {
		case r.IsShare() && !(v >= 0 && v <= 1):
			return fmt.Errorf("%s.%s = %v, want 0 to 1", key, which, v)
		case kind == factorFigure && !(v >= 1e-6 && v <= 1e9):
			return fmt.Errorf("%s.%s = %v, want 0.000001 to 1000000000", key, which, v)
		case kind == queueFigure && !(v >= 0 && v <= math.MaxInt32 && v == math.Trunc(v)):
			return fmt.Errorf("%s.%s = %v, want a count", key, which, v)
		case (kind == slotsFigure || kind == requestsFigure) && !(v >= 1 && v <= math.MaxInt32 && v == math.Trunc(v)):
			return fmt.Errorf("%s.%s = %v, want a count of 1 or more; where nothing is served there is an outage", key, which, v)
		}
	}
	return nil
}

// figure is one figure of a server that ramps change.
type figure struct {
	kind  figureKind
	n     uint16 // status or fault
	index int    // of its share in the law
	own   float64
	rows  []row // in the order of the list
}

// row is a Ramp with all its values.
type row struct {
	from, to          float64
	at, length, every time.Duration
	steps             int
}

// addRamps takes the ramps of the spec that touch this replica; the law has been
// resolved. It copies what they change.
func (s *Server) addRamps(sp *Spec) {
	replica := int(s.queue.replica)
	for i := range sp.Ramps {
		r := &sp.Ramps[i]
		if !among(r.Replicas, replica) {
			continue
		}
		f := s.figure(r.Key, sp)
		from := f.own
		if len(f.rows) > 0 {
			from = f.rows[len(f.rows)-1].to
		}
		if r.From != nil {
			from = *r.From
		}
		f.rows = append(f.rows, row{from: from, to: r.To, at: r.At, length: r.For, every: r.Every, steps: r.Steps})
	}
}

// figure returns that of the key, which it adds if there is none.
func (s *Server) figure(key string, sp *Spec) *figure {
	kind, n := figureOf(key)
	for i := range s.figures {
		if f := &s.figures[i]; f.kind == kind && f.n == n {
			return f
		}
	}
	f := figure{kind: kind, n: n}
	switch kind {
	case factorFigure:
		f.own = 1
	case slotsFigure:
		f.own = float64(sp.Slots)
	case queueFigure:
		f.own = float64(sp.Queue)
	case requestsFigure:
		f.own = float64(sp.Capacity.Requests)
	case slowFigure:
		f.own = sp.Slow.Share
	case statusFigure:
		f.index, f.own = s.law.statusShare(n)
	case faultFigure:
		f.own = *s.law.faultShare(Fault(n))
	}
	s.figures = append(s.figures, f)
	return &s.figures[len(s.figures)-1]
}

// statusShare returns where the share of a status stands, and what it is. The
// list is no longer that of the spec.
func (l *law) statusShare(status uint16) (index int, share float64) {
	l.sure = false
	l.status = slices.Clone(l.status)
	for i, s := range l.status {
		if s.Status == status {
			return i, s.Share
		}
	}
	l.status = append(l.status, StatusShare{Status: status})
	return len(l.status) - 1, 0
}

// faultShare returns where the share of a fault stands. Faults stand in the order
// of their values; the list is that of the law alone.
func (l *law) faultShare(f Fault) *float64 {
	i, found := slices.BinarySearchFunc(l.faults, f, func(s faultShare, f Fault) int { return int(s.fault) - int(f) })
	if !found {
		l.sure = false
		l.faults = slices.Insert(l.faults, i, faultShare{fault: f})
	}
	return &l.faults[i].share
}

// tune sets the figures that ramps change to their values at now. Every event
// begins with it.
func (s *Server) tune(now clock.Time) {
	s.tuned = now
	in := now.Sub(s.base)
	for i := range s.figures {
		f := &s.figures[i]
		switch v := f.value(in); f.kind {
		case factorFigure:
			s.pace = v
		case slotsFigure:
			s.slots = int(v)
		case queueFigure:
			s.limit = int(v)
		case requestsFigure:
			s.window.Requests = int(v)
		case slowFigure:
			s.law.slow.Share = v
			if s.law.slow.By == SlowByReplica {
				s.law.slow.Share = float64(b2i(draw.Uniform(s.seed, draw.Replica, uint64(s.queue.replica), 0, 0) < v))
			}
		case statusFigure:
			s.law.status[f.index].Share = v
		case faultFigure:
			*s.law.faultShare(Fault(f.n)) = v
		}
	}
}

// reigns returns the row that counts at an instant after the mark, and how long
// before that instant it began; nil before the first begins.
func (f *figure) reigns(at time.Duration) (r *row, in time.Duration) {
	for i := range f.rows {
		x := &f.rows[i]
		if at < x.at {
			continue
		}
		began := at - x.at
		if x.every > 0 {
			began %= x.every
		}
		if r == nil || began <= in {
			r, in = x, began
		}
	}
	return r, in
}

// value returns the figure at an instant after the mark.
func (f *figure) value(at time.Duration) float64 {
	r, in := f.reigns(at)
	switch {
	case r == nil:
		return f.own
	case in >= r.length:
		return r.to
	}
	// in/length is the part that has passed; in steps it is a whole number of them.
	n, of := uint64(in), uint64(r.length)
	if r.steps > 0 {
		n, of = mulDiv(uint64(r.steps), n, of), uint64(r.steps)
	}
	if !f.whole() {
		return r.from + float64((r.to-r.from)*float64(float64(n)/float64(of)))
	}
	if r.to >= r.from {
		return r.from + float64(mulDiv(uint64(r.to-r.from), n, of))
	}
	return r.from - float64(mulDiv(uint64(r.from-r.to), n, of))
}

// whole reports whether the values are counts.
func (f *figure) whole() bool {
	return f.kind == slotsFigure || f.kind == queueFigure || f.kind == requestsFigure
}

// next returns an instant after at, before which the value of a count does not
// change; ok is false when it never changes any more.
func (f *figure) next(at time.Duration) (next time.Duration, ok bool) {
	next = math.MaxInt64
	for i := range f.rows {
		x := &f.rows[i]
		switch {
		case at < x.at:
			next = min(next, x.at)
		case x.every > 0:
			next = min(next, sum64(at-(at-x.at)%x.every, x.every))
		}
	}
	r, in := f.reigns(at)
	if r != nil && in < r.length && r.to != r.from {
		parts := uint64(math.Abs(r.to - r.from))
		if r.steps > 0 {
			parts = uint64(r.steps)
		}
		// The k-th part ends at k*length/parts, rounded up.
		k := mulDiv(parts, uint64(in), uint64(r.length)) + 1
		next = min(next, sum64(at-in, time.Duration(mulDivUp(k, uint64(r.length), parts))))
	}
	return next, next < math.MaxInt64
}

// most returns a bound of what the figure may come to after an instant.
func (f *figure) most(at time.Duration) float64 {
	reigning, _ := f.reigns(at)
	most := 0.0
	if reigning == nil {
		most = f.own
	}
	for i := range f.rows {
		if x := &f.rows[i]; x == reigning || at < x.at || x.every > 0 {
			most = max(most, x.from, x.to)
		}
	}
	return most
}

// mulDiv returns a*b/c rounded down; a*b/c fits.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	q, _ := bits.Div64(hi, lo, c)
	return q
}

// mulDivUp returns a*b/c rounded up.
func mulDivUp(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	q, rest := bits.Div64(hi, lo, c)
	if rest > 0 {
		q++
	}
	return q
}

// sum64 returns a+b, at most the largest Duration; b is at least 0.
func sum64(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Ramped reports whether the number of slots changes over time: the driver then
// watches Wake.
func (s *Server) Ramped() bool {
	return slices.ContainsFunc(s.figures, func(f figure) bool { return f.kind == slotsFigure })
}

// Wake returns the instant at which the driver next calls Advance, because there
// may then be a slot for a request that waits; clock.Never if none waits, or if
// the number of slots does not change. It changes with every event, and may lie
// before the instant of the last one.
func (s *Server) Wake() clock.Time {
	if s.queue.n == 0 || len(s.figures) == 0 {
		return clock.Never
	}
	if s.busy < s.slots {
		return s.tuned
	}
	for i := range s.figures {
		f, in := &s.figures[i], s.tuned.Sub(s.base)
		if f.kind != slotsFigure || f.most(in) <= float64(s.busy) {
			continue
		}
		if at, ok := f.next(in); ok {
			return s.base.Add(at)
		}
	}
	return clock.Never
}

// Advance starts the request whose turn it is, if there is a slot for it at now.
// The driver calls it at Wake, until Wake lies after now.
func (s *Server) Advance(now clock.Time) Step {
	if len(s.figures) > 0 {
		s.tune(now)
	}
	return s.next(now)
}
