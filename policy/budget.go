package policy

import "math"

// token is one token in the unit that a bucket counts in: whole micro-tokens,
// so that deposits add up exactly and in any order.
const token = 1_000_000

// maxTokens bounds what a bucket can hold and one deposit, in tokens; sums of
// two such numbers stay far inside an int64.
const maxTokens = 1e12

// budget is a token bucket that retries and hedges pay from. The zero budget
// does not limit.
type budget struct {
	limited  bool
	tokens   int64 // held, in micro-tokens, 0 … capacity
	deposit  int64 // added by each call, in micro-tokens
	capacity int64 // in micro-tokens
}

func newBudget(b Budget) budget {
	if !b.limits() {
		return budget{}
	}
	n := budget{limited: true, deposit: microTokens(b.Deposit), capacity: microTokens(b.capacity())}
	n.tokens = n.capacity
	return n
}

// microTokens converts tokens to micro-tokens, to the nearest. What is negative
// or not a number is 0.
func microTokens(t float64) int64 {
	if !(t > 0) {
		return 0
	}
	return int64(math.Round(min(t, maxTokens) * token))
}

// put adds what one call brings.
func (b *budget) put() { b.tokens = min(b.tokens+b.deposit, b.capacity) }

// take pays for one attempt. It reports whether the bucket held a token.
func (b *budget) take() bool {
	if !b.limited {
		return true
	}
	if b.tokens < token {
		return false
	}
	b.tokens -= token
	return true
}

// refund gives back the token of an attempt that was paid for and never sent.
func (b *budget) refund() {
	if b.limited {
		b.tokens = min(b.tokens+token, b.capacity)
	}
}

// limits reports whether b limits anything.
func (b Budget) limits() bool { return b.Deposit != 0 || b.Capacity != 0 }

// capacity returns the capacity with its default, in tokens.
func (b Budget) capacity() float64 {
	if b.Capacity == 0 {
		return 100
	}
	return b.Capacity
}
