package service

import (
	"math"
	"strings"
	"testing"
	"time"

	"latencylab/clock"
)

func TestValidate(t *testing.T) {
	five := Constant(5 * time.Millisecond)
	for _, c := range []struct {
		about string
		spec  Spec
		want  string // part of the error; "": valid
	}{
		{"the zero spec", Spec{}, ""},
		{"everything set", Spec{Replicas: 3, Time: five, Slow: Slow{Share: 0.02, Time: five, By: SlowByReplica}, Slots: 4, Queue: -1, Shed: 429,
			Status: []StatusShare{{500, 0.5}, {503, 0.5}}, RetryAfter: 2 * time.Second, Cancel: CancelRunning, Body: 100, Each: []Each{{Replica: 2, Factor: 1.5, Time: &five}}}, ""},
		{"too many replicas", Spec{Replicas: 65536}, "replicas = 65536, want 1 to 65535"},
		{"a negative number of slots", Spec{Slots: -1}, "slots = -1"},
		{"an order of those that wait", Spec{Slots: 1, Queue: 5, Discipline: LIFO}, ""},
		{"an order where none waits", Spec{Slots: 1, Discipline: LIFO}, "discipline = lifo orders those that wait, but queue = 0 lets none wait"},
		{"a discipline that is none", Spec{Discipline: NewFirst + 1}, "discipline = 4, want fifo"},
		{"a window without requests", Spec{Capacity: Capacity{Per: 1}}, "capacity.requests = 0 per capacity.per = 1ns, want both above 0"},
		{"a window and slots", Spec{Capacity: Capacity{1, 1}, Slots: 1}, "slots = 1 contradicts capacity"},
		{"thrash without a factor", Spec{Thrash: Thrash{Above: 1}}, "thrash.above = 1, but thrash.factor is not given"},
		{"a factor that is no number", Spec{Thrash: Thrash{1, math.NaN()}}, "thrash.factor = NaN"},
		{"a factor beside a time", Spec{Slow: Slow{Share: 1, Time: five, Factor: 2}}, "slow.factor = 2 contradicts slow.time = constant(5ms)"},
		{"a factor that is no number", Spec{Slow: Slow{Share: 1, Factor: math.NaN()}}, "slow.factor = NaN"},
		{"moments of no length", Spec{Slow: Slow{Share: 1, Time: five, By: SlowByWindow}}, "slow.by = window needs slow.window"},
		{"a script beside shares", Spec{Script: []Ending{{Status: 200}}, Faults: Faults{FaultHang: {Share: 0.1}}}, "script contradicts fault"},
		{"a script that ends with nothing", Spec{Script: []Ending{{}}}, "script[0] = 0"},
		{"faults above 1", Spec{Faults: Faults{FaultRefuse: {Share: 0.5}, FaultReset: {Share: 0.5}, FaultHang: {Share: 0.5}}}, "fault: the shares add up to 150%"},
		{"a fault that is no number", Spec{Faults: Faults{FaultHang: {Share: math.NaN()}}}, "fault.hang = NaN"},
		{"a cost of what does not happen", Spec{Slots: 1, CancelCost: 1}, "cancel-cost = 1ns is what stopping running work costs, but cancel = none stops none"},
		{"an outage of no length", Spec{Outages: []Outage{{Ending: Ending{Status: 503}}}}, "outage[0].for = 0s"},
		{"an outage without a kind", Spec{Outages: []Outage{{For: 1}}}, "outage[0].kind = 0"},
		{"an outage that is none", Spec{Outages: []Outage{{For: 1, Ending: Ending{Fault: FaultGone}}}}, "outage[0].kind = gone"},
		{"a stall of no length", Spec{Stalls: []Stall{{}}}, "stall[0].for = 0s"},
		{"a stall of no finite length in a row", Spec{Stalls: []Stall{{Every: 1, For: mustParse(t, "pareto(1ms,1)")}}}, "stall[0].for = pareto(1ms,1) is in the mean not below stall[0].every = 1ns"},
		{"a shed status that does not end an exchange", Spec{Shed: 100}, "shed = 100"},
		{"a share above 1", Spec{Slow: Slow{Share: 1.5, Time: five}}, "slow.share = 1.5"},
		{"a share that is no number", Spec{Slow: Slow{Share: math.NaN(), Time: five}}, "slow.share = NaN"},
		{"slowness without a time", Spec{Slow: Slow{Share: 0.02}}, "slow.share = 2%, but slow.time is not given"},
		{"shares of statuses above 1", Spec{Status: []StatusShare{{500, 0.6}, {503, 0.6}}}, "add up to 120%"},
		{"a status twice", Spec{Status: []StatusShare{{500, 0.1}, {500, 0.1}}}, "status.500 is given twice"},
		{"a status that is none", Spec{Status: []StatusShare{{1000, 0.1}}}, "status.1000"},
		{"Retry-After in fractions of a second", Spec{RetryAfter: 1500 * time.Millisecond}, "retry-after = 1.5s, want whole seconds"},
		{"a negative body", Spec{Body: -1}, "body = -1"},
		{"a replica that is not there", Spec{Replicas: 3, Each: []Each{{Replica: 3}}}, "each[0].replica = 3, want 0 to 2"},
		{"a replica changed twice", Spec{Replicas: 3, Each: []Each{{Replica: 1}, {Replica: 1}}}, "each[1].replica = 1 is given twice"},
		{"an infinite factor", Spec{Each: []Each{{Factor: math.Inf(1)}}}, "each[0].factor = +Inf"},
	} {
		err := c.spec.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v, want no error", c.about, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want an error with %q", c.about, err, c.want)
		}
	}
}

