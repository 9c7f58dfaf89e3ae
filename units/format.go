package units

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// FormatDuration returns d as ParseDuration reads it, exactly and shortly:
// 58ms, 1m30s, 1h. A negative d, which ParseDuration refuses, keeps its sign.
func FormatDuration(d time.Duration) string {
	s := d.String()
	// time.Duration writes 1h as 1h0m0s and 90m as 1h30m0s.
	if n := len(s); n > 2 && s[n-2:] == "0s" && s[n-3] == 'm' {
		s = s[:n-2]
		if n := len(s); n > 2 && s[n-2:] == "0m" && s[n-3] == 'h' {
			s = s[:n-2]
		}
	}
	return s
}

// FormatSize returns n bytes as ParseSize reads it, exactly: 64KiB, 1000B.
func FormatSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= int64(u.bytes) && n%int64(u.bytes) == 0 {
			return strconv.FormatInt(n/int64(u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// FormatShare returns f as a percentage that ParseShare and ParseRatio read
// back to the same float64: 0.1 is 10%. f is 0, or from 1e-12 to 1e9.
func FormatShare(f float64) string {
	return shift(strconv.FormatFloat(f, 'f', -1, 64), 2) + "%"
}

// FormatCount returns n as ParseCount reads it, exactly: 100, 1500, 10k, 1M.
func FormatCount(n uint64) string {
	for _, u := range []struct {
		name string
		n    uint64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if n >= u.n && n%u.n == 0 {
			return strconv.FormatUint(n/u.n, 10) + u.name
		}
	}
	return strconv.FormatUint(n, 10)
}

// Percentile returns the quantile q in (0, 1) in percent without a sign, such
// as 99.9 for 0.999; ParsePercentile reads it back to the same float64.
func Percentile(q float64) string {
	return shift(strconv.FormatFloat(q, 'f', -1, 64), 2)
}

// ParsePercentile reads a percentile above 0 and below 100, such as 99.9, and
// returns its quantile, 0.999. ok is false when s is anything else.
func ParsePercentile(s string) (q float64, ok bool) {
	num, rest := splitNumber(s)
	if num == "" || rest != "" || len(s) > 32 {
		return 0, false
	}
	q, err := strconv.ParseFloat(shift(num, -2), 64)
	return q, err == nil && q >= minRatio && q < 1
}

// Duration returns d for a table, to a tenth or to three digits, with its
// unit: 350 ns, 5.02 ms, 40.4 ms, 116.8 ms, 1.00 s, 72.0 s. 0 is "0".
func Duration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	sign, ns := "", float64(d)
	if d < 0 {
		sign, ns = "-", -ns
	}
	if ns < 1000 {
		return sign + strconv.FormatFloat(ns, 'f', 0, 64) + " ns"
	}
	unit, v := " s", ns/1e9
	switch {
	case ns < 999.95e3:
		unit, v = " µs", ns/1e3
	case ns < 999.95e6:
		unit, v = " ms", ns/1e6
	}
	places := 1
	if v < 9.995 {
		places = 2
	}
	return sign + strconv.FormatFloat(v, 'f', places, 64) + unit
}

// Count returns n for a table, with a comma at each thousand: 12,345.
func Count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Percent returns a share for a table: 0.069 is "6.9 %". It shows more places
// the nearer the share is to none or all, at most four: 99.98 %, 0.005 %; what
// four places cannot tell from none or all is "<0.0001 %" or ">99.9999 %". What
// is not a finite number is "n/a".
func Percent(share float64) string {
	p := 100 * share
	if math.IsNaN(p) || math.IsInf(p, 0) {
		return "n/a"
	}
	if p == 0 || p == 100 {
		return strconv.FormatFloat(math.Abs(p), 'f', 0, 64) + " %"
	}
	near := math.Abs(p)
	if p > 0 && p < 100 {
		near = min(p, 100-p)
		switch {
		case near < 0.00005 && p < 50:
			return "<0.0001 %"
		case near < 0.00005:
			return ">99.9999 %"
		}
	}
	places := 1
	for limit := 1.0; near < limit && places < 4; limit /= 10 {
		places++
	}
	s := strconv.FormatFloat(p, 'f', places, 64)
	for ; places > 1 && s[len(s)-1] == '0'; places-- {
		s = s[:len(s)-1]
	}
	return s + " %"
}

// Size returns n bytes for a table: 512 B, 24.0 MiB.
func Size(n uint64) string {
	if n < 1<<10 {
		return strconv.FormatUint(n, 10) + " B"
	}
	v, unit := float64(n)/(1<<10), " KiB"
	if n >= 1<<30 {
		v, unit = float64(n)/(1<<30), " GiB"
	} else if n >= 1<<20 {
		v, unit = float64(n)/(1<<20), " MiB"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + unit
}

// Plain returns s with a space for each character that a terminal may act on
// instead of showing it: control characters and invisible formatting. Text from
// a file or a server goes through it before it is printed.
func Plain(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			return ' '
		}
		return c
	}, s)
}
