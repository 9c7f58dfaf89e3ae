package workloads

import (
	"fmt"
	"math"
	"strings"
	"time"

	"latencylab/policy"
	"latencylab/units"
)

// Words of enumerations, indexed by value.
var (
	budgetKindWords   = words(policy.BudgetTokens, policy.BudgetWindow, policy.BudgetConcurrency)
	budgetOnWords     = words(policy.DepositCall, policy.DepositSuccess)
	budgetForWords    = words(policy.BudgetBoth, policy.BudgetRetries, policy.BudgetHedges)
	chargeWords       = []string{"schedule", "fire"}
	breakerKindWords  = words(policy.BreakerConsecutive, policy.BreakerCount, policy.BreakerTime, policy.BreakerEMA)
	breakerGatesWords = words(policy.GateAll, policy.GateRetries)
	wireWords         = words(policy.WireGRPC, policy.WireDeadlineMS, policy.WireEnvoy, policy.WireConnect, policy.WireRFC3339)
)

// words returns the names of values.
func words[T fmt.Stringer](values ...T) []string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.String()
	}
	return names
}

// guardKeys lists the keys of budgets, breaker, throttle and limit beside
// budget and budget.capacity, in the order of the documentation.
var guardKeys = []specKey{
	{"budget.kind", strings.Join(budgetKindWords, "|"), "", enumerate(budgetKindWords, func(p *policy.Policy) *policy.BudgetKind { return &p.Budget.Kind })},
	{"budget.on", strings.Join(budgetOnWords, "|"), "", enumerate(budgetOnWords, func(p *policy.Policy) *policy.BudgetOn { return &p.Budget.On })},
	{"budget.initial", "N", "", func(p *policy.Policy, v string) error {
		err := setNumber(&p.Budget.Initial, v, 0)
		p.Budget.Empty = p.Budget.Initial == 0
		return err
	}},
	{"budget.open-above", "N", "", amount(func(p *policy.Policy) *float64 { return &p.Budget.OpenAbove })},
	{"budget.cost", "N", "", amount(func(p *policy.Policy) *float64 { return &p.Budget.Cost })},
	{"budget.cost-timeout", "N", "", amount(func(p *policy.Policy) *float64 { return &p.Budget.CostTimeout })},
	{"budget.cost-throttled", "N", "", amount(func(p *policy.Policy) *float64 { return &p.Budget.CostThrottled })},
	{"budget.failure-cost", "N", "", amount(func(p *policy.Policy) *float64 { return &p.Budget.FailureCost })},
	{"budget.refund", "true|false", "true", truth(func(p *policy.Policy) *bool { return &p.Budget.Refund })},
	{"budget.window", "D", "", span(func(p *policy.Policy) *time.Duration { return &p.Budget.Window })},
	{"budget.min-rate", "RATE", "", rate(func(p *policy.Policy) *float64 { return &p.Budget.MinRate })},
	{"budget.min", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Budget.MinConcurrency, v, 1) }},
	{"budget.for", strings.Join(budgetForWords, "|"), "", enumerate(budgetForWords, func(p *policy.Policy) *policy.BudgetFor { return &p.Budget.For })},
	{"budget.charge", strings.Join(chargeWords, "|"), "", func(p *policy.Policy, v string) error {
		return setWord(&p.Budget.AtFire, v, []bool{false, true}, chargeWords)
	}},
	{"hedge.budget", "SHARE", "", func(p *policy.Policy, v string) error {
		f, err := units.ParseRatio(v)
		if err == nil && f == 0 {
			err = wanted(v, "more than 0%")
		}
		p.Hedge.Budget = policy.Budget{Kind: policy.BudgetWindow, Deposit: f}
		return err
	}},
	{"breaker", "N or SHARE", "", setBreaker},
	{"breaker.kind", strings.Join(breakerKindWords, "|"), "", enumerate(breakerKindWords, func(p *policy.Policy) *policy.BreakerKind { return &p.Breaker.Kind })},
	{"breaker.window", "N or D", "", setBreakerWindow},
	{"breaker.min-calls", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Breaker.MinCalls, v, 1) }},
	{"breaker.slow", "D", "", span(func(p *policy.Policy) *time.Duration { return &p.Breaker.Slow })},
	{"breaker.slow-share", "SHARE", "", part(func(p *policy.Policy) *float64 { return &p.Breaker.SlowShare })},
	{"breaker.open", "D or D..CAP", "", func(p *policy.Policy, v string) error {
		return setRange(&p.Breaker.Open, &p.Breaker.OpenCap, v)
	}},
	{"breaker.permits", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Breaker.Permits, v, 1) }},
	{"breaker.need", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Breaker.Need, v, 1) }},
	{"breaker.max-wait", "D", "", span(func(p *policy.Policy) *time.Duration { return &p.Breaker.MaxWait })},
	{"breaker.gates", strings.Join(breakerGatesWords, "|"), "", enumerate(breakerGatesWords, func(p *policy.Policy) *policy.BreakerGates { return &p.Breaker.Gates })},
	{"throttle", "K", "", func(p *policy.Policy, v string) error { return setNumber(&p.Throttle.K, v, 1) }},
	{"throttle.pad", "N", "", amount(func(p *policy.Policy) *float64 { return &p.Throttle.Pad })},
	{"throttle.window", "D", "", span(func(p *policy.Policy) *time.Duration { return &p.Throttle.Window })},
	{"throttle.max", "SHARE", "", part(func(p *policy.Policy) *float64 { return &p.Throttle.Max })},
	{"throttle.min-rate", "RATE", "", rate(func(p *policy.Policy) *float64 { return &p.Throttle.MinRate })},
	{"limit", "N or N..N", "", setLimit},
	{"limit.initial", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Limit.Initial, v, 1) }},
	{"limit.backoff", "SHARE", "", part(func(p *policy.Policy) *float64 { return &p.Limit.Backoff })},
	{"limit.timeout", "D", "", span(func(p *policy.Policy) *time.Duration { return &p.Limit.Timeout })},
	{"deadline.wire", strings.Join(wireWords, "|"), "", func(p *policy.Policy, v string) error {
		w, ok := policy.WireNamed(v)
		if !ok || w == policy.WireNone {
			return wanted(v, orList(wireWords))
		}
		p.Wire = w
		return nil
	}},
}

