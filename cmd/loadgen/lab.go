package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"latencylab/lab"
	"latencylab/units"
)

const labHelp = `usage: loadgen lab [NAME] [flags]

Runs a built-in experiment in virtual time, prints its table beside what it is
held against, and says which claims it bears out. Without NAME: the list.
Exit code 4 when a claim does not hold.

      --real            on sockets of this machine, beside what the simulator
                        predicts; labs without such a version say which have one
      --seed N          keys every draw (1; with --prng seed-js the published)
      --runs N          run it N times, each with seeds of its own from --seed
                        on, and show how the figures spread
  -n, --requests N      calls of each row (as many as the claims are made for)
      --prng WORD       keyed (default), or seed-js: the generator behind the
                        published figures of hedge and jitter
      --discipline WORD proportional, fifo, lifo or new-first, for retry-storm
      --export DIR      write the lab's workloads into DIR and run nothing
      --format FORMAT   text (default) or json
  -o, --output FILE     write to FILE, as JSON unless --format says otherwise

examples:
  loadgen lab hedge --runs 10
  loadgen lab nested-timeouts --real
  loadgen lab hedge --export . && loadgen sim ./hedge.yaml
`

func runLab(a *app, args []string) error {
	var o output
	var opts lab.Options
	var export string
	fs := flagSet("lab")
	fs.BoolVar(&opts.Real, "real", false, "")
	scalar(fs, &opts.Seed, "seed", "", "N", seed)
	scalar(fs, &opts.Runs, "runs", "", "N", atLeast1(1000))
	scalar(fs, &opts.Requests, "requests", "n", "N", positive(units.ParseCount))
	scalar(fs, &opts.PRNG, "prng", "", "WORD", oneOf(lab.Keyed, lab.SeedJS))
	scalar(fs, &opts.Discipline, "discipline", "", "WORD", text)
	scalar(fs, &export, "export", "", "DIR", file)
	scalar(fs, &o.path, "output", "o", "FILE", file)
	scalar(fs, &o.format, "format", "", "FORMAT", oneOf("text", "json"))
	if err := a.parse(fs, labHelp, args); err != nil {
		return err
	}
	switch fs.NArg() {
	case 0:
		return a.print(labList())
	case 1:
	default:
		return usagef("lab takes one name, got %d arguments", fs.NArg())
	}
	l, err := lab.Find(fs.Arg(0))
	if err != nil {
		return usage(err)
	}
	if !fs.Changed("seed") {
		opts.Seed = l.DefaultSeed(opts)
	}
	if err := l.Check(opts); err != nil {
		return usage(err)
	}
	if export != "" {
		return exportLab(a, l, opts, export)
	}
	if err := o.check(a, 1); err != nil {
		return err
	}
	interrupt, stop := a.interrupts()
	defer stop()
	opts.Interrupt = interrupt
	r, err := l.Run(opts)
	if errors.Is(err, lab.ErrInterrupted) {
		return &failure{exitInterrupted, lab.ErrInterrupted}
	}
	if err != nil {
		return err
	}
	r.Version, _ = a.identity()
	return writeLab(a, &o, r)
}

// labList is the list of the labs.
func labList() string {
	var b strings.Builder
	for _, l := range lab.All() {
		fmt.Fprintf(&b, "%-16s %s\n", l.Name, l.About)
	}
	return b.String()
}

// writeLab prints or writes the result, and ends with the code of its claims.
func writeLab(a *app, o *output, r *lab.Result) error {
	format := o.stdoutFormat()
	if o.toFile() {
		format = o.fileFormat()
	}
	var b bytes.Buffer
	err := r.WriteText(&b)
	if format == "json" {
		b.Reset()
		err = r.WriteJSON(&b)
	}
	if err != nil {
		return err
	}
	if err := o.deliver(a, b.Bytes()); err != nil {
		return err
	}
	if !r.OK() {
		return exit(exitMissed)
	}
	return nil
}

// exportLab writes the workloads of the lab into dir, which it makes, and says
// how to run them. It overwrites nothing.
func exportLab(a *app, l lab.Lab, opts lab.Options, dir string) error {
	files, err := l.Export(opts)
	if err != nil {
		return usage(err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	var said strings.Builder
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := writeNew(path, f.Data); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if !strings.ContainsRune(path, filepath.Separator) {
			path = "." + string(filepath.Separator) + path // a bare name is a built-in workload
		}
		fmt.Fprintf(&said, "loadgen sim %s\n", path)
	}
	return a.print(said.String())
}

// writeNew writes a file that must not exist.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
