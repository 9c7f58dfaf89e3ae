package engine

import (
	"crypto/tls"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"latencylab/clock"
	"latencylab/histo"
	"latencylab/http1"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/units"
	"latencylab/workloads"
)

// Lane is one policy of a comparison. It has connections, clients, a clock and
// an arrival counter of its own.
type Lane struct {
	Name   string
	Policy *policy.Policy
	// Clients is how many clients share the calls: call i belongs to client i
	// mod Clients. 0 means 1.
	Clients int
	// Template is the request; each loop patches a copy of its own.
	Template *http1.RequestTemplate
}

// Config is what an Engine drives.
type Config struct {
	Lanes []Lane
	// Endpoints are the replicas, at least one.
	Endpoints []Endpoint
	// TLS, if not nil, is used on every connection; it is not changed. Without a
	// ServerName each server must show a certificate for its endpoint's name.
	TLS *tls.Config
	// Resume has connections of a lane to one replica resume each other's TLS
	// sessions. TLS.ClientSessionCache is not used.
	Resume bool
	// FallbackDelay is how long the handshake with one address of an endpoint may
	// take before the next address is tried beside it: the Connection Attempt Delay
	// of RFC 8305 section 5. 0 means DefaultFallbackDelay.
	FallbackDelay time.Duration
	// Threads is the number of loops, at least 1. A lane whose policy has state
	// that calls share runs on at most Clients of them.
	Threads int
	// Connections is, in open loop, the ceiling on connections of one lane, and
	// in closed loop the number of calls in flight. At least Threads.
	Connections int
	// Ceiling is the most attempts a second, of all loops, first attempts, retries
	// and hedges together; a tenth of a second of it may come at once, at least 10
	// on each loop. Retries and hedges beyond half of that are refused (rule
	// "ceiling"), users of a closed loop wait, and an open loop whose first attempts
	// reach it ends; see Block.Early. An attempt counts when it is launched, not
	// when it gets its connection. 0 means none.
	Ceiling units.Rate
	// Closed makes each of Connections users begin a call as soon as its last
	// one has ended; Arrivals is then not used.
	Closed   bool
	Arrivals workloads.Arrivals
	// Seed keys the draws of the policies.
	Seed uint64
	// Drain is how long after the end of a block calls may go on.
	Drain time.Duration
	// Within are the thresholds of the objective, ascending.
	Within []time.Duration
	// Idempotent says that the request may be sent more than once.
	Idempotent bool
	// Spin is how long before a due instant a loop stops sleeping and polls. 0
	// means that it sleeps until the instant.
	Spin time.Duration
	// Interval is the length of the intervals reported. 0 means 1 s.
	Interval time.Duration
	// OnInterval, if set, is told the ended calls of each interval, on one
	// goroutine of the engine.
	OnInterval func(Interval)
}

// Interval is what ended in one stretch of a block, of all loops of the lane:
// calls of the burn-in or data calls. Its histogram is valid during the call of
// OnInterval only.
type Interval struct {
	Lane       int
	Burn       bool // the calls, and their attempts, were of the burn-in
	Start, End clock.Time
	OK         *histo.Histogram // response times of calls that ended ok
	Ended      uint64           // calls that ended, ok or not
	Failed     uint64           // of them, failed or given up
	Sent       uint64           // attempts sent
	// Open is the number of calls, of either kind, that were open at the end; each
	// loop's at its own end, which lie within a quarter of an interval.
	Open int
}

