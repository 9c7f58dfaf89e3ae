package workloads

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"latencylab/service"
	"latencylab/units"
)

// Bounds of what a workload may hold.
const (
	maxPolicies  = 64
	maxEndpoints = 65535
	maxWithin    = 64
	maxHeaders   = 100
	// maxBody leaves room for base64 in a file of maxFile bytes.
	maxBody = 512 << 10
)

// decodeWorkload reads a workload file.
func (f *file) decodeWorkload(data []byte) (*Workload, error) {
	root, err := f.parse(data)
	if err != nil {
		return nil, err
	}
	w := New()
	lines, err := root.fields("", "a map of keys such as rate: 1000/s", w.fields())
	if err != nil {
		return nil, err
	}
	if w.Name == "" {
		w.Name = nameOfFile(f.name)
	}
	if err := w.Check(); err != nil {
		line := root.line
		var c *conflict
		if errors.As(err, &c) && lines[c.key] != 0 {
			line = lines[c.key]
		}
		return nil, f.at(line, err)
	}
	return w, nil
}

// nameOfFile makes a name of a file's name: "dir/My Test.yaml" gives "my-test".
func nameOfFile(file string) string {
	base := strings.ToLower(filepath.Base(file))
	base = strings.TrimSuffix(strings.TrimSuffix(base, ".yaml"), ".yml")
	name := []byte(base)
	for i, c := range name {
		if !nameByte(c) {
			name[i] = '-'
		}
	}
	s := strings.Trim(string(name[:min(len(name), maxName)]), "-")
	if s == "" {
		return "workload"
	}
	return s
}

// fields lists the keys of a workload file.
func (w *Workload) fields() []field {
	return append(slices.Concat(w.stageFields(), w.tlsFields(), w.steerFields(), w.guardFields()), []field{
		{"name", textField(&w.Name, "a name of a-z, 0-9, '.', '_' and '-'", func(s string) (string, error) {
			if checkName(s) != nil {
				return "", wanted(s, "a-z, 0-9, '.', '_' and '-' only, at most 64")
			}
			return s, nil
		})},
		{"about", textField(&w.About, "a sentence", func(s string) (string, error) { return strings.TrimSpace(s), nil })},
		{"rate", textField(&w.Rate, "a rate such as 1000/s", units.ParseRate)},
		{"arrivals", textField(&w.Arrivals, "poisson or constant", ParseKind)},
		{"duration", spanField(&w.Duration)},
		{"warmup", func(v value) error {
			w.WarmupGiven = true
			return textField(&w.Warmup, "a duration such as 10s", units.ParseDuration)(v)
		}},
		{"requests", requestsField(&w.Requests)},
		{"clients", countField(&w.Clients, 1, 1e6)},
		{"threads", countField(&w.Threads, 1, 1024)},
		{"connections", countField(&w.Connections, 1, 10e6)},
		{"drain", spanField(&w.Drain)},
		{"within", w.setWithin},
		{"method", textField(&w.Request.Method, "a method such as GET or POST", ParseMethod)},
		{"path", textField(&w.Request.Path, `a path that begins with "/"`, ParsePath)},
		{"header", func(v value) error {
			return listField(v, &w.Request.Headers, `headers such as "Accept: text/html"`, maxHeaders, ParseHeader)
		}},
		{"body", w.setBody},
		{"endpoint", func(v value) error {
			return listField(v, &w.Endpoints, "endpoints such as http://127.0.0.1:8080", maxEndpoints, ParseEndpoint)
		}},
		{"policy", func(v value) error { return setPolicies(&w.Policies, v) }},
		{"service", w.setService},
		{"seed", textField(&w.Seed, "a number such as 1", func(s string) (uint64, error) {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				err = wanted(s, "a whole number of 0 or more, below 2^64")
			}
			return n, err
		})},
		{"sim", func(v value) error {
			_, err := v.fields("sim", "a map of the keys policy, duration, requests and stages", []field{
				{"policy", func(v value) error { return setPolicies(&w.Sim.Policies, v) }},
				{"duration", spanField(&w.Sim.Duration)},
				{"requests", requestsField(&w.Sim.Requests)},
				{"stages", func(v value) error { return setStages(&w.Sim.Stages, v) }},
			})
			return err
		}},
	}...)
}

