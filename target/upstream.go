package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

// Defaults of Upstream.
const (
	DefaultUpstreamConnections = 256
	DefaultUpstreamTimeout     = 30 * time.Second
	DefaultUpstreamBody        = 8 << 20
)

// upstreamRoom bounds the bytes of requests and answers that a target holds for
// its upstream, of all connections together.
const upstreamRoom = 256 << 20

// Upstream is a real HTTP/1.1 service that the target stands in front of: what its
// own service would answer with 200 it asks there. The zero Upstream is none.
type Upstream struct {
	// Address is HOST:PORT. A name is looked up once, by Start. It must not be an
	// address of the target.
	Address string
	// Connections bounds those to the upstream, and so the requests that it has at
	// once; further ones wait. 0 means DefaultUpstreamConnections.
	Connections int
	// Timeout bounds the time from when a request is to be forwarded to the end of
	// its answer. 0 means DefaultUpstreamTimeout.
	Timeout time.Duration
	// Body is the longest body of a request and of an answer, in bytes. 0 means
	// DefaultUpstreamBody.
	Body int64
}

// complete replaces zero values by their defaults and checks the rest.
func (u *Upstream) complete() error {
	if u.Address == "" {
		return nil
	}
	if err := u.Check(); err != nil {
		return err
	}
	if u.Connections == 0 {
		u.Connections = DefaultUpstreamConnections
	}
	if u.Timeout == 0 {
		u.Timeout = DefaultUpstreamTimeout
	}
	if u.Body == 0 {
		u.Body = DefaultUpstreamBody
	}
	return nil
}

// Check returns an error that says what is wrong with u, without looking up the
// name.
func (u *Upstream) Check() error {
	host, port, err := net.SplitHostPort(u.Address)
	switch {
	case strings.Contains(u.Address, "/"):
		return fmt.Errorf("upstream = %q, want HOST:PORT of plain HTTP, without scheme and path", u.Address)
	case err != nil || host == "":
		return fmt.Errorf("upstream = %q, want HOST:PORT such as 127.0.0.1:9000", u.Address)
	case port == "" || strings.Trim(port, "0123456789") != "" || strings.Trim(port, "0") == "":
		return fmt.Errorf("upstream = %q: port %q, want 1 to 65535", u.Address, port)
	case u.Connections < 0:
		return fmt.Errorf("upstream-connections = %d, want 1 or more", u.Connections)
	case u.Timeout < 0:
		return fmt.Errorf("upstream-timeout = %v, want more than 0", u.Timeout)
	case u.Body < 0 || u.Body > upstreamRoom:
		return fmt.Errorf("upstream-body = %d, want 1 to %d", u.Body, upstreamRoom)
	}
	return nil
}

// upstream is what all loops know of it.
type upstream struct {
	Upstream
	transport *http.Transport
	turns     chan struct{} // one for each request that it has
	held      atomic.Int64  // bytes: see upstreamRoom
	opened    atomic.Uint64 // connections
}

// openUpstream looks the upstream up and makes what talks to it. All listeners are
// open.
func (t *Target) openUpstream(cfg *Config) error {
	if cfg.Upstream.Address == "" {
		return nil
	}
	if len(t.nodes) > 1 || t.edges > 0 {
		return errors.New("upstream needs a service that calls no other, and is the only one")
	}
	addrs, err := resolve(cfg.Upstream.Address)
	if err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	local := localAddrs()
	for _, a := range addrs {
		for _, own := range t.listening() {
			if same(a, own, local) {
				return fmt.Errorf("upstream = %q is %v, where this target listens itself: want another service", cfg.Upstream.Address, own)
			}
		}
	}
	u := &upstream{Upstream: cfg.Upstream, turns: make(chan struct{}, cfg.Upstream.Connections)}
	u.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := dialAny(ctx, addrs)
			if err == nil {
				u.opened.Add(1)
			}
			return c, err
		},
		DisableCompression:     true, // the body is handed on as it is
		MaxConnsPerHost:        u.Connections,
		MaxIdleConnsPerHost:    u.Connections,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	t.upstream = u
	for _, l := range t.loops {
		l.beyond = newBeyond(u)
	}
	return nil
}

// listening returns every address that the target listens at.
func (t *Target) listening() []netip.AddrPort {
	own := append([]netip.AddrPort{t.Admin()}, t.replicas...)
	if a, ok := t.Front(); ok {
		own = append(own, a)
	}
	if a, ok := t.Baseline(); ok {
		own = append(own, a)
	}
	return own
}

// localAddrs returns the addresses of this machine, as far as it tells.
func localAddrs() map[netip.Addr]bool {
	local := map[netip.Addr]bool{}
	found, _ := net.InterfaceAddrs() // without them loopback is known all the same
	for _, f := range found {
		if p, err := netip.ParsePrefix(f.String()); err == nil {
			local[p.Addr().Unmap()] = true
		}
	}
	return local
}

// same reports whether a connection to a arrives at own. An unspecified address
// is every one of this machine to a listener, and loopback to a caller.
func same(a, own netip.AddrPort, local map[netip.Addr]bool) bool {
	if a.Port() != own.Port() {
		return false
	}
	to, at := loopbackOf(a).Addr().Unmap().WithZone(""), own.Addr().Unmap().WithZone("")
	return to == at || at.IsUnspecified() && (to.IsLoopback() || local[to])
}

// dialAny connects to the first of the addresses that answers.
func dialAny(ctx context.Context, addrs []netip.AddrPort) (c net.Conn, err error) {
	var d net.Dialer
	for _, a := range addrs {
		if c, err = d.DialContext(ctx, "tcp", a.String()); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// hold takes n bytes of the room; ok is false when there is not so much left.
func (u *upstream) hold(n int) (ok bool) {
	if u.held.Add(int64(n)) > upstreamRoom {
		u.held.Add(-int64(n))
		return false
	}
	return true
}
