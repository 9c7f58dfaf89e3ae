package target

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"latencylab/service"
)

// reset fails unless the connection ends by RST without a further byte.
func (c *caller) reset() {
	c.t.Helper()
	if b, err := io.ReadAll(c.r); !errors.Is(err, syscall.ECONNRESET) || len(b) > 0 {
		c.t.Fatalf("read %q, %v, want a reset", b, err)
	}
}

// refused fails unless nobody listens at a replica.
func refused(t *testing.T, tg *Target, replica int) {
	t.Helper()
	c, err := net.Dial("tcp", tg.Replicas()[replica].String())
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial replica %d: %v, want refused", replica, err)
	}
}

func TestKillAndRevive(t *testing.T) {
	spec := &service.Spec{Replicas: 3, Slots: 1, Queue: -1, Cancel: service.CancelRunning, CancelCost: time.Hour, Time: dist(t, "1h")}
	tg := begin(t, Config{Service: spec, Threads: 2})
	r, ctx := remote(t, tg)
	idle, running, waiting, other := dial(t, tg.Replicas()[1]), dial(t, tg.Replicas()[1]), dial(t, tg.Replicas()[1]), dial(t, tg.Replicas()[2])
	for i, c := range []*caller{running, waiting, other} {
		c.send(get("k", uint64(i), 1))
		settle(t, "arrival", func() bool { r := tg.Ledger().Run("k"); return r != nil && r.Arrived == uint64(i+1) })
	}
	if _, err := r.Kill(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*caller{idle, running, waiting} {
		c.reset()
	}
	refused(t, tg, 1)
	l := tg.Ledger()
	run := l.Run("k")
	sums(t, run)
	if run.Broken != 2 || run.Killed != 2 || run.InFlight != 1 || l.Connections.Killed != 3 || l.Connections.Open != 1 {
		t.Errorf("ledger %+v %+v, want two killed in flight and three connections", run.Counts, l.Connections)
	}
	if s := tg.States(); s[1].State != StateKilled || s[2].State != StateUp {
		t.Errorf("states %+v", s)
	}
	if _, err := r.Pause(ctx, 0, 1); err == nil || !strings.Contains(err.Error(), "replica 1 is killed") {
		t.Errorf("pause of a killed replica: %v", err)
	}
	if c, err := r.Pause(ctx, 0); err != nil || len(c.Replicas) != 2 {
		t.Errorf("pause of all: %+v, %v; want the two that are alive", c, err)
	}
	if _, err := r.Kill(ctx, 0, 1); err != nil { // nothing
		t.Error(err)
	}
	if _, err := r.Revive(ctx); err != nil {
		t.Fatal(err)
	}
	again := dial(t, tg.Replicas()[1])
	again.send(get("again", 0, 1))
	settle(t, "arrival", func() bool { return tg.Ledger().Run("again") != nil })
	if b := tg.Backlog().Replicas[1]; b.InFlight != 1 || b.Busy != 1 {
		t.Errorf("backlog %+v of the revived replica, want the one request", b)
	}
	again.Close() // its job holds the slot on for CancelCost
	settle(t, "the cancel", func() bool { return tg.Ledger().Run("again").Cancelled.Dropped == 1 })
	if _, err := r.Kill(ctx, 0); err != nil {
		t.Fatal(err)
	}
	other.reset()
	for i := range 3 {
		refused(t, tg, i)
	}
	l = tg.Ledger()
	sums(t, l.Run("k"))
	sums(t, l.Run("again"))
	if n := l.Run("again").InFlight + l.Run("k").InFlight; n != 0 {
		t.Errorf("%d in flight with all dead", n)
	}
	if l.Run("again").Killed != 0 || l.Run("k").Killed != 3 {
		t.Errorf("killed %d and %d, want 0, for it had ended before, and 3", l.Run("again").Killed, l.Run("k").Killed)
	}
	if !tg.Drain(patience) {
		t.Error("a target whose replicas are dead does not drain")
	}
}

func TestKillForAWhile(t *testing.T) {
	tg := begin(t, Config{})
	r, ctx := remote(t, tg)
	c, err := r.Kill(ctx, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, "the revival", func() bool { return tg.States()[0].State == StateUp })
	if now := time.Now(); now.Before(*c.Until) {
		t.Errorf("revived %v too early", c.Until.Sub(now))
	}
	again := dial(t, tg.Replicas()[0])
	again.send(plainGet)
	if resp, _ := again.answer("GET"); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// TestKillWhilePaused: who is killed while paused comes back unpaused.
func TestKillWhilePaused(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Slots: 1, Queue: -1, Time: dist(t, "1ms")}})
	if _, err := tg.Pause(0); err != nil {
		t.Fatal(err)
	}
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	settle(t, "arrival", func() bool { return tg.Backlog().InFlight == 1 })
	if _, err := tg.Kill(0); err != nil {
		t.Fatal(err)
	}
	c.reset()
	if b := tg.Backlog(); b.InFlight != 0 || b.WorkNS != 0 {
		t.Errorf("backlog %+v, want none", b)
	}
	if _, err := tg.Revive(0); err != nil {
		t.Fatal(err)
	}
	c = dial(t, tg.Replicas()[0])
	c.send(plainGet)
	if resp, _ := c.answer("GET"); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
}
