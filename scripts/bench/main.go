// Bench measures loadgen and target against their peers on one machine, from outside: CPU
// per request, memory, lateness, garbage collections and system calls.
//
// scripts/bench-peers installs the peers, builds everything and runs it; see
// there for what a person types. The server has core 0 and the generator core
// 1. Commands are run in interleaved pairs (A B A B …), because a machine's own
// speed drifts by half within a day: only ratios within pairs are compared.
//
// CPU per request is user plus system time of the generator's whole process, as
// wait4 gives it, over the requests that the server counted (nginx's
// stub_status), so that every tool is counted alike and its start and end are
// included. Memory is VmHWM of /proc/PID/status.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// section is one group of figures.
type section struct {
	name  string
	about string
	run   func(*bench) error
}

var sections = []section{
	{"closed", "closed loop, 64 connections, CPU per request: loadgen against wrk", (*bench).closed},
	{"https", "closed loop, 64 connections over TLS 1.3, CPU per request: loadgen against wrk", (*bench).https},
	{"c10k", "closed loop, 10,000 connections, CPU per request and memory: loadgen against wrk", (*bench).c10k},
	{"context", "closed loop, 64 connections: wrk, bombardier and vegeta, for context", (*bench).context},
	{"hedge", "a hedge armed on every call that never fires, against plain", (*bench).hedge},
	{"lateness", "lateness at 1,000, 5,000 and 20,000/s by kernel stamps at the server: loadgen against vegeta", (*bench).lateness},
	{"gc", "garbage collections of loadgen at 1,000/s and at 20,000/s", (*bench).gc},
	{"strace", "system calls of loadgen per request", (*bench).strace},
	{"memory", "peak memory of loadgen early and late in one run", (*bench).memory},
	{"target", "CPU per request of the target without faults: against nginx's return 200", (*bench).target},
	{"delay", "how much later than due an idle target answers, at 100/s and 1,000/s", (*bench).delay},
	{"delayed", "memory of the target for 10,000 calls that are delayed at once", (*bench).delayed},
	{"flat", "memory of the target over its first three million calls", (*bench).flat},
}

// bench is one invocation: its options, its tools and where its text goes.
type bench struct {
	tools tools
	quick bool
	long  bool
	pairs int // 0: each section's own number
	out   io.Writer
	// missed lists the bounds that the figures did not keep.
	missed []string
}

func main() {
	b := &bench{}
	var results string
	flag.BoolVar(&b.quick, "quick", false, "one-second runs and two pairs, to see that everything works: judges nothing and writes no file")
	flag.BoolVar(&b.long, "long", false, "the memory section runs for 20 minutes instead of 1")
	flag.IntVar(&b.pairs, "n", 0, "pairs per comparison; 0: 15, or 7 for lateness")
	flag.StringVar(&results, "results", "", "`directory` to keep the output in, one file a section; empty: none")
	flag.StringVar(&b.tools.dir, "tools", "", "`directory` with loadgen, lateness, vegeta and bombardier")
	flag.Usage = usage
	flag.Parse()

	chosen, err := choose(flag.Args())
	if err == nil && b.pairs < 0 {
		err = fmt.Errorf("-n %d, want 0 or more", b.pairs)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(2)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		running.killAll()
		os.Exit(130)
	}()
	for _, s := range chosen {
		if err := b.section(s, results); err != nil {
			running.killAll()
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", s.name, err)
			os.Exit(1)
		}
	}
	running.killAll()
	if len(b.missed) > 0 {
		fmt.Println("bounds missed:")
		for _, m := range b.missed {
			fmt.Println("  " + m)
		}
		os.Exit(4)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: scripts/bench-peers [options] [section ...]\n\nsections (default: all):")
	for _, s := range sections {
		fmt.Fprintf(os.Stderr, "  %-9s %s\n", s.name, s.about)
	}
	fmt.Fprintln(os.Stderr, "\noptions:")
	flag.PrintDefaults()
}

func choose(names []string) ([]section, error) {
	if len(names) == 0 {
		return sections, nil
	}
	var chosen []section
	for _, n := range names {
		i := slices.IndexFunc(sections, func(s section) bool { return s.name == n })
		if i < 0 {
			return nil, fmt.Errorf("no section %q, want some of closed, https, c10k, context, hedge, lateness, gc, strace, memory, target, delay, delayed, flat", n)
		}
		chosen = append(chosen, sections[i])
	}
	return chosen, nil
}

// section runs one section and keeps its text.
func (b *bench) section(s section, results string) (err error) {
	b.out = os.Stdout
	if results != "" && !b.quick {
		f, err := os.Create(filepath.Join(results, "bench-peers-"+s.name+".txt"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		b.out = io.MultiWriter(os.Stdout, f)
	}
	b.printf("# %s: %s\n", s.name, s.about)
	b.printf("# command: scripts/bench-peers %s\n", strings.Join(os.Args[argsAfterTools():], " "))
	b.printf("# %s\n", machine())
	began := time.Now()
	if err := s.run(b); err != nil {
		return err
	}
	b.printf("# took %s\n\n", time.Since(began).Round(time.Second))
	return nil
}

// argsAfterTools is where the person's own arguments begin: bench-peers puts
// -results DIR -tools DIR before them.
func argsAfterTools() int {
	if i := slices.Index(os.Args, "-tools"); i >= 0 && i+2 <= len(os.Args) {
		return i + 2
	}
	return 1
}

func (b *bench) printf(format string, args ...any) { fmt.Fprintf(b.out, format, args...) }

// hold prints whether a bound holds and remembers it when it does not. Quick
// runs are too short to judge.
func (b *bench) hold(ok bool, format string, args ...any) {
	claim := fmt.Sprintf(format, args...)
	switch {
	case b.quick:
		b.printf("not judged (quick): %s\n", claim)
	case ok:
		b.printf("holds: %s\n", claim)
	default:
		b.printf("MISSED: %s\n", claim)
		b.missed = append(b.missed, claim)
	}
}

// count returns the number of pairs of a comparison.
func (b *bench) count(normal int) int {
	switch {
	case b.pairs > 0:
		return b.pairs
	case b.quick:
		return 2
	}
	return normal
}

// span returns the length of a run.
func (b *bench) span(normal, quick time.Duration) time.Duration {
	if b.quick {
		return quick
	}
	return normal
}

// machine says in one line where and when the figures were taken.
func machine() string {
	return fmt.Sprintf("%s, %d cores, %s, Linux %s, %s, %s", time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		runtime.NumCPU(), cpuModel(), firstLine("/proc/sys/kernel/osrelease"), runtime.Version(), commit())
}

func firstLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return "unknown processor"
}
