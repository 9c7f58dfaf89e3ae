package trial

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"

	"latencylab/clock"
	"latencylab/engine"
	"latencylab/histo"
	"latencylab/http1"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/results"
	"latencylab/target"
	"latencylab/workloads"
)

// Setup is what a measurement over sockets needs beside its Plan.
type Setup struct {
	// Site is where the requests go. nil means the embedded target.
	Site *Site
	// CallHeaders is "on", "off" or "auto": sent when a policy can send twice,
	// when several are compared, and to the embedded target.
	CallHeaders string
	// Guards bound what is sent to addresses that are not loopback.
	Guards Guards
	// Spin is how long before a due instant a loop polls instead of sleeping.
	// Below 0: a tenth of the mean time between the calls of a loop, at most
	// autoSpin; in closed loop nothing is due, and nothing polls.
	Spin time.Duration
	// Child is the program, with arguments, whose main calls target.RunChild.
	Child []string
	// Log, if set, gets the intervals as an HDR histogram log, each at once.
	// After its first error nothing more is written; the measurement goes on.
	Log io.Writer
	// Interrupt, when closed, ends the measurement: nothing more begins, and
	// what is under way may end. nil never does.
	Interrupt <-chan struct{}
	// Observer is told how it goes on.
	Observer Observer
}

// Observer is told how a measurement goes on. Each function may be nil. They
// are called one at a time, from goroutines of the measurement.
type Observer struct {
	// Block is called before block n (from 1) of all begins.
	Block func(n, of int, name string, b workloads.Block)
	// Interval is called once a second, or more often, with what ended in between.
	Interval func(name string, iv engine.Interval)
	// Stage is called before a stretch of another stage begins.
	Stage func(stage, name string, b workloads.Block)
}

const (
	// fileReserve is the number of file descriptors kept for everything but
	// connections to the server: streams, pollers, the log, a child.
	fileReserve = 64
	// childReserve is what the embedded target keeps for itself of its own limit.
	childReserve = 256
	maxPolicies  = 99
)

// Check returns an error for what can be known to fail before anything starts:
// a request that cannot be sent, more connections than files. It fills in the
// number of connections of an open loop.
func (s *Setup) Check(p *Plan) error {
	w := &p.Workload
	if n := len(w.Policies); n > maxPolicies {
		return fmt.Errorf("%d policies, want at most %d", n, maxPolicies)
	}
	if s.Site == nil && w.Service == nil {
		return fmt.Errorf("workload %s has neither service nor endpoint, want one of them or a URL", w.Name)
	}
	for i := range w.Policies {
		if w.Policies[i].Policy.Cancel == policy.CancelTied {
			return fmt.Errorf("policy %s: cancel=tied, but servers on sockets do not tell each other of copies: want close, drain or reset, or loadgen sim", w.Policies[i].Name)
		}
	}
	if _, err := s.templates(p, newRunID(), newRunID()); err != nil {
		return err
	}
	if _, err := s.clientTLS(p); err != nil {
		return err
	}
	if s.Site != nil {
		s.Site.Steer = w.Steer
		if err := s.Site.CheckSteer(); err != nil {
			return err
		}
	} else if w.Steer.Given() {
		return errors.New("resolve or connect-to is given, but the target is embedded, want a URL or endpoint")
	}
	limit, err := engine.FileLimit()
	if err != nil {
		return err
	}
	reserve := fileReserve + 2*w.Threads
	if s.Site == nil {
		reserve += childReserve
	}
	most := (limit - reserve) / len(w.Policies)
	switch {
	case most < w.Threads:
		return fmt.Errorf("the file limit of %d is too low for %d threads and %d policies, want ulimit -n %d or more", limit, w.Threads, len(w.Policies), reserve+w.Threads*len(w.Policies))
	case w.Connections == 0:
		w.Connections, p.unbounded = most, true
	case w.Connections > most && len(w.Policies) > 1:
		return fmt.Errorf("connections = %d for each of %d policies, but the file limit of %d allows %d", w.Connections, len(w.Policies), limit, most)
	case w.Connections > most:
		return fmt.Errorf("connections = %d, but the file limit of %d allows %d", w.Connections, limit, most)
	case w.Connections < w.Threads:
		return fmt.Errorf("connections = %d for threads = %d, want at least one connection a thread", w.Connections, w.Threads)
	}
	return nil
}

// lane is what was recorded of one policy.
type lane struct {
	key       string // Latencylab-Run; "" when attempts carry none
	loops     int
	data      *ledger.Ledger
	burn      ledger.Counts
	blocks    []results.Block
	intervals *results.Intervals
	busy      float64
	inTime    uint64        // data calls begun before their block's data ended, and not stranded
	stranded  uint64        // data calls that never got a connection
	dataTime  time.Duration // sum over blocks
	end       clock.Time    // of the last block, on the policy's clock
	delay     time.Duration // hedge delay at that end
	hedging   bool
	digest    uint64 // of the arrivals
	target    bool   // answers came from a target of ours
}

