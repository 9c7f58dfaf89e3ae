package policy

import (
	"fmt"
	"math"
	"time"
)

// validateGuards checks budgets, breaker, throttle, limit and wire.
func (p *Policy) validateGuards() error {
	for _, check := range []func() error{
		func() error { return p.Budget.validate("budget", p, p.resends()) },
		func() error { return p.Hedge.validateBudget(p) },
		func() error { return p.Breaker.validate(p) },
		p.Throttle.validate,
		func() error { return p.Limit.validate(p) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if p.Wire >= wires {
		return fmt.Errorf("deadline.wire=%d, want the name of a header", p.Wire)
	}
	return nil
}

// field is one setting of a guard: its key and value, and whether it is set.
type field struct {
	key   string
	value any
	set   bool
}

// foreign refuses the first field that is set.
func foreign(why string, fields ...field) error {
	for _, f := range fields {
		if f.set {
			return fmt.Errorf("%s=%v %s", f.key, f.value, why)
		}
	}
	return nil
}

// validateBudget checks the budget that hedges alone pay from.
func (h *Hedge) validateBudget(p *Policy) error {
	b := h.Budget
	switch {
	case b == Budget{}:
		return nil
	case h.Max <= 0:
		return fmt.Errorf("hedge.budget=%v limits nothing without hedge", b.Deposit)
	case b.For != BudgetBoth:
		return fmt.Errorf("hedge.budget.for=%s: it is for hedges alone", b.For)
	}
	return b.validate("hedge.budget", p, "hedge="+h.spec())
}

// validate checks a budget whose settings are called key, key.kind and so on.
// resends names the key that makes p send more than one attempt.
func (b Budget) validate(key string, p *Policy, resends string) error {
	if err := b.validateNumbers(key); err != nil {
		return err
	}
	if !b.limits() {
		return foreign("says nothing without "+key+" or "+key+".capacity", b.fields(key)...)
	}
	if err := b.validateKind(key); err != nil {
		return err
	}
	if !p.CanResend() {
		return nil
	}
	switch {
	case b.For == BudgetRetries && p.Retry.Max <= 0 && p.Hedge.OnError != OnErrorNext:
		return fmt.Errorf("%s.for=retries limits nothing of %s", key, resends)
	case b.For == BudgetHedges && p.Hedge.Max <= 0:
		return fmt.Errorf("%s.for=hedges limits nothing of %s", key, resends)
	}
	return b.validateReach(key, resends)
}

// validateNumbers checks each setting by itself.
func (b Budget) validateNumbers(key string) error {
	switch {
	case b.Kind > BudgetConcurrency:
		return fmt.Errorf("%s.kind=%d, want tokens, window or concurrency", key, b.Kind)
	case b.On > DepositSuccess:
		return fmt.Errorf("%s.on=%d, want call or success", key, b.On)
	case b.For > BudgetHedges:
		return fmt.Errorf("%s.for=%d, want both, retries or hedges", key, b.For)
	case b.MinConcurrency < 0 || b.MinConcurrency > math.MaxInt32:
		return fmt.Errorf("%s.min=%d, want 0 to %d", key, b.MinConcurrency, math.MaxInt32)
	case b.Window < 0 || b.Window > maxWindow:
		return fmt.Errorf("%s.window=%v, want at most %v", key, b.Window, maxWindow)
	}
	for _, v := range []struct {
		key    string
		tokens float64
	}{
		{"", b.Deposit}, {".capacity", b.Capacity}, {".initial", b.Initial}, {".open-above", b.OpenAbove},
		{".cost", b.Cost}, {".cost-timeout", b.CostTimeout}, {".cost-throttled", b.CostThrottled},
		{".failure-cost", b.FailureCost}, {".min-rate", b.MinRate},
	} {
		switch {
		case math.IsNaN(v.tokens) || v.tokens < 0:
			return fmt.Errorf("%s%s=%v, want 0 or more", key, v.key, v.tokens)
		case v.tokens > maxTokens:
			return fmt.Errorf("%s%s=%v, want at most %v", key, v.key, v.tokens, float64(maxTokens))
		case v.tokens > 0 && microTokens(v.tokens) == 0:
			return fmt.Errorf("%s%s=%v, want 0 or at least a millionth", key, v.key, v.tokens)
		}
	}
	return nil
}

// fields lists the settings beside Kind, Deposit and Capacity.
func (b Budget) fields(key string) []field {
	return append(b.tokenFields(key), append(b.costFields(key),
		field{key + ".window", b.Window, b.Window != 0},
		field{key + ".min-rate", b.MinRate, b.MinRate != 0},
		field{key + ".min", b.MinConcurrency, b.MinConcurrency != 0},
		field{key + ".for", b.For, b.For != BudgetBoth},
		field{key + ".charge", "fire", b.AtFire})...)
}

// tokenFields lists the settings of BudgetTokens alone.
func (b Budget) tokenFields(key string) []field {
	return []field{
		{key + ".initial", b.Initial, b.Initial != 0 || b.Empty},
		{key + ".open-above", b.OpenAbove, b.OpenAbove != 0},
		{key + ".failure-cost", b.FailureCost, b.FailureCost != 0},
		{key + ".refund", true, b.Refund},
	}
}

// costFields lists the settings of what an attempt costs and a call brings.
func (b Budget) costFields(key string) []field {
	return []field{
		{key + ".on", "success", b.On != DepositCall},
		{key + ".cost", b.Cost, b.Cost != 0},
		{key + ".cost-timeout", b.CostTimeout, b.CostTimeout != 0},
		{key + ".cost-throttled", b.CostThrottled, b.CostThrottled != 0},
	}
}

// validateKind refuses what is for another kind of budget, and settings that
// contradict each other whatever the policy does.
func (b Budget) validateKind(key string) error {
	why := "says nothing of " + key + ".kind=" + b.Kind.String()
	capacity := field{key + ".capacity", b.Capacity, b.Capacity != 0}
	window := field{key + ".window", b.Window, b.Window != 0}
	rate := field{key + ".min-rate", b.MinRate, b.MinRate != 0}
	least := field{key + ".min", b.MinConcurrency, b.MinConcurrency != 0}
	var others []field
	switch b.Kind {
	case BudgetTokens:
		others = []field{window, rate, least}
	case BudgetWindow:
		others = append(b.tokenFields(key), capacity, least)
	default:
		others = append(append(b.tokenFields(key), b.costFields(key)...), capacity, window, rate)
	}
	if err := foreign(why, others...); err != nil {
		return err
	}
	switch {
	case b.Kind != BudgetTokens && b.Deposit > maxShare:
		return fmt.Errorf("%s=%v, want at most %d in %s.kind=%s", key, b.Deposit, maxShare, key, b.Kind)
	case b.On == DepositSuccess && b.Deposit == 0:
		return fmt.Errorf("%s.on=success without %s, which is what a success adds", key, key)
	case b.Empty && b.Initial != 0:
		return fmt.Errorf("%s.initial=%v of a budget that starts empty", key, b.Initial)
	case b.Kind == BudgetTokens && b.Initial > b.capacity():
		return fmt.Errorf("%s.initial=%v is above %s.capacity=%v", key, b.Initial, key, b.capacity())
	}
	if b.FailureCost != 0 {
		return foreign(fmt.Sprintf("and %s.failure-cost=%v charge for one failure twice", key, b.FailureCost),
			append(b.costFields(key)[1:], field{key + ".refund", true, b.Refund})...)
	}
	return nil
}

// validateReach refuses a budget that can never pay for what the policy sends.
func (b Budget) validateReach(key, resends string) error {
	switch b.Kind {
	case BudgetConcurrency:
		if b.Deposit == 0 && b.MinConcurrency == 0 {
			return fmt.Errorf("%s=0%% and %s.min=0 allow nothing of %s", key, key, resends)
		}
		return nil
	case BudgetWindow:
		switch cost := b.costOf(causeFailure); {
		case b.Deposit == 0 && b.MinRate == 0:
			return fmt.Errorf("%s=0%% and %s.min-rate=0 allow nothing of %s", key, key, resends)
		case b.Deposit == 0 && b.reserve() < cost:
			return fmt.Errorf("%s.min-rate=%v in %s.window=%v is below the %s that each attempt of %s costs",
				key, b.MinRate, key, b.window(), inTokens(cost), resends)
		}
		return nil
	}
	for c, name := range [causes]string{"", ".cost-timeout", ".cost-throttled"} {
		switch cost := b.costOf(cause(c)); {
		case cost <= b.capacity():
		case c == 0:
			return fmt.Errorf("%s.capacity=%v is below the %s that each attempt of %s costs", key, b.capacity(), inTokens(cost), resends)
		default:
			return fmt.Errorf("%s.capacity=%v is below %s%s=%v", key, b.capacity(), key, name, cost)
		}
	}
	switch {
	case b.OpenAbove >= b.capacity():
		return fmt.Errorf("%s.open-above=%v is not below %s.capacity=%v", key, b.OpenAbove, key, b.capacity())
	case b.Empty && b.Deposit == 0:
		return fmt.Errorf("%s=0%% and %s.initial=0 allow nothing of %s", key, key, resends)
	}
	return nil
}

// inTokens returns n with its unit.
func inTokens(n float64) string {
	if n == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%v tokens", n)
}

// validate checks a breaker by itself and against the times of p.
func (b Breaker) validate(p *Policy) error {
	switch {
	case b == Breaker{}:
		return nil
	case b.Kind > BreakerEMA:
		return fmt.Errorf("breaker.kind=%d, want consecutive, count, time or ema", b.Kind)
	case b.Gates > GateRetries:
		return fmt.Errorf("breaker.gates=%d, want all or retries", b.Gates)
	case !share(b.FailureShare):
		return fmt.Errorf("breaker=%v, want a share above 0 and at most 1", b.FailureShare)
	case !share(b.SlowShare):
		return fmt.Errorf("breaker.slow-share=%v, want more than 0 and at most 1", b.SlowShare)
	}
	for _, v := range []struct {
		key  string
		n    int
		most int
	}{
		{"breaker", b.Failures, math.MaxInt32}, {"breaker.window", b.Calls, maxBreakerCalls}, {"breaker.min-calls", b.MinCalls, math.MaxInt32},
		{"breaker.permits", b.Permits, math.MaxInt32}, {"breaker.need", b.Need, math.MaxInt32},
	} {
		if v.n < 0 || v.n > v.most {
			return fmt.Errorf("%s=%d, want 0 to %d", v.key, v.n, v.most)
		}
	}
	for _, v := range []struct {
		key     string
		d, most time.Duration
	}{
		{"breaker.window", b.Window, maxWindow}, {"breaker.slow", b.Slow, math.MaxInt64}, {"breaker.open", b.Open, maxOpenGrowth},
		{"breaker.open cap", b.OpenCap, maxOpenGrowth}, {"breaker.max-wait", b.MaxWait, math.MaxInt64},
	} {
		if v.d < 0 || v.d > v.most {
			return fmt.Errorf("%s=%v, want 0 to %v", v.key, v.d, v.most)
		}
	}
	return b.validateKind(p)
}

// validateKind refuses what is for another kind of breaker, and settings that
// contradict each other or those of p.
func (b Breaker) validateKind(p *Policy) error {
	failures := field{"breaker", b.Failures, b.Failures != 0}
	share := field{"breaker", b.FailureShare, b.FailureShare != 0}
	calls := field{"breaker.window", b.Calls, b.Calls != 0}
	window := field{"breaker.window", b.Window, b.Window != 0}
	others := []field{failures}
	switch b.Kind {
	case BreakerConsecutive:
		others = []field{share, calls, window, {"breaker.min-calls", b.MinCalls, b.MinCalls != 0}, {"breaker.slow-share", b.SlowShare, b.SlowShare != 0}}
	case BreakerTime:
		others = append(others, calls)
	default:
		others = append(others, window)
	}
	if err := foreign("says nothing of breaker.kind="+b.Kind.String(), others...); err != nil {
		return err
	}
	attempt := p.Timeouts[PartAttempt]
	switch {
	case !b.limits() && b.Kind == BreakerConsecutive:
		return fmt.Errorf("a breaker without a number of failures never opens, want one such as breaker=5")
	case !b.limits():
		return fmt.Errorf("breaker.kind=%s never opens, want a share such as breaker=50%% or breaker.slow", b.Kind)
	case b.SlowShare != 0 && b.Slow == 0:
		return fmt.Errorf("breaker.slow-share=%v needs breaker.slow", b.SlowShare)
	case b.Kind != BreakerTime && b.MinCalls > b.calls():
		return fmt.Errorf("breaker.min-calls=%d is above breaker.window=%d", b.MinCalls, b.calls())
	case b.OpenCap != 0 && b.OpenCap < b.open():
		return fmt.Errorf("breaker.open=%v..%v: the first is above the cap", b.open(), b.OpenCap)
	case b.Gates == GateRetries && !p.CanResend():
		return fmt.Errorf("breaker.gates=retries stops nothing without retry or hedge")
	case p.Deadline > 0 && b.Slow >= p.Deadline:
		return fmt.Errorf("breaker.slow=%v is not below deadline=%v", b.Slow, p.Deadline)
	case !attempt.tracks() && attempt.After > 0 && b.Slow >= attempt.After:
		return fmt.Errorf("breaker.slow=%v is not below attempt-timeout=%v", b.Slow, attempt.After)
	}
	return nil
}

// share reports whether f is 0 or a share.
func share(f float64) bool { return f >= 0 && f <= 1 }

// validate checks a throttle.
func (t Throttle) validate() error {
	switch {
	case !(t.K == 0 || t.K >= 1 && t.K <= math.MaxFloat64):
		return fmt.Errorf("throttle=%v, want 1 or more", t.K)
	case !(t.Pad >= 0 && t.Pad <= math.MaxFloat64):
		return fmt.Errorf("throttle.pad=%v, want 0 or more", t.Pad)
	case t.Window < 0 || t.Window > maxWindow:
		return fmt.Errorf("throttle.window=%v, want at most %v", t.Window, maxWindow)
	case !share(t.Max):
		return fmt.Errorf("throttle.max=%v, want more than 0 and at most 1", t.Max)
	case !(t.MinRate >= 0 && t.MinRate <= math.MaxFloat64):
		return fmt.Errorf("throttle.min-rate=%v, want 0 or more", t.MinRate)
	case t.limits():
		return nil
	}
	return foreign("says nothing without throttle",
		field{"throttle.pad", t.Pad, t.Pad != 0}, field{"throttle.window", t.Window, t.Window != 0},
		field{"throttle.max", t.Max, t.Max != 0}, field{"throttle.min-rate", t.MinRate, t.MinRate != 0})
}

// validate checks a limit by itself and against the times of p.
func (l Limit) validate(p *Policy) error {
	for _, v := range []struct {
		key string
		n   int
	}{{"limit", l.Max}, {"limit", l.Min}, {"limit.initial", l.Initial}} {
		if v.n < 0 || v.n > math.MaxInt32 {
			return fmt.Errorf("%s=%d, want 0 to %d", v.key, v.n, math.MaxInt32)
		}
	}
	adaptive := []field{{"limit.initial", l.Initial, l.Initial != 0}, {"limit.backoff", l.Backoff, l.Backoff != 0}, {"limit.timeout", l.Timeout, l.Timeout != 0}}
	switch {
	case !(l.Backoff >= 0 && l.Backoff < 1):
		return fmt.Errorf("limit.backoff=%v, want more than 0 and below 1", l.Backoff)
	case l.Timeout < 0:
		return fmt.Errorf("limit.timeout=%v is negative, want 0 or more", l.Timeout)
	case l.Min > l.Max:
		return fmt.Errorf("limit=%d..%d: the least is above the most", l.Min, l.Max)
	case l.Max == 0:
		return foreign("says nothing without limit", adaptive...)
	case l.Min == 0:
		return foreign(fmt.Sprintf("says nothing of the fixed limit=%d, want a range such as limit=%d..%d", l.Max, max(1, l.Max/10), l.Max), adaptive...)
	case l.Initial != 0 && (l.Initial < l.Min || l.Initial > l.Max):
		return fmt.Errorf("limit.initial=%d lies outside limit=%d..%d", l.Initial, l.Min, l.Max)
	case p.Deadline > 0 && l.Timeout >= p.Deadline:
		return fmt.Errorf("limit.timeout=%v is not below deadline=%v", l.Timeout, p.Deadline)
	}
	return nil
}

// guardBurnIn is the time given to state that has no window to leave its start:
// a full bucket, an adaptive limit. 10 s is the window of the budgets that
// forget (Finagle's RetryBudget, tower's TpsBudget).
const guardBurnIn = 10 * time.Second

// burnIn returns the time after which what the budget holds no longer depends
// on its start. 0: it does not limit.
func (b Budget) burnIn() time.Duration {
	switch {
	case !b.limits():
		return 0
	case b.Kind == BudgetWindow:
		return b.window()
	}
	return guardBurnIn
}

// burnIn is that of the breaker: its window, or the time that it stays open.
func (b Breaker) burnIn() time.Duration {
	if !b.limits() {
		return 0
	}
	d := max(b.open(), b.OpenCap)
	if b.Kind == BreakerTime {
		d = max(d, b.window())
	}
	return d
}

// burnIn is that of the throttle: its window.
func (t Throttle) burnIn() time.Duration {
	if !t.limits() {
		return 0
	}
	return t.window()
}

// burnIn is that of the limit; a fixed one has only what is in flight.
func (l Limit) burnIn() time.Duration {
	if l.Min == 0 {
		return 0
	}
	return guardBurnIn
}
