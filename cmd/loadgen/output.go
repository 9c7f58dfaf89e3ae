package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"latencylab/results"
)

// output is where a result goes and how it is written.
type output struct {
	path   string // "": standard output alone; "-": standard output
	format string // "": as the path's ending says; text on standard output
}

func (o *output) register(fs *pflag.FlagSet) {
	scalar(fs, &o.path, "output", "o", "FILE", file)
	scalar(fs, &o.format, "format", "", "FORMAT", oneOf(results.Formats...))
}

// file takes any text but "".
func file(s string) (string, error) {
	if s == "" {
		return "", errors.New("is empty, want a file's name, or - for standard output")
	}
	return s, nil
}

// toFile says whether a file is written beside standard output.
func (o *output) toFile() bool { return o.path != "" && o.path != "-" }

// fileFormat is the format of the file: what --format says, else what the
// path's ending says, else JSON.
func (o *output) fileFormat() string {
	if o.format != "" {
		return o.format
	}
	if ext := strings.TrimPrefix(filepath.Ext(o.path), "."); slices.Contains(results.Formats, ext) {
		return ext
	}
	if filepath.Ext(o.path) == ".txt" {
		return "text"
	}
	return "json"
}

// stdoutFormat is the format of standard output.
func (o *output) stdoutFormat() string {
	switch {
	case o.toFile() || o.format == "" && o.path == "":
		return "text"
	case o.format == "":
		return "json"
	}
	return o.format
}

// formats are all that write must be able to do.
func (o *output) formats() []string {
	if o.toFile() {
		return []string{o.stdoutFormat(), o.fileFormat()}
	}
	return []string{o.stdoutFormat()}
}

// check finds out before anything is measured that the file cannot be written,
// or that a run of so many policies has no such format.
func (o *output) check(a *app, policies int) error {
	if policies > 1 && slices.Contains(o.formats(), "hgrm") {
		return usagef("--format hgrm shows one policy, and there are %d: save JSON and use loadgen report --policy NAME", policies)
	}
	if !o.toFile() {
		if a.lostOutput() {
			return fmt.Errorf("write to standard output: %w; nothing was measured", errClosed)
		}
		return nil
	}
	if err := writable(o.path); err != nil {
		return fmt.Errorf("write %s: %w; nothing was measured", o.path, bare(err))
	}
	return nil
}

// writable tries what writing a file would need, without changing it.
func writable(path string) error {
	path, err := results.FinalPath(path)
	if err != nil {
		return err
	}
	st, err := os.Stat(path)
	switch {
	case err == nil && st.IsDir():
		return errors.New("is a directory")
	case err == nil && !st.Mode().IsRegular():
		return nil // opening a pipe or device may block or act
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".loadgen-*")
	if err != nil {
		return err
	}
	f.Close()
	os.Remove(f.Name())
	return nil
}

// bare strips the path that an error of package os repeats.
func bare(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}

// write puts the result on standard output and into the file. All that can be
// written is written; the error is the first one.
func (o *output) write(a *app, r *results.Run) error {
	// A format is rendered in full before any of it is shown.
	show := func(w io.Writer, format string) error {
		var b bytes.Buffer
		if err := results.Write(&b, r, format, results.Options{}); err != nil {
			return err
		}
		_, err := w.Write(b.Bytes())
		return err
	}
	var first error
	if !o.toFile() || !a.lostOutput() {
		first = show(a.stdout, o.stdoutFormat())
	}
	if first != nil {
		first = fmt.Errorf("write the result to standard output: %w", bare(first))
	}
	if o.toFile() {
		format := o.fileFormat()
		err := results.WriteFile(o.path, func(w io.Writer) error { return show(w, format) })
		if err != nil && first == nil {
			first = err
		}
	}
	return first
}

// logPath is the file of the interval histograms that accompanies a saved Run:
// its path without .json, with .hlog. ok is false when there is none.
func (o *output) logPath() (path string, ok bool) {
	if !o.toFile() || o.fileFormat() != "json" {
		return "", false
	}
	if st, err := os.Stat(o.path); err == nil && !st.Mode().IsRegular() {
		return "", false
	}
	return strings.TrimSuffix(o.path, ".json") + ".hlog", true
}

// logFile is the interval log while a run is under way. It fills a file of its
// own name with ".part" that takes the place of an older log only together with
// the Run that it belongs to. Its first error is kept and ends the writing. A
// nil logFile is one that is not wanted.
type logFile struct {
	path string // as the user is told
	part string // what is written
	to   string // the name that part gets at the end; "" when part is it
	f    *os.File
	err  error
}

// openLog creates the interval log, if there is to be one.
func (o *output) openLog() (*logFile, error) {
	path, ok := o.logPath()
	if !ok {
		return nil, nil
	}
	l := &logFile{path: path}
	to, err := results.FinalPath(path)
	if err == nil {
		l.part, l.to = to+".part", to
		if st, statErr := os.Stat(to); statErr == nil && !st.Mode().IsRegular() {
			l.part, l.to = to, ""
		}
		l.f, err = os.Create(l.part)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w; nothing was measured", path, bare(err))
	}
	return l, nil
}

func (l *logFile) Write(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.f.Write(p)
	l.err = err
	return n, err
}

// drop removes the log of a run of which nothing was measured.
func (l *logFile) drop() {
	if l == nil {
		return
	}
	l.f.Close()
	if l.to != "" {
		os.Remove(l.part)
	}
}

// keep ends the log. written is how writing its Run went: when that failed, the
// log keeps the name that tells it from a log with a Run. It returns the first
// error of all.
func (l *logFile) keep(written error) error {
	if l == nil {
		return written
	}
	err := l.f.Close()
	if l.err != nil {
		err = l.err
	}
	if written != nil {
		if l.to != "" {
			return fmt.Errorf("%w; the intervals are in %s.part", written, l.path)
		}
		return written
	}
	if l.to != "" {
		if moved := os.Rename(l.part, l.to); err == nil {
			err = moved
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", l.path, bare(err))
	}
	return nil
}
