package service

import (
	"fmt"
	"time"

	"latencylab/clock"
)

// Server is one replica. [New] makes one. A driver calls Begin for every
// request that arrives, End for every job that comes due, and Cancel when a
// caller leaves before its answer. Not safe for concurrent use.
type Server struct {
	law
	slots      int // 0: no limit
	limit      int // of the queue; negative: none
	shed       uint16
	cancel     Cancel
	cancelCost time.Duration
	aware      Deadline
	retryAfter time.Duration
	body       int
	seed       uint64

	base    clock.Time // schedules count from here
	marks   uint32
	outages []Outage // of this replica
	ordered struct { // an outage at run time, see Outage
		from, to clock.Time
		ending   Ending
	}
	paused bool
	until  clock.Time // when a pause is to end
	stalls stalls
	// figures are what ramps change, tuned when they were last set, and pace how
	// many times as long all work takes now.
	figures []figure
	tuned   clock.Time
	pace    float64
	thrash  Thrash
	window  window // Per 0: none
	shapes  *[Kinds]Shape
	gated   bool // some fault of the spec strikes connections
	// What counts the script of callers that number no attempts.
	scriptKey string
	keys      keys

	jobs  []job // slab by Job; jobs[0] is never used
	free  Job   // first of the free jobs, linked by next; 0: none
	queue queue
	busy  int
	open  int // jobs that are known
	work  sum // due instants of running jobs, drawn times of waiting ones

	counts Counts // without Worked
	worked sum
}

// job is a request that the server knows, 48 bytes.
type job struct {
	due        clock.Time // while the server is paused: see pause.go
	drawn      time.Duration
	deadline   clock.Time
	tag        uint32
	attempt    uint32
	prev, next Job // neighbours in the queue or in the free list
	status     uint16
	state      state
	fault      Fault
	full       bool // it found the queue full or its window overloaded
	cut        bool // its deadline ends the work
	expired    bool // its turn came after its deadline
	served     bool // its window has served it
}

type state uint8

const (
	unused   state = iota
	waiting        // in the queue
	pending        // has started, and is decided at the end of its window
	running        // holds a slot
	stopping       // holds a slot, though its caller has left
	aside          // has started, but holds no slot: its answer needs no work
	hung           // never answered, holds no slot
)

// New returns an idle server for the replica, numbered from 0, of a valid spec.
// It copies what it needs of spec, but shares its slices. seed is the target's
// seed: the same for all replicas.
func New(spec *Spec, replica int, seed uint64) *Server {
	law := spec.law(seed, replica)
	spec = spec.Of(replica)
	s := &Server{
		law:        law,
		slots:      max(spec.Slots, 0),
		limit:      spec.Queue,
		shed:       spec.Shed,
		cancel:     spec.Cancel,
		cancelCost: spec.CancelCost,
		aware:      spec.Deadline,
		retryAfter: spec.RetryAfter,
		body:       spec.Body,
		seed:       seed,
		pace:       1,
		jobs:       make([]job, 1, 64),
		stalls:     stallsOf(spec, replica, seed),
		thrash:     spec.Thrash,
		window:     window{Capacity: spec.Capacity},
		shapes:     spec.Faults.shapes(),
		scriptKey:  spec.ScriptKey,
		queue:      queue{discipline: spec.Discipline, seed: seed, replica: uint32(replica)},
	}
	if s.shed == 0 {
		s.shed = 503
	}
	for _, o := range spec.Outages {
		if among(o.Replicas, replica) {
			s.outages = append(s.outages, o)
		}
	}
	s.window.begin()
	_, key := spec.first(Fault.ofConnections)
	s.gated = key != ""
	s.addRamps(spec)
	s.tune(0)
	return s
}

// Mark sets the instant from which schedules count. A driver calls it where the
// data of a block begins, or before, with an instant to come: no schedule
// begins earlier than its mark. Without a mark they count from instant 0. What
// is under way keeps the due instants that it has. What a schedule draws is
// drawn anew after each mark: see MarkAs.
func (s *Server) Mark(now clock.Time) { s.MarkAs(now, s.marks+1) }

