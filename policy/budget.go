package policy

import (
	"math"
	"time"

	"latencylab/clock"
)

// Budget limits the further attempts of all calls of a client together, so that
// retries and hedges do not multiply the load on a service that fails. A budget
// never makes an attempt wait: what it cannot pay for is not sent.
//
// The zero Budget does not limit. Four families of clients are settings of it:
//
//	a bucket that calls fill   Deposit .1, Capacity 100         (SRE book ch. 21: retries of 10 %)
//	gRPC retryThrottling       Capacity n, OpenAbove n/2, Deposit ratio on success, FailureCost 1
//	AWS standard mode          Capacity 500, Cost 5, CostTimeout 10, Deposit 1 on success, Refund
//	Finagle RetryBudget        BudgetWindow, Deposit .2, MinRate 10
//	Envoy retry_budget         BudgetConcurrency, Deposit .2, MinConcurrency 3
type Budget struct {
	// Kind says what is limited. The fields below name the kinds they are for;
	// Validate refuses them with another one.
	Kind BudgetKind
	// Deposit is what a call adds, in tokens: 0.1 is a budget of 10 %. In
	// BudgetConcurrency it is the share of the calls in flight that may be
	// further attempts. A BudgetTokens with Deposit 0 and Capacity 0 does not
	// limit; in the other kinds 0 leaves the reserve alone.
	Deposit float64
	// On says which calls add the Deposit. Tokens and window.
	On BudgetOn
	// Capacity bounds the tokens held. 0 means 100 when Deposit is set. Tokens.
	Capacity float64
	// Initial is the number of tokens held at the start, at most Capacity. 0
	// means Capacity, unless Empty says that it is none. Tokens.
	Initial float64
	// Empty starts without a token. Tokens.
	Empty bool
	// OpenAbove refuses while no more than that many tokens are held, in
	// tokens, whatever the cost. gRPC's retryThrottling has half the capacity
	// (gRFC A6). 0 asks for the cost alone. Tokens.
	OpenAbove float64
	// Cost is what a further attempt takes, in tokens. 0 means 1, and nothing
	// when FailureCost is set. Tokens and window.
	Cost float64
	// CostTimeout is the cost after an attempt that timed out, and
	// CostThrottled after an answer 429 or 503. 0 means Cost. Tokens and window.
	CostTimeout, CostThrottled float64
	// FailureCost is what each retryable failure takes, in tokens, whether or
	// not it is retried; what the bucket does not hold is let off. 0 means
	// nothing. Tokens.
	FailureCost float64
	// Refund gives the cost of the last further attempt back when the call ends
	// with an answer that is not retryable. Of a wanted one it stands instead of
	// the Deposit. Tokens.
	Refund bool
	// Window is how far back BudgetWindow looks, in ten parts. 0 means 10 s.
	Window time.Duration
	// MinRate is the number of further attempts a second that are allowed
	// whatever the calls; those of one Window may come at once. 0 means none.
	// Window.
	MinRate float64
	// MinConcurrency is the number of further attempts that may be open at once
	// whatever the calls in flight. 0 means none. Concurrency.
	MinConcurrency int
	// For says which attempts pay.
	For BudgetFor
	// AtFire charges a retry when it is sent, not when it is scheduled. A retry
	// that is refused then has waited for nothing, and one that is scheduled
	// may not be sent; but what waits holds nothing.
	AtFire bool
}

// BudgetKind is what a budget limits.
type BudgetKind uint8

const (
	// BudgetTokens holds tokens up to a capacity until they are spent (gRPC, AWS SDKs).
	BudgetTokens BudgetKind = iota
	// BudgetWindow weighs the calls of the last Window against the further
	// attempts in it; both are forgotten with it (Finagle's RetryBudget, tower's
	// TpsBudget, Linkerd).
	BudgetWindow
	// BudgetConcurrency weighs the further attempts that are open or wait for
	// their backoff against the calls in flight that do not wait for one
	// (Envoy's retry_budget, failsafe-go).
	BudgetConcurrency
)

// BudgetOn is which calls bring the deposit.
type BudgetOn uint8

