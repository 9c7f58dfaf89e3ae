package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"latencylab/lab"
	"latencylab/units"
)

const labHelp = `usage: loadgen lab [NAME] [flags]

Runs a built-in experiment in virtual time, prints its table beside what it is
held against, and says which claims it bears out. Without NAME: the list.
Exit code 4 when a claim does not hold.

      --seed N          keys every draw (1)
  -n, --requests N      calls of each row (as many as the claims are made for)
      --format FORMAT   text (default) or json
  -o, --output FILE     write to FILE, as JSON unless --format says otherwise

examples:
  loadgen lab
  loadgen lab hedge
  loadgen lab hedge --seed 7 --format json
`

func runLab(a *app, args []string) error {
	var o output
	opts := lab.Options{Seed: 1}
	fs := flagSet("lab")
	scalar(fs, &opts.Seed, "seed", "", "N", seed)
	scalar(fs, &opts.Requests, "requests", "n", "N", positive(units.ParseCount))
	scalar(fs, &o.path, "output", "o", "FILE", file)
	scalar(fs, &o.format, "format", "", "FORMAT", oneOf("text", "json"))
	if err := a.parse(fs, labHelp, args); err != nil {
		return err
	}
	switch fs.NArg() {
	case 0:
		var list strings.Builder
		for _, l := range lab.All() {
			fmt.Fprintf(&list, "%-16s %s\n", l.Name, l.About)
		}
		return a.print(list.String())
	case 1:
	default:
		return usagef("lab takes one name, got %d arguments", fs.NArg())
	}
	l, err := lab.Find(fs.Arg(0))
	if err != nil {
		return usage(err)
	}
	if err := o.check(a, 1); err != nil {
		return err
	}
	interrupt, stop := a.interrupts()
	defer stop()
	opts.Interrupt = interrupt
	r, err := l.Run(opts)
	if errors.Is(err, lab.ErrInterrupted) {
		return &failure{exitInterrupted, err}
	}
	if err != nil {
		return err
	}
	r.Version, _ = a.identity()
	format := o.stdoutFormat()
	if o.toFile() {
		format = o.fileFormat()
	}
	var b bytes.Buffer
	if format == "json" {
		err = r.WriteJSON(&b)
	} else {
		err = r.WriteText(&b)
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
