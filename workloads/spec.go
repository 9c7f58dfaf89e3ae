package workloads

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"latencylab/policy"
	"latencylab/units"
)

// NamedPolicy is a policy with the name that tables and files show it under.
type NamedPolicy struct {
	// Name matches [a-z0-9._-]+ and is unique in a workload.
	Name string
	// Spec is FormatPolicy(Policy).
	Spec   string
	Policy policy.Policy
}

// maxSpec and maxName bound the length of a SPEC and of a name in bytes.
const (
	maxSpec = 4000
	maxName = 64
)

// ParsePolicy reads "[NAME:]SPEC". SPEC is "plain", which sends once and waits
// for ever, or a comma list of key=value in any order, each key once. It may
// begin with the name of a preset, whose keys those that follow replace.
//
//	deadline=D          bounds the call from its intended instant
//	min-start=D         least time left before the deadline to start an attempt
//	reserve=D           kept back of the deadline for the caller's own work
//	PART-timeout=D|pNN[.N][+D]
//	                    bounds a part of each attempt: attempt, acquire, dns,
//	                    connect, tls, write, headers, read or idle; a percentile
//	                    follows the part's own durations
//	attempts=N          caps all sends of a call; without retry and hedge it
//	                    also means retry=N-1
//	retry=N             up to N retries
//	retry.on=A+B        the statuses that are retried, instead of
//	                    408+429+502+503+504
//	retry.unsafe        retries and hedges requests that are not idempotent, too
//	retry.after=longer|exact|ignore
//	                    what a server's wait does to the retry's own
//	retry.after.cap=D   longest wait that a server may ask for
//	retry.after.over=fail|clip|discard
//	                    what becomes of a longer one; fail if not given
//	retry.after.spread=SHARE
//	                    waits up to so much longer than asked for
//	backoff=D[..CAP]    wait before the first retry, and its bound
//	backoff=D+D+D       a table of waits, of which the last repeats
//	backoff.kind=WORD   exponential if not given, constant, linear, or
//	                    decorrelated: drawn up to three times the wait before
//	backoff.factor=F    growth of the wait, 1 or more; 2 if not given
//	jitter=full|none|equal|SHARE%|D
//	                    how the wait is spread; full if not given, SHARE and D
//	                    to both sides
//	jitter.when=after-cap|before-cap
//	hedge=D|pNN[.N]     one hedge after D, or after that percentile of the
//	                    client's first attempts
//	hedge.max=N         up to N hedges
//	hedge.window=D      how far back the percentile looks; 30s if not given
//	hedge.min-samples=N samples below which nothing is hedged; 100 if not given
//	budget=SHARE        tokens that each call adds for retries and hedges
//	budget.capacity=N   most tokens held, and held at the start; 100 if not given
//	budget.kind=tokens|window|concurrency
//	                    a bucket if not given, a share of the calls of a window,
//	                    or of those in flight
//	budget.on=call|success, budget.initial=N, budget.open-above=N,
//	budget.cost=N, budget.cost-timeout=N, budget.cost-throttled=N,
//	budget.failure-cost=N, budget.refund, budget.window=D,
//	budget.min-rate=RATE, budget.min=N, budget.for=both|retries|hedges,
//	budget.charge=schedule|fire
//	                    its details: see policy.Budget
//	hedge.budget=SHARE  of the calls of 10 s, which hedges pay from as well
//	breaker=N|SHARE     per replica: opens after N failures in a row, or at a
//	                    share of failures
//	breaker.kind=consecutive|count|time|ema, breaker.window=N|D,
//	breaker.min-calls=N, breaker.slow=D, breaker.slow-share=SHARE,
//	breaker.open=D[..CAP], breaker.permits=N, breaker.need=N,
//	breaker.max-wait=D, breaker.gates=all|retries
//	                    its details: see policy.Breaker
//	throttle=K          rejects calls while fewer than 1 of K is accepted
//	throttle.pad=N, throttle.window=D, throttle.max=SHARE, throttle.min-rate=RATE
//	limit=N|MIN..MAX    most attempts open at once, fixed or adaptive
//	limit.initial=N, limit.backoff=SHARE, limit.timeout=D
//	deadline.wire=NAME  the header that tells the server what is left
//	hedge.floor=D, hedge.ceiling=D
//	                    bound a delay that follows a percentile
//	hedge.probability=SHARE
//	                    sends each hedge only with that probability
//	hedge.idle          hedges only on a replica without open attempts
//	hedge.off-above=N   no hedges while more attempts are open
//	hedge.on-error=wait|next|stop
//	                    what a failed attempt does to the others
//	hedge.win=ok|any    which answer ends the call
//	hedge.win-at=body|headers
//	                    when the others are cancelled
//	cancel=close|drain|reset|tied
//	picker=random|round-robin|least|choices|peak-ewma
//	picker.choices=N    replicas drawn by the last two; 2 if not given
//	eject=N             leaves out a replica after N failures in a row
//	eject.for=D, eject.max=SHARE
//	                    for how long, and at most how many; 30s and 10% if not given
//
// Without NAME the name is made from the first entry: hedge=p95 is called
// hedge-p95. Errors quote s and say what was found and what was wanted;
// contradictions name both keys.
func ParsePolicy(s string) (NamedPolicy, error) {
	np, err := parsePolicy(s)
	if err != nil {
		return NamedPolicy{}, fmt.Errorf("policy %q: %w", clip(s), err)
	}
	return np, nil
}

