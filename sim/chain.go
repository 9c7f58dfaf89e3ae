package sim

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"latencylab/clock"
	"latencylab/draw"
	"latencylab/policy"
	"latencylab/service"
)

// MaxHops is the largest number of hops in a run.
const MaxHops = 16

// Hop is a server between the users and the service that does no work of its
// own: for each request it calls on, by a policy of its own, the next hop or, the
// last one, the service. It has room for any number of requests and is one
// client of what it calls.
//
// A hop that is told how much time is left (policy.Policy.Wire of its caller)
// heeds it: the earlier of that and of its policy's own deadline counts.
//
// A request is answered with 200 when enough of the hop's calls have ended ok,
// and else, as soon as that cannot be any more, with the status of the call that
// decided it: the last status that it was answered with, 504 when a timeout or
// the deadline was the end of it, 502 when its connection broke, 503 when its
// policy did not send. Calls that are not needed any more are cancelled; in the
// hop's ledger they are unfinished.
type Hop struct {
	Policy policy.Policy
	// Fan is the number of calls that are begun at once for each request, and
	// Need how many of them must end ok. 0 means one call, and all of them.
	Fan, Need int
	// Cancels makes the hop cancel its calls when its caller has left. Without,
	// they go on, retries and all.
	Cancels bool
	// Silent makes the hop answer nothing in place of a failure, as a handler does
	// whose error nobody catches: its caller waits for its own timeout. A hop that
	// would wait for ever gives up when nothing else is left to happen.
	Silent bool
}

func (h *Hop) fan() int { return max(h.Fan, 1) }

func (h *Hop) need() int {
	if h.Need == 0 {
		return h.fan()
	}
	return h.Need
}

var errTiedHop = errors.New("cancel=tied, but what is called is a hop: only servers with a queue drop copies that wait")

// lane returns the policy of a lane of users.
func (c *Config) lane(i int) *policy.Policy {
	if len(c.Lanes) == 0 {
		return &c.Policy
	}
	return &c.Lanes[i]
}

// checkHops returns an error for a chain that makes no sense.
func (c *Config) checkHops() error {
	if len(c.Hops) > MaxHops {
		return fmt.Errorf("%d hops, want at most %d", len(c.Hops), MaxHops)
	}
	if len(c.Hops) > 0 {
		for i := range max(len(c.Lanes), 1) {
			if c.lane(i).Cancel == policy.CancelTied {
				return errTiedHop
			}
		}
	}
	for i := range c.Hops {
		h := &c.Hops[i]
		err := h.Policy.Validate()
		switch {
		case err != nil:
		case h.Fan < 0:
			err = fmt.Errorf("fan = %d, want 1 or more", h.Fan)
		case h.Need < 0 || h.Need > h.fan():
			err = fmt.Errorf("need = %d, want 1 to fan=%d", h.Need, h.fan())
		case h.Policy.Cancel == policy.CancelTied && i+1 < len(c.Hops):
			err = errTiedHop
		}
		if err != nil {
			return fmt.Errorf("hop %d: %w", i, err)
		}
	}
	return nil
}

// hop is one hop, or one service of a graph.
type hop struct {
	edges           []hopEdge
	cancels, silent bool
	after           service.Dist // its own work after its calls
	seed            uint64
	first           uint16 // number of its first server among all
}

// hopEdge is one call of a hop, a client of its own for each replica.
type hopEdge struct {
	lane      uint8
	fan, need int
	place     int // of its first copy in join.kids
	optional  bool
	after     uint64   // bit k: call k comes before it
	ids       []uint64 // by replica: the number of its next call
	step      uint64   // from one number to the next
}

// copies is the number of calls for one request.
func (h *hop) copies() int {
	if len(h.edges) == 0 {
		return 0
	}
	e := &h.edges[len(h.edges)-1]
	return e.place + e.fan
}

// join is what becomes of one request at a hop.
type join struct {
	attempt uint32 // the request; 0: the join is free
	next    uint32 // in the free list
	silent  bool   // it has failed and is not answered
	begun   uint64 // bit k: call k was begun
	ended   uint64 // bit k: call k has ended ok, or is left out
	left    []remains
	kids    []uint32 // open calls
}

// remains is what may still come of the copies of a call.
type remains struct {
	need  int // must still end ok
	spare int // may still fail
}

