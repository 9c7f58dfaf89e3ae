package results

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"latencylab/policy"
	"latencylab/units"
)

// WriteText prints the Run for a person: how it was driven, one table with the
// figures as rows and the policies as columns (each beside its prediction, when
// there is one), comparisons, verdict and a last paragraph in words.
func WriteText(w io.Writer, r *Run) error {
	b := bufio.NewWriter(w)
	if r.Interrupted {
		b.WriteString("INTERRUPTED by the user: this is what was measured until then.\n\n")
	}
	if r.Void != "" {
		fmt.Fprintf(b, "VOID, %s: this is what was counted until then.\n\n", oneLine(r.Void))
	}
	for _, s := range r.headLines() {
		fmt.Fprintln(b, units.Plain(s))
	}
	b.WriteByte('\n')
	writeTable(b, r.table())
	r.writeRuns(b)
	for _, section := range [][]string{
		r.nameLines(), r.sampleLines(), r.comparisonLines(), r.stageLines(), r.targetLines(), r.verdictLines(), r.warningLines(), wrap(r.closing(), 100),
	} {
		if len(section) > 0 {
			b.WriteByte('\n')
		}
		for _, s := range section {
			fmt.Fprintln(b, units.Plain(s))
		}
	}
	return b.Flush()
}

// headLines say how the run was driven and what the table counts.
func (r *Run) headLines() []string {
	q := &r.Requested
	parts := []string{"open loop"}
	if r.Mode == Closed {
		parts = []string{fmt.Sprintf("closed loop with %s", counted(uint64(q.Connections), "connection"))}
	}
	if r.Driver == Virtual {
		parts[0] += " in virtual time"
	}
	if q.RatePerS.Present {
		s := formatRate(q.RatePerS.Value) + " requested"
		if q.Arrivals.Value != "" {
			s += " (" + q.Arrivals.Value + ")"
		}
		parts = append(parts, s)
	}
	if f := r.Achieved.RatePerS; f.Present {
		parts = append(parts, formatRate(f.Value)+" begun")
	}
	if n := len(r.Policies); n > 0 && r.Achieved.DataNS.Present {
		data, of := time.Duration(r.Achieved.DataNS.Value), "of data in all"
		if !r.Interrupted && r.Void == "" { // else the policies differ
			data, of = data/time.Duration(n), "of data a policy"
		}
		parts = append(parts, units.Duration(data)+" "+of)
	}
	parts = append(parts, counted(uint64(max(r.Clients, 0)), "client"), fmt.Sprintf("seed %d", r.Seed))
	lines := []string{strings.Join(parts, ", ")}
	lines = append(lines, "response time of all calls, from the instant each was wanted; failed ones rank above every answer:")
	if r.Marker != "" && r.Target == nil {
		lines[0] += ", marked Latencylab-Load: " + r.Marker
	}
	if r.Mode == Closed {
		lines[1] = "response time of all calls, from the instant a connection was free; failed ones rank above every answer:"
	}
	return lines
}

// table returns the rows of the table, the heading first.
func (r *Run) table() [][]string {
	head := []string{""}
	for i := range r.Policies {
		head = append(head, r.Policies[i].Name)
		if r.Policies[i].Predicted != nil {
			head = append(head, "sim")
		}
	}
	t := [][]string{head}
	row := func(label string, measured func(*Policy) string, predicted func(*Predicted) string) {
		cells := []string{label}
		for i := range r.Policies {
			p := &r.Policies[i]
			cells = append(cells, measured(p))
			if p.Predicted != nil {
				s := ""
				if predicted != nil {
					s = predicted(p.Predicted)
				}
				cells = append(cells, s)
			}
		}
		t = append(t, cells)
	}
	for _, i := range []int{0, 1, 3, 4} { // p50, p90, p99, p99.9
		k := &quantiles[i]
		row(k.label, func(p *Policy) string { return durationCell(*k.of(&p.Response)) },
			func(p *Predicted) string { return durationCell(*k.of(&p.Response)) })
	}
	row("max", func(p *Policy) string { return durationCell(p.Response.Max) },
		func(p *Predicted) string { return durationCell(p.Response.Max) })
	for _, ns := range r.Requested.WithinNS {
		d := time.Duration(ns)
		row("OK within "+short(d), func(p *Policy) string { return shareCell(withinShare(p.OKWithin, d)) },
			func(p *Predicted) string { return shareCell(withinShare(p.OKWithin, d)) })
	}
	row("extra load", func(p *Policy) string { return loadCell(p.ExtraLoad) },
		func(p *Predicted) string { return loadCell(p.ExtraLoad) })
	row("attempts / calls", func(p *Policy) string { return slash(p.Attempts.Sent, p.Calls.Scheduled) },
		func(p *Predicted) string { return slash(p.Attempts.Sent, p.Calls.Scheduled) })
	hedged := slices.ContainsFunc(r.Policies, func(p Policy) bool { return p.HedgeDelayNS.Present })
	if hedged {
		row("hedge delay at the end", func(p *Policy) string { return durationCell(p.HedgeDelayNS) }, nil)
	}
	r.countRows(row)
	if r.Driver == Virtual {
		return t
	}
	row("lag p99", func(p *Policy) string {
		if r.Mode == Closed {
			return "closed loop"
		}
		return tailCell(&p.Lag)
	}, nil)
	row("pool wait p99", func(p *Policy) string { return tailCell(&p.PoolWait) }, nil)
	row("read delay p99", func(p *Policy) string { return tailCell(&p.ReadDelay) }, nil)
	return t
}