func parsePolicy(s string) (NamedPolicy, error) {
	if len(s) > maxSpec {
		return NamedPolicy{}, fmt.Errorf("%d bytes long, want at most %d", len(s), maxSpec)
	}
	name, spec, named := strings.Cut(s, ":")
	if !named {
		name, spec = "", s
	} else if err := checkName(name); err != nil {
		return NamedPolicy{}, err
	}
	if strings.TrimSpace(spec) == "" {
		return NamedPolicy{}, errors.New("empty, want plain or a list such as hedge=p95,budget=10%")
	}
	entries, err := splitEntries(spec)
	if err != nil {
		return NamedPolicy{}, err
	}
	return buildPolicy(name, entries)
}

// entry is one key of a policy with its value; bare means that no value was
// written.
type entry struct {
	key, value string
	bare       bool
	line       int // in a workload file; 0 in a SPEC
}

// entryError is an error about one entry of a policy.
type entryError struct {
	line int
	err  error
}

func (e *entryError) Error() string { return e.err.Error() }
func (e *entryError) Unwrap() error { return e.err }

// buildPolicy makes a policy of entries, of which there is at least one. An
// error about one entry is an *entryError.
func buildPolicy(name string, entries []entry) (NamedPolicy, error) {
	preset, own, err := presetOf(entries)
	if err != nil {
		return NamedPolicy{}, err
	}
	var p policy.Policy
	if preset != nil {
		if p, err = preset.policy(); err != nil {
			return NamedPolicy{}, err
		}
		if name == "" {
			name = preset.Name
		}
	}
	given := make(map[string]bool, len(own))
	for _, e := range own {
		if err := setEntry(&p, e, given); err != nil {
			return NamedPolicy{}, &entryError{e.line, err}
		}
		given[e.key] = true
	}
	if preset != nil && p.Hedge.Max > 0 {
		given["hedge"] = true
	}
	if given["plain"] && len(entries) > 1 {
		return NamedPolicy{}, errors.New("plain stands alone, without further keys")
	}
	if given["attempts"] && !given["retry"] && !given["hedge"] {
		p.Retry.Max = p.Attempts - 1
	}
	derive(&p, given)
	if err := checkGiven(&p, given); err != nil {
		return NamedPolicy{}, err
	}
	if err := p.Validate(); err != nil {
		return NamedPolicy{}, err
	}
	if name == "" {
		name = nameOf(entries[0])
	}
	return NamedPolicy{Name: name, Spec: FormatPolicy(p), Policy: p}, nil
}

func setEntry(p *policy.Policy, e entry, given map[string]bool) error {
	k := specKeyNamed(e.key)
	if k == nil {
		return unknownKey(e.key, "", specKeyNames)
	}
	if given[e.key] {
		return fmt.Errorf("%s is given twice", e.key)
	}
	switch {
	case e.key == "preset":
		return errors.New("preset comes first: what follows replaces its keys")
	case e.bare && k.bare == "":
		return fmt.Errorf("%s has no value, want %s=%s", k.name, k.name, k.want)
	case e.bare:
		e.value = k.bare
	case k.name == "plain" && e.line == 0:
		return errors.New("plain has a value, want it alone")
	}
	if err := k.set(p, e.value); err != nil {
		return fmt.Errorf("%s = %w", k.name, err)
	}
	return nil
}