// textField reads one scalar by read.
func textField[T any](to *T, want string, read func(string) (T, error)) func(value) error {
	return func(v value) error {
		s, err := v.text(want)
		if err != nil {
			return err
		}
		x, err := read(s)
		if err != nil {
			return v.wrap(err)
		}
		*to = x
		return nil
	}
}

// spanField reads a duration above 0.
func spanField(to *time.Duration) func(value) error {
	return textField(to, "a duration such as 10s", func(s string) (d time.Duration, err error) {
		err = setSpan(&d, s)
		return d, err
	})
}

// countField reads a count from least to most.
func countField(to *int, least, most uint64) func(value) error {
	return textField(to, fmt.Sprintf("%d or more", least), func(s string) (int, error) {
		n, err := units.ParseCount(s)
		switch {
		case err != nil:
			return 0, err
		case n < least:
			return 0, wanted(s, fmt.Sprintf("%d or more", least))
		case n > most:
			return 0, wanted(s, fmt.Sprintf("at most %s", units.FormatCount(most)))
		}
		return int(n), nil
	})
}

func requestsField(to *uint64) func(value) error {
	return textField(to, "1 or more", func(s string) (uint64, error) {
		n, err := units.ParseCount(s)
		if err == nil && n == 0 {
			err = wanted(s, "1 or more")
		}
		return n, err
	})
}

// listField reads a list of scalars, or one, by read.
func listField[T any](v value, to *[]T, want string, most int, read func(string) (T, error)) error {
	vs, err := v.list(want)
	if err != nil {
		return err
	}
	if len(vs) > most {
		return v.wrap(fmt.Errorf("a list of %d, want at most %d", len(vs), most))
	}
	for _, e := range vs {
		s, err := e.text(want)
		if err != nil {
			return err
		}
		x, err := read(s)
		if err != nil {
			return e.wrap(err)
		}
		*to = append(*to, x)
	}
	return nil
}

func (w *Workload) setWithin(v value) error {
	err := listField(v, &w.Within, "durations such as 100ms", maxWithin, func(s string) (d time.Duration, err error) {
		if err = setSpan(&d, s); err == nil && slices.Contains(w.Within, d) {
			err = fmt.Errorf("%q is given twice", clip(s))
		}
		return d, err
	})
	slices.Sort(w.Within)
	return err
}

// setBody reads the body: text, "@FILE", or !!binary and base64.
func (w *Workload) setBody(v value) error {
	const want = "text or @FILE"
	data, binary, err := v.bytes(want)
	if err != nil {
		return err
	}
	if !binary && len(data) > 0 && data[0] == '@' {
		name := string(data[1:])
		if name == "" {
			return v.fail("@FILE with the name of a file")
		}
		if data, err = v.f.open(name, maxFile); err != nil {
			return v.wrap(fmt.Errorf("%q: %w", clip("@"+name), err))
		}
	}
	if len(data) > maxBody {
		return v.wrap(fmt.Errorf("%d bytes, want at most %d", len(data), maxBody))
	}
	w.Request.Body = data
	return nil
}

func (w *Workload) setService(v value) error {
	if name, ok := v.scalar(); ok {
		data, err := v.f.open(name, maxFile)
		if err != nil {
			return v.wrap(fmt.Errorf("%q: %w", clip(name), err))
		}
		inner := file{what: "service", name: v.f.beside(name), read: v.f.read}
		g, err := inner.decodeGraph(data)
		return w.take(g, err)
	}
	return w.take(decodeGraph(v, "service"))
}

// take sets the services.
func (w *Workload) take(g *Graph, err error) error {
	if err != nil {
		return err
	}
	w.Service = g.Entry()
	if len(g.Services) > 1 || g.Calls() {
		w.Graph = g
	}
	return nil
}

