package service

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"latencylab/clock"
)

// anySpec draws a spec of two replicas, with windows or slots.
func anySpec(t *testing.T, rnd *rand.Rand) *Spec {
	sp := &Spec{
		Time: mustParse(t, []string{"uniform(0ms,6ms)", "2ms", "exponential(3ms)"}[rnd.IntN(3)]), Discipline: Discipline(rnd.IntN(4)),
		Cancel: Cancel(rnd.IntN(3)), Deadline: Deadline(rnd.IntN(3)), Faults: Faults{FaultRefuse: {Share: .1}, FaultHang: {Share: .1}, FaultReset: {Share: .1}}, Replicas: 2, Queue: -1,
	}
	switch rnd.IntN(3) {
	case 0:
		sp.Slots, sp.Queue = 1+rnd.IntN(3), rnd.IntN(8)-1
		if sp.Cancel == CancelRunning {
			sp.CancelCost = time.Duration(rnd.IntN(2)) * ms
		}
		if rnd.IntN(2) == 0 && sp.Queue < 0 {
			sp.Thrash = Thrash{Above: 3, Factor: .5}
		}
	case 1:
		sp.Time, sp.Capacity = Dist{}, Capacity{Requests: 2, Per: time.Duration(2+rnd.IntN(2)) * ms}
		sp.Deadline = Deadline(rnd.IntN(2))
	}
	if sp.Queue == 0 {
		sp.Discipline = FIFO
	}
	if rnd.IntN(3) == 0 {
		sp.Stalls = []Stall{{At: 3 * ms, Every: 11 * ms, For: Constant(4 * ms)}}
	}
	if rnd.IntN(3) == 0 {
		sp.Outages = []Outage{{At: 5 * ms, Every: 20 * ms, For: 3 * ms, Ending: Ending{Status: 503}}}
	}
	if sp.Capacity.Per == 0 && rnd.IntN(3) == 0 {
		sp.Each = []Each{{Replica: 0, Factor: 2}}
	}
	if err := sp.Validate(); err != nil {
		t.Fatal(err)
	}
	return sp
}

// TestReplaceLosesNothing: whatever is replaced by whatever, between pauses,
// pulses, marks, departures and deaths, every request ends once, and nothing is
// left at the end.
func TestReplaceLosesNothing(t *testing.T) {
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		spec := anySpec(t, rnd)
		p := newPlayer(New(spec, rnd.IntN(2), seed))
		ended := map[uint32]int{}
		p.onOver = func(tag uint32) { ended[tag]++ }
		tag := uint32(0)
		for range 400 {
			until := p.now.Add(time.Duration(rnd.IntN(1_000_000)))
			if p.s.Until() <= until {
				p.to(p.s.Until())
				p.s.Resume(p.now)
				p.reset()
			}
			p.to(until)
			switch n := rnd.IntN(40); {
			case n < 2:
				spec = anySpec(t, rnd)
				for _, st := range p.s.Replace(spec, p.now) {
					p.set(st)
				}
				if p.s.Waiting() > 0 && (spec.Slots == 0 || p.s.Busy() < spec.Slots) {
					t.Fatalf("seed %d: %d wait with %d of %d slots busy after a replacement", seed, p.s.Waiting(), p.s.Busy(), spec.Slots)
				}
			case n == 2:
				p.s.Freeze(p.now, p.now.Add(time.Duration(rnd.IntN(int(9*ms)))))
				p.reset()
			case n == 3:
				p.s.Pause(p.now, clock.Never)
				p.reset()
			case n == 4:
				p.s.Resume(p.now)
				p.reset()
			case n == 5:
				p.s.Mark(p.now)
			case n == 6:
				p.s.Outage(p.now, p.now.Add(5*ms), Ending{Status: 500})
			case n == 7 && rnd.IntN(4) == 0:
				for tag := range p.s.Timers() {
					if _, ok := p.job[tag]; !ok && p.gone[tag] == 0 {
						t.Fatalf("seed %d: a job of %d, which has ended", seed, tag)
					}
					if p.gone[tag] == 0 {
						p.over(tag, "killed")
					}
				}
				p.s.Clear(p.now)
				clear(p.due)
				clear(p.gone)
			case n < 16:
				p.cancel(uint32(rnd.IntN(int(tag) + 1)))
			default:
				deadline := clock.Never
				if rnd.IntN(2) == 0 {
					deadline = p.now.Add(time.Duration(rnd.IntN(int(20 * ms))))
				}
				p.begin(tag, deadline)
				tag++
			}
			if n := len(p.job) + len(p.gone); p.s.Jobs() != n {
				t.Fatalf("seed %d: %d jobs, want %d", seed, p.s.Jobs(), n)
			}
		}
		p.s.Resume(p.now)
		p.reset()
		p.to(clock.Time(time.Hour))
		for tag, j := range p.job { // order does not show: what hangs ends alone
			if p.s.Queued(j) || p.s.Running(j) {
				t.Fatalf("seed %d: request %d never ends", seed, tag)
			}
			p.cancel(tag)
		}
		for i := range tag {
			if ended[i] != 1 {
				t.Fatalf("seed %d: request %d ended %d times", seed, i, ended[i])
			}
		}
		if p.s.Jobs() != 0 || p.s.Busy() != 0 || p.s.Waiting() != 0 || p.s.Backlog(p.now) != 0 {
			t.Fatalf("seed %d: %d jobs, %d busy, %d waiting, %v of work at the end", seed, p.s.Jobs(), p.s.Busy(), p.s.Waiting(), p.s.Backlog(p.now))
		}
	}
}

