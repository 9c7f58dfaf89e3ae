package policy

import (
	"math"
	"strings"
	"testing"
	"time"
)

// guarded returns a policy of two retries and a hedge with the given guards.
func guarded(set func(*Policy)) Policy {
	p := Policy{Deadline: 10 * time.Second, Retry: Retry{Max: 2}, Hedge: Hedge{Max: 1, Delay: 50 * ms}}
	set(&p)
	return p
}

func TestValidateGuardsAccepts(t *testing.T) {
	for _, row := range []struct {
		why string
		set func(*Policy)
	}{
		{"gRPC's throttling", func(p *Policy) {
			p.Budget = Budget{Capacity: 10, OpenAbove: 5, Deposit: 0.1, On: DepositSuccess, FailureCost: 1}
		}},
		{"AWS standard mode", func(p *Policy) {
			p.Budget = Budget{Capacity: 500, Cost: 5, CostTimeout: 10, Deposit: 1, On: DepositSuccess, Refund: true}
		}},
		{"Finagle's budget", func(p *Policy) { p.Budget = Budget{Kind: BudgetWindow, Deposit: 0.2, MinRate: 10} }},
		{"a window of the reserve alone", func(p *Policy) { p.Budget = Budget{Kind: BudgetWindow, MinRate: 0.1} }},
		{"Envoy's budget", func(p *Policy) {
			p.Budget = Budget{Kind: BudgetConcurrency, Deposit: 0.2, MinConcurrency: 3, For: BudgetRetries, AtFire: true}
		}},
		{"a second budget of hedges", func(p *Policy) { p.Hedge.Budget = Budget{Kind: BudgetWindow, Deposit: 0.01} }},
		{"an empty bucket that calls fill", func(p *Policy) { p.Budget = Budget{Deposit: 0.1, Empty: true} }},
		{"gobreaker", func(p *Policy) { p.Breaker = Breaker{Failures: 6, Open: time.Minute} }},
		{"Hystrix", func(p *Policy) { p.Breaker = Breaker{Kind: BreakerTime, FailureShare: 0.5, MinCalls: 20} }},
		{"slow answers alone", func(p *Policy) { p.Breaker = Breaker{Kind: BreakerCount, Slow: time.Second, SlowShare: 0.5} }},
		{"a growing opening of retries", func(p *Policy) { p.Breaker = Breaker{Failures: 5, OpenCap: time.Minute, Gates: GateRetries} }},
		{"the throttle of the book", func(p *Policy) { p.Throttle = Throttle{K: 2, Pad: 1, Max: 0.9, MinRate: 5} }},
		{"a fixed limit", func(p *Policy) { p.Limit = Limit{Max: 10} }},
		{"an adaptive limit", func(p *Policy) { p.Limit = Limit{Min: 1, Max: 10, Initial: 10, Backoff: 0.5, Timeout: time.Second} }},
		{"a header", func(p *Policy) { p.Wire = WireGRPC }},
	} {
		p := guarded(row.set)
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}

func TestValidateGuardsRefuses(t *testing.T) {
	budget := func(b Budget) func(*Policy) { return func(p *Policy) { p.Budget = b } }
	breaker := func(b Breaker) func(*Policy) { return func(p *Policy) { p.Breaker = b } }
	throttle := func(s Throttle) func(*Policy) { return func(p *Policy) { p.Throttle = s } }
	limits := func(l Limit) func(*Policy) { return func(p *Policy) { p.Limit = l } }
	window := func(b Budget) Budget { b.Kind = BudgetWindow; return b }
	flight := func(b Budget) Budget { b.Kind = BudgetConcurrency; return b }
	for _, row := range []struct {
		set  func(*Policy)
		want string
	}{
		{budget(Budget{Kind: 9}), "budget.kind=9, want tokens, window or concurrency"},
		{budget(Budget{Deposit: 1, On: 9}), "budget.on=9, want call or success"},
		{budget(Budget{Deposit: 1, For: 9}), "budget.for=9, want both, retries or hedges"},
		{budget(flight(Budget{MinConcurrency: -1})), "budget.min=-1, want 0 to 2147483647"},
		{budget(window(Budget{Deposit: 1, Window: 2 * time.Hour})), "budget.window=2h0m0s, want at most 1h0m0s"},
		{budget(Budget{Deposit: 1, Cost: -1}), "budget.cost=-1, want 0 or more"},
		{budget(Budget{Deposit: 1, CostTimeout: math.NaN()}), "budget.cost-timeout=NaN, want 0 or more"},
		{budget(Budget{Deposit: 1, CostThrottled: math.Inf(1)}), "budget.cost-throttled=+Inf, want at most"},
		{budget(Budget{Deposit: 1, FailureCost: 1e-9}), "budget.failure-cost=1e-09, want 0 or at least a millionth"},
		{budget(Budget{Refund: true}), "budget.refund=true says nothing without budget or budget.capacity"},
		{budget(Budget{AtFire: true}), "budget.charge=fire says nothing without budget or budget.capacity"},
		{budget(Budget{Deposit: 1, MinRate: 10}), "budget.min-rate=10 says nothing of budget.kind=tokens"},
		{budget(Budget{Deposit: 1, Window: time.Second}), "budget.window=1s says nothing of budget.kind=tokens"},
		{budget(Budget{Deposit: 1, MinConcurrency: 1}), "budget.min=1 says nothing of budget.kind=tokens"},
		{budget(window(Budget{Deposit: 1, Capacity: 5})), "budget.capacity=5 says nothing of budget.kind=window"},
		{budget(window(Budget{Deposit: 1, OpenAbove: 5})), "budget.open-above=5 says nothing of budget.kind=window"},
		{budget(flight(Budget{Deposit: 1, On: DepositSuccess})), "budget.on=success says nothing of budget.kind=concurrency"},
		{budget(flight(Budget{Deposit: 1, Cost: 2})), "budget.cost=2 says nothing of budget.kind=concurrency"},
		{budget(flight(Budget{Deposit: 1001})), "budget=1001, want at most 1000 in budget.kind=concurrency"},
		{budget(Budget{Capacity: 10, On: DepositSuccess}), "budget.on=success without budget"},
		{budget(Budget{Deposit: 1, Initial: 5, Empty: true}), "budget.initial=5 of a budget that starts empty"},
		{budget(Budget{Capacity: 10, Initial: 11}), "budget.initial=11 is above budget.capacity=10"},
		{budget(Budget{Capacity: 10, FailureCost: 1, Cost: 2}), "budget.cost=2 and budget.failure-cost=1 charge for one failure twice"},
		{budget(Budget{Capacity: 10, FailureCost: 1, Refund: true}), "budget.refund=true and budget.failure-cost=1"},
		{budget(Budget{Capacity: 4, Cost: 5}), "budget.capacity=4 is below the 5 tokens that each attempt of retry=2 costs"},
		{budget(Budget{Capacity: 9, Cost: 5, CostTimeout: 10}), "budget.capacity=9 is below budget.cost-timeout=10"},
		{budget(Budget{Capacity: 9, CostThrottled: 10}), "budget.capacity=9 is below budget.cost-throttled=10"},
		{budget(Budget{Capacity: 9, OpenAbove: 9}), "budget.open-above=9 is not below budget.capacity=9"},
		{budget(Budget{Capacity: 9, Empty: true}), "budget=0% and budget.initial=0 allow nothing of retry=2"},
		{budget(window(Budget{})), "budget=0% and budget.min-rate=0 allow nothing of retry=2"},
		{budget(window(Budget{MinRate: 0.01})), "budget.min-rate=0.01 in budget.window=10s is below the 1 token"},
		{budget(flight(Budget{})), "budget=0% and budget.min=0 allow nothing of retry=2"},
		{func(p *Policy) { p.Retry.Max, p.Budget = 0, Budget{Deposit: 1, For: BudgetRetries} }, "budget.for=retries limits nothing of hedge=50ms"},
		{func(p *Policy) { p.Hedge.Max, p.Budget = 0, Budget{Deposit: 1, For: BudgetHedges} }, "budget.for=hedges limits nothing of retry=2"},
		{func(p *Policy) { p.Hedge.Max, p.Hedge.Budget = 0, Budget{Deposit: 0.1} }, "hedge.budget=0.1 limits nothing without hedge"},
		{func(p *Policy) { p.Hedge.Budget = window(Budget{}) }, "hedge.budget=0% and hedge.budget.min-rate=0 allow nothing of hedge=50ms"},
		{func(p *Policy) { p.Hedge.Budget = Budget{Deposit: 1, For: BudgetRetries} }, "hedge.budget.for=retries: it is for hedges alone"},

		{breaker(Breaker{Kind: 9}), "breaker.kind=9, want consecutive, count, time or ema"},
		{breaker(Breaker{Failures: 1, Gates: 9}), "breaker.gates=9, want all or retries"},
		{breaker(Breaker{Kind: BreakerCount, FailureShare: 1.5}), "breaker=1.5, want a share"},
		{breaker(Breaker{Kind: BreakerCount, FailureShare: math.NaN()}), "breaker=NaN, want a share"},
		{breaker(Breaker{Kind: BreakerCount, Slow: 1, SlowShare: -1}), "breaker.slow-share=-1, want more than 0 and at most 1"},
		{breaker(Breaker{Failures: -1}), "breaker=-1, want 0 to 2147483647"},
		{breaker(Breaker{Kind: BreakerCount, FailureShare: 1, Calls: 10001}), "breaker.window=10001, want 0 to 10000"},
		{breaker(Breaker{Failures: 1, Open: -1}), "breaker.open=-1ns, want 0 to 24h0m0s"},
		{breaker(Breaker{Failures: 1, MaxWait: -1}), "breaker.max-wait=-1ns, want 0 to"},
		{breaker(Breaker{Failures: 1, FailureShare: 0.5}), "breaker=0.5 says nothing of breaker.kind=consecutive"},
		{breaker(Breaker{Failures: 1, Window: time.Second}), "breaker.window=1s says nothing of breaker.kind=consecutive"},
		{breaker(Breaker{Kind: BreakerCount, Failures: 3}), "breaker=3 says nothing of breaker.kind=count"},
		{breaker(Breaker{Kind: BreakerTime, FailureShare: 1, Calls: 3}), "breaker.window=3 says nothing of breaker.kind=time"},
		{breaker(Breaker{Kind: BreakerEMA, FailureShare: 1, Window: 3}), "breaker.window=3ns says nothing of breaker.kind=ema"},
		{breaker(Breaker{Open: time.Second}), "a breaker without a number of failures never opens"},
		{breaker(Breaker{Kind: BreakerEMA}), "breaker.kind=ema never opens"},
		{breaker(Breaker{Kind: BreakerCount, FailureShare: 1, SlowShare: 1}), "breaker.slow-share=1 needs breaker.slow"},
		{breaker(Breaker{Kind: BreakerCount, FailureShare: 1, MinCalls: 200}), "breaker.min-calls=200 is above breaker.window=100"},
		{breaker(Breaker{Failures: 1, OpenCap: time.Second}), "breaker.open=5s..1s: the first is above the cap"},
		{func(p *Policy) { *p = Policy{Breaker: Breaker{Failures: 1, Gates: GateRetries}} }, "breaker.gates=retries stops nothing without retry or hedge"},
		{breaker(Breaker{Failures: 1, Slow: 10 * time.Second}), "breaker.slow=10s is not below deadline=10s"},
		{func(p *Policy) {
			p.Breaker.Failures, p.Breaker.Slow, p.Timeouts[PartAttempt].After = 1, time.Second, time.Second
		}, "breaker.slow=1s is not below attempt-timeout=1s"},

		{throttle(Throttle{K: 0.5}), "throttle=0.5, want 1 or more"},
		{throttle(Throttle{K: math.Inf(1)}), "throttle=+Inf, want 1 or more"},
		{throttle(Throttle{K: 2, Pad: -1}), "throttle.pad=-1, want 0 or more"},
		{throttle(Throttle{K: 2, Window: 2 * time.Hour}), "throttle.window=2h0m0s, want at most 1h0m0s"},
		{throttle(Throttle{K: 2, Max: 1.5}), "throttle.max=1.5, want more than 0 and at most 1"},
		{throttle(Throttle{K: 2, MinRate: math.NaN()}), "throttle.min-rate=NaN, want 0 or more"},
		{throttle(Throttle{Max: 0.5}), "throttle.max=0.5 says nothing without throttle"},

		{limits(Limit{Max: -1}), "limit=-1, want 0 to 2147483647"},
		{limits(Limit{Min: 20, Max: 10}), "limit=20..10: the least is above the most"},
		{limits(Limit{Min: 5}), "limit=5..0: the least is above the most"},
		{limits(Limit{Initial: 5}), "limit.initial=5 says nothing without limit"},
		{limits(Limit{Max: 50, Backoff: 0.5}), "limit.backoff=0.5 says nothing of the fixed limit=50, want a range such as limit=5..50"},
		{limits(Limit{Min: 2, Max: 5, Initial: 1}), "limit.initial=1 lies outside limit=2..5"},
		{limits(Limit{Min: 2, Max: 5, Backoff: 1}), "limit.backoff=1, want more than 0 and below 1"},
		{limits(Limit{Min: 2, Max: 5, Timeout: -1}), "limit.timeout=-1ns is negative"},
		{limits(Limit{Min: 2, Max: 5, Timeout: time.Minute}), "limit.timeout=1m0s is not below deadline=10s"},
		{func(p *Policy) { p.Wire = 99 }, "deadline.wire=99, want the name of a header"},
	} {
		p := guarded(row.set)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v:\n got %v\nwant %s", p, err, row.want)
		}
	}
}

