package workloads

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"latencylab/service"
)

// setEach reads how single replicas differ from the service v, whose keys are
// ps. An entry of factor and time changes these two; one with other keys stands
// for the whole service with its keys in place of the service's own, and without
// those whose value is none.
func setEach(s *service.Spec, v value, ps []pair, list value) error {
	const want = "a list of maps such as {replica: 0, factor: 2}"
	vs, err := list.list(want)
	if err != nil {
		return err
	}
	known := append([]string{"replica", "factor"}, names(serviceFields(&service.Spec{}, new(int64)))...)
	known = slices.DeleteFunc(known, func(name string) bool { return name == "replicas" || name == "each" })
	for _, e := range vs {
		x, err := e.each(want, known, v, ps)
		if err != nil {
			return err
		}
		s.Each = append(s.Each, x)
	}
	return nil
}

// each reads one replica's entry.
func (e value) each(want string, known []string, v value, ps []pair) (service.Each, error) {
	x := service.Each{Replica: -1}
	own, err := e.pairs(want)
	if err != nil {
		return x, err
	}
	var keys []pair // in place of the service's
	other := false  // there are more than time
	for _, p := range own {
		if !slices.Contains(known, p.key) {
			return x, e.f.at(p.line, unknownKey(p.key, "each", known))
		}
		switch p.key {
		case "replica":
			err = countField(&x.Replica, 0, 65534)(p.value)
		case "factor":
			err = textField(&x.Factor, "a number above 0", readFactor)(p.value)
		default:
			keys = append(keys, p)
			other = other || p.key != "time" || p.none()
		}
		if err != nil {
			return x, err
		}
	}
	switch {
	case x.Replica < 0:
		return x, e.f.at(e.line, fmt.Errorf("%s has no replica, want its number from 0", e.path))
	case len(keys) == 0 && x.Factor == 0:
		return x, e.f.at(e.line, fmt.Errorf("%s has neither factor nor a key of a service, want how replica %d differs", e.path, x.Replica))
	case other:
		x.Own, _, err = v.decodeKeys(overlay(ps, keys), "each", fmt.Sprintf("replica %d: ", x.Replica))
	case len(keys) == 1:
		x.Time = new(service.Dist)
		err = distField(x.Time)(keys[0].value)
	}
	return x, err
}

// none reports whether the value of the key is the word none.
func (p *pair) none() bool {
	text, ok := p.scalar()
	return ok && text == "none"
}

// overlay returns the pairs of a service, without each, with those of a replica in
// their place.
func overlay(ps, keys []pair) []pair {
	var out []pair
	for _, p := range ps {
		if p.key != "each" && !slices.ContainsFunc(keys, func(k pair) bool { return k.key == p.key }) {
			out = append(out, p)
		}
	}
	for _, p := range keys {
		if !p.none() {
			out = append(out, p)
		}
	}
	return out
}

// each writes how single replicas differ.
func (y *yamlWriter) each(s *service.Spec) {
	var shared []entry // what the service says
	y.maps("each", len(s.Each), func(i int) {
		e := &s.Each[i]
		y.word("replica", strconv.Itoa(e.Replica))
		if e.Factor != 0 {
			y.word("factor", formatNumber(e.Factor))
		}
		if e.Time != nil {
			y.word("time", e.Time.String())
		}
		if e.Own == nil {
			return
		}
		if shared == nil {
			shared = written(s)
		}
		own := written(e.Own)
		for _, b := range own {
			// cancel, which is always written, tells it from an entry of factor and time
			if b.key == "cancel" || !slices.Contains(shared, b) {
				for line := range strings.Lines(b.value) {
					y.WriteString(y.indent + line)
				}
			}
		}
		for _, b := range shared {
			if !slices.ContainsFunc(own, func(o entry) bool { return o.key == b.key }) {
				y.WriteString(y.indent + b.key + ": none\n")
			}
		}
	})
}

// written returns the keys of a service, without each, as they are written, each
// with the lines that it takes.
func written(s *service.Spec) (list []entry) {
	alone := *s
	alone.Each = nil
	for line := range strings.Lines(string(writeService(&alone))) {
		if line[0] != ' ' {
			key, _, _ := strings.Cut(line, ":")
			list = append(list, entry{key: key})
		}
		list[len(list)-1].value += line
	}
	return list
}
