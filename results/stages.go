package results

import (
	"fmt"
	"time"
)

// Names of the stages of a measurement.
const (
	StagePilot     = "pilot"     // plain alone: how the system relaxes, and plain against plain
	StageBlocks    = "blocks"    // the policies in turn: what Policies and Comparisons hold
	StageSustained = "sustained" // each policy alone for one long stretch
	StagePulse     = "pulse"     // all servers frozen, released, and looked at later
)

// Words of stages beside those of a comparison.
const (
	Stable    = "stable"
	NotStable = "not stable"
	Recovered = "recovered"
	Collapses = "collapses"
)

// Triggers of a pulse.
const (
	Freeze = "freeze" // servers stand still
	Outage = "outage" // servers have no capacity, and fail what comes
)

// Stage is what one stage found of one policy.
type Stage struct {
	Name   string `json:"name"`
	Policy Text   `json:"policy"` // absent where the stage is of all
	// Word says in short what was found; absent, with the reason, when nothing was.
	// Of a pilot it is that of plain against plain.
	Word      Text         `json:"word"`
	Pilot     *Pilot       `json:"pilot,omitempty"`
	Sustained *Sustained   `json:"sustained,omitempty"`
	Pulse     *PulseResult `json:"pulse,omitempty"`
}

// MarshalJSON writes every key.
func (s Stage) MarshalJSON() ([]byte, error) { return encodeFields(s) }

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Stage) UnmarshalJSON(b []byte) error { return decodeFields(b, s) }

// Pilot is what plain alone says about the system.
type Pilot struct {
	LengthNS int64 `json:"length_ns"` // of the stretch that Tau and episodes are of
	// Tau is the relaxation time of the number of open calls; see Tau.
	Tau Figure `json:"tau_ns"`
	// EpisodesPerMinute counts separate runs of calls at or above p99.
	EpisodesPerMinute Figure `json:"tail_episodes_per_min"`
	// Window is the longest memory of the policies, 0 without any.
	Window int64 `json:"window_ns"`
	// Block is the advice: the longer of 10 Tau and Window.
	Block Figure `json:"block_ns"`
	// Used is how long the blocks are that follow.
	Used Figure `json:"block_used_ns"`
	// Data is how much data a policy needs for an interval of its tail.
	Data Figure `json:"data_ns"`
	// AA compares plain with plain in alternating blocks.
	AA    Gain  `json:"aa"`
	AAP99 Ratio `json:"aa_p99"`
}

// MarshalJSON writes every key.
func (p Pilot) MarshalJSON() ([]byte, error) { return encodeFields(p) }

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Pilot) UnmarshalJSON(b []byte) error { return decodeFields(b, p) }

// blockTimes is how many relaxation times a block must last: its mean then
// owes a tenth to what was before it.
const blockTimes = 10

// PilotInput is what NewPilot is given.
type PilotInput struct {
	// Stretch is plain in one piece, and Open its open calls at equal steps.
	Stretch Block
	Open    []float64
	Step    time.Duration
	// A and B are plain in alternating blocks.
	A, B   *Policy
	Window time.Duration // the longest memory of the policies
	CompareOptions
}

// NewPilot judges a pilot.
func NewPilot(in PilotInput) Stage {
	p := &Pilot{LengthNS: in.Stretch.LengthNS, Window: int64(in.Window), Tau: Tau(in.Open, in.Step)}
	p.EpisodesPerMinute = episodesPerMinute(&in.Stretch)
	p.Block, p.Data = Absent("the relaxation time is not known"), Absent("the episodes were not counted")
	if p.Tau.Present {
		p.Block = Num(max(blockTimes*p.Tau.Value, float64(in.Window)))
	} else if b := max(blockTimes*p.Tau.AtLeast, float64(in.Window)); b > 0 {
		p.Block.AtLeast = b
	}
	if e := p.EpisodesPerMinute; e.Present && e.Value > 0 {
		p.Data = Num(float64(MinEpisodes) / e.Value * float64(time.Minute))
	}
	c := Compare(in.A, in.B, in.CompareOptions)
	p.AA, p.AAP99 = c.OKWithin, c.P99
	s := Stage{Name: StagePilot, Policy: Text{Value: in.A.Name}, Pilot: p}
	s.Word.Value = c.Word
	return s
}

