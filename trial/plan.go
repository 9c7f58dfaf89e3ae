package trial

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"latencylab/policy"
	"latencylab/units"
	"latencylab/workloads"
)

const (
	// DefaultDuration is the data time of each policy when neither duration nor
	// requests is given.
	DefaultDuration = 10 * time.Second
	// DefaultUsers is the number of users of a closed loop.
	DefaultUsers = 10
	// DefaultDrain is how long calls may go on after the end of a block.
	DefaultDrain = 5 * time.Second
	// DefaultWarmup is the burn-in before a policy's first block when several
	// policies are compared or one has state.
	DefaultWarmup = 3 * time.Second
	// DefaultLead is the burn-in before each later block of a policy.
	DefaultLead = 250 * time.Millisecond

	// minBlock is the least data time of a block; shorter ones do not let a
	// policy's extra load act on the server (interference between slices).
	minBlock = 2500 * time.Millisecond
	// longBlock is the data time of a block when there is time for more than
	// minRounds blocks.
	longBlock = 10 * time.Second
	minRounds = 4
	maxRounds = 40
	// trainSamples is the number of first attempts after which a tracked hedge
	// delay is taken as settled: p99 of 3,000 samples rests on 30.
	trainSamples = 3000
)

// Planned is one block of the plan: which policy it drives, and for how long.
type Planned struct {
	Policy int
	Block  workloads.Block
}

// Plan is one measurement with every default filled in. Real and Sim carry out
// the same Plan.
type Plan struct {
	// Workload holds the resolved values: what it says can be run again.
	Workload workloads.Workload
	// Closed says that Workload.Connections users begin a call as soon as their
	// last one has ended; there is no schedule.
	Closed bool
	// Stages are the parts of the measurement.
	Stages []workloads.Stage
	// Rounds is the number of blocks of each policy.
	Rounds int
	// Warmup precedes the first block of each policy, Lead each later one.
	Warmup, Lead time.Duration
	// Blocks are all blocks in order.
	Blocks []Planned
	// TargetSeed keys the draws of the service.
	TargetSeed uint64
	// Version and Command are kept in the Run: what ran, and how it was called.
	Version, Command string
	// unbounded says that Workload.Connections is what the file limit allows, not
	// the user's wish.
	unbounded bool
	// block is the length of blocks that a pilot advises; 0: none does.
	block time.Duration
	// openCalls is sim.Config.Open.
	openCalls int
	// Runs is how many seeds Sim takes: the first gives the Run, all of them the
	// spread of its figures. Below 2 there is no spread.
	Runs int
	// Notes say in words what was chosen where the user had not.
	Notes []string
}

// Choices are the parts of a Plan that a workload cannot express.
type Choices struct {
	// TargetSeed, if not nil, replaces the workload's seed at the target.
	TargetSeed *uint64
	// Virtual says that no socket is driven: time costs little.
	Virtual bool
	// Embedded says that the sockets are those of the embedded target, which can be
	// told to stand still.
	Embedded bool
	// Runs is Plan.Runs, at most MaxRuns.
	Runs int
	// BlocksOnly leaves out every other stage, whatever the workload says.
	BlocksOnly bool
}

