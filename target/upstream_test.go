package target

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"latencylab/service"
)

// inFront starts a target in front of a handler.
func inFront(t testing.TB, spec *service.Spec, u Upstream, h http.HandlerFunc) *Target {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u.Address = s.Listener.Addr().String()
	if spec.Queue == 0 {
		spec.Queue = -1
	}
	if spec.Queue == 0 {
		spec.Queue = -1
	}
	tg := begin(t, Config{Service: spec, Upstream: u})
	t.Cleanup(tg.Stop) // before the server, which waits for its requests
	return tg
}

// passed fails when the identities of the ledger do not hold.
func passed(t testing.TB, tg *Target) *UpstreamLedger {
	t.Helper()
	l := tg.Ledger()
	for i := range l.Runs {
		sums(t, &l.Runs[i])
	}
	u := l.Upstream
	n := u.Answered + u.Cancelled + u.InFlight
	for _, k := range u.Failed { // order does not show: a sum
		n += k
	}
	if n != u.Forwarded {
		t.Errorf("%+v: forwarded %d, its parts add up to %d", u, u.Forwarded, n)
	}
	return u
}

func TestUpstreamHandsBothWays(t *testing.T) {
	large := strings.Repeat("0123456789abcde\n", 1<<16) // 1 MiB
	tg := inFront(t, &service.Spec{}, Upstream{}, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header()["Date"] = nil
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header().Add("X-Two", "a")
		w.Header().Add("X-Two", "b")
		w.Header().Set("X-Saw", fmt.Sprintf("%s %s %s %v %v", r.Method, r.RequestURI, r.Host, r.TransferEncoding, r.ContentLength))
		w.Header().Set("X-Names", fmt.Sprint(r.Header["X-Own"], r.Header["X-Drop"], r.Header["Te"], r.Header["Expect"], r.Header["User-Agent"], r.Header["Via"], r.Header["Latencylab-Call"]))
		switch r.URL.Path {
		case "/echo":
			w.Write(body)
		case "/chunks":
			for part := range strings.SplitSeq(string(body), "\n") {
				io.WriteString(w, part)
				w.(http.Flusher).Flush()
			}
		case "/large":
			io.WriteString(w, large)
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(304)
		case "/head":
			w.Header().Set("Content-Length", "1234")
		default:
			w.WriteHeader(404)
			io.WriteString(w, "no\n")
		}
	})
	const tail = "Host: a.example\r\nX-Own: 1\r\nX-Drop: 1\r\nConnection: x-drop\r\nTE: trailers\r\n"
	const names = "[1] [] [] [] [] [1.1 latencylab-target] []"
	for _, row := range []struct {
		why, request string
		status       int
		saw, body    string
		length       int64
	}{
		{"a body with a length, both ways", "POST /echo?a=%20b HTTP/1.1\r\n" + tail + "Content-Length: 5\r\n\r\nhello", 200, "POST /echo?a=%20b a.example [] 5", "hello", 5},
		{"a body in chunks, both ways", "PUT /chunks HTTP/1.1\r\n" + tail + "Transfer-Encoding: chunked\r\n\r\n3\r\nab\n\r\n2\r\ncd\r\n0\r\n\r\n", 200, "PUT /chunks a.example [chunked] -1", "abcd", 4},
		{"a client that waits for 100", "POST /echo HTTP/1.1\r\n" + tail + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", 200, "POST /echo a.example [] 2", "hi", 2},
		{"a large body upstream", "POST /echo HTTP/1.1\r\n" + tail + "Content-Length: " + strconv.Itoa(len(large)) + "\r\n\r\n" + large, 200, "POST /echo a.example [] " + strconv.Itoa(len(large)), large, int64(len(large))},
		{"a large answer", "GET /large HTTP/1.1\r\n" + tail + "\r\n", 200, "GET /large a.example [] 0", large, int64(len(large))},
		{"a path is handed on as it was sent", "GET /a//%2F;b/.. HTTP/1.1\r\n" + tail + "\r\n", 404, "GET /a//%2F;b/.. a.example [] 0", "no\n", 3},
		{"absolute form", "GET http://b.example/echo HTTP/1.1\r\n" + tail + "\r\n", 200, "GET /echo b.example [] 0", "", 0},
		{"HEAD, with the length of what is not sent", "HEAD /head HTTP/1.1\r\n" + tail + "\r\n", 200, "HEAD /head a.example [] 0", "", 1234},
		{"204", "DELETE /204 HTTP/1.1\r\n" + tail + "\r\n", 204, "DELETE /204 a.example [] 0", "", 0},
		{"304", "GET /304 HTTP/1.1\r\n" + tail + "\r\n", 304, "GET /304 a.example [] 0", "", 0},
		{"a status of the upstream", "PATCH /x HTTP/1.1\r\n" + tail + "\r\n", 404, "PATCH /x a.example [] 0", "no\n", 3},
	} {
		t.Run(row.why, func(t *testing.T) {
			c := dial(t, tg.Replicas()[0])
			for range 2 { // the connection goes on
				c.send(row.request)
				method, _, _ := strings.Cut(row.request, " ")
				resp, body := c.answer(method)
				if resp.StatusCode == 100 {
					resp, body = c.answer(method)
				}
				if resp.StatusCode != row.status || body != row.body || resp.ContentLength != row.length && row.status != 304 {
					t.Errorf("%s, length %d, %d bytes of body; want %d, %d, %d", resp.Status, resp.ContentLength, len(body), row.status, row.length, len(row.body))
				}
				h := resp.Header
				if h.Get("X-Saw") != row.saw || h.Get("X-Names") != names {
					t.Errorf("the upstream saw %q, %q, want %q, %q", h.Get("X-Saw"), h.Get("X-Names"), row.saw, names)
				}
				if h.Get("X-Hop") != "" || fmt.Sprint(h["X-Two"]) != "[a b]" || len(h["Date"]) != 1 || h.Get("Latencylab-Replica") != "0" || h.Get("Latencylab-Work") == "" {
					t.Errorf("%v", h)
				}
			}
		})
	}
	u := passed(t, tg)
	if u.Forwarded != 22 || u.Answered != 22 || u.Time.Count != 22 || u.Opened == 0 {
		t.Errorf("%+v, want 22 forwarded and answered", u)
	}
	settle(t, "the room", func() bool { return tg.upstream.held.Load() == 0 })
}

