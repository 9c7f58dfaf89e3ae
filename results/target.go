package results

import "encoding/json"

// Target is what the server recorded of the run, beside what the client did.
type Target struct {
	// Ledger is the target's own ledger, as it announced it.
	Ledger json.RawMessage `json:"ledger"`
	// Reconciliation holds one entry for each policy.
	Reconciliation []Reconciliation `json:"reconciliation"`
}

// MarshalJSON writes every key.
func (t Target) MarshalJSON() ([]byte, error) {
	if len(t.Ledger) == 0 {
		t.Ledger = json.RawMessage("null")
	}
	return encodeFields(t)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Target) UnmarshalJSON(b []byte) error { return decodeFields(b, t) }

// Reconciliation holds the client's and the target's counts of one policy's
// attempts against each other, burn-in included:
//
//	sent - (cancelled + timed out + failed before any answer) <= arrived <= sent
//
// and every answered attempt stands on both sides with its status.
type Reconciliation struct {
	Policy   string `json:"policy"`
	Sent     uint64 `json:"sent"`
	AtLeast  uint64 `json:"at_least"` // the left side of the rule
	Arrived  uint64 `json:"arrived"`
	Answered uint64 `json:"answered"` // complete answers that the client counts
	Served   uint64 `json:"served"`   // answers that the target sent to callers that were there
	Holds    bool   `json:"holds"`
	// Work is what became of the target's work; nil in Runs of before it was told.
	Work *Work `json:"work"`
	// Differences lists by reason what one side has and the other has not.
	Differences []Difference `json:"differences"`
}

// MarshalJSON writes every key.
func (r Reconciliation) MarshalJSON() ([]byte, error) { return encodeFields(r) }

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Reconciliation) UnmarshalJSON(b []byte) error { return decodeFields(b, r) }

// Work is the target's work on one policy's attempts that have ended, and what of
// it the client used, burn-in included: done = used + wasted, and wasted is the
// sum of the reasons, in requests and in time. An attempt counts when the target
// worked on it; what was shed or waited in vain took no work.
type Work struct {
	Done WorkPart `json:"done"`
	// Used are the attempts whose answers ended their calls ok.
	Used   WorkPart `json:"used"`
	Wasted WorkPart `json:"wasted"`
	// Reasons lists the wasted work by what became of it.
	Reasons []WorkReason `json:"reasons"`
	// Holds is false when the client has taken answers with more work than the
	// target did; done = used + wasted is then not so.
	Holds bool `json:"holds"`
}

// MarshalJSON writes every key.
func (w Work) MarshalJSON() ([]byte, error) { return encodeFields(w) }

// UnmarshalJSON reads what MarshalJSON writes.
func (w *Work) UnmarshalJSON(b []byte) error { return decodeFields(b, w) }

// WorkPart is a part of the work.
type WorkPart struct {
	Requests uint64 `json:"requests"`
	NS       uint64 `json:"ns"` // time worked
}

// WorkReason is work that was wasted for one reason.
type WorkReason struct {
	Reason string `json:"reason"`
	WorkPart
}

// Difference is a number of attempts that differ for one reason.
type Difference struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}