// Block is the result of driving one lane for one block. Instants are on the
// lane's policy clock but for Began.
type Block struct {
	Lane             int
	Began            time.Time
	Start, DataStart clock.Time
	DataEnd, End     clock.Time
	Data             *ledger.Ledger
	Burn             ledger.Counts
	// Busy is the largest share of a second in which a loop did not wait.
	Busy float64
	// InTime counts data calls begun before DataEnd.
	InTime uint64
	// Stranded counts data calls whose first attempt waited for a connection, at
	// the ceiling, until the call had ended. They count in InTime if begun in time.
	Stranded uint64
	// Stopped says that Stop ended the block early.
	Stopped bool
	// Early says why else the block ended before its time; "" when it did not.
	Early string
	// Arrivals is the number of arrivals consumed so far in this lane, and
	// Digest identifies them; 0 in closed loop.
	Arrivals, Digest uint64
	// HedgeDelay is the current tracked or fixed delay of the lane's first
	// client; HedgeOn is false while nothing is hedged.
	HedgeDelay time.Duration
	HedgeOn    bool
	// Target says that answers named a replica of our own target.
	Target bool
	// TLS is what the lane's last handshake so far agreed on.
	TLS Agreed
}

// Engine drives lanes one block at a time.
type Engine struct {
	cfg     Config
	loops   []*loop
	lanes   []laneClock
	stop    atomic.Bool
	abort   atomic.Bool
	reached atomic.Bool // a connection was made
	wg      sync.WaitGroup
	unstamp func() // the kernel need not stamp for us any more; nil for a Caller
}

// laneClock places a lane's policy clock, which stands still between blocks:
// policy time = real time - offset.
type laneClock struct {
	loops  int
	offset time.Duration
	ended  clock.Time // real instant of the end of the last block
	ran    bool
	tls    []*tls.Config // by endpoint; nil: plain HTTP
}

// New opens the loops. It fails on a Config that cannot be driven or when the
// process is out of files.
func New(cfg Config) (*Engine, error) {
	switch {
	case len(cfg.Lanes) == 0:
		return nil, errors.New("engine: no policy")
	case len(cfg.Lanes) > 255:
		return nil, fmt.Errorf("engine: %d policies, want at most 255", len(cfg.Lanes))
	case cfg.Threads < 1:
		return nil, fmt.Errorf("engine: %d threads, want at least 1", cfg.Threads)
	case cfg.Connections < cfg.Threads:
		return nil, fmt.Errorf("engine: %d connections for %d threads, want at least one each", cfg.Connections, cfg.Threads)
	}
	cfg.Endpoints = slices.Clone(cfg.Endpoints)
	if err := checkEndpoints(cfg.Endpoints); err != nil {
		return nil, err
	}
	for i := range cfg.Endpoints {
		if ep := &cfg.Endpoints[i]; ep.Name == "" {
			ep.Name = ep.Addrs[0].String()
		}
	}
	if cfg.Interval == 0 {
		cfg.Interval = time.Second
	}
	if cfg.FallbackDelay == 0 {
		cfg.FallbackDelay = DefaultFallbackDelay
	}
	e := &Engine{cfg: cfg, lanes: make([]laneClock, len(cfg.Lanes)), unstamp: openStamper()}
	for i := range e.lanes {
		l := &e.cfg.Lanes[i]
		l.Clients = max(l.Clients, 1)
		e.lanes[i].loops = cfg.Threads
		if l.Policy.Shared() {
			e.lanes[i].loops = min(cfg.Threads, l.Clients)
		}
		e.lanes[i].tls = cfg.tlsConfigs()
	}
	for i := range cfg.Threads {
		l, err := newLoop(e, i)
		if err != nil {
			e.Close()
			return nil, err
		}
		e.loops = append(e.loops, l)
		e.wg.Add(1)
		go func() {
			defer e.wg.Done()
			l.main()
		}()
	}
	return e, nil
}

// Loops returns how many loops drive the lane.
func (e *Engine) Loops(lane int) int { return e.lanes[lane].loops }

// Connected returns how many connections were made so far, of all lanes, by
// endpoint and address: n[endpoint][address]. No Run is under way.
func (e *Engine) Connected() [][]uint64 {
	n := make([][]uint64, len(e.cfg.Endpoints))
	for i := range n {
		n[i] = make([]uint64, len(e.cfg.Endpoints[i].Addrs))
	}
	for _, l := range e.loops {
		for k := range l.lanes {
			for i := range l.lanes[k].pools {
				for a, c := range l.lanes[k].pools[i].connected {
					n[i][a] += c
				}
			}
		}
	}
	return n
}

