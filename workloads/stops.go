package workloads

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"latencylab/units"
)

// StopOf is what a Stop looks at.
type StopOf uint8

const (
	// StopErrors is the share of the ended calls that failed or were given up.
	StopErrors StopOf = iota
	// StopQuantile is a quantile of the response time of the ended calls; those
	// that failed rank above every answer.
	StopQuantile
	// StopOpen is the number of calls that are open.
	StopOpen
)

// Stop is a rule that ends a measurement which does harm.
type Stop struct {
	Of StopOf
	// Quantile is that of StopQuantile, in (0, 1).
	Quantile float64
	// Share, Time or Calls is the limit, of StopErrors, StopQuantile and StopOpen:
	// the rule acts above it.
	Share float64
	Time  time.Duration
	Calls uint64
	// For is the window: of the ended calls, or of how long more were open all
	// the time. 0, only for StopOpen: one look is enough.
	For time.Duration
}

// DefaultStopFor is the window of a rule about ended calls that names none.
const DefaultStopFor = 5 * time.Second

// NoStops is what stands for no rule at all, not even those by default.
const NoStops = "none"

// maxStops bounds the rules of a workload, maxStopFor their window.
const (
	maxStops   = 16
	maxStopFor = 10 * time.Minute
)

// ParseStops reads rules in a comma list, such as "errors>5% for 3s,open>1k", or
// NoStops, which gives a list of none that is not nil.
func ParseStops(s string) ([]Stop, error) {
	list := []Stop{}
	if strings.TrimSpace(s) == NoStops {
		return list, nil
	}
	for _, word := range strings.Split(s, ",") {
		r, err := parseStop(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	if len(list) > maxStops {
		return nil, fmt.Errorf("%d rules, want at most %d", len(list), maxStops)
	}
	return list, nil
}

func parseStop(s string) (r Stop, err error) {
	of, limit, ok := strings.Cut(s, ">")
	if !ok {
		return r, wanted(s, "a rule such as errors>5%, p99>2s or open>1000, with a window as in errors>5% for 3s")
	}
	of, limit = strings.TrimSpace(of), strings.TrimSpace(limit)
	window, windowed := "", false
	if f := strings.Fields(limit); len(f) == 3 && f[1] == "for" {
		limit, window, windowed = f[0], f[2], true
	}
	switch {
	case of == "errors":
		r.For = DefaultStopFor
		if r.Share, err = units.ParseShare(limit); err == nil && r.Share >= 1 {
			err = errors.New("want less than 100%: no more can fail")
		}
	case of == "open":
		r.Of = StopOpen
		r.Calls, err = units.ParseCount(limit)
	case len(of) > 1 && of[0] == 'p':
		r.Of, r.For = StopQuantile, DefaultStopFor
		if r.Quantile, err = parseQuantile(of[1:]); err == nil {
			err = setSpan(&r.Time, limit)
		}
	default:
		err = fmt.Errorf("%q, want errors, open, or a percentile such as p99", clip(of))
	}
	if err == nil && windowed {
		if err = setSpan(&r.For, window); err == nil && r.For > maxStopFor {
			err = fmt.Errorf("a window of %s, want at most %s", units.FormatDuration(r.For), units.FormatDuration(maxStopFor))
		}
	}
	if err != nil {
		return r, fmt.Errorf("rule %q: %w", clip(s), err)
	}
	return r, nil
}

// parseQuantile reads a percentile: "99" is 0.99, and so are "99.0" and "99.9"
// what they say.
func parseQuantile(s string) (float64, error) {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && s[i] != '.' {
			return 0, fmt.Errorf("%q, want a percentile such as p99 or p99.9", clip("p"+s))
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v <= 0 || v >= 100 || len(s) > 8 {
		return 0, fmt.Errorf("%q, want a percentile such as p99 or p99.9", clip("p"+s))
	}
	return v / 100, nil
}

// String returns the rule as ParseStops reads it.
func (r Stop) String() string {
	var s string
	switch r.Of {
	case StopQuantile:
		s = "p" + strconv.FormatFloat(roundPercent(r.Quantile), 'f', -1, 64) + ">" + units.FormatDuration(r.Time)
	case StopOpen:
		s = "open>" + units.FormatCount(r.Calls)
	default:
		s = "errors>" + units.FormatShare(r.Share)
	}
	if r.For > 0 {
		s += " for " + units.FormatDuration(r.For)
	}
	return s
}

// roundPercent turns a share into per cent without the noise of the product.
func roundPercent(q float64) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(float64(q*100), 'g', 12, 64), 64)
	if err != nil {
		return q * 100
	}
	return v
}

// setStops reads the key stop-if: a list of rules, or of comma lists.
func (w *Workload) setStops(v value) error {
	const want = "rules such as errors>5%"
	vs, err := v.list(want)
	if err != nil {
		return err
	}
	w.Stops = []Stop{}
	for _, e := range vs {
		s, err := e.text(want)
		if err != nil {
			return err
		}
		list, err := ParseStops(s)
		if err != nil {
			return e.wrap(err)
		}
		w.Stops = append(w.Stops, list...)
	}
	return nil
}

// writeGuards writes the keys that keep load from doing harm.
func (w *Workload) writeGuards(y *yamlWriter) {
	var rules []string
	for _, r := range w.Stops {
		rules = append(rules, r.String())
	}
	if w.Stops != nil && len(rules) == 0 {
		rules = []string{NoStops}
	}
	y.list("stop-if", rules)
	if w.RampGiven {
		y.word("ramp", units.FormatDuration(w.Ramp))
	}
	if w.MaxAttemptRate != 0 {
		y.word("max-attempt-rate", w.MaxAttemptRate.String())
	}
	if w.Request.Safe {
		y.word("idempotent", "true")
	}
	y.given("idempotency-key", w.Request.Key)
}

// ParseKeyHeader reads the name of a field for idempotency keys.
func ParseKeyHeader(s string) (string, error) {
	h, err := ParseHeader(s + ": x")
	return h.Name, err
}

// guardFields are the keys that writeGuards writes.
func (w *Workload) guardFields() []field {
	return []field{
		{"stop-if", w.setStops},
		{"ramp", func(v value) error {
			w.RampGiven = true
			return textField(&w.Ramp, "a duration such as 10s", ParseRamp)(v)
		}},
		{"max-attempt-rate", textField(&w.MaxAttemptRate, "a rate such as 1000/s", units.ParseRate)},
		{"idempotent", textField(&w.Request.Safe, "true or false", func(s string) (bool, error) {
			if s != "true" && s != "false" {
				return false, wanted(s, "true or false")
			}
			return s == "true", nil
		})},
		{"idempotency-key", textField(&w.Request.Key, "a header such as Idempotency-Key", ParseKeyHeader)},
	}
}

// ParseRamp reads the length of a ramp, at most MaxRamp.
func ParseRamp(s string) (time.Duration, error) {
	d, err := units.ParseDuration(s)
	if err == nil && d > MaxRamp {
		err = fmt.Errorf("%q, want at most %s", clip(s), units.FormatDuration(MaxRamp))
	}
	return d, err
}
