package target

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/http1"
	"latencylab/service"
	"latencylab/workloads"
)

// page fetches a page without leaving a connection behind.
func page(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestPages(t *testing.T) {
	spec := &service.Spec{Replicas: 2, Queue: -1, Time: dist(t, "1h")}
	tg := begin(t, Config{Service: spec, Seed: 9, Threads: 2})
	admin := "http://" + tg.Admin().String()
	for _, row := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/healthz", 200, "ok\n"},
		{"GET", "/ledger", 200, `"schema": "latencylab.target/1"`},
		{"HEAD", "/ledger", 200, ""},
		{"GET", "/ledger?run=nobody", 200, `"runs": []`},
		{"GET", "/service", 200, "time: constant(1h)\n"},
		{"GET", "/reset", 405, "takes POST"},
		{"POST", "/reset", 204, ""},
		{"GET", "/mark", 405, "takes POST"},
		{"POST", "/mark", 204, ""},
		{"POST", "/mark?in=10ms&n=3", 204, ""},
		{"POST", "/mark?in=10", 400, "in = \"10\" has no unit, want a duration such as 10s"},
		{"POST", "/mark?n=0", 400, "n = \"0\", want 1 to 4294967295"},
		{"POST", "/ledger", 405, "takes GET"},
		{"GET", "/", 404, "/ledger"},
	} {
		status, body := page(t, row.method, admin+row.path)
		if status != row.status || !strings.Contains(body, row.want) {
			t.Errorf("%s %s: %d %q, want %d with %q", row.method, row.path, status, body, row.status, row.want)
		}
	}
	_, text := page(t, "GET", admin+"/service")
	if _, err := workloads.ParseService("page", []byte(text)); err != nil {
		t.Errorf("the service page is no service file: %v", err)
	}
}

