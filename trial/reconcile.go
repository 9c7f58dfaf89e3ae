package trial

import (
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"latencylab/ledger"
	"latencylab/results"
	"latencylab/target"
)

// idlePoll is how often the target is asked whether it is idle.
const idlePoll = 20 * time.Millisecond

// settle waits until the target has nothing in flight of the run key, at most
// for the time to drain: work of callers that have left may go on there. It
// returns the last ledger that could be read.
func (m *measurement) settle(ctx context.Context, key string) (*target.Ledger, error) {
	tick := time.NewTicker(idlePoll)
	defer tick.Stop()
	enough := time.NewTimer(m.plan.Workload.Drain)
	defer enough.Stop()
	for {
		l, err := target.FetchLedger(ctx, m.ledgerURL, key)
		if err != nil {
			return nil, err
		}
		if r := l.Run(key); r == nil || r.InFlight == 0 {
			return l, nil
		}
		select {
		case <-enough.C:
			return l, nil
		case <-ctx.Done():
			return l, nil
		case <-tick.C:
		}
	}
}

// findTarget looks for the ledger of a target that is not embedded: the server
// is asked nothing unless its answers have named a replica of ours.
func (m *measurement) findTarget(ctx context.Context) (reason string) {
	seen := false
	for i := range m.lanes {
		seen = seen || m.lanes[i].target
	}
	if !seen {
		return results.ForeignServer
	}
	a, ok, err := target.FetchAnnouncement(ctx, m.site.Scheme()+"://"+m.reachedAt().String(), m.tlsOf(0))
	switch {
	case err != nil:
		return err.Error()
	case !ok:
		return "the server announces no ledger"
	}
	m.ledgerURL = a.Ledger
	seed := a.Seed
	m.targetSeed = &seed
	return ""
}

// collect reads the target's ledger when it is idle and holds it against the
// client's. digests[i] identifies the draws of policy i; "" when not known.
func (m *measurement) collect(ctx context.Context) (t *results.Target, digests []string, reason string) {
	digests = make([]string, len(m.lanes))
	if m.ledgerURL == "" {
		if reason := m.findTarget(ctx); reason != "" {
			return nil, digests, reason
		}
	}
	if m.lanes[0].key == "" && (m.child == nil || len(m.lanes) > 1) {
		return nil, digests, "attempts carried no run key, so the target cannot tell them from others"
	}
	var all *target.Ledger
	t = &results.Target{}
	for i := range m.lanes {
		l := &m.lanes[i]
		led, err := m.settle(ctx, l.key)
		if err != nil {
			return nil, digests, err.Error()
		}
		run := led.Run(l.key)
		if run != nil {
			digests[i] = hex(uint64(run.DrawsFirst))
		} else {
			run = &target.Run{Key: l.key}
		}
		if all == nil {
			all = led
		} else {
			all.Runs = append(all.Runs, led.Runs...)
			all.Connections, all.Other, all.Warnings = led.Connections, led.Other, led.Warnings
		}
		counts := ledger.Counts{}
		counts.Merge(&l.burn)
		counts.Merge(&l.data.Counts)
		rec := reconcile(m.plan.Workload.Policies[i].Name, &counts, run)
		if !rec.Holds && led.StartedAt.After(m.began) { // the clocks of two machines may differ
			return nil, digests, "the target was started anew during the run, and its ledger does not reach back"
		}
		t.Reconciliation = append(t.Reconciliation, rec)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, digests, err.Error()
	}
	t.Ledger = raw
	return t, digests, ""
}

