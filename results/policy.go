package results

import (
	"time"

	"latencylab/histo"
	"latencylab/ledger"
	"latencylab/policy"
)

// Calls counts calls by how they ended; see ledger.Calls.
type Calls struct {
	Scheduled  uint64 `json:"scheduled"`
	OK         uint64 `json:"ok"`
	Failed     uint64 `json:"failed"`
	Unfinished uint64 `json:"unfinished"`
	Dropped    uint64 `json:"dropped"`
}

// Attempts counts attempts; see ledger.Attempts.
type Attempts struct {
	Sent             uint64 `json:"sent"`
	First            uint64 `json:"first"`
	Retries          uint64 `json:"retries"`
	Hedges           uint64 `json:"hedges"`
	OK               uint64 `json:"ok"`
	Failed           uint64 `json:"failed"`
	TimedOut         uint64 `json:"timed_out"`
	Cancelled        uint64 `json:"cancelled"`
	Abandoned        uint64 `json:"abandoned"`
	HedgeWins        uint64 `json:"hedge_wins"`
	SpuriousHedges   uint64 `json:"spurious_hedges"`
	SpuriousTimeouts uint64 `json:"spurious_timeouts"`
}

// Connections counts connections; see ledger.Connections.
type Connections struct {
	Opened         uint64 `json:"opened"`
	Reused         uint64 `json:"reused"`
	ClosedByCancel uint64 `json:"closed_by_cancel"`
	Lost           uint64 `json:"lost,omitempty"`      // handshakes closed because another address of the name was faster
	Fallbacks      uint64 `json:"fallbacks,omitempty"` // addresses that failed before another one of the name was connected
}

// Error counts errors of one sort.
type Error struct {
	Class  string `json:"class"`  // a name of ledger.Class
	Phase  string `json:"phase"`  // a name of policy.Phase
	Status Figure `json:"status"` // absent when there was no answer
	Count  uint64 `json:"count"`
	Sample string `json:"sample"`
}

// MarshalJSON writes every key.
func (e Error) MarshalJSON() ([]byte, error) { return encodeFields(e) }

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Error) UnmarshalJSON(b []byte) error { return decodeFields(b, e) }

// Share is the part of all scheduled calls that were answered OK within T.
type Share struct {
	TNS   int64  `json:"t_ns"`
	Count uint64 `json:"count"` // calls answered OK within T, exactly
	Calls uint64 `json:"calls"` // calls scheduled
	Share Figure `json:"share"` // Count / Calls; absent when no call was scheduled
}

// MarshalJSON writes every key.
func (s Share) MarshalJSON() ([]byte, error) { return encodeFields(s) }

// UnmarshalJSON reads what MarshalJSON writes; the share is computed anew.
func (s *Share) UnmarshalJSON(b []byte) error {
	if err := decodeFields(b, s); err != nil {
		return err
	}
	s.Share = shareOf(s.Count, s.Calls)
	return nil
}

func shareOf(count, calls uint64) Figure {
	if calls == 0 {
		return Absent("no call was scheduled")
	}
	return Num(float64(count) / float64(calls))
}

// Phases are the parts of an attempt. A nil Dist has its reason beside it.
type Phases struct {
	DNS           *Dist  `json:"dns"`
	DNSReason     string `json:"dns_reason,omitempty"`
	Connect       *Dist  `json:"connect"`
	ConnectReason string `json:"connect_reason,omitempty"`
	TLS           *Dist  `json:"tls"`
	TLSReason     string `json:"tls_reason,omitempty"`
	Write         *Dist  `json:"write"`
	WriteReason   string `json:"write_reason,omitempty"`
	// FirstByte is from the written request to the first byte of the answer,
	// and Body from there to the last, both only of answers whose first byte
	// did not come in the same read as the last.
	FirstByte *Dist `json:"first_byte"`
	Body      *Dist `json:"body"`
}

// BurnIn counts what was sent before the measured part.
type BurnIn struct {
	Calls    Calls    `json:"calls"`
	Attempts Attempts `json:"attempts"`
}

// Stamps counts answers by what their kernel receive stamp is worth.
type Stamps struct {
	Unstamped uint64 `json:"unstamped"` // no usable stamp: the instant of the read was taken
	Coalesced uint64 `json:"coalesced"` // the stamp may be that of later bytes of the same read
}

// Bytes counts wire bytes of HTTP.
type Bytes struct {
	In  uint64 `json:"in"`
	Out uint64 `json:"out"`
}

