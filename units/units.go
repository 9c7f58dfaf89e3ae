// Package units reads and writes the quantities of workload files and flags:
// durations (10ms), rates (5k/s), sizes (64KiB), shares (10%) and counts (10k).
//
// A quantity with a unit is never guessed: a bare number is an error that
// proposes what may have been meant. Decimal prefixes are k, M and G (1000),
// binary ones Ki, Mi and Gi (1024). The package does no I/O and keeps no state;
// all functions may be called from any goroutine.
package units

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// durationUnits lists the units of ParseDuration with their length in ns.
var durationUnits = []struct {
	name string
	ns   uint64
}{
	{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"μs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9},
}

// ParseDuration reads a duration of 0 or more: one or several decimal numbers
// with the units ns, us, µs, ms, s, m or h, such as 10ms, 1.5s or 1m30s.
// Fractions of a nanosecond are rounded half up. A number without a unit (0
// too), a sign, an unknown unit and more than 292 years are errors.
func ParseDuration(s string) (time.Duration, error) {
	if err := checkNumber(s, "a duration", "10s", "s"); err != nil {
		return 0, err
	}
	var sum uint64
	for rest := s; rest != ""; {
		num, after := splitNumber(rest)
		if num == "" {
			return 0, fmt.Errorf("%q is not a duration, want one such as 10s", s)
		}
		n := strings.IndexAny(after, "0123456789.")
		if n < 0 {
			n = len(after)
		}
		unit := after[:n]
		switch {
		case unit != "":
		case after != "":
			return 0, fmt.Errorf("%q is not a duration, want one such as 10s", s)
		default:
			return 0, fmt.Errorf("%q has no unit at its end, want a duration such as %s", s, s+"s")
		}
		ns, ok := lengthOf(unit)
		if !ok {
			return 0, fmt.Errorf("%q has the unknown unit %q, want ns, us, ms, s, m or h", s, unit)
		}
		v, _, err := scaled(num, ns, 1)
		if err == nil && v+sum > math.MaxInt64 {
			err = errLarge
		}
		if err != nil {
			return 0, fmt.Errorf("%q %w, want a duration such as 10s", s, err)
		}
		sum += v
		rest = after[n:]
	}
	return time.Duration(sum), nil
}

func lengthOf(unit string) (ns uint64, ok bool) {
	for _, u := range durationUnits {
		if u.name == unit {
			return u.ns, true
		}
	}
	return 0, false
}

// Rate is a number of events per time in millionths of an event per second:
// Rate(1e6) is 1/s. A valid rate lies between 1 (0.000001/s) and MaxRate; 0
// means that there is no rate.
type Rate int64

// MaxRate is the largest rate, one event a nanosecond.
const MaxRate Rate = 1e9 * 1e6

// ParseRate reads a rate above 0: a decimal number, perhaps with k, M or G, and
// /s, /min or /h, such as 5k/s, 1000/s, 60/min or 100/h. It is rounded half up
// to a millionth of an event per second.
func ParseRate(s string) (Rate, error) {
	if err := checkNumber(s, "a rate", "1000/s", "/s"); err != nil {
		return 0, err
	}
	num, unit := splitNumber(s)
	prefix, per, _ := strings.Cut(unit, "/")
	mul, ok := decimal(prefix)
	if !ok || !strings.Contains(unit, "/") {
		return 0, fmt.Errorf("%q has the unknown unit %q, want a rate such as %s/s", s, unit, num)
	}
	var div uint64
	switch per {
	case "s":
		div = 1
	case "min", "m":
		div = 60
	case "h":
		div = 3600
	default:
		return 0, fmt.Errorf("%q has the unknown unit %q, want /s, /min or /h", s, unit)
	}
	v, _, err := scaled(num, mul*1e6, div)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q %w, want a rate such as 1000/s", s, err)
	case strings.Trim(num, "0.") == "":
		return 0, fmt.Errorf("%q is zero, want a rate above 0 such as 1000/s", s)
	case v == 0:
		return 0, fmt.Errorf("%q is below the smallest rate, 0.000001/s", s)
	case v > uint64(MaxRate):
		return 0, fmt.Errorf("%q is above the largest rate, 1G/s", s)
	}
	return Rate(v), nil
}