const (
	DepositCall    BudgetOn = iota // each call, when it begins
	DepositSuccess                 // each call that succeeds, at its end
)

// BudgetFor is which attempts a budget is for.
type BudgetFor uint8

const (
	BudgetBoth    BudgetFor = iota // retries and hedges
	BudgetRetries                  // retries alone; hedges are free
	BudgetHedges                   // hedges alone; retries are free
)

// cause is what a further attempt follows, as far as its cost depends on it. A
// hedge, which follows nothing, has causeFailure.
type cause uint8

const (
	causeFailure   cause = iota // a broken connection, or an answer that is none of the following
	causeTimeout                // the attempt timed out
	causeThrottled              // 429 or 503
	causes
)

const (
	// token is one token in the unit that is counted in: whole micro-tokens, so
	// that sums are exact and in any order.
	token = 1_000_000
	// maxTokens bounds every number of tokens; sums of two stay far inside an int64.
	maxTokens = 1e12
	// maxShare bounds Deposit where it is a share of calls.
	maxShare = 1000
	// maxPart bounds what one part of a window adds up to, in micro-tokens.
	maxPart = math.MaxInt64 / 32
	// defaultBudgetWindow is Finagle's ttl.
	defaultBudgetWindow = 10 * time.Second
	// defaultCapacity stands for Budget.Capacity 0, in tokens.
	defaultCapacity = 100
)

// purse is the state of one Budget. The zero purse does not limit.
//
// Each granted attempt is told once as sent and once as ended, or as dropped
// when it was never sent; a call is told once as begun and once as over.
type purse struct {
	limited bool
	kind    BudgetKind
	on      BudgetOn
	refunds bool
	pays    [Kinds]bool

	tokens   int64 // held, in micro-tokens; of a window below 0 when deposits left it before what they paid for
	deposit  int64 // added by each call, in micro-tokens; concurrency: the share in millionths
	capacity int64 // in micro-tokens; tokens kind
	above    int64 // micro-tokens that must remain unspent for anything to be granted
	cost     [causes]int64
	failure  int64 // cost of a failure, in micro-tokens

	slide slider
	parts [windowSlots]int64 // deposits less withdrawals, in micro-tokens

	least   int64 // further attempts always allowed at once
	calls   int64 // calls in flight
	waiting int64 // further attempts granted and not sent
	active  int64 // further attempts granted and not ended
}

func newPurse(b Budget) purse {
	if !b.limits() {
		return purse{}
	}
	b = b.own()
	p := purse{
		limited: true, kind: b.Kind, on: b.On, refunds: b.Refund,
		deposit: microTokens(b.Deposit),
		above:   microTokens(b.OpenAbove),
		failure: microTokens(b.FailureCost),
	}
	p.pays[Retried] = b.For != BudgetHedges
	p.pays[Hedged] = b.For != BudgetRetries
	for c := range causes {
		p.cost[c] = microTokens(b.costOf(c))
	}
	switch b.Kind {
	case BudgetTokens:
		p.capacity = microTokens(b.capacity())
		p.tokens = p.capacity
		if b.Empty {
			p.tokens = 0
		} else if b.Initial > 0 {
			p.tokens = min(microTokens(b.Initial), p.capacity)
		}
	case BudgetWindow:
		p.deposit = min(p.deposit, maxShare*token)
		p.slide = newSlider(b.window())
		p.tokens = microTokens(b.reserve())
	default:
		p.deposit = min(p.deposit, maxShare*token)
		p.least = int64(min(max(b.MinConcurrency, 0), math.MaxInt32))
	}
	return p
}

// call reports that a call begins.
func (b *purse) call(now clock.Time) {
	if !b.limited {
		return
	}
	b.calls++
	if b.on == DepositCall {
		b.put(b.deposit, now)
	}
}

// over reports that a call has ended, with whatever outcome.
func (b *purse) over() { b.calls = max(b.calls-1, 0) }