func TestGuardsAreShared(t *testing.T) {
	for _, row := range []struct {
		why    string
		p      Policy
		shared bool
		burnIn time.Duration
	}{
		{"plain", Policy{}, false, 0},
		{"a budget without anything to pay for", Policy{Budget: Budget{Deposit: 0.1}}, false, 0},
		{"tokens", Policy{Retry: Retry{Max: 1}, Budget: Budget{Deposit: 0.1}}, true, 10 * time.Second},
		{"a window", Policy{Retry: Retry{Max: 1}, Budget: Budget{Kind: BudgetWindow, Deposit: 0.1, Window: time.Minute}}, true, time.Minute},
		{"a budget of hedges", Policy{Hedge: Hedge{Max: 1, Budget: Budget{Kind: BudgetWindow, Deposit: 0.1}}}, true, 10 * time.Second},
		{"a consecutive breaker: how long it is open", Policy{Breaker: Breaker{Failures: 1}}, true, 5 * time.Second},
		{"a growing breaker", Policy{Breaker: Breaker{Failures: 1, OpenCap: time.Minute}}, true, time.Minute},
		{"a breaker by time", Policy{Breaker: Breaker{Kind: BreakerTime, FailureShare: 1}}, true, 10 * time.Second},
		{"a throttle", Policy{Throttle: Throttle{K: 2}}, true, 2 * time.Minute},
		{"a fixed limit is in flight alone", Policy{Limit: Limit{Max: 5}}, true, 0},
		{"an adaptive limit", Policy{Limit: Limit{Min: 1, Max: 5}}, true, 10 * time.Second},
		{"a choice by what is in flight", Policy{Picker: PickLeast}, true, 0},
		{"hedges off under overload", Policy{Hedge: Hedge{Max: 1, OffAbove: 5}}, true, 0},
		{"the longest counts", Policy{Throttle: Throttle{K: 2, Window: 20 * time.Second}, Hedge: Hedge{Max: 1, Quantile: 0.9}}, true, 30 * time.Second},
	} {
		if row.p.Shared() != row.shared || row.p.BurnIn() != row.burnIn {
			t.Errorf("%s: shared %v, burn-in %v, want %v, %v", row.why, row.p.Shared(), row.p.BurnIn(), row.shared, row.burnIn)
		}
	}
}