func TestUpstreamSetbacks(t *testing.T) {
	release := make(chan struct{})
	tg := inFront(t, &service.Spec{}, Upstream{Body: 1000, Timeout: 100 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		conn := func() net.Conn {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
			}
			return c
		}
		switch r.URL.Path {
		case "/slow":
			select {
			case <-r.Context().Done():
			case <-release:
			}
		case "/close":
			conn().Close()
		case "/odd":
			c := conn()
			io.WriteString(c, "HTTP/1.1 OK\r\n\r\n")
			c.Close()
		case "/cut":
			c := conn()
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
			c.Close()
		case "/long", "/longer":
			io.WriteString(w, strings.Repeat("x", 1000))
			if r.URL.Path == "/longer" {
				w.(http.Flusher).Flush()
				io.WriteString(w, "x")
			}
		}
	})
	t.Cleanup(func() { close(release) })
	for _, row := range []struct {
		path   string
		status int
		reason string
	}{
		{"/slow", 504, "timeout"}, {"/close", 502, "closed"}, {"/odd", 502, "malformed"}, {"/cut", 502, "truncated"},
		{"/longer", 502, "too-large"}, {"/long", 200, ""},
	} {
		c := dial(t, tg.Replicas()[0])
		c.send("POST " + row.path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("y", 1000))
		resp, _ := c.answer("POST")
		if resp.StatusCode != row.status || resp.Header.Get("Latencylab-Upstream") != row.reason {
			t.Errorf("%s: %s, reason %q, want %d, %q", row.path, resp.Status, resp.Header.Get("Latencylab-Upstream"), row.status, row.reason)
		}
		if row.reason != "" && passed(t, tg).Failed[row.reason] != 1 {
			t.Errorf("%s: %+v", row.path, tg.Ledger().Upstream)
		}
	}
	for _, head := range []string{"Content-Length: 1001\r\n\r\n", "Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n3E9\r\n"} {
		c := dial(t, tg.Replicas()[0])
		c.send("POST / HTTP/1.1\r\nHost: a\r\n" + head)
		if resp, _ := c.answer("POST"); resp.StatusCode != 413 || !resp.Close {
			t.Errorf("%q: %s, want 413 and the end", head, resp.Status)
		}
	}
	if u := passed(t, tg); u.TooLarge != 3 || u.Forwarded != 6 {
		t.Errorf("%+v, want 3 too large, 6 forwarded", u)
	}
	settle(t, "the room", func() bool { return tg.upstream.held.Load() == 0 })
}

