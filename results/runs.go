package results

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"latencylab/units"
)

// Runs is the spread of a Run's figures over its repetitions with other seeds.
// The Run itself is that of the first seed.
type Runs struct {
	// N is how many were asked for.
	N int `json:"n"`
	// Seeds are those of the repetitions that are complete, ascending in the order
	// in which they were asked for: each keys arrivals, policies and target.
	Seeds    []uint64 `json:"seeds"`
	Policies []Spread `json:"policies"`
	// Incomplete says why there are fewer Seeds than N; "" when there are not.
	Incomplete string `json:"incomplete_reason,omitempty"`
}

// Spread is that of one policy's figures.
type Spread struct {
	Name string `json:"name"`
	P50  Range  `json:"p50_ns"`
	P99  Range  `json:"p99_ns"`
	P999 Range  `json:"p999_ns"`
	// OK is the share of calls answered OK within the first threshold of the
	// objective; without one, at all.
	OK        Range `json:"ok"`
	ExtraLoad Range `json:"extra_load"`
}

// Range is one figure over all repetitions. A repetition in which it is absent
// ranks above all others: an absent percentile lies among the failed calls, or
// beyond what so few calls show.
type Range struct {
	Min    Figure `json:"min"`
	Median Figure `json:"median"` // of an even number, the mean of the two in the middle
	Max    Figure `json:"max"`
	// Absent is the number of repetitions without the figure; Reason is that of
	// the first of them.
	Absent int    `json:"absent"`
	Reason string `json:"absent_reason,omitempty"`
}

// Sample holds the figures of one policy in one repetition.
type Sample struct{ P50, P99, P999, OK, ExtraLoad Figure }

// SampleOf returns the sample of a policy of r, or of a repetition of r.
func SampleOf(r *Run, p *Policy) Sample {
	t, _ := r.primary()
	return Sample{p.Response.P50, p.Response.P99, p.Response.P999, p.okShare(t), p.ExtraLoad}
}

// NewRuns returns the spread over samples[seed][policy], all of which are
// complete. n is how many seeds were asked for, names are those of the policies.
func NewRuns(n int, names []string, seeds []uint64, samples [][]Sample) *Runs {
	s := &Runs{N: n, Seeds: seeds, Policies: []Spread{}}
	if len(samples) == 0 {
		return s
	}
	for k, name := range names {
		of := func(figure func(*Sample) Figure) Range {
			list := make([]Figure, len(samples))
			for i := range samples {
				list[i] = figure(&samples[i][k])
			}
			return newRange(list)
		}
		s.Policies = append(s.Policies, Spread{
			Name:      name,
			P50:       of(func(x *Sample) Figure { return x.P50 }),
			P99:       of(func(x *Sample) Figure { return x.P99 }),
			P999:      of(func(x *Sample) Figure { return x.P999 }),
			OK:        of(func(x *Sample) Figure { return x.OK }),
			ExtraLoad: of(func(x *Sample) Figure { return x.ExtraLoad }),
		})
	}
	return s
}

// okShare is the share of the policy's calls answered OK within t; 0 asks for
// those answered OK at all.
func (p *Policy) okShare(t time.Duration) Figure {
	if t == 0 {
		return shareOf(p.Calls.OK, p.Calls.Scheduled)
	}
	return withinShare(p.OKWithin, t)
}

// newRange ranks the figures, of which there is at least one.
func newRange(list []Figure) Range {
	var v Range
	for _, f := range list {
		if !f.Present {
			if v.Absent++; v.Absent == 1 {
				v.Reason = f.Reason
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Figure) int {
		switch {
		case a.Present != b.Present && a.Present:
			return -1
		case a.Present != b.Present:
			return 1
		case a.Value != b.Value && a.Value < b.Value:
			return -1
		case a.Value != b.Value:
			return 1
		}
		return 0
	})
	low, high := list[(len(list)-1)/2], list[len(list)/2]
	v.Min, v.Median, v.Max = list[0], high, list[len(list)-1]
	if low.Present && high.Present {
		v.Median = Num(low.Value + (high.Value-low.Value)/2)
	}
	return v
}

// MarshalJSON writes every key; an absent figure is null beside its reason.
func (s Runs) MarshalJSON() ([]byte, error) { return encodeFields(s) }

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Runs) UnmarshalJSON(b []byte) error { return decodeFields(b, s) }

