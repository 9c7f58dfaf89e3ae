package service

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"latencylab/units"
)

const (
	maxDepth  = 8    // nested mixtures
	maxValues = 1e6  // of an empirical distribution
	maxNumber = 1e6  // sigma, alpha, shape
	minNumber = 1e-6 // alpha, shape: below, no finite draw is left
	distForms = "want constant(T), uniform(FROM,TO), normal(MEAN,SD), lognormal(MEDIAN,SIGMA), exponential(MEAN), pareto(MIN,ALPHA), weibull(SCALE,SHAPE), mixture(SHARE:DIST,…), empirical(T,…) or (@FILE), sequence(T,…) or (@FILE), hdr(@FILE) or hdr(@FILE,TAG)"
)

// ParseDist reads a distribution:
//
//	constant(5ms), or 5ms alone
//	uniform(20ms,60ms)           from, to
//	normal(40ms,10ms)            mean, standard deviation; what is below 0 counts as 0
//	lognormal(40ms,0.5)          median, standard deviation of the logarithm
//	exponential(10ms)            mean
//	pareto(10ms,1.5)             smallest value, exponent
//	weibull(40ms,0.7)            scale, shape
//	mixture(98%:uniform(20ms,60ms),2%:1s)   shares that add up to 100 %
//	empirical(1ms,2ms,5ms)       each value equally likely
//	sequence(1ms,2ms,5ms)        in this order: call i takes value i, and so round
//	hdr(HISTFAAA…)               an HDR histogram of ns, in the compressed V2 encoding
//
// Blanks around an argument are allowed. An error names the argument.
func ParseDist(s string) (Dist, error) { return ParseDistFrom(s, nil) }

// ParseDistFrom is ParseDist of a text that may also name files, which read
// returns whole:
//
//	empirical(@FILE)             the values of a list, each equally likely
//	sequence(@FILE)              the values of a list, in its order
//	hdr(@FILE)                   a histogram log (.hlog), all its intervals together
//	hdr(@FILE,TAG)               those intervals of it that have the tag
//
// A list has one duration a line; blank lines and what follows a # are not read.
// The Dist holds what the files say: [Dist.String] names no file.
func ParseDistFrom(s string, read ReadFile) (Dist, error) {
	d, err := read.parse(strings.TrimSpace(s), 0)
	if err != nil {
		return Dist{}, fmt.Errorf("%q: %w", clip(s), err)
	}
	return d, nil
}

// clip shortens a long text for an error.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func (read ReadFile) parse(s string, depth int) (Dist, error) {
	open := strings.IndexByte(s, '(')
	if open < 0 {
		if s == "" {
			return Dist{}, errors.New("empty, " + distForms)
		}
		if slices.Contains(kindNames[:], s) {
			return Dist{}, fmt.Errorf("%s has no arguments, %s", s, distForms)
		}
		if s[0] < '0' || s[0] > '9' {
			return Dist{}, fmt.Errorf("unknown distribution %q, %s", s, distForms)
		}
		t, err := units.ParseDuration(s)
		return Dist{a: t}, err
	}
	k := slices.Index(kindNames[:], s[:open])
	if k < 0 {
		return Dist{}, fmt.Errorf("unknown distribution %q, %s", s[:open], distForms)
	}
	args, err := arguments(s[open:])
	if err != nil {
		return Dist{}, fmt.Errorf("%s: %w", s[:open], err)
	}
	d := Dist{kind: kind(k)}
	switch d.kind {
	case mixture:
		err = d.parseMixture(args, depth, read)
	case empirical, sequence:
		err = d.parseValues(args, read)
	case hdr:
		err = d.parseHDR(args, read)
	default:
		err = d.parseArgs(args)
	}
	if err != nil {
		return Dist{}, fmt.Errorf("%s: %w", s[:open], err)
	}
	return d, nil
}

// arguments splits "(a,b(c,d))" at the commas of its outer parentheses.
func arguments(s string) (args []string, err error) {
	depth, from := 0, 1
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ',':
			if depth == 1 {
				args = append(args, strings.TrimSpace(s[from:i]))
				from = i + 1
			}
		case ')':
			depth--
			if depth == 0 && i != len(s)-1 {
				return nil, fmt.Errorf("%q after the last parenthesis", s[i+1:])
			}
		}
	}
	if depth != 0 || s[len(s)-1] != ')' {
		return nil, errors.New("a parenthesis is not closed")
	}
	return append(args, strings.TrimSpace(s[from:len(s)-1])), nil
}

// shapes lists what the two arguments of each simple kind are called.
var shapes = [kinds][]string{
	constant:    {"time"},
	uniform:     {"from", "to"},
	normal:      {"mean", "standard deviation"},
	lognormal:   {"median", "sigma"},
	exponential: {"mean"},
	pareto:      {"smallest value", "alpha"},
	weibull:     {"scale", "shape"},
}

