package target

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/http1"
	"latencylab/service"
)

// patience bounds every wait of a test; reaching it is a failure.
const patience = 20 * time.Second

func dist(t testing.TB, s string) service.Dist {
	t.Helper()
	d, err := service.ParseDist(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// begin starts a target that ends with the test.
func begin(t testing.TB, cfg Config) *Target {
	t.Helper()
	tg, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Stop)
	return tg
}

// caller is a plain connection to a replica.
type caller struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, to netip.AddrPort) *caller {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return &caller{t, c, bufio.NewReader(c)}
}

func (c *caller) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, s); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one answer to a request of that method and its whole body.
func (c *caller) answer(method string) (*http.Response, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(body)
}

// closed fails unless the connection ends without a further byte.
func (c *caller) closed() {
	c.t.Helper()
	if b, err := io.ReadAll(c.r); err != nil || len(b) > 0 {
		c.t.Fatalf("read %q, %v, want the end", b, err)
	}
}

// get is a request with the headers that our client sends.
func get(run string, call, attempt uint64) string {
	return fmt.Sprintf("GET /x HTTP/1.1\r\nHost: a\r\nLatencylab-Run: %s\r\nLatencylab-Call: %d\r\nLatencylab-Attempt: %d\r\n\r\n", run, call, attempt)
}

const plainGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// settle waits until f holds; what it waits for happens on another goroutine
// without telling anyone.
func settle(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); {
		if time.Now().After(end) {
			t.Fatalf("%s did not come to hold", what)
		}
	}
}

// sums fails when the identities of a run do not hold.
func sums(t testing.TB, r *Run) {
	t.Helper()
	if r == nil {
		t.Fatal("the ledger does not know the run")
	}
	if r.Arrived != r.First+r.Later {
		t.Errorf("arrived %d, first + later = %d", r.Arrived, r.First+r.Later)
	}
	if n := r.AnsweredTotal() + r.Broken + r.AfterLeft + r.Cancelled.Dropped + r.InFlight; n != r.Arrived {
		t.Errorf("arrived %d, the ends and those in flight add up to %d", r.Arrived, n)
	}
	if c := r.Cancelled; c.Queued+c.Running != c.Dropped+c.WentOn {
		t.Errorf("cancelled: %+v does not add up", c)
	}
	for _, row := range []struct {
		end       string
		worked, n uint64
	}{
		{"answered", r.Work.Answered.Requests, r.AnsweredTotal()}, {"after_left", r.Work.AfterLeft.Requests, r.AfterLeft},
		{"dropped", r.Work.Dropped.Requests, r.Cancelled.Dropped}, {"broken", r.Work.Broken.Requests, r.Broken},
	} {
		if row.worked > row.n {
			t.Errorf("%s: %d worked on, of %d", row.end, row.worked, row.n)
		}
	}
	for _, row := range []struct {
		what string
		said Repeats
		n    uint64
	}{
		{"arrived", r.Duplicates.Arrived, r.Arrived},
		{"worked on", r.Duplicates.Worked, r.Work.Total().Requests},
		{"answered", r.Duplicates.Answered, r.AnsweredTotal()},
	} {
		if n := row.said.Calls + row.said.Repeats + row.said.Untold; n != row.n || row.said.CallsRepeated > row.said.Repeats {
			t.Errorf("%d %s, of which %+v", row.n, row.what, row.said)
		}
	}
	by := uint64(0)
	for _, n := range r.ByReplica {
		by += n
	}
	if by != r.Arrived {
		t.Errorf("arrived %d, by replica %d", r.Arrived, by)
	}
}

