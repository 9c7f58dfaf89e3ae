package trial

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"latencylab/results"
	"latencylab/service"
	"latencylab/workloads"
)

func steer(t *testing.T, resolves, connects string) workloads.Steer {
	t.Helper()
	var s workloads.Steer
	for _, e := range strings.Fields(resolves) {
		r, err := workloads.ParseResolve(e)
		if err != nil {
			t.Fatal(err)
		}
		s.Resolve = append(s.Resolve, r)
	}
	for _, e := range strings.Fields(connects) {
		c, err := workloads.ParseConnectTo(e)
		if err != nil {
			t.Fatal(err)
		}
		s.ConnectTo = append(s.ConnectTo, c)
	}
	return s
}

func TestSteer(t *testing.T) {
	for _, c := range []struct{ why, url, resolves, connects, want, err string }{
		{why: "an entry replaces the look-up", url: "http://shop.test/", resolves: "shop.test:80:10.0.0.1,[::1]", want: "10.0.0.1:80 [::1]:80"},
		{why: "case does not matter", url: "http://SHOP.test/", resolves: "shop.TEST:80:10.0.0.1", want: "10.0.0.1:80"},
		{why: "https has port 443", url: "https://shop.test/", resolves: "shop.test:443:10.0.0.1", want: "10.0.0.1:443"},
		{why: "any host", url: "http://shop.test:81/", resolves: "*:81:10.0.0.1", want: "10.0.0.1:81"},
		{why: "an address is a host too", url: "http://10.0.0.9/", resolves: "10.0.0.9:80:10.0.0.1", want: "10.0.0.1:80"},
		{why: "an IPv6 address too", url: "http://[::1]/", resolves: "[0:0::1]:80:10.0.0.1", want: "10.0.0.1:80"},
		{why: "another host", url: "http://shop.test/", connects: "shop.test:80:10.0.0.2:8080", want: "10.0.0.2:8080"},
		{why: "another port alone", url: "http://10.0.0.1/", connects: ":80::81", want: "10.0.0.1:81"},
		{why: "any host and port", url: "http://shop.test/", connects: "::[::1]:", want: "[::1]:80"},
		{why: "the first that matches counts", url: "http://shop.test/", connects: "shop.test::10.0.0.1: other.test::10.0.0.2:", err: `connect-to: "other.test::10.0.0.2:" is used by no connection, want the host and port of one: shop.test:80 (connected to at 10.0.0.1:80)`},
		{why: "connect-to comes before resolve", url: "http://shop.test/", resolves: "b.test:81:10.0.0.3", connects: "shop.test:80:b.test:81", want: "10.0.0.3:81"},
		{why: "a name that is not dialled", url: "http://shop.test/", resolves: "shop.tset:80:10.0.0.1", err: `resolve: "shop.tset:80:10.0.0.1" is used by no connection, want the host and port of one: shop.test:80`},
		{why: "a port that is not dialled", url: "https://shop.test/", resolves: "shop.test:80:10.0.0.1", err: `want the host and port of one: shop.test:443`},
		{why: "given twice", url: "http://shop.test/", resolves: "shop.test:80:10.0.0.1 shop.test:80:10.0.0.2", err: `"shop.test:80:10.0.0.1" is used by no connection`},
	} {
		s, err := ParseSite(c.url, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Steer = steer(t, c.resolves, c.connects)
		ctx, stop := context.WithCancel(t.Context())
		stop() // whatever asks the network fails
		if err = s.CheckSteer(); err == nil {
			err = s.Resolve(ctx)
		}
		if c.err != "" || err != nil {
			if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.why, err, c.err)
			}
			continue
		}
		var got []string
		for _, a := range s.Endpoints[0].Addrs {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != c.want || s.Endpoints[0].Name != s.Names[0] {
			t.Errorf("%s: %s at %v, want %s", c.why, s.Endpoints[0].Name, got, c.want)
		}
	}
}