// newHops makes the lanes of the chain. Each has a seed of its own: its calls
// are numbered from 0 as those of the users are.
func (w *world) newHops(servers int) {
	for i := range w.cfg.Hops {
		h := &w.cfg.Hops[i]
		replicas := 1
		if i+1 == len(w.cfg.Hops) {
			replicas = servers
		}
		w.addLane(&h.Policy, replicas, 1, draw.Mix(w.cfg.Seed, uint64(i)+1, 0))
		l := &w.lanes[len(w.lanes)-1]
		l.toHop, l.next = i+1 < len(w.cfg.Hops), i+1
		w.hops = append(w.hops, hop{
			cancels: h.Cancels, silent: h.Silent,
			edges: []hopEdge{{lane: uint8(len(w.lanes) - 1), fan: h.fan(), need: h.need(), ids: []uint64{0}, step: 1}},
		})
	}
	if len(w.hops) > 0 {
		w.joins = make([]join, 1)
	}
}

// told returns the time that the call has left as a server reads it, at least
// 1 ns. 0: there is no deadline, or nothing is told of it.
func (w *world) told(c *call, wire policy.Wire) time.Duration {
	left, ok := c.k.Left(w.now)
	if !ok {
		return 0
	}
	return max(wire.Told(left), 1)
}

// heard returns the deadline that a request brings which arrives now. A time
// left counts from now, whatever the net has taken; an instant is an instant,
// since in here all clocks agree.
func (w *world) heard(a *attempt) clock.Time {
	if a.hint == 0 {
		return clock.Never
	}
	from := w.now
	if w.lanes[a.book>>1].policy.Wire.Absolute() {
		from = a.sent
	}
	d := from.Add(a.hint)
	a.hint = 0
	return d
}

// enter gives a request to its hop.
func (w *world) enter(n uint32) {
	a := &w.attempts[n]
	h := &w.hops[w.lanes[a.book>>1].next]
	j := w.freeJoin
	if j != 0 {
		w.freeJoin = w.joins[j].next
	} else {
		j = uint32(len(w.joins))
		w.joins = append(w.joins, join{})
	}
	jn := &w.joins[j]
	kids, left := jn.kids[:0], jn.left[:0]
	for range h.copies() {
		kids = append(kids, 0)
	}
	for k := range h.edges {
		left = append(left, remains{h.edges[k].need, h.edges[k].fan - h.edges[k].need})
	}
	*jn = join{attempt: n, kids: kids, left: left}
	a.job, a.joined = service.Job(j), true
	w.callFor(j)
}

// callFor begins the calls of a request that wait for no other.
func (w *world) callFor(j uint32) {
	n := w.joins[j].attempt
	h := &w.hops[w.lanes[w.attempts[n].book>>1].next]
	for k := range h.edges {
		e, bit := &h.edges[k], uint64(1)<<k
		if jn := &w.joins[j]; jn.begun&bit != 0 || e.after&^jn.ended != 0 {
			continue
		}
		w.joins[j].begun |= bit
		for part := range e.fan {
			if w.joins[j].attempt != n {
				return // decided by calls that ended at once
			}
			if w.joins[j].ended&bit != 0 {
				break
			}
			w.submit(j, h, k, part)
		}
		if w.joins[j].attempt != n {
			return
		}
	}
}

// submit begins one copy of call k of a request.
func (w *world) submit(j uint32, h *hop, k, part int) {
	a := &w.attempts[w.joins[j].attempt]
	e := &h.edges[k]
	at := 0
	if len(e.ids) > 1 {
		at = int(a.replica - h.first)
	}
	r := policy.Request{ID: e.ids[at], Intended: w.now, Idempotent: w.cfg.Idempotent}
	e.ids[at] += e.step
	if a.deadline != clock.Never {
		r.Deadline = a.deadline
	}
	i := w.take(r.ID, w.now, book(e.lane, a.book&1 == burnBook))
	w.inner++
	c := &w.calls[i]
	c.from, c.part = j, uint32(k)<<16|uint32(part)
	w.joins[j].kids[e.place+part] = i
	w.apply(i, c.k.Start(w.lanes[e.lane].clients[at], r, w.now))
}

