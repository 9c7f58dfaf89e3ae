package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"latencylab/results"
)

// object is a JSON object that keeps the order of its keys.
type object struct {
	b   bytes.Buffer
	err error
}

func (o *object) set(key string, v any) {
	if o.b.Len() == 0 {
		o.b.WriteByte('{')
	} else {
		o.b.WriteByte(',')
	}
	for i, part := range []any{key, v} {
		data, err := marshal(part)
		if err != nil && o.err == nil {
			o.err = err
		}
		if i == 1 {
			o.b.WriteByte(':')
		}
		o.b.Write(data)
	}
}

// value sets the key, and beside it why an absent figure is absent.
func (o *object) value(key string, v *Value) {
	switch {
	case v.Word != "":
		o.set(key, v.Word)
	case v.List != nil:
		o.set(key, v.List)
	case v.Present:
		o.set(key, v.Value)
	default:
		o.set(key, nil)
		o.set(key+"_reason", v.Reason)
		if v.AtLeast > 0 {
			o.set(key+"_at_least", v.AtLeast)
		}
	}
}

func (o *object) MarshalJSON() ([]byte, error) {
	if o.b.Len() == 0 {
		return []byte("{}"), o.err
	}
	return append(slices.Clone(o.b.Bytes()), '}'), o.err
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// WriteJSON writes the result in the format latencylab.lab/1. An absent figure
// is null beside its reason.
func (r *Result) WriteJSON(w io.Writer) error {
	var o object
	o.set("schema", r.Schema)
	o.set("version", r.Version)
	o.set("name", r.Name)
	o.set("about", r.About)
	driver := results.Virtual
	if r.Options.Real {
		driver = results.Sockets
	}
	o.set("driver", driver)
	o.set("seed", r.Options.Seed)
	o.set("runs", max(r.Options.Runs, 1))
	if r.Options.Requests > 0 {
		o.set("requests", r.Options.Requests)
	}
	for _, c := range r.Options.chosen() {
		o.set(c[0], c[1])
	}
	o.set("rows", r.objects(r.Rows))
	o.set("reference", r.objects(r.Reference))
	if r.Spread != nil {
		o.set("spread", r.spreadObjects())
	}
	o.set("holds", slices.Concat([]Claim{}, r.Holds))
	o.set("notes", slices.Concat([]string{}, r.Notes))
	plots := []*object{}
	for i := range r.Plots {
		plots = append(plots, r.Plots[i].object())
	}
	o.set("plots", plots)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(&o)
}

func (r *Result) objects(rows []Row) []*object {
	out := []*object{}
	for i := range rows {
		var o object
		o.set("row", rows[i].Row)
		if rows[i].Source != "" {
			o.set("source", rows[i].Source)
		}
		for k := range rows[i].Values {
			o.value(r.Columns[k], &rows[i].Values[k])
		}
		out = append(out, &o)
	}
	return out
}

func (r *Result) spreadObjects() []*object {
	out := []*object{}
	for _, s := range r.Spread {
		var o object
		o.set("row", s.Row)
		for k, column := range r.Columns {
			var x object
			x.set("runs", s.Values[k].Runs)
			x.value("min", &s.Values[k].Min)
			x.value("median", &s.Values[k].Median)
			x.value("max", &s.Values[k].Max)
			o.set(column, &x)
		}
		out = append(out, &o)
	}
	return out
}

func (p *Plot) object() *object {
	var o object
	o.set("title", p.Title)
	for _, a := range []struct {
		key string
		*Axis
	}{{"x", &p.X}, {"y", &p.Y}} {
		var x object
		x.set("label", a.Label)
		x.set("log", a.Log)
		o.set(a.key, &x)
	}
	series := []*object{}
	for i := range p.Series {
		s := &p.Series[i]
		var x object
		x.set("name", s.Name)
		points := [][2]float64{}
		for _, q := range s.Points {
			points = append(points, [2]float64{q.X, q.Y})
		}
		x.set("points", points)
		series = append(series, &x)
	}
	o.set("series", series)
	return &o
}

// table is text in columns: the first stands to the left, the others to the
// right, and what follows them is free.
type table struct {
	lines [][]string
	tails []string
}

func (t *table) line(tail string, cells ...string) {
	t.lines = append(t.lines, cells)
	t.tails = append(t.tails, tail)
}

func (t *table) String() string {
	var widths []int
	for _, cells := range t.lines {
		for k, c := range cells {
			if k == len(widths) {
				widths = append(widths, 0)
			}
			widths[k] = max(widths[k], utf8.RuneCountInString(c))
		}
	}
	var b, line strings.Builder
	for i, cells := range t.lines {
		line.Reset()
		for k, c := range cells {
			pad := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(c))
			if k == 0 {
				line.WriteString(c + pad)
			} else {
				line.WriteString("  " + pad + c)
			}
		}
		if t.tails[i] != "" {
			line.WriteString("  " + t.tails[i])
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// WriteText prints table, references, pictures and claims for a person.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	where := "virtual time"
	if r.Options.Real {
		where = "on sockets"
	}
	fmt.Fprintf(&b, "%s: %s (%s, seed %d", r.Name, r.About, where, r.Options.Seed)
	for _, c := range r.Options.chosen() {
		fmt.Fprintf(&b, ", %s %s", c[0], c[1])
	}
	b.WriteString(")\n\n")
	b.WriteString(r.tableText())
	if r.Spread != nil {
		fmt.Fprintf(&b, "\nspread over %d runs, each with seeds of its own:\n", r.Options.Runs)
		b.WriteString(r.spreadText())
	}
	for i := range r.Plots {
		b.WriteString("\n" + r.Plots[i].String())
	}
	if len(r.Notes) > 0 {
		b.WriteByte('\n')
	}
	for _, n := range r.Notes {
		b.WriteString(n + "\n")
	}
	b.WriteString("\nclaims:\n")
	for _, c := range r.Holds {
		word := "holds"
		if !c.OK {
			word = "FAILS"
		}
		fmt.Fprintf(&b, "  %s  %s: found %s", word, c.Claim, c.Found)
		if r.Options.Runs > 1 {
			fmt.Fprintf(&b, " (in %d of %d runs)", c.Held, r.Options.Runs)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tableText is the table with its references, and what its gaps mean.
func (r *Result) tableText() string {
	var t table
	t.line("", append([]string{""}, r.Columns...)...)
	var reasons []string
	for i, rows := range [][]Row{r.Rows, r.Reference} {
		if i == 1 && len(rows) > 0 {
			t.line("", "held against:")
		}
		for _, row := range rows {
			cells := []string{row.Row}
			for i := range row.Values {
				v := &row.Values[i]
				s := v.text()
				if v.Word == "" && v.List == nil && !v.Present && v.Reason != "" {
					k := slices.Index(reasons, v.Reason)
					if k < 0 {
						k = len(reasons)
						reasons = append(reasons, v.Reason)
					}
					s += fmt.Sprintf(" [%d]", k+1)
				}
				cells = append(cells, s)
			}
			t.line(row.Source, cells...)
		}
	}
	s := t.String()
	for k, reason := range reasons {
		s += fmt.Sprintf("[%d] %s\n", k+1, reason)
	}
	return s
}

func (r *Result) spreadText() string {
	var t table
	t.line("", append([]string{"", ""}, r.Columns...)...)
	for _, s := range r.Spread {
		low, middle, high := []string{s.Row, "min"}, []string{"", "median"}, []string{"", "max"}
		for i := range s.Values {
			v := &s.Values[i]
			low, middle, high = append(low, v.Min.text()), append(middle, v.Median.text()), append(high, v.Max.text())
		}
		t.line("", low...)
		t.line("", middle...)
		t.line("", high...)
	}
	return t.String()
}
