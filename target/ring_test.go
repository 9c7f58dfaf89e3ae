package target

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"latencylab/service"
)

func TestEntrySize(t *testing.T) {
	if n := unsafe.Sizeof(entry{}); n != 96 {
		t.Errorf("an entry has %d bytes, want 96", n)
	}
}

func TestRing(t *testing.T) {
	var r ring
	r.init(8)
	add := func(n int) {
		for range n {
			r.add().call = r.next
		}
	}
	check := func(why string, from uint64, size int, wantAt uint64, wantN int) {
		t.Helper()
		buf := make([]entry, size)
		n, at := r.read(buf, from)
		if n != wantN || at != wantAt {
			t.Errorf("%s: %d entries from %d, want %d from %d", why, n, at, wantN, wantAt)
		}
		for i, e := range buf[:n] {
			if e.call != at+uint64(i)+1 {
				t.Errorf("%s: entry %d is of call %d", why, at+uint64(i), e.call)
			}
		}
	}
	check("nothing was recorded", 0, 4, 0, 0)
	add(5)
	check("all", 0, 8, 0, 5)
	check("a part", 1, 2, 1, 2)
	check("what is to come", 5, 8, 5, 0)
	add(8)
	check("the last, over the end of the list", 0, 8, 5, 8)
	check("a part over the end", 6, 5, 6, 5)
	r.reset()
	check("nothing since a reset", 0, 8, 13, 0)
	add(1)
	check("one since a reset", 0, 8, 13, 1)
	if n := testing.AllocsPerRun(100, func() { add(1) }); n != 0 {
		t.Errorf("%v allocations to add an entry", n)
	}
}

// attemptsAt reads a page of attempts.
func attemptsAt(t *testing.T, tg *Target, query string) (list []Attempt) {
	t.Helper()
	status, body := page(t, "GET", "http://"+tg.Admin().String()+"/attempts"+query)
	if status != 200 {
		t.Fatalf("%s: status %d: %s", query, status, body)
	}
	for line := range strings.Lines(body) {
		a, err := ParseAttempt([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v: %s", query, err, line)
		}
		list = append(list, a)
	}
	return list
}

// TestAttemptThatHung: the record of a request that hung until its caller left
// names the fault, as the ledger's count does.
func TestAttemptThatHung(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Faults: service.Faults{service.FaultHang: {Share: 1}}}})
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	settle(t, "arrival", func() bool { r := tg.Ledger().Run(""); return r != nil && r.Arrived == 1 })
	c.Close()
	settle(t, "end", func() bool { return tg.Ledger().Run("").Cancelled.Dropped == 1 })
	list := attemptsAt(t, tg, "?fault=hang")
	if len(list) != 1 || list[0].End != "dropped" || list[0].Status != nil || list[0].LeftNS == nil || list[0].Worked {
		t.Errorf("attempts that hung: %+v, want one", list)
	}
}

