package service

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"latencylab/histo"
	"latencylab/units"
)

// Bounds of what a distribution takes from a file. A service holds all of it,
// also where it is stored in a result.
const (
	maxListFile = 4 << 20  // bytes of a list
	maxListed   = 50_000   // values of a list
	maxLogFile  = 64 << 20 // bytes of a histogram log
	maxTags     = 8        // told in an error
)

// ReadFile returns the content of a file that a distribution names, of at most
// so many bytes. nil reads none.
type ReadFile func(name string, most int) ([]byte, error)

func (read ReadFile) open(name string, most int) ([]byte, error) {
	if read == nil {
		return nil, fmt.Errorf("@%s: a file can only be named where files are read", name)
	}
	return read(name, most)
}

// fileNamed returns the name in "@NAME".
func fileNamed(arg string) (name string, ok bool) {
	name, ok = strings.CutPrefix(arg, "@")
	return strings.TrimSpace(name), ok
}

// list returns the durations in a file, one a line.
func (read ReadFile) list(name string) (values []time.Duration, err error) {
	data, err := read.open(name, maxListFile)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(data), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		v, err := units.ParseDuration(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		if len(values) == maxListed {
			return nil, fmt.Errorf("%s:%d: more than %d values; where their order does not count, hdr of a histogram log holds any number", name, i+1, maxListed)
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("%s: no value, want one duration a line", name)
	}
	return values, nil
}

// step is one bucket of a histogram.
type step struct {
	below    float64 // values in the buckets before
	n        float64 // values in this one, above 0
	from, to float64 // its bounds in ns; to itself does not belong to it
}

// parseHDR reads an encoded histogram, or a log of histograms and a tag.
func (d *Dist) parseHDR(args []string, read ReadFile) error {
	var h *histo.Histogram
	var err error
	name, file := fileNamed(args[0])
	switch {
	case file && len(args) > 2:
		return fmt.Errorf("%d arguments, want @FILE, or @FILE and a tag", len(args))
	case file:
		h, err = read.log(name, args[1:])
	case len(args) > 1 || !strings.HasPrefix(args[0], "HISTF"):
		return errors.New("want @FILE, @FILE and a tag, or an encoded histogram, which begins with HISTF")
	default:
		if h, err = histo.Decode(args[0]); err == nil && h.Count() == 0 {
			err = errors.New("the histogram holds no value")
		}
	}
	switch {
	case err != nil:
		return err
	case h.Over() > 0:
		return fmt.Errorf("values above %s, the largest that is told apart", units.FormatDuration(time.Duration(histo.Highest)))
	}
	d.list = listOf(h)
	return nil
}

// log returns the values of all intervals of a histogram log that have the tag;
// without a tag those of the log, which may then have one at most.
func (read ReadFile) log(name string, tag []string) (*histo.Histogram, error) {
	data, err := read.open(name, maxLogFile)
	if err != nil {
		return nil, err
	}
	var tags []string
	sum, r := histo.New(), histo.NewLogReader(bytes.NewReader(data), name)
	for {
		iv, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if iv.Values.Count() == 0 {
			continue
		}
		if !slices.Contains(tags, iv.Tag) && len(tags) <= maxTags {
			tags = append(tags, iv.Tag)
		}
		if len(tag) == 0 || iv.Tag == tag[0] {
			sum.Merge(iv.Values)
		}
	}
	switch {
	case len(tags) == 0:
		return nil, fmt.Errorf("%s holds no value", name)
	case len(tag) == 0 && len(tags) > 1:
		return nil, fmt.Errorf("%s has %s; want one of them, as in hdr(@%s,%s)", name, tagWords(tags), name, tags[1])
	case sum.Count() == 0:
		return nil, fmt.Errorf("%s has no values with the tag %q, but %s", name, clip(tag[0]), tagWords(tags))
	}
	return sum, nil
}

// tagWords lists tags for an error.
func tagWords(tags []string) string {
	tags = slices.Clone(tags)
	for i, t := range tags {
		if tags[i] = clip(t); t == "" {
			tags[i] = "intervals without a tag"
		}
	}
	if len(tags) > maxTags {
		tags[maxTags] = "…"
	}
	return "tags " + strings.Join(tags, ", ")
}

// listOf returns the steps of a histogram that holds values.
func listOf(h *histo.Histogram) *list {
	l, below := &list{code: h.Encode()}, 0.0
	h.Each(func(from, to int64, n uint64) {
		l.steps = append(l.steps, step{below: below, n: float64(n), from: float64(from), to: float64(to) + 1})
		below += float64(n)
	})
	return l
}

// at returns the value below which a part u of the histogram lies.
func (l *list) at(u float64) time.Duration {
	last := l.steps[len(l.steps)-1]
	x := float64(u * (last.below + last.n))
	i := sort.Search(len(l.steps), func(i int) bool { return l.steps[i].below > x }) - 1
	s := &l.steps[max(i, 0)]
	part := min((x-s.below)/s.n, 1)
	return nanoseconds(math.Min(s.from+float64(part*(s.to-s.from)), s.to-1))
}

// mean returns the expectation of at in ns.
func (l *list) mean() (ns float64) {
	last := l.steps[len(l.steps)-1]
	for _, s := range l.steps {
		ns += float64(s.n / (last.below + last.n) * (s.from + s.to - 1) / 2)
	}
	return ns
}
