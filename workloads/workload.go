package workloads

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"latencylab/service"
	"latencylab/units"
)

// Workload says what is driven, how, and under which policies. A zero number
// leaves the choice to the driver, which prints and stores what it chose.
type Workload struct {
	// Name is the file's name without its ending, if the file gives none.
	Name string
	// About is one sentence for lists.
	About string

	// Rate is the rate of an open loop; 0 is a closed loop.
	Rate     units.Rate
	Arrivals Kind
	// Duration or Requests, not both, is how much is measured of each policy.
	Duration time.Duration
	Requests uint64
	// Warmup is the burn-in before a policy's first data. It counts when
	// WarmupGiven is set or it is not 0.
	Warmup      time.Duration
	WarmupGiven bool
	// Ramp precedes the burn-in of a policy's first block; see Block. It counts when
	// RampGiven is set.
	Ramp      time.Duration
	RampGiven bool
	// Clients is the number of policy clients: call i belongs to client i mod
	// Clients.
	Clients int
	// Threads is the number of event loops.
	Threads int
	// Connections is a ceiling in open loop, the calls in flight in closed loop.
	Connections int
	// Drain is how long calls may go on after the last arrival.
	Drain time.Duration
	// Within holds the thresholds of the objective, ascending.
	Within []time.Duration
	// Stages are the parts of the measurement, in the order of their values. None
	// leaves the choice to the driver.
	Stages []Stage
	// Block is the data time of a block, Pilot the time of plain in the pilot, and
	// Sustained that of each policy in the sustained stage.
	Block, Pilot, Sustained time.Duration
	Pulse                   PulseSpec

	// MaxAttemptRate is a ceiling on attempts a second, first attempts, retries and
	// hedges together. 0: none.
	MaxAttemptRate units.Rate
	// Stops end a measurement that does harm. nil leaves the choice to the driver;
	// an empty list is none.
	Stops []Stop

	Request Request
	// Endpoints are the replicas, as "http://HOST[:PORT]" or all with "https://".
	// None: the embedded target serves Service.
	Endpoints []string
	TLS       TLS
	Steer     Steer
	// Policies have different names. None means plain.
	Policies []NamedPolicy
	// Service is what the simulator and an embedded target do; nil: not known.
	Service *service.Spec
	// Graph, if not nil, is several services, or one that calls on; Service is then
	// its entry.
	Graph *Graph
	// Seed keys arrivals, jitter and picks, and the draws of an embedded target.
	Seed uint64
	// Sim replaces parts for the simulator; see ForSim.
	Sim Sim
}

// Sim is what the simulator does otherwise. Its zero fields replace nothing.
type Sim struct {
	Policies []NamedPolicy
	Duration time.Duration
	Requests uint64
	Stages   []Stage
}

// Request is what every call sends.
type Request struct {
	Method string
	// Path begins with "/" and may have a query.
	Path    string
	Headers []Header
	Body    []byte
	// Safe says that the request may be sent twice whatever its method is.
	Safe bool
	// Key is a field that gets a value of its own for each call, the same on all
	// its attempts, by which the server knows a second one. "" sends none.
	Key string
}

// Header is one header field.
type Header struct{ Name, Value string }

// New returns a workload of nothing but defaults: GET /, seed 1, closed loop.
func New() *Workload {
	return &Workload{Seed: 1, Request: Request{Method: "GET", Path: "/"}}
}

// Idempotent reports whether the request may be sent twice: its method is GET,
// HEAD, OPTIONS, TRACE, PUT or DELETE (RFC 9110 9.2.2), it carries an
// Idempotency-Key or one of its own for each call, or the user says so.
func (r *Request) Idempotent() bool {
	switch r.Method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	if r.Safe || r.Key != "" {
		return true
	}
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, "Idempotency-Key") {
			return true
		}
	}
	return false
}

