package results

import (
	"fmt"
	"strings"
	"time"

	"latencylab/units"
)

// stageLines say what the stages found, stage by stage, and which policies may
// be called safe.
func (r *Run) stageLines() []string {
	var lines []string
	before := ""
	for i := range r.Stages {
		s := &r.Stages[i]
		if s.Word.Value == "" && r.alike(i) {
			if s.Name != before {
				lines = append(lines, s.Name+": n/a, "+s.Word.Reason)
			}
			before = s.Name
			continue
		}
		if s.Name != before {
			if s.Pulse != nil && s.Pulse.Of == 0 {
				lines = append(lines, "pulse: "+s.Pulse.Note)
			}
			if head := s.head(r); head != "" {
				lines = append(lines, head)
			}
		}
		before = s.Name
		lines = append(lines, s.lines()...)
	}
	return append(lines, r.safeLines()...)
}

// alike says whether a stage without a word has none for any policy, for the
// same reason.
func (r *Run) alike(i int) bool {
	of := &r.Stages[i]
	if of.Name == StageBlocks {
		return false
	}
	for k := range r.Stages {
		if s := &r.Stages[k]; s.Name == of.Name && s.Word != of.Word {
			return false
		}
	}
	return true
}

// head says once what a stage did to all policies.
func (s *Stage) head(r *Run) string {
	switch {
	case s.Sustained != nil:
		return fmt.Sprintf("sustained, each policy alone for %s:", span(s.Sustained.LengthNS))
	case s.Pulse != nil && s.Pulse.Of > 0:
		what := "frozen"
		if s.Pulse.Trigger == Outage {
			what = "without capacity"
		}
		return fmt.Sprintf("pulse, all servers %s for %s (%s), released, and looked at %s later, seeds from %d:", what,
			span(s.Pulse.FreezeNS), s.Pulse.FreezeOf, span(s.Pulse.AfterNS), r.Seed)
	case s.Name == StageSustained, s.Name == StagePulse && s.Pulse == nil:
		return s.Name + ":"
	}
	return ""
}

// span prints a length in ns without trailing zeros.
func span(ns int64) string { return short(time.Duration(ns)) }

// lines say what the stage found of its policy.
func (s *Stage) lines() []string {
	who := "  " + s.Policy.Value + ": "
	switch {
	case s.Pilot != nil:
		return s.Pilot.lines(s.Policy.Value)
	case s.Name == StageBlocks, s.Pulse != nil && s.Pulse.Of == 0:
		return nil
	case s.Word.Value == "":
		return []string{who + "n/a, " + s.Word.Reason}
	case s.Sustained != nil:
		return []string{who + s.Word.Value + ": " + s.Sustained.words()}
	case s.Pulse != nil:
		return []string{"  " + s.Pulse.words(s.Policy.Value)}
	}
	return []string{who + s.Word.Value}
}

func (p *Pilot) lines(policy string) []string {
	s := fmt.Sprintf("pilot, %s alone for %s: relaxation time %s", policy, span(p.LengthNS), figureWords(p.Tau, durationCell))
	if e := p.EpisodesPerMinute; e.Present {
		s += ", " + formatFloat(e.Value, 1) + " tail episodes a minute"
	} else {
		s += "; tail episodes n/a (" + e.Reason + ")"
	}
	if p.Data.Present {
		s += fmt.Sprintf(" (%d want %s of data a policy)", MinEpisodes, units.Duration(time.Duration(p.Data.Value)))
	}
	aa := fmt.Sprintf("  %s against itself, %s", policy, strings.TrimSpace(p.AA.line()))
	return []string{s, aa, "  p99 against itself: " + p.AAP99.words(), "  blocks should last " + p.advice() + p.used()}
}

// used says how long the blocks are, and what to do when that is too short.
func (p *Pilot) used() string {
	switch d := p.Advice(); {
	case !p.Used.Present:
		return ""
	case p.Used.Value < 0.9*float64(d):
		return fmt.Sprintf("; they last %s, which is shorter: give a longer --duration", units.Duration(time.Duration(p.Used.Value)))
	}
	return "; they last " + units.Duration(time.Duration(p.Used.Value))
}

// advice says how long a block should be, and why.
func (p *Pilot) advice() string {
	why := fmt.Sprintf("%d relaxation times", blockTimes)
	if p.Window > 0 {
		why += fmt.Sprintf(", and the longest memory of a policy (%s)", span(p.Window))
	}
	if d := p.Advice(); d > 0 {
		least := ""
		if !p.Block.Present {
			least = "at least "
		}
		return least + units.Duration(d) + ": " + why
	}
	return why + ", which is not known: " + p.Block.Reason
}

// figureWords prints a figure, its lower bound, or why there is none.
func figureWords(f Figure, cell func(Figure) string) string {
	if f.Present || f.AtLeast > 0 {
		s := cell(f)
		if !f.Present {
			s += " (" + f.Reason + ")"
		}
		return s
	}
	return "n/a (" + f.Reason + ")"
}

