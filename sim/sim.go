// Package sim predicts: it drives the policies of the client and the servers of
// a service in virtual time, on one heap of events. The same policy, service
// and arrivals run on sockets in other rooms; here nothing is late.
//
// A run is a function of its Config: no clock is read, nothing is drawn but by
// key, and two runs of one Config give equal results on every machine. It does
// not know connections: an attempt never waits for one and no handshake takes
// time, which is the world of a generous connection limit. Memory grows with
// the calls that are open at once, not with the number of calls, and those are
// bounded: where a service cannot keep up, the run ends and says so.
package sim

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"latencylab/clock"
	"latencylab/histo"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/workloads"
)

// MaxOpen is the number of calls, and of attempts, that may be open at once
// when Config.Open is 0. Their records take about 1 GB while they grow.
const MaxOpen = 1_000_000

// Config is what a run simulates: one policy, or several that share the servers.
type Config struct {
	Policy policy.Policy
	// Lanes, if set, are policies that share the calls and the servers; Policy is
	// then not used. Split says which call is whose.
	Lanes   []policy.Policy
	Split   Split
	Service *service.Spec
	// TargetSeed keys the draws of the service, Seed those of the policy.
	TargetSeed, Seed uint64
	// Arrivals are those of an open loop.
	Arrivals workloads.Arrivals
	// Users, if set, make a closed loop in place of Arrivals: each begins a call
	// when its last one has ended and it has thought for what Think draws, the
	// first in a block when it has thought from the block's begin. A call is
	// intended when it begins. There is one policy only.
	Users int
	Think service.Dist
	// Clients share the calls of a lane: call i, or the calls of user i, belong to
	// client i mod Clients. 0 means 1.
	Clients int
	// Idempotent says that the request may be sent more than once.
	Idempotent bool
	// Hops are the servers between the users and the service, in the order in
	// which a call passes them. With hops, blocks do not end before all calls of
	// hops have: the clock goes on until then.
	Hops []Hop
	// Graph, if set, is several services that call each other, in place of Service
	// and Hops: each has servers of its own. What is said of hops goes for them.
	Graph *workloads.Graph
	// Net is the time that a request, an answer or the news that a caller has
	// left takes from one side to the other. 0 means none.
	Net time.Duration
	// Within are the thresholds of the objective, ascending.
	Within []time.Duration
	// Blocks are the stretches in which the policy is driven, one after the
	// other. Between two of them the policy's clock stands still and the servers
	// finish what they have.
	Blocks []workloads.Block
	// Horizon is how long calls may go on after the end of a block's data (in a
	// block that ends after a number of calls: after its last arrival). Then
	// they are given up as unfinished. 0 means that all are waited for.
	Horizon time.Duration
	// Open is how many calls may be open at once, and how many attempts, those
	// included that nobody waits for and whose work the service goes on with. A
	// run that needs more ends at that instant as if the horizon had come; see
	// Result.Overflow. 0 means MaxOpen.
	Open int
	// Interval is the length of the intervals reported to OnInterval. 0 means 1 s.
	Interval time.Duration
	// OnInterval, if set, is told what ended in each interval.
	OnInterval func(Interval)
	// Sample is the time between two samples of the servers, which are taken at
	// the multiples of it on the policy's clock and told to OnSample. 0 means none.
	// Long gaps in which nothing happens are left out. They change no result.
	Sample   time.Duration
	OnSample func(Sample)
	// Stop, if set, is asked every few thousand events; when it says true the
	// run ends as if the horizon had come, and later blocks are left out.
	Stop func() bool
}

// Interval is what ended in one stretch of a block. OK is valid during the call
// of OnInterval only. Long gaps in which nothing happened are left out.
type Interval struct {
	Lane       int              // index in Config.Lanes; 0: the only policy
	Burn       bool             // the calls, and their attempts, were of the burn-in
	Start, End clock.Time       // on the policy's clock
	OK         *histo.Histogram // response times of calls that ended ok
	Ended      uint64           // calls that ended, ok or not
	Failed     uint64           // of them, failed or given up
	Sent       uint64           // attempts sent
}

// Block is the record of one block. Instants are on the policy's clock, which
// begins at 0.
type Block struct {
	Start, DataStart clock.Time
	// DataEnd is the end of the data; in a block that ends after a number of
	// calls, the instant of its last arrival.
	DataEnd clock.Time
	// End is when the last call had ended or was given up, at least DataEnd.
	End clock.Time
	// Record is of the only policy. With Config.Lanes it is the sum over them,
	// without the state of any client, and Lanes holds what each did.
	Record
	Lanes []Record
	// Hops are the records of Config.Hops. Calls of a hop belong to the burn-in if
	// that of the user did.
	Hops []Record
}