func TestWordsReadBack(t *testing.T) {
	for b := SlowByRequest; b <= SlowByWindow; b++ {
		if got, ok := SlowByNamed(b.String()); !ok || got != b {
			t.Errorf("slow by %d is %q, which reads as %d", b, b, got)
		}
	}
	for c := CancelNone; c <= CancelRunning; c++ {
		if got, ok := CancelNamed(c.String()); !ok || got != c {
			t.Errorf("cancel %d is %q, which reads as %d", c, c, got)
		}
	}
	for c := CopiesIndependent; c <= CopiesMixed; c++ {
		if got, ok := CopiesNamed(c.String()); !ok || got != c {
			t.Errorf("copies %d is %q, which reads as %d", c, c, got)
		}
	}
	for d := DeadlineIgnore; d <= DeadlineRunning; d++ {
		if got, ok := DeadlineNamed(d.String()); !ok || got != d {
			t.Errorf("deadline %d is %q, which reads as %d", d, d, got)
		}
	}
	for _, e := range []Ending{{Status: 200}, {Status: 599}, {Fault: FaultRefuse}, {Fault: FaultReset}, {Fault: FaultHang}} {
		if got, ok := EndingNamed(e.String()); !ok || got != e {
			t.Errorf("ending %q reads as %v", e, got)
		}
	}
	for _, word := range []string{"", "none", "gone", "199", "600", "+503", "5e2", "Reset"} {
		if e, ok := EndingNamed(word); ok {
			t.Errorf("%q reads as %v", word, e)
		}
	}
	for d := FIFO; d <= NewFirst; d++ {
		if got, ok := DisciplineNamed(d.String()); !ok || got != d {
			t.Errorf("discipline %d is %q, which reads as %d", d, d, got)
		}
	}
	if _, ok := CancelNamed("all"); ok {
		t.Error(`"all" is a kind of cancelling`)
	}
}