func unknownKey(key, in string, known []string) error {
	if in != "" {
		in = " in " + in
	}
	return fmt.Errorf("unknown key %q%s, nearest is %q", clip(key), in, Nearest(key, known))
}

// wanted is the error that value is not what the key wants.
func wanted(value, want string) error { return fmt.Errorf("%q, want %s", clip(value), want) }

// need says that a key says nothing unless what it needs is met.
type need struct {
	key, needs string
	met        bool
}

// checkGiven refuses keys that would say nothing without another one.
func checkGiven(p *policy.Policy, given map[string]bool) error {
	for _, n := range append([]need{
		{"retry.on", "retry, attempts or hedge", p.Retry.Max > 0 || p.Hedge.Max > 0},
		{"retry.unsafe", "retry, attempts or hedge", p.Retry.Max > 0 || p.Hedge.Max > 0},
		{"backoff", "retry or attempts", p.Retry.Max > 0},
		{"backoff.factor", "backoff", p.Backoff.Base > 0},
		{"backoff.kind", "backoff", p.Backoff.Base > 0},
		{"jitter", "backoff", waits(p)},
		{"jitter.when", "a cap, such as backoff=100ms..2s", p.Backoff.Cap > 0},
		{"hedge.max", "hedge", given["hedge"]},
		{"hedge.window", "a hedge after a percentile such as hedge=p95", p.Hedge.Quantile > 0},
		{"hedge.min-samples", "a hedge after a percentile such as hedge=p95", p.Hedge.Quantile > 0},
		{"budget", "retry, attempts or hedge", p.Retry.Max > 0 || p.Hedge.Max > 0},
		{"budget.capacity", "retry, attempts or hedge", p.Retry.Max > 0 || p.Hedge.Max > 0},
		{"min-start", "deadline", p.Deadline > 0},
	}, append(launchNeeds(p), guardNeeds(p)...)...) {
		if given[n.key] && !n.met {
			return fmt.Errorf("%s needs %s", n.key, n.needs)
		}
	}
	if more := max(p.Retry.Max, p.Hedge.Max); p.Attempts > 1 && more > p.Attempts-1 {
		key := "retry"
		if p.Hedge.Max == more {
			key = "hedge.max"
		}
		return fmt.Errorf("attempts=%d leaves %d for %s=%d", p.Attempts, p.Attempts-1, key, more)
	}
	if given["jitter"] && p.Backoff.Kind == policy.BackoffDecorrelated {
		return errors.New("jitter says nothing of backoff.kind=decorrelated, which is drawn already")
	}
	if given["budget"] && p.Budget.Kind == policy.BudgetTokens && p.Budget.Deposit == 0 && p.Budget.Capacity == 0 {
		more := "hedge"
		if p.Retry.Max > 0 {
			more = fmt.Sprintf("retry=%d", p.Retry.Max)
		}
		return fmt.Errorf("budget=0%% pays for none of %s, want more, budget.capacity for a fixed number, or no budget", more)
	}
	return nil
}

// waits says whether retries wait.
func waits(p *policy.Policy) bool {
	return p.Backoff.Base > 0 || p.Backoff.Kind == policy.BackoffTable
}

