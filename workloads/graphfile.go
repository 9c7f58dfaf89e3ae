package workloads

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"latencylab/policy"
)

// LoadGraph reads a service file: a map of the keys of one service, or the key
// services with several that call each other.
func LoadGraph(path string) (*Graph, error) {
	data, err := readFile(path, maxFile, true)
	if err != nil {
		return nil, fmt.Errorf("read service: %w", err)
	}
	return ParseGraph(path, data)
}

// ParseGraph is LoadGraph of data that was read from file.
func ParseGraph(file string, data []byte) (*Graph, error) {
	return newFile("service", file).decodeGraph(data)
}

// ParseGraphText is ParseGraph of data that came from elsewhere, such as over a
// network: it may name no file.
func ParseGraphText(what string, data []byte) (*Graph, error) {
	return (&file{what: "service", name: what, read: readNoFile}).decodeGraph(data)
}

// decodeGraph reads a service file.
func (f *file) decodeGraph(data []byte) (*Graph, error) {
	root, err := f.parse(data)
	if err != nil {
		return nil, err
	}
	return decodeGraph(root, "")
}

// graphReader reads the key services.
type graphReader struct {
	g     Graph
	names []string
	calls [][]callText // by service
	lines []int        // of services
}

// callText is what is looked up once all names are known.
type callText struct {
	line, toLine int
	to           string
	after        []string
	afterLine    int
}

// decodeGraph reads the map of one service, or of several; in is "service"
// inside a workload.
func decodeGraph(v value, in string) (*Graph, error) {
	ps, err := v.pairs("a map of keys such as time: 5ms, or the path of a file")
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(ps, func(p pair) bool { return p.key == "services" }) {
		s, err := decodeService(v, in)
		if err != nil {
			return nil, err
		}
		return Single(s), nil
	}
	var r graphReader
	entry := ""
	lines, err := v.fields(in, "a map of the keys services and entry", []field{
		{"services", r.services},
		{"entry", textField(&entry, "the name of a service", func(s string) (string, error) { return s, nil })},
	})
	if err != nil {
		return nil, err
	}
	if entry != "" {
		i := slices.Index(r.names, entry)
		if i < 0 {
			return nil, v.f.at(lines["entry"], fmt.Errorf("entry = %q, want a service of the file, nearest is %q", clip(entry), Nearest(entry, r.names)))
		}
		r.first(i)
	}
	if err := r.resolve(v.f); err != nil {
		return nil, err
	}
	if err := r.g.Validate(); err != nil {
		line := lines["services"]
		var e *graphError
		if errors.As(err, &e) && e.node >= 0 {
			if line = r.lines[e.node]; e.call >= 0 {
				line = r.calls[e.node][e.call].line
			}
		}
		return nil, v.f.at(line, err)
	}
	return &r.g, nil
}

// first moves service i to the front.
func (r *graphReader) first(i int) {
	n, name, calls, line := r.g.Services[i], r.names[i], r.calls[i], r.lines[i]
	r.g.Services = slices.Insert(slices.Delete(r.g.Services, i, i+1), 0, n)
	r.names = slices.Insert(slices.Delete(r.names, i, i+1), 0, name)
	r.calls = slices.Insert(slices.Delete(r.calls, i, i+1), 0, calls)
	r.lines = slices.Insert(slices.Delete(r.lines, i, i+1), 0, line)
}

func (r *graphReader) services(v value) error {
	ps, err := v.pairs("a map of services such as {a: {calls: [{to: b}]}, b: {time: 5ms}}")
	if err != nil {
		return err
	}
	if len(ps) > MaxServices {
		return v.wrap(fmt.Errorf("%d services, want at most %d", len(ps), MaxServices))
	}
	for _, p := range ps {
		n := Node{Name: p.key}
		var calls []callText
		if err := decodeNode(&n, &calls, p.value); err != nil {
			return err
		}
		r.g.Services = append(r.g.Services, n)
		r.names = append(r.names, p.key)
		r.calls = append(r.calls, calls)
		r.lines = append(r.lines, p.line)
	}
	return nil
}

// decodeNode reads one service: its own keys, and what it calls.
func decodeNode(n *Node, calls *[]callText, v value) error {
	ps, err := v.pairs("a map of keys such as time: 5ms and calls")
	if err != nil {
		return err
	}
	hop := []field{
		{"calls", func(v value) error { return setCalls(&n.Calls, calls, v) }},
		{"time-after", distField(&n.After)},
		{"cancels", truthField(&n.Cancels)},
		{"silent", truthField(&n.Silent)},
	}
	var rest []pair
	for _, p := range ps {
		i := slices.IndexFunc(hop, func(f field) bool { return f.name == p.key })
		if i < 0 {
			rest = append(rest, p)
			continue
		}
		if err := hop[i].set(p.value); err != nil {
			return err
		}
	}
	s, err := decodeServiceOf(v, rest, "service "+clip(n.Name))
	if err == nil {
		n.Spec = *s
	}
	return err
}