func TestAttempts(t *testing.T) {
	spec := &service.Spec{
		Replicas: 2, Queue: 0, Slots: 1, Time: dist(t, "2ms"), Cancel: service.CancelRunning,
		Each: []service.Each{{Replica: 1, Time: new(dist(t, "1h"))}},
	}
	tg := begin(t, Config{Service: spec, Threads: 2})
	c := dial(t, tg.Replicas()[0])
	for call := range uint64(5) {
		c.send(get(`a"\b`, call, 1))
		c.answer("GET")
	}
	c.send(plainGet)
	c.answer("GET")
	busy, shed := dial(t, tg.Replicas()[1]), dial(t, tg.Replicas()[1])
	busy.send(get("b", 7, 2))
	settle(t, "arrival", func() bool { r := tg.Ledger().Run("b"); return r != nil })
	shed.send(get("b", 8, 1))
	shed.answer("GET")
	busy.Close()
	settle(t, "end", func() bool { return tg.Ledger().Run("b").Cancelled.Dropped == 1 })

	all := attemptsAt(t, tg, "")
	if len(all) != 8 {
		t.Fatalf("%d attempts, want 8", len(all))
	}
	a := all[0]
	if *a.Run != `a"\b` || a.Call != 0 || !a.Numbered || a.Attempt != 1 || a.Replica != 0 || a.End != "answered" || *a.Status != 200 || a.Fault != "none" ||
		!a.Worked || a.WorkNS != 2e6 || a.WaitNS != 0 || a.LeftNS != nil || a.DelayErrorNS == nil || a.TookNS != a.WorkNS+*a.DelayErrorNS {
		t.Errorf("the first: %+v", a)
	}
	if a := all[5]; *a.Run != "" || a.Numbered || a.Call != 0 {
		t.Errorf("one without headers: %+v", a)
	}
	if a := all[6]; !a.Shed || a.Worked || *a.Status != 503 || a.WorkNS != 0 || a.WaitNS != 0 {
		t.Errorf("the shed one: %+v", a)
	}
	if a := all[7]; a.End != "dropped" || a.Status != nil || a.LeftNS == nil || a.WorkNS != *a.LeftNS || a.TookNS != a.WorkNS || a.DelayErrorNS != nil || a.Attempt != 2 || !a.Worked {
		t.Errorf("the one whose caller left: %+v", a)
	}
	for _, row := range []struct {
		query string
		want  int
	}{
		{"?run=b", 2},
		{"?run=", 1},
		{"?run=nobody", 0},
		{"?replica=1", 2},
		{"?last=3", 3},
		{"?run=b&end=dropped", 1},
		{"?status=503", 1},
		{"?call=4&run=a%22%5Cb", 1},
		{"?fault=none", 8},
	} {
		if list := attemptsAt(t, tg, row.query); len(list) != row.want {
			t.Errorf("%s: %d attempts, want %d", row.query, len(list), row.want)
		}
	}
	for _, row := range []struct{ query, want string }{
		{"?last=0", `last = "0", want 1 to 65536`},
		{"?replica=x", `replica = "x", want a number`},
		{"?end=gone", `end = "gone", want answered`},
		{"?runs=b", `unknown filter "runs", want run,`},
	} {
		status, body := page(t, "GET", "http://"+tg.Admin().String()+"/attempts"+row.query)
		if status != 400 || !strings.HasPrefix(body, row.want) {
			t.Errorf("%s: %d %q, want 400 %q", row.query, status, body, row.want)
		}
	}
	for range 2 * attemptPages { // each gives its place back
		if status, _ := page(t, "HEAD", "http://"+tg.Admin().String()+"/attempts"); status != 200 {
			t.Errorf("HEAD: status %d", status)
		}
	}

	// The work in the ledger is the work that the servers have counted.
	work, counted := uint64(0), uint64(0)
	for _, run := range tg.Ledger().Runs {
		sums(t, &run)
		work += run.Work.Total().NS
	}
	for _, l := range tg.loops {
		l.do(func() {
			for _, r := range l.replicas {
				counted += uint64(r.server.Counts().Worked)
			}
		})
	}
	if work != counted {
		t.Errorf("work of %d ns in the ledger, %d ns at the servers", work, counted)
	}
	tg.Reset()
	if list := attemptsAt(t, tg, ""); len(list) != 0 {
		t.Errorf("%d attempts after a reset", len(list))
	}
}

// TestAttemptsPageIsBounded: readers that do not read get 503 beyond a few, and
// give their places back when they leave.
func TestAttemptsPageIsBounded(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	for range attemptPages {
		tg.pages.attempts <- struct{}{}
	}
	url := "http://" + tg.Admin().String() + "/attempts"
	if status, body := page(t, "GET", url); status != 503 {
		t.Errorf("status %d %q, want 503", status, body)
	}
	<-tg.pages.attempts
	if status, _ := page(t, "GET", url); status != 200 {
		t.Errorf("status %d, want 200", status)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if got := resp.Header.Get("Content-Type"); got != "application/x-ndjson" {
		t.Errorf("content type %q", got)
	}
}

func TestRingOfTheTarget(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1, Body: 10}})
	if n := len(tg.loops[0].ring.list); n != 65536 {
		t.Errorf("%d attempts are kept, want 65536", n)
	}
	tg.loops[0].do(func() { tg.loops[0].ring.init(64) })
	c := dial(t, tg.Replicas()[0])
	for call := range uint64(150) {
		c.send(get("r"+strconv.Itoa(int(call%2)), call, 1))
		c.answer("GET")
	}
	list := attemptsAt(t, tg, "?last=1000")
	if len(list) != 64 || list[0].Call != 86 || list[63].Call != 149 || list[0].N != 86 {
		t.Errorf("%d attempts from call %d to %d", len(list), list[0].Call, list[len(list)-1].Call)
	}
}