// nameOf returns the default name of a policy whose first entry is e.
func nameOf(e entry) string {
	s := e.key
	if !e.bare && e.key != "plain" {
		s += "-" + e.value
	}
	name := []byte(s)[:0]
	for _, c := range []byte(strings.ReplaceAll(s, "µ", "u")) {
		switch {
		case nameByte(c):
			name = append(name, c)
		case c == '+':
			name = append(name, '-')
		}
	}
	return string(name[:min(len(name), maxName)])
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

func checkName(name string) error {
	for i := range len(name) {
		if !nameByte(name[i]) {
			return fmt.Errorf("name %q has %q, want a-z, 0-9, '.', '_' and '-' only", clip(name), []rune(name[i:])[0])
		}
	}
	if name == "" {
		return errors.New("the name before ':' is empty")
	}
	if len(name) > maxName {
		return fmt.Errorf("name %q is %d bytes long, want at most %d", clip(name), len(name), maxName)
	}
	return nil
}

// FormatPolicy returns the SPEC of p in one fixed order of keys, without those
// at their zero value. ParsePolicy reads it back to an equal policy when p came
// from ParsePolicy; settings that have no effect, such as a Hedge.Delay with
// Hedge.Max 0, are not written.
func FormatPolicy(p policy.Policy) string {
	var f specWriter
	if p.Hedge.Max > 0 {
		if p.Hedge.Quantile > 0 {
			f.add("hedge", "p"+units.Percentile(p.Hedge.Quantile))
		} else {
			f.add("hedge", units.FormatDuration(p.Hedge.Delay))
		}
		if p.Hedge.Max > 1 {
			f.add("hedge.max", units.FormatCount(uint64(p.Hedge.Max)))
		}
		if p.Hedge.Quantile > 0 {
			f.duration("hedge.window", p.Hedge.Window)
			f.count("hedge.min-samples", p.Hedge.MinSamples)
		}
		f.hedgeDetails(&p.Hedge)
		f.share("hedge.budget", p.Hedge.Budget.Deposit)
	}
	if p.Retry.Max > 0 || p.Attempts > 1 && p.Hedge.Max == 0 {
		f.add("retry", units.FormatCount(uint64(max(p.Retry.Max, 0))))
	}
	if (p.Retry.Max > 0 || p.Hedge.Max > 0) && p.Retry.On != nil {
		f.add("retry.on", joinStatuses(p.Retry.On))
	}
	if p.Retry.Unsafe && (p.Retry.Max > 0 || p.Hedge.Max > 0) {
		f.add("retry.unsafe", "true")
	}
	f.count("attempts", p.Attempts)
	f.backoff(&p)
	if p.Retry.Max > 0 {
		f.retryAfter(&p.Retry)
	}
	if p.Retry.Max > 0 || p.Hedge.Max > 0 {
		f.budget(&p.Budget)
	}
	f.guards(&p)
	f.timeouts(&p)
	f.duration("deadline", p.Deadline)
	if p.Deadline > 0 {
		if p.Wire != policy.WireNone {
			f.add("deadline.wire", p.Wire.String())
		}
		f.duration("reserve", p.Reserve)
		f.duration("min-start", p.MinStart)
	}
	if p.Cancel != policy.CancelClose {
		f.add("cancel", wordOf(cancelWords, int(p.Cancel)))
	}
	f.replicas(&p)
	if f.Len() == 0 {
		return "plain"
	}
	return f.String()
}

type specWriter struct{ strings.Builder }

func (f *specWriter) add(key, value string) {
	if f.Len() > 0 {
		f.WriteByte(',')
	}
	f.WriteString(key + "=" + value)
}

func (f *specWriter) duration(key string, d time.Duration) {
	if d > 0 {
		f.add(key, units.FormatDuration(d))
	}
}

func (f *specWriter) count(key string, n int) {
	if n > 0 {
		f.add(key, units.FormatCount(uint64(n)))
	}
}

func (f *specWriter) backoff(p *policy.Policy) {
	b := &p.Backoff
	if p.Retry.Max == 0 || !waits(p) {
		return
	}
	var steps []string
	for _, d := range b.Steps {
		steps = append(steps, units.FormatDuration(d))
	}
	switch {
	case b.Kind == policy.BackoffTable && len(steps) == 1:
		steps = append(steps, steps[0]) // one wait alone is no table
		fallthrough
	case b.Kind == policy.BackoffTable:
		f.add("backoff", strings.Join(steps, "+"))
	case b.Cap > 0:
		f.add("backoff", units.FormatDuration(b.Base)+".."+units.FormatDuration(b.Cap))
	default:
		f.add("backoff", units.FormatDuration(b.Base))
	}
	if b.Kind != policy.BackoffExponential && b.Kind != policy.BackoffTable {
		f.add("backoff.kind", wordOf(kindWords, int(b.Kind)))
	}
	if b.Factor != 0 {
		f.add("backoff.factor", formatNumber(b.Factor))
	}
	switch b.Jitter {
	case policy.JitterFull:
	case policy.JitterFraction:
		f.add("jitter", units.FormatShare(b.Share))
	case policy.JitterAbsolute:
		f.add("jitter", units.FormatDuration(b.Span))
	default:
		f.add("jitter", wordOf(jitterWords, int(b.Jitter)))
	}
	if b.JitterFirst {
		f.add("jitter.when", whenWords[1])
	}
}
