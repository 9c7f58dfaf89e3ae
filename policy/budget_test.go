package policy

import (
	"math"
	"testing"
	"time"

	"latencylab/clock"
)

// tokensOf returns what a budget holds, in tokens.
func tokensOf(b *purse, now clock.Time) float64 { return float64(b.balance(now)) / token }

// granted counts how many of n attempts the budget grants at now.
func granted(b *purse, k Kind, n int, now clock.Time) (count int) {
	for range n {
		if _, ok := b.take(k, causeFailure, now); ok {
			count++
		}
	}
	return count
}

func TestBudgetTokens(t *testing.T) {
	const now = clock.Time(0)
	tests := []struct {
		why  string
		b    Budget
		do   func(b *purse)
		want float64
	}{
		{"it starts full", Budget{Deposit: 0.1}, func(*purse) {}, 100},
		{"it starts with what is asked for", Budget{Capacity: 10, Initial: 4}, func(*purse) {}, 4},
		{"it starts with no more than it can hold", Budget{Capacity: 10, Initial: 40}, func(*purse) {}, 10},
		{"it starts empty", Budget{Capacity: 10, Empty: true}, func(*purse) {}, 0},
		{"deposits do not overflow it", Budget{Deposit: 1, Capacity: 2}, func(b *purse) { b.call(now) }, 2},
		{"ten calls bring one token, exactly", Budget{Deposit: 0.1, Empty: true}, func(b *purse) {
			for range 10 {
				b.call(now)
			}
		}, 1},
		{"a deposit on success is not made by the call", Budget{Deposit: 0.5, On: DepositSuccess, Empty: true}, func(b *purse) { b.call(now) }, 0},
		{"a deposit on success", Budget{Deposit: 0.5, On: DepositSuccess, Empty: true}, func(b *purse) { b.succeeded(0, now) }, 0.5},
		{"an attempt costs one token", Budget{Capacity: 10}, func(b *purse) { b.take(Retried, causeFailure, now) }, 9},
		{"an attempt after a timeout costs as others when nothing is said", Budget{Capacity: 10, Cost: 2}, func(b *purse) { b.take(Retried, causeTimeout, now) }, 8},
		{"an attempt after a timeout", Budget{Capacity: 10, Cost: 2, CostTimeout: 4}, func(b *purse) { b.take(Retried, causeTimeout, now) }, 6},
		{"an attempt after a 429", Budget{Capacity: 10, CostTimeout: 4, CostThrottled: 3}, func(b *purse) { b.take(Retried, causeThrottled, now) }, 7},
		{"what is refused takes nothing", Budget{Capacity: 10, Cost: 11}, func(b *purse) { b.take(Retried, causeFailure, now) }, 10},
		{"a first attempt is free", Budget{Capacity: 10}, func(b *purse) { b.take(First, causeFailure, now) }, 10},
		{"hedges are free in a budget of retries", Budget{Capacity: 10, For: BudgetRetries}, func(b *purse) { b.take(Hedged, causeFailure, now) }, 10},
		{"retries pay in a budget of retries", Budget{Capacity: 10, For: BudgetRetries}, func(b *purse) { b.take(Retried, causeFailure, now) }, 9},
		{"retries are free in a budget of hedges", Budget{Capacity: 10, For: BudgetHedges}, func(b *purse) { b.take(Retried, causeFailure, now) }, 10},
		{"a refund does not overflow it", Budget{Capacity: 10}, func(b *purse) { b.refund(5*token, now) }, 10},
		{"a failure is let off what is not there", Budget{Capacity: 1, Initial: 0.5, FailureCost: 1}, func(b *purse) { b.failed() }, 0},
		{"a resend costs nothing when its failure did", Budget{Capacity: 10, FailureCost: 1}, func(b *purse) {
			b.failed()
			b.take(Retried, causeFailure, now)
		}, 9},
		{"the zero budget holds nothing and grants everything", Budget{}, func(b *purse) {
			b.call(now)
			if granted(b, Retried, 1000, now) != 1000 {
				t.Error("the zero budget refuses")
			}
		}, 0},
	}
	for _, tt := range tests {
		b := newPurse(tt.b)
		tt.do(&b)
		if got := tokensOf(&b, now); got != tt.want {
			t.Errorf("%s: %v tokens, want %v", tt.why, got, tt.want)
		}
	}
}