func TestPagesOfOtherSites(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	admin := tg.Admin().String()
	port := strconv.Itoa(int(tg.Admin().Port()))
	for _, row := range []struct {
		why    string
		header map[string]string
		status int
	}{
		{"a client that is no browser", nil, 204},
		{"by name", map[string]string{"Host": "localhost:" + port}, 204},
		{"by another address of the loopback interface", map[string]string{"Host": "[::1]:" + port}, 204},
		{"through a forwarded port", map[string]string{"Host": "127.0.0.1"}, 204},
		{"a name that was bound to 127.0.0.1", map[string]string{"Host": "evil.example:" + port}, 403},
		{"an address of another machine", map[string]string{"Host": "192.0.2.1"}, 403},
		{"a page of our own", map[string]string{"Origin": "http://" + admin, "Sec-Fetch-Site": "same-origin"}, 204},
		{"a page of another origin", map[string]string{"Origin": "http://evil.example"}, 403},
		{"a page of another port", map[string]string{"Origin": "http://127.0.0.1:1"}, 403},
		{"a page without origin", map[string]string{"Origin": "null"}, 403},
		{"a page of another site", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
	} {
		req, err := http.NewRequest("POST", "http://"+admin+"/reset", nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range row.header { // order does not show: a set
			req.Header.Set(k, v)
		}
		req.Host = row.header["Host"]
		c := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != row.status {
			t.Errorf("%s: status %d, want %d", row.why, resp.StatusCode, row.status)
		}
		if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: an answer that a browser may guess the type of", row.why)
		}
	}
}

func TestAnnouncement(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Replicas: 2, Queue: -1, Time: dist(t, "1h")}, Seed: 9})
	want := Announcement{Latencylab: "target/1", Ledger: tg.LedgerURL(), Seed: 9, Replica: 1}
	for _, a := range tg.Replicas() {
		want.Replicas = append(want.Replicas, a.String())
	}
	base := "http://" + tg.Replicas()[1].String()
	status, body := page(t, "GET", base+http1.WellKnownPath)
	var got Announcement
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 {
		t.Fatalf("%d %q: %v", status, body, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("announcement (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if got, ok, err := FetchAnnouncement(ctx, base+"/some/path?query", nil); !ok || err != nil || !cmp.Equal(want, got) {
		t.Errorf("fetched %+v, %v, %v", got, ok, err)
	}
	if l := tg.Ledger(); len(l.Runs) != 0 || l.Connections.WellKnown != 2 {
		t.Errorf("runs %v, announced %d; want none counted and 2", l.Runs, l.Connections.WellKnown)
	}
}

func TestFetchFromForeignServers(t *testing.T) {
	for _, row := range []struct {
		what   string
		answer http.HandlerFunc
	}{
		{"another program's JSON", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"a": 1}`) }},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `<html>`) }},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }},
	} {
		t.Run(row.what, func(t *testing.T) {
			s := httptest.NewServer(row.answer)
			defer s.Close()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if _, ok, err := FetchAnnouncement(ctx, s.URL, nil); ok || err != nil {
				t.Errorf("announcement: %v, %v; want that it is no target", ok, err)
			}
			if _, err := FetchLedger(ctx, s.URL+"/ledger", ""); err == nil {
				t.Error("ledger: no error")
			}
		})
	}
	if _, _, err := FetchAnnouncement(context.Background(), "http://127.0.0.1:1", nil); err == nil {
		t.Error("a server that refuses: no error")
	}
}

func TestBaseline(t *testing.T) {
	spec := &service.Spec{Queue: -1, Body: 100, Time: dist(t, "1h")}
	tg := begin(t, Config{Service: spec, Baseline: true})
	addr, ok := tg.Baseline()
	if !ok {
		t.Fatal("no baseline")
	}
	want := http1.AppendResponse(nil, http1.Answer{Status: 200, Body: 100})
	status, body := page(t, "GET", "http://"+addr.String()+"/")
	if status != 200 || body != string(want[len(want)-100:]) {
		t.Errorf("%d %q, want the service's body", status, body)
	}
	if n := len(tg.Ledger().Runs); n != 0 {
		t.Errorf("%d runs, want none", n)
	}
}

func TestStartRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for _, row := range []struct {
		what string
		cfg  Config
		want string
	}{
		{"a port that is in use", Config{Port: port}, "the port is in use"},
		{"an admin port that is in use", Config{AdminPort: port}, "admin: listen on 127.0.0.1:" + strconv.Itoa(port) + ": the port is in use"},
		{"ports beyond the last", Config{Port: 65535, Service: &service.Spec{Replicas: 2}}, "ends at 65536"},
		{"a baseline beyond the last port", Config{Port: 65535, Baseline: true}, "baseline"},
		{"more connections than files", Config{MaxConnections: 1 << 30}, "the file limit is"},
		{"an address of another machine", Config{Host: netip.MustParseAddr("192.0.2.1")}, "192.0.2.1"},
		{"a service that makes no sense", Config{Service: &service.Spec{Slots: -1}}, "slots = -1"},
	} {
		if tg, err := Start(row.cfg); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want %q", row.what, err, row.want)
			if err == nil {
				tg.Stop()
			}
		}
	}
}

func TestDrain(t *testing.T) {
	t.Run("what is in flight ends, what waits for a request is closed", func(t *testing.T) {
		tg := begin(t, Config{Service: &service.Spec{Queue: -1, Time: dist(t, "60ms")}})
		idle, busy := dial(t, tg.Replicas()[0]), dial(t, tg.Replicas()[0])
		idle.send(plainGet)
		idle.answer("GET")
		busy.send(plainGet)
		settle(t, "arrival", func() bool { return tg.Ledger().Run("").Arrived == 2 })
		if !tg.Drain(patience) {
			t.Error("not clean")
		}
		if resp, _ := busy.answer("GET"); resp.StatusCode != 200 || !resp.Close {
			t.Errorf("status %d, close %v; want 200 and the end", resp.StatusCode, resp.Close)
		}
		idle.closed()
		if c, err := net.Dial("tcp", tg.Replicas()[0].String()); err == nil {
			c.Close()
			t.Error("still listening")
		}
		if r := tg.Ledger().Run(""); r.Answered[200] != 2 || r.InFlight != 0 {
			t.Errorf("ledger after the end: %+v", r)
		}
	})
	t.Run("patience ends", func(t *testing.T) {
		tg := begin(t, Config{Service: &service.Spec{Queue: -1, Time: dist(t, "1h")}})
		c := dial(t, tg.Replicas()[0])
		c.send(plainGet)
		settle(t, "arrival", func() bool { return tg.Ledger().Run("") != nil })
		if tg.Drain(time.Millisecond) {
			t.Error("clean, want that one was in flight")
		}
		c.closed()
		if r := tg.Ledger().Run(""); r.InFlight != 1 {
			t.Errorf("in flight %d, want 1", r.InFlight)
		}
		tg.Stop()
	})
}
