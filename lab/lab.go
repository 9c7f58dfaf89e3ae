// Package lab holds the built-in experiments: each is a workload, a table and
// the claims that the table must bear out.
//
// A lab runs in virtual time through package trial and depends on its seed
// alone. The package prints only what Result.WriteText and WriteJSON are asked
// for, and never exits.
package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"latencylab/results"
	"latencylab/workloads"
)

// Schema names the format of a lab's JSON.
const Schema = "latencylab.lab/1"

// Options are what a lab may be run with.
type Options struct {
	// Seed keys every draw.
	Seed uint64
	// Requests is the number of calls of each row. 0 means as many as the claims
	// are made for; with few, claims about rare calls may fail.
	Requests uint64
	// Interrupt, when closed, ends the lab without a result. nil never does.
	Interrupt <-chan struct{}
}

// ErrInterrupted says that a lab was ended before its table was complete.
var ErrInterrupted = errors.New("the lab was interrupted")

// Lab is one experiment.
type Lab struct {
	Name string
	// About is one sentence for the list.
	About string
	run   func(Options) (*Result, error)
}

var labs = []Lab{hedgeLab}

// All returns the labs in the order of the list.
func All() []Lab { return append([]Lab(nil), labs...) }

// Find returns the lab of that name. An error proposes the nearest name.
func Find(name string) (Lab, error) {
	var names []string
	for _, l := range labs {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return Lab{}, fmt.Errorf("no lab %q, nearest is %q", name, workloads.Nearest(name, names))
}

// Run carries the lab out. An error means that there is no table; a claim that
// does not hold is part of the Result.
func (l *Lab) Run(o Options) (*Result, error) {
	r, err := l.run(o)
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", l.Name, err)
	}
	r.Schema, r.Name, r.About, r.Seed = Schema, l.Name, l.About, o.Seed
	return r, nil
}

// Result is what a lab found.
type Result struct {
	Schema  string
	Version string // of the program; the caller's to set
	Name    string
	About   string
	Seed    uint64
	// Columns are the keys of the rows' figures, in order.
	Columns []string
	Rows    []Row
	// Reference are rows that the lab is held against, each with its source.
	Reference []Row
	Holds     []Claim
}

// Row is one line of a table.
type Row struct {
	Row    string // what the figures are about
	Source string // of a reference row
	// Figures stand in the order of Result.Columns.
	Figures []results.Figure
}

// Claim is a statement that the table must bear out.
type Claim struct {
	Claim string `json:"claim"`
	OK    bool   `json:"ok"`
	Found string `json:"found"` // what was found
}

// OK says whether every claim holds.
func (r *Result) OK() bool {
	for _, c := range r.Holds {
		if !c.OK {
			return false
		}
	}
	return true
}

// within claims that figure lies in [low, high]; what names it, with its unit.
func within(what string, f results.Figure, low, high float64) Claim {
	c := Claim{Claim: fmt.Sprintf("%s from %s to %s", what, number(low), number(high))}
	c.OK = f.Present && low <= f.Value && f.Value <= high
	c.Found = cell(f)
	return c
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

func cell(f results.Figure) string {
	if !f.Present {
		return "n/a"
	}
	return number(f.Value)
}

// WriteJSON writes the result in the format latencylab.lab/1. An absent figure
// is null beside its reason.
func (r *Result) WriteJSON(w io.Writer) error {
	out := struct {
		Schema    string           `json:"schema"`
		Version   string           `json:"version"`
		Name      string           `json:"name"`
		About     string           `json:"about"`
		Seed      uint64           `json:"seed"`
		Rows      []map[string]any `json:"rows"`
		Reference []map[string]any `json:"reference"`
		Holds     []Claim          `json:"holds"`
	}{r.Schema, r.Version, r.Name, r.About, r.Seed, r.objects(r.Rows), r.objects(r.Reference), r.Holds}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

func (r *Result) objects(rows []Row) []map[string]any {
	out := []map[string]any{}
	for _, row := range rows {
		o := map[string]any{"row": row.Row}
		if row.Source != "" {
			o["source"] = row.Source
		}
		for i, key := range r.Columns {
			f := row.Figures[i]
			o[key] = nil
			if f.Present {
				o[key] = f.Value
			} else {
				o[key+"_reason"] = f.Reason
			}
		}
		out = append(out, o)
	}
	return out
}

// WriteText prints table, references and claims for a person.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (virtual time, seed %d)\n\n", r.Name, r.About, r.Seed)
	line := func(name string, cells []string, source string) {
		fmt.Fprintf(&b, "%-28s", name)
		for _, c := range cells {
			fmt.Fprintf(&b, " %12s", c)
		}
		if source != "" {
			fmt.Fprintf(&b, "   %s", source)
		}
		b.WriteByte('\n')
	}
	line("", r.Columns, "")
	for _, rows := range [][]Row{r.Rows, r.Reference} {
		for _, row := range rows {
			var cells []string
			for _, f := range row.Figures {
				cells = append(cells, cell(f))
			}
			line(row.Row, cells, row.Source)
		}
	}
	b.WriteString("\nclaims:\n")
	for _, c := range r.Holds {
		word := "holds "
		if !c.OK {
			word = "FAILS "
		}
		fmt.Fprintf(&b, "  %s %s: found %s\n", word, c.Claim, c.Found)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