// gRPC's retryThrottling (gRFC A6): maxTokens 10, tokenRatio .5. The throttle
// shuts at half, after five failures, and opens again above it.
func TestBudgetGRPC(t *testing.T) {
	b := newPurse(Budget{Capacity: 10, OpenAbove: 5, Deposit: 0.5, On: DepositSuccess, FailureCost: 1})
	for i := 1; i <= 7; i++ {
		b.failed()
		if _, ok := b.take(Retried, causeFailure, 0); ok != (i < 5) {
			t.Errorf("after %d failures: granted is %v", i, ok)
		}
	}
	// 3 tokens; 4 successes make 5, which is not above half; a fifth opens it.
	for i := 1; i <= 5; i++ {
		b.succeeded(0, 0)
		if _, ok := b.take(Hedged, causeFailure, 0); ok != (i == 5) {
			t.Errorf("after %d successes: granted is %v with %v tokens", i, ok, tokensOf(&b, 0))
		}
	}
}

// The AWS SDKs' standard mode: 500 tokens, 5 for a retry and 10 after a timeout,
// a success without retry brings 1, one after a retry brings back its cost.
func TestBudgetAWS(t *testing.T) {
	aws := Budget{Capacity: 500, Cost: 5, CostTimeout: 10, Deposit: 1, On: DepositSuccess, Refund: true}
	b := newPurse(aws)
	if n := granted(&b, Retried, 1000, 0); n != 100 {
		t.Errorf("%d retries at 5 tokens, want 100", n)
	}
	b.succeeded(0, 0)
	if got := tokensOf(&b, 0); got != 1 {
		t.Errorf("a success without a retry: %v tokens, want 1", got)
	}
	b.succeeded(10*token, 0)
	if got := tokensOf(&b, 0); got != 11 {
		t.Errorf("a success after a timeout: %v tokens, want 11", got)
	}
	b.answered(5*token, 0)
	if got := tokensOf(&b, 0); got != 16 {
		t.Errorf("a 404 after a retry must bring its cost back: %v tokens, want 16", got)
	}
	b.answered(0, 0)
	if got := tokensOf(&b, 0); got != 16 {
		t.Errorf("a 404 without a retry brings nothing: %v tokens, want 16", got)
	}
	plain := newPurse(Budget{Capacity: 10, Empty: true})
	plain.answered(5*token, 0)
	plain.succeeded(5*token, 0)
	if got := tokensOf(&plain, 0); got != 0 {
		t.Errorf("without refund: %v tokens, want 0", got)
	}
}

// Finagle's RetryBudget: a share of the calls of ten seconds, and a reserve of
// 10 a second, all of which may be spent at once. tower's TpsBudget cuts 1/share
// to a whole number, so that 60 % becomes 100 % and 30 % becomes 33 %.
func TestBudgetWindow(t *testing.T) {
	for _, share := range []float64{0.01, 0.2, 0.3, 0.6, 0.9, 1, 1.5} {
		b := newPurse(Budget{Kind: BudgetWindow, Deposit: share})
		for range 1000 {
			b.call(0)
		}
		if n := granted(&b, Retried, 3000, 0); n != int(math.Round(share*1000)) {
			t.Errorf("a share of %v grants %d for 1000 calls", share, n)
		}
	}
	b := newPurse(Budget{Kind: BudgetWindow, Deposit: 0.2, MinRate: 10})
	if n := granted(&b, Retried, 1000, 0); n != 100 {
		t.Errorf("the reserve grants %d at once, want 100", n)
	}
	if n := granted(&b, Retried, 1000, at(8*time.Second)); n != 0 {
		t.Errorf("the reserve grants %d more within the window", n)
	}
	if n := granted(&b, Retried, 1000, at(10*time.Second)); n != 100 {
		t.Errorf("the reserve grants %d when the withdrawals are forgotten, want 100", n)
	}
	only := newPurse(Budget{Kind: BudgetWindow, MinRate: 2, Window: 5 * time.Second})
	for range 1000 {
		only.call(0)
	}
	if n := granted(&only, Retried, 1000, 0); n != 10 {
		t.Errorf("a share of 0 grants %d, want the reserve of 10", n)
	}
}

