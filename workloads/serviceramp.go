package workloads

import (
	"fmt"
	"math"

	"latencylab/service"
	"latencylab/units"
)

// setRamps reads the figures that change over time.
func setRamps(to *[]service.Ramp, v value) error {
	const want = "a list of maps such as {key: slots, to: 2, at: 10s, for: 30s}"
	vs, err := v.list(want)
	if err != nil {
		return err
	}
	for _, e := range vs {
		var r service.Ramp
		var ends [2]value // from and to, which are read by the key
		end := func(i int) func(value) error { return func(v value) error { ends[i] = v; return nil } }
		lines, err := e.fields("ramp", want, []field{
			{"key", textField(&r.Key, service.RampKeys, func(s string) (string, error) { return s, nil })},
			{"from", end(0)},
			{"to", end(1)},
			{"at", delayField(&r.At)},
			{"for", delayField(&r.For)},
			{"steps", countField(&r.Steps, 1, math.MaxInt32)},
			{"every", spanField(&r.Every)},
			{"replicas", replicasField(&r.Replicas)},
		})
		if err != nil {
			return err
		}
		for _, key := range []string{"key", "to"} {
			if lines[key] == 0 {
				return e.f.at(e.line, fmt.Errorf("%s has no %s, want both, such as {key: slots, to: 2}", e.path, key))
			}
		}
		if !r.IsCount() && !r.IsShare() && r.Key != "factor" {
			return e.f.at(lines["key"], fmt.Errorf("%s.key = %w", e.path, wanted(r.Key, service.RampKeys)))
		}
		if err := rampField(&r, &r.To)(ends[1]); err != nil {
			return err
		}
		if lines["from"] != 0 {
			r.From = new(float64)
			if err := rampField(&r, r.From)(ends[0]); err != nil {
				return err
			}
		}
		*to = append(*to, r)
	}
	return nil
}

// rampField reads a value of what the ramp changes.
func rampField(r *service.Ramp, to *float64) func(value) error {
	switch {
	case r.IsShare():
		return textField(to, "a share such as 10%", units.ParseShare)
	case r.IsCount():
		return textField(to, "a count such as 100", func(s string) (float64, error) {
			var n int
			err := setCount(&n, s, 0)
			return float64(n), err
		})
	}
	return textField(to, "a number above 0", readFactor)
}

// rampValue writes a value of what the ramp changes.
func rampValue(r *service.Ramp, v float64) string {
	switch {
	case r.IsShare():
		return units.FormatShare(v)
	case r.IsCount():
		return units.FormatCount(uint64(v))
	}
	return formatNumber(v)
}

// ramps writes the figures that change over time.
func (y *yamlWriter) ramps(s *service.Spec) {
	y.maps("ramp", len(s.Ramps), func(i int) {
		r := &s.Ramps[i]
		y.word("key", r.Key)
		if r.From != nil {
			y.word("from", rampValue(r, *r.From))
		}
		y.word("to", rampValue(r, r.To))
		y.word("at", units.FormatDuration(r.At))
		y.word("for", units.FormatDuration(r.For))
		y.count("steps", uint64(r.Steps))
		y.span("every", r.Every)
		y.replicas(r.Replicas)
	})
}