// Method names the system call that ends the loops' waits.
func (e *Engine) Method() string { return e.loops[0].poll.Method() }

// Stop ends the block under way: no more calls begin, those under way have
// Drain left. Later blocks end at once. Any goroutine may call it.
func (e *Engine) Stop() {
	e.stop.Store(true)
	for _, l := range e.loops {
		l.poll.Wake()
	}
}

// Abort ends the block under way at once: no attempt is sent any more, and what
// is open is given up as at the end of the time to drain. Later blocks end at
// once. Any goroutine may call it.
func (e *Engine) Abort() {
	e.abort.Store(true)
	e.Stop()
}

// Close closes all connections and ends the loops. No Run is under way.
func (e *Engine) Close() {
	for _, l := range e.loops {
		close(l.work)
	}
	e.wg.Wait()
	if e.unstamp != nil {
		e.unstamp()
	}
}

// Run drives a lane for one block: it returns when the last call has ended or
// Drain is over. An open loop whose calls have not all begun by then counts the
// rest as dropped. It returns before the block's time when no connection can be
// made, and a closed loop with a number of calls when nothing was answered for
// Drain; see Block.Early. One Run at a time.
func (e *Engine) Run(lane int, b workloads.Block) (*Block, error) {
	lc := &e.lanes[lane]
	// The block begins shortly from now, so that all loops are there in time.
	begin := clock.Now().Add(2 * time.Millisecond)
	if !lc.ran {
		lc.ran, lc.offset = true, time.Duration(begin)
	} else {
		lc.offset += begin.Sub(lc.ended)
	}
	r := &run{lane: lane, block: b, begin: begin, offset: lc.offset, loops: lc.loops}
	r.dataStart = begin.Add(b.Ramp + b.Burn)
	r.end = r.dataStart.Add(b.Data)
	if b.Calls > 0 {
		r.end = clock.Never
	}
	stopReports := e.report(r)
	r.wg.Add(lc.loops)
	for _, l := range e.loops[:lc.loops] {
		l.work <- r
	}
	r.wg.Wait()
	stopReports()
	return e.collect(r)
}

// collect merges what the loops recorded of a block.
func (e *Engine) collect(r *run) (*Block, error) {
	lc := &e.lanes[r.lane]
	out := &Block{Lane: r.lane, Data: ledger.New(e.cfg.Within)}
	out.Began = clock.Origin().Add(time.Duration(r.begin))
	policyTime := func(t clock.Time) clock.Time { return t.Add(-r.offset) }
	var ended, lastDue, lastBegun, stopped clock.Time
	for i, l := range e.loops[:r.loops] {
		if l.err != nil {
			return nil, fmt.Errorf("loop %d: %w", i, l.err)
		}
		ln := &l.lanes[r.lane]
		out.Data.Merge(ln.book[0])
		out.Burn.Merge(&ln.book[1].Counts)
		out.Busy = max(out.Busy, l.busiest)
		out.InTime += l.inTime
		out.Stranded += l.stranded
		if l.stopped {
			out.Stopped, stopped = true, max(stopped, l.end)
		}
		if l.early != "" {
			out.Early, stopped = l.early, max(stopped, l.end)
		}
		out.Target = out.Target || ln.target
		if ln.agreed != (Agreed{}) {
			out.TLS = ln.agreed
		}
		ended = max(ended, l.ended)
		lastDue, lastBegun = max(lastDue, l.lastDue), max(lastBegun, l.lastBegun)
		if i == 0 {
			out.HedgeDelay, out.HedgeOn = ln.clients[0].HedgeDelay()
			if !e.cfg.Closed {
				out.Arrivals, out.Digest = ln.schedule.Count(), ln.schedule.Digest()
			}
		}
	}
	if strings.HasPrefix(out.Early, Ceiling) {
		out.Stopped = false // it was not Stop but its own doing
	}
	lc.ended = ended
	end := r.end
	switch {
	case out.Stopped || out.Early != "":
		end = stopped
	case end == clock.Never && e.cfg.Closed:
		end = ended
	case end == clock.Never:
		// The data last until the last call was due, or until it was begun when
		// that was late: then as large a part of the calls was begun in time as
		// their schedule is of that.
		end = min(max(lastDue, r.begin), ended)
		if late := lastBegun.Sub(end); late > time.Millisecond {
			span, took := end.Sub(r.dataStart), lastBegun.Sub(r.dataStart)
			out.InTime = uint64(float64(out.Data.Calls.Scheduled) * float64(max(span, 0)) / float64(max(took, 1)))
			end = min(lastBegun, ended)
		}
	}
	out.Start, out.DataStart = policyTime(r.begin), policyTime(min(r.dataStart, end))
	out.DataEnd, out.End = policyTime(end), policyTime(ended)
	for _, c := range []*ledger.Counts{&out.Data.Counts, &out.Burn} {
		if err := c.Check(); err != nil {
			return nil, fmt.Errorf("the ledger of policy %s does not add up: %w", e.cfg.Lanes[r.lane].Name, err)
		}
	}
	return out, nil
}