// TestReplaceByItself: a replacement by an equal spec changes no request's fate.
func TestReplaceByItself(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 12))
		spec := anySpec(t, rnd)
		if spec.Capacity.Per > 0 {
			continue
		}
		a, b := newPlayer(New(spec, 1, seed)), newPlayer(New(spec, 1, seed))
		now := clock.Time(0)
		for tag := range uint32(150) {
			now += clock.Time(rnd.IntN(1_500_000))
			a.to(now)
			b.to(now)
			if rnd.IntN(4) == 0 {
				same := *spec
				if st := b.s.Replace(&same, now); len(st) > 0 {
					t.Fatalf("seed %d: %+v start", seed, st)
				}
			}
			who := uint32(rnd.IntN(150))
			if rnd.IntN(3) == 0 {
				a.cancel(who)
				b.cancel(who)
			}
			a.begin(tag, now.Add(9*ms))
			b.begin(tag, now.Add(9*ms))
			if a.s.Backlog(now) != b.s.Backlog(now) || a.s.Counts() != b.s.Counts() {
				t.Fatalf("seed %d: backlog %v and %v", seed, a.s.Backlog(now), b.s.Backlog(now))
			}
		}
		a.to(clock.Time(time.Hour))
		b.to(clock.Time(time.Hour))
		if !slices.Equal(a.notes, b.notes) {
			t.Fatalf("seed %d (%+v):\n%q\n%q", seed, spec, a.notes, b.notes)
		}
	}
}

// TestReplaceBySlots: by hand, what starts when slots are added and taken away,
// and what the new spec decides.
func TestReplaceBySlots(t *testing.T) {
	at := func(n time.Duration) clock.Time { return clock.Time(n * ms) }
	p := newPlayer(New(&Spec{Time: Constant(10 * ms), Slots: 1, Queue: -1}, 0, 1))
	for tag := range uint32(4) {
		p.begin(tag, clock.Never)
	}
	p.to(at(2))
	more := &Spec{Time: Constant(time.Hour), Slots: 3, Queue: 0, Shed: 429}
	for _, st := range p.s.Replace(more, p.now) {
		p.set(st)
	}
	p.begin(4, clock.Never) // shed: one waits still, and none may
	less := &Spec{Time: Constant(ms), Slots: 1, Queue: -1}
	p.to(at(3))
	if st := p.s.Replace(less, p.now); len(st) > 0 {
		t.Errorf("%+v start with fewer slots", st)
	}
	p.begin(5, clock.Never)
	p.to(clock.Time(time.Minute))
	want := []string{
		"  2000000    4 429 none shed true", // by the second spec
		" 10000000    0 200 none shed false", " 12000000    1 200 none shed false", " 12000000    2 200 none shed false",
		" 22000000    3 200 none shed false", // drawn by the first, begun when one slot was free again
		" 23000000    5 200 none shed false", // drawn by the third
	}
	if !slices.Equal(p.notes, want) {
		t.Errorf("ended\n%q, want\n%q", p.notes, want)
	}
}