// MarkAs is Mark as number n: what schedules draw from then on is a function of
// the seed, the replica and n. Mark counts its numbers from 1; before the first
// the number is 0.
func (s *Server) MarkAs(now clock.Time, n uint32) {
	if s.window.line.n > 0 {
		s.decide()
	}
	s.base = now
	s.marks = n
	s.stalls.begin(now, s.marks)
	s.window.begin()
}

// Begin admits a request that arrives now. The step is the job itself when it
// starts at once. A request that finds no slot and a full queue, or that an
// outage fails, is a job that is due now; one that hangs is never due, and is
// over when its caller leaves.
func (s *Server) Begin(r Request, now clock.Time) (Job, Step) {
	if len(s.figures) > 0 {
		s.tune(now)
	}
	j := s.take()
	b := &s.jobs[j]
	b.tag, b.attempt, b.deadline = r.Tag, r.Attempt, r.Deadline
	b.fault, b.full, b.cut, b.expired, b.served = FaultNone, false, false, false, false
	spoiled := FaultNone
	if r.Conn == 0 && s.strikesConnections() { // each request has a connection of its own
		if f := s.accept(r.Call, r.Attempt, 1, uint64(r.Attempt), now); f != FaultNone && f != FaultNoAccept && f != FaultSlowRead {
			b.drawn, _ = s.draw(&r, now)
			return j, s.decline(j, Ending{Fault: f}, now)
		}
	}
	if len(s.outages) > 0 || s.ordered.to > s.ordered.from {
		e, out := s.outage(&r, now)
		switch {
		case out && e.Fault == FaultCloseOnReuse && r.Fresh:
		case out && e.Fault.Spoils():
			spoiled = e.Fault
		case out:
			b.drawn, _ = s.draw(&r, now)
			if s.window.Per > 0 {
				now = s.window.endOf(s.base, now)
			}
			return j, s.decline(j, e, now)
		}
	}
	if s.aware != DeadlineIgnore && r.Deadline <= now {
		b.drawn, _ = s.draw(&r, now)
		s.counts.Expired++
		return j, s.decline(j, Ending{Status: 504}, now)
	}
	if s.slots > 0 && s.busy >= s.slots && s.limit >= 0 && s.queue.n >= s.limit {
		b.drawn, b.full = 0, true
		return j, s.decline(j, Ending{Status: s.shed}, now)
	}
	var e Ending
	b.drawn, e = s.draw(&r, now)
	if spoiled != FaultNone {
		e = Ending{Fault: spoiled}
	}
	if e.Fault == FaultCloseOnReuse && r.Fresh {
		e = Ending{Status: 200}
	}
	if e.Fault.AtOnce() {
		return j, s.decline(j, e, now)
	}
	if e.Fault.Spoils() {
		e.Status = 200
	}
	b.status, b.fault = e.Status, e.Fault
	if s.window.Per > 0 {
		return j, s.admit(j, now)
	}
	if s.slots > 0 && (s.busy >= s.slots || s.queue.n > 0) {
		b.state, b.due = waiting, clock.Never
		s.queue.push(s.jobs, j)
		s.work.add(int64(b.drawn))
		return j, Step{}
	}
	return j, s.start(j, now)
}

// End answers a job that has started and is due, frees its slot and starts the
// job whose turn it is. now is the instant at which the slot becomes free:
// the due instant, if the driver's own lateness is not to slow the queue, or
// the instant of its turn.
func (s *Server) End(j Job, now clock.Time) (Answer, Step) {
	b := s.started(j)
	if b.state == pending {
		s.decide()
	}
	if len(s.figures) > 0 {
		s.tune(now)
	}
	a := Answer{Status: b.status, Fault: b.fault, Shed: b.full, Body: s.body, Drawn: b.drawn, Tag: b.tag}
	a.Worked = b.served || !b.expired && (b.state == running || b.state == stopping)
	if b.status == 429 || b.status == 503 {
		a.RetryAfter = s.retryAfter
	}
	if b.state != running && b.state != stopping {
		s.release(j)
		return a, Step{}
	}
	if b.cut {
		s.counts.Stopped++
	}
	s.leave(j)
	return a, s.next(now)
}

