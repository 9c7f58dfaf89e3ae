package policy

// budget is the purse of a client that charges retries and hedges alike, one
// token each, however they came about.
type budget struct{ purse }

func newBudget(b Budget) budget { return budget{newPurse(b)} }

// put adds what one call brings.
func (b *budget) put() { b.purse.put(b.deposit, 0) }

// take pays for one attempt. It reports whether the bucket held a token.
func (b *budget) take() bool {
	_, ok := b.purse.take(Retried, causeFailure, 0)
	return ok
}

// refund gives back the token of an attempt that was paid for and never sent.
func (b *budget) refund() {
	b.purse.refund(token, 0)
}
