package service

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"latencylab/clock"
)

func rampOf(t *testing.T, sp Spec) *Server {
	t.Helper()
	if err := sp.Validate(); err != nil {
		t.Fatal(err)
	}
	return New(&sp, 0, 1)
}

// at returns the value of the server's only figure.
func (s *Server) at(in time.Duration) float64 { return s.figures[0].value(in) }

func TestRampValues(t *testing.T) {
	const sec = time.Second
	sp := func(rs ...Ramp) Spec {
		return Spec{Slots: 8, Queue: 10, Time: Constant(ms), Slow: Slow{Share: .2, Factor: 2}, Ramps: rs}
	}
	for _, c := range []struct {
		about string
		spec  Spec
		at    []time.Duration
		want  []float64
	}{
		{"down from what the service says", sp(Ramp{Key: "slots", To: 2, At: 10 * sec, For: 6 * sec}),
			[]time.Duration{-sec, 0, 10*sec - 1, 10 * sec, 11*sec - 1, 11 * sec, 13 * sec, 16*sec - 1, 16 * sec, math.MaxInt64}, []float64{8, 8, 8, 8, 8, 7, 5, 3, 2, 2}},
		{"and up again from there", sp(Ramp{Key: "slots", To: 2}, Ramp{Key: "slots", To: 4, At: 10 * sec, For: 3 * sec}),
			[]time.Duration{-1, 0, 10 * sec, 11 * sec, 11*sec + 500*ms, 12 * sec, 13 * sec}, []float64{8, 2, 2, 2, 3, 3, 4}},
		{"in steps", sp(Ramp{Key: "queue", From: ptr(0.), To: 30, For: 3 * sec, Steps: 3}),
			[]time.Duration{-1, 0, sec - 1, sec, 2*sec - 1, 2 * sec, 3 * sec}, []float64{10, 0, 0, 10, 10, 20, 30}},
		{"a share", sp(Ramp{Key: "status.503", From: ptr(1.), To: 0, At: sec, For: 4 * sec}),
			[]time.Duration{0, sec, 2 * sec, 3 * sec, 5 * sec}, []float64{0, 1, .75, .5, 0}},
		{"one that the service has", sp(Ramp{Key: "slow.share", To: .6, For: 4 * sec}),
			[]time.Duration{-1, 0, sec, 4 * sec}, []float64{.2, .2, .3, .6}},
		{"a factor that comes again", sp(Ramp{Key: "factor", From: ptr(1.), To: 5, At: sec, For: 2 * sec, Every: 4 * sec}),
			[]time.Duration{0, sec, 2 * sec, 3 * sec, 5*sec - 1, 5 * sec, 6 * sec}, []float64{1, 1, 3, 5, 5, 1, 3}},
		{"two that take turns", sp(Ramp{Key: "factor", To: 5, Every: 4 * sec}, Ramp{Key: "factor", To: 1, At: sec, Every: 4 * sec}),
			[]time.Duration{-1, 0, sec, 4*sec - 1, 4 * sec, 5 * sec}, []float64{1, 5, 1, 1, 5, 1}},
		{"of one instant the last in the list", sp(Ramp{Key: "factor", To: 5}, Ramp{Key: "factor", To: 7}),
			[]time.Duration{0}, []float64{7}},
		{"a ramp that another one cuts short", sp(Ramp{Key: "factor", To: 11, For: 10 * sec}, Ramp{Key: "factor", From: ptr(2.), To: 2, At: 5 * sec}),
			[]time.Duration{4 * sec, 5 * sec, 11 * sec}, []float64{5, 2, 2}},
	} {
		s := rampOf(t, c.spec)
		for i, at := range c.at {
			if got := s.at(at); math.Abs(got-c.want[i]) > 1e-6 {
				t.Errorf("%s: %v at %v, want %v", c.about, got, at, c.want[i])
			}
		}
	}
}

