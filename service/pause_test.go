package service

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"latencylab/clock"
)

const ms = time.Millisecond

// player drives a server with timers as a driver has them, and notes how each
// request ends.
type player struct {
	s     *Server
	now   clock.Time
	job   map[uint32]Job
	due   map[uint32]clock.Time
	gone  map[uint32]Job // left, and their jobs hold their slots on
	notes []string
	// onOver, if set, is told of each request that has ended.
	onOver func(tag uint32)
}

func newPlayer(s *Server) *player {
	return &player{s: s, job: map[uint32]Job{}, due: map[uint32]clock.Time{}, gone: map[uint32]Job{}}
}

func (p *player) set(st Step) {
	if st.Job != 0 {
		p.due[st.Tag] = st.Due
	}
}

// reset takes all timers from the server.
func (p *player) reset() {
	for tag, due := range p.s.Timers() {
		p.due[tag] = due
	}
}

func (p *player) begin(tag uint32, deadline clock.Time) {
	r := Request{Tag: tag, Call: uint64(tag), Attempt: 1 + tag%2, Deadline: deadline}
	j, st := p.s.Begin(r, p.now)
	p.job[tag], p.due[tag] = j, clock.Never
	p.set(st)
}

// to ends what is due until t.
func (p *player) to(t clock.Time) {
	for {
		tag, at := uint32(0), clock.Never
		for g, d := range p.due {
			if d < at || d == at && g < tag {
				tag, at = g, d
			}
		}
		if wake := p.s.Wake(); wake <= min(t, at-1) {
			p.now = max(p.now, wake)
			p.set(p.s.Advance(p.now))
			continue
		}
		if at > t || at == clock.Never {
			p.now = t
			return
		}
		p.now = at
		j, gone := p.gone[tag]
		if !gone {
			j = p.job[tag]
		}
		a, st := p.s.End(j, at)
		if gone {
			delete(p.gone, tag)
			delete(p.due, tag)
			p.set(st)
			continue
		}
		p.over(tag, fmt.Sprintf("%d %v shed %v", a.Status, a.Fault, a.Shed))
		p.set(st)
	}
}

func (p *player) over(tag uint32, how string) {
	delete(p.job, tag)
	delete(p.due, tag)
	p.notes = append(p.notes, fmt.Sprintf("%9d %4d %s", p.now, tag, how))
	if p.onOver != nil {
		p.onOver(tag)
	}
}

func (p *player) cancel(tag uint32) {
	j, ok := p.job[tag]
	if !ok {
		return
	}
	dropped, st := p.s.Cancel(j, p.now)
	if dropped {
		p.over(tag, "dropped")
	}
	if dropped && st.Job == j {
		p.gone[tag] = j
	}
	p.set(st)
}

// TestPauseIsAStall: a pause at run time does to every request what a stall in
// the spec does that is known from the start. So a pulse on sockets is the
// pulse of the simulator.
func TestPauseIsAStall(t *testing.T) {
	const from, length = 20 * ms, 35 * ms
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		spec := Spec{
			Time: mustParse(t, "uniform(0ms,6ms)"), Slots: rnd.IntN(4), Queue: rnd.IntN(8) - 1, Discipline: Discipline(rnd.IntN(4)),
			Cancel: Cancel(rnd.IntN(3)), Deadline: Deadline(rnd.IntN(3)), Faults: Faults{FaultRefuse: {Share: .1}, FaultHang: {Share: .1}, FaultReset: {Share: .1}},
		}
		if spec.Slots == 0 {
			spec.Queue = 0
		}
		if spec.Slots > 0 && spec.Cancel == CancelRunning && rnd.IntN(2) == 0 {
			spec.CancelCost = 2 * ms
		}
		if rnd.IntN(2) == 0 {
			spec.Stalls = []Stall{{At: 3 * ms, Every: 11 * ms, For: Constant(4 * ms)}}
		}
		with := spec
		with.Stalls = append(slices.Clone(spec.Stalls), Stall{At: from, For: Constant(length)})
		a, b := newPlayer(New(&with, 0, seed)), newPlayer(New(&spec, 0, seed))
		both := func(f func(*player)) { f(a); f(b) }
		paused := false
		now := clock.Time(0)
		for tag := uint32(0); tag < 120; {
			now += clock.Time(rnd.IntN(1_200_000))
			if !paused && now >= clock.Time(from) {
				paused = true
				both(func(p *player) { p.to(clock.Time(from)) })
				b.s.Pause(clock.Time(from), clock.Time(from+length))
				b.reset()
			}
			if b.s.Until() <= now {
				both(func(p *player) { p.to(b.s.Until()) })
				b.s.Resume(b.s.Until())
				b.reset()
			}
			both(func(p *player) { p.to(now) })
			if who := uint32(rnd.IntN(120)); rnd.IntN(3) == 0 {
				both(func(p *player) { p.cancel(who) })
				continue
			}
			deadline := clock.Never
			if rnd.IntN(2) == 0 {
				deadline = now.Add(time.Duration(rnd.IntN(int(20 * ms))))
			}
			both(func(p *player) { p.begin(tag, deadline) })
			if now > clock.Time(from+length) && !b.s.Paused() && a.s.Backlog(now) != b.s.Backlog(now) {
				t.Fatalf("seed %d: backlog %v at %d, want %v", seed, b.s.Backlog(now), now, a.s.Backlog(now))
			}
			tag++
		}
		both(func(p *player) { p.to(clock.Time(time.Hour)) })
		slices.Sort(a.notes) // those of one instant may end in any order
		slices.Sort(b.notes)
		if !slices.Equal(a.notes, b.notes) {
			for i := range a.notes {
				if i >= len(b.notes) || a.notes[i] != b.notes[i] {
					t.Fatalf("seed %d: note %d: stall %q, pause %q", seed, i, a.notes[i], b.notes[min(i, len(b.notes)-1)])
				}
			}
			t.Fatalf("seed %d: %d notes with a stall, %d with a pause", seed, len(a.notes), len(b.notes))
		}
		for tag := range a.job { // what hangs stays
			if _, ok := b.job[tag]; !ok {
				t.Fatalf("seed %d: request %d is open with a stall only", seed, tag)
			}
		}
		if a.s.Jobs() != len(a.job) || b.s.Jobs() != len(b.job) || len(a.gone)+len(b.gone) > 0 {
			t.Fatalf("seed %d: %d and %d jobs known, want %d and %d", seed, a.s.Jobs(), b.s.Jobs(), len(a.job), len(b.job))
		}
	}
}

