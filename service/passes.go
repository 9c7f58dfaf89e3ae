package service

// Passes reports whether a request that arrives comes through at once and well:
// one replica that takes no time, any number of requests, and never fails. What
// it does about deadlines and callers that leave does not matter then.
func (sp *Spec) Passes() bool {
	return sp.Servers() == 1 && sp.Time.IsZero() && sp.Slow.Share == 0 && sp.Slots == 0 && sp.Capacity.Per == 0 &&
		len(sp.Status) == 0 && sp.Faults == (Faults{}) && len(sp.Script) == 0 && len(sp.Outages) == 0 &&
		len(sp.Stalls) == 0 && len(sp.Ramps) == 0 && len(sp.Each) == 0
}