// TestRampNext: a count does not change before the instant that next names.
func TestRampNext(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		sp := Spec{Slots: 1 + r.IntN(9), Queue: -1}
		var short []time.Duration // every, which Validate wants longer
		for range 1 + r.IntN(4) {
			x := Ramp{Key: "slots", To: float64(1 + r.IntN(12)), At: time.Duration(r.IntN(300)), For: time.Duration(r.IntN(100))}
			if r.IntN(2) == 0 && x.For > 0 {
				x.Steps = 1 + r.IntN(7)
			}
			short = append(short, time.Duration(r.IntN(2))*(x.For+time.Duration(1+r.IntN(100))))
			if r.IntN(2) == 0 {
				x.From = ptr(float64(1 + r.IntN(12)))
			}
			sp.Ramps = append(sp.Ramps, x)
		}
		f := &rampOf(t, sp).figures[0]
		for i := range f.rows {
			f.rows[i].every = short[i]
		}
		at := time.Duration(-10)
		for at < 1000 {
			next, ok := f.next(at)
			if !ok {
				next = 1000
			}
			if next <= at {
				t.Fatalf("seed %d: next after %d is %d", seed, at, next)
			}
			for i := at; i < min(next, 1000); i++ {
				if f.value(i) > f.most(at) {
					t.Fatalf("seed %d: %v at %d, but from %d on at most %v", seed, f.value(i), i, at, f.most(at))
				}
				if f.value(i) != f.value(at) {
					t.Fatalf("seed %d: %v at %d, %v at %d, but the next change is at %d\n%+v", seed, f.value(at), at, f.value(i), i, next, sp.Ramps)
				}
			}
			at = next
		}
	}
}