// Result is the record of a run.
type Result struct {
	// Ledger and Burn are the sums over blocks and lanes. In the ledger's Tail the
	// blocks lie on top of each other: episodes are counted block by block.
	Ledger *ledger.Ledger
	Burn   ledger.Counts
	// Lanes are the sums over the blocks for each of Config.Lanes, in order, with
	// the state of the last block.
	Lanes  []Record
	Hops   []Record // the same of Config.Hops, or of the calls of Config.Graph in order
	Blocks []Block
	// Arrivals is the number of calls scheduled, or begun by users, burn-in
	// included, and ArrivalsDigest identifies their gaps (workloads.Schedule); 0 in
	// a closed loop.
	Arrivals, ArrivalsDigest uint64
	// DrawsDigest identifies what the service drew for first attempts: the sum
	// of draw.Mix(call, 1, drawn), drawn being 0 for a request that was shed.
	DrawsDigest uint64
	// ResultDigest identifies what the users saw: the sum over all calls of
	// draw.Mix(call, outcome, response).
	ResultDigest uint64
	// Served is what the servers recorded, up to the end of the last block; with
	// hops, until all were idle.
	Served Served
	// Services are parts of it, of the services of Config.Graph in order.
	Services []ServedBy
	// Events is the number of events that were simulated.
	Events uint64
	// Elapsed is the time on the policy's clock at the end of the last block.
	Elapsed time.Duration
	// Stopped says that the run ended before its blocks did: Stop said so, or
	// the reason is in Overflow.
	Stopped bool
	// Overflow says that more was open than Config.Open allows; nil: it was not.
	Overflow *Overflow
}

// Overflow is what was open when there was no room for more.
type Overflow struct {
	At clock.Time // on the policy's clock
	// Calls and Attempts were open: one of them is above Config.Open.
	Calls, Attempts int
}

var errNoService = errors.New("no service to simulate")

// check returns an error for a Config that cannot be simulated.
func (c *Config) check() error {
	if err := c.checkPolicies(); err != nil {
		return err
	}
	if c.Graph != nil {
		if err := c.checkGraph(); err != nil {
			return err
		}
	} else if c.Service == nil {
		return errNoService
	} else if err := c.Service.Validate(); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	switch {
	case len(c.Blocks) == 0:
		return errors.New("no block to simulate")
	case c.Clients < 0:
		return fmt.Errorf("clients = %d, want 1 or more", c.Clients)
	case c.Net < 0:
		return fmt.Errorf("net = %v, want 0 or more", c.Net)
	case c.Horizon < 0:
		return fmt.Errorf("horizon = %v, want 0 or more", c.Horizon)
	case c.Open < 0:
		return fmt.Errorf("open = %d, want 0 or more", c.Open)
	case c.Interval < 0:
		return fmt.Errorf("interval = %v, want 0 or more", c.Interval)
	case c.Sample < 0:
		return fmt.Errorf("sample = %v, want 0 or more", c.Sample)
	}
	if err := cmp.Or(c.checkUsers(), c.checkHops()); err != nil {
		return err
	}
	for i, b := range c.Blocks {
		if b.Ramp < 0 || b.Burn < 0 || b.Data < 0 {
			return fmt.Errorf("block %d: burn-in %v and data %v, want 0 or more", i, b.Burn, b.Data)
		}
	}
	return nil
}

func (c *Config) checkPolicies() error {
	if len(c.Lanes) == 0 {
		if err := c.Policy.Validate(); err != nil {
			return fmt.Errorf("policy: %w", err)
		}
		return nil
	}
	for i := range c.Lanes {
		if err := c.Lanes[i].Validate(); err != nil {
			return fmt.Errorf("lane %d: policy: %w", i, err)
		}
	}
	return c.Split.check(len(c.Lanes))
}

// Run simulates the blocks of cfg in turn. An error names what in cfg makes no
// sense; a service that cannot keep up is a result.
func Run(cfg Config) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	w := newWorld(&cfg)
	r := &Result{Ledger: ledger.New(cfg.Within)}
	for range cfg.Lanes {
		r.Lanes = append(r.Lanes, Record{Data: ledger.New(cfg.Within)})
	}
	for range cfg.inner() {
		r.Hops = append(r.Hops, Record{Data: ledger.New(cfg.Within)})
	}
	for i, b := range cfg.Blocks {
		if i > 0 {
			w.settle()
		}
		blk, err := w.run(b)
		if err != nil {
			return nil, fmt.Errorf("simulate: block %d: %w", i, err)
		}
		r.Ledger.Merge(blk.Data)
		r.Burn.Merge(&blk.Burn)
		for i := range blk.Lanes {
			r.Lanes[i].add(&blk.Lanes[i])
		}
		for i := range blk.Hops {
			r.Hops[i].add(&blk.Hops[i])
		}
		r.Blocks = append(r.Blocks, blk)
		r.Elapsed = time.Duration(blk.End)
		if w.stopped {
			break
		}
	}
	r.Arrivals, r.ArrivalsDigest = w.schedule.Count()-w.unbegun+w.userCalls, w.schedule.Digest()-w.unbegunDigest
	r.DrawsDigest, r.ResultDigest, r.Served = w.draws, w.results, w.tally()
	r.Services = w.servedBy()
	r.Events, r.Stopped, r.Overflow = w.count, w.stopped, w.overflow
	return r, nil
}
