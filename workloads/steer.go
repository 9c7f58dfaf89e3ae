package workloads

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Steer says where connections go in place of what the name server says. The
// Host field, the name in the TLS handshake and the certificate that is wanted
// stay those of the URL. The zero Steer changes nothing.
type Steer struct {
	// Resolve are addresses of names that are not looked up.
	Resolve []Resolve
	// ConnectTo are other hosts to connect to; the first that matches counts. It
	// comes before Resolve.
	ConnectTo []ConnectTo
}

// Given says whether s changes anything.
func (s *Steer) Given() bool { return len(s.Resolve) > 0 || len(s.ConnectTo) > 0 }

// Resolve gives a host and port addresses, as curl's option of that name does.
type Resolve struct {
	// Host is in lower case, an IPv6 address without brackets, or "*": any.
	Host string
	// Port is 1 to 65535.
	Port uint16
	// Addrs are at least one, the preferred first.
	Addrs []netip.Addr
}

// ConnectTo has connections go to another host or port, as curl's option of that
// name does.
type ConnectTo struct {
	Host   string // in lower case, an IPv6 address without brackets; "": any
	Port   uint16 // 0: any
	ToHost string // "": the same
	ToPort uint16 // 0: the same
}

const (
	resolveForm   = "HOST:PORT:ADDRESS[,ADDRESS] such as example.com:443:127.0.0.1,[::1]"
	connectToForm = "HOST1:PORT1:HOST2:PORT2 such as example.com:443:staging.example.com:8443"
	// maxSteers bounds each list of a file.
	maxSteers = 1000
	// mostAddresses is the most addresses of one Resolve.
	mostAddresses = 1000
)

// ParseResolve reads HOST:PORT:ADDRESS[,ADDRESS]..., where HOST may be "*". An
// IPv6 address is in brackets.
func ParseResolve(s string) (Resolve, error) {
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") {
		return Resolve{}, fmt.Errorf("%q begins with %q: names are looked up once a run, so no entry times out or is taken back, want %s", clip(s), s[:1], resolveForm)
	}
	var r Resolve
	host, rest, ok := cutHost(s)
	port, list, more := strings.Cut(rest, ":")
	if !ok || !more || host == "" {
		return r, wanted(s, resolveForm)
	}
	var err error
	if r.Host, err = steered(s, host, host == "*"); err != nil {
		return r, err
	}
	if r.Port, err = steeredPort(s, port); err != nil {
		return r, err
	}
	for _, text := range strings.Split(list, ",") {
		bare := text
		if inside, ok := strings.CutPrefix(text, "["); ok {
			if inside, ok = strings.CutSuffix(inside, "]"); ok && strings.Contains(inside, ":") {
				bare = inside
			}
		}
		a, err := netip.ParseAddr(bare)
		if err != nil {
			return r, fmt.Errorf("%q has the address %q, want numbers such as 127.0.0.1 or [::1]", clip(s), clip(text))
		}
		if len(r.Addrs) == mostAddresses {
			return r, fmt.Errorf("%q has more than %d addresses", clip(s), mostAddresses)
		}
		r.Addrs = append(r.Addrs, a.Unmap())
	}
	return r, nil
}

// ParseConnectTo reads HOST1:PORT1:HOST2:PORT2. Each part may be empty: the
// first two then match any, the last two leave what there is. An IPv6 address is
// in brackets.
func ParseConnectTo(s string) (ConnectTo, error) {
	var c ConnectTo
	host, rest, ok := cutHost(s)
	port, to, more := strings.Cut(rest, ":")
	if !ok || !more {
		return c, wanted(s, connectToForm)
	}
	toHost, toPort, ok := cutHost(to)
	if !ok {
		return c, wanted(s, connectToForm)
	}
	if toHost == "" && toPort == "" {
		return c, fmt.Errorf("%q leads nowhere else, want %s", clip(s), connectToForm)
	}
	var err error
	if c.Host, err = steered(s, host, host == ""); err != nil {
		return c, err
	}
	if c.ToHost, err = steered(s, toHost, toHost == ""); err != nil {
		return c, err
	}
	if port != "" {
		if c.Port, err = steeredPort(s, port); err != nil {
			return c, err
		}
	}
	if toPort != "" {
		c.ToPort, err = steeredPort(s, toPort)
	}
	return c, err
}

// cutHost splits s at the colon behind its host, whose brackets it keeps.
func cutHost(s string) (host, rest string, ok bool) {
	if strings.HasPrefix(s, "[") {
		n := strings.IndexByte(s, ']')
		if n < 0 || n+1 == len(s) || s[n+1] != ':' {
			return "", "", false
		}
		return s[:n+1], s[n+2:], true
	}
	return strings.Cut(s, ":")
}

// steered checks a host of the entry s; free says that any text will do.
func steered(s, host string, free bool) (string, error) {
	if !free && !isHost(host) {
		return "", fmt.Errorf("%q has the host %q, want a name, an address or [an IPv6 address]", clip(s), clip(host))
	}
	if inside, ok := strings.CutPrefix(host, "["); ok {
		a, err := netip.ParseAddr(strings.TrimSuffix(inside, "]"))
		if err != nil {
			return "", fmt.Errorf("%q has the host %q, which is no IPv6 address", clip(s), clip(host))
		}
		return a.String(), nil
	}
	return strings.ToLower(host), nil
}

func steeredPort(s, port string) (uint16, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q has port %q, want 1 to 65535", clip(s), clip(port))
	}
	return uint16(n), nil
}

// String writes r as ParseResolve reads it.
func (r Resolve) String() string {
	s := bracketed(r.Host) + ":" + portText(r.Port) + ":"
	for i, a := range r.Addrs {
		if i > 0 {
			s += ","
		}
		s += bracketed(a.String())
	}
	return s
}

// String writes c as ParseConnectTo reads it.
func (c ConnectTo) String() string {
	return bracketed(c.Host) + ":" + portText(c.Port) + ":" + bracketed(c.ToHost) + ":" + portText(c.ToPort)
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func portText(p uint16) string {
	if p == 0 {
		return ""
	}
	return strconv.Itoa(int(p))
}

// Matches says whether r is about the host and port; a host of "*" matches any.
func (r *Resolve) Matches(host string, port uint16) bool {
	return r.Port == port && (r.Host == "*" || r.Host == sameHost(host))
}

// Matches says whether c is about the host and port.
func (c *ConnectTo) Matches(host string, port uint16) bool {
	return (c.Port == 0 || c.Port == port) && (c.Host == "" || c.Host == sameHost(host))
}

// sameHost returns the host as the entries of a Steer hold it.
func sameHost(host string) string {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String()
	}
	return strings.ToLower(host)
}

// steerFields are the keys of Steer in a workload file.
func (w *Workload) steerFields() []field {
	return []field{
		{"resolve", func(v value) error {
			return listField(v, &w.Steer.Resolve, "entries "+resolveForm, maxSteers, ParseResolve)
		}},
		{"connect-to", func(v value) error {
			return listField(v, &w.Steer.ConnectTo, "entries "+connectToForm, maxSteers, ParseConnectTo)
		}},
	}
}

// writeSteer writes the keys of Steer.
func (w *Workload) writeSteer(y *yamlWriter) {
	var to, of []string
	for _, r := range w.Steer.Resolve {
		of = append(of, r.String())
	}
	for _, c := range w.Steer.ConnectTo {
		to = append(to, c.String())
	}
	y.list("resolve", of)
	y.list("connect-to", to)
}
