package workloads

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"latencylab/policy"
	"latencylab/units"
)

// Words of enumerations, indexed by value.
var (
	jitterWords = []string{policy.JitterFull: "full", policy.JitterNone: "none", policy.JitterEqual: "equal"}
	kindWords   = []string{policy.BackoffExponential: "exponential", policy.BackoffConstant: "constant",
		policy.BackoffLinear: "linear", policy.BackoffDecorrelated: "decorrelated", policy.BackoffSum: "sum"} // a table is told by its waits
	whenWords   = []string{"after-cap", "before-cap"}
	cancelWords = []string{policy.CancelClose: "close", policy.CancelDrain: "drain", policy.CancelReset: "reset", policy.CancelTied: "tied"}
	pickerWords = []string{policy.PickRandom: "random", policy.PickRoundRobin: "round-robin", policy.PickLeast: "least",
		policy.PickChoices: "choices", policy.PickPeakEWMA: "peak-ewma"}
)

// specKey is one key of a SPEC.
type specKey struct {
	name string
	want string // its values, for a message
	bare string // the value of the key alone; "" when it needs one
	set  func(p *policy.Policy, value string) error
}

// specKeys lists all keys.
var specKeys = slices.Concat(firstKeys, timeoutKeys(), launchKeys, guardKeys)

// firstKeys lists the keys of the documentation's first table, in its order.
var firstKeys = []specKey{
	{"plain", "", "plain", func(p *policy.Policy, v string) error {
		if v != "plain" && v != "true" {
			return wanted(v, "nothing")
		}
		return nil
	}},
	{"deadline", "D", "", func(p *policy.Policy, v string) error { return setSpan(&p.Deadline, v) }},
	{"min-start", "D", "", func(p *policy.Policy, v string) error { return setSpan(&p.MinStart, v) }},
	{"attempts", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Attempts, v, 1) }},
	{"retry", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Retry.Max, v, 0) }},
	{"retry.on", "STATUS+STATUS", "", setRetryOn},
	{"retry.unsafe", "true|false", "true", func(p *policy.Policy, v string) error {
		return setWord(&p.Retry.Unsafe, v, []bool{false, true}, []string{"false", "true"})
	}},
	{"backoff", "D, D..CAP or D+D+D", "", setBackoff},
	{"backoff.kind", strings.Join(kindWords, "|"), "", setKind},
	{"backoff.factor", "F", "", func(p *policy.Policy, v string) error { return setNumber(&p.Backoff.Factor, v, 1) }},
	{"jitter", "full|none|equal, a share such as 20% or D", "", setJitter},
	{"jitter.when", "after-cap|before-cap", "", func(p *policy.Policy, v string) error {
		return setWord(&p.Backoff.JitterFirst, v, []bool{false, true}, whenWords)
	}},
	{"hedge", "D or pNN", "", setHedge},
	{"hedge.max", "N", "", setHedgeMax},
	{"hedge.window", "D", "", func(p *policy.Policy, v string) error { return setSpan(&p.Hedge.Window, v) }},
	{"hedge.min-samples", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Hedge.MinSamples, v, 1) }},
	{"budget", "SHARE", "", func(p *policy.Policy, v string) error {
		f, err := units.ParseRatio(v)
		p.Budget.Deposit = f
		return err
	}},
	{"budget.capacity", "N", "", func(p *policy.Policy, v string) error { return setNumber(&p.Budget.Capacity, v, 1) }},
	{"cancel", "close|drain|reset|tied", "", enumerate(cancelWords, func(p *policy.Policy) *policy.Cancel { return &p.Cancel })},
	{"picker", "random|round-robin|least|choices|peak-ewma", "", enumerate(pickerWords, func(p *policy.Policy) *policy.Picker { return &p.Picker })},
}

var specKeyNames = func() []string {
	names := make([]string, len(specKeys))
	for i := range specKeys {
		names[i] = specKeys[i].name
	}
	return names
}()

func specKeyNamed(name string) *specKey {
	for i := range specKeys {
		if specKeys[i].name == name {
			return &specKeys[i]
		}
	}
	return nil
}

// setSpan reads a duration above 0.
func setSpan(to *time.Duration, v string) error {
	d, err := units.ParseDuration(v)
	if err != nil {
		return err
	}
	if d == 0 {
		return wanted(v, "more than 0s")
	}
	*to = d
	return nil
}

// maxCount bounds the counts that become an int.
const maxCount = math.MaxInt32

func setCount(to *int, v string, least uint64) error {
	n, err := units.ParseCount(v)
	if err != nil {
		return err
	}
	if n < least {
		return wanted(v, fmt.Sprintf("%d or more", least))
	}
	if n > maxCount {
		return wanted(v, fmt.Sprintf("at most %d", maxCount))
	}
	*to = int(n)
	return nil
}

