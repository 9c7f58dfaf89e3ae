package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"latencylab/units"
	"latencylab/workloads"
)

const lintHelp = `usage: loadgen lint WORKLOAD [flags]

Lists the pitfalls that the policies of a workload step into: what works in a
test and goes wrong in production, and what to do. WORKLOAD is a file (with /
or .yaml) or a built-in one. Nothing is sent. Exit code: 0 nothing found, 4
something found, 2 for a file that cannot be read. docs/lint.md has the list.

      --policy [NAME:]SPEC  repeatable: these instead of the workload's
  -r, --rate RATE           this instead of the workload's
      --format FORMAT       text (default) or json
  -o, --output FILE         write to FILE, as JSON or as --format says

examples:
  loadgen lint ./mine.yaml
  loadgen lint hedge-tail --policy retry=3,backoff=100ms
  loadgen lint ./mine.yaml --format json
`

// lintSchema names the format of lint's JSON.
const lintSchema = "latencylab.lint/1"

func runLint(a *app, args []string) error {
	var o output
	var rate units.Rate
	var policies []workloads.NamedPolicy
	fs := flagSet("lint")
	list(fs, &policies, "policy", "", "[NAME:]SPEC", workloads.ParsePolicy)
	scalar(fs, &rate, "rate", "r", "RATE", units.ParseRate)
	scalar(fs, &o.path, "output", "o", "FILE", file)
	scalar(fs, &o.format, "format", "", "FORMAT", oneOf("text", "json"))
	if err := a.parse(fs, lintHelp, args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return usagef("lint takes one workload, got %d arguments; built in are %s", fs.NArg(), builtins())
	}
	if arg := fs.Arg(0); strings.Contains(arg, "://") {
		return usagef("%q is a URL, and lint reads a workload: nothing is sent", arg)
	}
	w, err := loadWorkload(fs.Arg(0))
	if err != nil {
		return err
	}
	if policies != nil {
		w.Policies, w.Sim.Policies = policies, nil
	}
	if rate != 0 {
		w.Rate = rate
	}
	if err := w.Check(); err != nil {
		return usage(err)
	}
	if err := o.check(a, 1); err != nil {
		return err
	}
	found := w.Lint()
	format := o.stdoutFormat()
	if o.toFile() {
		format = o.fileFormat()
	}
	var b strings.Builder
	if format == "json" {
		err = lintJSON(&b, w.Name, found)
	} else {
		lintText(&b, w.Name, found)
	}
	if err != nil {
		return err
	}
	if err := o.deliver(a, []byte(b.String())); err != nil {
		return err
	}
	if len(found) > 0 {
		return exit(exitMissed)
	}
	return nil
}

func lintJSON(w io.Writer, name string, found []workloads.Finding) error {
	if found == nil {
		found = []workloads.Finding{}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Schema   string              `json:"schema"`
		Workload string              `json:"workload"`
		Findings []workloads.Finding `json:"findings"`
	}{lintSchema, name, found})
}

func lintText(w io.Writer, name string, found []workloads.Finding) {
	switch len(found) {
	case 0:
		fmt.Fprintf(w, "%s: nothing found\n", name)
		return
	case 1:
		fmt.Fprintf(w, "%s: 1 finding\n", name)
	default:
		fmt.Fprintf(w, "%s: %d findings\n", name, len(found))
	}
	for _, g := range alike(found) {
		where := g.Key
		switch {
		case len(g.policies) > 1:
			where = "policies " + strings.Join(g.policies, ", ") + ": " + g.Key
		case g.Policy != "":
			where = "policy " + g.Policy + ": " + g.Key
		}
		fmt.Fprintf(w, "\n%s (%s)\n", g.ID, where)
		for _, s := range [2]string{g.Wrong, "do: " + g.Do} {
			for _, line := range wrapped(s, 96) {
				fmt.Fprintf(w, "  %s\n", units.Plain(line))
			}
		}
	}
}

// group is one finding with all policies that it is found in.
type group struct {
	workloads.Finding
	policies []string
}

// alike puts together what is said of several policies in the same words.
func alike(found []workloads.Finding) (list []group) {
	for _, f := range found {
		same := f
		i := slices.IndexFunc(list, func(g group) bool {
			same.Policy = g.Policy
			return g.Finding == same
		})
		if i < 0 {
			i, list = len(list), append(list, group{Finding: f})
		}
		list[i].policies = append(list[i].policies, f.Policy)
	}
	return list
}

// wrapped breaks s at spaces into lines of at most width characters.
func wrapped(s string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
