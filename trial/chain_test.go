package trial

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"latencylab/policy"
	"latencylab/service"
	"latencylab/sim"
	"latencylab/target"
	"latencylab/units"
	"latencylab/workloads"
)

// shorter returns the services of a file with every time divided by n.
func shorter(t *testing.T, file string, n time.Duration) *workloads.Graph {
	t.Helper()
	data, err := os.ReadFile("../docs/examples/" + file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := workloads.ParseGraph(file, data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.Services {
		s := &g.Services[i]
		if mean, ok := s.Spec.Time.Mean(); ok {
			s.Spec.Time = service.Constant(time.Duration(mean) / n)
		}
		for k := range s.Calls {
			p := &s.Calls[k].Policy.Policy
			p.Deadline, p.MinStart, p.Reserve = p.Deadline/n, p.MinStart/n, p.Reserve/n
			for part := range p.Timeouts {
				p.Timeouts[part].After /= n
			}
		}
	}
	return g
}

// callOnce is a user who waits so long for the entry of a target, says so, and
// leaves.
func callOnce(t *testing.T, tg *target.Target, wait time.Duration, tell bool) {
	t.Helper()
	c, err := net.Dial("tcp", tg.Replicas()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(wait))
	head := ""
	if tell {
		head = fmt.Sprintf("x-deadline-ms: %d\r\n", wait.Milliseconds())
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n"+head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	// A service that is told of the deadline may just make it with its 504.
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && (resp.StatusCode != 504 || !tell) {
		t.Errorf("the user got %s, want no answer in time", resp.Status)
	}
}

// TestNestedTimeouts: the chains of the lab of that name do on sockets, shorter,
// what they do in virtual time: the same file describes both.
func TestNestedTimeouts(t *testing.T) {
	const user = 300 * time.Millisecond
	rate, err := units.ParseRate("1/s")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		file    string
		shorter time.Duration
		tell    bool
	}{
		{"nested-bad.yaml", 5, false},
		{"nested-good.yaml", 1, true},
	} {
		g := shorter(t, row.file, row.shorter)
		p := policy.Policy{Deadline: user / row.shorter}
		if row.tell {
			p.Wire = policy.WireDeadlineMS
		}
		want, err := sim.Run(sim.Config{
			Policy: p, Graph: g, Seed: 1, TargetSeed: 1, Idempotent: true,
			Arrivals: workloads.NewArrivals(workloads.Constant, rate, 1),
			Blocks:   []workloads.Block{{Calls: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		tg, err := target.Start(target.Config{Graph: g})
		if err != nil {
			t.Fatal(err)
		}
		defer tg.Stop()
		callOnce(t, tg, user/row.shorter, row.tell)
		l := idle(t, tg)
		c := l.Service("c").Total()
		if c.Arrived != want.Services[2].Arrived || c.Work.Dropped.Requests != want.Services[2].Stopped {
			t.Errorf("%s: c got %d calls and stopped %d early, simulated %d and %d", row.file, c.Arrived, c.Work.Dropped.Requests, want.Services[2].Arrived, want.Services[2].Stopped)
		}
		work, ideal := time.Duration(c.Work.Total().NS), want.Services[2].Work
		t.Logf("%s: c got %d calls and worked for %v, simulated %v", row.file, c.Arrived, work, ideal)
		// A call that comes late to a deadline that is told leaves less to work.
		if !row.tell && work < ideal-10*time.Millisecond || work <= 0 || work > ideal+200*time.Millisecond {
			t.Errorf("%s: c worked for %v, simulated %v", row.file, work, ideal)
		}
		for i, name := range []string{"a", "b"} {
			got, sim := l.Service(name).Calls[0], want.Hops[i].Data
			// Where the deadline is told, it and the leaving user end a call together.
			if got.Attempts.Sent != sim.Attempts.Sent || !row.tell && (got.Attempts.TimedOut != sim.Attempts.TimedOut || got.Calls.Unfinished != sim.Calls.Unfinished) {
				t.Errorf("%s: calls of %s: %+v and %+v, simulated %+v and %+v", row.file, name, got.Calls, got.Attempts, sim.Calls, sim.Attempts)
			}
		}
	}
}

// idle returns the ledger once nothing is in flight.
func idle(t *testing.T, tg *target.Target) *target.Ledger {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		l, busy := tg.Ledger(), uint64(0)
		for i := range l.Services {
			busy += l.Services[i].Total().InFlight
			for _, c := range l.Services[i].Calls {
				if err := c.Check(); err != nil {
					t.Fatal(err)
				}
				busy += c.Calls.InFlight
			}
		}
		if busy == 0 {
			return l
		}
	}
	t.Fatal("something is still in flight")
	return nil
}

// TestPageBothWays: services with work of their own, in order and beside each
// other, required and optional, do on sockets what they do in virtual time.
func TestPageBothWays(t *testing.T) {
	const calls = 60
	g, err := workloads.LoadGraph("../docs/examples/page.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rate, err := units.ParseRate("50/s")
	if err != nil {
		t.Fatal(err)
	}
	want, err := sim.Run(sim.Config{
		Graph: g, Seed: 1, TargetSeed: 1, Idempotent: true,
		Arrivals: workloads.NewArrivals(workloads.Constant, rate, 1), Blocks: []workloads.Block{{Calls: calls}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tg, err := target.Start(target.Config{Graph: g, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Stop()
	c, err := net.Dial("tcp", tg.Replicas()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, left := bufio.NewReader(c), uint64(0)
	for i := range calls { // one after the other: the draws are keyed, not the times
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\nLatencylab-Call: %d\r\nLatencylab-Attempt: 1\r\n\r\n", i)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		if resp.Header.Get("Latencylab-Left-Out") == "advice" {
			left++
		}
	}
	l := idle(t, tg)
	advice, orders := l.Services[0].Calls[2], l.Services[0].Calls[1]
	if ideal := want.Hops[2].Data.Calls.Failed; advice.LeftOut != left || left < ideal || left > ideal+calls/6 || ideal == 0 {
		t.Errorf("advice left out %d times by the answers, %d by the ledger, simulated %d", left, advice.LeftOut, ideal)
	}
	// A third answer that is there with the second counts as ok as well.
	if ideal := want.Hops[1].Data; orders.Calls.OK < 2*calls || ideal.Calls.OK != 2*calls || orders.Calls.OK+orders.Calls.Unfinished != 3*calls {
		t.Errorf("orders: %+v, simulated %+v", orders.Calls, ideal.Calls)
	}
	for i, s := range l.Services {
		sum := s.Total()
		// A call may end at its deadline before a connection was made for it.
		if ideal := want.Services[i]; sum.Arrived > ideal.Arrived || sum.Arrived+calls/6 < ideal.Arrived {
			t.Errorf("%s: %d arrived, simulated %d", s.Name, sum.Arrived, ideal.Arrived)
		}
	}
}