// Policy is what was measured of one policy, burn-in left out.
type Policy struct {
	Name  string `json:"name"`
	Spec  string `json:"spec"`  // in full
	Loops int    `json:"loops"` // event loops that it ran on
	// AchievedShare is the calls that were begun by the end of their block's
	// schedule, and not left without a connection to their end, over
	// those scheduled; BusiestShare is the largest part of any second that a loop
	// was busy. Absent in closed loop and in virtual time.
	AchievedShare Figure `json:"achieved_share"`
	BusiestShare  Figure `json:"busiest_loop_share"`
	// HedgeDelayNS is the delay at the end; of a tracked delay the last one.
	HedgeDelayNS Figure `json:"hedge_delay_ns"`
	DrawsDigest  Text   `json:"draws_digest"` // hexadecimal
	BurnIn       BurnIn `json:"burn_in"`

	Calls         Calls             `json:"calls"`
	Attempts      Attempts          `json:"attempts"`
	Refused       map[string]uint64 `json:"refused"` // attempts by the rule that refused them; every rule
	ExtraLoad     Figure            `json:"extra_load"`
	Amplification Figure            `json:"amplification"`
	Connections   Connections       `json:"connections"`
	Errors        []Error           `json:"errors"`
	Stamps        Stamps            `json:"stamps"`
	Bytes         Bytes             `json:"bytes"`

	Response Dist `json:"response"` // of all calls: failed and censored ones rank as +infinity
	OK       Dist `json:"ok"`       // of the calls that ended ok
	Failed   Dist `json:"failed"`   // of the calls that ended with a failure; those without an answer are censored
	Censored Dist `json:"censored"` // how long the calls without an answer had run
	First    Dist `json:"first"`    // service time of first attempts; those without an answer are censored
	Retry    Dist `json:"retry"`
	Hedge    Dist `json:"hedge"`
	Service  Dist `json:"service"` // service time of the attempts that ended their call ok
	// Lag is how late calls were begun, the generator's own lateness; PoolWait
	// how long attempts waited for a connection; ReadDelay how long answers lay
	// in the kernel before they were read.
	Lag       Dist `json:"lag"`
	PoolWait  Dist `json:"pool_wait"`
	ReadDelay Dist `json:"read_delay"`

	OKWithin  []Share    `json:"ok_within"`
	Phases    Phases     `json:"phases"`
	Blocks    []Block    `json:"blocks"`
	Intervals []Interval `json:"intervals"`

	// Predicted is what the simulator says of the same workload; nil with a
	// reason when there is no prediction.
	Predicted   *Predicted `json:"predicted"`
	NoPredicted string     `json:"predicted_reason,omitempty"`
}

// Predicted holds a prediction of figures of a Policy, by the same names.
type Predicted struct {
	Source    string   `json:"source"` // who says so: "simulator"
	Calls     Calls    `json:"calls"`
	Attempts  Attempts `json:"attempts"`
	ExtraLoad Figure   `json:"extra_load"`
	Response  Dist     `json:"response"`
	OK        Dist     `json:"ok"`
	Censored  Dist     `json:"censored"`
	OKWithin  []Share  `json:"ok_within"`
}