func TestUpstreamDead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}, Upstream: Upstream{Address: addr}})
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	resp, body := c.answer("GET")
	if resp.StatusCode != 502 || resp.Header.Get("Latencylab-Upstream") != "refused" || body != "the upstream refuses connections\n" {
		t.Errorf("%s %v %q", resp.Status, resp.Header, body)
	}
	if u := passed(t, tg); u.Failed["refused"] != 1 || tg.Ledger().Runs[0].Answered[502] != 1 {
		t.Errorf("%+v", u)
	}
}

// TestUpstreamCallerLeaves has a caller leave while the upstream works.
func TestUpstreamCallerLeaves(t *testing.T) {
	for _, cancel := range []service.Cancel{service.CancelNone, service.CancelQueued, service.CancelRunning} {
		t.Run(cancel.String(), func(t *testing.T) {
			begun, left, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
			tg := inFront(t, &service.Spec{Cancel: cancel}, Upstream{}, func(w http.ResponseWriter, r *http.Request) {
				close(begun)
				select {
				case <-r.Context().Done():
					close(left)
				case <-release:
				}
			})
			c := dial(t, tg.Replicas()[0])
			c.send(get("r", 1, 1))
			<-begun
			c.Close()
			want := Cancelled{Running: 1, WentOn: 1}
			if cancel == service.CancelRunning {
				<-left
				want = Cancelled{Running: 1, Dropped: 1}
			} else {
				settle(t, "the leaving", func() bool { return tg.Ledger().Run("r").Cancelled == want })
				close(release)
			}
			settle(t, "the end", func() bool { return tg.Ledger().Upstream.InFlight == 0 })
			u, r := passed(t, tg), tg.Ledger().Run("r")
			if cancel == service.CancelRunning && (u.Cancelled != 1 || r.Work.Dropped.Requests != 1) ||
				cancel != service.CancelRunning && (u.Answered != 1 || r.AfterLeft != 1) || r.Cancelled != want {
				t.Errorf("%+v, %+v", u, r)
			}
			settle(t, "the room", func() bool { return tg.upstream.held.Load() == 0 })
		})
	}
}

// TestUpstreamUnderFaults has the target's own misbehaviour strike what the
// upstream answers.
func TestUpstreamUnderFaults(t *testing.T) {
	body := strings.Repeat("0123456789abcde\n", 1<<12)
	for f := service.FaultNone + 1; f < service.Kinds; f++ {
		if !f.Spoils() || f.Shape().Interval > 0 {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			spec := &service.Spec{Body: 1}
			spec.Faults[f].Share = 1
			tg := inFront(t, spec, Upstream{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Own", "1")
				io.WriteString(w, body)
			})
			c := dial(t, tg.Replicas()[0])
			c.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			if f == service.FaultBodyStall {
				got := make([]byte, len(body)/2)
				if _, err := io.ReadFull(c.r, got); err != nil {
					t.Fatal(err)
				}
				c.Close()
				settle(t, "the leaving", func() bool { return tg.Ledger().Runs[0].Cancelled.Dropped == 1 })
			} else {
				got, _ := io.ReadAll(c.r) // reset or not
				head, sent, _ := bytes.Cut(got, []byte("\r\n\r\n"))
				if f == service.FaultChunkCut {
					_, sent, _ = bytes.Cut(sent, []byte("\r\n"))
				}
				whole := f != service.FaultHeadTruncated && f != service.FaultBodyReset && f != service.FaultChunkCut
				if !whole && len(sent) >= len(body) || whole && (!bytes.HasPrefix(sent, []byte(body)) || !bytes.Contains(head, []byte("X-Own: 1"))) {
					t.Errorf("%q and %d bytes of body", head, len(sent))
				}
				if !whole && !bytes.HasPrefix([]byte(body), sent) {
					t.Errorf("the body is not that of the upstream: %.40q", sent)
				}
			}
			settle(t, "the fault", func() bool { return tg.Ledger().Runs[0].Faults[f.String()] == 1 })
			if u := passed(t, tg); u.Answered != 1 {
				t.Errorf("%+v, want 1 answered", u)
			}
		})
	}
	t.Run("status", func(t *testing.T) {
		var asked atomic.Uint64
		spec := &service.Spec{Status: []service.StatusShare{{Status: 503, Share: 0.5}}, Slots: 1}
		tg := inFront(t, spec, Upstream{}, func(w http.ResponseWriter, r *http.Request) { asked.Add(1) })
		c := dial(t, tg.Replicas()[0])
		for call := range uint64(100) {
			c.send(get("r", call, 1))
			c.answer("GET")
		}
		u, r := passed(t, tg), tg.Ledger().Run("r")
		if n := asked.Load(); r.Answered[503] < 20 || n != u.Forwarded || r.Answered[200] != n || r.Answered[503]+n != 100 {
			t.Errorf("the upstream was asked %d times; %v", n, r.Answered)
		}
	})
	t.Run("no body to strike", func(t *testing.T) {
		spec := &service.Spec{Body: 1}
		spec.Faults[service.FaultBodyReset].Share = 0.5
		spec.Faults[service.FaultLengthLong].Share = 0.5
		tg := inFront(t, spec, Upstream{}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) })
		c := dial(t, tg.Replicas()[0])
		for call := range uint64(10) {
			c.send(get("r", call, 1))
			if resp, _ := c.answer("GET"); resp.StatusCode != 204 {
				t.Fatal(resp.Status)
			}
		}
		if r := tg.Ledger().Run("r"); r.Faults != nil || r.Answered[204] != 10 {
			t.Errorf("%+v", r)
		}
	})
}

