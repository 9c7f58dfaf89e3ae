package results

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"latencylab/units"
)

// comparisonLines say for each comparison what was shown, figure by figure.
func (r *Run) comparisonLines() []string {
	var lines []string
	if len(r.Comparisons) == 0 && r.NoComparison != "" {
		return wrap("no comparison: "+r.NoComparison, 100)
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		of := "p99"
		switch c.WordOf.Value {
		case StagePulse:
			of = "the pulse"
		case "ok", "ok_within":
			of = shareName(c.OKWithin.within())
		}
		lines = append(lines, fmt.Sprintf("%s against %s: %s, by %s (%s effect; %s; intervals of 95 %%)", c.Other, c.Base, c.Word, of, c.Estimand, c.Design))
		lines = append(lines, c.OKWithin.line())
		for i := range c.Further {
			lines = append(lines, c.Further[i].line())
		}
		for _, q := range []struct {
			label string
			r     *Ratio
		}{{"p50", &c.P50}, {"p99", &c.P99}, {"p99.9", &c.P999}} {
			lines = append(lines, "  "+q.label+": "+q.r.words())
		}
		carry := fmt.Sprintf("%s %s, %s %s", c.Base, points(c.CarryOver.Base), c.Other, points(c.CarryOver.Other))
		if r.Driver == Virtual {
			carry = "none, each policy has a world of its own in virtual time"
		}
		pulse := "n/a (" + c.NoPulse + ")"
		if c.Pulse != nil {
			pulse = c.Pulse.words(c.Base, c.Other)
		}
		lines = append(lines, "  carry-over: "+carry+"; pulse: "+pulse)
	}
	return lines
}

func (g *Gain) line() string {
	s := "  " + strings.TrimPrefix(shareName(g.within()), "the ") + ": "
	if !g.Difference.Present {
		return s + "n/a, " + g.Difference.Reason
	}
	s += points(g.Difference)
	if !g.Low.Present {
		return s + ", no interval: " + g.Low.Reason
	}
	return s + fmt.Sprintf(" (%s to %s): %s", signed(g.Low.Value), signed(g.High.Value), inWords(g.Word, g.Margin, "points"))
}

// inWords is a word with the margin that it was judged by.
func inWords(word string, margin float64, unit string) string {
	if word == Equivalent {
		m := formatFloat(100*margin, 1)
		if m == "1" {
			unit = strings.TrimSuffix(unit, "s")
		}
		word += " (within ±" + m + " " + unit + ")"
	}
	return word
}

// within is T; 0 without an objective.
func (g *Gain) within() time.Duration { return time.Duration(g.TNS.Value) }

// points prints a difference of shares in percentage points.
func points(f Figure) string {
	if !f.Present {
		return "n/a (" + f.Reason + ")"
	}
	return signed(f.Value) + " points"
}

func signed(share float64) string {
	s := strconv.FormatFloat(100*share, 'f', 2, 64)
	if s == "-0.00" {
		s = "0.00"
	}
	if share > 0 && s != "0.00" {
		s = "+" + s
	}
	return s
}

func (r *Ratio) words() string {
	if !r.Ratio.Present {
		return "n/a, " + r.Ratio.Reason
	}
	s := "× " + factor(r.Ratio.Value)
	if !r.Low.Present {
		return s + ", no interval: " + r.Low.Reason
	}
	return s + fmt.Sprintf(" (%s to %s): %s", factor(r.Low.Value), factor(r.High.Value), inWords(r.Word, r.Margin, "%"))
}

// factor prints a ratio to three significant digits.
func factor(x float64) string {
	if x >= 1000 || x <= 0 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	places := max(2-int(math.Floor(math.Log10(x))), 0)
	return strconv.FormatFloat(x, 'f', min(places, 6), 64)
}

// ForeignServer is the reason for Run.NoTarget when nobody expected a ledger.
const ForeignServer = "the server is not a target of ours"

// noLedger is the reason for Run.NoTarget when the driver gave none.
const noLedger = "the target announced no ledger"

// targetLines say whether the two ledgers agree, or why that is not known.
func (r *Run) targetLines() []string {
	if r.Target == nil {
		quiet := r.Driver == Virtual || r.NoTarget == "" || r.NoTarget == noLedger || r.NoTarget == ForeignServer
		if quiet || strings.Contains(r.Void, r.NoTarget) { // the verdict says it
			return nil
		}
		return wrap("target: its ledger was not held against the client's: "+r.NoTarget, 100)
	}
	var lines []string
	for i := range r.Target.Reconciliation {
		c := &r.Target.Reconciliation[i]
		if c.Holds {
			continue
		}
		s := fmt.Sprintf("target: %s does not add up: %s sent, %s arrived (at least %s must have), %s answered, %s served", c.Policy,
			units.Count(c.Sent), units.Count(c.Arrived), units.Count(c.AtLeast), units.Count(c.Answered), units.Count(c.Served))
		for _, d := range c.Differences {
			s += fmt.Sprintf("; %s %s", units.Count(d.Count), d.Reason)
		}
		lines = append(lines, s)
	}
	if len(lines) == 0 && len(r.Target.Reconciliation) > 0 {
		lines = append(lines, "target: its ledger and the client's agree on every attempt")
	}
	return append(lines, r.workLines()...)
}

