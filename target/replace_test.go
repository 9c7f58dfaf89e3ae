package target

import (
	"strings"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/service"
	"latencylab/workloads"
)

func TestReplace(t *testing.T) {
	spec := &service.Spec{Replicas: 2, Slots: 1, Queue: -1, Time: dist(t, "1h"), Body: 10}
	tg := begin(t, Config{Service: spec, Threads: 2})
	r, ctx := remote(t, tg)
	old := dial(t, tg.Replicas()[0])
	old.send(get("old", 0, 1))
	settle(t, "arrival", func() bool { return tg.Backlog().InFlight == 1 })
	c, err := r.Replace(ctx, []byte("replicas: 2\nslots: 2\ntime: 0ms\nstatus: {418: 100%}\nbody: 20B\n"))
	if err != nil || c.Generation != 2 {
		t.Fatalf("%+v, %v; want generation 2", c, err)
	}
	for i := range 2 {
		fresh := dial(t, tg.Replicas()[i])
		fresh.send(get("new", uint64(i), 1))
		if resp, body := fresh.answer("GET"); resp.StatusCode != 418 || len(body) != 20 {
			t.Errorf("replica %d: %d and %d bytes, want the new service's 418 and 20", i, resp.StatusCode, len(body))
		}
	}
	if b := tg.Backlog(); b.InFlight != 1 || b.WorkNS < int64(59*time.Minute) {
		t.Errorf("backlog %+v, want the old request at work as it began", b)
	}
	l := tg.Ledger()
	if l.Generation != 2 || !l.Since.Equal(c.At) {
		t.Errorf("ledger: generation %d since %v, want 2 since %v", l.Generation, l.Since, c.At)
	}
	_, text := page(t, "GET", "http://"+tg.Admin().String()+"/service")
	if got, err := workloads.ParseServiceText("page", []byte(text)); err != nil || got.Slots != 2 || got.Body != 20 {
		t.Errorf("the service page: %v\n%s", err, text)
	}
	if c, err = r.Patch(ctx, []byte("status: null\nslots: 3\n")); err != nil || c.Generation != 3 {
		t.Fatalf("%+v, %v; want generation 3", c, err)
	}
	fresh := dial(t, tg.Replicas()[0])
	fresh.send(plainGet)
	if resp, body := fresh.answer("GET"); resp.StatusCode != 200 || len(body) != 20 {
		t.Errorf("%d and %d bytes, want 200 and 20", resp.StatusCode, len(body))
	}
}

// TestReplaceRefused: a bad replacement changes nothing, and its error is one
// line that names the line.
func TestReplaceRefused(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Replicas: 2, Slots: 1, Queue: 5}})
	admin := "http://" + tg.Admin().String()
	_, before := page(t, "GET", admin+"/service")
	r, ctx := remote(t, tg)
	for _, row := range []struct{ what, method, file, want string }{
		{"an unknown key", "PUT", "replicas: 2\nslots: 8\nslotz: 9\n", `service: line 3: unknown key "slotz", nearest is "slots"`},
		{"a bad value", "PUT", "replicas: 2\n\ntime: fast\n", `service: line 3: time = "fast"`},
		{"what contradicts itself", "PUT", "replicas: 2\nqueue: 3\n", "service: line 2: queue needs slots"},
		{"no YAML", "PUT", "a: [\n", "service: line 1: "},
		{"nothing", "PUT", "", "service: line 1: empty, want a service"},
		{"another number of replicas", "PUT", "slots: 8\nreplicas: 3\n", "service: line 2: replicas = 3, want 2: their number cannot change while the target runs"},
		{"no number of replicas", "PUT", "slots: 8\n", "service: line 1: replicas = 1, want 2: "},
		{"a file of this machine", "PUT", "replicas: 2\ntime: list(@/etc/passwd)\n", "service: line 2: "},
		{"a patch without keys", "PATCH", "8\n", "service: line 1: no keys, want lines such as slots: 8"},
		{"a patch in braces", "PATCH", "{slots: 8}\n", "service: line 1: no keys, want lines such as slots: 8"},
		{"a patch that is wrong", "PATCH", "# many\nslots: many\n", `service: line 2: slots = "many"`},
		{"a patch against the rest", "PATCH", "slots: null\n", "service: with the other keys as they are: queue needs slots"},
		{"a patch twice", "PATCH", "slots: 1\nslots: 2\n", `service: line 2: key "slots" is given twice`},
		{"too much", "PUT", "# " + strings.Repeat("x", maxService), ""},
	} {
		var err error
		if row.method == "PUT" {
			_, err = r.Replace(ctx, []byte(row.file))
		} else {
			_, err = r.Patch(ctx, []byte(row.file))
		}
		if err == nil || !strings.Contains(err.Error(), "the target refuses: "+row.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line %q", row.what, err, row.want)
		}
	}
	if _, after := page(t, "GET", admin+"/service"); after != before {
		t.Errorf("the service is now\n%swant\n%s", after, before)
	}
	if g := tg.Ledger().Generation; g != 1 {
		t.Errorf("generation %d, want 1", g)
	}
}