// measurement is one Real under way.
type measurement struct {
	plan  *Plan
	setup *Setup
	site  Site
	tls   *tls.Config // nil: plain HTTP
	runID string
	eng   *engine.Engine
	child *target.Child
	lanes []lane
	began time.Time
	ended time.Time
	log   *intervalLog

	connected   [][]uint64 // by endpoint and address; of engines that are closed
	ledgerURL   string     // of the target; "" while none is known
	targetSeed  *uint64    // nil while the target's draws are not known
	used        usage      // before the first block
	spent       usage      // after the last block
	metered     bool       // both are known
	method      string     // how the engine waits
	stages      []results.Stage
	prior       string    // policy of the block before
	blockBegan  time.Time // of the block under way
	interrupted bool
	reached     time.Time
	watcher     *watcher
	halt        *results.Stop // set by the watcher
	early       string        // why the measurement ended before its plan; "" when it did not
}

// newRunID returns 16 random hexadecimal digits.
func newRunID() string {
	var b [8]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x", b)
}

// callHeaders says whether attempts carry call and attempt numbers.
func (s *Setup) callHeaders(p *Plan) bool {
	switch s.CallHeaders {
	case "on":
		return true
	case "off":
		return false
	}
	return s.Site == nil || len(p.Workload.Policies) > 1 || p.resends()
}