// countRows adds the rows that count events; those that are 0 everywhere and
// not asked for in every run are left out.
func (r *Run) countRows(row func(string, func(*Policy) string, func(*Predicted) string)) {
	add := func(label string, always bool, count func(*Policy) uint64) {
		any := always
		for i := range r.Policies {
			any = any || count(&r.Policies[i]) > 0
		}
		if any {
			row(label, func(p *Policy) string { return units.Count(count(p)) }, nil)
		}
	}
	add("hedges", false, func(p *Policy) uint64 { return p.Attempts.Hedges })
	add("hedges that won", false, func(p *Policy) uint64 { return p.Attempts.HedgeWins })
	add("retries", false, func(p *Policy) uint64 { return p.Attempts.Retries })
	if r.Driver != Virtual { // there are none in virtual time
		add("connections opened", true, func(p *Policy) uint64 { return p.Connections.Opened })
		add("closed by cancel", true, func(p *Policy) uint64 { return p.Connections.ClosedByCancel })
		add("handshakes lost to a faster address", false, func(p *Policy) uint64 { return p.Connections.Lost })
		add("addresses that failed", false, func(p *Policy) uint64 { return p.Connections.Fallbacks })
	}
	add("calls failed", true, func(p *Policy) uint64 { return p.Calls.Failed })
	add("calls unfinished", false, func(p *Policy) uint64 { return p.Calls.Unfinished })
	add("calls dropped", false, func(p *Policy) uint64 { return p.Calls.Dropped })
	for _, e := range r.errorSorts() {
		add("error: "+e.label, true, func(p *Policy) uint64 { return p.errorCount(e.label) })
	}
	for rule := policy.RuleNone + 1; rule < policy.Rules; rule++ {
		add("refused: "+rule.String(), false, func(p *Policy) uint64 { return p.Refused[rule.String()] })
	}
	add("spurious hedges", false, func(p *Policy) uint64 { return p.Attempts.SpuriousHedges })
	add("spurious timeouts", false, func(p *Policy) uint64 { return p.Attempts.SpuriousTimeouts })
	add("answers without stamp", false, func(p *Policy) uint64 { return p.Stamps.Unstamped })
}

// errorSort is one sort of error with a sample of it.
type errorSort struct{ label, sample string }

// errorSorts lists the sorts of errors of all policies in order of appearance.
func (r *Run) errorSorts() []errorSort {
	var list []errorSort
	seen := map[string]bool{}
	for i := range r.Policies {
		for _, e := range r.Policies[i].Errors {
			if label := e.label(); !seen[label] {
				seen[label] = true
				list = append(list, errorSort{label, e.Sample})
			}
		}
	}
	return list
}

func (e *Error) label() string {
	if e.Status.Present {
		return fmt.Sprintf("%s %.0f in %s", e.Class, e.Status.Value, e.Phase)
	}
	return e.Class + " in " + e.Phase
}

func (p *Policy) errorCount(label string) (n uint64) {
	for i := range p.Errors {
		if p.Errors[i].label() == label {
			n += p.Errors[i].Count
		}
	}
	return n
}

// sampleLines print one message in full for each sort of error.
func (r *Run) sampleLines() []string {
	var lines []string
	for _, e := range r.errorSorts() {
		if e.sample != "" {
			lines = append(lines, fmt.Sprintf("error: %s, such as: %s", e.label, oneLine(e.sample)))
		}
	}
	return lines
}

// oneLine keeps what a server or the kernel said from breaking the report.
func oneLine(s string) string {
	s = units.Plain(s)
	if r := []rune(s); len(r) > 160 {
		s = string(r[:160]) + "…"
	}
	return s
}

// writeTable prints rows with the first column on the left and all others to
// the right, two spaces apart.
func writeTable(b *bufio.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = units.Plain(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
}

// durationCell prints a duration, "≥ 1 s" for one that is known to be at least
// that, or "n/a".
func durationCell(f Figure) string {
	switch {
	case f.Present:
		return units.Duration(time.Duration(f.Value))
	case f.AtLeast > 0:
		return "≥ " + short(time.Duration(f.AtLeast))
	}
	return "n/a"
}

// tailCell prints the p99 of a distribution, or its maximum, marked, when there
// are too few samples.
func tailCell(d *Dist) string {
	switch {
	case d.P99.Present:
		return units.Duration(time.Duration(d.P99.Value))
	case d.Count > 0:
		return "max " + units.Duration(time.Duration(d.values.Max()))
	}
	return "n/a"
}

func shareCell(f Figure) string {
	if !f.Present {
		return "n/a"
	}
	return units.Percent(f.Value)
}

// loadCell prints extra load, which has no whole to be near to.
func loadCell(f Figure) string {
	if f.Present && f.Value >= 0.5 {
		return formatFloat(100*f.Value, 1) + " %"
	}
	return shareCell(f)
}

func slash(a, b uint64) string { return units.Count(a) + " / " + units.Count(b) }

// short is units.Duration without trailing zeros: 1 s for 1.00 s.
func short(d time.Duration) string {
	number, unit, ok := strings.Cut(units.Duration(d), " ")
	if !ok {
		return number
	}
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + unit
}

// formatRate prints a rate to about four digits, one below 0.1/s to three:
// 1,000/s, 12.5/s, 0.000278/s.
func formatRate(perS float64) string {
	switch {
	case perS >= 1000:
		return units.Count(uint64(perS+0.5)) + "/s"
	case perS >= 100:
		return formatFloat(perS, 1) + "/s"
	}
	places := 3
	for x := perS; x > 0 && x < 0.1 && places < 12; x *= 10 {
		places++
	}
	return formatFloat(perS, places) + "/s"
}