func TestKeyedDraws(t *testing.T) {
	spec := &service.Spec{
		Replicas: 3, Queue: -1, Time: dist(t, "uniform(1ms,5ms)"), Slow: service.Slow{Share: 0.2, Time: dist(t, "8ms")},
		Status: []service.StatusShare{{Status: 503, Share: 0.3}}, RetryAfter: 2 * time.Second, Body: 100,
		Each: []service.Each{{Replica: 2, Factor: 2}},
	}
	tg := begin(t, Config{Service: spec, Seed: 7, Threads: 2})
	var first, all Digest
	answered := map[uint16]uint64{}
	for replica, addr := range tg.Replicas() {
		c := dial(t, addr)
		for call := range uint64(20) {
			attempt := uint32(1 + call%2)
			sent := time.Now()
			c.send(get("r", call, uint64(attempt)))
			resp, body := c.answer("GET")
			took := time.Since(sent)
			drawn, status := spec.Draw(7, replica, call, attempt)
			answered[status]++
			if resp.StatusCode != int(status) || len(body) != 100 || took < drawn {
				t.Errorf("replica %d call %d: status %d, %d bytes after %v; want %d, 100 after %v", replica, call, resp.StatusCode, len(body), took, status, drawn)
			}
			if got := resp.Header.Get("Latencylab-Replica"); got != fmt.Sprint(replica) {
				t.Errorf("Latencylab-Replica = %q, want %d", got, replica)
			}
			if got, want := resp.Header.Get("Retry-After"), map[bool]string{true: "2"}[status == 503]; got != want {
				t.Errorf("status %d: Retry-After = %q, want %q", status, got, want)
			}
			d := digestOf(call, attempt, drawn)
			all += d
			if attempt == 1 {
				first += d
			}
		}
	}
	r := tg.Ledger().Run("r")
	sums(t, r)
	if r.DrawsFirst != first || r.DrawsAll != all {
		t.Errorf("digests %x %x, want %x %x", r.DrawsFirst, r.DrawsAll, first, all)
	}
	if diff := cmp.Diff(answered, r.Answered); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint64{20, 20, 20}, r.ByReplica); diff != "" || r.First != 30 || r.Later != 30 {
		t.Errorf("by replica %v, first %d, later %d", r.ByReplica, r.First, r.Later)
	}
	if r.DelayError.Count != 60 || r.ReadDelay.Count+r.Unstamped != 60 {
		t.Errorf("delay error of %d, read delay of %d and %d unstamped, want 60", r.DelayError.Count, r.ReadDelay.Count, r.Unstamped)
	}
}

func TestArrivalNumbers(t *testing.T) {
	spec := &service.Spec{Replicas: 2, Queue: -1, Time: dist(t, "uniform(0ms,1ms)")}
	tg := begin(t, Config{Service: spec, Seed: 3})
	number := func(replica, n int) (want Digest) {
		c := dial(t, tg.Replicas()[replica])
		for call := range uint64(n) {
			c.send(plainGet)
			c.answer("GET")
			drawn, _ := spec.Draw(3, replica, call, 1)
			want += digestOf(call, 1, drawn)
		}
		return want
	}
	want := number(0, 5) + number(1, 3)
	r := tg.Ledger().Run("")
	sums(t, r)
	if r.Arrived != 8 || r.First != 8 || r.DrawsFirst != want {
		t.Errorf("callers without numbers: %+v, want 8 with digest %x", r.Counts, want)
	}
	tg.Reset()
	if n := len(tg.Ledger().Runs); n != 0 {
		t.Errorf("%d runs after a reset, want 0", n)
	}
	if want, got := number(0, 2), tg.Ledger().Run("").DrawsFirst; got != want {
		t.Errorf("digest after a reset %x, want %x: numbers begin again", got, want)
	}
}

func TestEveryByteAlone(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1, Body: 3}, Seed: 1})
	request := "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nLatencylab-Call: 9\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	for cut := 1; cut < len(request); cut++ {
		c := dial(t, tg.Replicas()[0])
		c.send(request[:cut])
		// A whole exchange on another connection: the first part has been read.
		o := dial(t, tg.Replicas()[0])
		o.send(plainGet)
		o.answer("GET")
		c.send(request[cut:])
		if resp, body := c.answer("POST"); resp.StatusCode != 200 || len(body) != 3 {
			t.Fatalf("cut at %d: %d %q", cut, resp.StatusCode, body)
		}
		c.send(plainGet)
		c.answer("GET")
		c.Close()
		o.Close()
	}
	c := dial(t, tg.Replicas()[0])
	for i := range len(request) {
		c.send(request[i : i+1])
	}
	c.answer("POST")
	if r := tg.Ledger().Run(""); int(r.Arrived) != 3*(len(request)-1)+1 {
		t.Errorf("arrived %d, want %d", r.Arrived, 3*(len(request)-1)+1)
	}
}

