package target

import (
	"context"
	"strings"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/service"
)

// remote returns the admin listener of a target, as another process sees it.
func remote(t *testing.T, tg *Target) (*Remote, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r := NewRemote(tg.Admin())
	t.Cleanup(r.Close)
	return r, ctx
}

// TestPulse: nothing is answered while it lasts, all goes on where it stood at
// its end, on every loop at one instant, and the backlog shows it.
func TestPulse(t *testing.T) {
	const freeze = 300 * time.Millisecond
	tg := begin(t, Config{Service: &service.Spec{Replicas: 3, Slots: 1, Queue: -1, Time: dist(t, "5ms")}, Threads: 2})
	r, ctx := remote(t, tg)
	began, err := r.Pulse(ctx, freeze)
	if err != nil {
		t.Fatal(err)
	}
	if got := began.Until.Sub(began.At); got != freeze || len(began.Replicas) != 3 {
		t.Fatalf("%+v, want three replicas for %v", began, freeze)
	}
	var list []*caller
	for i := range 6 {
		c := dial(t, tg.Replicas()[i%3])
		c.send(get("pulse", uint64(i), 1))
		list = append(list, c)
	}
	settle(t, "six requests in flight, or the end of the pulse", func() bool {
		b, err := r.Backlog(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if b.InFlight != 6 {
			return time.Now().After(*began.Until)
		}
		if b.WorkNS != int64(30*time.Millisecond) || b.Replicas[1] != (ReplicaBacklog{int64(10 * time.Millisecond), 2, 1, 1}) {
			t.Errorf("backlog %+v, want 5 ms of work for each of the six", b)
		}
		return true
	})
	for _, c := range list {
		if resp, _ := c.answer("GET"); resp.StatusCode != 200 {
			t.Errorf("status %d after the pulse", resp.StatusCode)
		}
		if now := time.Now(); now.Before(*began.Until) {
			t.Errorf("an answer %v before the end of the pulse", began.Until.Sub(now))
		}
	}
	if b := tg.Backlog(); b.InFlight != 0 || b.WorkNS != 0 {
		t.Errorf("backlog %+v at the end, want none", b)
	}
	sums(t, tg.Ledger().Run("pulse"))
}

func TestPauseAndResume(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Replicas: 2, Time: dist(t, "1ms")}, Threads: 2})
	r, ctx := remote(t, tg)
	if _, err := r.Pause(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	stuck, free := dial(t, tg.Replicas()[1]), dial(t, tg.Replicas()[0])
	stuck.send(plainGet)
	settle(t, "arrival", func() bool { return tg.Backlog().Replicas[1].InFlight == 1 })
	free.send(plainGet)
	free.answer("GET")
	list, err := r.States(ctx)
	if err != nil || list[0].State != StateUp || list[1].State != StatePaused || list[1].Until != nil {
		t.Errorf("states %+v, %v", list, err)
	}
	if _, err := r.Pulse(ctx, time.Millisecond); err != nil { // does not end the pause
		t.Fatal(err)
	}
	settle(t, "the end of the pulse", func() bool { return tg.States()[0].State == StateUp })
	if n := tg.Backlog().Replicas[1].InFlight; n != 1 || tg.States()[1].State != StatePaused {
		t.Errorf("%d in flight at the paused replica after a pulse, want 1", n)
	}
	if _, err := r.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if resp, _ := stuck.answer("GET"); resp.StatusCode != 200 {
		t.Errorf("status %d, want 200", resp.StatusCode)
	}
}

func TestOutageOnCommand(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Replicas: 2}})
	r, ctx := remote(t, tg)
	if _, err := r.Outage(ctx, time.Hour, service.Ending{Status: 503}, 0); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{503, 200} {
		c := dial(t, tg.Replicas()[i])
		c.send(plainGet)
		if resp, _ := c.answer("GET"); resp.StatusCode != want {
			t.Errorf("replica %d: status %d, want %d", i, resp.StatusCode, want)
		}
	}
	if s := tg.States()[0]; s.Outage != "503" || s.OutageUntil == nil {
		t.Errorf("state %+v, want the outage", s)
	}
	if _, err := r.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if s := tg.States()[0]; s.Outage != "" {
		t.Errorf("state %+v, want no outage", s)
	}
}

func TestCommandsRefused(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Replicas: 2}})
	admin := "http://" + tg.Admin().String()
	for _, row := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/pulse?for=1s", 405, "/pulse takes POST"},
		{"POST", "/pulse", 400, "no for, want a duration such as for=500ms"},
		{"POST", "/pulse?for=500", 400, `for = "500" has no unit`},
		{"POST", "/pulse?for=25h", 400, "for = 25h, want above 0 and at most 24h"},
		{"POST", "/pause?replicas=2", 400, "replica 2, want 0 to 1"},
		{"POST", "/replicas/x/pause", 400, `replicas = "x", want numbers such as 0,2, or all`},
		{"POST", "/replicas/1/jump", 404, "no such page"},
		{"POST", "/outage?for=1s&kind=200", 400, `kind = "200", want a status from 400 to 599, or a fault such as reset`},
		{"POST", "/replicas/0,1/pause?for=1ms", 200, `"replicas"`},
		{"POST", "/replicas/all/resume", 200, `"replicas"`},
	} {
		status, body := page(t, row.method, admin+row.path)
		if status != row.status || !strings.Contains(body, row.want) {
			t.Errorf("%s %s: %d %q, want %d with %q", row.method, row.path, status, body, row.status, row.want)
		}
	}
	tg.Stop()
	if _, err := tg.Pulse(time.Second); err != errEnded {
		t.Errorf("a pulse of a target that has ended: %v", err)
	}
}

// TestAgendaInOrder: changes are made at their instants, those of one instant
// in the order in which they were planned, and a replica is woken once.
func TestAgendaInOrder(t *testing.T) {
	l := &loop{}
	r := &replica{}
	var got []int
	for i, at := range []clock.Time{30, 10, 20, 10} {
		l.plan(change{at: at, do: func(*loop, clock.Time) { got = append(got, i) }})
	}
	l.plan(change{at: 5, do: func(*loop, clock.Time) { got = append(got, -1) }, wakes: r})
	l.plan(change{at: 25, do: func(*loop, clock.Time) { got = append(got, 9) }, wakes: r})
	l.expire(26)
	if want := []int{1, 3, 2, 9}; len(got) != 4 || [4]int(got) != [4]int(want) || l.planned() != 30 {
		t.Errorf("done %v, next at %d; want %v and 30", got, l.planned(), want)
	}
}