// setNumber reads a decimal number of at least least and at most 1e9.
func setNumber(to *float64, v string, least float64) error {
	if n, err := units.ParseCount(v); err == nil {
		v = strconv.FormatUint(n, 10)
	} else if strings.Trim(v, "0123456789.") != "" || len(v) > 32 {
		return wanted(v, "a number")
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil {
		return wanted(v, "a number")
	}
	if f < least || f > 1e9 {
		return wanted(v, fmt.Sprintf("from %s to 1000000000", formatNumber(least)))
	}
	*to = f
	return nil
}

func formatNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// setWord reads one of words and sets the value at the same index.
func setWord[T any](to *T, v string, values []T, words []string) error {
	for i, w := range words {
		if w == v {
			*to = values[i]
			return nil
		}
	}
	return wanted(v, orList(words))
}

func wordOf(words []string, i int) string {
	if i < len(words) {
		return words[i]
	}
	return "unknown"
}

// orList joins words as "a, b or c".
func orList(words []string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " or " + words[n]
}

func setRetryOn(p *policy.Policy, v string) error {
	var on []uint16
	for text := range strings.SplitSeq(v, "+") {
		s, err := parseStatus(text, 400)
		if err != nil {
			return err
		}
		for _, before := range on {
			if before == s {
				return fmt.Errorf("%q has %d twice", clip(v), s)
			}
		}
		on = append(on, s)
	}
	p.Retry.On = on
	return nil
}

// parseStatus reads a status code from least to 599.
func parseStatus(s string, least int) (uint16, error) {
	n, err := strconv.Atoi(s)
	if err != nil || len(s) != 3 || n < least || n > 599 {
		return 0, wanted(s, fmt.Sprintf("a status from %d to 599", least))
	}
	return uint16(n), nil
}

func joinStatuses(on []uint16) string {
	var b strings.Builder
	for i, s := range on {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(strconv.Itoa(int(s)))
	}
	return b.String()
}

// setJitter reads a word, a share or a duration.
func setJitter(p *policy.Policy, v string) error {
	b := &p.Backoff
	switch {
	case strings.HasSuffix(v, "%"):
		f, err := units.ParseRatio(v)
		if err != nil {
			return err
		}
		if f == 0 || f > 1 {
			return wanted(v, "a share above 0% and at most 100%")
		}
		b.Jitter, b.Share = policy.JitterFraction, f
		return nil
	case v != "" && '0' <= v[0] && v[0] <= '9':
		b.Jitter = policy.JitterAbsolute
		return setSpan(&b.Span, v)
	}
	if err := setWord(&b.Jitter, v, []policy.Jitter{policy.JitterFull, policy.JitterNone, policy.JitterEqual}, jitterWords); err != nil {
		return wanted(v, "full, none, equal, a share such as 20% or a duration such as 50ms")
	}
	return nil
}

// setSteps reads a table of waits.
func setSteps(p *policy.Policy, v string) error {
	p.Backoff.Kind, p.Backoff.Base, p.Backoff.Cap, p.Backoff.Steps = policy.BackoffTable, 0, 0, nil
	for text := range strings.SplitSeq(v, "+") {
		d, err := units.ParseDuration(text)
		if err != nil {
			return err
		}
		p.Backoff.Steps = append(p.Backoff.Steps, d)
	}
	return nil
}

// setKind reads how a backoff grows.
func setKind(p *policy.Policy, v string) error {
	for i, w := range kindWords {
		if w != "" && w == v {
			p.Backoff.Kind = policy.BackoffKind(i)
			return nil
		}
	}
	return wanted(v, "exponential, constant, linear, decorrelated or sum")
}

func setBackoff(p *policy.Policy, v string) error {
	if strings.Contains(v, "+") {
		return setSteps(p, v)
	}
	base, limit, has := strings.Cut(v, "..")
	p.Backoff.Cap, p.Backoff.Steps = 0, nil // of a preset
	if p.Backoff.Kind == policy.BackoffTable {
		p.Backoff.Kind = policy.BackoffExponential
	}
	if err := setSpan(&p.Backoff.Base, base); err != nil {
		return err
	}
	if !has {
		return nil
	}
	if err := setSpan(&p.Backoff.Cap, limit); err != nil {
		return err
	}
	if p.Backoff.Cap < p.Backoff.Base {
		return wanted(v, "a cap of at least the first wait")
	}
	return nil
}

func setHedge(p *policy.Policy, v string) error {
	p.Hedge.Delay, p.Hedge.Quantile = 0, 0 // of a preset
	if len(v) > 1 && v[0] == 'p' {
		q, ok := units.ParsePercentile(v[1:])
		if !ok {
			return wanted(v, "a duration such as 50ms or a percentile above p0 and below p100")
		}
		p.Hedge.Quantile = q
	} else {
		d, err := units.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("%w, or a percentile such as p95", err)
		}
		p.Hedge.Delay = d
	}
	p.Hedge.Max = max(p.Hedge.Max, 1)
	return nil
}

func setHedgeMax(p *policy.Policy, v string) error {
	if err := setCount(&p.Hedge.Max, v, 1); err != nil {
		return err
	}
	if p.Hedge.Max >= policy.MaxOpen {
		return wanted(v, fmt.Sprintf("from 1 to %d", policy.MaxOpen-1))
	}
	return nil
}