// Deposits leave the window with their time, and so do withdrawals: what was
// paid for by calls that are forgotten is owed until it is forgotten too.
func TestBudgetWindowForgets(t *testing.T) {
	b := newPurse(Budget{Kind: BudgetWindow, Deposit: 0.5})
	for range 10 {
		b.call(0)
	}
	for _, row := range []struct {
		at   time.Duration
		take int
		want float64
	}{
		{0, 0, 5},
		{9 * time.Second, 3, 2},
		{9999 * ms, 0, 2},
		{10 * time.Second, 1, 0}, // 3 are owed
		{18999 * ms, 1, 0},
		{19 * time.Second, 1, 0}, // nothing was deposited since
		{time.Hour, 1, 0},
	} {
		granted(&b, Hedged, row.take, at(row.at))
		if got := tokensOf(&b, at(row.at)); got != row.want {
			t.Errorf("at %v after %d more: %v tokens, want %v", row.at, row.take, got, row.want)
		}
	}
	b.call(at(2 * time.Hour))
	b.call(at(2 * time.Hour))
	if got := tokensOf(&b, at(2*time.Hour)); got != 1 {
		t.Errorf("after a long pause: %v tokens, want 1", got)
	}
}

// Envoy's retry_budget: 20 %, at least 3 (envoy#9069: 25 active requests allow 5
// retries, 2 allow 3). A share of 100 % must allow the one call in flight its
// retry (envoy#30205), and what waits in its backoff is active as a retry and
// not as a call.
func TestBudgetConcurrency(t *testing.T) {
	envoy := Budget{Kind: BudgetConcurrency, Deposit: 0.2, MinConcurrency: 3}
	for _, row := range []struct {
		why   string
		b     Budget
		calls int
		fire  bool
		want  int
	}{
		{"a fifth of 25", envoy, 25, true, 5},
		{"a fifth of 29 is 5 whole ones", envoy, 29, true, 5},
		{"at least 3", envoy, 2, true, 3},
		{"at least 3 without any call", envoy, 0, true, 3},
		{"100 % of one call", Budget{Kind: BudgetConcurrency, Deposit: 1}, 1, true, 1},
		{"100 % of ten calls", Budget{Kind: BudgetConcurrency, Deposit: 1}, 10, true, 10},
		{"those that wait are not in the base: with 4 of 25 waiting it is a fifth of 21", envoy, 25, false, 4},
		{"100 % of ten calls: 5 wait, and 5 are left as the base", Budget{Kind: BudgetConcurrency, Deposit: 1}, 10, false, 5},
		{"a share of 0 and no minimum allow nothing", Budget{Kind: BudgetConcurrency}, 100, true, 0},
	} {
		b := newPurse(row.b)
		for range row.calls {
			b.call(0)
		}
		n := 0
		for range 100 {
			if _, ok := b.take(Retried, causeFailure, 0); ok {
				n++
				if row.fire {
					b.sent(Retried)
				}
			}
		}
		if n != row.want {
			t.Errorf("%s: %d granted, want %d", row.why, n, row.want)
		}
	}
}

// Every way in which a resend can end gives its place back.
func TestBudgetConcurrencyReturns(t *testing.T) {
	b := newPurse(Budget{Kind: BudgetConcurrency, MinConcurrency: 1})
	for _, end := range []struct {
		why string
		do  func(cost int64)
	}{
		{"sent and ended", func(int64) { b.sent(Hedged); b.ended(Hedged) }},
		{"planned and never sent", func(c int64) { b.dropped(Hedged, c, 0) }},
		{"sent without a connection", func(c int64) { b.sent(Hedged); b.ended(Hedged); b.refund(c, 0) }},
	} {
		cost, ok := b.take(Hedged, causeFailure, 0)
		if !ok {
			t.Fatalf("%s: refused", end.why)
		}
		if _, ok := b.take(Retried, causeFailure, 0); ok {
			t.Errorf("%s: a second one beside it", end.why)
		}
		end.do(cost)
		if b.active != 0 || b.waiting != 0 {
			t.Errorf("%s: %d active, %d waiting", end.why, b.active, b.waiting)
		}
	}
}