// workLines say how much of the target's work was for nothing.
func (r *Run) workLines() []string {
	var parts []string
	for i := range r.Target.Reconciliation {
		c := &r.Target.Reconciliation[i]
		w := c.Work
		if w == nil || !w.Holds || w.Done.Requests == 0 {
			continue
		}
		s := fmt.Sprintf("%s %s on %s requests", c.Policy, span(int64(min(w.Done.NS, math.MaxInt64))), units.Count(w.Done.Requests))
		if w.Wasted.Requests == 0 {
			s += ", all of it used"
		} else {
			s += fmt.Sprintf(", %s on %s of them wasted", span(int64(min(w.Wasted.NS, math.MaxInt64))), units.Count(w.Wasted.Requests))
			if w.Done.NS > 0 {
				s += fmt.Sprintf(" (%s %%)", factor(100*float64(w.Wasted.NS)/float64(w.Done.NS)))
			}
		}
		parts = append(parts, s)
	}
	if parts == nil {
		return nil
	}
	return wrap("work of the target: "+strings.Join(parts, "; "), 100)
}

// verdictLines say which figures of the table hold.
func (r *Run) verdictLines() []string {
	head := "verdict: valid"
	switch {
	case r.Void != "":
		head = "verdict: NOT VALID, the run is void: " + oneLine(r.Void)
	case !r.Verdict.Valid:
		head = "verdict: NOT VALID, the generator spoiled figures that the result rests on"
	}
	lines := []string{head + r.spoiled()}
	type group struct{ policy, reason string }
	var order []group
	figures := map[group][]string{}
	note := func(g group, figure string) {
		if _, ok := figures[g]; !ok {
			order = append(order, g)
		}
		figures[g] = append(figures[g], figure)
	}
	for i := range r.Verdict.Claims {
		c := &r.Verdict.Claims[i]
		if label, percentile := claimLabel(c); !c.Valid && (c.Generator || !percentile) {
			note(group{c.Policy, c.Reason.Value}, label)
		}
	}
	for i := range r.Policies {
		p := &r.Policies[i]
		for n := range quantiles {
			if f := quantiles[n].of(&p.Response); !f.Present && tabled(quantiles[n].name) {
				note(group{p.Name, f.Reason}, quantiles[n].label)
			}
		}
	}
	for _, g := range order {
		lines = append(lines, fmt.Sprintf("  %s %s: %s", g.policy, strings.Join(figures[g], ", "), g.reason))
	}
	if r.Mode == Closed {
		lines = append(lines, "  closed loop: there is no schedule, so lag and achieved rate do not apply; a slow answer delays the next call")
	}
	return lines
}

// spoiled adds to "valid" that the generator spoiled figures that the Run does
// not rest on: in closed loop that is all that read delay does.
func (r *Run) spoiled() string {
	var n uint64
	for i := range r.Verdict.Claims {
		if c := &r.Verdict.Claims[i]; !c.Valid && c.Generator {
			n++
		}
	}
	switch {
	case n == 0 || !r.Verdict.Valid:
		return ""
	case r.Mode == Closed:
		return fmt.Sprintf(" as load, but not for %s: their answers were read too late", counted(n, "figure"))
	}
	return fmt.Sprintf(", but not for %s that the result does not rest on", counted(n, "figure"))
}

// tabled says whether the text table has the percentile.
func tabled(name string) bool { return name != "p95" && name != "p9999" }

// claimLabel names a claim's figure as the table does.
func claimLabel(c *Claim) (label string, percentile bool) {
	rest := strings.TrimPrefix(c.Figure, c.Policy+".")
	if t, ok := strings.CutPrefix(rest, "ok_within."); ok {
		return "OK within " + t, false
	}
	name := strings.TrimPrefix(rest, "response.")
	for i := range quantiles {
		if quantiles[i].name == name {
			return quantiles[i].label, true
		}
	}
	return rest, false
}

func (r *Run) warningLines() []string {
	lines := make([]string, 0, len(r.Warnings))
	for _, w := range r.Warnings {
		lines = append(lines, "warning: "+oneLine(w))
	}
	return lines
}