// TestRampSlots: a slot that a ramp adds takes a request that waits at that
// instant, and one that it takes away lets no request start.
func TestRampSlots(t *testing.T) {
	for _, c := range []struct {
		about string
		ramps []Ramp
		want  []int // when each of 6 requests that come at 0 and take 10 ms ends, in ms
	}{
		{"none", nil, []int{10, 20, 30, 40, 50, 60}},
		{"one more at 4 ms", []Ramp{{Key: "slots", To: 2, At: 4 * ms}}, []int{10, 14, 20, 24, 30, 34}},
		{"five more in 5 ms", []Ramp{{Key: "slots", To: 6, For: 5 * ms}}, []int{10, 11, 12, 13, 14, 15}},
		{"in two steps", []Ramp{{Key: "slots", To: 5, For: 4 * ms, Steps: 2}}, []int{10, 12, 12, 14, 14, 20}},
		{"three, and from 5 ms on one", []Ramp{{Key: "slots", To: 3}, {Key: "slots", To: 1, At: 5 * ms}}, []int{10, 10, 10, 20, 30, 40}},
		{"slower from 15 ms on", []Ramp{{Key: "factor", To: 3, At: 15 * ms}}, []int{10, 20, 50, 80, 110, 140}},
	} {
		s := rampOf(t, Spec{Slots: 1, Queue: -1, Time: Constant(10 * ms), Ramps: c.ramps})
		p := newPlayer(s)
		for tag := range uint32(6) {
			p.begin(tag+1, clock.Never)
			p.to(0)
		}
		p.to(clock.Time(time.Second))
		var want []string
		for i, at := range c.want {
			want = append(want, fmt.Sprintf("%9d %4d 200 none shed false", at*int(ms), i+1))
		}
		if !slices.Equal(p.notes, want) {
			t.Errorf("%s: ended\n%s\nwant\n%s", c.about, strings.Join(p.notes, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestRampShares: of the requests that come while a share goes from 0 to 1, the
// part that it names ends so, in each tenth of the time.
func TestRampShares(t *testing.T) {
	const n = 10_000 // in each tenth
	for _, c := range []struct {
		spec Spec
		hit  func(a Answer) bool
	}{
		{Spec{Ramps: []Ramp{{Key: "status.503", To: 1, For: time.Second}}}, func(a Answer) bool { return a.Status == 503 }},
		{Spec{Status: []StatusShare{{500, 0}}, Ramps: []Ramp{{Key: "status.500", To: 1, For: time.Second}}}, func(a Answer) bool { return a.Status == 500 }},
		{Spec{Ramps: []Ramp{{Key: "fault.reset", To: 1, For: time.Second}}}, func(a Answer) bool { return a.Fault == FaultReset }},
		{Spec{Slow: Slow{Time: Constant(ms)}, Ramps: []Ramp{{Key: "slow.share", To: 1, For: time.Second}}}, func(a Answer) bool { return a.Drawn == ms }},
		{Spec{Slow: Slow{Time: Constant(ms), By: SlowByConnection}, Ramps: []Ramp{{Key: "slow.share", To: 1, For: time.Second}}}, func(a Answer) bool { return a.Drawn == ms }},
	} {
		s := rampOf(t, c.spec)
		s.Mark(0)
		for tenth := range 10 {
			hits := 0
			for i := range n {
				call := uint64(tenth*n + i)
				now := clock.Time(tenth*int(100*ms) + i*int(100*ms)/n)
				j, st := s.Begin(Request{Call: call, Conn: call + 1, Attempt: 1, Deadline: clock.Never}, now)
				a, _ := s.End(j, st.Due)
				hits += b2i(c.hit(a))
			}
			want := (float64(tenth) + 0.5) / 10
			if sd := math.Sqrt(want * (1 - want) * n); math.Abs(float64(hits)-want*n) > 5*sd {
				t.Errorf("%s, tenth %d: %d of %d, want %.0f", c.spec.Ramps[0].Key, tenth, hits, n, want*n)
			}
		}
	}
}

// TestRampWindow: a window serves what its capacity is when it begins.
func TestRampWindow(t *testing.T) {
	s := rampOf(t, Spec{Capacity: Capacity{Requests: 4, Per: 10 * ms}, Ramps: []Ramp{{Key: "capacity.requests", To: 1, At: 10 * ms, For: 30 * ms, Steps: 3}}})
	p := newPlayer(s)
	tag := uint32(0)
	for range 6 {
		for range 5 {
			tag++
			p.begin(tag, clock.Never)
		}
		p.to(p.now + clock.Time(10*ms))
	}
	var served [6]int
	for _, note := range p.notes {
		var at, tag, status int
		if _, err := fmt.Sscan(note, &at, &tag, &status); err != nil {
			t.Fatal(err)
		}
		if status == 200 {
			served[(tag-1)/5]++
		}
	}
	if want := [6]int{4, 4, 3, 2, 1, 1}; served != want {
		t.Errorf("served %v, want %v", served, want)
	}
}

func TestRampValidate(t *testing.T) {
	slots := Spec{Slots: 2, Queue: -1}
	for _, c := range []struct {
		base Spec
		ramp Ramp
		want string
	}{
		{slots, Ramp{Key: "slotss", To: 1}, `ramp[0].key = "slotss", want factor, slots,`},
		{slots, Ramp{Key: "status.99", To: 1}, `ramp[0].key = "status.99"`},
		{slots, Ramp{Key: "status.+503", To: 1}, `ramp[0].key = "status.+503"`},
		{slots, Ramp{Key: "fault.gone", To: 1}, `ramp[0].key = "fault.gone"`},
		{Spec{}, Ramp{Key: "slots", To: 1}, "ramp[0].key = slots needs slots"},
		{slots, Ramp{Key: "queue", To: 1}, "ramp[0].key = queue needs slots and a queue that is not unlimited"},
		{slots, Ramp{Key: "capacity.requests", To: 1}, "needs capacity"},
		{Spec{Capacity: Capacity{1, 1}}, Ramp{Key: "factor", To: 1}, "factor contradicts capacity"},
		{slots, Ramp{Key: "slow.share", To: 1}, "slow.share needs slow"},
		{Spec{Script: []Ending{{Status: 200}}}, Ramp{Key: "status.503", To: 1}, "contradicts script"},
		{slots, Ramp{Key: "slots", To: 0}, "ramp[0].to = 0, want a count of 1 or more"},
		{slots, Ramp{Key: "slots", To: 1.5}, "ramp[0].to = 1.5"},
		{slots, Ramp{Key: "slots", To: 1, From: ptr(math.NaN())}, "ramp[0].from = NaN"},
		{slots, Ramp{Key: "fault.reset", To: 1.5}, "ramp[0].to = 1.5, want 0 to 1"},
		{slots, Ramp{Key: "factor"}, "ramp[0].to = 0, want 0.000001"},
		{slots, Ramp{Key: "slots", To: 1, At: -1}, "ramp[0].at"},
		{slots, Ramp{Key: "slots", To: 1, For: -1}, "ramp[0].for"},
		{slots, Ramp{Key: "slots", To: 1, Steps: 3}, "ramp[0].steps = 3, but ramp[0].for is not given"},
		{slots, Ramp{Key: "slots", To: 1, Every: 1}, "ramp[0].every = 1ns, want 1ms or more"},
		{slots, Ramp{Key: "slots", To: 1, Every: ms, For: 2 * ms}, "ramp[0].for = 2ms is above ramp[0].every = 1ms"},
		{slots, Ramp{Key: "slots", To: 1, Replicas: []int{1}}, "ramp[0].replicas has 1"},
	} {
		c.base.Ramps = []Ramp{c.ramp}
		if err := c.base.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.ramp, err, c.want)
		}
	}
}