// TestUpstreamWaits has more callers than connections to the upstream, and kills
// the replica under some.
func TestUpstreamWaits(t *testing.T) {
	var busy, peak atomic.Int64
	release := make(chan struct{})
	tg := inFront(t, &service.Spec{}, Upstream{Connections: 2}, func(w http.ResponseWriter, r *http.Request) {
		n := busy.Add(1)
		defer busy.Add(-1)
		for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
		}
		<-release
	})
	var all sync.WaitGroup
	for i := range 5 {
		c := dial(t, tg.Replicas()[0])
		c.send(get("r", uint64(i), 1))
		all.Go(func() {
			if resp, _ := c.answer("GET"); resp.StatusCode != 200 {
				t.Error(resp.Status)
			}
		})
	}
	settle(t, "the arrivals", func() bool { u := tg.Ledger().Upstream; return u.InFlight == 5 && busy.Load() == 2 })
	close(release)
	all.Wait()
	if u := passed(t, tg); u.Waited < 3 || u.Answered != 5 || peak.Load() != 2 || u.Opened != 2 {
		t.Errorf("%+v, peak %d, want 3 that waited for 2 connections", u, peak.Load())
	}
}

func TestUpstreamKilled(t *testing.T) {
	begun, left := make(chan struct{}), make(chan struct{})
	tg := inFront(t, &service.Spec{}, Upstream{}, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(left)
	})
	c := dial(t, tg.Replicas()[0])
	c.send(get("r", 1, 1))
	<-begun
	if _, err := tg.Kill(0); err != nil {
		t.Fatal(err)
	}
	<-left
	settle(t, "the end", func() bool { return tg.Ledger().Upstream.InFlight == 0 })
	if u, r := passed(t, tg), tg.Ledger().Run("r"); u.Cancelled != 1 || r.Killed != 1 {
		t.Errorf("%+v, %+v", u, r)
	}
}

// TestUpstreamBehindTLS has large bodies go both ways over TLS, to replicas of two
// loops behind one address.
func TestUpstreamBehindTLS(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	t.Cleanup(s.Close)
	tg := begin(t, Config{
		Service: &service.Spec{Queue: -1, Replicas: 2}, Threads: 2, TLS: &TLS{}, Front: DealRoundRobin,
		Upstream: Upstream{Address: s.Listener.Addr().String()},
	})
	front, _ := tg.Front()
	large := strings.Repeat("0123456789abcde\n", 1<<15) // 512 KiB
	for i := range 4 {
		c, _ := dialTLS(t, front, trusting(t, tg))
		var sent sync.WaitGroup
		sent.Go(func() {
			fmt.Fprintf(c.Conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(large), large)
		})
		resp, body := c.answer("POST")
		sent.Wait()
		if replicaOf(t, resp) != i%2 || body != large {
			t.Errorf("replica %s, %d bytes", resp.Header.Get("Latencylab-Replica"), len(body))
		}
	}
	if u := passed(t, tg); u.Answered != 4 {
		t.Errorf("%+v, want 4 answered", u)
	}
	settle(t, "the room", func() bool { return tg.upstream.held.Load() == 0 })
}

