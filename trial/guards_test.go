package trial

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"latencylab/engine"
	"latencylab/units"
	"latencylab/workloads"
)

// resolved is a site whose names have these addresses.
func resolved(addrs ...string) *Site {
	s := &Site{Host: "h", Path: "/", Names: []string{"h:80"}}
	var list []netip.AddrPort
	for _, a := range addrs {
		list = append(list, netip.MustParseAddrPort(a))
	}
	s.Endpoints = []engine.Endpoint{{Name: "h:80", Addrs: list}}
	return s
}

func TestDistant(t *testing.T) {
	for _, c := range []struct {
		why   string
		addrs []string
		want  string
	}{
		{"loopback of IPv4, all of it", []string{"127.0.0.1:80", "127.9.9.9:80"}, ""},
		{"loopback of IPv6, and of IPv4 in it", []string{"[::1]:80", "[::ffff:127.0.0.1]:80"}, ""},
		{"the unspecified address connects to loopback", []string{"0.0.0.0:80", "[::]:80"}, ""},
		{"private addresses may be someone else's", []string{"10.0.0.7:80"}, "10.0.0.7:80"},
		{"link-local ones too", []string{"[fe80::1%eth0]:80"}, "[fe80::1%eth0]:80"},
		{"one of several addresses is enough", []string{"127.0.0.1:80", "192.0.2.1:80"}, "192.0.2.1:80"},
	} {
		at, ok := resolved(c.addrs...).Distant()
		if got := at.String(); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s: %s %v, want %q", c.why, got, ok, c.want)
		}
	}
}

func TestGuardOfTheRate(t *testing.T) {
	const far = "192.0.2.1:80"
	for _, c := range []struct {
		why, addr string
		rate      units.Rate
		specs     []string
		yes       bool
		want      string
	}{
		{"1,000 attempts a second pass", far, 1000e6, []string{"plain"}, false, ""},
		{"more do not", far, 1000e6 + 1, []string{"plain"}, false, "want a lower --rate, or --yes"},
		{"but on loopback", "127.0.0.1:80", 9000e6, []string{"plain"}, false, ""},
		{"or with consent", far, 9000e6, []string{"plain"}, true, ""},
		{"attempts count, not calls", far, 400e6, []string{"plain", "retry=2"}, false, "up to 1,200 attempts a second (policy retry-2: up to 3 attempts a call at 400/s) are above 1k/s"},
		{"hedges are attempts", far, 400e6, []string{"hedge=1ms,hedge.max=2"}, false, "up to 1,200"},
		{"the highest rate does not overflow", far, units.MaxRate, []string{"retry=5"}, false, "up to 1,000,000,000"},
	} {
		w := workload(t, c.specs...)
		w.Rate = c.rate
		p, err := NewPlan(w, Choices{})
		if err != nil {
			t.Fatal(err)
		}
		s := &Setup{Site: resolved(c.addr), Guards: Guards{Yes: c.yes}}
		err = s.Guard(p)
		var r *Refusal
		switch {
		case err == nil && c.want == "":
		case c.want == "" || err == nil || !errors.As(err, &r) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.why, err, c.want)
		}
	}
}

func TestGuardOfAClosedLoop(t *testing.T) {
	p, err := NewPlan(workloads.New(), Choices{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Setup{Site: resolved("10.0.0.1:80")}
	if err := s.Guard(p); err == nil || !strings.Contains(err.Error(), "closed loop") {
		t.Errorf("a closed loop: %v", err)
	}
}

func TestUserAgent(t *testing.T) {
	for version, want := range map[string]string{
		"v0.4.0 abcdef012345": "latencylab/v0.4.0 (+load test; its id is in Latencylab-Load)",
		"(devel) abcdef":      "latencylab/abcdef (+load test; its id is in Latencylab-Load)",
		"(devel) unknown":     "latencylab/dev (+load test; its id is in Latencylab-Load)",
		"":                    "latencylab/dev (+load test; its id is in Latencylab-Load)",
	} {
		if got := userAgent(version); got != want {
			t.Errorf("version %q gives %q, want %q", version, got, want)
		}
	}
}

// TestEveryRequestSaysWhoseItIs: User-Agent and marker are on every request, of
// every policy and stage, and the marker is the one in the Run.
func TestEveryRequestSaysWhoseItIs(t *testing.T) {
	for _, c := range []struct {
		why     string
		headers []workloads.Header
		guards  Guards
		agent   string
		marked  bool
	}{
		{"by itself", nil, Guards{}, userAgent(""), true},
		{"the user's own agent", []workloads.Header{{Name: "user-agent", Value: "mine"}}, Guards{}, "mine", true},
		{"without marker, for a reason", nil, Guards{NoMarker: "its gateway refuses unknown fields"}, userAgent(""), false},
	} {
		var mu sync.Mutex
		agents, marks := map[string]int{}, map[string]int{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			agents[strings.Join(r.Header["User-Agent"], "|")]++
			marks[strings.Join(r.Header[Marker], "|")]++
		}))
		site, err := ParseSite(server.URL, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		w := workloads.New()
		w.Request.Headers, w.Requests = c.headers, 20
		p := plan(t, w, false)
		s := &Setup{Site: site, CallHeaders: "auto", Guards: c.guards}
		if err := s.Check(p); err != nil {
			t.Fatal(err)
		}
		r, err := Real(context.Background(), p, s)
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		if len(agents) != 1 || agents[c.agent] == 0 {
			t.Errorf("%s: agents %v, want %q", c.why, agents, c.agent)
		}
		if want := r.Marker; len(marks) != 1 || marks[want] == 0 || (want != "") != c.marked || r.NoMarker != c.guards.NoMarker {
			t.Errorf("%s: markers %v, want %q", c.why, marks, want)
		}
	}
}
