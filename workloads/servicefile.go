package workloads

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"latencylab/service"
	"latencylab/units"
)

// maxResolved bounds a service file in which what other files say is written
// out: it and the rest of a workload fit into a file of maxFile bytes.
const maxResolved = 900 << 10

// decodeService reads a service file.
func (f *file) decodeService(data []byte) (*service.Spec, error) {
	root, err := f.parse(data)
	if err != nil {
		return nil, err
	}
	return decodeService(root, "")
}

// decodeService reads the map of a service; in is "service" inside a workload.
func decodeService(v value, in string) (*service.Spec, error) {
	ps, err := v.pairs("a map of keys such as time: 5ms, or the path of a file")
	if err != nil {
		return nil, err
	}
	return decodeServiceOf(v, ps, in)
}

// decodeServiceOf is decodeService of keys of the map.
func decodeServiceOf(v value, ps []pair, in string) (*service.Spec, error) {
	own := func(p pair) bool { return p.key == "each" }
	s, lines, err := v.decodeKeys(slices.DeleteFunc(slices.Clone(ps), own), in, "")
	if err != nil {
		return nil, err
	}
	for _, p := range ps {
		if !own(p) {
			continue
		}
		lines[p.key] = p.line
		if err := setEach(s, v, ps, p.value); err != nil {
			return nil, err
		}
	}
	err = s.Validate()
	if err == nil && lines["retry-after"] != 0 && !SaysRetryAfter(s) {
		err = errors.New("retry-after needs a status 429 or 503, a script or outage with one, or a bounded queue or capacity whose shed is one of them")
	}
	if err == nil && v.f.long {
		if n := len(writeService(s)); n > maxResolved {
			err = fmt.Errorf("time: what files say makes a service of %d bytes, want at most %d", n, maxResolved)
		}
	}
	return s, v.place(err, lines, "")
}

// place puts an error that begins with a key of the map in the line of the key;
// who says what the map is about.
func (v value) place(err error, lines map[string]int, who string) error {
	if err == nil {
		return nil
	}
	key := err.Error()
	if n := strings.IndexAny(key, " .[:="); n > 0 {
		key = key[:n]
	}
	line := v.line
	if lines[key] != 0 {
		line = lines[key]
	}
	if v.path != "" {
		err = fmt.Errorf("%s.%w", v.path, err)
	}
	return v.f.at(line, fmt.Errorf("%s%w", who, err))
}

// decodeKeys reads the keys of a service but for each. Errors about several of
// them begin with who.
func (v value) decodeKeys(ps []pair, in, who string) (*service.Spec, map[string]int, error) {
	s := &service.Spec{Queue: -1}
	body := int64(0)
	lines, err := v.assign(ps, in, serviceFields(s, &body))
	if err != nil {
		return nil, nil, err
	}
	s.Body = int(body)
	err = s.Validate()
	for _, key := range []string{"queue", "discipline", "shed"} {
		switch {
		case err != nil || lines[key] == 0 || s.Slots > 0:
		case key == "queue" && s.Capacity.Per > 0:
			err = errors.New("queue contradicts capacity: a window has no queue")
		case key == "queue":
			err = errors.New("queue needs slots")
		case s.Capacity.Per == 0:
			err = fmt.Errorf("%s needs slots or capacity", key)
		}
	}
	return s, lines, v.place(err, lines, who)
}

// serviceFields are the keys of a service. "each", the last, is read by setEach.
func serviceFields(s *service.Spec, body *int64) []field {
	return []field{
		{"replicas", countField(&s.Replicas, 1, 65535)},
		{"time", distField(&s.Time)},
		{"slow", func(v value) error { return setSlow(&s.Slow, v) }},
		{"copies", wordField(&s.Copies, "independent, same or mixed", service.CopiesNamed)},
		{"slots", countField(&s.Slots, 1, math.MaxInt32)},
		{"queue", func(v value) error {
			if text, _ := v.scalar(); text == "unlimited" {
				return nil
			}
			return countOr(&s.Queue, "unlimited")(v)
		}},
		{"capacity", func(v value) error { return setCapacity(&s.Capacity, v) }},
		{"thrash", func(v value) error { return setThrash(&s.Thrash, v) }},
		{"discipline", wordField(&s.Discipline, "fifo, lifo, proportional or new-first", service.DisciplineNamed)},
		{"shed", textField(&s.Shed, "a status from 200 to 599", func(s string) (uint16, error) { return parseStatus(s, 200) })},
		{"status", func(v value) error { return setStatus(s, v) }},
		{"fault", func(v value) error { return setFaults(&s.Faults, v) }},
		{"script", func(v value) error { return setScript(&s.Script, v) }},
		{"script-key", textField(&s.ScriptKey, "the name of a header such as X-Key", func(s string) (string, error) { return s, nil })},
		{"retry-after", spanField(&s.RetryAfter)},
		{"cancel", wordField(&s.Cancel, "none, queued or running", service.CancelNamed)},
		{"cancel-cost", spanField(&s.CancelCost)},
		{"deadline", wordField(&s.Deadline, "ignore, queued or running", service.DeadlineNamed)},
		{"outage", func(v value) error { return setOutages(&s.Outages, v) }},
		{"stall", func(v value) error { return setStalls(&s.Stalls, v) }},
		{"ramp", func(v value) error { return setRamps(&s.Ramps, v) }},
		{"body", textField(body, "a size such as 1KiB", func(s string) (int64, error) {
			n, err := units.ParseSize(s)
			if err == nil && n > math.MaxInt32 {
				err = wanted(s, "at most 1GiB")
			}
			return n, err
		})},
		{"tls", truthField(&s.TLS)},
		{"each", nil},
	}
}