// resolve finds what the names of calls mean.
func (r *graphReader) resolve(f *file) error {
	for i := range r.g.Services {
		n := &r.g.Services[i]
		for k := range n.Calls {
			c, text := &n.Calls[k], &r.calls[i][k]
			if c.URL == "" {
				if c.To = slices.Index(r.names, text.to); c.To < 0 {
					return f.at(text.toLine, fmt.Errorf("service %s: to = %q, want a service of the file or a URL, nearest is %q", n.Name, clip(text.to), Nearest(text.to, r.names)))
				}
			}
			for _, name := range text.after {
				a := slices.IndexFunc(n.Calls[:k], func(o Call) bool { return o.Name == name })
				if a < 0 {
					return f.at(text.afterLine, fmt.Errorf("service %s: call %s: after = %q, want the name of a call before it", n.Name, c.Name, clip(name)))
				}
				c.After = append(c.After, a)
			}
		}
	}
	return nil
}

const callWanted = "a list of maps such as {to: b, policy: \"retry=2\"}"

func setCalls(to *[]Call, texts *[]callText, v value) error {
	vs, err := v.list(callWanted)
	if err != nil {
		return err
	}
	if len(vs) > MaxCalls {
		return v.wrap(fmt.Errorf("a list of %d, want at most %d", len(vs), MaxCalls))
	}
	for _, e := range vs {
		c, text, err := decodeCall(e)
		if err != nil {
			return err
		}
		*to = append(*to, c)
		*texts = append(*texts, text)
	}
	return nil
}

// decodeCall reads one call. Its names are looked up later.
func decodeCall(v value) (c Call, text callText, err error) {
	var reserve, least time.Duration
	forward := ""
	name := func(s string) (string, error) { return s, checkName(s) }
	lines, err := v.fields("calls", callWanted, []field{
		{"to", textField(&text.to, "a service of the file or a URL", func(s string) (string, error) { return s, nil })},
		{"name", textField(&c.Name, "a name", name)},
		{"policy", func(v value) error {
			np, err := v.policy("a policy such as retry=2")
			c.Policy = np
			return err
		}},
		{"fan", countField(&c.Fan, 1, MaxFan)},
		{"need", countField(&c.Need, 1, MaxFan)},
		{"optional", truthField(&c.Optional)},
		{"after", func(v value) error {
			return listField(v, &text.after, "names of calls", MaxCalls, func(s string) (string, error) { return s, nil })
		}},
		{"reserve", spanField(&reserve)},
		{"min-start", spanField(&least)},
		{"forward-deadline", textField(&forward, "true, false or the name of a header", func(s string) (string, error) { return s, nil })},
		{"connections", countField(&c.Connections, 1, 1e6)},
	})
	if err != nil {
		return c, text, err
	}
	text.line, text.toLine, text.afterLine = v.line, lines["to"], lines["after"]
	if lines["to"] == 0 {
		return c, text, v.f.at(v.line, fmt.Errorf("%s has no to, want a service of the file or a URL", v.path))
	}
	if c.Policy.Name == "" {
		c.Policy = NamedPolicy{Name: "plain"}
	}
	for _, set := range []struct {
		key string
		to  *time.Duration
		d   time.Duration
	}{{"reserve", &c.Policy.Policy.Reserve, reserve}, {"min-start", &c.Policy.Policy.MinStart, least}} {
		switch {
		case set.d == 0:
		case *set.to != 0:
			return c, text, v.f.at(lines[set.key], fmt.Errorf("%s is given twice, in the policy too", set.key))
		default:
			*set.to = set.d
		}
	}
	if err := setForward(&c.Policy.Policy, forward); err != nil {
		return c, text, v.f.at(lines["forward-deadline"], err)
	}
	c.Policy.Spec = FormatPolicy(c.Policy.Policy)
	if strings.Contains(text.to, "://") {
		host, err := parseCallURL(text.to)
		if err != nil {
			return c, text, v.f.at(text.toLine, fmt.Errorf("to = %w", err))
		}
		c.To, c.URL = -1, text.to
		if c.Name == "" {
			c.Name = host
		}
	}
	if c.Name == "" {
		c.Name = text.to
	}
	return c, text, nil
}

