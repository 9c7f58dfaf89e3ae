package workloads

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/policy"
)

func TestParseGuards(t *testing.T) {
	retries := func(b policy.Budget) policy.Policy {
		return policy.Policy{Retry: policy.Retry{Max: 2}, Budget: b}
	}
	breaker := func(b policy.Breaker) policy.Policy { return policy.Policy{Breaker: b} }
	for _, c := range []struct {
		why, spec string
		full      string // canonical spec; "" when it is the spec itself
		want      policy.Policy
	}{
		{"gRPC's throttling", "retry=2,budget=10%,budget.on=success,budget.capacity=10,budget.open-above=5,budget.failure-cost=1", "",
			retries(policy.Budget{Deposit: 0.1, On: policy.DepositSuccess, Capacity: 10, OpenAbove: 5, FailureCost: 1})},
		{"AWS standard mode", "retry=2,budget=100%,budget.on=success,budget.capacity=500,budget.cost=5,budget.cost-timeout=10,budget.cost-throttled=2.5,budget.refund=true", "",
			retries(policy.Budget{Deposit: 1, On: policy.DepositSuccess, Capacity: 500, Cost: 5, CostTimeout: 10, CostThrottled: 2.5, Refund: true})},
		{"refund alone means true", "retry=2,budget=10%,budget.refund", "retry=2,budget=10%,budget.refund=true", retries(policy.Budget{Deposit: 0.1, Refund: true})},
		{"Finagle's budget", "retry=2,budget=20%,budget.kind=window,budget.window=5s,budget.min-rate=10/s", "",
			retries(policy.Budget{Kind: policy.BudgetWindow, Deposit: 0.2, Window: 5 * time.Second, MinRate: 10})},
		{"a reserve by the minute", "retry=2,budget.kind=window,budget.min-rate=30/min", "retry=2,budget.kind=window,budget.min-rate=0.5/s",
			retries(policy.Budget{Kind: policy.BudgetWindow, MinRate: 0.5})},
		{"a window of the reserve alone", "retry=2,budget=0%,budget.kind=window,budget.min-rate=10/s", "retry=2,budget.kind=window,budget.min-rate=10/s",
			retries(policy.Budget{Kind: policy.BudgetWindow, MinRate: 10})},
		{"Envoy's budget", "retry=2,budget=20%,budget.kind=concurrency,budget.min=3,budget.for=retries,budget.charge=fire", "",
			retries(policy.Budget{Kind: policy.BudgetConcurrency, Deposit: 0.2, MinConcurrency: 3, For: policy.BudgetRetries, AtFire: true})},
		{"a bucket that starts empty", "retry=2,budget=10%,budget.initial=0", "", retries(policy.Budget{Deposit: 0.1, Empty: true})},
		{"a bucket that starts with some", "retry=2,budget=10%,budget.initial=7", "", retries(policy.Budget{Deposit: 0.1, Initial: 7})},
		{"a budget of hedges alone", "hedge=5ms,hedge.budget=1%", "",
			policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 5 * time.Millisecond, Budget: policy.Budget{Kind: policy.BudgetWindow, Deposit: 0.01}}}},

		{"failures in a row", "breaker=5", "", breaker(policy.Breaker{Failures: 5})},
		{"one failure", "breaker=1", "", breaker(policy.Breaker{Failures: 1})},
		{"a share counts attempts", "breaker=50%", "", breaker(policy.Breaker{Kind: policy.BreakerCount, FailureShare: 0.5})},
		{"a share as a fraction", "breaker=0.5", "breaker=50%", breaker(policy.Breaker{Kind: policy.BreakerCount, FailureShare: 0.5})},
		{"of how many", "breaker=100%,breaker.window=10,breaker.min-calls=5", "",
			breaker(policy.Breaker{Kind: policy.BreakerCount, FailureShare: 1, Calls: 10, MinCalls: 5})},
		{"a duration counts time", "breaker=50%,breaker.window=10s", "", breaker(policy.Breaker{Kind: policy.BreakerTime, FailureShare: 0.5, Window: 10 * time.Second})},
		{"in any order", "breaker.window=10s,breaker=50%", "breaker=50%,breaker.window=10s",
			breaker(policy.Breaker{Kind: policy.BreakerTime, FailureShare: 0.5, Window: 10 * time.Second})},
		{"time with its default", "breaker=50%,breaker.kind=time", "", breaker(policy.Breaker{Kind: policy.BreakerTime, FailureShare: 0.5})},
		{"a kind that is said and goes without", "breaker=50%,breaker.kind=count", "breaker=50%", breaker(policy.Breaker{Kind: policy.BreakerCount, FailureShare: 0.5})},
		{"an average", "breaker=20%,breaker.kind=ema,breaker.window=50", "", breaker(policy.Breaker{Kind: policy.BreakerEMA, FailureShare: 0.2, Calls: 50})},
		{"slow answers alone", "breaker.slow=1s,breaker.slow-share=50%", "",
			breaker(policy.Breaker{Kind: policy.BreakerCount, Slow: time.Second, SlowShare: 0.5})},
		{"slow answers in a row", "breaker=5,breaker.slow=1s", "", breaker(policy.Breaker{Failures: 5, Slow: time.Second})},
		{"all of half-open", "retry=2,breaker=5,breaker.open=1s..1m,breaker.permits=3,breaker.need=2,breaker.max-wait=10s,breaker.gates=retries", "",
			policy.Policy{Retry: policy.Retry{Max: 2}, Breaker: policy.Breaker{Failures: 5, Open: time.Second, OpenCap: time.Minute, Permits: 3, Need: 2,
				MaxWait: 10 * time.Second, Gates: policy.GateRetries}}},
		{"how long it is open", "breaker=5,breaker.open=30s", "", breaker(policy.Breaker{Failures: 5, Open: 30 * time.Second})},

		{"the throttle of the book", "throttle=2", "", policy.Policy{Throttle: policy.Throttle{K: 2}}},
		{"all of a throttle", "throttle=1.1,throttle.pad=10,throttle.window=1m,throttle.max=90%,throttle.min-rate=5/s", "",
			policy.Policy{Throttle: policy.Throttle{K: 1.1, Pad: 10, Window: time.Minute, Max: 0.9, MinRate: 5}}},
		{"a fixed limit", "limit=50", "", policy.Policy{Limit: policy.Limit{Max: 50}}},
		{"an adaptive limit", "limit=10..200,limit.initial=20,limit.backoff=50%,limit.timeout=1s", "",
			policy.Policy{Limit: policy.Limit{Min: 10, Max: 200, Initial: 20, Backoff: 0.5, Timeout: time.Second}}},
		{"the header of the deadline", "deadline=1s,deadline.wire=x-deadline-ms", "", policy.Policy{Deadline: time.Second, Wire: policy.WireDeadlineMS}},
	} {
		got, err := ParsePolicy("x:" + c.spec)
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		full := c.full
		if full == "" {
			full = c.spec
		}
		if diff := cmp.Diff(NamedPolicy{"x", full, c.want}, got); diff != "" {
			t.Errorf("%s: %s: (-want +got)\n%s", c.why, c.spec, diff)
		}
		again, err := ParsePolicy("x:" + got.Spec)
		if err != nil {
			t.Errorf("%s: read back: %v", c.why, err)
		} else if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("%s: read back: (-first +again)\n%s", c.why, diff)
		}
	}
}