// episodesPerMinute counts separate runs of calls at or above the block's p99.
func episodesPerMinute(b *Block) Figure {
	pool := newPool([]Block{*b})
	p99 := pool.quantiles([]uint64{1})[1]
	switch {
	case pool.totals[0] < MinExceedances:
		return Absentf("%s, too few for a p99", counted(pool.totals[0], "call"))
	case p99 > maxFloat:
		return Absent("p99 lies among failed calls")
	}
	n, ok := pool.episodes(p99)
	if !ok || b.LengthNS <= 0 {
		return Absent("the block does not know its episodes")
	}
	return rounded(float64(n) / time.Duration(b.LengthNS).Minutes())
}

// maxFloat is above every response time.
const maxFloat = 1 << 62

// Advice returns the block length that a pilot proposes, at least what it knows
// of it; 0 when it knows nothing.
func (p *Pilot) Advice() time.Duration {
	if p.Block.Present {
		return time.Duration(p.Block.Value)
	}
	return time.Duration(p.Block.AtLeast)
}

// Of is what a sustained stretch was sampled for.
type Of string

const (
	// OfWork is the unfinished work of a server, in ns: what running requests
	// still take and what waiting ones will.
	OfWork Of = "unfinished work per server"
	// OfCalls is the number of calls that are open at the client.
	OfCalls Of = "open calls"
)

// Sustained is how a policy fares alone for one long stretch.
type Sustained struct {
	LengthNS int64  `json:"length_ns"`
	Of       Of     `json:"of"`
	Unit     string `json:"unit"` // "ns" or "calls"
	Samples  int    `json:"samples"`
	Mean     Figure `json:"mean"`
	Median   Figure `json:"median"`
	End      Figure `json:"end"` // mean of the last tenth
	// Growth is over the whole stretch, by a straight line through the means of
	// 20 equal parts; Low and High are its interval of 99.9 %.
	Growth Figure `json:"growth"`
	Low    Figure `json:"growth_low"`
	High   Figure `json:"growth_high"`
	// Attempts are those sent a call: over the whole stretch, and in its last tenth.
	Attempts    Figure `json:"attempts_per_call"`
	AttemptsEnd Figure `json:"attempts_per_call_end"`
	OKShare     Figure `json:"ok"` // calls answered OK at all
	// Early says that the stretch ended before its time, and with how much open;
	// "" when it did not.
	Early string `json:"early,omitempty"`
}

// MarshalJSON writes every key.
func (s Sustained) MarshalJSON() ([]byte, error) { return encodeFields(s) }

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Sustained) UnmarshalJSON(b []byte) error { return decodeFields(b, s) }

// What tells growth from fluctuation.
const (
	// grownTimes is how many times what it was before, and its median, unfinished
	// work must be at the end, and by how many standard deviations of the parts
	// before it must be above their mean.
	grownTimes      = 4
	grownDeviations = 5
	// grownShare is the growth over the stretch, as a share of the median, that
	// counts when its interval excludes less.
	grownShare = 0.5
	// moreAttempts is how much more attempts a call than on average mean that the
	// policy feeds its own load at the end.
	moreAttempts = 1.25
	// longTimes is how many relaxation times a stretch must last to say that it is
	// stable.
	longTimes = 20
)

// SustainedInput is what NewSustained is given: samples at equal steps.
type SustainedInput struct {
	Policy      string
	Of          Of
	Step        time.Duration
	Unfinished  []float64
	Begun, Sent []uint64 // calls begun and attempts sent since the sample before
	OK          Figure
	// Early says why the stretch ended before its time because too much was open;
	// "" when it did not.
	Early string
}

// NewSustained judges a sustained stretch: not stable when unfinished work or
// attempts a call grow, stable when they do not over at least 20 relaxation
// times, else not shown.
func NewSustained(in SustainedInput) Stage {
	s := Stage{Name: StageSustained, Policy: Text{Value: in.Policy}}
	n := len(in.Unfinished)
	v := &Sustained{LengthNS: int64(in.Step) * int64(n), Of: in.Of, Unit: "ns", Samples: n, OKShare: in.OK, Early: in.Early}
	if in.Of == OfCalls {
		v.Unit = "calls"
	}
	s.Sustained = v
	short := Absentf("%s, want %d or more", counted(uint64(n), "sample"), 10*batches)
	v.Mean, v.Median, v.End, v.Growth, v.Low, v.High, v.Attempts, v.AttemptsEnd = short, short, short, short, short, short, short, short
	if n < 10*batches {
		if in.Early != "" {
			s.Word.Value = NotStable
			return s
		}
		s.Word.Reason = short.Reason
		return s
	}
	ys := batch(in.Unfinished)
	t := trendOf(ys)
	mean, _ := meanDeviation(in.Unfinished)
	mid, end := median(in.Unfinished), (ys[batches-1]+ys[batches-2])/2
	v.Mean, v.Median, v.End = rounded(mean), rounded(mid), rounded(end)
	v.Growth, v.Low, v.High = rounded(t.growth), rounded(t.low), rounded(t.high)
	v.Attempts, v.AttemptsEnd = perCall(in.Sent, in.Begun), perCall(in.Sent[n-n/10:], in.Begun[n-n/10:])
	more := v.AttemptsEnd.Value > moreAttempts*v.Attempts.Value
	rest, dev := meanDeviation(ys[:batches-2])
	grown := end > grownTimes*max(mid, rest) && end > rest+grownDeviations*dev
	switch tau := Tau(in.Unfinished, in.Step); {
	case in.Early != "" || grown || t.low > grownShare*max(mid, mean) || more:
		s.Word.Value = NotStable
	case tau.Present && tau.Value*longTimes > float64(v.LengthNS), !tau.Present && tau.AtLeast*longTimes > float64(v.LengthNS):
		s.Word = Text{Value: NotShown}
	default:
		s.Word.Value = Stable
	}
	return s
}