// ForSim returns the workload as the simulator runs it: what Sim gives replaces
// the workload's own. It shares memory with w.
func (w *Workload) ForSim() *Workload {
	s := *w
	s.Sim = Sim{}
	if w.Sim.Policies != nil {
		s.Policies = w.Sim.Policies
	}
	if w.Sim.Duration != 0 || w.Sim.Requests != 0 {
		s.Duration, s.Requests = w.Sim.Duration, w.Sim.Requests
	}
	if w.Sim.Stages != nil {
		s.Stages = w.Sim.Stages
	}
	return &s
}

// conflict is an error about keys that do not go together; key is the one to
// point at.
type conflict struct{ key, text string }

func (c *conflict) Error() string { return c.text }

// Check returns an error for the first keys that contradict each other, both
// named, or nil. Load, Parse and Builtin have called it; whoever changes a
// workload calls it again.
func (w *Workload) Check() error {
	if w.Duration > 0 && w.Requests > 0 {
		return &conflict{"requests", fmt.Sprintf("duration=%s and requests=%s: both say when to end, want one of them",
			units.FormatDuration(w.Duration), units.FormatCount(w.Requests))}
	}
	if w.Sim.Duration > 0 && w.Sim.Requests > 0 {
		return &conflict{"sim", fmt.Sprintf("sim.duration=%s and sim.requests=%s: both say when to end, want one of them",
			units.FormatDuration(w.Sim.Duration), units.FormatCount(w.Sim.Requests))}
	}
	if w.Block > w.Duration && w.Duration > 0 {
		return &conflict{"block", fmt.Sprintf("block=%s is longer than duration=%s, the data of a policy", units.FormatDuration(w.Block), units.FormatDuration(w.Duration))}
	}
	for i := range w.Endpoints {
		if scheme := schemeOf(w.Endpoints[i]); scheme != schemeOf(w.Endpoints[0]) {
			return &conflict{"endpoint", fmt.Sprintf("endpoints %q and %q, want all with http:// or all with https://", w.Endpoints[0], w.Endpoints[i])}
		}
	}
	if err := w.TLS.check(); err != nil {
		return err
	}
	if w.Arrivals == Constant && w.Rate == 0 {
		return &conflict{"arrivals", "arrivals=constant needs rate"}
	}
	for i := range w.Policies {
		if err := sameName(w.Policies[:i], w.Policies[i]); err != nil {
			return &conflict{"policy", err.Error()}
		}
	}
	for i := range w.Sim.Policies {
		if err := sameName(w.Sim.Policies[:i], w.Sim.Policies[i]); err != nil {
			return &conflict{"sim", err.Error()}
		}
	}
	return nil
}

// sameName refuses a policy that has the name of one before it.
func sameName(before []NamedPolicy, np NamedPolicy) error {
	for _, b := range before {
		if b.Name == np.Name {
			return fmt.Errorf("policies %q and %q are both called %q, want a name before one of them, as in NAME:%s", b.Spec, np.Spec, np.Name, np.Spec)
		}
	}
	return nil
}

// ParseKind reads "poisson" or "constant".
func ParseKind(s string) (Kind, error) {
	var k Kind
	err := setWord(&k, s, []Kind{Poisson, Constant}, []string{"poisson", "constant"})
	return k, err
}

// ParseMethod reads a request method, a token of RFC 9110 5.6.2 in the case it
// is sent. CONNECT is refused: it asks for a tunnel, not for an answer.
func ParseMethod(s string) (string, error) {
	if !isToken(s) || len(s) > 32 {
		return "", wanted(s, "a method such as GET or POST")
	}
	if s == "CONNECT" {
		return "", wanted(s, "a method that is answered, not a tunnel")
	}
	return s, nil
}

// ParsePath reads a request target: it begins with "/" and holds visible ASCII
// without "#".
func ParsePath(s string) (string, error) {
	if s == "" || s[0] != '/' {
		return "", wanted(s, `a path that begins with "/"`)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '#' {
			return "", fmt.Errorf("%q has %q, want it percent-encoded", clip(s), s[i:i+1])
		}
	}
	if len(s) > maxTarget {
		return "", fmt.Errorf("%q is %d bytes long, want at most %d", clip(s), len(s), maxTarget)
	}
	return s, nil
}

