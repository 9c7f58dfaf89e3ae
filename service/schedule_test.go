package service

import (
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

// TestStallsAgainstCounting follows work nanosecond by nanosecond through short
// stalls, and wants the instant that the server computes.
func TestStallsAgainstCounting(t *testing.T) {
	for _, c := range []struct {
		about  string
		stalls []Stall
	}{
		{"one only", []Stall{{At: 20, For: Constant(7)}}},
		{"one at the mark", []Stall{{For: Constant(7)}}},
		{"a row of equal ones", []Stall{{At: 5, Every: 10, For: Constant(4)}}},
		{"a row that leaves 1 ns", []Stall{{At: 3, Every: 10, For: Constant(9)}}},
		{"lengths drawn, some longer than the period", []Stall{{Every: 10, For: mustParse(t, "exponential(6ns)")}}},
		{"lengths of 0 among them", []Stall{{Every: 10, For: mustParse(t, "mixture(50%:0s,50%:9ns)")}}},
		{"two rows that overlap", []Stall{{At: 5, Every: 10, For: Constant(4)}, {Every: 7, For: mustParse(t, "uniform(0ns,5ns)")}}},
		{"a row by itself for each replica", []Stall{{Every: 16, For: mustParse(t, "uniform(1ns,8ns)"), Apart: true}, {At: 30, For: Constant(100)}}},
	} {
		s := New(&Spec{Stalls: c.stalls, Replicas: 4}, 2, 9)
		s.Mark(50)
		stopped := func(at clock.Time) bool {
			for i := range s.stalls.series {
				x := &s.stalls.series[i]
				if k, began, ok := x.number(at); ok && at < began.Add(s.stalls.length(x, k)) {
					return true
				}
			}
			return false
		}
		for now := clock.Time(30); now < 200; now++ {
			at, done := now, time.Duration(0)
			for work := range time.Duration(40) {
				for done < work { // what is done stays done when a stall begins
					if !stopped(at) {
						done++
					}
					at++
				}
				want := at
				for work == 0 && stopped(want) { // no work, but an answer all the same
					want++
				}
				if got := s.stalls.after(now, work); got != want {
					t.Fatalf("%s: %d ns of work from %d on is done at %d, want %d", c.about, work, now, got, want)
				}
			}
		}
	}
}

// TestStallsFarAhead: rows of stalls cost no time in proportion to the work, and
// nothing overflows.
func TestStallsFarAhead(t *testing.T) {
	for _, c := range []struct {
		about string
		stall Stall
		work  time.Duration
		want  clock.Time
	}{
		{"a year, half of every millisecond", Stall{Every: time.Millisecond, For: Constant(time.Millisecond / 2)}, 8760 * time.Hour, clock.Time(2 * 8760 * time.Hour)},
		{"longer than the clock", Stall{Every: time.Hour, For: Constant(time.Hour - 1)}, 8760 * time.Hour, clock.Never},
		{"work without end", Stall{Every: time.Hour, For: Constant(time.Minute)}, 1<<63 - 1, clock.Never},
		{"a stall without end", Stall{For: Constant(1<<63 - 1)}, 1, clock.Never},
		{"more stalls of drawn length than are followed", Stall{Every: 10, For: mustParse(t, "uniform(1ns,1ns)")}, 1_000_000, 1_010_000},
	} {
		s := New(&Spec{Stalls: []Stall{c.stall}}, 0, 1)
		if got := s.stalls.after(0, c.work); got != c.want {
			t.Errorf("%s: done at %d, want %d", c.about, got, c.want)
		}
	}
}

// TestStallsTogetherAndApart: all replicas stop at once, or each by itself; the
// n-th mark draws what the n-th mark of another server draws.
func TestStallsTogetherAndApart(t *testing.T) {
	spec := &Spec{Replicas: 50, Stalls: []Stall{{Every: time.Second, For: mustParse(t, "uniform(100ms,300ms)")}}}
	ends := func(replica int, marks ...clock.Time) clock.Time {
		s := New(spec, replica, 1)
		for _, m := range marks {
			s.Mark(m)
		}
		at := s.base.Add(10 * time.Second)
		return s.stalls.after(at, 0) - at
	}
	for r := range 50 {
		if got := ends(r, 5); got != ends(0, 7) {
			t.Errorf("replica %d goes on after %d, replica 0 after %d", r, got, ends(0, 7))
		}
	}
	if ends(0, 5) == ends(0, 5, 6) {
		t.Error("the second mark draws what the first did")
	}
	spec.Stalls[0].Apart = true
	stopped := 0
	for r := range 50 {
		if ends(r, 5) > 0 {
			stopped++
		}
	}
	if stopped < 2 || stopped > 25 {
		t.Errorf("%d of 50 replicas stand still after 10 s, want about 10", stopped)
	}
}

// TestOutages: what a request that arrives at an instant ends with.
func TestOutages(t *testing.T) {
	spec := &Spec{Replicas: 3, Time: Constant(10 * time.Millisecond), Outages: []Outage{
		{At: 10 * time.Second, For: 5 * time.Second, Every: 60 * time.Second, Ending: Ending{Status: 503}, Replicas: []int{0, 2}},
		{At: 12 * time.Second, For: time.Second, Ending: Ending{Fault: FaultRefuse}},
		{At: 40 * time.Second, For: time.Second, Ending: Ending{Fault: FaultHang}},
	}}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	const mark = clock.Time(100 * time.Second)
	for _, c := range []struct {
		about   string
		replica int
		at      time.Duration // from the mark
		want    Ending
	}{
		{"before the mark", 0, -time.Second, Ending{Status: 200}},
		{"before the first", 0, 10*time.Second - 1, Ending{Status: 200}},
		{"just when it begins", 0, 10 * time.Second, Ending{Status: 503}},
		{"to its last nanosecond", 0, 15*time.Second - 1, Ending{Status: 503}},
		{"just when it ends", 0, 15 * time.Second, Ending{Status: 200}},
		{"in the next of the row", 2, 71 * time.Second, Ending{Status: 503}},
		{"a replica that it does not strike", 1, 10 * time.Second, Ending{Status: 200}},
		{"the first of two counts", 0, 12 * time.Second, Ending{Status: 503}},
		{"the second, where the first does not strike", 1, 12 * time.Second, Ending{Fault: FaultRefuse}},
		{"one only, and no row", 1, 72 * time.Second, Ending{Status: 200}},
		{"no answer at all", 1, 40 * time.Second, Ending{Fault: FaultHang}},
	} {
		s := New(spec, c.replica, 1)
		s.Mark(mark)
		now := mark.Add(c.at)
		j, st := s.Begin(first(1, 1), now)
		if s.Drawn(j) != 10*time.Millisecond {
			t.Errorf("%s: drawn %v, want what is drawn without an outage", c.about, s.Drawn(j))
		}
		if c.want.Fault == FaultHang {
			if st != (Step{}) || s.Queued(j) {
				t.Errorf("%s: %+v, want no step and no place in the queue", c.about, st)
			}
			if dropped, _ := s.Cancel(j, now); !dropped {
				t.Errorf("%s: the job outlives its caller", c.about)
			}
			continue
		}
		due := now
		if c.want.Status == 200 {
			due = now.Add(10 * time.Millisecond)
		}
		if st.Due != due {
			t.Errorf("%s: due %v after the mark, want %v", c.about, st.Due.Sub(mark), due.Sub(mark))
		}
		if a, _ := s.End(j, st.Due); (Ending{a.Status, a.Fault}) != c.want || s.Busy() != 0 {
			t.Errorf("%s: %+v, busy %d, want %v and an idle server", c.about, a, s.Busy(), c.want)
		}
	}
}

// TestOutageLeavesWorkAlone: what runs and waits when an outage begins goes on.
func TestOutageLeavesWorkAlone(t *testing.T) {
	s := New(&Spec{Time: Constant(10), Slots: 1, Queue: -1, Outages: []Outage{{At: 5, For: 100, Ending: Ending{Status: 503}}}}, 0, 1)
	a, _ := s.Begin(first(1, 1), 0)
	s.Begin(first(2, 2), 4)
	c, down := s.Begin(first(3, 3), 5)
	if down.Due != 5 || s.Waiting() != 1 {
		t.Fatalf("in the outage: %+v with %d waiting, want an answer at once beside the one that waits", down, s.Waiting())
	}
	if ans, st := s.End(c, 5); ans.Status != 503 || st.Job != 0 {
		t.Fatalf("in the outage: %+v and %+v, want 503 and no start", ans, st)
	}
	if _, st := s.End(a, 10); st.Tag != 2 || st.Due != 20 {
		t.Fatalf("after the work: %+v, want the start of 2", st)
	}
}

// FuzzStalls: work ends no earlier than without stalls, and more work no
// earlier than less.
func FuzzStalls(f *testing.F) {
	f.Add(uint64(1), int64(5), int64(100), int64(7))
	f.Fuzz(func(t *testing.T, seed uint64, now, work, more int64) {
		spec := &Spec{}
		for i := range uint32(draw.Bits(seed, draw.Phase, 0, 0, 0) % 4) {
			pick := func(of uint64, n uint32) time.Duration {
				return time.Duration(draw.Bits(seed, draw.Phase, 1, i, n) % of)
			}
			x := Stall{At: pick(1e10, 0), Every: pick(2, 1) * (1 + pick(1e10, 2)), For: Constant(1 + pick(1e9, 3))}
			if pick(2, 4) == 1 {
				x.For = mustParse(t, "exponential(1ms)")
			}
			spec.Stalls = append(spec.Stalls, x)
		}
		if spec.Validate() != nil || work < 0 || more < 0 || now < 0 {
			return
		}
		s := New(spec, 0, seed)
		at := s.stalls.after(clock.Time(now), time.Duration(work))
		if at < clock.Time(now).Add(time.Duration(work)) {
			t.Fatalf("%+v: %d ns from %d on are done at %d", spec.Stalls, work, now, at)
		}
		sum := time.Duration(work) + time.Duration(more)
		if later := s.stalls.after(clock.Time(now), sum); sum >= 0 && later < at {
			t.Fatalf("%+v: from %d on %d ns are done at %d, and %d ns at %d", spec.Stalls, now, work, at, sum, later)
		}
	})
}