// cell prints a value in the unit of the stretch.
func (v *Sustained) cell(f Figure) string {
	switch {
	case !f.Present:
		return "n/a"
	case v.Unit == "calls":
		return formatFloat(f.Value, 1)
	case f.Value < 0:
		return "-" + units.Duration(time.Duration(-f.Value))
	}
	return units.Duration(time.Duration(f.Value))
}

func (v *Sustained) words() string {
	s := ""
	if v.Early != "" {
		s = "it ended " + v.Early
		if !v.Median.Present {
			return s
		}
		s += "; "
	}
	s += fmt.Sprintf("%s %s in the median, %s at the end, growth %s (%s to %s)", v.Of, v.cell(v.Median), v.cell(v.End), v.cell(v.Growth), v.cell(v.Low), v.cell(v.High))
	if v.Attempts.Present {
		s += fmt.Sprintf("; %s attempts a call", factor(v.Attempts.Value))
		if v.AttemptsEnd.Present && factor(v.AttemptsEnd.Value) != factor(v.Attempts.Value) {
			s += ", " + factor(v.AttemptsEnd.Value) + " at the end"
		}
	}
	return s
}

func (p *PulseResult) words(policy string) string {
	if p.NotRecovered == 0 {
		s := fmt.Sprintf("%s recovered in %d of %s", policy, p.Of, counted(uint64(p.Of), "run"))
		if p.Recovery.Present {
			when := "at once"
			if p.Recovery.Value > 0 {
				when = "within " + units.Duration(time.Duration(p.Recovery.Value))
			}
			s += ", " + when
			if p.Of > 1 {
				s += " in the median"
			}
		}
		return s + note(p.Note)
	}
	s := fmt.Sprintf("%s collapses: after %s of %s it had not recovered %s later in %d of %s", policy,
		withArticle(p.Trigger), span(p.FreezeNS), span(p.AfterNS), p.NotRecovered, counted(uint64(p.Of), "run"))
	var of []string
	if p.After.Present && p.Stationary.Present && p.Stationary.Value > 0 {
		of = append(of, fmt.Sprintf("unfinished work %s × %s", factor(p.After.Value/p.Stationary.Value), p.Reference))
	}
	if p.Failed.Present && p.Failed.Value > 0 {
		of = append(of, shareCell(p.Failed)+" of the calls failed")
	}
	if p.Attempts.Present {
		of = append(of, factor(p.Attempts.Value)+" attempts a call")
	}
	if len(of) > 0 {
		s += " (" + strings.Join(of, ", ") + ")"
	}
	return s + note(p.Note)
}

func withArticle(trigger string) string {
	if trigger == Outage {
		return "an outage"
	}
	return "a freeze"
}

func note(s string) string {
	if s == "" {
		return ""
	}
	return "; " + s
}

// words says in a line of a comparison who came back.
func (p *Pulse) words(base, other string) string {
	if p.Of == 0 {
		return "requests take nothing from each other, so nothing can be pushed over"
	}
	return fmt.Sprintf("%s recovered in %d of %s%s, %s in %d%s", base, p.Of-p.BaseNotRecovered, counted(uint64(p.Of), "run"), p.within(p.BaseRecovery), other, p.Of-p.NotRecovered, p.within(p.Recovery))
}

// within says how long it took, if that is known.
func (p *Pulse) within(recovery Figure) string {
	switch {
	case !recovery.Present:
		return ""
	case recovery.Value == 0:
		return " (at once)"
	}
	return " (within " + durationCell(recovery) + ")"
}

// safeLines say which policies were shown to be safe, and what is missing for
// the others. Only a comparison, or a run that asked for those stages, speaks of
// it.
func (r *Run) safeLines() []string {
	if len(r.Comparisons) == 0 && len(r.Stages) == 0 {
		return nil
	}
	var safe, lines []string
	type group struct{ names, why []string }
	var groups []group
	for _, s := range r.safeties() {
		if s.safe {
			safe = append(safe, s.policy)
			continue
		}
		if n := len(groups); n > 0 && strings.Join(groups[n-1].why, ", ") == strings.Join(s.why, ", ") {
			groups[n-1].names = append(groups[n-1].names, s.policy)
			continue
		}
		groups = append(groups, group{[]string{s.policy}, s.why})
	}
	if len(safe) > 0 {
		where := "in this model"
		if r.Driver == Sockets {
			where = "on the embedded target at this load"
		}
		lines = append(lines, "safe: "+strings.Join(safe, ", ")+" (stable alone, and back after every pulse, "+where+")")
	}
	for _, g := range groups {
		lines = append(lines, fmt.Sprintf("not shown safe: %s: %s", strings.Join(g.names, ", "), strings.Join(g.why, ", ")))
	}
	return lines
}
