package policy

var (
	budgetKindNames   = [...]string{"tokens", "window", "concurrency"}
	budgetOnNames     = [...]string{"call", "success"}
	budgetForNames    = [...]string{"both", "retries", "hedges"}
	breakerKindNames  = [...]string{"consecutive", "count", "time", "ema"}
	breakerGatesNames = [...]string{"all", "retries"}
)

// String returns the value of the spec key budget.kind: "tokens", "window" or
// "concurrency".
func (k BudgetKind) String() string { return name(budgetKindNames[:], uint8(k)) }

// String returns the value of the spec key budget.on: "call" or "success".
func (o BudgetOn) String() string { return name(budgetOnNames[:], uint8(o)) }

// String returns the value of the spec key budget.for: "both", "retries" or
// "hedges".
func (f BudgetFor) String() string { return name(budgetForNames[:], uint8(f)) }

// String returns the value of the spec key breaker.kind: "consecutive",
// "count", "time" or "ema".
func (k BreakerKind) String() string { return name(breakerKindNames[:], uint8(k)) }

// String returns the value of the spec key breaker.gates: "all" or "retries".
func (g BreakerGates) String() string { return name(breakerGatesNames[:], uint8(g)) }
