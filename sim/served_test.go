package sim

import (
	"testing"
	"time"

	"latencylab/service"
	"latencylab/workloads"
)

// TestServed: calls at 10, 20, … 60 ms of one slot that takes 25 ms; what the
// servers record can be counted by hand.
func TestServed(t *testing.T) {
	for _, c := range []struct {
		about, spec string
		queue       int
		cancel      service.Cancel
		want        Served
	}{
		{about: "all wait their turn", spec: "plain", queue: -1,
			want: Served{Arrived: 6, First: 6, Answered: 6, BusyPeak: 1, QueuePeak: 3, Work: 150 * ms}},
		{about: "no room to wait: two are served", spec: "plain", queue: 0, // at 10 and 40
			want: Served{Arrived: 6, First: 6, Shed: 4, Answered: 6, BusyPeak: 1, Work: 50 * ms}},
		{about: "callers leave after 30 ms, all work goes on", spec: "deadline=30ms", queue: -1, // 20 and 30 leave when worked on, 40, 50 and 60 while they wait
			want: Served{Arrived: 6, First: 6, Answered: 1, AfterLeft: 2, InFlight: 3, Cancelled: Cancelled{Queued: 3, Running: 2, WentOn: 5}, BusyPeak: 1, QueuePeak: 3, Work: 100 * ms}},
		{about: "what waits is dropped", spec: "deadline=30ms", queue: -1, cancel: service.CancelQueued,
			// 20 leaves at 50 and 30 at 60, worked on; 40 and 50 wait; 60 from 85 on
			want: Served{Arrived: 6, First: 6, Answered: 1, AfterLeft: 2, InFlight: 1, Cancelled: Cancelled{Queued: 2, Running: 3, Dropped: 2, WentOn: 3}, BusyPeak: 1, QueuePeak: 3, Work: 100 * ms}},
		{about: "work stops", spec: "deadline=30ms", queue: -1, cancel: service.CancelRunning,
			// 10 to 35, 20 from 35 to 50, 30 from 50 to 60, 40 from 60 to 70, 50 from 70 to 80, 60 from 80 to 90
			want: Served{Arrived: 6, First: 6, Answered: 1, Cancelled: Cancelled{Running: 5, Dropped: 5}, Stopped: 5, BusyPeak: 1, QueuePeak: 2, Work: 80 * ms}},
		{about: "hedges, the last of which is not waited for", spec: "hedge=1ms,cancel=drain", queue: -1,
			want: Served{Arrived: 12, First: 6, Later: 6, Answered: 11, InFlight: 1, BusyPeak: 1, QueuePeak: 9, Work: 300 * ms}},
	} {
		svc := &service.Spec{Time: dist(t, "25ms"), Slots: 1, Queue: c.queue, Cancel: c.cancel}
		cfg := config(t, c.spec, svc, 6)
		cfg.Arrivals = workloads.NewArrivals(workloads.Constant, rate(100), 1)
		if got := run(t, cfg).Served; got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", c.about, got, c.want)
		}
	}
}

// TestWorkIsTheDraws: without queue, stall or cancel the servers work for what
// was drawn.
func TestWorkIsTheDraws(t *testing.T) {
	cfg := config(t, "plain", hedgeTail(t), 5000)
	var want time.Duration
	for i := range uint64(5000) {
		drawn, _ := cfg.Service.Draw(1, 0, i, 1)
		want += drawn
	}
	if got := run(t, cfg).Served.Work; got != want {
		t.Errorf("%v of work, want %v", got, want)
	}
}
