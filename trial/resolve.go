package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"latencylab/engine"
	"latencylab/results"
	"latencylab/workloads"
)

// resolveTimeout bounds the look-up of all names.
const resolveTimeout = 5 * time.Second

// Site is where requests go and what they say about it.
type Site struct {
	// Host is the value of the Host header.
	Host string
	// Path is the request target, from its slash.
	Path string
	// TLS says that the scheme is https. ServerName is then the name that all
	// replicas have; "" is that of each in Names.
	TLS        bool
	ServerName string
	// Names are the replicas as host:port, Endpoints the same with addresses
	// once Resolve has found them.
	Names     []string
	Endpoints []engine.Endpoint
	// Steer changes where connections go.
	Steer workloads.Steer
	// Resolver looks names up. nil is that of the system.
	Resolver *net.Resolver
	looks    []results.Name // by replica, once Resolve has found them; without addresses
}

// ParseSite reads a URL and the endpoints that serve it. Without endpoints the
// URL's own host is the only replica; with them it is only the Host header. An
// endpoint is host:port or a URL without path. url may be empty when there are
// endpoints: the first one is the host then, and path is the request target. All
// have the same scheme, an endpoint without one that of the others.
func ParseSite(rawURL, path string, endpoints []string) (*Site, error) {
	s := &Site{Path: path}
	scheme := ""
	if rawURL != "" {
		u, err := parseURL("URL", rawURL)
		if err != nil {
			return nil, err
		}
		scheme = u.Scheme
		s.Host, s.Path, s.ServerName = u.Host, u.RequestURI(), u.Hostname()
		if len(endpoints) == 0 {
			s.Names = []string{hostPort(u)}
		}
	}
	for _, e := range endpoints {
		raw := e
		if !strings.Contains(e, "://") {
			raw = cmp.Or(scheme, "http") + "://" + e
		}
		u, err := parseURL("endpoint", raw)
		if err != nil {
			return nil, err
		}
		if u.Port() == "" && raw != e {
			return nil, fmt.Errorf("endpoint %q has no port, want host:port such as %s:8080", e, u.Host)
		}
		if u.Path != "" && u.Path != "/" || u.RawQuery != "" {
			return nil, fmt.Errorf("endpoint %q has a path, want host:port: the path comes from the URL", e)
		}
		switch {
		case scheme == "":
			scheme = u.Scheme
		case scheme != u.Scheme:
			return nil, fmt.Errorf("endpoint %q is not %s:// like what stands before it, want one scheme for all", e, scheme)
		}
		if s.Host == "" {
			s.Host = u.Host
		}
		s.Names = append(s.Names, hostPort(u))
	}
	if len(s.Names) == 0 {
		return nil, errors.New("no URL and no endpoint")
	}
	if s.Path == "" {
		s.Path = "/"
	}
	s.TLS = scheme == "https"
	return s, nil
}

func parseURL(what, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, fmt.Errorf("%s %q: %w", what, raw, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" { // url.Parse has made it lower case
		return nil, fmt.Errorf("%s %q has the scheme %q, want http:// or https://", what, raw, u.Scheme)
	}
	switch {
	case u.Hostname() == "":
		return nil, fmt.Errorf("%s %q has no host, want such as http://127.0.0.1:8080/", what, raw)
	case u.User != nil:
		return nil, fmt.Errorf("%s %q holds a user's name, want -H 'Authorization: …' instead", what, raw)
	case strings.ContainsFunc(u.Host, func(c rune) bool { return c > 0x7f }):
		return nil, fmt.Errorf("%s %q has the host %q, want an international name in its ASCII form (xn--…)", what, raw, u.Host)
	case strings.ContainsAny(u.Host, " \t\"<>"):
		return nil, fmt.Errorf("%s %q has a host with forbidden characters", what, raw)
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("%s %q has port %s, want 1 to 65535", what, raw, p)
		}
	}
	return u, nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Resolve looks each replica's name up once and takes all its addresses, IPv6
// and IPv4, in the order of the resolver (RFC 6724) with the families taking
// turns (RFC 8305 section 4); s.Steer comes first. An error names the name that
// has none.
func (s *Site) Resolve(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, resolveTimeout)
	defer stop()
	s.Endpoints, s.looks = nil, nil
	for _, name := range s.Names {
		a, err := s.aimAt(name)
		if err != nil {
			return err
		}
		began := time.Now()
		addrs, err := a.resolve(ctx, s.resolver())
		if err != nil {
			if to := a.String(); to != name {
				err = fmt.Errorf("%w (%s is connected to at %s)", err, name, to)
			}
			return err
		}
		look := results.Name{Endpoint: name, Dialled: a.String(), Source: a.source()}
		if look.Source == results.ByLookup {
			look.TookNS = int64(time.Since(began))
		}
		s.looks = append(s.looks, look)
		s.Endpoints = append(s.Endpoints, engine.Endpoint{Name: name, Addrs: addrs})
	}
	return nil
}

func (s *Site) resolver() *net.Resolver {
	if s.Resolver == nil {
		return net.DefaultResolver
	}
	return s.Resolver
}

// resolve returns the addresses of a, in the order in which they are dialled.
func (a *aim) resolve(ctx context.Context, r *net.Resolver) ([]netip.AddrPort, error) {
	var addrs []netip.AddrPort
	if a.by != nil { // in the order in which they were given
		for _, ip := range a.by.Addrs {
			addrs = append(addrs, netip.AddrPortFrom(ip, a.port))
		}
		return addrs, nil
	}
	if ip, err := netip.ParseAddr(a.host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), a.port)}, nil
	}
	found, err := r.LookupIPAddr(ctx, a.host)
	if err != nil {
		return nil, fmt.Errorf("resolve %q: %s", a.host, whyNot(err))
	}
	for _, f := range found {
		if ip, ok := netip.AddrFromSlice(f.IP); ok {
			addrs = append(addrs, netip.AddrPortFrom(ip.Unmap().WithZone(f.Zone), a.port))
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("resolve %q: no address", a.host)
	}
	return engine.Interleave(addrs), nil
}

// whyNot is what a look-up failed for.
func whyNot(err error) string {
	var de *net.DNSError
	switch {
	case !errors.As(err, &de):
		return err.Error()
	case de.IsNotFound:
		return "no such host, or one without an address"
	case de.IsTimeout:
		return "the name server did not answer in time"
	}
	return de.Err
}

// Scheme is "http" or "https".
func (s *Site) Scheme() string {
	if s.TLS {
		return "https"
	}
	return "http"
}

// URLs returns the replicas as URLs without path, as a workload holds them.
func (s *Site) URLs() []string {
	var out []string
	for _, n := range s.Names {
		out = append(out, s.Scheme()+"://"+n)
	}
	return out
}
