package main

import (
	"bufio"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// known returns the values that are not NaN, in order.
func known(v []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(v), math.IsNaN)
}

// median returns the middle of the known values, or the mean of the two middle
// ones; NaN without known values.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(known(v)))
	if len(s) == 0 {
		return math.NaN()
	}
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// medianInterval returns the narrowest interval of order statistics, symmetric
// in rank, that covers the median of the distribution with a probability of at
// least 95 %, whatever that distribution is: [x(k), x(n+1-k)] covers it with
// 1 - 2 P(Binomial(n, 1/2) < k). ok is false below 6 values, where even the
// range does not reach 95 %.
func medianInterval(v []float64) (low, high float64, ok bool) {
	n := len(v)
	k := 0
	below := 0.0 // P(Binomial(n, 1/2) <= k-1)
	p := math.Pow(0.5, float64(n))
	for j := 0; j < n/2; j++ { // p = P(Binomial = j)
		if 2*(below+p) > 0.05 {
			break
		}
		below += p
		k = j + 1
		p *= float64(n-j) / float64(j+1)
	}
	if k == 0 {
		return 0, 0, false
	}
	s := slices.Sorted(slices.Values(v))
	return s[k-1], s[n-k], true
}

// ratios divides pair by pair.
func ratios(a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r
}

// interval is medianInterval as text.
func interval(v []float64, format string) string {
	low, high, ok := medianInterval(v)
	if !ok {
		return "no 95 % interval below 6 pairs"
	}
	return fmt.Sprintf("95 %% interval "+format+" to "+format, low, high)
}

// listOf prints values in order.
func listOf(v []float64, format string) string {
	words := make([]string, len(v))
	for i, x := range v {
		words[i] = valueText(x, format)
	}
	return strings.Join(words, " ")
}

// valueText prints one value, n/a for NaN.
func valueText(x float64, format string) string {
	if math.IsNaN(x) {
		return "n/a"
	}
	return fmt.Sprintf(format, x)
}

// medianText prints the median of values in µs.
func medianText(v []float64) string { return valueText(median(v), "%.1f") }

// parseStrace reads the table of strace -c: calls by system call.
func parseStrace(table string) map[string]uint64 {
	calls := map[string]uint64{}
	for sc := bufio.NewScanner(strings.NewReader(table)); sc.Scan(); {
		f := strings.Fields(sc.Text()) // % time, seconds, usecs/call, calls, [errors], syscall
		if len(f) < 5 || f[len(f)-1] == "total" {
			continue
		}
		if _, err := strconv.ParseFloat(f[0], 64); err != nil {
			continue
		}
		if n, err := strconv.ParseUint(f[3], 10, 64); err == nil {
			calls[f[len(f)-1]] = n
		}
	}
	return calls
}

// countGCs counts the collections in a GODEBUG=gctrace=1 log.
func countGCs(log string) (n int) {
	for line := range strings.Lines(log) {
		if rest, ok := strings.CutPrefix(line, "gc "); ok && strings.Contains(rest, " @") {
			n++
		}
	}
	return n
}