// joined tells the request of a hop's call that the call has ended.
func (w *world) joined(j, part uint32, o policy.Outcome, status uint16) {
	jn := &w.joins[j]
	k, bit := int(part>>16), uint64(1)<<(part>>16)
	h := &w.hops[w.lanes[w.attempts[jn.attempt].book>>1].next]
	e, left := &h.edges[k], &jn.left[k]
	jn.kids[e.place+int(part&0xffff)] = 0
	if jn.ended&bit != 0 {
		return
	}
	if o == policy.OK {
		if left.need--; left.need > 0 {
			return
		}
	} else {
		if left.spare--; left.spare >= 0 {
			return
		}
		if !e.optional {
			w.decide(j, status)
			return
		}
	}
	jn.ended |= bit
	w.releaseFrom(j, e.place, e.place+e.fan)
	if jn.ended == uint64(1)<<len(h.edges)-1 {
		w.decide(j, 200)
		return
	}
	w.callFor(j)
}

// callsOn reports whether the service of a request, whose own work has ended so,
// calls on for it.
func (w *world) callsOn(a *attempt, ans *service.Answer) bool {
	l := &w.lanes[a.book>>1]
	return l.toHop && ans.Fault == service.FaultNone && ans.Status == 200 && !ans.Shed && !(a.gone && w.hops[l.next].cancels)
}

// decide answers a request at a hop with the status.
func (w *world) decide(j uint32, status uint16) {
	w.release(j)
	jn := &w.joins[j]
	n := jn.attempt
	a := &w.attempts[n]
	l := &w.lanes[a.book>>1]
	h := &w.hops[l.next]
	silent := a.wanted && status != 200 && h.silent
	if l.works && !silent {
		w.replied(service.FaultNone, a.gone)
	}
	switch {
	case !a.wanted:
		w.part(j)
		w.free(n)
	case silent:
		jn.silent = true
	default:
		w.part(j)
		at := w.now.Add(w.cfg.Net)
		if status == 200 && !h.after.IsZero() {
			at = at.Add(h.after.Draw(h.seed, draw.AfterCalls, a.id, a.number))
		}
		a.status, a.hint, a.fault = status, 0, service.FaultNone
		a.order = w.events.push(at, answers, reply, n)
	}
}

// forsaken tells a hop that the caller of the request has left.
func (w *world) forsaken(n uint32) {
	a := &w.attempts[n]
	j := uint32(a.job)
	l := &w.lanes[a.book>>1]
	stays := !w.joins[j].silent && !w.hops[l.next].cancels
	if l.works {
		w.quit(false, !stays)
		a.gone = stays
	}
	if stays {
		return
	}
	w.release(j)
	w.part(j)
	w.free(n)
}

// drain forgets a request whose caller waits for an answer only to drop it, if
// it is at a hop that will never answer.
func (w *world) drain(n uint32) {
	a := &w.attempts[n]
	if a.joined && w.joins[a.job].silent {
		if w.lanes[a.book>>1].works {
			w.quit(false, true)
		}
		w.part(uint32(a.job))
		w.free(n)
	}
}

// part ends the join of a request, which has no open calls any more.
func (w *world) part(j uint32) {
	jn := &w.joins[j]
	w.attempts[jn.attempt].job, w.attempts[jn.attempt].joined = 0, false
	jn.attempt = 0
	jn.next, w.freeJoin = w.freeJoin, j
}

// release cancels the open calls of a request.
func (w *world) release(j uint32) { w.releaseFrom(j, 0, len(w.joins[j].kids)) }

// releaseFrom cancels those of the open calls that lie between two places.
func (w *world) releaseFrom(j uint32, from, to int) {
	for part := from; part < to; part++ {
		i := w.joins[j].kids[part]
		if i == 0 {
			continue
		}
		w.joins[j].kids[part] = 0
		c := &w.calls[i]
		l := &w.lanes[c.book>>1]
		b := w.book[c.book]
		for m := c.k.Open(); m != 0; m &= m - 1 {
			slot := bits.TrailingZeros8(m)
			n := c.slots[slot]
			c.slots[slot] = 0
			a := &w.attempts[n]
			a.wanted = false
			b.AttemptCancelled(a.kind)
			if l.policy.Cancel == policy.CancelDrain {
				w.drain(n)
				continue
			}
			b.Connections.ClosedByCancel++
			w.depart(n)
		}
		c.k.Abandon(w.now)
		c.from = 0
		response := w.now.Sub(c.intended)
		b.CallUnfinished(response)
		w.drop(i, c, policy.Going, response)
	}
}

// answered returns the status with which a hop's call has ended.
func (c *call) answered(o policy.Outcome) uint16 {
	switch {
	case o == policy.Expired:
		return 504
	case c.status == 0:
		return 503
	}
	return c.status
}
