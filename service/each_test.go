package service

import (
	"testing"
	"time"

	"latencylab/clock"
)

// TestEachOwn: a replica of its own does what a service of that Spec does there,
// and the others what the service says.
func TestEachOwn(t *testing.T) {
	own := Spec{Replicas: 2, Time: Constant(7 * ms), Slots: 1, Queue: 0, Shed: 429, Stalls: []Stall{{For: Constant(time.Second)}}, Body: 9}
	sp := Spec{Replicas: 2, Time: Constant(ms), Each: []Each{{Replica: 1, Factor: 2, Own: &own}}}
	if err := sp.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		due    clock.Time
		status uint16 // of a second request
		body   int
	}{{clock.Time(ms), 200, 0}, {clock.Time(time.Second + 14*ms), 429, 9}} {
		s := New(&sp, i, 1)
		j, st := s.Begin(Request{Attempt: 1, Deadline: clock.Never}, 0)
		if st.Due != want.due {
			t.Errorf("replica %d: due %d, want %d", i, st.Due, want.due)
		}
		k, _ := s.Begin(Request{Attempt: 1, Deadline: clock.Never}, 0)
		a, _ := s.End(k, st.Due)
		if b, _ := s.End(j, st.Due); a.Status != want.status || b.Body != want.body {
			t.Errorf("replica %d: %+v and %+v", i, a, b)
		}
	}
	if !sp.Scheduled() || !sp.Coupled() || sp.Of(0) != &sp || sp.Of(1) != &own {
		t.Error("what holds of one replica does not hold of the service")
	}
	if rho, ok := sp.Load(1, 0, 10); ok {
		t.Errorf("load %v of a replica without slots", rho)
	}
	if rho, ok := sp.Load(1, 1, 10); !ok || rho < 0.1399 || rho > 0.1401 {
		t.Errorf("load %v %v, want 0.14", rho, ok)
	}
	frozen := sp.Frozen(3*time.Second, time.Second)
	if n, m := len(frozen.Stalls), len(frozen.Of(1).Stalls); n != 1 || m != 2 || len(own.Stalls) != 1 || len(sp.Stalls) != 0 {
		t.Errorf("frozen: %d stalls and %d of replica 1, want 1 and 2, and the service as it was", n, m)
	}
}
