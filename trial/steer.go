package trial

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"latencylab/engine"
	"latencylab/results"
	"latencylab/workloads"
)

// aim is where the connections of one replica go.
type aim struct {
	host string
	port uint16
	by   *workloads.Resolve // nil: host is looked up
}

// asGiven is the aim at a replica host:port that nothing has changed.
func asGiven(name string) (aim, error) {
	host, text, err := net.SplitHostPort(name)
	if err != nil {
		return aim{}, fmt.Errorf("resolve %q: %w", name, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return aim{}, fmt.Errorf("resolve %q: port %s, want 1 to 65535", name, text)
	}
	return aim{host: host, port: uint16(port)}, nil
}

// aimAt applies the Steer to a replica host:port.
func (s *Site) aimAt(name string) (aim, error) {
	a, err := asGiven(name)
	if err != nil {
		return a, err
	}
	if c := s.connectTo(a); c != nil {
		a.host, a.port = cmp.Or(c.ToHost, a.host), cmp.Or(c.ToPort, a.port)
	}
	a.by = s.resolved(a)
	return a, nil
}

// connectTo returns the first entry that matches, or nil.
func (s *Site) connectTo(a aim) *workloads.ConnectTo {
	for i := range s.Steer.ConnectTo {
		if c := &s.Steer.ConnectTo[i]; c.Matches(a.host, a.port) {
			return c
		}
	}
	return nil
}

// resolved returns the entry that counts: the last one of that host and port, else
// the last one of any host. nil: none.
func (s *Site) resolved(a aim) *workloads.Resolve {
	var found *workloads.Resolve
	for i := range s.Steer.Resolve {
		if r := &s.Steer.Resolve[i]; r.Matches(a.host, a.port) && (found == nil || found.Host == "*" || r.Host != "*") {
			found = r
		}
	}
	return found
}

// CheckSteer returns an error for an entry that no replica uses: with a word
// misspelt, the load would go to what the name server says.
func (s *Site) CheckSteer() error {
	resolves, connects := map[*workloads.Resolve]bool{}, map[*workloads.ConnectTo]bool{}
	for _, name := range s.Names {
		a, err := s.aimAt(name)
		if err != nil {
			return err
		}
		given, _ := asGiven(name)
		connects[s.connectTo(given)], resolves[a.by] = true, true
	}
	for i := range s.Steer.ConnectTo {
		if c := &s.Steer.ConnectTo[i]; !connects[c] {
			return fmt.Errorf("connect-to: %q is used by no connection, want the host and port of one: %s", c, s.list())
		}
	}
	for i := range s.Steer.Resolve {
		if r := &s.Steer.Resolve[i]; !resolves[r] {
			return fmt.Errorf("resolve: %q is used by no connection, want the host and port of one: %s", r, s.list())
		}
	}
	return nil
}

// list names the replicas, or the first and how many more there are; after
// connect-to where that changes them.
func (s *Site) list() string {
	name := s.Names[0]
	if a, err := s.aimAt(name); err == nil {
		if to := a.String(); to != name {
			name += " (connected to at " + to + ")"
		}
	}
	if n := len(s.Names) - 1; n > 0 {
		name += fmt.Sprintf(" and %d more", n)
	}
	return name
}

// String is host:port, an IPv6 address in brackets.
func (a *aim) String() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

// source says where the addresses come from.
func (a *aim) source() string {
	if a.by != nil {
		return results.ByResolve
	}
	if _, err := netip.ParseAddr(a.host); err == nil {
		return results.ByAddress
	}
	return results.ByLookup
}

// names returns what the endpoints were resolved to and how many connections each
// address got.
func (m *measurement) names() []results.Name {
	list := make([]results.Name, len(m.site.looks))
	for i, l := range m.site.looks {
		list[i] = l
		list[i].Addresses = nil
		for k, a := range m.site.Endpoints[i].Addrs {
			n := results.Address{Address: a.String()}
			if m.connected != nil {
				n.Connections = m.connected[i][k]
			}
			list[i].Addresses = append(list[i].Addresses, n)
		}
	}
	return list
}

// closeEngine closes an engine after taking its connections over.
func (m *measurement) closeEngine(eng *engine.Engine) {
	m.connected = addConnected(m.connected, eng.Connected())
	eng.Close()
}

// addConnected adds up connections by endpoint and address.
func addConnected(sum, n [][]uint64) [][]uint64 {
	if sum == nil {
		return n
	}
	for i := range n {
		for k := range n[i] {
			sum[i][k] += n[i][k]
		}
	}
	return sum
}
