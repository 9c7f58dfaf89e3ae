package trial

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestRampBeforeTheData: on sockets and in virtual time the data are the calls
// that they are without a ramp.
func TestRampBeforeTheData(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer server.Close()
	for _, virtual := range []bool{true, false} {
		var digests [2]string
		for i, ramp := range []time.Duration{0, 500 * time.Millisecond} {
			w := workload(t, "plain")
			w.Rate, w.Requests, w.Ramp, w.RampGiven = 400e6, 100, ramp, true
			w.Service = parseService(t, "time: constant(1ms)\n")
			p := plan(t, w, virtual)
			r, err := Sim(p, time.Time{}, nil)
			if !virtual {
				site, perr := ParseSite(server.URL, "/", nil)
				if perr != nil {
					t.Fatal(perr)
				}
				p.Workload.Service = nil
				s := &Setup{Site: site, CallHeaders: "on"}
				if err := s.Check(p); err != nil {
					t.Fatal(err)
				}
				r, err = Real(context.Background(), p, s)
			}
			if err != nil {
				t.Fatal(err)
			}
			digests[i] = r.ArrivalsDigest.Value
			if n := r.Policies[0].Calls.Scheduled; n != 100 {
				t.Errorf("virtual %v, ramp %s: %d data calls, want 100", virtual, ramp, n)
			}
			if ramp > 0 && !strings.Contains(r.Workload, "ramp: 500ms") {
				t.Errorf("the stored workload has no ramp:\n%s", r.Workload)
			}
		}
		if digests[0] != digests[1] || digests[0] == "" {
			t.Errorf("virtual %v: digests %v, want equal ones", virtual, digests)
		}
	}
}

// TestRampOfUsers: a closed loop's users come one by one, and all of them come.
func TestRampOfUsers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer server.Close()
	site, err := ParseSite(server.URL, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := workload(t, "plain")
	w.Connections, w.Threads, w.Requests, w.Ramp, w.RampGiven = 7, 2, 200, 300*time.Millisecond, true
	p := plan(t, w, false)
	s := &Setup{Site: site, CallHeaders: "off"}
	if err := s.Check(p); err != nil {
		t.Fatal(err)
	}
	r, err := Real(context.Background(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Policies[0].Calls; c.OK != 200 || c.Scheduled != 200 || r.DurationNS < int64(w.Ramp) {
		t.Errorf("calls %+v after %s", c, time.Duration(r.DurationNS))
	}
}

// TestGuardDefaults: a distant service is met with a ramp and rules unless the
// user gave some.
func TestGuardDefaults(t *testing.T) {
	w := workload(t, "plain")
	w.Rate = 200e6
	p := plan(t, w, false)
	s := &Setup{Site: resolved("192.0.2.1:80"), Guards: Guards{Yes: true}}
	for range 2 { // asking again changes nothing
		if err := s.Guard(p); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.Workload.Stops; len(got) != 2 || got[0].String() != "errors>50% for 5s" || got[1].String() != "open>1k" ||
		p.Blocks[0].Block.Ramp != distantRamp || len(p.Notes) != 2 {
		t.Errorf("rules %v, ramp %s, notes %q", got, p.Blocks[0].Block.Ramp, p.Notes)
	}
	w.RampGiven = true
	p = plan(t, w, false)
	s.Site = resolved("127.0.0.1:80")
	if err := s.Guard(p); err != nil || p.Workload.Stops != nil || p.Blocks[0].Block.Ramp != 0 {
		t.Errorf("loopback: %v, rules %v", err, p.Workload.Stops)
	}
}