// A hedge pays from both budgets or from none: Finagle's BackupRequestFilter
// keeps what the first took when the second refuses.
func TestFundsPayTogether(t *testing.T) {
	p := Policy{Budget: Budget{Capacity: 2}, Hedge: Hedge{Budget: Budget{Kind: BudgetWindow, Deposit: 0.5}}}
	f := newFunds(&p)
	for range 10 {
		f.call(0)
	}
	state := func() [2]float64 { return [2]float64{tokensOf(&f.purse, 0), tokensOf(&f.hedges, 0)} }
	steps := []struct {
		why  string
		k    Kind
		ok   bool
		want [2]float64
	}{
		{"a hedge pays twice", Hedged, true, [2]float64{1, 4}},
		{"a retry pays once", Retried, true, [2]float64{0, 4}},
		{"a hedge that the policy's budget refuses keeps its own", Hedged, false, [2]float64{0, 4}},
		{"a retry that is refused", Retried, false, [2]float64{0, 4}},
	}
	for _, s := range steps {
		if _, ok := f.take(s.k, causeFailure, 0); ok != s.ok || state() != s.want {
			t.Errorf("%s: %v, %v tokens, want %v, %v", s.why, ok, state(), s.ok, s.want)
		}
	}
	f.refund(Hedged, token, 0)
	if want := ([2]float64{1, 5}); state() != want {
		t.Errorf("an unsent hedge is given back twice: %v, want %v", state(), want)
	}
	f.dropped(Retried, token, 0)
	if want := ([2]float64{2, 5}); state() != want {
		t.Errorf("a planned retry is given back once: %v, want %v", state(), want)
	}
	dear := newFunds(&Policy{Budget: Budget{Capacity: 10, CostTimeout: 9}, Hedge: Hedge{Budget: Budget{Capacity: 10, CostTimeout: 9}}})
	if cost, _ := dear.take(Hedged, causeTimeout, 0); cost != token {
		t.Errorf("a hedge beside one that timed out costs %d", cost)
	}
	dear.refund(Hedged, token, 0)
	if tokensOf(&dear.hedges, 0) != 10 || tokensOf(&dear.purse, 0) != 10 {
		t.Errorf("it is not given back whole: %v and %v tokens", tokensOf(&dear.purse, 0), tokensOf(&dear.hedges, 0))
	}
	own := newFunds(&Policy{Hedge: Hedge{Budget: Budget{Kind: BudgetConcurrency, MinConcurrency: 1}}})
	if cost, ok := own.take(Hedged, causeFailure, 0); !ok || cost != 0 {
		t.Errorf("a hedge with a place: %v", ok)
	}
	if _, ok := own.take(Hedged, causeFailure, 0); ok {
		t.Error("a second hedge with one place")
	}
	own.sent(Hedged)
	own.ended(Hedged)
	if _, ok := own.take(Hedged, causeFailure, 0); !ok {
		t.Error("the place was not given back")
	}
}

// budgetModel is a budget that remembers every deposit and withdrawal.
type budgetModel struct {
	b      Budget
	begun  bool
	origin clock.Time
	events []budgetEvent
}

type budgetEvent struct {
	slot   int64
	amount int64
}

func (m *budgetModel) slot(now clock.Time) int64 {
	if !m.begun {
		m.begun, m.origin = true, now
	}
	return int64(now.Sub(m.origin) / max(1, m.b.window()/windowSlots))
}

func (m *budgetModel) held(now clock.Time) int64 {
	sum := microTokens(m.b.reserve())
	for _, e := range m.events {
		if e.slot > m.slot(now)-windowSlots {
			sum += e.amount
		}
	}
	return sum
}

