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
	// Differences lists by reason what one side has and the other has not.
	Differences []Difference `json:"differences"`
}

// MarshalJSON writes every key.
func (r Reconciliation) MarshalJSON() ([]byte, error) { return encodeFields(r) }

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Reconciliation) UnmarshalJSON(b []byte) error { return decodeFields(b, r) }

// Difference is a number of attempts that differ for one reason.
type Difference struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}