// Cancel reports that the caller of j has left. If dropped, the job is
// forgotten: its Job value is free for another request, and the driver drops
// the timer it may have for it; st is then the job that starts in its place.
// Otherwise the work goes on and the driver calls End as before.
//
// Where stopping work costs time, the step names j itself: the request is
// dropped, and its job holds its slot until the End at its new due instant,
// which answers with FaultGone.
func (s *Server) Cancel(j Job, now clock.Time) (dropped bool, st Step) {
	b := s.known(j)
	if len(s.figures) > 0 {
		s.tune(now)
	}
	switch {
	case b.state == waiting && s.cancel != CancelNone:
		s.queue.remove(s.jobs, j)
		s.work.sub(int64(b.drawn))
		s.release(j)
		return true, Step{}
	case b.state == pending && s.cancel != CancelNone:
		s.window.line.remove(s.jobs, j)
		s.busy--
		s.release(j)
		return true, Step{}
	case b.state == hung, b.state == aside && s.cancel == CancelRunning:
		s.release(j)
		return true, Step{}
	case b.state == running && s.cancel == CancelRunning:
		s.counts.Stopped++
		s.worked.sub(int64(s.left(b, now)))
		if s.cancelCost > 0 {
			return true, s.stop(j, now)
		}
		s.leave(j)
		return true, s.next(now)
	}
	return false, Step{}
}

// Withdraw drops j if it waits, whatever the spec says of callers that leave:
// the servers of copies of one call have agreed that another one is served.
// Afterwards its Job value is free for another request.
func (s *Server) Withdraw(j Job) (dropped bool) {
	b := s.known(j)
	if b.state != waiting {
		return false
	}
	s.queue.remove(s.jobs, j)
	s.work.sub(int64(b.drawn))
	s.release(j)
	return true
}

// Busy returns the number of requests that are worked on, or that are in the
// window under way.
func (s *Server) Busy() int { return s.busy }

// Waiting returns the number of requests that wait for a slot.
func (s *Server) Waiting() int { return s.queue.n }

// Queued reports whether j waits for a slot.
func (s *Server) Queued(j Job) bool { return s.known(j).state == waiting }

// Running reports whether j is worked on: it holds a slot, or needs none.
func (s *Server) Running(j Job) bool { return s.known(j).state == running }

// Shed reports whether j is known to have found the queue full or its window
// overloaded, which shows at the window's end.
func (s *Server) Shed(j Job) bool { return s.known(j).full }

// Hangs returns the fault by which j is never answered; FaultNone for others.
func (s *Server) Hangs(j Job) Fault {
	if b := s.known(j); b.state == hung {
		return b.fault
	}
	return FaultNone
}

// ScriptKey is that of the spec.
func (s *Server) ScriptKey() string { return s.scriptKey }

// ForgetKeys begins the script anew for every value of ScriptKey.
func (s *Server) ForgetKeys() { s.keys = keys{} }

// Shape returns what f looks like in this service.
func (s *Server) Shape(f Fault) *Shape { return &s.shapes[f] }

// Drawn returns the service time drawn for j, 0 if it was shed.
func (s *Server) Drawn(j Job) time.Duration { return s.known(j).drawn }

// Backlog returns the unfinished work: the time until running jobs are due, and
// the drawn service times of those that wait, added up over all slots. A request
// in a window counts for its part of the window, and the time of a pause for
// nothing. It takes the same time for any number of jobs.
func (s *Server) Backlog(now clock.Time) time.Duration {
	n := s.window.line.n
	jobs := s.busy - n
	if s.paused {
		jobs = 0 // their work is in the sum, not their due instants
	}
	work := s.work.less(jobs, now)
	if n > 0 {
		work = max(work, work+s.window.work(n)) // at most the largest
	}
	return work
}