// take asks for one more attempt of kind k after cause c. ok is false when the
// budget does not allow it; nothing is taken then. cost is what was taken, in
// micro-tokens, to be told again to refund or succeeded; 0 when the attempt is
// free.
func (b *purse) take(k Kind, c cause, now clock.Time) (cost int64, ok bool) {
	if !b.limited || !b.pays[k] {
		return 0, true
	}
	switch b.kind {
	case BudgetConcurrency:
		if !b.room() {
			return 0, false
		}
		b.active++
		b.waiting++
		return 0, true
	case BudgetWindow:
		b.turn(now)
	}
	cost = b.cost[c]
	if b.tokens < cost || b.tokens <= b.above {
		return 0, false
	}
	b.add(-cost)
	return cost, true
}

// sent reports that an attempt that take granted goes out.
func (b *purse) sent(k Kind) {
	if b.counts(k) {
		b.waiting = max(b.waiting-1, 0)
	}
}

// ended reports that an attempt that was told as sent has ended, with whatever
// outcome.
func (b *purse) ended(k Kind) {
	if b.counts(k) {
		b.active = max(b.active-1, 0)
	}
}

// dropped reports that an attempt that take granted will not be sent.
func (b *purse) dropped(k Kind, cost int64, now clock.Time) {
	b.sent(k)
	b.ended(k)
	b.refund(cost, now)
}

// refund gives back what take returned for an attempt that did not go out. A
// window holds it from now on, so it may outlast the withdrawal by the time in
// between; an attempt that is charged when it is sent waits for nothing.
func (b *purse) refund(cost int64, now clock.Time) {
	if b.limited && cost > 0 {
		b.put(cost, now)
	}
}

// failed reports a retryable failure of an attempt.
func (b *purse) failed() {
	if b.failure > 0 {
		b.tokens = max(b.tokens-b.failure, 0)
	}
}

// succeeded reports that a call has succeeded. lastCost is what take returned
// for its last paid attempt, 0 when it had none.
func (b *purse) succeeded(lastCost int64, now clock.Time) {
	switch {
	case !b.limited:
	case b.refunds && lastCost > 0:
		b.put(lastCost, now)
	case b.on == DepositSuccess:
		b.put(b.deposit, now)
	}
}

// answered reports that a call has ended with an answer that is neither wanted
// nor retryable, such as a 404. The service is not overloaded then, so Refund
// gives back as for a success (aws-sdk-go-v2#3186: the token was kept).
func (b *purse) answered(lastCost int64, now clock.Time) {
	if b.refunds {
		b.refund(lastCost, now)
	}
}

// balance returns what could be spent at now, in micro-tokens; of a concurrency
// budget the attempts that it would grant, in millionths.
func (b *purse) balance(now clock.Time) int64 {
	switch {
	case !b.limited:
		return 0
	case b.kind == BudgetConcurrency:
		return max(max(b.deposit*b.base()/token, b.least)-b.active, 0) * token
	case b.kind == BudgetWindow:
		b.turn(now)
	}
	return max(b.tokens, 0)
}

// held is balance without looking at the time.
func (b *purse) held() int64 {
	if b.kind == BudgetConcurrency && b.limited {
		return b.balance(0)
	}
	return max(b.tokens, 0)
}

// base is the number of calls in flight that do not wait for a retry.
func (b *purse) base() int64 { return max(b.calls-b.waiting, 0) }

// room reports whether one more attempt may be active: the whole part of the
// share is the limit, as in Envoy's RetryBudgetImpl (resource_manager_impl.h).
func (b *purse) room() bool {
	return b.active < b.least || b.active < b.deposit*b.base()/token
}

// counts reports whether attempts of kind k are counted while they are active.
func (b *purse) counts(k Kind) bool {
	return b.limited && b.kind == BudgetConcurrency && b.pays[k]
}

// put adds n micro-tokens.
func (b *purse) put(n int64, now clock.Time) {
	switch b.kind {
	case BudgetTokens:
		b.tokens = min(b.tokens+n, b.capacity)
	case BudgetWindow:
		b.turn(now)
		b.add(n)
	}
}

// add changes what is held; of a window, in its current part.
func (b *purse) add(n int64) {
	if b.kind == BudgetWindow {
		part := &b.parts[b.slide.slot]
		was := *part
		*part = min(max(was+n, -maxPart), maxPart)
		n = *part - was
	}
	b.tokens += n
}