// setForward reads the value of forward-deadline.
func setForward(p *policy.Policy, word string) error {
	switch word {
	case "":
		return nil
	case "false":
		if p.Wire != policy.WireNone {
			return fmt.Errorf("forward-deadline=false contradicts deadline.wire=%s of the policy", p.Wire)
		}
		return nil
	case "true":
		if p.Wire == policy.WireNone {
			p.Wire = policy.WireDeadlineMS
		}
		return nil
	}
	w, ok := policy.WireNamed(word)
	switch {
	case !ok || w == policy.WireNone:
		return fmt.Errorf("forward-deadline = %w", wanted(word, "true, false, "+orList(wireWords)))
	case p.Wire != policy.WireNone && p.Wire != w:
		return fmt.Errorf("forward-deadline=%s contradicts deadline.wire=%s of the policy", word, p.Wire)
	}
	p.Wire = w
	return nil
}

// parseCallURL reads http://HOST[:PORT][/PATH] and returns the name of the host
// as a call may be called.
func parseCallURL(s string) (host string, err error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "":
		return "", wanted(s, "a URL such as http://127.0.0.1:8080/")
	case u.Fragment != "":
		return "", fmt.Errorf("%q has a fragment, which is never sent", clip(s))
	}
	if _, err := ParseEndpoint(u.Scheme + "://" + u.Host); err != nil {
		return "", wanted(s, "a URL such as http://127.0.0.1:8080/")
	}
	if _, err := ParsePath(pathOf(u)); err != nil {
		return "", err
	}
	name := []byte(strings.ToLower(u.Host))
	for i, c := range name {
		if !nameByte(c) {
			name[i] = '-'
		}
	}
	return string(name[:min(len(name), maxName)]), nil
}

func pathOf(u *url.URL) string {
	if p := u.RequestURI(); p != "" {
		return p
	}
	return "/"
}

// HostAndPath splits the URL of a call: HOST:PORT and the request target.
func (c *Call) HostAndPath() (host, path string, err error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "", "", fmt.Errorf("call %s: %w", c.Name, err)
	}
	host = u.Host
	if u.Port() == "" {
		host += ":80"
	}
	return host, pathOf(u), nil
}

// MarshalGraph returns a service file that ParseGraph reads back to services
// that behave alike. It fails for a Graph that no file could hold.
func MarshalGraph(g *Graph) ([]byte, error) {
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("write service: %w", err)
	}
	if len(g.Services) == 1 && g.Services[0].Name == "" {
		return MarshalService(g.Entry())
	}
	var y yamlWriter
	y.graph(g)
	data := []byte(y.String())
	if _, err := (&file{what: "service", name: "resolved", read: readNothing}).decodeGraph(data); err != nil {
		return nil, fmt.Errorf("write service: %w", err)
	}
	return data, nil
}

// graph writes services, or the one that has no name.
func (y *yamlWriter) graph(g *Graph) {
	if len(g.Services) == 1 && g.Services[0].Name == "" {
		y.service(g.Entry())
		return
	}
	y.word("entry", g.Services[0].Name)
	y.open("services")
	for i := range g.Services {
		n := &g.Services[i]
		y.open(quote(n.Name))
		y.service(&n.Spec)
		if !n.After.IsZero() {
			y.word("time-after", n.After.String())
		}
		y.truth("cancels", n.Cancels)
		y.truth("silent", n.Silent)
		y.maps("calls", len(n.Calls), func(k int) { y.call(g, n, &n.Calls[k]) })
		y.close()
	}
	y.close()
}

func (y *yamlWriter) truth(key string, is bool) {
	if is {
		y.word(key, "true")
	}
}

func (y *yamlWriter) call(g *Graph, n *Node, c *Call) {
	if c.URL != "" {
		y.word("to", c.URL)
	} else {
		y.word("to", g.Services[c.To].Name)
	}
	y.word("name", c.Name)
	for _, s := range specsOf([]NamedPolicy{c.Policy}) {
		y.word("policy", s)
	}
	if p := &c.Policy.Policy; p.Deadline == 0 { // else they stand in the SPEC
		y.span("reserve", p.Reserve)
		y.span("min-start", p.MinStart)
		if p.Wire != policy.WireNone {
			y.word("forward-deadline", p.Wire.String())
		}
	}
	y.count("fan", uint64(c.Fan))
	y.count("need", uint64(c.Need))
	y.truth("optional", c.Optional)
	var after []string
	for _, a := range c.After {
		after = append(after, n.Calls[a].Name)
	}
	y.list("after", after)
	y.count("connections", uint64(c.Connections))
}