func (d *Dist) parseArgs(args []string) error {
	names := shapes[d.kind]
	if len(args) != len(names) {
		return fmt.Errorf("%d arguments, want %d: %s", len(args), len(names), strings.Join(names, ", "))
	}
	for i, arg := range args {
		var err error
		switch {
		case i == 0:
			d.a, err = units.ParseDuration(arg)
		case d.kind == uniform || d.kind == normal:
			d.b, err = units.ParseDuration(arg)
		default:
			d.x, err = parseNumber(arg)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
	}
	switch d.kind {
	case uniform:
		if d.b < d.a {
			return fmt.Errorf("to = %s is below from = %s", args[1], args[0])
		}
	case lognormal, exponential, pareto, weibull:
		if d.a == 0 {
			return fmt.Errorf("%s = %s, want more than 0", names[0], args[0])
		}
	}
	if (d.kind == pareto || d.kind == weibull) && d.x < minNumber {
		return fmt.Errorf("%s = %s, want %v or more", names[1], args[1], minNumber)
	}
	return nil
}

func parseNumber(s string) (float64, error) {
	if strings.Trim(s, "0123456789.e-+") != "" {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if !(x >= 0 && x <= maxNumber) {
		return 0, fmt.Errorf("%q is outside 0 to %v", s, maxNumber)
	}
	return math.Abs(x), nil // -0 is 0
}

func (d *Dist) parseMixture(args []string, depth int, read ReadFile) error {
	if depth >= maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	l, sum := &list{parts: make([]part, len(args))}, 0.0
	for i, arg := range args {
		share, rest, ok := strings.Cut(arg, ":")
		if !ok {
			return fmt.Errorf("part %d: %q has no share, want SHARE:DISTRIBUTION such as 98%%:5ms", i+1, arg)
		}
		p := &l.parts[i]
		var err error
		if p.share, err = units.ParseShare(strings.TrimSpace(share)); err != nil {
			return fmt.Errorf("part %d: share: %w", i+1, err)
		}
		if p.share == 0 {
			return fmt.Errorf("part %d: share = %s, want more than 0", i+1, share)
		}
		if p.dist, err = read.parse(strings.TrimSpace(rest), depth+1); err != nil {
			return fmt.Errorf("part %d: %w", i+1, err)
		}
		sum += p.share
		p.below = sum
	}
	if math.Abs(sum-1) > slack {
		return fmt.Errorf("the shares add up to %s, want 100%%", units.FormatShare(sum))
	}
	l.parts[len(args)-1].below = 1
	d.list = l
	return nil
}

// parseValues reads values, or the file that holds them.
func (d *Dist) parseValues(args []string, read ReadFile) (err error) {
	l := &list{}
	if name, ok := fileNamed(args[0]); ok {
		if len(args) > 1 {
			return fmt.Errorf("%d arguments, want @FILE alone", len(args))
		}
		if l.values, err = read.list(name); err != nil {
			return err
		}
	} else if l.values, err = parseList(args); err != nil {
		return err
	}
	if d.kind == empirical {
		slices.Sort(l.values)
	}
	d.list = l
	return nil
}

func parseList(args []string) ([]time.Duration, error) {
	if len(args) > maxValues {
		return nil, fmt.Errorf("%d values, want at most %d", len(args), int(maxValues))
	}
	values := make([]time.Duration, len(args))
	for i, arg := range args {
		var err error
		if values[i], err = units.ParseDuration(arg); err != nil {
			return nil, fmt.Errorf("value %d: %w", i+1, err)
		}
	}
	return values, nil
}

// String returns the distribution as ParseDist reads it, exactly and without
// any file; the values of an empirical one in ascending order.
func (d Dist) String() string {
	if d.kind >= kinds {
		return "unknown"
	}
	var b strings.Builder
	d.write(&b)
	return b.String()
}

func (d *Dist) write(b *strings.Builder) {
	b.WriteString(kindNames[d.kind])
	b.WriteByte('(')
	switch d.kind {
	case constant, exponential:
		b.WriteString(units.FormatDuration(d.a))
	case uniform, normal:
		b.WriteString(units.FormatDuration(d.a) + "," + units.FormatDuration(d.b))
	case lognormal, pareto, weibull:
		b.WriteString(units.FormatDuration(d.a) + "," + strconv.FormatFloat(d.x, 'g', -1, 64))
	case mixture:
		for i, p := range d.list.parts {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(units.FormatShare(p.share) + ":")
			p.dist.write(b)
		}
	case hdr:
		b.WriteString(d.list.code)
	case empirical, sequence:
		for i, v := range d.list.values {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(units.FormatDuration(v))
		}
	}
	b.WriteByte(')')
}