// TestPause: by hand, with the counts.
func TestPause(t *testing.T) {
	s := New(&Spec{Time: Constant(10 * ms), Slots: 1, Queue: -1}, 0, 1)
	p := newPlayer(s)
	p.begin(1, clock.Never)
	p.begin(2, clock.Never)
	p.to(clock.Time(4 * ms))
	s.Pause(p.now, clock.Never)
	p.reset()
	if s.Until() != clock.Never || !s.Paused() {
		t.Error("a pause without an end")
	}
	p.to(clock.Time(50 * ms))
	if got := s.Backlog(p.now); got != 16*ms || len(p.notes) != 0 {
		t.Errorf("backlog %v, ended %v; want 16ms and nothing", got, p.notes)
	}
	s.Pause(p.now, clock.Time(60*ms)) // an end for it
	p.to(s.Until())
	s.Resume(p.now)
	s.Resume(p.now) // nothing
	p.reset()
	p.to(clock.Time(time.Second))
	want := []string{" 66000000    1 200 none shed false", " 76000000    2 200 none shed false"}
	if !slices.Equal(p.notes, want) {
		t.Errorf("ended %q, want %q", p.notes, want)
	}
	if c := s.Counts(); c.Worked != 20*ms {
		t.Errorf("worked %v, want 20ms without the pause", c.Worked)
	}
}

// TestFreezeOfWindows: where windows have a capacity a pulse leaves none.
func TestFreezeOfWindows(t *testing.T) {
	s := New(&Spec{Capacity: Capacity{Requests: 1, Per: 10 * ms}}, 0, 1)
	p := newPlayer(s)
	s.Freeze(0, clock.Time(10*ms))
	p.reset()
	p.begin(1, clock.Never)
	p.to(clock.Time(10 * ms))
	p.begin(2, clock.Never)
	p.to(clock.Time(30 * ms))
	want := []string{" 10000000    1 503 none shed false", " 20000000    2 200 none shed false"}
	if !slices.Equal(p.notes, want) || s.Paused() {
		t.Errorf("ended %q, paused %v; want %q", p.notes, s.Paused(), want)
	}
}

func TestOutageAtRunTime(t *testing.T) {
	s := New(&Spec{Time: Constant(ms)}, 0, 1)
	p := newPlayer(s)
	s.Outage(0, clock.Time(10*ms), Ending{Fault: FaultRefuse})
	p.begin(1, clock.Never)
	s.Outage(0, clock.Time(5*ms), Ending{Status: 503}) // in its place
	p.begin(2, clock.Never)
	p.to(clock.Time(5 * ms))
	p.begin(3, clock.Never)
	p.to(clock.Time(time.Second))
	want := []string{"        0    1 0 refuse shed false", "        0    2 503 none shed false", "  6000000    3 200 none shed false"}
	if !slices.Equal(p.notes, want) {
		t.Errorf("ended %q, want %q", p.notes, want)
	}
}
