package trial

import (
	"context"
	"net"
	"net/netip"
	"testing"
)

// TestFirstOpen: of a name's addresses the first that accepts is taken.
func TestFirstOpen(t *testing.T) {
	listen := func() (netip.AddrPort, net.Listener) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l.Addr().(*net.TCPAddr).AddrPort(), l
	}
	shut, l := listen()
	l.Close()
	one, _ := listen()
	two, _ := listen()
	for _, row := range []struct {
		why   string
		addrs []netip.AddrPort
		want  netip.AddrPort
	}{
		{"the first accepts", []netip.AddrPort{one, two}, one},
		{"the order is kept", []netip.AddrPort{two, one}, two},
		{"the first refuses", []netip.AddrPort{shut, two}, two},
		{"nobody accepts", []netip.AddrPort{shut, shut}, shut},
	} {
		if got := firstOpen(context.Background(), row.addrs); got != row.want {
			t.Errorf("%s: %v, want %v", row.why, got, row.want)
		}
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
