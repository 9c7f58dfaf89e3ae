package service

import (
	"math"
	"testing"
	"time"

	"latencylab/clock"
)

// corr returns the correlation of the service times of attempts 1 and 2, over
// many calls and at different replicas.
func corr(t *testing.T, spec *Spec) float64 {
	const n = 20_000
	var sx, sy, sxx, syy, sxy float64
	for call := range uint64(n) {
		a, _ := spec.Draw(1, 0, call, 1)
		b, _ := spec.Draw(1, 1, call, 2)
		x, y := float64(a), float64(b)
		sx, sy, sxx, syy, sxy = sx+x, sy+y, sxx+x*x, syy+y*y, sxy+x*y
	}
	return (sxy - sx*sy/n) / math.Sqrt((sxx-sx*sx/n)*(syy-sy*sy/n))
}

func TestCopies(t *testing.T) {
	spec := func(c Copies, s Slow) *Spec {
		sp := &Spec{Replicas: 2, Time: mustParse(t, "exponential(10ms)"), Slow: s, Copies: c, Status: []StatusShare{{503, 0.3}}}
		if err := sp.Validate(); err != nil {
			t.Fatal(err)
		}
		return sp
	}
	// The S&X model with S = 1 or 5 (10 %) and exponential X: X is common, so the
	// correlation is Var(X) E[S]^2 / Var(SX) = 1.4^2 / (2*3.4 - 1.4^2).
	sx := 1.96 / (6.8 - 1.96)
	for _, c := range []struct {
		about  string
		spec   *Spec
		corr   float64
		status bool // both attempts end alike
	}{
		{"independent", spec(CopiesIndependent, Slow{}), 0, false},
		{"independent, some slow", spec(CopiesIndependent, Slow{Share: 0.1, Factor: 5}), 0, false},
		{"same", spec(CopiesSame, Slow{}), 1, true},
		{"same, some slow", spec(CopiesSame, Slow{Share: 0.1, Factor: 5}), 1, true},
		{"same, with a time for the slow", spec(CopiesSame, Slow{Share: 0.1, Time: mustParse(t, "exponential(1s)")}), 1, true},
		{"mixed, none slow", spec(CopiesMixed, Slow{}), 1, false},
		{"mixed, some slow", spec(CopiesMixed, Slow{Share: 0.1, Factor: 5}), sx, false},
		{"mixed, with a time for the slow that knows no size", spec(CopiesMixed, Slow{Share: 1, Time: mustParse(t, "exponential(1s)")}), 0, false},
	} {
		if got := corr(t, c.spec); math.Abs(got-c.corr) > 0.03 {
			t.Errorf("%s: correlation %.3f, want %.3f", c.about, got, c.corr)
		}
		alike := 0
		for call := range uint64(1000) {
			_, a := c.spec.Draw(1, 0, call, 1)
			_, b := c.spec.Draw(1, 1, call, 2)
			if a == b {
				alike++
			}
		}
		if (alike == 1000) != c.status || alike < 500 || !c.status && alike > 660 { // 58 % by chance
			t.Errorf("%s: %d of 1000 pairs end alike", c.about, alike)
		}
	}
}

// TestFirstAttemptsDoNotDependOnCopies: what attempt 1 draws is the same under
// every kind of copies.
func TestFirstAttemptsDoNotDependOnCopies(t *testing.T) {
	for call := range uint64(1000) {
		spec := Spec{Time: mustParse(t, "exponential(10ms)"), Slow: Slow{Share: 0.1, Time: Constant(time.Second)}, Faults: Faults{FaultReset: {Share: 0.1}}, Status: []StatusShare{{503, 0.3}}}
		d, s := spec.Draw(1, 0, call, 1)
		for _, spec.Copies = range []Copies{CopiesSame, CopiesMixed} {
			if d2, s2 := spec.Draw(1, 0, call, 1); d2 != d || s2 != s {
				t.Fatalf("call %d: %v, %d with %v copies, want %v, %d", call, d2, s2, spec.Copies, d, s)
			}
		}
	}
}

// slowAt reports whether a request is slow at the server.
func slowAt(s *Server, r Request, now clock.Time) bool {
	j, st := s.Begin(r, now)
	slow := s.Drawn(j) == time.Second
	s.End(j, st.Due)
	return slow
}

// TestSlowByConnection: 30 % of connections are slow, and all that they carry.
func TestSlowByConnection(t *testing.T) {
	spec := &Spec{Replicas: 2, Time: Constant(time.Millisecond), Slow: Slow{Share: 0.3, Time: Constant(time.Second), By: SlowByConnection}}
	a, b := New(spec, 0, 1), New(spec, 1, 1)
	slow, differ := 0, 0
	for conn := range uint64(1000) {
		r := first(1, conn)
		r.Conn = conn + 1
		was := slowAt(a, r, 0)
		for i := range uint64(5) {
			r.Call, r.Attempt = 77*i, uint32(i)
			if slowAt(a, r, clock.Time(i)) != was {
				t.Fatalf("connection %d is slow at one time and not at another", conn)
			}
		}
		slow += b2i(was)
		differ += b2i(slowAt(b, r, 0) != was)
	}
	if slow < 240 || slow > 360 || differ < 300 || differ > 540 { // 420 differ by chance
		t.Errorf("%d of 1000 connections are slow, %d differ at another replica, want about 300 and 420", slow, differ)
	}
	unknown := 0
	for call := range uint64(1000) {
		drawn, _ := spec.Draw(1, 0, call, 1)
		if got := slowAt(a, first(1, call), 0); got != (drawn == time.Second) {
			t.Fatalf("call %d: slow %v without a connection, want what is drawn for the request", call, got)
		}
		unknown += b2i(drawn == time.Second)
	}
	if unknown < 240 || unknown > 360 {
		t.Errorf("%d of 1000 requests without a connection are slow, want about 300", unknown)
	}
}