// collectEvery is how often garbage is collected at the least. What the reports
// of intervals leave behind would otherwise pile up for the better part of an
// hour before it reaches the collector's goal, and peak memory with it.
const collectEvery = 20 * time.Second

// report starts the goroutine that passes intervals on while r runs; the
// function it returns ends it after the last ones.
func (e *Engine) report(r *run) (stop func()) {
	if e.cfg.OnInterval == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	all := &[2]*histo.Histogram{histo.New(), histo.New()}
	go func() {
		defer close(ended)
		collected := time.Now()
		tick := time.NewTicker(min(e.cfg.Interval/4, 250*time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				if now.Sub(collected) >= collectEvery {
					collected = now
					runtime.GC()
				}
				if e.allFull(r) {
					e.passOn(r, all)
				}
			case <-done:
				e.passOn(r, all)
				for _, l := range e.loops[:r.loops] {
					l.handOver()
				}
				e.passOn(r, all)
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (e *Engine) allFull(r *run) bool {
	for _, l := range e.loops[:r.loops] {
		if !l.spare.full.Load() {
			return false
		}
	}
	return true
}

// passOn tells OnInterval what the loops have handed over, if anything: the
// calls of the burn-in first, then the data calls, either only where it has its
// time or something to tell.
func (e *Engine) passOn(r *run, all *[2]*histo.Histogram) {
	data := Interval{Lane: r.lane, Start: clock.Never}
	burn := data
	burn.Burn = true
	by := [2]*Interval{&data, &burn}
	for i, iv := range by {
		iv.OK = all[i]
		iv.OK.Reset()
	}
	open := 0
	for _, l := range e.loops[:r.loops] {
		s := &l.spare
		if !s.full.Load() {
			continue
		}
		open += s.open
		for i, iv := range by {
			t := &s.by[i]
			iv.OK.Merge(t.ok)
			iv.Start, iv.End = min(iv.Start, s.start), max(iv.End, s.end)
			iv.Ended += t.ended
			iv.Failed += t.failed
			iv.Sent += t.sent
			t.ok.Reset()
			t.ended, t.failed, t.sent = 0, 0, 0
		}
		s.full.Store(false)
	}
	if data.Start == clock.Never {
		return
	}
	inBurn := data.Start < r.dataStart
	for _, iv := range [2]*Interval{&burn, &data} {
		if iv.Burn == inBurn || iv.Ended > 0 || iv.Sent > 0 {
			iv.Start, iv.End, iv.Open = iv.Start.Add(-r.offset), iv.End.Add(-r.offset), open
			e.cfg.OnInterval(*iv)
		}
	}
}