// PerSecond returns the rate in events per second.
func (r Rate) PerSecond() float64 { return float64(r) / 1e6 }

// String returns the rate as ParseRate reads it, exactly: 2k/s, 1500/s,
// 0.027778/s. The zero Rate is "0/s", which ParseRate refuses.
func (r Rate) String() string {
	switch {
	case r != 0 && r%1e15 == 0:
		return strconv.FormatInt(int64(r/1e15), 10) + "G/s"
	case r != 0 && r%1e12 == 0:
		return strconv.FormatInt(int64(r/1e12), 10) + "M/s"
	case r != 0 && r%1e9 == 0:
		return strconv.FormatInt(int64(r/1e9), 10) + "k/s"
	}
	return shift(strconv.FormatInt(int64(r), 10), -6) + "/s"
}

// sizeUnits lists the units of sizes in bytes; the binary ones are used for
// output.
var sizeUnits = []struct {
	name  string
	bytes uint64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
}

// ParseSize reads a number of bytes of 0 or more, such as 64KiB, 1.5MB or 512B.
// It must come to whole bytes and fit an int64.
func ParseSize(s string) (int64, error) {
	if err := checkNumber(s, "a size", "64KiB", "B"); err != nil {
		return 0, err
	}
	num, unit := splitNumber(s)
	for _, u := range sizeUnits {
		if u.name != unit {
			continue
		}
		v, exact, err := scaled(num, u.bytes, 1)
		if err != nil {
			return 0, fmt.Errorf("%q %w, want a size such as 64KiB", s, err)
		}
		if !exact {
			return 0, fmt.Errorf("%q is not a whole number of bytes", s)
		}
		return int64(v), nil
	}
	return 0, fmt.Errorf("%q has the unknown unit %q, want B, kB, MB, GB, KiB, MiB or GiB", s, unit)
}

// minRatio bounds shares from below, so that their exact text stays short.
const minRatio = 1e-12

// ParseShare reads a share in [0, 1]: a percentage such as 10% or a fraction
// such as 0.1. A bare number above 1 is an error that proposes a percentage.
func ParseShare(s string) (float64, error) {
	f, err := ParseRatio(s)
	if err != nil {
		return 0, err
	}
	if f > 1 {
		return 0, fmt.Errorf("%q is above 100%%, want a share from 0%% to 100%%", s)
	}
	return f, nil
}