// TestSteeredNameFails: the line names what was looked up, and for what.
func TestSteeredNameFails(t *testing.T) {
	s := &Site{Names: []string{"shop.test:80"}, Resolver: nameServer(t, nil), Steer: steer(t, "", "shop.test::other.:81")}
	want := `resolve "other.": no such host, or one without an address (shop.test:80 is connected to at other.:81)`
	if err := s.Resolve(t.Context()); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// dualStack serves on one port of ::1 and 127.0.0.1. It returns the port, and says
// at whom the requests were aimed.
func dualStack(t *testing.T, hosts chan<- string) string {
	t.Helper()
	for range 100 {
		four, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(four.Addr().String())
		six, err := net.Listen("tcp", net.JoinHostPort("::1", port))
		if err != nil {
			four.Close()
			continue
		}
		for _, l := range []net.Listener{four, six} {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case hosts <- r.Host:
				default:
				}
			}))
			server.Listener.Close()
			server.Listener = l
			server.Start()
			t.Cleanup(server.Close)
		}
		return port
	}
	t.Skip("no port is free on both ::1 and 127.0.0.1")
	return ""
}

// TestDualStack: a name of both families is looked up, its first address gets all
// connections while it answers, and the Run says so; the Host field stays the
// name's, also where --resolve or --connect-to leads elsewhere.
func TestDualStack(t *testing.T) {
	hosts := make(chan string, 1)
	port := dualStack(t, hosts)
	names := nameServer(t, map[string]string{"both.": "::1 127.0.0.1"})
	for _, c := range []struct{ why, url, resolves, connects, source, dialled, addrs string }{
		{"looked up", "http://both.:" + port + "/", "", "", results.ByLookup, "both.:" + port, ""},
		{"given", "http://shop.test:" + port + "/", "shop.test:" + port + ":[::1],127.0.0.1", "", results.ByResolve, "shop.test:" + port, "[::1] 127.0.0.1"},
		{"given the other way", "http://shop.test:" + port + "/", "*:" + port + ":127.0.0.1,::1", "", results.ByResolve, "shop.test:" + port, "127.0.0.1 [::1]"},
		{"elsewhere", "http://shop.test/", "", "shop.test:80:both.:" + port, results.ByLookup, "both.:" + port, ""},
		{"elsewhere, an address", "http://shop.test/", "", "::[::1]:" + port, results.ByAddress, "[::1]:" + port, "[::1]"},
	} {
		s, err := ParseSite(c.url, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Resolver = names
		w := workloads.New()
		w.Connections, w.Requests, w.Steer = 3, 30, steer(t, c.resolves, c.connects)
		p, err := NewPlan(w, Choices{})
		if err != nil {
			t.Fatal(err)
		}
		setup := &Setup{Site: s}
		if err := setup.Check(p); err != nil {
			t.Fatalf("%s: %v", c.why, err)
		}
		r, err := Real(t.Context(), p, setup)
		if err != nil {
			t.Fatalf("%s: %v", c.why, err)
		}
		if n := r.Policies[0].Calls.OK; n != 30 || len(r.Names) != 1 {
			t.Fatalf("%s: %d calls ok, names %+v", c.why, n, r.Names)
		}
		n := r.Names[0]
		if n.Endpoint != s.Names[0] || n.Source != c.source || n.Dialled != c.dialled || (n.TookNS > 0) != (c.source == results.ByLookup) {
			t.Errorf("%s: %+v", c.why, n)
		}
		var addrs []string
		all := uint64(0)
		for _, a := range n.Addresses {
			addrs = append(addrs, strings.TrimSuffix(a.Address, ":"+port))
			all += a.Connections
		}
		if c.addrs != "" && strings.Join(addrs, " ") != c.addrs {
			t.Errorf("%s: addresses %v, want %s", c.why, addrs, c.addrs)
		}
		if o := r.Policies[0].Connections.Opened; all < o || n.Addresses[0].Connections == 0 {
			t.Errorf("%s: %+v, want the %d connections, and the first address among them", c.why, n.Addresses, o)
		}
		if got, want := <-hosts, s.Host; got != want {
			t.Errorf("%s: Host %q, want %q", c.why, got, want)
		}
	}
}

// TestSteerOfNothing: an embedded target is not steered.
func TestSteerOfNothing(t *testing.T) {
	w := workloads.New()
	w.Steer = steer(t, "a:80:10.0.0.1", "")
	w.Service = &service.Spec{}
	p, err := NewPlan(w, Choices{})
	if err != nil {
		t.Fatal(err)
	}
	want := "resolve or connect-to is given, but the target is embedded"
	if err := (&Setup{}).Check(p); err == nil || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