// maxTarget bounds paths and header fields, in bytes.
const maxTarget = 8000

// ParseHeader reads "Name: value". The fields that frame a message or that the
// driver sends itself are refused.
func ParseHeader(s string) (Header, error) {
	name, value, ok := strings.Cut(s, ":")
	if !ok || !isToken(name) {
		return Header{}, wanted(s, `a header such as "Accept: text/html"`)
	}
	value = strings.Trim(value, " \t")
	for i := range len(value) {
		if value[i] < ' ' && value[i] != '\t' || value[i] == 0x7f {
			return Header{}, fmt.Errorf("%q has %q in its value, want no control characters", clip(s), value[i:i+1])
		}
	}
	if len(s) > maxTarget {
		return Header{}, fmt.Errorf("%q is %d bytes long, want at most %d", clip(s), len(s), maxTarget)
	}
	switch lower := strings.ToLower(name); {
	case lower == "content-length", lower == "transfer-encoding", lower == "connection", strings.HasPrefix(lower, "latencylab-"):
		return Header{}, fmt.Errorf("%q sets %s, which the driver sets itself", clip(s), name)
	}
	return Header{name, value}, nil
}

// isToken reports whether s is a token of RFC 9110 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// schemeOf returns what stands before "://".
func schemeOf(endpoint string) string {
	scheme, _, _ := strings.Cut(endpoint, "://")
	return scheme
}

// ParseEndpoint reads "http://HOST[:PORT][/]" or the same with https, a replica,
// and returns it without the slash. HOST is a name, an IPv4 address or an IPv6 address in
// brackets (RFC 3986 3.2.2).
func ParseEndpoint(s string) (string, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || rest == "" {
		return "", wanted(s, "an endpoint such as http://127.0.0.1:8080")
	}
	if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" {
		return "", wanted(s, "an endpoint that begins with http:// or https://")
	}
	host := rest
	if n := strings.IndexAny(rest, "/?#"); n >= 0 {
		host = rest[:n]
		if rest[n:] != "/" {
			return "", fmt.Errorf("%q has a path, want %s://%s, and the path under the key path", clip(s), scheme, clip(host))
		}
	}
	if n := strings.LastIndexByte(host, '@'); n >= 0 {
		return "", fmt.Errorf("%q has a user, want an endpoint such as %s://%s", clip(s), scheme, clip(host[n+1:]))
	}
	name, port := host, ""
	if n := strings.LastIndexByte(host, ':'); n > strings.LastIndexByte(host, ']') {
		name, port = host[:n], host[n+1:]
		if v, err := strconv.ParseUint(port, 10, 16); err != nil || v == 0 {
			return "", fmt.Errorf("%q has port %q, want 1 to 65535", clip(s), clip(port))
		}
	}
	if !isHost(name) {
		return "", wanted(s, "an endpoint such as http://127.0.0.1:8080")
	}
	return scheme + "://" + host, nil
}

// isHost reports whether s may be a name or an address; whether it exists is
// for the driver to find out.
func isHost(s string) bool {
	inside, isAddress := strings.CutPrefix(s, "[")
	if isAddress {
		inside, isAddress = strings.CutSuffix(inside, "]")
		return isAddress && strings.IndexByte(inside, ':') >= 0 && strings.Trim(inside, "0123456789abcdefABCDEF:.") == ""
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	return s != "" && len(s) <= 253
}

// specsOf returns the entries that read back as ps: specs, with the name where
// it is not the default.
func specsOf(ps []NamedPolicy) []string {
	var specs []string
	for _, np := range ps {
		spec := FormatPolicy(np.Policy)
		if again, err := ParsePolicy(spec); err != nil || again.Name != np.Name {
			spec = np.Name + ":" + spec
		}
		specs = append(specs, spec)
	}
	return specs
}
