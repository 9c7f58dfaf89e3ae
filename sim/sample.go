package sim

import (
	"math"
	"time"

	"latencylab/clock"
)

// Sample is the state of the servers at one instant, before what happens at it.
type Sample struct {
	At clock.Time // on the policy's clock, a multiple of Config.Sample
	// Work is unfinished at all servers together (service.Server.Backlog).
	Work time.Duration
	// Requests are at the servers: those worked on and those that wait.
	Requests int
	// Calls are open.
	Calls int
	// Begun are the users' calls that began since the last sample, or since the
	// begin of the block, and Sent the attempts that were sent to the servers, by
	// the last hop if there are hops: their ratio is the amplification of the load.
	Begun, Sent uint64
}

// look reports the intervals and the samples that are due by t.
func (w *world) look(t clock.Time) {
	if t >= w.nextCut {
		w.cutUntil(t)
	}
	if t >= w.nextSample {
		w.sampleUntil(t)
	}
	w.nextLook = min(w.nextCut, w.nextSample)
}

// lookFrom sets the instants of the next interval and the next sample of a
// block that begins at base.
func (w *world) lookFrom(base clock.Time) {
	w.nextCut, w.nextSample = clock.Never, clock.Never
	if w.cfg.OnInterval != nil {
		for i := range w.cur {
			w.cur[i].Start = base
		}
		w.cutFrom = base
		w.nextCut = base.Add(w.interval())
	}
	if d := w.cfg.Sample; d > 0 && w.cfg.OnSample != nil {
		w.sampled = [2]uint64{}
		w.nextSample = base.Add((d - time.Duration(base)%d) % d)
	}
	w.nextLook = min(w.nextCut, w.nextSample)
}

// sampleUntil takes the samples that are due by t.
func (w *world) sampleUntil(t clock.Time) {
	d := w.cfg.Sample
	if gap := t.Sub(w.nextSample) / d; gap > longGap {
		w.sample(w.nextSample)
		w.nextSample = w.nextSample.Add(gap * d)
	}
	for w.nextSample <= t && w.nextSample != clock.Never {
		w.sample(w.nextSample)
		w.nextSample = w.nextSample.Add(d)
	}
}

// sample reports the state at the instant, which no event lies before.
func (w *world) sample(at clock.Time) {
	s := Sample{At: at, Work: w.backlog(at), Calls: w.live}
	for _, v := range w.servers {
		s.Requests += v.Busy() + v.Waiting()
	}
	var begun, sent uint64
	for i, b := range w.book {
		if i < w.hopBooks {
			begun += b.Calls.Scheduled
		}
		if !w.lanes[i/2].toHop {
			sent += b.Attempts.Sent
		}
	}
	s.Begun, s.Sent = begun-w.sampled[0], sent-w.sampled[1]
	w.sampled = [2]uint64{begun, sent}
	w.cfg.OnSample(s)
}

// backlog returns the unfinished work of all servers at the instant.
func (w *world) backlog(at clock.Time) time.Duration {
	var sum time.Duration
	for _, v := range w.servers {
		b := v.Backlog(at)
		if b > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += b
	}
	return sum
}