// TestReplaceStartsWhatWaits: more slots, and the work that begins by them is
// counted as such.
func TestReplaceStartsWhatWaits(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Slots: 1, Queue: -1, Time: dist(t, "1h")}})
	for i := range 3 {
		dial(t, tg.Replicas()[0]).send(get("w", uint64(i), 1))
		settle(t, "arrival", func() bool { return tg.Backlog().InFlight == i+1 })
	}
	before := tg.Backlog().Replicas[0]
	if _, err := tg.Patch([]byte("slots: 3")); err != nil {
		t.Fatal(err)
	}
	after := tg.Backlog().Replicas[0]
	if before.Waiting != 2 || after.Waiting != 0 {
		t.Errorf("waiting %d before and %d after", before.Waiting, after.Waiting)
	}
	if before.WorkNS < after.WorkNS {
		t.Errorf("work %d before and %d after, want no more", before.WorkNS, after.WorkNS)
	}
}

// TestReplaceWithRamp: the slot that a ramp of the new service adds takes what
// waits, though the target began without ramps.
func TestReplaceWithRamp(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Slots: 1, Queue: -1, Time: dist(t, "1h")}})
	dial(t, tg.Replicas()[0]).send(get("w", 0, 1))
	settle(t, "arrival", func() bool { return tg.Backlog().InFlight == 1 })
	if _, err := tg.Replace([]byte("slots: 1\nqueue: unlimited\nstatus: {418: 100%}\nramp: {key: slots, to: 2, at: 200ms}\n")); err != nil {
		t.Fatal(err)
	}
	waits := dial(t, tg.Replicas()[0])
	waits.send(get("w", 1, 1))
	if resp, _ := waits.answer("GET"); resp.StatusCode != 418 {
		t.Errorf("%d, want 418", resp.StatusCode)
	}
}

// TestReplaceWhilePaused: a pause outlives it, and the mark of a PUT moves
// the schedules.
func TestReplaceWhilePaused(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Time: dist(t, "1ms"), Outages: []service.Outage{{For: 1, Ending: service.Ending{Status: 503}}}}})
	if _, err := tg.Pause(0); err != nil {
		t.Fatal(err)
	}
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	settle(t, "arrival", func() bool { return tg.Backlog().InFlight == 1 })
	if _, err := tg.Replace([]byte("time: 1ms\noutage: {for: 1h, kind: 500}\n")); err != nil {
		t.Fatal(err)
	}
	if s := tg.States()[0]; s.State != StatePaused {
		t.Errorf("state %+v after a replacement, want paused", s)
	}
	if _, err := tg.Resume(); err != nil {
		t.Fatal(err)
	}
	if resp, _ := c.answer("GET"); resp.StatusCode != 200 {
		t.Errorf("status %d of a request from before, want 200", resp.StatusCode)
	}
	c.send(plainGet)
	if resp, _ := c.answer("GET"); resp.StatusCode != 500 {
		t.Errorf("status %d in the outage that counts from the replacement, want 500", resp.StatusCode)
	}
}

// TestReplaceUnderLoad: with requests under way on two loops, all end once and
// every answer is by one service or the other, the old one never after the new.
func TestReplaceUnderLoad(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Replicas: 2, Slots: 2, Queue: -1, Time: dist(t, "uniform(0ms,1ms)")}, Threads: 2, Seed: 3})
	stop := clock.Now().Add(300 * time.Millisecond)
	done := make(chan int, 8)
	for w := range 8 {
		c := dial(t, tg.Replicas()[w%2])
		go func() {
			n := 0
			for seen := 0; clock.Now() < stop; n++ {
				c.send(get("load", uint64(w)<<32|uint64(n), 1))
				resp, body := c.answer("GET")
				if resp.StatusCode != 200 || len(body) < seen {
					t.Errorf("status %d and %d bytes after %d", resp.StatusCode, len(body), seen)
					break
				}
				seen = len(body)
			}
			done <- n
		}()
	}
	for i := range 20 {
		if _, err := tg.Replace([]byte("replicas: 2\nslots: " + []string{"1", "3"}[i%2] + "\ntime: uniform(0ms,1ms)\nbody: " + []string{"1", "2", "3", "4"}[i/5] + "KiB\n")); err != nil {
			t.Error(err)
		}
	}
	all := 0
	for range 8 {
		all += <-done
	}
	l := tg.Ledger()
	sums(t, l.Run("load"))
	if r := l.Run("load"); r.Arrived != uint64(all) || r.Answered[200] != uint64(all) || l.Generation != 21 {
		t.Errorf("arrived %d, answered %d, want %d; generation %d, want 21", r.Arrived, r.Answered[200], all, l.Generation)
	}
}

// FuzzPatch: keys that are put in place are a service or one line of error, and what
// they make of a service reads the same when it is written.
func FuzzPatch(f *testing.F) {
	const file = "replicas: 2\nslots: 2\nqueue: 10\nstatus: {503: 10%}\ntime: 5ms\n"
	for _, keys := range []string{"slots: 3", "queue: null\nslots: null", "status: null", "a: [", "{slots: 1}", "'slots': 1", "# slots: 8\ntime: 1ms", "slots:\n  4", "replicas: 9", ""} {
		f.Add(keys)
	}
	f.Fuzz(func(t *testing.T, keys string) {
		text, err := patched([]byte(file), []byte(keys))
		if err == nil {
			var spec *service.Spec
			if spec, err = workloads.ParseServiceText("service", text); err == nil {
				yaml, err := workloads.MarshalService(spec)
				if err != nil {
					t.Fatalf("%q: %v", keys, err)
				}
				if _, err := workloads.ParseServiceText("service", yaml); err != nil {
					t.Fatalf("%q became %q: %v", keys, yaml, err)
				}
				return
			}
		}
		if err = ofRest(err, 1); err.Error() == "" || strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("%q: error %q", keys, err)
		}
	})
}
