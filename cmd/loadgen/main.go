// Command loadgen measures what a client's policy about slowness and failure
// does to tail latency: it drives HTTP servers in real time, or a model of them
// in virtual time, and renders what was found.
//
// This package turns flags into a plan, prints, and turns the result into an
// exit code; measuring is the business of package trial, rendering that of
// package results.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"latencylab/engine"
	"latencylab/units"
)

// Exit codes. 0 is done and valid.
const (
	exitFailed      = 1   // nothing was measured, or a result was not written
	exitUsage       = 2   // flags, workload or policy
	exitInvalid     = 3   // a figure that a comparison or an objective uses is not valid
	exitMissed      = 4   // an objective or a claim was missed, or a pitfall found
	exitInterrupted = 130 // written and marked
)

// failure is an error with the exit code that it leads to. An empty text ends
// the process without a line of its own.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// usage makes err a mistake of the user's: exit 2.
func usage(err error) error { return &failure{exitUsage, err} }

// usagef is usage of a formatted text.
func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

// exit ends with a code alone.
func exit(code int) error {
	if code == 0 {
		return nil
	}
	return &failure{code: code}
}

// app is the process as the sub-commands see it.
type app struct {
	stdout, stderr io.Writer
	args           []string // as typed, the program's name first
}

// command is one sub-command.
type command struct {
	name string
	run  func(a *app, args []string) error
}

var commands = []command{
	{"run", runRun},
	{"sim", runSim},
	{"lab", runLab},
	{"report", runReport},
	{"lint", runLint},
	{childCommand, runChild},
}

const mainHelp = `usage: loadgen COMMAND [ARGUMENT] [flags]

Measures what hedging, retries and deadlines do to tail latency, on real
sockets and in virtual time.

  run [URL|WORKLOAD]    drive a server; several policies are compared
  sim WORKLOAD          the same in virtual time
  lab [NAME]            built-in experiments; without NAME, the list
  report RUN.json       render a saved result, or a histogram log (.hlog)
  lint WORKLOAD         pitfalls of a workload's policies

  --version             version, commit and Go
  --help                this, or the flags of a command: loadgen run --help;
                        loadgen help guards: load on a service that is not yours

Results go to stdout, progress and warnings to stderr. Exit code: 0 done and
valid; 1 nothing measured or result not written; 2 flags, workload or policy;
3 a figure in use is not valid; 4 a claim was missed or a pitfall found; 130
interrupted.

examples:
  loadgen run
  loadgen run http://127.0.0.1:8080/ -c 64 -d 10s
  loadgen sim hedge-tail --policy plain --policy hedge=58ms
`

func main() {
	// A run allocates at its start and its end, not per call, and the engine
	// collects what its reports leave behind. A heap goal of at least 8 MB keeps
	// the collector from coming in between, whatever the rate.
	debug.SetGCPercent(200)
	// A reader of stdout or stderr that has left is an error of writing, not the
	// end of a measurement whose result may go to a file.
	signal.Ignore(syscall.SIGPIPE)
	if err := engine.CheckFiles(); err != nil {
		fmt.Fprintf(os.Stderr, "loadgen: %v\n", err)
		os.Exit(exitFailed)
	}
	a := &app{stdout: standardOutput(os.Stdout), stderr: os.Stderr, args: os.Args}
	os.Exit(a.main())
}

// main runs the command line and returns the exit code.
func (a *app) main() int {
	err := a.dispatch()
	if err == nil {
		return 0
	}
	code := exitFailed
	var f *failure
	if errors.As(err, &f) {
		code = f.code
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(a.stderr, "loadgen: %s\n", oneLine(text))
	}
	return code
}

func (a *app) dispatch() error {
	if len(a.args) < 2 {
		io.WriteString(a.stderr, mainHelp)
		return exit(exitUsage)
	}
	name, args := a.args[1], a.args[2:]
	switch name {
	case "--help", "-h":
		return a.print(mainHelp)
	case "help":
		if err := a.help(args); !errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return nil
	case "--version", "version":
		return a.print(version() + "\n")
	}
	for _, c := range commands {
		if c.name != name {
			continue
		}
		err := c.run(a, args)
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if strings.HasPrefix(name, "-") {
		return usagef("the flag %s stands before a command, want loadgen COMMAND [flags]; see loadgen --help", name)
	}
	return usagef("unknown command %q, want run, sim, lab, report or lint", name)
}

// print writes s to standard output.
func (a *app) print(s string) error {
	if _, err := io.WriteString(a.stdout, s); err != nil {
		return fmt.Errorf("write to standard output: %w", bare(err))
	}
	return nil
}

// oneLine keeps an error to the one line that stderr promises, and a terminal
// from acting on what a file or a server says.
func oneLine(s string) string {
	return units.Plain(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// version names the build: module version, commit and Go.
func version() string {
	v, commit := buildVersion()
	return fmt.Sprintf("loadgen %s, commit %s, %s %s/%s", v, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion reads what the Go tool stamped into the binary.
func buildVersion() (v, commit string) {
	v, commit = "(devel)", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v, commit
	}
	if info.Main.Version != "" {
		v = info.Main.Version
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty {
		commit += "+changes"
	}
	return v, commit
}
