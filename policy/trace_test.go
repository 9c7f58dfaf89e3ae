package policy

import (
	"flag"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/clock"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what the policy does")

// TestTraces runs the scripts of testdata. A script is a list of blocks: lines
// of input, a line "----", lines of expected output, an empty line. Comments
// begin with # and stand before a block. Input lines are
//
//	policy KEY=VALUE …       a new client; replicas= is a key, too
//	start TIME [id=N] [intended=TIME] [idempotent=no]
//	progress SLOT PHASE TIME
//	reply SLOT DISPOSITION TIME [hint=D]
//	advance TIME
//	train N D TIME           N calls begin at TIME and take D each
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	tr := &trace{t: t}
	for i, block := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		if i > 0 {
			out.WriteString("\n")
		}
		input, _, _ := strings.Cut(block, "\n----")
		out.WriteString(input + "\n")
		result := ""
		for line := range strings.Lines(input) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				result += tr.step(strings.Fields(line))
			}
		}
		if result != "" {
			out.WriteString("----\n" + result)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(data), out.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// trace is one client and its current call.
type trace struct {
	t *testing.T
	w *world
	s watch
}

func (tr *trace) step(f []string) string {
	arg := options(tr.t, f[1:])
	var a Action
	switch f[0] {
	case "policy":
		p := arg.policy()
		if err := p.Validate(); err != nil {
			tr.t.Fatalf("%q: %v", f, err)
		}
		tr.w = newWorld(tr.t, p, arg.int("replicas", 1), 1)
		return "ok\n"
	case "train":
		return tr.train(arg)
	case "start":
		now := arg.time(0)
		r := Request{ID: uint64(arg.int("id", 0)), Intended: now, Idempotent: arg.named["idempotent"] != "no"}
		if s := arg.named["intended"]; s != "" {
			r.Intended = at(arg.duration("intended"))
		}
		tr.s = watch{w: tr.w}
		a = tr.s.start(r, now)
	case "progress":
		a = tr.s.progress(arg.slot(), Phase(indexOf(tr.t, phaseNames[:], arg.plain[1])), arg.time(2))
	case "reply":
		d := Disposition(indexOf(tr.t, dispositionNames[:], arg.plain[1]))
		a = tr.s.reply(arg.slot(), Result{Disposition: d, Hint: arg.duration("hint")}, arg.time(2))
	case "advance":
		a = tr.s.advance(arg.time(0))
	default:
		tr.t.Fatalf("unknown command %q", f)
	}
	return fmt.Sprintf("%s: %s%s\n", strings.Join(f, " "), describe(a), tr.tokens())
}

func (tr *trace) tokens() string {
	if !tr.w.c.funds.limited {
		return ""
	}
	return fmt.Sprintf("; tokens %v", tr.w.c.Tokens())
}

// train ends every call by its first answer.
func (tr *trace) train(arg args) string {
	n, err := strconv.Atoi(arg.plain[0])
	if err != nil {
		tr.t.Fatal(err)
	}
	d, err := time.ParseDuration(arg.plain[1])
	if err != nil {
		tr.t.Fatal(err)
	}
	for i := range n {
		s := watch{w: tr.w}
		s.start(Request{ID: uint64(i), Intended: arg.time(2), Idempotent: true}, arg.time(2))
		s.reply(0, Result{Disposition: DispOK}, arg.time(2).Add(d))
	}
	delay, ok := tr.w.c.HedgeDelay()
	return fmt.Sprintf("hedge delay %v %v\n", delay, ok)
}

// describe renders an Action in its field order.
func describe(a Action) string {
	var s []string
	if c := a.Cancel &^ a.TimedOut; c != 0 {
		s = append(s, "cancel "+slots(c))
	}
	if a.TimedOut != 0 {
		s = append(s, "time out "+slots(a.TimedOut))
	}
	if a.Attempt != 0 {
		s = append(s, fmt.Sprintf("send %v %d to replica %d in slot %d", a.Kind, a.Attempt, a.Replica, a.Slot))
	}
	if a.Finish != Going {
		s = append(s, "finish "+a.Finish.String())
	}
	if a.Refused != RuleNone {
		s = append(s, "refused by "+a.Refused.String())
	}
	if a.Timer != clock.Never {
		s = append(s, "timer "+time.Duration(a.Timer).String())
	}
	if len(s) == 0 {
		return "nothing"
	}
	return strings.Join(s, "; ")
}

func slots(mask uint8) string {
	s := "slot"
	for ; mask != 0; mask &= mask - 1 {
		s += " " + strconv.Itoa(bits.TrailingZeros8(mask))
	}
	return s
}

// args are the words of a command: plain ones in order, and key=value ones.
type args struct {
	t     *testing.T
	plain []string
	named map[string]string
}

func options(t *testing.T, words []string) args {
	a := args{t: t, named: map[string]string{}}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.named[k] = v
		} else {
			a.plain = append(a.plain, w)
		}
	}
	return a
}

func (a args) int(key string, or int) int {
	if a.named[key] == "" {
		return or
	}
	n, err := strconv.Atoi(a.named[key])
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

func (a args) float(key string) float64 {
	if a.named[key] == "" {
		return 0
	}
	f, err := strconv.ParseFloat(a.named[key], 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return f
}

func (a args) duration(key string) time.Duration {
	if a.named[key] == "" {
		return 0
	}
	d, err := time.ParseDuration(a.named[key])
	if err != nil {
		a.t.Fatal(err)
	}
	return d
}

func (a args) time(i int) clock.Time {
	d, err := time.ParseDuration(a.plain[i])
	if err != nil {
		a.t.Fatal(err)
	}
	return at(d)
}

func (a args) slot() uint8 {
	n, err := strconv.Atoi(a.plain[0])
	if err != nil {
		a.t.Fatal(err)
	}
	return uint8(n)
}

func (a args) policy() Policy {
	p := Policy{
		Deadline: a.duration("deadline"),
		MinStart: a.duration("min-start"),
		Timeouts: Timeouts{PartAttempt: {After: a.duration("attempt-timeout")}},
		Attempts: a.int("attempts", 0),
		Retry:    Retry{Max: a.int("retry", 0), Unsafe: a.named["retry.unsafe"] == "yes"},
		Backoff:  Backoff{Base: a.duration("backoff"), Cap: a.duration("backoff.cap")},
		Hedge:    Hedge{Max: a.int("hedge.max", 0), Window: a.duration("hedge.window"), MinSamples: a.int("hedge.min-samples", 0)},
		Budget:   Budget{Deposit: a.float("budget"), Capacity: a.float("budget.capacity")},
	}
	if a.named["jitter"] == "none" {
		p.Backoff.Jitter = JitterNone
	}
	if a.named["picker"] == "round-robin" {
		p.Picker = PickRoundRobin
	}
	if h := a.named["hedge"]; h != "" {
		p.Hedge.Max = a.int("hedge.max", 1)
		if q, ok := strings.CutPrefix(h, "p"); ok {
			f, err := strconv.ParseFloat(q, 64)
			if err != nil {
				a.t.Fatal(err)
			}
			p.Hedge.Quantile = f / 100
		} else {
			p.Hedge.Delay = a.duration("hedge")
		}
	}
	return p
}

func indexOf(t *testing.T, names []string, want string) int {
	for i, n := range names {
		if n == want {
			return i
		}
	}
	t.Fatalf("%q is none of %q", want, names)
	return 0
}