// templates builds the request of each policy; id is that of the marker.
func (s *Setup) templates(p *Plan, runID, id string) ([]*http1.RequestTemplate, error) {
	rq := &p.Workload.Request
	host, path := "embedded.target", rq.Path
	if s.Site != nil {
		host, path = s.Site.Host, s.Site.Path
	}
	headers := s.identify(p, id)
	for _, h := range rq.Headers {
		headers = append(headers, http1.Header(h))
	}
	var out []*http1.RequestTemplate
	for i := range p.Workload.Policies {
		var lab *http1.LabHeaders
		if s.callHeaders(p) {
			lab = &http1.LabHeaders{Run: runKey(runID, i)}
		}
		t, err := http1.NewRequestTemplate(rq.Method, path, host, headers, rq.Body, lab)
		if err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
		if name := rq.Key; name != "" {
			if err := t.AddKey(name, runKey(runID, i)+"-"); err != nil {
				return nil, fmt.Errorf("request: idempotency-key: %w", err)
			}
		}
		if w := p.policyOf(i).Wire; w != policy.WireNone {
			if err := t.AddField(w.Header(), w.Width()); err != nil {
				return nil, fmt.Errorf("policy %s: request: %w", p.Workload.Policies[i].Name, err)
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// runKey is the ledger key of policy i: http1.RunSize characters.
func runKey(runID string, i int) string { return fmt.Sprintf("%s-%02d", runID, i) }

// Real carries out the plan over sockets. s.Check has passed. An error means
// that nothing was measured; a server that fails is a result. When ctx ends,
// what is under way is given the time to drain, as by Interrupt.
func Real(ctx context.Context, p *Plan, s *Setup) (*results.Run, error) {
	m := newMeasurement(p, s)
	defer m.close()
	if err := m.reach(ctx); err != nil {
		return nil, err
	}
	m.begin()
	if err := m.pilot(ctx); err != nil {
		return nil, err
	}
	if err := m.open(); err != nil {
		return nil, err
	}
	if err := m.measure(ctx); err != nil {
		return nil, err
	}
	if err := m.sustain(ctx); err != nil {
		return nil, err
	}
	if m.eng != nil {
		m.closeEngine(m.eng)
		m.eng = nil
	}
	m.pulses(ctx)
	return m.run(context.WithoutCancel(ctx))
}

// begin makes the guards ready, which have the last word on the plan by now.
func (m *measurement) begin() {
	m.reached, m.watcher = time.Now(), newWatcher(m.plan.Workload.Stops)
}

func newMeasurement(p *Plan, s *Setup) *measurement {
	m := &measurement{plan: p, setup: s, runID: newRunID(), lanes: make([]lane, len(p.Workload.Policies))}
	for i := range m.lanes {
		m.lanes[i].data = ledger.New(p.Workload.Within)
		m.lanes[i].intervals = results.NewIntervals(0)
		if s.callHeaders(p) {
			m.lanes[i].key = runKey(m.runID, i)
		}
	}
	return m
}

// measure drives all blocks.
func (m *measurement) measure(ctx context.Context) error {
	p, s := m.plan, m.setup
	stop := m.watch(ctx, m.eng)
	defer stop()
	m.used, _ = readUsage()
	m.began = time.Now()
	if s.Log != nil {
		m.log = newIntervalLog(s.Log, m.began)
	}
	for n, b := range p.Blocks {
		if m.early != "" {
			break
		}
		if m.stopped(ctx) {
			m.interrupted = true
			break
		}
		if s.Observer.Block != nil {
			s.Observer.Block(n+1, len(p.Blocks), p.Workload.Policies[b.Policy].Name, b.Block)
		}
		if err := m.drive(ctx, b); err != nil {
			return err
		}
	}
	m.ended = time.Now()
	m.spent, m.metered = readUsage()
	return nil
}

// reach starts the target, if it is embedded, or resolves names that are not yet
// resolved, and asks the guards.
func (m *measurement) reach(ctx context.Context) error {
	if m.setup.Site == nil {
		return m.embed()
	}
	if len(m.setup.Site.Endpoints) == 0 {
		if err := m.setup.Site.Resolve(ctx); err != nil {
			return err
		}
	}
	m.site = *m.setup.Site
	var err error
	if m.tls, err = m.setup.clientTLS(m.plan); err != nil {
		return err
	}
	return m.setup.Guard(m.plan)
}

// config is what all engines of the measurement have in common.
func (m *measurement) config(interval time.Duration, on func(engine.Interval)) engine.Config {
	p, w := m.plan, &m.plan.Workload
	cfg := engine.Config{
		Endpoints: m.site.Endpoints, TLS: m.tls, Resume: !w.TLS.NoResumption, Threads: w.Threads, Connections: w.Connections, Closed: p.Closed,
		Ceiling: w.MaxAttemptRate, Seed: w.Seed, Drain: w.Drain, Within: w.Within, Idempotent: w.Request.Idempotent(),
		Spin: m.setup.spin(p), Interval: interval, OnInterval: on,
	}
	if !p.Closed {
		cfg.Arrivals = workloads.NewArrivals(w.Arrivals, w.Rate, w.Seed)
	}
	return cfg
}

// open opens the engine of the blocks.
func (m *measurement) open() error {
	p, w := m.plan, &m.plan.Workload
	templates, err := m.setup.templates(p, m.runID, m.runID)
	if err != nil {
		return err
	}
	cfg := m.config(p.interval(), m.interval)
	for i := range w.Policies {
		np := &w.Policies[i]
		cfg.Lanes = append(cfg.Lanes, engine.Lane{Name: np.Name, Policy: &np.Policy, Clients: w.Clients, Template: templates[i]})
	}
	m.eng, err = engine.New(cfg)
	if err != nil {
		return err
	}
	m.method = m.eng.Method()
	for i := range m.lanes {
		m.lanes[i].loops = m.eng.Loops(i)
	}
	return nil
}

// autoSpin is about how much later than asked a thread wakes on a machine that
// is not busy: enough to hide most of it, at a tenth of a core at most.
const autoSpin = 100 * time.Microsecond

// spin is how long before a due instant the loops poll.
func (s *Setup) spin(p *Plan) time.Duration {
	if s.Spin >= 0 || p.Closed {
		return max(s.Spin, 0)
	}
	return min(span(p.Workload.Rate, uint64(p.Workload.Threads))/10, autoSpin)
}

// embed starts the embedded target.
func (m *measurement) embed() error {
	if len(m.setup.Child) == 0 {
		return errors.New("no program for the embedded target")
	}
	text, err := workloads.MarshalGraph(m.plan.Workload.Services())
	if err != nil {
		return err
	}
	m.child, err = target.StartChild(m.setup.Child[0], m.setup.Child[1:], target.ChildConfig{Service: string(text), Seed: m.plan.TargetSeed, Threads: 1})
	if err != nil {
		return err
	}
	m.site.Path, m.ledgerURL, m.targetSeed = m.plan.Workload.Request.Path, m.child.LedgerURL(), &m.plan.TargetSeed
	m.site.Endpoints = engine.EndpointsAt(m.child.Replicas...)
	m.site.TLS = m.child.CA != ""
	if err := m.trustChild(); err != nil {
		return err
	}
	for _, a := range m.child.Replicas {
		m.site.Names = append(m.site.Names, a.String())
	}
	return nil
}

// close ends engine and embedded target.
func (m *measurement) close() {
	if m.eng != nil {
		m.eng.Close()
	}
	if m.child != nil {
		m.child.Close()
	}
}

// watch stops eng on an interrupt, or when ctx or the embedded target
// ends; the function it returns ends the watching.
func (m *measurement) watch(ctx context.Context, eng *engine.Engine) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	var gone <-chan struct{}
	if m.child != nil {
		gone = m.child.Done()
	}
	go func() {
		defer close(ended)
		select {
		case <-m.setup.Interrupt:
			eng.Stop()
		case <-ctx.Done():
			eng.Stop()
		case <-gone:
			eng.Stop()
		case <-done:
		}
	}()
	return func() { close(done); <-ended }
}

func (m *measurement) stopped(ctx context.Context) bool {
	select {
	case <-m.setup.Interrupt:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// drive runs one block and waits until the embedded target is idle.
func (m *measurement) drive(ctx context.Context, b Planned) error {
	l, name := &m.lanes[b.Policy], m.plan.Workload.Policies[b.Policy].Name
	m.blockBegan = time.Now()
	// The n-th block of every policy meets the same schedule.
	if err := m.mark(ctx, b.Block, uint32(len(l.blocks)+1)); err != nil {
		return fmt.Errorf("policy %s: %w", name, err)
	}
	got, err := m.eng.Run(b.Policy, b.Block)
	if err != nil {
		return fmt.Errorf("policy %s: %w", name, err)
	}
	l.data.Merge(got.Data)
	l.burn.Merge(&got.Burn)
	l.delay, l.hedging = got.HedgeDelay, got.HedgeOn
	l.blocks = append(l.blocks, results.NewBlock(results.BlockInput{
		Start:  got.Began.Sub(m.began) + got.DataStart.Sub(got.Start),
		Length: got.DataEnd.Sub(got.DataStart), Prior: m.prior, Ledger: got.Data,
		State: results.BlockState{Start: unseen(), End: stateOf(m.plan.policyOf(b.Policy), got.HedgeDelay, got.HedgeOn)},
	}))
	l.busy = max(l.busy, got.Busy)
	l.inTime += got.InTime - min(got.InTime, got.Stranded)
	l.stranded += got.Stranded
	l.dataTime += got.DataEnd.Sub(got.DataStart)
	l.end, l.digest = got.End, got.Digest
	l.target = l.target || got.Target
	m.prior = name
	m.early = got.Early
	switch {
	case m.halt != nil:
		m.early = m.halted()
	case m.childEnded():
		m.early = "the embedded target has ended"
		if err := m.child.Err(); err != nil {
			m.early = err.Error()
		}
	case got.Stopped:
		m.interrupted = true
	}
	if m.child != nil && m.early == "" {
		m.settle(ctx, l.key) // an error shows when the ledgers are compared
	}
	return nil
}

// childEnded says whether the embedded target's process has ended.
func (m *measurement) childEnded() bool {
	if m.child == nil {
		return false
	}
	select {
	case <-m.child.Done():
		return true
	default:
		return false
	}
}

// unseen is the state at the start of a block in real time: the engine reports
// what it left at the end.
func unseen() results.State {
	a := results.Absent("recorded at the end of blocks only")
	return results.State{Tokens: a, HedgeDelayNS: a}
}

// stateOf is the state at the end of a block.
func stateOf(p *policy.Policy, delay time.Duration, hedging bool) results.State {
	return results.State{Tokens: results.Absent("not recorded in real time"), HedgeDelayNS: delayOf(p, delay, hedging)}
}

// delayOf is the hedge delay as a figure.
func delayOf(p *policy.Policy, delay time.Duration, hedging bool) results.Figure {
	switch {
	case p.Hedge.Max == 0:
		return results.Absent("the policy does not hedge")
	case !hedging:
		return results.Absent("too few samples for a tracked delay: nothing was hedged")
	}
	return results.Num(float64(delay))
}

// interval keeps, logs and reports what ended in one interval.
func (m *measurement) interval(iv engine.Interval) {
	l, name := &m.lanes[iv.Lane], m.plan.Workload.Policies[iv.Lane].Name
	at := max(m.blockBegan.Sub(m.began)+iv.Start.Sub(l.end), 0)
	if !iv.Burn {
		l.intervals.Add(at, iv.End.Sub(iv.Start), iv.OK, iv.Failed)
	}
	if m.log != nil {
		m.log.write(name, at, &iv)
	}
	if m.setup.Observer.Interval != nil {
		m.setup.Observer.Interval(name, iv)
	}
	m.look(name, iv, m.eng)
}

// intervalLog writes intervals as an HDR log; after its first error it writes
// nothing more.
type intervalLog struct {
	w   *histo.LogWriter
	err error
}

func newIntervalLog(w io.Writer, start time.Time) *intervalLog {
	return &intervalLog{w: histo.NewLogWriter(w, "latencylab, response time of calls that ended ok", start)}
}

// write adds one interval: tag NAME.ok for data, NAME.burnin before.
func (l *intervalLog) write(name string, at time.Duration, iv *engine.Interval) {
	if l.err != nil {
		return
	}
	tag := name + ".ok"
	if iv.Burn {
		tag = name + ".burnin"
	}
	l.err = l.w.Write(tag, at, iv.End.Sub(iv.Start), iv.OK)
}