func TestPipelining(t *testing.T) {
	spec := &service.Spec{Queue: -1, Time: dist(t, "uniform(0ms,2ms)"), Body: 10}
	tg := begin(t, Config{Service: spec, Seed: 1})
	c := dial(t, tg.Replicas()[0])
	const n = 200
	var all strings.Builder
	for call := range uint64(n) {
		if call == 100 {
			all.WriteString("GET " + http1.WellKnownPath + " HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		all.WriteString(get("p", call, 1))
	}
	c.send(all.String())
	for call := range n {
		if call == 100 {
			if _, body := c.answer("GET"); !strings.Contains(body, "target/1") {
				t.Fatalf("announcement %q", body)
			}
		}
		if resp, body := c.answer("GET"); resp.StatusCode != 200 || len(body) != 10 {
			t.Fatalf("call %d: %d %q", call, resp.StatusCode, body)
		}
	}
	l := tg.Ledger()
	r := l.Run("p")
	sums(t, r)
	if r.Arrived != n || r.BusyPeak != 1 || l.Connections.WellKnown != 1 {
		t.Errorf("arrived %d, busy peak %d, announced %d; want %d, one after the other, and 1", r.Arrived, r.BusyPeak, l.Connections.WellKnown, n)
	}
}

// half closes the sending side, as a caller that has nothing more to say.
func (c *caller) half() { c.Conn.(*net.TCPConn).CloseWrite() }

func TestConversations(t *testing.T) {
	for _, row := range []struct {
		what, send string
		method     string
		half       bool
		status     int
		body       int
		head       string // wanted in the answer's Connection
		closes     bool
	}{
		{what: "HTTP/1.1 keeps the connection", send: plainGet, status: 200, body: 64},
		{what: "HTTP/1.1 with Connection: close ends it", send: "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", status: 200, body: 64, head: "close", closes: true},
		{what: "HTTP/1.0 ends it", send: "GET / HTTP/1.0\r\n\r\n", status: 200, body: 64, head: "close", closes: true},
		{what: "HTTP/1.0 with keep-alive is told that it stays", send: "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", status: 200, body: 64, head: "keep-alive"},
		{what: "HEAD has no body", send: "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", method: "HEAD", status: 200},
		{what: "a caller that half-closes is answered when cancelling stops nothing", send: plainGet, half: true, status: 200, body: 64, closes: true},
		{what: "no Host", send: "GET / HTTP/1.1\r\n\r\n", status: 400, body: -1, head: "close", closes: true},
		{what: "not HTTP at all", send: "\x16\x03\x01\x02", status: 400, body: -1, head: "close", closes: true},
		{what: "a field line without name", send: "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", status: 400, body: -1, head: "close", closes: true},
		{what: "two lengths", send: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", status: 400, body: -1, head: "close", closes: true},
		{what: "an unknown transfer coding", send: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", status: 501, body: -1, head: "close", closes: true},
		{what: "HTTP/2 by prior knowledge", send: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", status: 505, body: -1, head: "close", closes: true},
		{what: "a head without end", send: "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: "+strings.Repeat("y", 8000)+"\r\n", 100), status: 431, body: -1, head: "close", closes: true},
		{what: "a line without end", send: "GET /" + strings.Repeat("z", 200_000), status: 431, body: -1, head: "close", closes: true},
	} {
		t.Run(row.what, func(t *testing.T) {
			tg := begin(t, Config{Service: &service.Spec{Queue: -1, Body: 64, Time: dist(t, "1ms")}})
			c := dial(t, tg.Replicas()[0])
			c.send(row.send)
			if row.half {
				c.half()
			}
			method := row.method
			if method == "" {
				method = "GET"
			}
			resp, body := c.answer(method)
			if resp.StatusCode != row.status || row.body >= 0 && len(body) != row.body {
				t.Fatalf("%d %q, want %d and %d bytes", resp.StatusCode, body, row.status, row.body)
			}
			if method == "HEAD" && resp.ContentLength != 64 {
				t.Errorf("Content-Length %d, want 64", resp.ContentLength)
			}
			if got := resp.Header.Get("Connection"); got != row.head && !(got == "" && resp.Close) {
				t.Errorf("Connection: %q, want %q", got, row.head)
			}
			if row.closes {
				c.closed()
			} else {
				c.send(plainGet)
				c.answer("GET")
			}
		})
	}
}

func TestUpload(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	const size = 20 << 20
	c := dial(t, tg.Replicas()[0])
	c.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
	if _, err := c.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	c.answer("POST")

	c.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	line, err := c.r.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("read %q, %v, want 100", line, err)
	}
	c.r.ReadString('\n')
	c.send("hello")
	if resp, _ := c.answer("POST"); resp.StatusCode != 200 {
		t.Errorf("status %d, want 200", resp.StatusCode)
	}
}

func TestLargeAnswers(t *testing.T) {
	const size = 5<<20 + 13
	tg := begin(t, Config{Service: &service.Spec{Queue: -1, Body: size}})
	want := http1.AppendResponse(nil, http1.Answer{Status: 200, Body: size})
	want = want[len(want)-size:]
	c := dial(t, tg.Replicas()[0])
	c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10) // else the buffers of both sides may grow to hold an answer
	c.send(plainGet + plainGet)
	for range 2 {
		if _, body := c.answer("GET"); !bytes.Equal([]byte(body), want) {
			t.Fatal("the body is not the repeated pattern")
		}
	}
	// A caller that leaves in the middle.
	c.send(plainGet)
	c.r.ReadByte()
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
	settle(t, "an answer cut short", func() bool { return tg.Ledger().Run("").CutShort == 1 })
	r := tg.Ledger().Run("")
	sums(t, r)
	if r.Answered[200] != 3 {
		t.Errorf("answered %v, want 3, of which one was cut short", r.Answered)
	}
}

func TestManyDelayed(t *testing.T) {
	const n = 1000
	spec := &service.Spec{Replicas: 2, Queue: -1, Time: dist(t, "uniform(100ms,200ms)")}
	tg := begin(t, Config{Service: spec, Seed: 1, Threads: 2})
	var wg sync.WaitGroup
	took := make([]time.Duration, n)
	for i := range n {
		c := dial(t, tg.Replicas()[i%2])
		wg.Go(func() {
			sent := time.Now()
			c.send(get("many", uint64(i), 1))
			c.answer("GET")
			took[i] = time.Since(sent)
		})
	}
	wg.Wait()
	for i, d := range took {
		if drawn, _ := spec.Draw(1, i%2, uint64(i), 1); d < drawn {
			t.Errorf("call %d was answered after %v, want %v", i, d, drawn)
		}
	}
	r := tg.Ledger().Run("many")
	sums(t, r)
	if r.Arrived != n || r.Answered[200] != n || r.InFlight != 0 {
		t.Errorf("%+v, want %d answered", r, n)
	}
}

func TestRunKeys(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	c := dial(t, tg.Replicas()[0])
	const keys = MaxRuns + 3
	for i := range keys {
		c.send(get(fmt.Sprintf("k%03d", i), 1, 1))
		c.answer("GET")
	}
	c.send(plainGet) // the empty key comes too late
	c.answer("GET")
	l := tg.Ledger()
	if len(l.Runs) != MaxRuns || l.Other == nil || l.Other.Arrived != keys+1-MaxRuns || len(l.Warnings) != 1 {
		t.Fatalf("%d runs, other %+v, warnings %q", len(l.Runs), l.Other, l.Warnings)
	}
	if total := l.Total(); total.Arrived != keys+1 || total.Answered[200] != keys+1 {
		t.Errorf("total %+v, want %d", total, keys+1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	one, err := FetchLedger(ctx, tg.LedgerURL(), "k007")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tg.LedgerOf("k007"), one); diff != "" || len(one.Runs) != 1 || one.Run("k007").Arrived != 1 {
		t.Errorf("fetched (-in process +over HTTP):\n%s", diff)
	}
}
