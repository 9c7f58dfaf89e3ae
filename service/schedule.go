package service

import (
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// outage returns how the request r, which arrives now, ends because of an
// outage; ok is false when none strikes it.
func (s *Server) outage(r *Request, now clock.Time) (e Ending, ok bool) {
	if s.ordered.from <= now && now < s.ordered.to && !s.ordered.ending.Fault.ofConnections() {
		return s.ordered.ending, true
	}
	for i := range s.outages {
		o := &s.outages[i]
		if o.lasts(s.base, now) && !o.Ending.Fault.ofConnections() && s.strikes(o, uint32(i), r) {
			return o.Ending, true
		}
	}
	return Ending{}, false
}

// lasts reports whether the outage, counted from base, lasts now.
func (o *Outage) lasts(base, now clock.Time) bool {
	in := now.Sub(base.Add(o.At))
	if in < 0 {
		return false
	}
	if o.Every > 0 {
		in %= o.Every
	}
	return in < o.For
}

// strikes draws whether outage i strikes the request.
func (s *Server) strikes(o *Outage, i uint32, r *Request) bool {
	if o.Share == 0 || o.Share >= 1 {
		return true
	}
	_, key := s.law.keys(r.Attempt)
	return draw.Uniform(s.seed, draw.Outage, r.Call, key, i) < o.Share
}

// maxStalls bounds how many stalls one piece of work is followed through. What
// is left of it then goes on without any.
const maxStalls = 10_000

// stalls are the stretches of time in which a replica does nothing.
type stalls struct {
	seed    uint64
	replica uint32
	mark    uint32
	series  []series
	// held is the stretch from which on a pause stops everything until it ends, or
	// the last one that ended; to is clock.Never while it lasts.
	held struct{ from, to clock.Time }
}

// series is one Stall at one replica.
type series struct {
	Stall
	key    uint32     // of its draws: number of the series, and the replica if it is apart
	origin clock.Time // beginning of stall 0
}

// stallsOf returns those of the spec that touch the replica, with mark 0 at
// instant 0.
func stallsOf(spec *Spec, replica int, seed uint64) stalls {
	st := stalls{seed: seed, replica: uint32(replica)}
	for i, x := range spec.Stalls {
		if !among(x.Replicas, replica) {
			continue
		}
		key := uint32(i) << 17
		if x.Apart {
			key += uint32(replica) + 1
		}
		st.series = append(st.series, series{Stall: x, key: key})
	}
	st.begin(0, 0)
	return st
}

// begin counts all series from base.
func (st *stalls) begin(base clock.Time, mark uint32) {
	st.mark = mark
	for i := range st.series {
		x := &st.series[i]
		x.origin = base.Add(x.At)
		if x.Apart {
			u := draw.Uniform(st.seed, draw.StallPhase, uint64(i), st.replica, mark)
			x.origin = x.origin.Add(nanoseconds(float64(x.Every) * u))
		}
	}
}

// length is how long stall k of the series lasts, at most until the next begins.
func (st *stalls) length(x *series, k uint64) time.Duration {
	d := x.For.drawAt(st.seed, draw.Stall, k, x.key, st.mark<<8)
	if x.Every > 0 {
		return min(d, x.Every)
	}
	return d
}

// number returns which stall of the series began last at t, and when. ok is
// false before the first.
func (x *series) number(t clock.Time) (k uint64, began clock.Time, ok bool) {
	if t < x.origin {
		return 0, 0, false
	}
	if x.Every > 0 {
		k = uint64(t.Sub(x.origin) / x.Every)
	}
	return k, x.origin.Add(time.Duration(k) * x.Every), true
}

// end returns t, or the end of the stall in which t lies.
func (st *stalls) end(t clock.Time) clock.Time {
	if st.held.from <= t && t < st.held.to {
		t = st.held.to
	}
	for i := range st.series {
		x := &st.series[i]
		if k, began, ok := x.number(t); ok {
			t = max(t, began.Add(st.length(x, k)))
		}
	}
	return t
}

// next returns when the next stall after t begins.
func (st *stalls) next(t clock.Time) clock.Time {
	next := clock.Never
	if t < st.held.from && st.held.from < st.held.to {
		next = st.held.from
	}
	for i := range st.series {
		x := &st.series[i]
		began, ok := x.origin, t < x.origin
		if !ok && x.Every > 0 {
			_, began, _ = x.number(t)
			began, ok = began.Add(x.Every), true
		}
		if ok {
			next = min(next, began)
		}
	}
	return next
}

// after returns the instant at which work that takes so long, and that begins
// now, is done: time in a stall does not count. Work that is done just when a
// stall begins is done.
func (st *stalls) after(now clock.Time, work time.Duration) clock.Time {
	if len(st.series) == 0 && now >= st.held.to {
		return now.Add(work)
	}
	t := now
	for range 2 * maxStalls { // each takes two turns: to its beginning, to its end
		if e := st.end(t); e > t {
			t = e // it may lie in another stall
			continue
		}
		next := st.next(t)
		free := next.Sub(t)
		if work <= free || next <= t { // the end of the clock, which nothing passes
			return t.Add(work)
		}
		t, work = next, work-free
		if len(st.series) == 1 && st.series[0].For.kind == constant && t >= st.held.to {
			t, work = st.series[0].skip(t, work)
		}
	}
	return t.Add(work)
}

// still returns how much of the time from from to to lies in stalls.
func (st *stalls) still(from, to clock.Time) (sum time.Duration) {
	for range 2 * maxStalls {
		if from >= to {
			break
		}
		e := min(st.end(from), to)
		if e == from {
			e = st.next(from)
		} else {
			sum += e.Sub(from)
		}
		from = e
	}
	return sum
}

// skip passes over the whole periods that work fills, from t on, at which a
// stall of constant length begins. At least 1 ns of work is left.
func (x *series) skip(t clock.Time, work time.Duration) (clock.Time, time.Duration) {
	free := x.Every - x.For.a
	if x.Every == 0 || free <= 0 || work <= free {
		return t, work
	}
	periods := (work - 1) / free
	if float64(periods)*float64(x.Every) > 1<<62 {
		return clock.Never, work
	}
	return t.Add(periods * x.Every), work - periods*free
}

// among reports whether a list of replicas, which is all if empty, holds one.
func among(replicas []int, replica int) bool {
	for _, r := range replicas {
		if r == replica {
			return true
		}
	}
	return len(replicas) == 0
}