func TestParseGuardsErrors(t *testing.T) {
	for _, c := range []struct{ why, spec, want string }{
		{"a rate needs its unit", "retry=1,budget.kind=window,budget.min-rate=10", `budget.min-rate = "10" has no unit, want a rate such as 10/s`},
		{"a budget that allows nothing", "retry=1,budget=0%,budget.kind=window", `budget=0% and budget.min-rate=0 allow nothing of retry=1`},
		{"the parts of a budget need something to pay for", "budget.cost=5", `budget.cost needs retry, attempts or hedge`},
		{"the parts of a budget need one", "retry=1,budget.cost=5", `budget.cost=5 says nothing without budget or budget.capacity`},
		{"more at the start than fits", "retry=1,budget.capacity=5,budget.initial=6", `budget.initial=6 is above budget.capacity=5`},
		{"a price above the capacity", "retry=1,budget=10%,budget.cost=500", `budget.capacity=100 is below the 500 tokens that each attempt of retry=1 costs`},
		{"a price of nothing", "retry=1,budget=10%,budget.cost=0", `budget.cost = "0", want from 0.000001 to 1000000000`},
		{"a word of another key", "retry=1,budget=10%,budget.kind=time", `budget.kind = "time", want tokens, window or concurrency`},
		{"a budget of hedges needs hedges", "retry=1,hedge.budget=1%", `hedge.budget needs hedge`},
		{"no hedges at all", "hedge=1ms,hedge.budget=0%", `hedge.budget = "0%", want more than 0%`},
		{"neither a number nor a share", "breaker=many", `breaker = "many", want a number of failures such as 5, or a share above 0% such as 50%`},
		{"a share of more than all", "breaker=150%", `breaker = "150%", want a number of failures such as 5, or a share above 0% such as 50%`},
		{"never", "breaker=0", `breaker = "0", want 1 or more`},
		{"a breaker's parts need one", "breaker.open=1s", `breaker.open needs breaker`},
		{"a window of failures in a row", "breaker=5,breaker.window=10", `breaker.window=10 says nothing of breaker.kind=consecutive`},
		{"a number of failures in time", "breaker=5,breaker.window=10s", `breaker=5 says nothing of breaker.kind=time`},
		{"a kind that contradicts", "breaker=50%,breaker.kind=consecutive", `breaker=0.5 says nothing of breaker.kind=consecutive`},
		{"a window of nothing", "breaker=50%,breaker.window=x", `breaker.window = "x", want a number of attempts such as 100, or a duration such as 10s`},
		{"a share of slow ones without slow", "breaker=50%,breaker.slow-share=10%", `breaker.slow-share needs breaker.slow`},
		{"a cap below the first", "breaker=5,breaker.open=5s..1s", `breaker.open = "5s..1s", want a cap of at least the first`},
		{"nothing to stop", "breaker=5,breaker.gates=retries", `breaker.gates=retries stops nothing without retry or hedge`},
		{"slower than the deadline", "breaker=5,breaker.slow=2s,deadline=1s", `breaker.slow=2s is not below deadline=1s`},
		{"a K that rejects what is well", "throttle=0.9", `throttle = "0.9", want from 1 to 1000000000`},
		{"a throttle's parts need one", "throttle.max=50%", `throttle.max needs throttle`},
		{"a limit upside down", "limit=20..10", `limit = "20..10", want a most of at least the least`},
		{"a range's parts need one", "limit=20,limit.backoff=50%", `limit.backoff needs a range such as limit=10..100`},
		{"a start outside", "limit=10..20,limit.initial=5", `limit.initial=5 lies outside limit=10..20`},
		{"a header that is not known", "deadline=1s,deadline.wire=x-timeout", `deadline.wire = "x-timeout", want grpc-timeout, x-deadline-ms, x-envoy-expected-rq-timeout-ms, connect-timeout-ms or x-request-deadline`},
		{"a header of no deadline", "deadline.wire=grpc-timeout", `deadline.wire needs deadline`},
	} {
		_, err := ParsePolicy(c.spec)
		if want := `policy "` + c.spec + `": ` + c.want; err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", c.why, err, want)
		}
	}
}