func perCall(sent, begun []uint64) Figure {
	var a, b uint64
	for i := range sent {
		a, b = a+sent[i], b+begun[i]
	}
	if b == 0 {
		return Absent("no call began")
	}
	return rounded(float64(a) / float64(b))
}

// PulseResult is how a policy comes back after all servers stood still.
type PulseResult struct {
	Trigger  string `json:"trigger"`   // Freeze or Outage; "" when there was none
	FreezeNS int64  `json:"freeze_ns"` // how long it took
	FreezeOf string `json:"freeze_of"` // where the length of the freeze comes from
	AfterNS  int64  `json:"after_ns"`  // from the release to the look
	// Of is the number of runs, each of another seed, that are complete. 0 when
	// nothing queues, so that nothing can be pushed over.
	Of           int `json:"of"`
	NotRecovered int `json:"not_recovered"`
	// Stationary is the unfinished work per server that a run is held against:
	// it has not recovered with more than four times as much; see Reference.
	Stationary Figure `json:"stationary_ns"`
	Reference  string `json:"reference"` // what Stationary is of
	// Before is the policy's own before the freeze, After that at the look, both
	// medians over the runs of means over a time as long as the freeze.
	Before Figure `json:"before_ns"`
	After  Figure `json:"after_work_ns"`
	// Failed is the share of calls that failed at the look, median over the runs.
	Failed Figure `json:"failed"`
	// Recovery is the median over the runs of the time from the release until
	// things were as before; absent when most do not get there.
	Recovery Figure `json:"recovery_ns"`
	// Attempts are those sent a call at the look, median over the runs.
	Attempts Figure `json:"attempts_per_call"`
	Note     string `json:"note,omitempty"` // what else is to be said
}

// MarshalJSON writes every key.
func (p PulseResult) MarshalJSON() ([]byte, error) { return encodeFields(p) }

// UnmarshalJSON reads what MarshalJSON writes.
func (p *PulseResult) UnmarshalJSON(b []byte) error { return decodeFields(b, p) }

// stage returns what the stage found of the policy, or nil.
func (r *Run) stage(name, policy string) *Stage {
	for i := range r.Stages {
		if s := &r.Stages[i]; s.Name == name && s.Policy.Value == policy {
			return s
		}
	}
	return nil
}

// checkStages holds the stages against themselves and against the policies of
// the Run. A pilot's policy is plain, which need not be one of them.
func (r *Run) checkStages(known map[string]int) error {
	for i := range r.Stages {
		s := &r.Stages[i]
		at := "stages" + index(i)
		if _, ok := known[s.Policy.Value]; !ok && s.Policy.Value != "" && s.Name != StagePilot {
			return &fieldError{at + ".policy", fmt.Errorf("%q is not a policy of the run", s.Policy.Value)}
		}
		var list []signedField
		if p := s.Pilot; p != nil {
			list = append(list, signedField{"pilot.length_ns", float64(p.LengthNS)}, signedField{"pilot.tau_ns", p.Tau.Value}, signedField{"pilot.window_ns", float64(p.Window)})
		}
		if v := s.Sustained; v != nil {
			list = append(list, signedField{"sustained.length_ns", float64(v.LengthNS)}, signedField{"sustained.mean", v.Mean.Value})
		}
		if p := s.Pulse; p != nil {
			list = append(list, signedField{"pulse.freeze_ns", float64(p.FreezeNS)}, signedField{"pulse.after_ns", float64(p.AfterNS)}, signedField{"pulse.not_recovered", float64(p.NotRecovered)})
			if p.NotRecovered > p.Of {
				return &fieldError{at + ".pulse.not_recovered", fmt.Errorf("%d, but of = %d", p.NotRecovered, p.Of)}
			}
		}
		if err := firstNegative(list); err != nil {
			return place(at, err)
		}
	}
	return nil
}

