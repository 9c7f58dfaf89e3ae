package histo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// LogWriter writes a histogram log (.hlog, format version 1.3) that the Java
// tools of HdrHistogram and hdrhistogram-go read. Each interval is written at
// once, so a log of a run that was cut short is good up to its last line.
type LogWriter struct {
	w       io.Writer
	line    []byte
	encoder Encoder
	header  bool
	start   time.Time
	about   string
}

// NewLogWriter returns a writer of a log whose intervals are counted from
// start. about is written as a comment in the header; "" leaves it out.
func NewLogWriter(w io.Writer, about string, start time.Time) *LogWriter {
	return &LogWriter{w: w, about: about, start: start}
}

// Write appends one interval: its tag ("" for none; NAME.OF by convention), its
// start after the log's start, its length and the values in it. Stamps are
// written in seconds and the maximum in ms. The first call writes the header.
func (l *LogWriter) Write(tag string, start, length time.Duration, h *Histogram) error {
	if strings.ContainsAny(tag, ", \t\r\n\"") {
		return fmt.Errorf("write histogram log: tag %q has a comma, quote or white space", tag)
	}
	if err := l.WriteHeader(); err != nil {
		return err
	}
	b := l.line[:0]
	if tag != "" {
		b = append(append(append(b, "Tag="...), tag...), ',')
	}
	b = appendFixed(b, start.Seconds(), 6, ',')
	b = appendFixed(b, length.Seconds(), 6, ',')
	b = appendFixed(b, float64(h.Max())/1e6, 3, ',')
	b = append(l.encoder.Append(b, h), '\n')
	l.line = b
	_, err := l.w.Write(b)
	return err
}

// WriteHeader writes the header lines unless they have been written.
func (l *LogWriter) WriteHeader() error {
	if l.header {
		return nil
	}
	l.header = true
	var b []byte
	if l.about != "" {
		b = fmt.Appendf(b, "#[%s]\n", strings.NewReplacer("\n", " ", "\r", " ").Replace(l.about))
	}
	seconds := float64(l.start.UnixMilli()) / 1e3
	b = fmt.Appendf(b, "#[Histogram log format version 1.3]\n")
	b = fmt.Appendf(b, "#[StartTime: %.3f (seconds since epoch), %s]\n", seconds, l.start.UTC().Format(time.RFC3339))
	b = fmt.Appendf(b, "#[BaseTime: %.3f (seconds since epoch)]\n", seconds)
	b = append(b, "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"...)
	_, err := l.w.Write(b)
	return err
}

func appendFixed(b []byte, x float64, decimals int, end byte) []byte {
	return append(strconv.AppendFloat(b, x, 'f', decimals, 64), end)
}

// Interval is one line of a histogram log.
type Interval struct {
	Tag string // "" when the line has none
	// Start is the stamp in seconds as it stands in the log; it counts from the
	// log's BaseTime, or is absolute.
	Start  float64
	Length float64 // in seconds
	// Max is the largest value in the log's own unit (ms by convention).
	Max    float64
	Values *Histogram
}

// maxLine bounds a line of a log in bytes: above the encoding of any histogram
// that can be decoded.
const maxLine = 16 << 20

// LogReader reads a histogram log, its own or a foreign one (format 1.1 to 1.3
// with V2 histograms in ns). Comments, the legend and blank lines are skipped.
type LogReader struct {
	// StartTime is the log's own start in seconds since 1970, once the line
	// that tells it has been read; 0 when there was none.
	StartTime float64

	s    *bufio.Scanner
	name string
	n    int
	err  error
}

// NewLogReader returns a reader; name stands for the log in errors.
func NewLogReader(r io.Reader, name string) *LogReader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	return &LogReader{s: s, name: name}
}

// Next returns the next interval, or io.EOF after the last. A line that cannot
// be read, such as one that was cut off, is an error that names it; Next then
// returns the same error again.
func (l *LogReader) Next() (Interval, error) {
	for l.err == nil && l.s.Scan() {
		l.n++
		line := strings.TrimSpace(l.s.Text())
		switch {
		case line == "" || line[0] == '"':
			continue
		case line[0] == '#':
			if err := l.comment(line); err != nil {
				l.err = fmt.Errorf("read histogram log: %s:%d: %w", l.name, l.n, err)
			}
			continue
		}
		iv, err := parseInterval(line)
		if err != nil {
			at := l.n
			if short := (cutError{}); errors.As(err, &short) && !l.s.Scan() {
				err = fmt.Errorf("%w (is the log cut off?)", err)
			}
			l.err = fmt.Errorf("read histogram log: %s:%d: %w", l.name, at, err)
			break
		}
		return iv, nil
	}
	if l.err == nil {
		l.err = io.EOF
		switch err := l.s.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			l.err = fmt.Errorf("read histogram log: %s:%d: line is longer than %d bytes", l.name, l.n+1, maxLine)
		case err != nil:
			l.err = fmt.Errorf("read histogram log: %s:%d: %w", l.name, l.n+1, err)
		}
	}
	return Interval{}, l.err
}

// cutError is an error that a line cut short may be the cause of.
type cutError struct{ error }

func (e cutError) Unwrap() error { return e.error }

// comment reads what a line of the header says.
func (l *LogReader) comment(line string) error {
	if rest, ok := strings.CutPrefix(line, "#[Histogram log format version "); ok {
		version := strings.TrimSuffix(rest, "]")
		if major, _, _ := strings.Cut(version, "."); major != "1" {
			return fmt.Errorf("log format version %q, want 1.0 to 1.3", clip(version))
		}
	}
	if rest, ok := strings.CutPrefix(line, "#[StartTime: "); ok {
		number, _, _ := strings.Cut(rest, " ")
		if x, err := strconv.ParseFloat(number, 64); err == nil && finite(x) {
			l.StartTime = x
		}
	}
	return nil
}

func parseInterval(line string) (iv Interval, err error) {
	if rest, ok := strings.CutPrefix(line, "Tag="); ok {
		iv.Tag, line, ok = strings.Cut(rest, ",")
		if !ok {
			return iv, cutError{fmt.Errorf("no comma after tag %q", clip(iv.Tag))}
		}
	}
	fields := strings.Split(line, ",")
	if len(fields) != 4 {
		return iv, cutError{fmt.Errorf("%d fields, want start, length, maximum and histogram", len(fields))}
	}
	for i, to := range []*float64{&iv.Start, &iv.Length, &iv.Max} {
		if *to, err = strconv.ParseFloat(strings.TrimSpace(fields[i]), 64); err != nil || !finite(*to) {
			return iv, fmt.Errorf("field %d = %q, want a number", i+1, clip(fields[i]))
		}
	}
	if iv.Values, err = Decode(strings.TrimSpace(fields[3])); err != nil {
		return iv, cutError{err}
	}
	return iv, nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// clip shortens user text for an error.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