// Services returns all services of the workload, the entry first; nil when none
// is known.
func (w *Workload) Services() *Graph {
	switch {
	case w.Graph != nil:
		return w.Graph
	case w.Service != nil:
		return Single(w.Service)
	}
	return nil
}

// open reads a file that this one names.
func (f *file) open(name string, most int) ([]byte, error) {
	if name == "" {
		return nil, errors.New("no file name")
	}
	return f.read(f.beside(name), most)
}

// dist reads a distribution and the files that it names, each text once.
func (f *file) dist(text string) (service.Dist, error) {
	if d, ok := f.dists[text]; ok {
		return d, nil
	}
	read := false
	d, err := service.ParseDistFrom(text, func(name string, most int) ([]byte, error) {
		read = true
		return f.open(name, most)
	})
	if err == nil && read {
		if f.dists == nil {
			f.dists = map[string]service.Dist{}
		}
		f.long, f.dists[text] = true, d
	}
	return d, err
}

// beside returns the path of a file that this one names: relative names count
// from this file's directory.
func (f *file) beside(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(f.name), name)
}

// setPolicies reads a list of SPEC strings and maps, or one of them.
func setPolicies(to *[]NamedPolicy, v value) error {
	const want = "a list of policies such as hedge=p95"
	vs, err := v.list(want)
	if err != nil {
		return err
	}
	if len(vs) > maxPolicies {
		return v.wrap(fmt.Errorf("a list of %d, want at most %d", len(vs), maxPolicies))
	}
	for _, e := range vs {
		np, err := e.policy(want)
		if err != nil {
			return err
		}
		if err := sameName(*to, np); err != nil {
			return e.f.at(e.line, err)
		}
		*to = append(*to, np)
	}
	return nil
}

// policy reads one policy: a SPEC string, or a map of the same keys and name.
func (v value) policy(want string) (NamedPolicy, error) {
	if s, ok := v.scalar(); ok {
		np, err := ParsePolicy(s)
		if err != nil {
			return np, v.f.at(v.line, err)
		}
		return np, nil
	}
	ps, err := v.pairs(want)
	if err != nil {
		return NamedPolicy{}, err
	}
	name := ""
	var entries []entry
	for _, p := range ps {
		if p.key == "name" {
			if err := textField(&name, "a name", func(s string) (string, error) { return s, nil })(p.value); err != nil {
				return NamedPolicy{}, err
			}
			if err := checkName(name); err != nil {
				return NamedPolicy{}, v.f.at(p.line, err)
			}
			continue
		}
		k := specKeyNamed(p.key)
		if k == nil {
			return NamedPolicy{}, v.f.at(p.line, unknownKey(p.key, "policy", append([]string{"name"}, specKeyNames...)))
		}
		s, err := p.specValue(k)
		if err != nil {
			return NamedPolicy{}, err
		}
		entries = append(entries, entry{key: p.key, value: s, line: p.line})
	}
	if len(entries) == 0 {
		return NamedPolicy{}, v.f.at(v.line, errors.New("a policy without keys, want plain: true or keys such as hedge: p95"))
	}
	np, err := buildPolicy(name, entries)
	if err != nil {
		line := v.line
		var e *entryError
		if errors.As(err, &e) && e.line != 0 {
			line = e.line
		}
		return NamedPolicy{}, v.f.at(line, fmt.Errorf("policy %w", err))
	}
	return np, nil
}

// specValue returns the value of a key of a policy as a SPEC would write it. A
// list of statuses may be a YAML list.
func (p pair) specValue(k *specKey) (string, error) {
	want := k.want
	if k.name == "plain" {
		want = "true"
	}
	vs, err := p.list(want)
	if err != nil || k.name != "retry.on" {
		return p.text(want)
	}
	var parts []string
	for _, e := range vs {
		s, err := e.text(want)
		if err != nil {
			return "", err
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "+"), nil
}
