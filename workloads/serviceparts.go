package workloads

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"latencylab/service"
	"latencylab/units"
)

// delayField reads a duration of 0 or more.
func delayField(to *time.Duration) func(value) error {
	return textField(to, "a duration such as 10s", units.ParseDuration)
}

// replicasField reads a list of numbers of replicas.
func replicasField(to *[]int) func(value) error {
	return func(v value) error {
		return listField(v, to, "numbers of replicas such as [0, 2]", 65535, func(s string) (int, error) {
			var n int
			err := setCount(&n, s, 0)
			return n, err
		})
	}
}

func setCapacity(to *service.Capacity, v value) error {
	lines, err := v.fields("capacity", "a map such as {requests: 100, per: 100ms}", []field{
		{"requests", countField(&to.Requests, 1, math.MaxInt32)},
		{"per", spanField(&to.Per)},
	})
	for _, key := range []string{"requests", "per"} {
		if err == nil && lines[key] == 0 {
			err = v.f.at(v.line, fmt.Errorf("%s has no %s, want both, such as {requests: 100, per: 100ms}", v.path, key))
		}
	}
	return err
}

func setThrash(to *service.Thrash, v value) error {
	lines, err := v.fields("thrash", "a map such as {above: 150, factor: 50%}", []field{
		{"above", countField(&to.Above, 0, math.MaxInt32)},
		{"factor", textField(&to.Factor, "a share such as 50%", readPart)},
	})
	for _, key := range []string{"above", "factor"} {
		if err == nil && lines[key] == 0 {
			err = v.f.at(v.line, fmt.Errorf("%s has no %s, want both, such as {above: 150, factor: 50%%}", v.path, key))
		}
	}
	return err
}

// readPart reads a share above 0.
func readPart(s string) (float64, error) {
	f, err := units.ParseShare(s)
	if err == nil && f < 1e-6 {
		err = wanted(s, "a share above 0, such as 50%")
	}
	return f, err
}

func setOutages(to *[]service.Outage, v value) error {
	const want = "a list of maps such as {at: 10s, for: 5s, kind: 503}"
	vs, err := v.list(want)
	if err != nil {
		return err
	}
	for _, e := range vs {
		o := service.Outage{Ending: service.Ending{Status: 503}}
		lines, err := e.fields("outage", want, []field{
			{"at", delayField(&o.At)},
			{"for", spanField(&o.For)},
			{"every", spanField(&o.Every)},
			{"kind", endingField(&o.Ending, 400)},
			{"share", textField(&o.Share, "a share such as 20%", readPart)},
			{"replicas", replicasField(&o.Replicas)},
		})
		if err != nil {
			return err
		}
		if lines["for"] == 0 {
			return e.f.at(e.line, fmt.Errorf("%s has no for, want how long it lasts, such as for: 5s", e.path))
		}
		*to = append(*to, o)
	}
	return nil
}

func setStalls(to *[]service.Stall, v value) error {
	const want = "a map such as {every: 20s, for: 300ms}, or a list of them"
	vs, err := v.list(want)
	if err != nil {
		return err
	}
	for _, e := range vs {
		var x service.Stall
		lines, err := e.fields("stall", want, []field{
			{"at", delayField(&x.At)},
			{"every", spanField(&x.Every)},
			{"for", distField(&x.For)},
			{"together", wordField(&x.Apart, "true or false", func(s string) (apart, ok bool) { return s == "false", s == "true" || s == "false" })},
			{"replicas", replicasField(&x.Replicas)},
		})
		if err != nil {
			return err
		}
		if lines["for"] == 0 {
			return e.f.at(e.line, fmt.Errorf("%s has no for, want how long it lasts, such as for: 300ms", e.path))
		}
		*to = append(*to, x)
	}
	return nil
}

// maps writes a list of n maps, the fields of each by write.
func (y *yamlWriter) maps(key string, n int, write func(i int)) {
	if n == 0 {
		return
	}
	y.open(key)
	for i := range n {
		y.WriteString(y.indent + "-\n")
		y.indent += "  "
		write(i)
		y.close()
	}
	y.close()
}

func (y *yamlWriter) replicas(replicas []int) {
	var words []string
	for _, r := range replicas {
		words = append(words, strconv.Itoa(r))
	}
	y.list("replicas", words)
}

// endings writes faults and script.
func (y *yamlWriter) endings(s *service.Spec) {
	y.faults(&s.Faults)
	var words []string
	for _, e := range s.Script {
		words = append(words, e.String())
	}
	y.list("script", words)
	if s.ScriptKey != "" {
		y.word("script-key", s.ScriptKey)
	}
}

// schedules writes outages and stalls.
func (y *yamlWriter) schedules(s *service.Spec) {
	y.maps("outage", len(s.Outages), func(i int) {
		o := &s.Outages[i]
		y.word("at", units.FormatDuration(o.At))
		y.word("for", units.FormatDuration(o.For))
		y.span("every", o.Every)
		y.word("kind", o.Ending.String())
		if o.Share > 0 {
			y.word("share", units.FormatShare(o.Share))
		}
		y.replicas(o.Replicas)
	})
	y.maps("stall", len(s.Stalls), func(i int) {
		x := &s.Stalls[i]
		y.word("at", units.FormatDuration(x.At))
		y.span("every", x.Every)
		y.word("for", x.For.String())
		y.word("together", strconv.FormatBool(!x.Apart))
		y.replicas(x.Replicas)
	})
}
