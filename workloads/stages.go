package workloads

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"latencylab/units"
)

// Stage is one part of a measurement.
type Stage uint8

const (
	// Pilot drives plain alone: how the system relaxes, how often it is slow, and
	// plain against plain.
	Pilot Stage = iota
	// Blocks drives the policies in turn. There is no measurement without it.
	Blocks
	// Sustained drives each policy alone for one long stretch.
	Sustained
	// Pulse freezes all servers under each policy, releases them, and looks later
	// whether they have recovered. The simulator and the embedded target can do that.
	Pulse
)

var stageWords = []string{Pilot: "pilot", Blocks: "blocks", Sustained: "sustained", Pulse: "pulse"}

// String returns the word used in workload files.
func (s Stage) String() string { return wordOf(stageWords, int(s)) }

// ParseStages reads the stages "pilot,blocks,sustained,pulse" or some of them.
// Their order is fixed: a pilot says how long blocks must be, and a pulse is held
// against what was before it.
func ParseStages(s string) ([]Stage, error) {
	var list []Stage
	for word := range strings.SplitSeq(s, ",") {
		var err error
		if list, err = addStage(list, strings.TrimSpace(word)); err != nil {
			return nil, err
		}
	}
	return list, checkStages(list)
}

func addStage(list []Stage, word string) ([]Stage, error) {
	var s Stage
	if err := setWord(&s, word, []Stage{Pilot, Blocks, Sustained, Pulse}, stageWords); err != nil {
		return nil, err
	}
	if slices.Contains(list, s) {
		return nil, fmt.Errorf("%q is given twice", word)
	}
	if n := len(list); n > 0 && list[n-1] > s {
		return nil, fmt.Errorf("%q after %q, want the order %s", word, list[n-1], strings.Join(stageWords, ", "))
	}
	return append(list, s), nil
}

// checkStages wants the blocks among a list that is not empty.
func checkStages(list []Stage) error {
	if len(list) > 0 && !slices.Contains(list, Blocks) {
		return fmt.Errorf("%q without blocks, want them among the stages: policies and comparisons are theirs", formatStages(list))
	}
	return nil
}

func formatStages(list []Stage) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = s.String()
	}
	return strings.Join(words, ",")
}

// PulseSpec says how hard servers are frozen, and when they are looked at.
type PulseSpec struct {
	// Freeze is how long they stand still, After the time from the release to the
	// look. Zero leaves the choice to the driver.
	Freeze, After Multiple
	// Runs is the number of seeds. 0 leaves it to the driver.
	Runs int
}

// Multiple is a span, or so many times a span that is measured first. The zero
// Multiple is none.
type Multiple struct {
	Times float64 // 0: Span counts
	Span  time.Duration
}

// IsZero says that nothing was given.
func (m Multiple) IsZero() bool { return m == Multiple{} }

// Of returns the span, given what is to be multiplied.
func (m Multiple) Of(d time.Duration) time.Duration {
	if m.Times == 0 {
		return m.Span
	}
	if x := m.Times * float64(d); x < 1<<62 {
		return time.Duration(x)
	}
	return 1 << 62
}

// String writes it as a file does: a number or a duration.
func (m Multiple) String() string {
	if m.Times == 0 {
		return units.FormatDuration(m.Span)
	}
	return formatNumber(m.Times)
}

// ParseMultiple reads a duration above 0, or a number above 0.
func ParseMultiple(s string) (Multiple, error) {
	if strings.Trim(s, "0123456789.") == "" && s != "" {
		var m Multiple
		if err := setNumber(&m.Times, s, 0.001); err != nil {
			return m, err
		}
		return m, nil
	}
	var m Multiple
	return m, setSpan(&m.Span, s)
}

// maxPulses bounds PulseSpec.Runs.
const maxPulses = 1000

// stageFields are the keys of a workload file about stages.
func (w *Workload) stageFields() []field {
	multiple := func(to *Multiple) func(value) error {
		return textField(to, "a duration, or a number of times plain's p99", ParseMultiple)
	}
	return []field{
		{"stages", func(v value) error { return setStages(&w.Stages, v) }},
		{"block", spanField(&w.Block)},
		{"pilot", spanField(&w.Pilot)},
		{"sustained", spanField(&w.Sustained)},
		{"pulse", func(v value) error {
			_, err := v.fields("pulse", "a map of the keys freeze, after and runs", []field{
				{"freeze", multiple(&w.Pulse.Freeze)},
				{"after", multiple(&w.Pulse.After)},
				{"runs", countField(&w.Pulse.Runs, 1, maxPulses)},
			})
			return err
		}},
	}
}

func setStages(to *[]Stage, v value) error {
	const want = "a list of pilot, blocks, sustained and pulse"
	vs, err := v.list(want)
	if err != nil {
		return err
	}
	for _, e := range vs {
		s, err := e.text(want)
		if err != nil {
			return err
		}
		if *to, err = addStage(*to, s); err != nil {
			return e.wrap(err)
		}
	}
	return v.wrap(checkStages(*to))
}

// writeStages writes them.
func (w *Workload) writeStages(y *yamlWriter) {
	y.stages(w.Stages)
	y.span("block", w.Block)
	y.span("pilot", w.Pilot)
	y.span("sustained", w.Sustained)
	p := &w.Pulse
	if *p == (PulseSpec{}) {
		return
	}
	y.open("pulse")
	if !p.Freeze.IsZero() {
		y.word("freeze", p.Freeze.String())
	}
	if !p.After.IsZero() {
		y.word("after", p.After.String())
	}
	y.count("runs", uint64(p.Runs))
	y.close()
}

func (y *yamlWriter) stages(list []Stage) {
	var words []string
	for _, s := range list {
		words = append(words, s.String())
	}
	y.list("stages", words)
}
