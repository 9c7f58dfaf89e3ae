package lab

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"latencylab/results"
)

// Schema names the format of a lab's JSON.
const Schema = "latencylab.lab/1"

// Result is what a lab found.
type Result struct {
	Schema  string
	Version string // of the program; the caller's to set
	Name    string
	About   string
	Options Options // what it was run with
	// Columns are the keys of the rows' values, in order.
	Columns []string
	Rows    []Row
	// Reference are rows that the lab is held against, each with its source.
	Reference []Row
	// Spread is how the figures of each row differ between the seeds of several
	// runs; nil after one run. Rows and Plots are those of the first.
	Spread []Spread
	Holds  []Claim
	Plots  []Plot
	// Notes say in words what the figures do not.
	Notes []string
}

// Row is one line of a table.
type Row struct {
	Row    string // what the values are about
	Source string // of a reference row
	// Values stand in the order of Result.Columns.
	Values []Value
}

// Value is one cell of a table: a figure, which may be absent with a reason, or
// a word, or several figures that belong together.
type Value struct {
	results.Figure
	Word string    // not "": the value is this word
	List []float64 // not nil: the value is these figures
}

func num(x float64) Value { return Value{Figure: results.Num(x)} }

func count[N ~int | ~uint64 | ~uint32](n N) Value { return num(float64(n)) }

func word(s string) Value { return Value{Word: s} }

func absent(reason string) Value { return Value{Figure: results.Absent(reason)} }

// nums returns present figures.
func nums(xs ...float64) []Value {
	out := make([]Value, len(xs))
	for i, x := range xs {
		out[i] = num(x)
	}
	return out
}

// in returns the figure, which is in ns, in another unit.
func in(f results.Figure, unit float64) Value {
	f.Value /= unit
	f.AtLeast /= unit
	return Value{Figure: f}
}

// text is the value in a table.
func (v *Value) text() string {
	switch {
	case v.Word != "":
		return v.Word
	case v.List != nil:
		var parts []string
		for _, x := range v.List {
			parts = append(parts, number(x))
		}
		return strings.Join(parts, ", ")
	case v.Present:
		return number(v.Value)
	case v.AtLeast > 0:
		return ">=" + number(v.AtLeast)
	}
	return "n/a"
}

// number writes x to four digits, whole numbers and what is above 1,000 in full.
func number(x float64) string {
	if math.Abs(x) >= 1000 || x == math.Trunc(x) {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// round rounds x to so many places: a reference is given as it can be read.
func round(x float64, places int) float64 {
	p := math.Pow(10, float64(places))
	return math.Round(x*p) / p
}

// add appends a row.
func (r *Result) add(row string, values ...Value) {
	r.Rows = append(r.Rows, Row{Row: row, Values: values})
}

// refer appends a reference row.
func (r *Result) refer(row, source string, values ...Value) {
	r.Reference = append(r.Reference, Row{Row: row, Source: source, Values: values})
}

// note appends a note.
func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// value returns what the table has in the column of the row. A value that is
// not there is absent, so that a claim about it fails.
func (r *Result) value(row, column string) Value {
	k := slices.Index(r.Columns, column)
	for i := range r.Rows {
		if q := &r.Rows[i]; q.Row == row && k >= 0 && k < len(q.Values) {
			return q.Values[k]
		}
	}
	return absent("no such row")
}

// Claim is a statement that the table must bear out.
type Claim struct {
	Claim string `json:"claim"`
	OK    bool   `json:"ok"`
	Found string `json:"found"` // what was found
	// Held is the number of runs in which it held, where there was more than one.
	Held int `json:"held,omitempty"`
}

// OK says whether every claim holds.
func (r *Result) OK() bool {
	return !slices.ContainsFunc(r.Holds, func(c Claim) bool { return !c.OK })
}

// claim adds a claim about something that was found.
func (r *Result) claim(ok bool, found, format string, args ...any) {
	r.Holds = append(r.Holds, Claim{Claim: fmt.Sprintf(format, args...), OK: ok, Found: found})
}

// within claims that the figure of the row lies in [low, high].
func (r *Result) within(row, column string, low, high float64) {
	v := r.value(row, column)
	ok := v.Present && low <= v.Value && v.Value <= high
	r.claim(ok, v.text(), "%s: %s from %s to %s", row, column, bound(low), bound(high))
}

// equals claims that the figure of the row is x.
func (r *Result) equals(row, column string, x float64) {
	v := r.value(row, column)
	r.claim(v.Present && v.Value == x, v.text(), "%s: %s is %s", row, column, bound(x))
}

// says claims that the value of the row is a word, or absent for that reason.
func (r *Result) says(row, column, want string) {
	v := r.value(row, column)
	if v.Word == "" && v.List == nil && !v.Present {
		r.claim(v.Reason == want, v.Reason, "%s: no %s: %s", row, column, want)
		return
	}
	r.claim(v.Word == want, v.text(), "%s: %s is %q", row, column, want)
}

func bound(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