// closing says in words what the other policies bought against the base and
// what they cost, or, of a single policy, what became of its calls.
func (r *Run) closing() string {
	var s []string
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		base, other := r.policyNamed(c.Base), r.policyNamed(c.Other)
		if base != nil && other != nil {
			s = append(s, r.bought(c, base, other), r.cost(base, other))
		}
	}
	if len(s) == 0 {
		for i := range r.Policies {
			s = append(s, r.summary(&r.Policies[i]))
		}
	}
	hedged := slices.ContainsFunc(r.Policies, func(p Policy) bool { return p.Attempts.Hedges > 0 })
	if r.BestCase && hedged {
		s = append(s, "This world is hedging's best case: no capacity limit, independent replicas.")
	}
	return strings.Join(s, " ")
}

func (r *Run) bought(c *Comparison, base, other *Policy) string {
	what := "bought nothing that shows"
	switch {
	case c.WordOf.Value == StagePulse && c.Word == Better:
		what = "comes back from a pulse from which the other does not; without a pulse"
	case c.WordOf.Value == StagePulse && c.Word == Worse:
		what = "does not come back from a pulse, whatever it does without one"
		if c.OKWithin.Word == Worse || !c.OKWithin.TNS.Present && c.P99.Word == Worse {
			what = "did harm, and does not come back from a pulse"
		}
	case c.WordOf.Value == StagePulse:
		what = "does not come back from every pulse that the other does; without a pulse"
	case c.Word == Better:
		what = "bought"
	case c.Word == Worse:
		what = "did harm"
	}
	s := fmt.Sprintf("%s against %s %s: p99 of the response time %s", other.Name, base.Name, what,
		change(base.Response.P99, other.Response.P99, durationCell))
	if t, ok := r.primary(); ok {
		s += fmt.Sprintf(", and the share of calls OK within %s %s", short(t),
			change(withinShare(base.OKWithin, t), withinShare(other.OKWithin, t), shareCell))
	} else if a, b := shareOf(base.Calls.OK, base.Calls.Scheduled), shareOf(other.Calls.OK, other.Calls.Scheduled); shareCell(a) != shareCell(b) {
		s += ", and the share of calls OK at all " + change(a, b, shareCell)
	}
	return s + "."
}

// change prints "1.00 s → 98.4 ms", or that nothing changed at this precision,
// or that neither is known.
func change(a, b Figure, cell func(Figure) string) string {
	if !a.Present && !b.Present && a.AtLeast+b.AtLeast > 0 {
		return fmt.Sprintf("is not known (%s and %s)", cell(a), cell(b))
	}
	if x, y := cell(a), cell(b); x != y {
		return x + " → " + y
	}
	return cell(a) + " as before"
}

func (r *Run) cost(base, other *Policy) string {
	cancelled := counted(other.Connections.ClosedByCancel, "connection") + " closed by cancel"
	if r.Driver == Virtual {
		cancelled = counted(other.Attempts.Cancelled, "cancelled attempt")
	}
	s := fmt.Sprintf("It cost %s extra load (%s attempts for %s calls) and %s",
		loadCell(other.ExtraLoad), units.Count(other.Attempts.Sent), units.Count(other.Calls.Scheduled), cancelled)
	if other.Calls.Failed > base.Calls.Failed {
		s += fmt.Sprintf("; %s failed, %s with %s", counted(other.Calls.Failed, "call"), units.Count(base.Calls.Failed), base.Name)
	}
	return s + "."
}

func (r *Run) summary(p *Policy) string {
	s := fmt.Sprintf("%s: %s of %s ended OK", p.Name, units.Count(p.Calls.OK), counted(p.Calls.Scheduled, "call"))
	if t, ok := r.primary(); ok {
		s += fmt.Sprintf(", %s of all within %s", shareCell(withinShare(p.OKWithin, t)), short(t))
	}
	return s + "."
}

// wrap breaks s into lines of at most width characters, at spaces that do not
// stand before a unit.
func wrap(s string, width int) []string {
	if s == "" {
		return nil
	}
	var lines []string
	line := ""
	for _, w := range strings.Fields(glue(s)) {
		if line != "" && len([]rune(line))+1+len([]rune(w)) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "\u00a0", " ")
	}
	return lines
}

// glue joins numbers and their units by no-break spaces.
func glue(s string) string {
	for _, unit := range []string{"ns", "µs", "ms", "s", "%"} {
		for _, end := range []string{" ", ",", ".", ";", ")", ":"} {
			s = strings.ReplaceAll(s, " "+unit+end, "\u00a0"+unit+end)
		}
	}
	return s
}

// formatFloat returns x with at most places decimals, without trailing zeros.
func formatFloat(x float64, places int) string {
	s := strconv.FormatFloat(x, 'f', places, 64)
	if places > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
