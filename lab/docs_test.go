package lab

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/labs.md with what the labs print; takes minutes")

// instant are the labs that take no time, whose output in docs/labs.md is held
// against what they print now.
var instant = map[string]bool{
	"retry-rules": true, "budget-walk": true, "child-budget": true, "clock-skew": true, "jitter": true,
	"layers": true, "nested-timeouts": true, "timeout-phases": true, "pool-exhaustion": true, "false-timeouts": true,
}

// printed returns what a command of the page prints.
func printed(t *testing.T, command string) string {
	t.Helper()
	words := strings.Fields(command)
	l, err := Find(words[3])
	if err != nil {
		t.Fatal(err)
	}
	var o Options
	for i := 4; i+1 < len(words); i += 2 {
		switch words[i] {
		case "--prng":
			o.PRNG = words[i+1]
		case "--discipline":
			o.Discipline = words[i+1]
		case "--runs":
			if o.Runs, err = strconv.Atoi(words[i+1]); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("%q has a flag that the page may not use", command)
		}
	}
	o.Seed = l.DefaultSeed(o)
	var b strings.Builder
	if err := runLab(t, l, o).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestThePageShowsWhatTheLabsPrint: each block of docs/labs.md is the output of
// the command above it, and every lab has one in virtual time.
func TestThePageShowsWhatTheLabsPrint(t *testing.T) {
	const path, open, end = "../docs/labs.md", "```text\n$ loadgen lab ", "```\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, l := range All() {
		missing[l.Name] = true
	}
	var out strings.Builder
	rest := string(page)
	for {
		before, after, found := strings.Cut(rest, open)
		out.WriteString(before)
		if !found {
			break
		}
		block, tail, _ := strings.Cut(after, end)
		args, shown, _ := strings.Cut(block, "\n")
		name := strings.Fields(args)[0]
		if strings.HasSuffix(args, " --real") { // measured: what comes out differs each time
			if shown == "" {
				t.Errorf("docs/labs.md: loadgen lab %s shows nothing", args)
			}
			out.WriteString(open + args + "\n" + shown + end)
			rest = tail
			continue
		}
		delete(missing, name)
		if *update || instant[name] {
			got := printed(t, "$ loadgen lab "+args)
			if diff := cmp.Diff(shown, got); diff != "" && !*update {
				t.Errorf("docs/labs.md: loadgen lab %s (-page +now; -update rewrites it):\n%s", args, diff)
			}
			shown = got
		} else if shown == "" {
			t.Errorf("docs/labs.md: loadgen lab %s shows nothing; -update fills it in", args)
		}
		out.WriteString(open + args + "\n" + shown + end)
		rest = tail
	}
	for name := range missing {
		t.Errorf("docs/labs.md does not show lab %s", name)
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