func TestSpecDraw(t *testing.T) {
	const n = 200_000
	uni := mustParse(t, "uniform(20ms,60ms)")
	spec := Spec{
		Replicas: 3, Time: uni,
		Slow:   Slow{Share: 0.02, Time: Constant(time.Second)},
		Status: []StatusShare{{500, 0.1}, {503, 0.05}},
		Each:   []Each{{Replica: 1, Factor: 1.5}, {Replica: 2, Time: ptr(Constant(7 * time.Millisecond))}},
	}
	var slow, both, second int
	statuses := map[uint16]int{}
	for i := range uint64(n) {
		d0, status := spec.Draw(1, 0, i, 1)
		d1, _ := spec.Draw(1, 1, i, 1)
		d2, _ := spec.Draw(1, 2, i, 1)
		e0, _ := spec.Draw(1, 0, i, 2)
		statuses[status]++
		if d1 != scale(d0, 1.5) {
			t.Fatalf("call %d: replica 1 draws %v, want 1.5 times %v", i, d1, d0)
		}
		if isSlow := d0 == time.Second; isSlow {
			slow++
			if d2 != time.Second {
				t.Fatalf("call %d is slow at replica 0 and %v at replica 2: slowness belongs to the request", i, d2)
			}
			if e0 == time.Second {
				both++
			}
		} else if d2 != 7*time.Millisecond {
			t.Fatalf("call %d: replica 2 draws %v, want its own 7ms", i, d2)
		}
		if e0 == time.Second {
			second++
		}
	}
	near := func(what string, got int, want float64) {
		t.Helper()
		if sd := math.Sqrt(n * want * (1 - want)); math.Abs(float64(got)-n*want) > 4*sd {
			t.Errorf("%s: %d of %d, want a share of %v", what, got, n, want)
		}
	}
	near("slow first attempts", slow, 0.02)
	near("slow second attempts", second, 0.02)
	near("both slow", both, 0.0004)
	near("status 500", statuses[500], 0.1)
	near("status 503", statuses[503], 0.05)
	near("status 200", statuses[200], 0.85)
}

func TestSlowByReplica(t *testing.T) {
	spec := Spec{Replicas: 1000, Time: Constant(time.Millisecond), Slow: Slow{Share: 0.3, Time: Constant(time.Second), By: SlowByReplica}}
	slow := 0
	for r := range 1000 {
		first, _ := spec.Draw(1, r, 0, 1)
		for i := range uint64(10) {
			if d, _ := spec.Draw(1, r, i, uint32(i)); d != first {
				t.Fatalf("replica %d draws %v and %v", r, first, d)
			}
		}
		if first == time.Second {
			slow++
		}
	}
	if slow < 240 || slow > 360 {
		t.Errorf("%d of 1000 replicas are slow, want about 300", slow)
	}
}

// TestDrawsMatchTheServer: the oracle and a server without limits agree.
func TestDrawsMatchTheServer(t *testing.T) {
	spec := Spec{Replicas: 2, Time: mustParse(t, "lognormal(10ms,1)"), Slow: Slow{Share: 0.1, Time: Constant(time.Second)}, Status: []StatusShare{{503, 0.2}}, Each: []Each{{Replica: 1, Factor: 0.3}}}
	for r := range 2 {
		s := New(&spec, r, 9)
		for i := range uint64(1000) {
			now := clock.Time(i)
			drawn, status := spec.Draw(9, r, i, 3)
			j, step := s.Begin(Request{Tag: 5, Call: i, Attempt: 3, Deadline: clock.Never}, now)
			if step.Job != j || step.Tag != 5 || step.Due != now.Add(drawn) || s.Drawn(j) != drawn {
				t.Fatalf("call %d at replica %d: %+v, want due %v after %v", i, r, step, drawn, now)
			}
			if a, _ := s.End(j, step.Due); a.Status != status || a.Drawn != drawn || a.Tag != 5 {
				t.Fatalf("call %d at replica %d: %+v, want status %d, drawn %v", i, r, a, status, drawn)
			}
		}
	}
}

func ptr[T any](x T) *T { return &x }