// decline ends j, whose request came now, without work.
func (s *Server) decline(j Job, e Ending, now clock.Time) Step {
	b := &s.jobs[j]
	b.status, b.fault = e.Status, e.Fault
	switch e.Fault {
	case FaultHang, FaultAcceptSilence, FaultTLSStall:
		b.state, b.due = hung, clock.Never
		return Step{}
	case FaultNone: // a server that stands still does not answer
		now = s.stalls.after(now, 0)
	}
	b.state, b.due = aside, now
	return Step{Job: j, Tag: b.tag, Due: now}
}

// Counts returns what was counted so far.
func (s *Server) Counts() Counts {
	c := s.counts
	c.Worked = s.worked.less(0, 0)
	return c
}

// start lets j, which is in no queue, hold a slot from now on.
func (s *Server) start(j Job, now clock.Time) Step {
	s.busy++
	b := &s.jobs[j]
	work := scale(b.drawn, s.pace)
	if s.thrash.Factor > 0 && s.busy+s.queue.n > s.thrash.Above {
		work = nanoseconds(float64(work) / s.thrash.Factor)
	}
	late := s.aware != DeadlineIgnore && b.deadline <= now
	if late { // its turn comes, and there is nothing to do
		work, b.status, b.fault = 0, 504, FaultNone
		b.expired = true
		s.counts.Expired++
	}
	if b.state = running; s.paused {
		return s.hold(j, work)
	}
	b.due = s.stalls.after(now, work)
	if s.aware == DeadlineRunning && !late && b.deadline < b.due {
		b.cut, b.status, b.fault = true, 504, FaultNone
		b.due = s.stalls.after(b.deadline, 0)
	}
	s.work.add(int64(b.due))
	s.worked.add(int64(b.due.Sub(now)))
	return Step{Job: j, Tag: b.tag, Due: b.due}
}

// stop ends the work of j, which runs on for what stopping costs.
func (s *Server) stop(j Job, now clock.Time) Step {
	b := &s.jobs[j]
	s.work.sub(int64(b.due))
	b.state, b.cut, b.status, b.fault = stopping, false, 0, FaultGone
	if s.paused {
		return s.hold(j, s.cancelCost)
	}
	b.due = s.stalls.after(now, s.cancelCost)
	s.work.add(int64(b.due))
	s.worked.add(int64(b.due.Sub(now)))
	return Step{Job: j, Tag: b.tag, Due: b.due}
}

// leave takes j, which runs, from its slot and forgets it.
func (s *Server) leave(j Job) {
	s.work.sub(int64(s.jobs[j].due))
	s.busy--
	s.release(j)
}

// next starts the job whose turn it is, after a slot became free. There may be
// fewer slots by now than jobs that run: see Replace.
func (s *Server) next(now clock.Time) Step {
	if s.slots > 0 && s.busy >= s.slots {
		return Step{}
	}
	if j := s.queue.pop(s.jobs); j != 0 {
		s.work.sub(int64(s.jobs[j].drawn))
		return s.start(j, now)
	}
	return Step{}
}

func (s *Server) take() Job {
	s.open++
	if j := s.free; j != 0 {
		s.free = s.jobs[j].next
		return j
	}
	s.jobs = append(s.jobs, job{})
	return Job(len(s.jobs) - 1)
}

func (s *Server) release(j Job) {
	b := &s.jobs[j]
	b.state, b.next = unused, s.free
	s.free = j
	s.open--
}

// known returns the job, which the server must know: anything else is a bug of
// the driver, and going on would count a request twice.
func (s *Server) known(j Job) *job {
	if int(j) >= len(s.jobs) || s.jobs[j].state == unused {
		panic(fmt.Sprintf("service: job %d is not known", j))
	}
	return &s.jobs[j]
}

func (s *Server) started(j Job) *job {
	b := s.known(j)
	if b.state == waiting || b.state == hung {
		panic(fmt.Sprintf("service: job %d ended before it started", j))
	}
	return b
}
