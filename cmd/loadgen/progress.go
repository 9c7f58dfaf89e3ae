package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"latencylab/engine"
	"latencylab/histo"
	"latencylab/trial"
	"latencylab/units"
	"latencylab/workloads"
)

// progress tells on stderr how a measurement goes on: one line a block, and one
// a second on a terminal or when asked for.
type progress struct {
	w      io.Writer
	plan   *trial.Plan
	live   bool // a line a second
	redraw bool // on a terminal the line is drawn over the last one

	mu    sync.Mutex // of what follows: an interrupt is told from a goroutine of its own
	drawn bool

	sum  engine.Interval // what ended since the last line
	name string          // of its policy
}

func newProgress(a *app, p *trial.Plan, wanted bool) *progress {
	tty := isTerminal(a.stderr)
	show := &progress{w: a.stderr, plan: p, live: tty || wanted, redraw: tty}
	show.sum.OK = histo.New()
	return show
}

// isTerminal says whether w is a character device such as a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && st.Mode()&os.ModeDevice != 0 && f.Name() != os.DevNull
}

func (p *progress) observer() trial.Observer {
	o := trial.Observer{Block: p.block, Stage: p.stage}
	if p.live {
		o.Interval = p.interval
	}
	return o
}

// begin prints what was chosen where the user has not.
func (p *progress) begin() {
	p.say(p.plan.Summary())
	for _, n := range p.plan.Notes {
		p.say(n)
	}
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newLine()
}

// newLine ends a line that was drawn.
func (p *progress) newLine() {
	if p.drawn {
		fmt.Fprintln(p.w)
		p.drawn = false
	}
}

// line prints s on a line of its own.
func (p *progress) line(s string) {
	p.newLine()
	fmt.Fprintln(p.w, s)
}

// say is line from any goroutine.
func (p *progress) say(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(s)
}

func (p *progress) block(n, of int, name string, b workloads.Block) {
	p.say(fmt.Sprintf("block %d of %d: %s, %s", n, of, name, lengthOf(b)))
}

// stage tells of the long stretches of other stages; short blocks of plain
// against itself follow a pilot's.
func (p *progress) stage(stage, name string, b workloads.Block) {
	p.say(fmt.Sprintf("%s: %s, %s", stage, name, lengthOf(b)))
}

// lengthOf says how long a block lasts.
func lengthOf(b workloads.Block) string {
	how := units.FormatDuration(b.Data.Round(time.Millisecond)) + " of data"
	if b.Calls > 0 {
		how = units.Count(b.Calls) + " calls"
	}
	if b.Burn > 0 {
		how = units.FormatDuration(b.Burn.Round(time.Millisecond)) + " warm-up, " + how
	}
	return how
}

// interval adds what ended, and draws a line when a second is full.
func (p *progress) interval(name string, iv engine.Interval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name != p.name || iv.Burn != p.sum.Burn || iv.Start < p.sum.End {
		p.restart(name, &iv)
	}
	p.sum.OK.Merge(iv.OK)
	p.sum.Ended += iv.Ended
	p.sum.Failed += iv.Failed
	p.sum.End = iv.End
	if p.sum.End.Sub(p.sum.Start) < 950*time.Millisecond {
		return
	}
	if p.redraw {
		fmt.Fprintf(p.w, "\r\x1b[K%s", p.second())
		p.drawn = true
	} else {
		fmt.Fprintln(p.w, p.second())
	}
	p.name = "" // the next interval begins a new second
}

// restart begins a second with iv.
func (p *progress) restart(name string, iv *engine.Interval) {
	all := p.sum.OK
	all.Reset()
	p.name, p.sum = name, engine.Interval{Burn: iv.Burn, Start: iv.Start, OK: all}
}

// second says in a line what ended.
func (p *progress) second() string {
	v := &p.sum
	s := fmt.Sprintf("  %s: %.0f calls/s", p.name, float64(v.Ended)/v.End.Sub(v.Start).Seconds())
	if v.Burn {
		s += " (warm-up)"
	}
	if v.OK.Count() > 0 {
		s += fmt.Sprintf(", p50 %s, p99 %s, max %s", units.Duration(time.Duration(v.OK.Quantile(0.5))),
			units.Duration(time.Duration(v.OK.Quantile(0.99))), units.Duration(time.Duration(v.OK.Max())))
	}
	if v.Failed > 0 {
		s += fmt.Sprintf(", %s failed", units.Count(v.Failed))
	}
	return s
}