// SaysRetryAfter says whether the service may send the answers that carry its
// retry-after: 429 or 503, by chance or script, in an outage, from a full queue or an overloaded window.
func SaysRetryAfter(s *service.Spec) bool { return s.Any(saysRetryAfter) }

func saysRetryAfter(s *service.Spec) bool {
	busy := func(status uint16) bool { return status == 429 || status == 503 }
	if (s.Slots > 0 && s.Queue >= 0 || s.Capacity.Per > 0) && (s.Shed == 0 || busy(s.Shed)) { // 0 sheds with 503
		return true
	}
	if slices.ContainsFunc(s.Script, func(e service.Ending) bool { return busy(e.Status) }) {
		return true
	}
	if slices.ContainsFunc(s.Outages, func(o service.Outage) bool { return busy(o.Ending.Status) }) {
		return true
	}
	if slices.ContainsFunc(s.Ramps, func(r service.Ramp) bool { return r.Key == "status.429" || r.Key == "status.503" }) {
		return true
	}
	return slices.ContainsFunc(s.Status, func(w service.StatusShare) bool { return busy(w.Status) && w.Share > 0 })
}

// countOr reads a count of 0 or more; word is what else the key takes.
func countOr(to *int, word string) func(value) error {
	return textField(to, "a count such as 100, or "+word, func(s string) (int, error) {
		var n int
		if err := setCount(&n, s, 0); err != nil {
			return 0, wanted(s, "a count such as 100, or "+word)
		}
		return n, nil
	})
}

// wordField reads one of the words that named knows.
func wordField[T any](to *T, want string, named func(word string) (T, bool)) func(value) error {
	return textField(to, want, func(s string) (T, error) {
		x, ok := named(s)
		if !ok {
			return x, wanted(s, want)
		}
		return x, nil
	})
}

func distField(to *service.Dist) func(value) error {
	return func(v value) error {
		return textField(to, "a distribution such as uniform(20ms,60ms)", func(s string) (service.Dist, error) {
			// {time: uniform(20ms,60ms)} is two keys to YAML.
			if strings.Count(s, "(") != strings.Count(s, ")") {
				return service.Dist{}, wanted(s, "as many ) as (; inside { } and [ ] it needs quotes, as commas end a value there")
			}
			return v.f.dist(s)
		})(v)
	}
}

func setSlow(s *service.Slow, v value) error {
	lines, err := v.fields("slow", "a map of the keys share, time or factor, and by", []field{
		{"share", textField(&s.Share, "a share such as 2%", units.ParseShare)},
		{"time", distField(&s.Time)},
		{"factor", textField(&s.Factor, "a number above 0", readFactor)},
		{"by", wordField(&s.By, "request, connection, replica or window", service.SlowByNamed)},
		{"window", spanField(&s.Window)},
	})
	if err == nil && lines["share"] == 0 {
		err = v.f.at(v.line, fmt.Errorf("%s has no share, want how many requests are slow, such as share: 2%%", v.path))
	}
	return err
}

func setStatus(s *service.Spec, v value) error {
	ps, err := v.pairs("a map such as 503: 10%")
	if err != nil {
		return err
	}
	for _, p := range ps {
		code, err := parseStatus(p.key, 200)
		if err != nil {
			return v.f.at(p.line, fmt.Errorf("%s has %w", v.path, err))
		}
		var share float64
		if err := textField(&share, "a share such as 10%", units.ParseShare)(p.value); err != nil {
			return err
		}
		s.Status = append(s.Status, service.StatusShare{Status: code, Share: share})
	}
	return nil
}

func readFactor(s string) (f float64, err error) {
	if err = setNumber(&f, s, 0); err == nil && f < 1e-6 {
		err = wanted(s, "a number from 0.000001 to 1000000000")
	}
	return f, err
}
