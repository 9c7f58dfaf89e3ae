package target

import (
	"fmt"

	"latencylab/engine"
	"latencylab/histo"
	"latencylab/ledger"
	"latencylab/policy"
)

// ServiceLedger is what was recorded of one service.
type ServiceLedger struct {
	Name     string   `json:"name"`
	Replicas []string `json:"replicas"` // addresses by number
	// Runs are ordered by key. A service passes the key of a request on with what it
	// calls for it.
	Runs []Run `json:"runs"`
	// Calls are what the service calls, in the order of its file.
	Calls []CallLedger `json:"calls"`
}

// CallLedger is what a service, all its replicas together, recorded of one of its
// calls as a client. At every instant
//
//	calls.begun = calls.ok + calls.failed + calls.unfinished + calls.in_flight
//	attempts.sent = attempts.first + attempts.retries + attempts.hedges
//	attempts.sent = attempts.ok + attempts.failed + attempts.timed_out + attempts.cancelled + attempts.in_flight
type CallLedger struct {
	Name     string            `json:"name"`
	To       string            `json:"to"` // a service or a URL
	Policy   string            `json:"policy"`
	Optional bool              `json:"optional"`
	LeftOut  uint64            `json:"left_out"` // answers that do without it
	Calls    CallCounts        `json:"calls"`
	Attempts AttemptCounts     `json:"attempts"`
	Sockets  ClientSockets     `json:"connections"`
	Refused  map[string]uint64 `json:"refused"` // attempts, by the rule that refused them
	// Errors are attempts that failed or timed out, by sort.
	Errors []CallError `json:"errors"`
	// Response is the time from when calls were due to their end, of those that
	// ended ok.
	Response Span `json:"response"`

	responses *histo.Histogram
	counts    ledger.Counts
}

// CallCounts counts calls: one for each copy that a request of the service needs.
type CallCounts struct {
	Begun uint64 `json:"begun"`
	OK    uint64 `json:"ok"`
	// Failed ended with a failure or at the deadline.
	Failed uint64 `json:"failed"`
	// Unfinished were given up: the caller had left, or they were not needed.
	Unfinished uint64 `json:"unfinished"`
	InFlight   uint64 `json:"in_flight"`
}

// AttemptCounts counts attempts by why they were sent and how they ended: see
// ledger.Attempts.
type AttemptCounts struct {
	Sent      uint64 `json:"sent"`
	First     uint64 `json:"first"`
	Retries   uint64 `json:"retries"`
	Hedges    uint64 `json:"hedges"`
	OK        uint64 `json:"ok"`
	Failed    uint64 `json:"failed"`
	TimedOut  uint64 `json:"timed_out"`
	Cancelled uint64 `json:"cancelled"`
	InFlight  uint64 `json:"in_flight"`
}

// ClientSockets counts the connections to what is called.
type ClientSockets struct {
	Opened         uint64 `json:"opened"`
	Reused         uint64 `json:"reused"` // attempts on a connection that had carried one before
	ClosedByCancel uint64 `json:"closed_by_cancel"`
}

// CallError counts errors of one sort.
type CallError struct {
	Class  string `json:"class"`
	Phase  string `json:"phase"`
	Status uint16 `json:"status,omitempty"` // 0: there was no answer
	Count  uint64 `json:"count"`
	Sample string `json:"sample"`
}

// Service returns the record of a service by its name, nil if there is none.
func (l *Ledger) Service(name string) *ServiceLedger {
	for i := range l.Services {
		if l.Services[i].Name == name {
			return &l.Services[i]
		}
	}
	return nil
}

// Total returns the sum over all runs, without spans.
func (s *ServiceLedger) Total() Run {
	var sum Run
	for i := range s.Runs {
		sum.Add(&s.Runs[i])
	}
	return sum
}

