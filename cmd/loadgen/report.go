package main

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"latencylab/results"
)

const reportHelp = `usage: loadgen report RUN.json [flags]
       loadgen report LOG.hlog

Renders a saved result. Percentiles are computed from its histograms. Of a
histogram log, also one of other tools, it prints the totals of each tag.

      --format FORMAT   text (default), json, csv, hgrm or hlog
      --policy NAME     hgrm: of this policy; needed when there are several
      --of FIGURE       hgrm: response (default), ok, failed, censored, first,
                        retry, hedge, service, lag, pool_wait, read_delay,
                        connect, first_byte or body
  -o, --output FILE     write to FILE instead of standard output

examples:
  loadgen report run.json
  loadgen report run.json --format hgrm --policy plain --of response
  loadgen report run.hlog
`

func runReport(a *app, args []string) error {
	var o output
	var sel results.Options
	fs := flagSet("report")
	o.register(fs)
	scalar(fs, &sel.Policy, "policy", "", "NAME", text)
	scalar(fs, &sel.Of, "of", "", "FIGURE", text)
	if err := a.parse(fs, reportHelp, args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return usagef("report takes one file, got %d arguments", fs.NArg())
	}
	path := fs.Arg(0)
	var b bytes.Buffer
	if strings.HasSuffix(path, ".hlog") {
		if fs.Changed("policy") || fs.Changed("of") {
			return usagef("a histogram log has totals only, want no --policy and no --of")
		}
		format := o.stdoutFormat()
		if o.toFile() {
			format = o.fileFormat()
		}
		if format != "text" && format != "json" {
			return usagef("--format %s of a histogram log, want text or json", format)
		}
		t, err := readLog(path)
		if err != nil {
			return usage(err)
		}
		if err := t.write(&b, format); err != nil {
			return err
		}
		return o.deliver(a, b.Bytes())
	}
	format := o.stdoutFormat()
	if o.toFile() {
		format = o.fileFormat()
	}
	if format != "hgrm" && (fs.Changed("policy") || fs.Changed("of")) {
		return usagef("--policy and --of choose what --format hgrm shows, and the format is %s", format)
	}
	r, err := results.Read(path)
	if err != nil {
		return usage(err)
	}
	if err := results.Write(&b, r, format, sel); err != nil {
		if errors.Is(err, results.ErrSelect) {
			return usage(err)
		}
		return err
	}
	return o.deliver(a, b.Bytes())
}

// deliver writes what was rendered to the file or to standard output; when the
// file cannot be written, to standard output all the same.
func (o *output) deliver(a *app, b []byte) error {
	if !o.toFile() {
		return a.print(string(b))
	}
	err := results.WriteFile(o.path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	if err != nil {
		a.stdout.Write(b)
	}
	return err
}