// NewPlan fills in the defaults of w, which it does not change. An error names
// the keys that contradict each other or the value that cannot be driven.
func NewPlan(w *workloads.Workload, ch Choices) (*Plan, error) {
	if ch.Virtual {
		w = w.ForSim()
	}
	p := &Plan{Workload: *w, TargetSeed: w.Seed, Runs: ch.Runs}
	p.Workload.Sim = workloads.Sim{}
	if ch.TargetSeed != nil {
		p.TargetSeed = *ch.TargetSeed
	}
	if len(p.Workload.Policies) == 0 {
		plain, err := workloads.ParsePolicy("plain")
		if err != nil {
			return nil, err
		}
		p.Workload.Policies = []workloads.NamedPolicy{plain}
	}
	if err := p.check(ch.Virtual); err != nil {
		return nil, err
	}
	if err := p.stages(ch); err != nil {
		return nil, err
	}
	p.fill(ch.Virtual)
	if d := p.data(); p.Workload.Block > d/2 && len(p.Workload.Policies) > 1 {
		return nil, fmt.Errorf("block=%s leaves less than two blocks in the %s of data that each policy has, want at most %s, or a longer duration",
			units.FormatDuration(p.Workload.Block), units.FormatDuration(d), units.FormatDuration(d/2))
	}
	p.burnIn()
	p.arrange()
	if ch.Virtual {
		if err := p.fits(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Plan) check(virtual bool) error {
	w := &p.Workload
	if err := w.Check(); err != nil {
		return err
	}
	p.Closed = w.Rate == 0
	if w.MaxAttemptRate != 0 && w.Rate > w.MaxAttemptRate {
		return fmt.Errorf("rate = %s, but max-attempt-rate = %s: first attempts alone would pass it, want a lower rate or a higher ceiling", w.Rate, w.MaxAttemptRate)
	}
	if w.MaxAttemptRate != 0 && virtual {
		p.note("max-attempt-rate = %s does not act in virtual time: what is simulated may send more", w.MaxAttemptRate)
	}
	if virtual {
		switch {
		case p.Closed:
			return errors.New("no rate: the simulator runs open loops, want --rate such as --rate 1000/s")
		case w.Service == nil:
			return fmt.Errorf("workload %s has no service: the simulator needs one", w.Name)
		}
		if w.Graph != nil {
			if err := p.checkGraph(); err != nil {
				return err
			}
		}
	}
	if p.Closed && len(w.Policies) > 1 {
		return fmt.Errorf("%d --policy without --rate: in closed loop a faster policy raises its own load, so policies are compared at a --rate", len(w.Policies))
	}
	return nil
}

// fill puts defaults where the workload has zeros.
func (p *Plan) fill(virtual bool) {
	w := &p.Workload
	if w.Clients == 0 {
		w.Clients = 1
	}
	if w.Threads == 0 {
		w.Threads = 1
	}
	if p.Closed && w.Connections == 0 {
		w.Connections = DefaultUsers
	}
	if w.Duration == 0 && w.Requests == 0 {
		w.Duration = DefaultDuration
		if virtual {
			w.Duration = span(w.Rate, VirtualCalls)
		}
	}
	longest := time.Duration(0)
	for i := range w.Policies {
		longest = max(longest, w.Policies[i].Policy.Deadline)
	}
	if w.Drain == 0 {
		w.Drain = DefaultDrain
	}
	w.Drain = max(w.Drain, longest)
}

// VirtualCalls is the number of calls of each policy that Sim makes when
// neither duration nor requests is given.
const VirtualCalls = 1_000_000

// span is the time that n arrivals take at the rate, at most the longest
// Duration.
func span(r units.Rate, n uint64) time.Duration {
	ns := float64(n) / r.PerSecond() * 1e9
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// burnIn chooses the burn-in of first and later blocks. All policies have the
// same, so that their data are the same arrivals.
func (p *Plan) burnIn() {
	w := &p.Workload
	state := false
	settle := time.Duration(0)
	for i := range w.Policies {
		pol := &w.Policies[i].Policy
		state = state || pol.Shared()
		if pol.Hedge.Max > 0 && pol.Hedge.Quantile > 0 && !p.Closed {
			window := pol.BurnIn()
			settle = max(settle, min(window, span(w.Rate, uint64(trainSamples*w.Clients))))
		}
	}
	switch {
	case w.WarmupGiven || w.Warmup > 0:
		p.Warmup = w.Warmup
	case settle > DefaultWarmup:
		p.Warmup = settle
		p.note("warm-up %s: until a tracked hedge delay rests on %d samples, at most its window", units.FormatDuration(settle.Round(time.Millisecond)), trainSamples)
	case state || len(w.Policies) > 1:
		p.Warmup = DefaultWarmup
	}
	w.Warmup, w.WarmupGiven = p.Warmup, true
}

// arrange cuts the data of each policy into blocks and orders them.
func (p *Plan) arrange() {
	w := &p.Workload
	whole := w.Duration
	if w.Requests > 0 && !p.Closed {
		whole = span(w.Rate, w.Requests)
	}
	p.Rounds = 1
	if len(w.Policies) > 1 {
		if p.Rounds = rounds(whole); w.Block > 0 || p.block > 0 {
			p.Rounds = roundsOf(whole, cmp.Or(w.Block, p.block))
		}
		if w.Requests > 0 {
			p.Rounds = max(1, min(p.Rounds, int(min(w.Requests, maxRounds))))
		}
		p.Lead = min(DefaultLead, whole/time.Duration(p.Rounds)/5)
	}
	at := make([]int, len(w.Policies)) // blocks placed of each policy
	for _, k := range workloads.Order(len(w.Policies), p.Rounds) {
		b := workloads.Block{Burn: p.Lead}
		if at[k] == 0 {
			b.Ramp, b.Burn = w.Ramp, p.Warmup
		}
		n := uint64(at[k])
		if w.Requests > 0 {
			b.Calls = part(w.Requests, n, uint64(p.Rounds))
		} else {
			b.Data = time.Duration(part(uint64(w.Duration), n, uint64(p.Rounds)))
		}
		p.Blocks = append(p.Blocks, Planned{Policy: k, Block: b})
		at[k]++
	}
}

// rounds is the number of blocks that the data time of a policy is cut into: an
// even number, so that each order occurs as often as its reverse; blocks of 2.5
// s at least where there is time for two, and of 10 s where there is time for
// four.
func rounds(data time.Duration) int {
	even := func(n time.Duration) int { return int(n) / 2 * 2 }
	if n := even(min(data/longBlock, maxRounds)); n >= minRounds {
		return n
	}
	return max(2, min(minRounds, even(data/minBlock)))
}

// roundsOf is the same for blocks of at least the given length: as many as there
// is time for, two at least.
func roundsOf(data, block time.Duration) int {
	return int(max(2, min(data/block/2*2, maxRounds)))
}

// part is share i of n things dealt over of.
func part(n, i, of uint64) uint64 {
	s := n / of
	if i < n%of {
		s++
	}
	return s
}

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// resends says whether a policy of the plan may send a call more than once.
func (p *Plan) resends() bool {
	for i := range p.Workload.Policies {
		if p.Workload.Policies[i].Policy.CanResend() {
			return true
		}
	}
	return false
}

// policyOf returns policy k.
func (p *Plan) policyOf(k int) *policy.Policy { return &p.Workload.Policies[k].Policy }

// interval is the length of the intervals recorded: 1 s, or less so that the
// burn-in of a block ends with an interval and takes no data along, or that rules
// of stop-if see soon what happens.
func (p *Plan) interval() time.Duration {
	if len(p.Workload.Stops) > 0 {
		return DefaultLead
	}
	if (p.Workload.Ramp+p.Warmup)%time.Second == 0 && p.Lead%time.Second == 0 {
		return time.Second
	}
	return DefaultLead
}

// Summary says in one line what will be driven.
func (p *Plan) Summary() string {
	w := &p.Workload
	s := fmt.Sprintf("open loop at %s (%s)", w.Rate, w.Arrivals)
	if p.Closed {
		s = fmt.Sprintf("closed loop of %d", w.Connections)
	}
	if w.Requests > 0 {
		s += fmt.Sprintf(", %s calls", units.Count(w.Requests))
	} else {
		s += ", " + units.FormatDuration(w.Duration)
	}
	if len(w.Policies) > 1 {
		s += fmt.Sprintf(" for each of %d policies in %d blocks", len(w.Policies), len(p.Blocks))
	}
	if len(p.Stages) > 1 {
		s += ", stages " + strings.ReplaceAll(stageList(p.Stages), ",", ", ")
	}
	warm := "none"
	if p.Warmup > 0 {
		warm = units.FormatDuration(p.Warmup.Round(time.Millisecond))
	}
	if w.Ramp > 0 {
		s += ", ramp " + units.FormatDuration(w.Ramp)
	}
	return s + fmt.Sprintf(", warm-up %s, drain %s, seed %d", warm, units.FormatDuration(w.Drain), w.Seed)
}
