package trial

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers on loopback: names it knows by their addresses, "silent."
// not at all, all others by NXDOMAIN.
func nameServer(t *testing.T, names map[string]string) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { pc.Close(); <-ended })
	go func() {
		defer close(ended)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := answerName(buf[:n], names); reply != nil {
				pc.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func answerName(query []byte, names map[string]string) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil || q.Name.String() == "silent." {
		return nil
	}
	list, known := names[q.Name.String()]
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true}, Questions: []dnsmessage.Question{q}}
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, s := range strings.Fields(list) {
		a := netip.MustParseAddr(s)
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			r.Body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			r.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		m.Answers = append(m.Answers, r)
	}
	reply, _ := m.Pack()
	return reply
}

// TestResolveTakesAllAddresses: a name's addresses of both families, and one
// clear line for a name without any.
func TestResolveTakesAllAddresses(t *testing.T) {
	r := nameServer(t, map[string]string{"one.": "127.0.0.9", "many.": "127.0.0.1 127.0.0.2 ::1", "none.": ""})
	for _, row := range []struct{ name, want string }{
		{"one.:80", "127.0.0.9:80"},
		{"many.:8080", "127.0.0.1:8080 127.0.0.2:8080 [::1]:8080"},
		{"none.:80", `resolve "none.": no such host, or one without an address`},
		{"other.:80", `resolve "other.": no such host, or one without an address`},
	} {
		s := &Site{Names: []string{row.name}, Resolver: r}
		if err := s.Resolve(t.Context()); err != nil {
			if err.Error() != row.want {
				t.Errorf("%s: %v, want %s", row.name, err, row.want)
			}
			continue
		}
		got := map[string]bool{}
		for _, a := range s.Endpoints[0].Addrs {
			got[a.String()] = true
		}
		want := strings.Fields(row.want)
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", row.name, s.Endpoints[0].Addrs, want)
		}
		for _, w := range want {
			if !got[w] {
				t.Errorf("%s: %v, want %s among them", row.name, s.Endpoints[0].Addrs, w)
			}
		}
	}
}

// TestResolveWaitsForNoOneForEver: a name server that is silent is said so.
func TestResolveWaitsForNoOneForEver(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	s := &Site{Names: []string{"silent.:80"}, Resolver: nameServer(t, nil)}
	want := `resolve "silent.": the name server did not answer in time`
	if err := s.Resolve(ctx); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestNumericHostsAreNotTried: no connection is made to an address.
func TestNumericHostsAreNotTried(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop() // whatever asks the network fails
	for name, want := range map[string]string{
		"127.0.0.1:1": "127.0.0.1:1", "[::1]:80": "[::1]:80", "[::ffff:10.0.0.1]:80": "10.0.0.1:80",
	} {
		s := &Site{Names: []string{name}}
		if err := s.Resolve(ctx); err != nil || s.Endpoints[0].Addrs[0].String() != want {
			t.Errorf("%s: %v, %v, want %s", name, s.Endpoints, err, want)
		}
	}
}