// work says what became of the target's work for one policy. The client knows of
// the answers that it took how long they were worked on, the target of all
// attempts how they ended; so what the target answered and the client took for
// nothing was given up while the answer was on its way.
func work(c *ledger.Counts, run *target.Run) *results.Work {
	done := run.Work.Total()
	part := func(requests, ns uint64) results.WorkPart { return results.WorkPart{Requests: requests, NS: ns} }
	used := part(c.Work.Used.Attempts, uint64(c.Work.Used.Time))
	failed := part(c.Work.Failed.Attempts, uint64(c.Work.Failed.Time))
	w := &results.Work{Done: part(done.Requests, done.NS), Used: used, Wasted: part(0, 0), Holds: true, Reasons: []results.WorkReason{}}
	waste := func(p results.WorkPart, reason string) {
		if p.Requests == 0 {
			return
		}
		w.Wasted.Requests += p.Requests
		w.Wasted.NS += p.NS
		w.Reasons = append(w.Reasons, results.WorkReason{Reason: reason, WorkPart: p})
	}
	served := run.Work.Answered
	w.Holds = used.Requests+failed.Requests <= served.Requests && used.NS+failed.NS <= served.NS
	waste(failed, "answered with a failure")
	if w.Holds {
		waste(part(served.Requests-used.Requests-failed.Requests, served.NS-used.NS-failed.NS), "answered while the caller was giving it up, or with a broken answer")
	}
	for _, end := range []struct {
		target.Work
		reason string
	}{
		{run.Work.AfterLeft, "done when the caller had left"},
		{run.Work.Dropped, "stopped when the caller left"},
		{run.Work.Broken, "refused, reset or killed instead of an answer"},
	} {
		waste(part(end.Requests, end.NS), end.reason)
	}
	return w
}

// reconcile holds the client's counts of one policy, burn-in included, against
// the target's. Every attempt that the client sees through to a complete answer
// has arrived and was served with that status; an attempt that the client gave
// up or lost may have arrived or not, and may have been served or not.
func reconcile(name string, c *ledger.Counts, run *target.Run) results.Reconciliation {
	a := &c.Attempts
	answered := map[uint16]uint64{} // failures with a complete answer, by status
	failures := uint64(0)
	for _, e := range c.Errors {
		if e.Class == ledger.ClassStatus {
			answered[e.Status] += e.Count
			failures += e.Count
		}
	}
	broken := a.Failed - min(failures, a.Failed)
	lost := a.Cancelled + a.TimedOut + broken + a.Abandoned
	served := run.AnsweredTotal()
	wanted := served // answers that are no failure to the client
	r := results.Reconciliation{
		Policy: name, Sent: a.Sent, AtLeast: a.Sent - min(lost, a.Sent), Arrived: run.Arrived,
		Answered: a.OK + failures, Served: served,
	}
	r.Holds = r.AtLeast <= r.Arrived && r.Arrived <= r.Sent && r.Answered <= served && served-r.Answered <= lost
	for status, n := range answered { // order does not show: a conjunction and a sum
		r.Holds = r.Holds && n <= run.Answered[status]
		wanted -= min(wanted, run.Answered[status])
	}
	r.Holds = r.Holds && a.OK <= wanted
	differ := func(n uint64, reason string) {
		if n > 0 {
			r.Differences = append(r.Differences, results.Difference{Reason: reason, Count: n})
		}
	}
	differ(r.Sent-min(r.Arrived, r.Sent), "sent, but given up or lost before the target had read it")
	differ(r.Arrived-min(r.Sent, r.Arrived), "arrived, but never sent")
	differ(served-min(r.Answered, served), "served while the caller was giving it up")
	differ(r.Answered-min(served, r.Answered), "answered, but never served")
	differ(run.Broken, "arrived, and refused or reset instead of an answer")
	differ(run.AfterLeft, "arrived, but the caller had left when the answer was due")
	differ(run.Cancelled.Dropped, "arrived, and dropped when the caller left")
	differ(run.InFlight, "arrived, and still in flight at the target")
	r.Work = work(c, run)
	if !r.Work.Holds {
		r.Holds = false
		r.Differences = append(r.Differences, results.Difference{Reason: "answered with more work than the target did", Count: c.Work.Used.Attempts + c.Work.Failed.Attempts})
	}
	return r
}

// reachedAt is the first address of the first endpoint that connections were made
// to.
func (m *measurement) reachedAt() netip.AddrPort {
	addrs := m.site.Endpoints[0].Addrs
	if m.connected != nil {
		for k, n := range m.connected[0] {
			if n > 0 {
				return addrs[k]
			}
		}
	}
	return addrs[0]
}