// guardNeeds lists the keys of guardKeys that would say nothing without another.
func guardNeeds(p *policy.Policy) []need {
	b, resends := &p.Breaker, p.Retry.Max > 0 || p.Hedge.Max > 0
	breaks := b.Failures > 0 || b.FailureShare > 0 || b.Slow > 0
	ns := []need{
		{"hedge.budget", "hedge", p.Hedge.Max > 0},
		{"breaker.slow-share", "breaker.slow", b.Slow > 0},
		{"deadline.wire", "deadline", p.Deadline > 0},
	}
	for _, k := range guardKeys {
		switch name, _, deeper := strings.Cut(k.name, "."); {
		case !deeper:
		case name == "budget":
			ns = append(ns, need{k.name, "retry, attempts or hedge", resends})
		case name == "breaker":
			ns = append(ns, need{k.name, "breaker", breaks})
		case name == "throttle":
			ns = append(ns, need{k.name, "throttle", p.Throttle.K > 0})
		case name == "limit":
			ns = append(ns, need{k.name, "a range such as limit=10..100", p.Limit.Min > 0})
		}
	}
	return ns
}

// derive fills in what the keys that were given say without saying it: the kind
// of a breaker.
func derive(p *policy.Policy, given map[string]bool) {
	if b := &p.Breaker; !given["breaker.kind"] {
		b.Kind = breakerKind(b)
	}
}

// breakerKind is the kind of a breaker of which none is given.
func breakerKind(b *policy.Breaker) policy.BreakerKind {
	switch {
	case b.Window > 0:
		return policy.BreakerTime
	case b.FailureShare > 0 || b.Failures == 0 && b.Slow > 0:
		return policy.BreakerCount
	}
	return policy.BreakerConsecutive
}

// setBreaker reads a number of failures, or a share of them.
func setBreaker(p *policy.Policy, v string) error {
	if _, err := units.ParseCount(v); err == nil {
		return setCount(&p.Breaker.Failures, v, 1)
	}
	if err := setPart(&p.Breaker.FailureShare, v); err != nil {
		return wanted(v, "a number of failures such as 5, or a share above 0% such as 50%")
	}
	return nil
}

// setBreakerWindow reads a number of attempts or a duration.
func setBreakerWindow(p *policy.Policy, v string) error {
	if _, err := units.ParseCount(v); err == nil {
		return setCount(&p.Breaker.Calls, v, 1)
	}
	if err := setSpan(&p.Breaker.Window, v); err != nil {
		return wanted(v, "a number of attempts such as 100, or a duration such as 10s")
	}
	return nil
}

// setLimit reads N or MIN..MAX.
func setLimit(p *policy.Policy, v string) error {
	least, most, ranged := strings.Cut(v, "..")
	if !ranged {
		return setCount(&p.Limit.Max, v, 1)
	}
	if err := setCount(&p.Limit.Min, least, 1); err != nil {
		return err
	}
	if err := setCount(&p.Limit.Max, most, 1); err != nil {
		return err
	}
	if p.Limit.Max < p.Limit.Min {
		return wanted(v, "a most of at least the least")
	}
	return nil
}

// setRange reads D or D..CAP.
func setRange(base, limit *time.Duration, v string) error {
	first, last, ranged := strings.Cut(v, "..")
	if err := setSpan(base, first); err != nil || !ranged {
		return err
	}
	if err := setSpan(limit, last); err != nil {
		return err
	}
	if *limit < *base {
		return wanted(v, "a cap of at least the first")
	}
	return nil
}