// runBudget drives a budget at random and holds it against what it must keep.
func (t *tape) runBudget(tb testing.TB) {
	b := Budget{
		Kind:    choose(t, BudgetTokens, BudgetWindow, BudgetConcurrency),
		Deposit: choose(t, 0, 0.1, 0.6, 1, 1e-7, 1e300, math.NaN(), -1), On: choose(t, DepositCall, DepositSuccess),
		Capacity: choose(t, 0, 1, 3, 500, 0.5, math.Inf(1), -1), Initial: choose(t, 0, 1, 1e9, -1, math.NaN()), Empty: t.byte()&3 == 0,
		OpenAbove: choose(t, 0, 2, 1e300), Cost: choose(t, 0, 5, 0.25, 1e300), CostTimeout: choose(t, 0, 10.0), CostThrottled: choose(t, 0, 3.0),
		FailureCost: choose(t, 0, 0, 1, 1e300), Refund: t.byte()&1 != 0,
		Window: choose(t, 0, time.Second, 7, math.MaxInt64, -1), MinRate: choose(t, 0, 10, 0.1, 1e300, math.NaN(), -5),
		MinConcurrency: choose(t, 0, 3, -1, math.MaxInt), For: choose(t, BudgetBoth, BudgetRetries, BudgetHedges),
	}
	p := newPurse(b)
	model := budgetModel{b: b}
	exact := b.Kind == BudgetWindow && b.Deposit <= 1 && b.Cost <= 5 && b.MinRate <= 10
	now := choose(t, 0, at(-time.Second), clock.Never-at(time.Minute))
	type resend struct {
		k    Kind
		cost int64
	}
	var planned, open []resend
	for len(t.b) > 0 {
		k := choose(t, Retried, Hedged)
		switch t.byte() % 8 {
		case 0, 1:
			p.call(now)
			if p.on == DepositCall {
				model.events = append(model.events, budgetEvent{model.slot(now), p.deposit})
			}
		case 2, 3:
			before := p.balance(now)
			cost, ok := p.take(k, choose(t, causeFailure, causeTimeout, causeThrottled), now)
			if cost < 0 || !ok && (cost != 0 || p.balance(now) != before) {
				tb.Fatalf("%+v: refused and took %d of %d, left %d", b, cost, before, p.balance(now))
			}
			if ok {
				planned = append(planned, resend{k, cost})
				if cost > before {
					tb.Fatalf("%+v: took %d of %d", b, cost, before)
				}
				if cost > 0 {
					model.events = append(model.events, budgetEvent{model.slot(now), -cost})
				}
			}
		case 4:
			if n := len(planned); n > 0 {
				r := planned[n-1]
				planned = planned[:n-1]
				if t.byte()&1 == 0 {
					p.dropped(r.k, r.cost, now)
					if r.cost > 0 {
						model.events = append(model.events, budgetEvent{model.slot(now), r.cost})
					}
				} else {
					p.sent(r.k)
					open = append(open, r)
				}
			}
		case 5:
			if n := len(open); n > 0 {
				r := open[n-1]
				open = open[:n-1]
				p.ended(r.k)
				p.over()
			}
		case 6:
			if b.Kind != BudgetWindow {
				p.failed()
				p.answered(choose[int64](t, 0, token), now)
			}
		default:
			now = min(now.Add(max(t.span(), 0)), clock.Never-1)
		}
		if b.Kind == BudgetTokens && (p.tokens < 0 || p.tokens > p.capacity) {
			tb.Fatalf("%+v: %d held of %d", b, p.tokens, p.capacity)
		}
		if exact && p.limited && now < clock.Never/2 {
			if got, want := p.balance(now), max(model.held(now), 0); got != want {
				tb.Fatalf("%+v at %d: %d held, by account %d", b, now, got, want)
			}
		}
	}
	for _, r := range planned {
		p.dropped(r.k, r.cost, now)
	}
	for _, r := range open {
		p.ended(r.k)
	}
	if p.active != 0 || p.waiting != 0 {
		tb.Fatalf("%+v: %d active and %d waiting at the end", b, p.active, p.waiting)
	}
}

func FuzzBudget(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 2, 0, 4, 1, 0, 5})
	f.Add([]byte{1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 7, 6, 0, 2, 0, 0, 7, 9, 0, 2, 1})
	f.Add([]byte{2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 4, 1, 0, 5, 0, 2, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) <= 2048 {
			(&tape{in}).runBudget(t)
		}
	})
}

// randomTapes runs one fuzz target on fixed pseudo-random input.
func randomTapes(n int, length uint64, run func(*tape)) {
	x := uint64(1)
	for range n {
		in := make([]byte, 20+x>>7%length)
		for i := range in {
			x = x*6364136223846793005 + 1442695040888963407
			in[i] = byte(x >> 56)
		}
		run(&tape{in})
	}
}

func TestBudgetRandom(t *testing.T) {
	randomTapes(20000, 200, func(tp *tape) { tp.runBudget(t) })
}

func BenchmarkBudget(b *testing.B) {
	for _, row := range []struct {
		name string
		b    Budget
	}{
		{"tokens", Budget{Deposit: 0.1}},
		{"window", Budget{Kind: BudgetWindow, Deposit: 0.2, MinRate: 10}},
		{"concurrency", Budget{Kind: BudgetConcurrency, Deposit: 0.2, MinConcurrency: 3}},
	} {
		b.Run(row.name, func(b *testing.B) {
			p := newPurse(row.b)
			b.ReportAllocs()
			now := clock.Time(0)
			for b.Loop() {
				now = now.Add(10 * time.Microsecond)
				p.call(now)
				if _, ok := p.take(Retried, causeFailure, now); ok {
					p.sent(Retried)
					p.ended(Retried)
				}
				p.over()
			}
		})
	}
}