// ParseRatio reads a share that may pass 100%: a percentage such as 10% or
// 150%, or a fraction of at most 1 such as 0.1. 5% and 0.05 give the same
// float64. Above 0 the least ratio is 1e-12.
func ParseRatio(s string) (float64, error) {
	if err := checkNumber(s, "a share", "10%", ""); err != nil {
		return 0, err
	}
	num, unit := splitNumber(s)
	text := num
	switch unit {
	case "":
	case "%":
		text = shift(num, -2)
	default:
		return 0, fmt.Errorf("%q has the unknown unit %q, want a share such as 10%% or 0.1", s, unit)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f > 1e9 {
		return 0, fmt.Errorf("%q is too large, want a share such as 10%%", s)
	}
	if f != 0 && f < minRatio {
		return 0, fmt.Errorf("%q is too small, want a share such as 10%%", s)
	}
	if unit == "" && f > 1 {
		return 0, fmt.Errorf("%q has no unit, want a share such as %s%%", s, num)
	}
	return f, nil
}

// ParseCount reads a whole number of 0 or more, perhaps with k, M or G: 100,
// 10k, 1.5M.
func ParseCount(s string) (uint64, error) {
	if err := checkNumber(s, "a count", "100 or 10k", ""); err != nil {
		return 0, err
	}
	num, unit := splitNumber(s)
	mul, ok := decimal(unit)
	if !ok {
		return 0, fmt.Errorf("%q has the unknown unit %q, want a count such as 100 or 10k", s, unit)
	}
	v, exact, err := scaled(num, mul, 1)
	if err != nil {
		return 0, fmt.Errorf("%q %w, want a count such as 100 or 10k", s, err)
	}
	if !exact {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return v, nil
}

// decimal returns the factor of a decimal prefix; "" is 1.
func decimal(prefix string) (factor uint64, ok bool) {
	switch prefix {
	case "":
		return 1, true
	case "k":
		return 1e3, true
	case "M":
		return 1e6, true
	case "G":
		return 1e9, true
	}
	return 0, false
}

// checkNumber refuses what does not begin with a number, what is negative and,
// when unit is not empty, a number that has no unit at all.
func checkNumber(s, what, example, unit string) error {
	if len(s) > 64 {
		n := 40
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		return fmt.Errorf("%q… is too long, want %s such as %s", s[:n], what, example)
	}
	if s == "" {
		return fmt.Errorf("%q is empty, want %s such as %s", s, what, example)
	}
	if s[0] == '-' {
		if n, _ := splitNumber(s[1:]); n != "" {
			return fmt.Errorf("%q is negative, want %s such as %s", s, what, example)
		}
	}
	num, rest := splitNumber(s)
	if num == "" {
		return fmt.Errorf("%q is not %s, want one such as %s", s, what, example)
	}
	if rest == "" && unit == "/s" && strings.Trim(num, "0.") == "" {
		return fmt.Errorf("%q is zero, want %s above 0 such as %s", s, what, example)
	}
	if rest == "" && unit != "" {
		return fmt.Errorf("%q has no unit, want %s such as %s%s", s, what, num, unit)
	}
	return nil
}

// splitNumber cuts the leading decimal number off s. num is empty when s does
// not begin with one; a point needs a digit on each side.
func splitNumber(s string) (num, rest string) {
	i := digits(s)
	if i > 0 && i < len(s) && s[i] == '.' {
		if f := digits(s[i+1:]); f > 0 {
			i += 1 + f
		}
	}
	return s[:i], s[i:]
}

func digits(s string) int {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return i
}

type numberError string

func (e numberError) Error() string { return string(e) }

const (
	errLarge numberError = "is too large"
	errLong  numberError = "has too many digits"
)

// scaled returns num*mul/div rounded half up; exact says that nothing was
// rounded. num is a decimal number without sign; div is below 2^32. The result
// is at most MaxInt64.
func scaled(num string, mul, div uint64) (v uint64, exact bool, err error) {
	whole, frac, _ := strings.Cut(num, ".")
	frac = strings.TrimRight(frac, "0")
	whole = strings.TrimLeft(whole, "0")
	if len(frac) > 9 {
		return 0, false, errLong
	}
	if len(whole) > 19 {
		return 0, false, errLarge
	}
	for range frac {
		div *= 10
	}
	mantissa, err := strconv.ParseUint("0"+whole+frac, 10, 64)
	if err != nil {
		return 0, false, errLarge
	}
	hi, lo := bits.Mul64(mantissa, mul)
	if hi >= div {
		return 0, false, errLarge
	}
	q, rem := bits.Div64(hi, lo, div)
	if rem >= div-rem && q < math.MaxInt64 {
		q++
	}
	if q > math.MaxInt64 {
		return 0, false, errLarge
	}
	return q, rem == 0, nil
}

// shift moves the decimal point of a plain decimal number by n places, to the
// right when n is positive, and drops zeros that say nothing.
func shift(num string, n int) string {
	sign := ""
	if strings.HasPrefix(num, "-") {
		sign, num = "-", num[1:]
	}
	whole, frac, _ := strings.Cut(num, ".")
	for ; n > 0; n-- {
		if frac == "" {
			frac = "0"
		}
		whole, frac = whole+frac[:1], frac[1:]
	}
	for ; n < 0; n++ {
		if whole == "" {
			whole = "0"
		}
		whole, frac = whole[:len(whole)-1], whole[len(whole)-1:]+frac
	}
	whole = strings.TrimLeft(whole, "0")
	frac = strings.TrimRight(frac, "0")
	if whole == "" {
		whole = "0"
	}
	if frac != "" {
		frac = "." + frac
	}
	return sign + whole + frac
}