// Pulse is how two policies of a comparison came back after a freeze.
type Pulse struct {
	FreezeNS         int64 `json:"freeze_ns"`
	AfterNS          int64 `json:"after_ns"`
	Of               int   `json:"of"`            // runs, each of another seed; 0: nothing queues
	NotRecovered     int   `json:"not_recovered"` // of the other policy's
	BaseNotRecovered int   `json:"base_not_recovered"`
	// Recovery is PulseResult.Recovery of the other policy, BaseRecovery of the base.
	Recovery     Figure `json:"recovery_ns"`
	BaseRecovery Figure `json:"base_recovery_ns"`
}

// MarshalJSON writes every key.
func (p Pulse) MarshalJSON() ([]byte, error) { return encodeFields(p) }

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Pulse) UnmarshalJSON(b []byte) error { return decodeFields(b, p) }

// AddPulses gives every comparison what the pulse stage found; see
// Comparison.Word.
func (r *Run) AddPulses() {
	for i := range r.Comparisons {
		r.Comparisons[i].addPulse(r)
	}
}

// addPulse gives a comparison what the stages found, and the word that follows:
// a policy that does not come back in 6 more runs than the other is worse,
// whatever its blocks say; with fewer more, a word in its favour is taken back.
func (c *Comparison) addPulse(r *Run) {
	a, b := r.stage(StagePulse, c.Base), r.stage(StagePulse, c.Other)
	switch {
	case a == nil || b == nil:
		return
	case a.Pulse == nil || b.Pulse == nil:
		c.NoPulse = a.Word.Reason
		if a.Pulse != nil {
			c.NoPulse = b.Word.Reason
		}
		return
	}
	x, y := a.Pulse, b.Pulse
	c.NoPulse = ""
	c.Pulse = &Pulse{FreezeNS: y.FreezeNS, AfterNS: y.AfterNS, Of: min(x.Of, y.Of), NotRecovered: y.NotRecovered, BaseNotRecovered: x.NotRecovered, Recovery: y.Recovery, BaseRecovery: x.Recovery}
	if c.Pulse.Of == 0 {
		none := Absent("nothing was frozen: requests take nothing from each other")
		c.Pulse.Recovery, c.Pulse.BaseRecovery = none, none
	}
	switch d := y.NotRecovered - x.NotRecovered; {
	case d >= pulseRuns:
		c.Word, c.WordOf = Worse, Text{Value: StagePulse}
	case d <= -pulseRuns && c.Word != Worse:
		c.Word, c.WordOf = Better, Text{Value: StagePulse}
	case d > 0 && c.Word == Better, d < 0 && c.Word == Worse:
		c.Word, c.WordOf = NotShown, Text{Value: StagePulse}
	}
}

// pulseRuns is how many runs must speak for one policy, and none for the other,
// for a two-sided sign test to be significant: 2^(1-6) is below 5 %.
const pulseRuns = 6

// safety says of each policy whether it may be called safe, and what is missing.
type safety struct {
	policy string
	safe   bool
	why    []string
}

// safeties judges every policy: safe is what was stable alone and recovered from
// every pulse.
// On sockets, where a pulse is one run by default, that takes pulseRuns of them.
func (r *Run) safeties() []safety {
	var list []safety
	for i := range r.Policies {
		s := safety{policy: r.Policies[i].Name}
		miss := func(format string, args ...any) { s.why = append(s.why, fmt.Sprintf(format, args...)) }
		switch x := r.stage(StageSustained, s.policy); {
		case x == nil:
			miss("no sustained stage")
		case x.Word.Value == "":
			miss("no word from the sustained stage (%s)", x.Word.Reason)
		case x.Word.Value != Stable:
			miss("sustained: %s", x.Word.Value)
		}
		switch x := r.stage(StagePulse, s.policy); {
		case x == nil:
			miss("no pulse")
		case x.Word.Value == "":
			miss("no word from the pulse (%s)", x.Word.Reason)
		case x.Word.Value != Recovered:
			miss("pulse: %s", x.Word.Value)
		case r.Driver == Sockets && x.Pulse != nil && x.Pulse.Of > 0 && x.Pulse.Of < pulseRuns:
			miss("recovered from %s of the pulse only, want %d or more (pulse.runs)", counted(uint64(x.Pulse.Of), "run"), pulseRuns)
		}
		s.safe = len(s.why) == 0 && r.Void == "" && !r.Interrupted
		list = append(list, s)
	}
	return list
}
