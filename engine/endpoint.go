package engine

import (
	"errors"
	"fmt"
	"net/netip"
)

// Endpoint is one replica: its name and where it is reached.
type Endpoint struct {
	// Name is HOST:PORT as errors and results show it, an IPv6 address in
	// brackets. Its host is the one whose certificate a TLS handshake wants. ""
	// means the first of Addrs.
	Name string
	// Addrs are its addresses, at least one, the preferred first. A connection
	// goes to the one that accepts it first, see Config.FallbackDelay.
	Addrs []netip.AddrPort
}

// EndpointsAt returns endpoints of one address each, named by it.
func EndpointsAt(addrs ...netip.AddrPort) []Endpoint {
	out := make([]Endpoint, len(addrs))
	for i, a := range addrs {
		out[i] = Endpoint{Name: a.String(), Addrs: []netip.AddrPort{a}}
	}
	return out
}

// checkEndpoints returns an error that names the first endpoint that cannot be
// dialled.
func checkEndpoints(es []Endpoint) error {
	switch {
	case len(es) == 0:
		return errors.New("engine: no endpoint")
	case len(es) > 1<<16-1:
		return fmt.Errorf("engine: %d endpoints, want at most 65535", len(es))
	}
	for i := range es {
		if n := len(es[i].Addrs); n == 0 || n > 1<<16-1 {
			return fmt.Errorf("engine: endpoint %q has %d addresses, want 1 to 65535", es[i].Name, n)
		}
	}
	return nil
}
