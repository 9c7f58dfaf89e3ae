package sim

import "latencylab/policy"

// ties reports whether the servers of copies of the call tell each other when
// one starts.
func (w *world) ties(c *call) bool {
	return w.lanes[c.book>>1].policy.Cancel == policy.CancelTied
}

// served reports whether a server works on another copy of the call of a, which
// is then not begun: the news that one has started is there before it.
func (w *world) served(a *attempt) bool {
	c := &w.calls[a.call]
	if !w.ties(c) {
		return false
	}
	for slot, n := range c.slots {
		if n == 0 || slot == int(a.slot) {
			continue
		}
		o := &w.attempts[n]
		if o.job != 0 && w.servers[o.replica].Running(o.job) {
			return true
		}
	}
	return false
}

// tie drops the copies that wait of the call whose attempt a has just started,
// where the call's policy has its servers do so.
func (w *world) tie(a *attempt) {
	i, own := a.call, a.slot
	c := &w.calls[i]
	if !w.ties(c) {
		return
	}
	for slot, n := range c.slots {
		if n == 0 || slot == int(own) || w.attempts[n].job == 0 {
			continue
		}
		if o := &w.attempts[n]; w.servers[o.replica].Withdraw(o.job) {
			w.books.Withdrawn++
			w.withdraw(i, uint8(slot))
		}
	}
}

// withdraw takes the attempt in the slot, which no server knows, from the call.
func (w *world) withdraw(i uint32, slot uint8) {
	c := &w.calls[i]
	n := c.slots[slot]
	c.slots[slot] = 0
	kind := w.attempts[n].kind
	w.free(n)
	w.book[c.book].AttemptCancelled(kind)
	w.arm(i, c, c.k.Reply(slot, policy.Result{Disposition: policy.DispWithdrawn}, w.now).Timer)
}