// TestSlowByWindow: 30 % of windows are slow, and all that arrives in them.
func TestSlowByWindow(t *testing.T) {
	spec := &Spec{Replicas: 2, Time: Constant(time.Millisecond), Slow: Slow{Share: 0.3, Time: Constant(time.Second), By: SlowByWindow, Window: 100}}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	s := New(spec, 0, 1)
	s.Mark(1050)
	slow, marked := 0, 0
	for k := clock.Time(-10); k < 990; k++ {
		from := 1050 + 100*k
		was := slowAt(s, first(1, 1), from)
		for i := range clock.Time(100) {
			if slowAt(s, first(uint32(i), uint64(i)), from+i) != was {
				t.Fatalf("window %d is slow at %d and not at its beginning, or the other way round", k, i)
			}
		}
		slow += b2i(was)
		again := New(spec, 0, 1)
		again.Mark(0)
		again.Mark(1050)
		marked += b2i(slowAt(again, first(1, 1), from) != was)
	}
	if slow < 240 || slow > 360 || marked < 300 || marked > 540 {
		t.Errorf("%d of 1000 windows are slow, %d differ after another mark, want about 300 and 420", slow, marked)
	}
	if drawn, _ := spec.Draw(1, 0, 1, 1); drawn != time.Millisecond {
		t.Errorf("drawn without an instant: %v, want 1ms", drawn)
	}
}

// TestEndings: faults by chance and by script, with the slot that they take.
func TestEndings(t *testing.T) {
	const n = 20_000
	spec := &Spec{Time: Constant(10), Slots: 1, Queue: -1, Faults: Faults{FaultRefuse: {Share: 0.1}, FaultReset: {Share: 0.2}, FaultHang: {Share: 0.05}}, Status: []StatusShare{{503, 0.5}}}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	got := map[Ending]int{}
	for call := range uint64(n) {
		s := New(spec, 0, 1)
		j, st := s.Begin(first(1, call), 100)
		if st.Job == 0 {
			if dropped, _ := s.Cancel(j, 5000); !dropped || s.Busy() != 0 {
				t.Fatalf("call %d hangs: dropped %v, busy %d", call, dropped, s.Busy())
			}
			got[Ending{Fault: FaultHang}]++
			continue
		}
		busy := s.Busy()
		a, _ := s.End(j, st.Due)
		if refused := a.Fault == FaultRefuse; refused != (st.Due == 100) || refused != (busy == 0) {
			t.Fatalf("call %d: %+v due at %d with %d busy", call, a, st.Due, busy)
		}
		got[Ending{a.Status, a.Fault}]++
	}
	for e, share := range map[Ending]float64{{Fault: FaultRefuse}: 0.1, {Fault: FaultReset}: 0.2, {Fault: FaultHang}: 0.05, {Status: 503}: 0.325, {Status: 200}: 0.325} {
		if sd := math.Sqrt(n * share * (1 - share)); math.Abs(float64(got[e])-n*share) > 4*sd {
			t.Errorf("%v: %d of %d, want about %.0f", e, got[e], n, n*share)
		}
	}
}

func TestScript(t *testing.T) {
	spec := &Spec{Time: Constant(10), Script: []Ending{{Status: 503}, {Fault: FaultReset}, {Fault: FaultRefuse}, {Status: 200}}, RetryAfter: time.Second, Copies: CopiesSame}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		attempt uint32
		want    Ending
		due     clock.Time
	}{{0, Ending{Status: 503}, 10}, {1, Ending{Status: 503}, 10}, {2, Ending{Fault: FaultReset}, 10}, {3, Ending{Fault: FaultRefuse}, 0}, {4, Ending{Status: 200}, 10}, {5, Ending{Status: 200}, 10}, {math.MaxUint32, Ending{Status: 200}, 10}} {
		for call := range uint64(10) {
			s := New(spec, 0, call)
			j, st := s.Begin(Request{Call: call, Attempt: c.attempt, Deadline: clock.Never}, 0)
			if a, _ := s.End(j, st.Due); (Ending{a.Status, a.Fault}) != c.want || st.Due != c.due || (a.RetryAfter > 0) != (c.want.Status == 503) {
				t.Errorf("attempt %d: %+v at %d, want %v at %d", c.attempt, a, st.Due, c.want, c.due)
			}
		}
	}
}