// MarshalJSON writes every key; an absent figure is null beside its reason.
func (v Range) MarshalJSON() ([]byte, error) { return encodeFields(v) }

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Range) UnmarshalJSON(b []byte) error { return decodeFields(b, v) }

// check holds the spread against itself and against the policies of its Run.
func (s *Runs) check(known map[string]int) error {
	if s.N < len(s.Seeds) {
		return &fieldError{"runs.seeds", fmt.Errorf("%d seeds, but n = %d", len(s.Seeds), s.N)}
	}
	for i := range s.Policies {
		p := &s.Policies[i]
		at := "runs.policies" + index(i)
		if _, ok := known[p.Name]; !ok {
			return &fieldError{at + ".name", fmt.Errorf("%q is not a policy of the run", p.Name)}
		}
		for _, f := range p.figures() {
			if n := f.v.Absent; n < 0 || n > len(s.Seeds) {
				return &fieldError{at + "." + f.key + ".absent", fmt.Errorf("%d, want 0 to %d, the number of seeds", n, len(s.Seeds))}
			}
			a, b, c := f.v.Min, f.v.Median, f.v.Max
			if a.Present && b.Present && a.Value > b.Value || b.Present && c.Present && b.Value > c.Value {
				return &fieldError{at + "." + f.key, errors.New("min, median and max do not ascend")}
			}
		}
	}
	return nil
}

// spreadFigure is one figure of a Spread with the ways to name and print it.
type spreadFigure struct {
	key, label string
	v          *Range
	cell       func(Figure) string
}

func (p *Spread) figures() []spreadFigure {
	return []spreadFigure{
		{"p50_ns", "p50", &p.P50, durationCell}, {"p99_ns", "p99", &p.P99, durationCell}, {"p999_ns", "p99.9", &p.P999, durationCell},
		{"ok", "", &p.OK, shareCell}, {"extra_load", "extra load", &p.ExtraLoad, loadCell},
	}
}

// writeRuns prints the spread, with what is to be said of it; nothing when there
// was one run.
func (r *Run) writeRuns(b *bufio.Writer) {
	s := r.Runs
	if s == nil {
		return
	}
	b.WriteByte('\n')
	if len(s.Policies) == 0 {
		fmt.Fprintln(b, units.Plain(fmt.Sprintf("none of %s is complete: %s", counted(uint64(s.N), "run"), s.Incomplete)))
		return
	}
	fmt.Fprintln(b, s.title())
	rows, lines := r.runsTable()
	writeTable(b, rows)
	for _, s := range lines {
		fmt.Fprintln(b, units.Plain(s))
	}
}

// runsTable returns the rows of the spread, the heading first, and the lines on
// what is absent.
func (r *Run) runsTable() (rows [][]string, lines []string) {
	s := r.Runs
	rows = [][]string{{""}}
	for i := range s.Policies {
		p := &s.Policies[i]
		rows[0] = append(rows[0], p.Name)
		for n, f := range p.figures() {
			if f.label == "" {
				t, _ := r.primary()
				f.label = strings.TrimPrefix(shareName(t), "the share ")
			}
			if i == 0 {
				rows = append(rows, []string{f.label})
			}
			cell := f.cell(f.v.Min) + " / " + f.cell(f.v.Median) + " / " + f.cell(f.v.Max)
			rows[n+1] = append(rows[n+1], cell)
			if f.v.Absent > 0 {
				lines = append(lines, fmt.Sprintf("  %s %s: absent in %d of %s: %s", p.Name, f.label, f.v.Absent, counted(uint64(len(s.Seeds)), "run"), f.v.Reason))
			}
		}
	}
	if s.Incomplete != "" {
		lines = append(lines, fmt.Sprintf("  %s of %s complete: %s", units.Count(uint64(len(s.Seeds))), counted(uint64(s.N), "run"), s.Incomplete))
	}
	return rows, lines
}

// title says which runs the spread is of.
func (s *Runs) title() string {
	t := counted(uint64(len(s.Seeds)), "run")
	switch n := len(s.Seeds); {
	case n == 1:
		t += fmt.Sprintf(", seed %d", s.Seeds[0])
	case s.Seeds[n-1]-s.Seeds[0] == uint64(n-1):
		t += fmt.Sprintf(", seeds %d to %d", s.Seeds[0], s.Seeds[n-1])
	default:
		t += fmt.Sprintf(", seeds between %d and %d", s.Seeds[0], s.Seeds[n-1])
	}
	return t + ", each figure as min / median / max over them:"
}
