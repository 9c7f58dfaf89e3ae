package sim

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"latencylab/clock"
	"latencylab/draw"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/workloads"
)

// MaxLanes is the largest number of lanes in a run.
const MaxLanes = 64

// Split says to which lane each call of the one stream of arrivals belongs. The
// lanes share the servers and nothing else: each has its own clients and books.
// The zero Split is a coin for every call.
//
// Both kinds are what a real system offers to whoever compares policies in it,
// and both let the policies interfere: a lane's calls wait behind the copies
// that the other lane has sent (Spang, Hannan, Kunamalla, Huang, McKeown and
// Johari, "Unbiased experiments in congested networks", IMC 2021; Bojinov,
// Simchi-Levi and Zhao, "Design and analysis of switchback experiments",
// Management Science, 2023). The lanes also share one clock: budgets and
// trackers see the time in which the other lanes have the calls.
type Split struct {
	Kind SplitKind
	// Slice is the length of a slice.
	Slice time.Duration
	// Skip in [0, 1) is the share of each slice, from its begin, whose calls are
	// burn-in and not data.
	Skip float64
}

// SplitKind is how calls are shared out.
type SplitKind uint8

const (
	// Coin draws the lane of each call, keyed by its number, in permuted blocks
	// of two calls for every lane: after each of them all lanes have had the
	// same number of calls.
	Coin SplitKind = iota
	// Slices gives all calls of a slice of time to one lane, in the order of
	// [workloads.Turn]. Nothing drains between slices: servers keep their
	// queues, and copies that nobody waits for run on into the next one. A call
	// belongs to the slice of its intended instant. In a block that ends after a
	// number of calls, those that are skipped count too.
	Slices
)

// String returns "coin" or "slices".
func (k SplitKind) String() string {
	if k == Slices {
		return "slices"
	}
	return "coin"
}

// check returns an error for a split among lanes that makes no sense.
func (s *Split) check(lanes int) error {
	switch {
	case lanes > MaxLanes:
		return fmt.Errorf("%d lanes, want at most %d", lanes, MaxLanes)
	case s.Kind > Slices:
		return fmt.Errorf("split = %d, want coin or slices", s.Kind)
	case s.Kind == Coin && (s.Slice != 0 || s.Skip != 0):
		return errors.New("a split by coin has no slice and no skip")
	case s.Kind == Slices && s.Slice <= 0:
		return fmt.Errorf("slice = %v, want more than 0", s.Slice)
	case !(s.Skip >= 0 && s.Skip < 1):
		return fmt.Errorf("skip = %v, want 0 to less than 1", s.Skip)
	}
	return nil
}

// lane is one policy with its clients. Its books and intervals stand in the
// world, at book(lane, burn).
type lane struct {
	policy  *policy.Policy
	clients []*policy.Client
	phased  bool // the policy wants to know of phases
	// toHop says that it calls hop number next and not the service. What goes to
	// and from a hop always takes an event, if only at the same instant: a call is
	// not told of an answer while it sends.
	toHop bool
	next  int
	// works says that the hop has servers of its own, which a request meets first.
	works bool
	// first is the number of the first server that it calls among all.
	first uint16
}

// client returns the one that call id belongs to.
func (l *lane) client(id uint64) *policy.Client {
	if n := uint64(len(l.clients)); n > 1 {
		return l.clients[id%n]
	}
	return l.clients[0]
}

// book returns the index of a lane's ledger and interval: of its data, or of
// its burn-in.
func book(lane uint8, burn bool) uint8 {
	if burn {
		return 2*lane + burnBook
	}
	return 2*lane + dataBook
}

// coinShare is the number of calls of each lane in a permuted block.
const coinShare = 2

// splitter assigns calls to lanes.
type splitter struct {
	Split
	lanes int
	seed  uint64
	base  clock.Time // of the block under way
	skip  time.Duration
	// Of the slice of the last call: its end, the end of what is skipped, its lane.
	end, skipped clock.Time
	turn         uint8
	// order is the permuted block number drawn-1.
	order [coinShare * MaxLanes]uint8
	drawn uint64
}

func newSplitter(cfg *Config) splitter {
	s := splitter{Split: cfg.Split, lanes: len(cfg.Lanes), seed: cfg.Seed}
	s.skip = time.Duration(float64(s.Skip * float64(s.Slice)))
	return s
}

// begin starts a block at base, and with it slice 0.
func (s *splitter) begin(base clock.Time) { s.base, s.end = base, base }

// assign returns the lane of call id, which arrives at the instant, not before
// the call assigned last, and whether it is burn-in.
func (s *splitter) assign(id uint64, at clock.Time) (lane uint8, burn bool) {
	if s.Kind == Coin {
		return s.toss(id), false
	}
	if at >= s.end {
		n := at.Sub(s.base) / s.Slice
		begin := s.base.Add(n * s.Slice)
		s.end, s.skipped = begin.Add(s.Slice), begin.Add(s.skip)
		s.turn = uint8(workloads.Turn(s.lanes, int(n)))
	}
	return s.turn, at < s.skipped
}

// toss returns the lane of call id by a permuted block (Fisher and Yates'
// shuffle with a keyed draw for each exchange).
func (s *splitter) toss(id uint64) uint8 {
	size := uint64(coinShare * s.lanes)
	block := id / size
	if s.drawn != block+1 {
		s.drawn = block + 1
		for i := range int(size) {
			s.order[i] = uint8(i % s.lanes)
		}
		for i := int(size) - 1; i > 0; i-- {
			hi, _ := bits.Mul64(draw.Bits(s.seed, draw.Lane, block, 0, uint32(i)), uint64(i+1))
			s.order[i], s.order[hi] = s.order[hi], s.order[i]
		}
	}
	return s.order[id%size]
}

// Record is what one policy, or one hop, did in one block, or in all of them.
type Record struct {
	// Data is the ledger of the calls that were intended in the data.
	Data *ledger.Ledger
	// Burn counts the calls that were intended in the burn-in, and their attempts.
	Burn ledger.Counts
	// HedgeDelay is the first client's at the block's end, and Tokens what its
	// budget held; HedgeOn is false while nothing is hedged.
	HedgeDelay time.Duration
	HedgeOn    bool
	Tokens     float64
}

// add merges what the policy did in a further block.
func (r *Record) add(o *Record) {
	r.Data.Merge(o.Data)
	r.Burn.Merge(&o.Burn)
	r.HedgeDelay, r.HedgeOn, r.Tokens = o.HedgeDelay, o.HedgeOn, o.Tokens
}
