package target

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"latencylab/service"
)

// behind returns the replica that a request on a new connection to the front
// meets, and the connection.
func behind(t *testing.T, tg *Target) (int, *caller) {
	t.Helper()
	addr, ok := tg.Front()
	if !ok {
		t.Fatal("no front")
	}
	c := dial(t, addr)
	c.send(plainGet)
	resp, _ := c.answer("GET")
	return replicaOf(t, resp), c
}

func replicaOf(t *testing.T, resp *http.Response) int {
	t.Helper()
	n, err := strconv.Atoi(resp.Header.Get("Latencylab-Replica"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFront(t *testing.T) {
	for _, threads := range []int{1, 2} {
		tg := begin(t, Config{Service: &service.Spec{Replicas: 3}, Threads: threads, Front: DealRoundRobin})
		var got []int
		for range 6 {
			n, c := behind(t, tg)
			got = append(got, n)
			c.send(plainGet) // stays there
			if resp, _ := c.answer("GET"); replicaOf(t, resp) != n {
				t.Errorf("the second request met replica %d, the first %d", replicaOf(t, resp), n)
			}
		}
		if want := []int{0, 1, 2, 0, 1, 2}; !slices.Equal(got, want) {
			t.Errorf("%d loops: dealt to %v, want %v", threads, got, want)
		}
		l := tg.Ledger()
		if l.Front == nil || l.Front.Deal != "round-robin" || !slices.Equal(l.Front.Dealt, []uint64{2, 2, 2}) || !slices.Equal(l.Run("").ByReplica, []uint64{4, 4, 4}) {
			t.Errorf("front %+v, by replica %v", l.Front, l.Run("").ByReplica)
		}
		if !tg.Drain(patience) || tg.Ledger().Connections.Open != 0 {
			t.Errorf("open %d after the end", tg.Ledger().Connections.Open)
		}
	}
}

func TestFrontLeast(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Replicas: 3}, Threads: 2, Front: DealLeast})
	for range 2 {
		dial(t, tg.Replicas()[0]).send(plainGet)
	}
	settle(t, "two connections at replica 0", func() bool { r := tg.Ledger().Run(""); return r != nil && r.Answered[200] == 2 })
	var got []int
	for range 4 {
		n, _ := behind(t, tg)
		got = append(got, n)
	}
	if want := []int{1, 2, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("dealt to %v, want %v", got, want)
	}
}

func TestFrontRandom(t *testing.T) {
	var first []int
	for i := range 2 {
		tg := begin(t, Config{Service: &service.Spec{Replicas: 3}, Seed: 5, Front: DealRandom})
		var got []int
		for range 30 {
			n, c := behind(t, tg)
			got = append(got, n)
			c.Close()
		}
		if i == 0 {
			first = got
		} else if !slices.Equal(first, got) {
			t.Errorf("dealt to %v and %v by the same seed", first, got)
		}
		for n := range 3 {
			if !slices.Contains(got, n) {
				t.Errorf("replica %d got none of %v", n, got)
			}
		}
	}
}

// TestFrontOfDeadAndPaused: a dead replica resets, a paused one hangs, the others
// answer.
func TestFrontOfDeadAndPaused(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Replicas: 3}, Threads: 2, Front: DealRoundRobin})
	if _, err := tg.Kill(0, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := tg.Pause(0, 2); err != nil {
		t.Fatal(err)
	}
	if n, _ := behind(t, tg); n != 0 {
		t.Errorf("replica %d, want 0", n)
	}
	addr, _ := tg.Front()
	if c, err := net.Dial("tcp", addr.String()); err == nil {
		defer c.Close()
		_, err = io.ReadAll(c)
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("dealt to a dead replica: %v, want a reset", err)
		}
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	stuck := dial(t, addr)
	stuck.send(plainGet)
	settle(t, "arrival at the paused replica", func() bool { return tg.Backlog().Replicas[2].InFlight == 1 })
	if _, err := tg.Resume(); err != nil {
		t.Fatal(err)
	}
	if resp, _ := stuck.answer("GET"); replicaOf(t, resp) != 2 {
		t.Errorf("replica %d, want 2", replicaOf(t, resp))
	}
	if l := tg.Ledger(); l.Connections.Killed != 1 {
		t.Errorf("killed %d connections, want 1", l.Connections.Killed)
	}
}
