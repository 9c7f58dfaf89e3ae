package results

import (
	"time"
)

// Schema names the format of a Run file.
const Schema = "latencylab.run/1"

// Modes of a Run. In closed loop a call is due when its user became free, so
// there is no schedule to be late against.
const (
	Open   = "open"
	Closed = "closed"
)

// Drivers of a Run.
const (
	Sockets = "sockets" // real time
	Virtual = "virtual" // the simulator
)

// Run is one measurement: every policy that was driven, how they compare and
// what of it is valid.
//
// The caller fills it from top to bottom with the constructors of this package
// (NewPolicy, NewBlock, Compare) and calls Judge last. Figures that a driver
// does not know are left zero and written as null with a reason.
type Run struct {
	Schema  string `json:"schema"`
	Version string `json:"version"` // of the program
	Seed    uint64 `json:"seed"`
	// TargetSeed keys the target's draws; nil, with the reason, when it is not ours.
	TargetSeed   *uint64 `json:"target_seed"`
	NoTargetSeed string  `json:"target_seed_reason,omitempty"`
	Command      string  `json:"command"`
	// Marker is the value of the field Latencylab-Load of every request; "" when
	// there was none, for the reason in NoMarker where one was given.
	Marker     string    `json:"marker,omitempty"`
	NoMarker   string    `json:"marker_reason,omitempty"`
	StartedAt  time.Time `json:"started_at"`
	DurationNS int64     `json:"duration_ns"` // from start to end, burn-in and drains included
	Mode       string    `json:"mode"`        // Open or Closed
	Driver     string    `json:"driver"`      // Sockets or Virtual
	Clients    int       `json:"clients"`
	Loops      int       `json:"loops"` // the most that a policy ran on; see Policy.Loops
	// Interrupted says that the user ended the run early.
	Interrupted bool `json:"interrupted"`
	// Void says why no figure of the run may be relied on: it reached no server,
	// or ended before its plan by itself; "" when neither is so. A void run holds
	// no comparison.
	Void string `json:"void_reason,omitempty"`
	// Stopped is the rule that ended the run, which is void then; nil: none did.
	Stopped  *Stop    `json:"stopped,omitempty"`
	Warnings []string `json:"warnings"`
	// BestCase says that the service has no limit of capacity and that its
	// replicas are independent: nothing that a hedge costs can hurt there.
	BestCase       bool      `json:"best_case"`
	Host           Host      `json:"host"`
	Requested      Requested `json:"requested"`
	Achieved       Achieved  `json:"achieved"`
	ArrivalsDigest Text      `json:"arrivals_digest"` // hexadecimal
	DrawsDigest    Text      `json:"draws_digest"`    // hexadecimal; of the first policy
	// Names are the resolutions of the endpoints; none without sockets or with an
	// embedded target.
	Names       []Name       `json:"names,omitempty"`
	Workload    string       `json:"workload"` // resolved, as YAML that can be run again
	Policies    []Policy     `json:"policies"`
	Comparisons []Comparison `json:"comparisons"`
	// NoComparison says why Comparisons is empty; "" when nothing was to be compared.
	NoComparison string `json:"comparisons_reason,omitempty"`
	// Stages are those that were run beside or beyond the blocks, in order; none
	// when there were blocks alone.
	Stages []Stage `json:"stages"`
	// Runs is the spread over repetitions with other seeds; nil when there are none.
	Runs     *Runs   `json:"runs,omitempty"`
	Target   *Target `json:"target"`
	NoTarget string  `json:"target_reason,omitempty"` // why Target is nil
	Verdict  Verdict `json:"verdict"`
}

// MarshalJSON writes every key; an absent figure is null beside its reason.
func (r Run) MarshalJSON() ([]byte, error) {
	if r.Target == nil && r.NoTarget == "" {
		r.NoTarget = noLedger
	}
	if r.TargetSeed == nil && r.NoTargetSeed == "" {
		r.NoTargetSeed = "the target's draws are not ours"
	}
	return encodeFields(r)
}

// Host is the machine that the generator ran on.
type Host struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Kernel Text   `json:"kernel"`
	CPU    Text   `json:"cpu"`  // model name
	CPUs   int    `json:"cpus"` // that the process may use
	Procs  int    `json:"gomaxprocs"`
	Go     string `json:"go"`
	// Clock says how finely a loop can wait, such as "epoll_pwait2".
	Clock Text `json:"clock"`
}

// MarshalJSON writes every key.
func (h Host) MarshalJSON() ([]byte, error) { return encodeFields(h) }

// UnmarshalJSON reads what MarshalJSON writes.
func (h *Host) UnmarshalJSON(b []byte) error { return decodeFields(b, h) }

// Requested is what the user asked for, per policy.
type Requested struct {
	RatePerS    Figure   `json:"rate_per_s"` // absent in closed loop
	Arrivals    Text     `json:"arrivals"`   // "poisson" or "constant"; absent in closed loop
	DurationNS  Figure   `json:"duration_ns"`
	Requests    Figure   `json:"requests"` // absent when the duration ends the run
	Connections int      `json:"connections"`
	Threads     int      `json:"threads"`
	WarmupNS    Figure   `json:"warmup_ns"`
	DrainNS     Figure   `json:"drain_ns"`
	WithinNS    []int64  `json:"within_ns"` // the thresholds of the objective, ascending
	Endpoints   []string `json:"endpoints"`
}

// MarshalJSON writes every key.
func (q Requested) MarshalJSON() ([]byte, error) { return encodeFields(q) }

// UnmarshalJSON reads what MarshalJSON writes.
func (q *Requested) UnmarshalJSON(b []byte) error { return decodeFields(b, q) }

// Achieved is what came of Requested, over all policies.
type Achieved struct {
	RatePerS   Figure `json:"rate_per_s"`    // calls begun per second of data time
	DataNS     Figure `json:"data_ns"`       // time that was measured, summed over policies
	CPUPerCall Figure `json:"cpu_per_op_ns"` // CPU time of the generator per attempt
	PeakMemory Figure `json:"peak_rss_bytes"`
}

// MarshalJSON writes every key.
func (a Achieved) MarshalJSON() ([]byte, error) { return encodeFields(a) }

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Achieved) UnmarshalJSON(b []byte) error { return decodeFields(b, a) }

// primary returns the threshold that comparisons and the last lines speak of:
// the first of the objective. ok is false when there is none.
func (r *Run) primary() (t time.Duration, ok bool) {
	if len(r.Requested.WithinNS) == 0 {
		return 0, false
	}
	return time.Duration(r.Requested.WithinNS[0]), true
}

// policyNamed returns the policy of that name, or nil.
func (r *Run) policyNamed(name string) *Policy {
	for i := range r.Policies {
		if r.Policies[i].Name == name {
			return &r.Policies[i]
		}
	}
	return nil
}