// TestUpstreamRoom fills the room, and takes away what was in it.
func TestUpstreamRoom(t *testing.T) {
	tg := inFront(t, &service.Spec{}, Upstream{Body: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", 100_000))
	})
	tg.upstream.held.Store(upstreamRoom - 50_000)
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	if resp, _ := c.answer("GET"); resp.StatusCode != 503 || resp.Header.Get("Latencylab-Upstream") != "no-room" {
		t.Errorf("%s %v, want 503 for want of room", resp.Status, resp.Header)
	}
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("y", 100_000))
	if resp, _ := c.answer("POST"); resp.StatusCode != 503 || !resp.Close {
		t.Errorf("%s, want 503 and the end", resp.Status)
	}
	half := dial(t, tg.Replicas()[0])
	half.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc")
	settle(t, "half a request", func() bool { return tg.upstream.held.Load() > upstreamRoom-50_000 })
	half.Close()
	settle(t, "the room", func() bool { return tg.upstream.held.Load() == upstreamRoom-50_000 })
	if u := passed(t, tg); u.NoRoom != 1 || u.Failed["no-room"] != 1 || u.Forwarded != 1 {
		t.Errorf("%+v", u)
	}
}

// TestUpstreamReset empties the ledger under a request, and ends the target under
// another.
func TestUpstreamReset(t *testing.T) {
	begun, release := make(chan struct{}, 2), make(chan struct{})
	tg := inFront(t, &service.Spec{}, Upstream{}, func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	a, b := dial(t, tg.Replicas()[0]), dial(t, tg.Replicas()[0])
	a.send(get("r", 1, 1))
	<-begun
	tg.Reset()
	if u := passed(t, tg); u.Forwarded != 1 || u.InFlight != 1 {
		t.Errorf("%+v, want one forwarded that is in flight", u)
	}
	release <- struct{}{}
	a.answer("GET")
	settle(t, "the end", func() bool { return passed(t, tg).Answered == 1 })
	b.send(get("r", 2, 1))
	<-begun
	status, body := page(t, "GET", "http://"+tg.Admin().String()+"/metrics")
	for _, want := range []string{
		"latencylab_target_upstream_requests_total 2", "latencylab_target_upstream_in_flight_requests 1",
		`latencylab_target_upstream_ended_total{end="answered"} 1`, `latencylab_target_upstream_turned_away_requests_total{status="413"} 0`,
	} {
		if status != 200 || !strings.Contains(body, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	tg.Stop()
	if u := passed(t, tg); u.Forwarded != 2 || u.InFlight != 1 {
		t.Errorf("%+v, want one that was in flight at the end", u)
	}
}

func TestUpstreamMistakes(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	port := int(tg.Replicas()[0].Port())
	tg.Stop()
	for _, row := range []struct{ address, want string }{
		{"http://a:1/", `upstream = "http://a:1/", want HOST:PORT of plain HTTP, without scheme and path`},
		{"a", `upstream = "a", want HOST:PORT such as 127.0.0.1:9000`},
		{":80", `upstream = ":80", want HOST:PORT such as 127.0.0.1:9000`},
		{"a:http", `upstream = "a:http": port "http", want 1 to 65535`},
		{"a:0", `upstream = "a:0": port "0", want 1 to 65535`},
		{fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf(`upstream = "127.0.0.1:%d" is 127.0.0.1:%[1]d, where this target listens itself: want another service`, port)},
		{fmt.Sprintf("localhost:%d", port), fmt.Sprintf(`upstream = "localhost:%d" is 127.0.0.1:%[1]d, where this target listens itself: want another service`, port)},
		{fmt.Sprintf("0.0.0.0:%d", port), fmt.Sprintf(`upstream = "0.0.0.0:%d" is 127.0.0.1:%[1]d, where this target listens itself: want another service`, port)},
	} {
		tg, err := Start(Config{Service: &service.Spec{Queue: -1}, Port: port, Upstream: Upstream{Address: row.address}})
		if err == nil {
			tg.Stop()
		}
		if fmt.Sprint(err) != row.want {
			t.Errorf("%s: %v, want %s", row.address, err, row.want)
		}
	}
	every := netip.MustParseAddrPort("0.0.0.0:80")
	mine := map[netip.Addr]bool{netip.MustParseAddr("192.0.2.1"): true}
	for address, want := range map[string]bool{"127.0.0.9:80": true, "192.0.2.1:80": true, "192.0.2.2:80": false, "192.0.2.1:81": false, "[::1]:80": true} {
		if same(netip.MustParseAddrPort(address), every, mine) != want {
			t.Errorf("same(%s, %v) = %v", address, every, !want)
		}
	}
}