// NewPolicy builds the record of a policy from the ledger of its measured part,
// merged over loops and blocks, and the counts of its burn-in (nil: none). It
// keeps nothing of data. The fields that a ledger does not know (Loops,
// AchievedShare, BusiestShare, HedgeDelayNS, DrawsDigest, Blocks, Intervals,
// Predicted) are the caller's.
func NewPolicy(name, spec string, data *ledger.Ledger, burn *ledger.Counts) Policy {
	p := Policy{
		Name: name, Spec: spec, Loops: 1,
		AchievedShare: Absent("no schedule was kept in real time"),
		BusiestShare:  Absent("no schedule was kept in real time"),
		HedgeDelayNS:  Absent("nothing is hedged"),
		Calls:         Calls(data.Calls),
		Attempts:      Attempts(data.Attempts),
		Connections:   connectionsOf(&data.Connections),
		Refused:       refused(&data.Counts),
		ExtraLoad:     ratio(data.ExtraLoad()),
		Amplification: ratio(data.Amplification()),
		Errors:        errorsOf(&data.Counts),
		Stamps:        Stamps{data.Unstamped, data.Coalesced},
		Bytes:         Bytes{data.BytesIn, data.BytesOut},
		OKWithin:      within(data),
		NoPredicted:   "no prediction was made",
	}
	if burn != nil {
		p.BurnIn = BurnIn{Calls(burn.Calls), Attempts(burn.Attempts)}
	}
	p.Response, p.OK, p.Censored = responseOf(data)
	p.Failed = newDist(data.Failed, data.Censored.Count(), 0, data.Censored, "failed call")
	for k, d := range map[policy.Kind]*Dist{policy.First: &p.First, policy.Retried: &p.Retry, policy.Hedged: &p.Hedge} {
		all := data.Won[k].Clone()
		all.Merge(data.Lost[k])
		*d = newDist(all, data.Cut[k], 0, nil, kindNoun(k))
	}
	won := histo.New()
	for k := range policy.Kinds {
		won.Merge(data.Won[k])
	}
	p.Service = newDist(won, 0, 0, nil, "answered attempt")
	p.Lag = newDist(data.Lag, 0, 0, nil, "begun call")
	p.PoolWait = newDist(data.PoolWait, 0, 0, nil, "sent attempt")
	p.ReadDelay = newDist(data.ReadDelay, 0, 0, nil, "stamped answer")
	connect := newDist(data.Connect, 0, 0, nil, "handshake")
	first := newDist(data.FirstByte, 0, 0, nil, "answer in several reads")
	body := newDist(data.Body, 0, 0, nil, "answer in several reads")
	p.Phases = Phases{
		DNSReason: "names are resolved once, before the run",
		Connect:   &connect,
		TLSReason: "no connection used TLS",
		// A request that fits the socket's buffer is written by one system call.
		WriteReason: "a request is written in the call that sends it",
		FirstByte:   &first,
		Body:        &body,
	}
	return p
}

func connectionsOf(c *ledger.Connections) Connections {
	return Connections{Opened: c.Opened, Reused: c.Reused, ClosedByCancel: c.ClosedByCancel, Lost: c.Lost, Fallbacks: c.Fallbacks}
}

// NewPredicted builds a prediction from the ledger of a simulated run.
func NewPredicted(source string, data *ledger.Ledger) *Predicted {
	p := &Predicted{
		Source:    source,
		Calls:     Calls(data.Calls),
		Attempts:  Attempts(data.Attempts),
		ExtraLoad: ratio(data.ExtraLoad()),
		OKWithin:  within(data),
	}
	p.Response, p.OK, p.Censored = responseOf(data)
	return p
}

// responseOf returns the distribution of all calls, of the OK ones and of the
// lower bounds of those without an answer.
func responseOf(l *ledger.Ledger) (response, ok, censored Dist) {
	response = newDist(l.OK, l.Censored.Count(), l.Failed.Count()+l.Calls.Dropped, l.Censored, "call")
	ok = newDist(l.OK, 0, 0, nil, "ok call")
	censored = newDist(l.Censored, 0, 0, nil, "call without an answer")
	return response, ok, censored
}

func kindNoun(k policy.Kind) string {
	switch k {
	case policy.Retried:
		return "retried attempt"
	case policy.Hedged:
		return "hedged attempt"
	}
	return "first attempt"
}

func ratio(x float64, ok bool) Figure {
	if !ok {
		return Absent("no call was scheduled")
	}
	return Num(x)
}

func refused(c *ledger.Counts) map[string]uint64 {
	m := make(map[string]uint64, policy.Rules)
	for r := policy.RuleNone + 1; r < policy.Rules; r++ {
		m[r.String()] = c.Refused[r]
	}
	return m
}

func errorsOf(c *ledger.Counts) []Error {
	list := make([]Error, 0, len(c.Errors))
	for _, e := range c.Errors {
		status := Absent("no complete answer")
		if e.Status != 0 {
			status = Num(float64(e.Status))
		}
		list = append(list, Error{e.Class.String(), e.Phase.String(), status, e.Count, e.Sample})
	}
	return list
}

func within(l *ledger.Ledger) []Share {
	list := make([]Share, 0, len(l.Within))
	for i, t := range l.Within {
		n := l.WithinCount[i]
		list = append(list, Share{int64(t), n, l.Calls.Scheduled, shareOf(n, l.Calls.Scheduled)})
	}
	return list
}

// withinShare returns the share of calls answered OK within t.
func withinShare(list []Share, t time.Duration) Figure {
	for i := range list {
		if list[i].TNS == int64(t) {
			return list[i].Share
		}
	}
	return Absentf("no share was counted for %s", t)
}

// MarshalJSON writes every key; an absent figure is null beside its reason.
func (p Policy) MarshalJSON() ([]byte, error) { return encodeFields(p) }

// MarshalJSON writes every key; an absent figure is null beside its reason.
func (p Predicted) MarshalJSON() ([]byte, error) { return encodeFields(p) }