// Check returns an error that names the first identity that does not hold.
func (c *CallLedger) Check() error {
	k, a := &c.Calls, &c.Attempts
	if sum := k.OK + k.Failed + k.Unfinished + k.InFlight; sum != k.Begun {
		return fmt.Errorf("call %s: %d begun, but ok+failed+unfinished+in_flight = %d", c.Name, k.Begun, sum)
	}
	if sum := a.First + a.Retries + a.Hedges; sum != a.Sent {
		return fmt.Errorf("call %s: %d attempts sent, but first+retries+hedges = %d", c.Name, a.Sent, sum)
	}
	if sum := a.OK + a.Failed + a.TimedOut + a.Cancelled + a.InFlight; sum != a.Sent {
		return fmt.Errorf("call %s: %d attempts sent, but ok+failed+timed_out+cancelled+in_flight = %d", c.Name, a.Sent, sum)
	}
	if a.First > k.Begun {
		return fmt.Errorf("call %s: %d first attempts, but only %d calls begun", c.Name, a.First, k.Begun)
	}
	return nil
}

// serviceLedgers returns empty records of all services.
func (t *Target) serviceLedgers() []ServiceLedger {
	out := make([]ServiceLedger, len(t.nodes))
	for i, n := range t.nodes {
		out[i] = ServiceLedger{Name: n.Name, Runs: []Run{}, Calls: []CallLedger{}}
		for _, a := range t.addresses(n) {
			out[i].Replicas = append(out[i].Replicas, a.String())
		}
		for k := range n.Calls {
			c := &n.Calls[k]
			to := c.URL
			if c.To >= 0 {
				to = t.nodes[c.To].Name
			}
			out[i].Calls = append(out[i].Calls, CallLedger{
				Name: c.Name, To: to, Policy: c.Policy.Spec, Optional: c.Optional,
				Refused: map[string]uint64{}, Errors: []CallError{}, responses: histo.New(),
			})
		}
	}
	return out
}

// addTo adds what the loop has recorded of its calls.
func (h *hops) addTo(services []ServiceLedger) {
	for _, b := range h.books {
		b.addTo(&services[b.node.index].Calls[b.call])
	}
	for _, e := range h.edges {
		services[e.book.node.index].Calls[e.book.call].add(e.caller.Open())
	}
}

// add adds what is under way.
func (c *CallLedger) add(open engine.Open) {
	c.Calls.InFlight += uint64(open.Calls)
	c.Attempts.InFlight += uint64(open.Attempts)
}

func (b *book) addTo(c *CallLedger) {
	c.LeftOut += b.leftOut
	c.counts.Merge(&b.Counts)
	c.responses.Merge(b.OK)
	k, a, s := &c.counts.Calls, &c.counts.Attempts, &c.counts.Connections
	in := c.Calls.InFlight
	c.Calls = CallCounts{k.Scheduled, k.OK, k.Failed, k.Unfinished, in}
	in = c.Attempts.InFlight
	c.Attempts = AttemptCounts{a.Sent, a.First, a.Retries, a.Hedges, a.OK, a.Failed, a.TimedOut, a.Cancelled + a.Abandoned, in}
	c.Sockets = ClientSockets{s.Opened, s.Reused, s.ClosedByCancel}
	c.Refused = map[string]uint64{}
	for r, n := range c.counts.Refused {
		if n > 0 {
			c.Refused[policy.Rule(r).String()] = n
		}
	}
	c.Errors = c.Errors[:0]
	for i := range c.counts.Errors {
		e := &c.counts.Errors[i]
		c.Errors = append(c.Errors, CallError{e.Class.String(), e.Phase.String(), e.Status, e.Count, e.Sample})
	}
	var e histo.Encoder
	c.Response = spanOf(c.responses, &e)
}

// reset empties the books; what is under way counts as begun then.
func (h *hops) reset() {
	for _, b := range h.books {
		b.Reset()
		b.leftOut = 0
	}
	for _, e := range h.edges {
		e.caller.Recount()
	}
}