// setPart reads a share above 0 and at most 1.
func setPart(to *float64, v string) error {
	f, err := units.ParseShare(v)
	if err == nil && f == 0 {
		err = wanted(v, "more than 0%")
	}
	*to = f
	return err
}

// part returns the setter of a key that takes a share above 0.
func part(field func(*policy.Policy) *float64) func(*policy.Policy, string) error {
	return func(p *policy.Policy, v string) error { return setPart(field(p), v) }
}

// amount returns the setter of a key that takes a number above 0, to a
// millionth.
func amount(field func(*policy.Policy) *float64) func(*policy.Policy, string) error {
	return func(p *policy.Policy, v string) error { return setNumber(field(p), v, 1e-6) }
}

// rate returns the setter of a key that takes a rate, kept in 1/s.
func rate(field func(*policy.Policy) *float64) func(*policy.Policy, string) error {
	return func(p *policy.Policy, v string) error {
		r, err := units.ParseRate(v)
		*field(p) = r.PerSecond()
		return err
	}
}

// truth returns the setter of a key that is true or false.
func truth(field func(*policy.Policy) *bool) func(*policy.Policy, string) error {
	return func(p *policy.Policy, v string) error {
		return setWord(field(p), v, []bool{false, true}, []string{"false", "true"})
	}
}

// number writes a key whose zero value says nothing.
func (f *specWriter) number(key string, v float64) {
	if v > 0 {
		f.add(key, formatNumber(v))
	}
}

func (f *specWriter) share(key string, v float64) {
	if v > 0 {
		f.add(key, units.FormatShare(v))
	}
}

func (f *specWriter) rate(key string, perSecond float64) {
	if perSecond > 0 {
		f.add(key, units.Rate(math.Round(perSecond*1e6)).String())
	}
}

// word writes a key of an enumeration whose value i is not the zero value.
func (f *specWriter) word(key string, words []string, i uint8) {
	if i > 0 {
		f.add(key, wordOf(words, int(i)))
	}
}

// budget writes the keys of the policy's budget.
func (f *specWriter) budget(b *policy.Budget) {
	f.share("budget", b.Deposit)
	f.word("budget.kind", budgetKindWords, uint8(b.Kind))
	f.word("budget.on", budgetOnWords, uint8(b.On))
	f.number("budget.capacity", b.Capacity)
	if b.Empty {
		f.add("budget.initial", "0")
	}
	f.number("budget.initial", b.Initial)
	f.number("budget.open-above", b.OpenAbove)
	f.number("budget.cost", b.Cost)
	f.number("budget.cost-timeout", b.CostTimeout)
	f.number("budget.cost-throttled", b.CostThrottled)
	f.number("budget.failure-cost", b.FailureCost)
	if b.Refund {
		f.add("budget.refund", "true")
	}
	f.duration("budget.window", b.Window)
	f.rate("budget.min-rate", b.MinRate)
	f.count("budget.min", b.MinConcurrency)
	f.word("budget.for", budgetForWords, uint8(b.For))
	if b.AtFire {
		f.add("budget.charge", chargeWords[1])
	}
}

// breaker writes the keys of a breaker.
func (f *specWriter) breaker(b *policy.Breaker) {
	f.count("breaker", b.Failures)
	f.share("breaker", b.FailureShare)
	if b.Kind != breakerKind(b) {
		f.add("breaker.kind", wordOf(breakerKindWords, int(b.Kind)))
	}
	f.count("breaker.window", b.Calls)
	f.duration("breaker.window", b.Window)
	f.count("breaker.min-calls", b.MinCalls)
	f.duration("breaker.slow", b.Slow)
	f.share("breaker.slow-share", b.SlowShare)
	f.spanTo("breaker.open", b.Open, b.OpenCap)
	f.count("breaker.permits", b.Permits)
	f.count("breaker.need", b.Need)
	f.duration("breaker.max-wait", b.MaxWait)
	f.word("breaker.gates", breakerGatesWords, uint8(b.Gates))
}

// spanTo writes D or D..CAP.
func (f *specWriter) spanTo(key string, base, limit time.Duration) {
	if limit > 0 {
		f.add(key, units.FormatDuration(base)+".."+units.FormatDuration(limit))
	} else {
		f.duration(key, base)
	}
}

// guards writes the keys of breaker, throttle and limit.
func (f *specWriter) guards(p *policy.Policy) {
	f.breaker(&p.Breaker)
	if t := &p.Throttle; t.K > 0 {
		f.number("throttle", t.K)
		f.number("throttle.pad", t.Pad)
		f.duration("throttle.window", t.Window)
		f.share("throttle.max", t.Max)
		f.rate("throttle.min-rate", t.MinRate)
	}
	switch l := &p.Limit; {
	case l.Min > 0:
		f.add("limit", units.FormatCount(uint64(l.Min))+".."+units.FormatCount(uint64(l.Max)))
		f.count("limit.initial", l.Initial)
		f.share("limit.backoff", l.Backoff)
		f.duration("limit.timeout", l.Timeout)
	default:
		f.count("limit", l.Max)
	}
}
