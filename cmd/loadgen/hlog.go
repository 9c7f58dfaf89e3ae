package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"latencylab/histo"
	"latencylab/units"
)

// logTotals is what a histogram log holds, tag by tag.
type logTotals struct {
	File      string      `json:"file"`
	StartTime *float64    `json:"start_time_s"` // seconds since 1970; null when the log does not say
	Intervals int         `json:"intervals"`
	Tags      []*tagTotal `json:"tags"` // in order of appearance
}

// tagTotal is the sum of all intervals of one tag. Its figures are null when it
// holds no value.
type tagTotal struct {
	Tag       string `json:"tag"`
	Intervals int    `json:"intervals"`
	Count     uint64 `json:"count"`
	Min       *int64 `json:"min_ns"`
	P50       *int64 `json:"p50_ns"`
	P99       *int64 `json:"p99_ns"`
	P999      *int64 `json:"p999_ns"`
	P9999     *int64 `json:"p9999_ns"`
	Max       *int64 `json:"max_ns"`

	all *histo.Histogram
}

// readLog reads a whole histogram log, of ours or of another tool.
func readLog(path string) (*logTotals, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read histogram log: %s: %w", path, bare(err))
	}
	defer f.Close()
	log := histo.NewLogReader(f, path)
	t := &logTotals{File: path}
	for {
		iv, err := log.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		t.Intervals++
		g := t.of(iv.Tag)
		g.Intervals++
		g.all.Merge(iv.Values)
	}
	if t.Intervals == 0 {
		return nil, fmt.Errorf("read histogram log: %s holds no interval", path)
	}
	if log.StartTime != 0 {
		t.StartTime = &log.StartTime
	}
	for _, g := range t.Tags {
		g.sum()
	}
	return t, nil
}

// of returns the total of a tag, a new one at the end when there is none.
func (t *logTotals) of(tag string) *tagTotal {
	for _, g := range t.Tags {
		if g.Tag == tag {
			return g
		}
	}
	g := &tagTotal{Tag: tag, all: histo.New()}
	t.Tags = append(t.Tags, g)
	return g
}

func (g *tagTotal) sum() {
	h := g.all
	g.Count = h.Count()
	if g.Count == 0 {
		return
	}
	at := func(ns int64) *int64 { return &ns }
	g.Min, g.Max = at(h.Min()), at(h.Max())
	g.P50, g.P99, g.P999, g.P9999 = at(h.Quantile(0.5)), at(h.Quantile(0.99)), at(h.Quantile(0.999)), at(h.Quantile(0.9999))
}

// write renders the totals as text or json.
func (t *logTotals) write(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(t)
	}
	fmt.Fprintf(w, "%s: %d intervals", units.Plain(t.File), t.Intervals)
	if t.StartTime != nil {
		fmt.Fprintf(w, ", start time %s s since 1970", strconv.FormatFloat(*t.StartTime, 'f', 3, 64))
	}
	fmt.Fprintf(w, "; values in ms\n\n%-24s %9s %10s %14s %14s %14s %14s\n", "tag", "intervals", "count", "p50", "p99", "p99.9", "max")
	for _, g := range t.Tags {
		name := units.Plain(g.Tag)
		if name == "" {
			name = "(none)"
		}
		fmt.Fprintf(w, "%-24s %9d %10d %14s %14s %14s %14s\n", name, g.Intervals, g.Count, msCell(g.P50), msCell(g.P99), msCell(g.P999), msCell(g.Max))
	}
	return nil
}

// msCell prints nanoseconds as milliseconds, exactly.
func msCell(ns *int64) string {
	if ns == nil {
		return "n/a"
	}
	return fmt.Sprintf("%d.%06d", *ns/1e6, *ns%1e6)
}