// turn forgets the parts that have left the window at now.
func (b *purse) turn(now clock.Time) {
	for n := b.slide.turn(now); n > 0; n-- {
		i := b.slide.next()
		b.tokens -= b.parts[i]
		b.parts[i] = 0
	}
}

// funds are the budgets of a client: the one of its policy, and one that hedges
// alone pay as well (Hedge.Budget).
type funds struct {
	purse
	hedges purse
}

func newFunds(p *Policy) funds {
	return funds{purse: newPurse(p.Budget), hedges: newPurse(p.Hedge.Budget)}
}

func (f *funds) call(now clock.Time) {
	f.purse.call(now)
	f.hedges.call(now)
}

func (f *funds) over() {
	f.purse.over()
	f.hedges.over()
}

// take pays from both budgets or from none. cost is that of the policy's own.
// The cause of a hedge does not matter.
func (f *funds) take(k Kind, c cause, now clock.Time) (cost int64, ok bool) {
	var own int64
	if k == Hedged {
		c = causeFailure
		if own, ok = f.hedges.take(k, c, now); !ok {
			return 0, false
		}
	}
	if cost, ok = f.purse.take(k, c, now); !ok && k == Hedged {
		f.hedges.dropped(k, own, now)
	}
	return cost, ok
}

func (f *funds) sent(k Kind) {
	f.purse.sent(k)
	if k == Hedged {
		f.hedges.sent(k)
	}
}

func (f *funds) ended(k Kind) {
	f.purse.ended(k)
	if k == Hedged {
		f.hedges.ended(k)
	}
}

func (f *funds) dropped(k Kind, cost int64, now clock.Time) {
	f.sent(k)
	f.ended(k)
	f.refund(k, cost, now)
}

// refund gives back what an attempt of kind k took from both.
func (f *funds) refund(k Kind, cost int64, now clock.Time) {
	f.purse.refund(cost, now)
	if k == Hedged && f.hedges.kind != BudgetConcurrency {
		f.hedges.refund(f.hedges.cost[causeFailure], now)
	}
}

func (f *funds) failed() {
	f.purse.failed()
	f.hedges.failed()
}

func (f *funds) succeeded(lastCost int64, now clock.Time) {
	f.purse.succeeded(lastCost, now)
	f.hedges.succeeded(0, now)
}

func (f *funds) answered(lastCost int64, now clock.Time) { f.purse.answered(lastCost, now) }

// microTokens converts tokens to micro-tokens, to the nearest. What is negative
// or not a number is 0.
func microTokens(t float64) int64 {
	if !(t > 0) {
		return 0
	}
	return int64(math.Round(min(t, maxTokens) * token))
}

// limits reports whether b limits anything.
func (b Budget) limits() bool { return b.Kind != BudgetTokens || b.Deposit != 0 || b.Capacity != 0 }

// capacity returns the capacity with its default, in tokens.
func (b Budget) capacity() float64 {
	if b.Capacity == 0 {
		return defaultCapacity
	}
	return b.Capacity
}

// window returns the window with its default.
func (b Budget) window() time.Duration {
	if b.Window <= 0 {
		return defaultBudgetWindow
	}
	return min(b.Window, maxWindow)
}

// reserve returns what MinRate allows in one window, in tokens.
func (b Budget) reserve() float64 { return float64(b.MinRate * b.window().Seconds()) }

// own returns b without the fields that are not for its kind.
func (b Budget) own() Budget {
	if b.Kind != BudgetTokens {
		b.Capacity, b.Initial, b.Empty, b.OpenAbove, b.FailureCost, b.Refund = 0, 0, false, 0, 0, false
	}
	if b.Kind == BudgetConcurrency {
		b.On, b.Cost, b.CostTimeout, b.CostThrottled = DepositCall, 0, 0, 0
	}
	return b
}

// costOf returns what an attempt after c costs, in tokens.
func (b Budget) costOf(c cause) float64 {
	switch {
	case c == causeTimeout && b.CostTimeout != 0:
		return b.CostTimeout
	case c == causeThrottled && b.CostThrottled != 0:
		return b.CostThrottled
	case b.Cost != 0:
		return b.Cost
	case b.FailureCost != 0:
		return 0
	}
	return 1
}
