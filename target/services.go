package target

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"latencylab/draw"
	"latencylab/engine"
	"latencylab/http1"
	"latencylab/service"
	"latencylab/workloads"
)

// resolveTimeout bounds the look-up of the name of one URL that is called.
const resolveTimeout = 5 * time.Second

// node is one service of the target.
type node struct {
	*workloads.Node
	index int
	first int    // number of its first replica among all
	seed  uint64 // keys its draws
	edges int    // number of its first call among all
	// called: another service calls it, so that it serves on while others drain.
	called bool
}

// seedOf keys the draws of service i: the first has the target's own seed.
func seedOf(seed uint64, i int) uint64 {
	if i == 0 {
		return seed
	}
	return draw.Mix(seed, uint64(i), 0)
}

// setNodes takes over the services, which are valid.
func (t *Target) setNodes(g *workloads.Graph) {
	first, edges := 0, 0
	for i := range g.Services {
		n := &g.Services[i]
		t.nodes = append(t.nodes, &node{Node: n, index: i, first: first, seed: seedOf(t.seed, i), edges: edges})
		first += n.Spec.Servers()
		edges += len(n.Calls)
	}
	for _, n := range t.nodes {
		for k := range n.Calls {
			if to := n.Calls[k].To; to >= 0 {
				t.nodes[to].called = true
			}
		}
	}
	t.servers, t.edges = first, edges
}

// nodeOf returns the service that replica number i of all belongs to.
func (t *Target) nodeOf(i int) *node {
	for _, n := range t.nodes {
		if i < n.first+n.Spec.Servers() {
			return n
		}
	}
	return nil
}

// addresses returns those of the replicas of a service.
func (t *Target) addresses(n *node) []netip.AddrPort {
	return t.replicas[n.first:][:n.Spec.Servers()]
}

// Service is where one service of a target is.
type Service struct {
	Name     string
	Replicas []netip.AddrPort // by number within the service
}

// Services returns all services, the entry first. A target of one service has
// one, which may have no name.
func (t *Target) Services() []Service {
	var out []Service
	for _, n := range t.nodes {
		out = append(out, Service{n.Name, append([]netip.AddrPort(nil), t.addresses(n)...)})
	}
	return out
}

// connect makes the callers of all replicas, whose listeners are open.
func (t *Target) connect() error {
	for _, n := range t.nodes {
		for k := range n.Calls {
			c := &n.Calls[k]
			cfg, err := t.callerOf(n, c, n.edges+k)
			if err != nil {
				return fmt.Errorf("service %s: call %s: %w", n.Name, c.Name, err)
			}
			for _, l := range t.loops {
				if err := l.connect(n, k, cfg); err != nil {
					return fmt.Errorf("service %s: call %s: %w", n.Name, c.Name, err)
				}
			}
		}
	}
	return nil
}

// callerOf says what a call, number i of all, calls and how.
func (t *Target) callerOf(n *node, c *workloads.Call, i int) (cfg engine.CallerConfig, err error) {
	cfg = engine.CallerConfig{
		Policy: &c.Policy.Policy, Connections: c.Connections, Idempotent: true,
		Seed: draw.Mix(t.seed, uint64(i)+1, 0),
	}
	host, path := "", "/"
	if c.To >= 0 {
		host = t.nodes[c.To].Name
		for _, a := range t.addresses(t.nodes[c.To]) {
			cfg.Endpoints = append(cfg.Endpoints, engine.EndpointsAt(loopbackOf(a))...)
		}
	} else {
		if host, path, err = c.HostAndPath(); err != nil {
			return cfg, err
		}
		addr, err := resolve(host)
		if err != nil {
			return cfg, err
		}
		cfg.Endpoints = []engine.Endpoint{{Name: host, Addrs: addr}}
	}
	cfg.Template, err = http1.NewRequestTemplate("GET", path, host, nil, nil, &http1.LabHeaders{Hop: true})
	return cfg, err
}

// resolve returns the addresses of HOST:PORT, looked up once.
func resolve(hostPort string) ([]netip.AddrPort, error) {
	host, text, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, fmt.Errorf("resolve %q: %w", hostPort, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("resolve %q: port %s, want 1 to 65535", hostPort, text)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a.Unmap(), uint16(port))}, nil
	}
	ctx, stop := context.WithTimeout(context.Background(), resolveTimeout)
	defer stop()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolve %q: %w", host, err)
	}
	var out []netip.AddrPort
	for _, a := range found {
		out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	return out, nil
}

// loopbackOf is where a server of this process is found that listens on every
// address.
func loopbackOf(at netip.AddrPort) netip.AddrPort {
	if !at.Addr().IsUnspecified() {
		return at
	}
	host := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if at.Addr().Is6() {
		host = netip.IPv6Loopback()
	}
	return netip.AddrPortFrom(host, at.Port())
}

// spec is what the replica does.
func (r *replica) spec() *service.Spec { return r.does.Of(r.index - r.node.first) }
