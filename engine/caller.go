package engine

import (
	"errors"
	"fmt"
	"math"

	"latencylab/clock"
	"latencylab/http1"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/workloads"
)

// CallerConfig is what a Caller calls, and how.
type CallerConfig struct {
	Policy *policy.Policy
	// Endpoints are the replicas of what is called, at least one.
	Endpoints []Endpoint
	// Template is the request, without the field of Policy.Wire, which is added
	// for calls that have a deadline.
	Template *http1.RequestTemplate
	// Connections is the ceiling on connections. 0 means none.
	Connections int
	// Seed keys the draws of the policy.
	Seed uint64
	// Idempotent says that the request may be sent more than once.
	Idempotent bool
	// Book is what the calls are recorded in.
	Book *ledger.Ledger
}

// Caller makes calls that a schedule knows nothing of: a server calls on for the
// requests that it gets. It is a loop without blocks that is driven by the
// thread of another loop, and by no other: that one watches the Caller's poller
// (Poller.Nest), calls Turn when it is ready or Next is due, and then takes what
// has ended. It never waits. The policy's clock is the machine's.
type Caller struct {
	l     *loop
	calls []fedCall // by index of the call's record
	ended []Ended
	taken int // of ended
}

// fedCall is what a Caller knows of a call beside the loop's record.
type fedCall struct {
	tag    uint64
	run    http1.Run
	entry  http1.Entry
	status uint16 // of the last failure: statusBroken without an answer, statusTimedOut by a timeout
}

// Statuses that a server answers with for a call that brought none itself (RFC
// 9110 15.6.3 to 15.6.5).
const (
	statusBroken   = 502 // the connection broke
	statusUnsent   = 503 // the policy sent nothing
	statusTimedOut = 504 // a timeout or the deadline was the end
)

// Submission is a call to begin.
type Submission struct {
	// ID numbers the calls of a policy; it keys the draws and is sent.
	ID uint64
	// Tag comes back with the end of the call.
	Tag uint64
	// Intended is when the call was due.
	Intended clock.Time
	// Deadline is the instant that a caller has set: the earlier of it and the
	// policy's own counts. clock.Never means none.
	Deadline clock.Time
	// Run and Entry are passed on to the server.
	Run   http1.Run
	Entry http1.Entry
}

// Ref names a call under way.
type Ref struct {
	id    uint64
	index uint32
}

// Ended is the end of a call.
type Ended struct {
	Tag     uint64
	Outcome policy.Outcome // OK, Failed or Expired
	// Status, unless OK, is what the server that made the call answers: the last
	// status that the call was answered with, 504 when a timeout or the deadline
	// was its end, 502 when its connection broke, 503 when its policy did not send.
	Status uint16
}

// NewCaller returns a Caller. It fails on a config that cannot be driven or when
// the process is out of files.
func NewCaller(cfg CallerConfig) (*Caller, error) {
	switch {
	case cfg.Policy.Cancel == policy.CancelTied:
		return nil, errors.New("engine: cancel=tied, but servers on sockets do not tell each other of copies")
	case cfg.Connections < 0:
		return nil, fmt.Errorf("engine: %d connections, want 0 or more", cfg.Connections)
	}
	if err := checkEndpoints(cfg.Endpoints); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: Config{
			Lanes:     []Lane{{Policy: cfg.Policy, Clients: 1, Template: cfg.Template}},
			Endpoints: cfg.Endpoints, FallbackDelay: DefaultFallbackDelay, Threads: 1, Seed: cfg.Seed, Idempotent: cfg.Idempotent,
			Connections: cfg.Connections,
		},
		lanes: []laneClock{{loops: 1}},
	}
	if cfg.Connections == 0 {
		e.cfg.Connections = math.MaxInt32
	}
	l, err := newLoop(e, 0)
	if err != nil {
		return nil, err
	}
	k := &Caller{l: l}
	l.fed, l.ln = k, &l.lanes[0]
	l.ln.book[0] = cfg.Book
	if w := cfg.Policy.Wire; w != policy.WireNone {
		l.ln.bare = cfg.Template.Clone()
		if err := l.ln.template.AddField(w.Header(), w.Width()); err != nil {
			l.poll.Close()
			return nil, fmt.Errorf("engine: request: %w", err)
		}
	}
	now := clock.Now()
	l.run = &run{loops: 1, block: workloads.Block{}, begin: now, dataStart: now, end: clock.Never}
	l.finished, l.end, l.handAt, l.nextAt = true, clock.Never, clock.Never, clock.Never
	l.heard, l.busySince = now, now
	l.readClocks()
	return k, nil
}

// Nest has p become ready, with this token, when a Turn would find something.
func (k *Caller) Nest(p *Poller, token uint64) error { return p.Nest(k.l.poll, token) }

// Next is when Turn is due without anything being ready: clock.Never for not at
// all, 0 for at once.
func (k *Caller) Next() clock.Time {
	if l := k.l; len(l.pending) > 0 || len(l.again) > 0 {
		return 0
	}
	return min(k.l.timers.Next(), k.l.dialTimers.Next())
}

// Turn reads what is ready and lets due timers act. An error is that of the
// system; the Caller is then of no further use.
func (k *Caller) Turn() error {
	if err := k.l.look(clock.Now(), 0); err != nil {
		return err
	}
	k.l.act()
	return nil
}

// Submit begins a call. It may have ended when Submit returns: see Ended.
func (k *Caller) Submit(s Submission) Ref {
	l, now := k.l, clock.Now()
	c := l.enroll(s.ID, s.Intended, now, false)
	for int(c.index) >= len(k.calls) {
		k.calls = append(k.calls, fedCall{})
	}
	k.calls[c.index] = fedCall{tag: s.Tag, run: s.Run, entry: s.Entry}
	ref := Ref{s.ID, c.index}
	r := policy.Request{ID: s.ID, Intended: s.Intended, Idempotent: l.eng.cfg.Idempotent}
	if s.Deadline != clock.Never {
		r.Deadline = s.Deadline
	}
	l.apply(c, c.k.Start(l.client(s.ID), r, now), clock.Never)
	return ref
}

// Ended takes the next call that has ended of itself, in the order of their
// ends; ok is false when there is none.
func (k *Caller) Ended() (e Ended, ok bool) {
	if k.taken == len(k.ended) {
		k.ended, k.taken = k.ended[:0], 0
		return e, false
	}
	k.taken++
	return k.ended[k.taken-1], true
}

// Cancel gives a call up: its attempts end as cancelled ones do by the policy's
// Cancel, and it counts as unfinished. A call that has ended stays ended.
func (k *Caller) Cancel(r Ref) {
	l := k.l
	c := l.calls.At(r.index)
	if !c.open || c.id != r.id {
		return
	}
	l.now = clock.Now()
	for s := range c.slots {
		if c.slots[s].state != slotFree {
			l.cancel(c, uint8(s), ledger.ClassNone, clock.Never)
		}
	}
	c.k.Abandon(l.now)
	l.recordUnfinished(c, l.now)
	l.drop(c)
}

// Live returns how many calls are under way.
func (k *Caller) Live() int { return k.l.live }

// CloseIdle closes the connections that carry nothing.
func (k *Caller) CloseIdle() {
	k.l.conns.Each(func(cn *conn) {
		if cn.state == connIdle {
			k.l.closeConn(cn, false)
		}
	})
}

// Close gives up all calls, as unfinished ones with abandoned attempts, and
// closes all connections and the poller.
func (k *Caller) Close() {
	k.l.abandon()
	k.l.conns.Each(func(cn *conn) {
		if cn.state != connFree {
			Close(int(cn.fd), false)
		}
	})
	k.l.poll.Close()
}

// end notes that a call has ended of itself.
func (k *Caller) end(c *call, o policy.Outcome) {
	f := &k.calls[c.index]
	e := Ended{Tag: f.tag, Outcome: o}
	switch {
	case o == policy.OK:
	case o == policy.Expired:
		e.Status = statusTimedOut
	case f.status == 0:
		e.Status = statusUnsent
	default:
		e.Status = f.status
	}
	k.ended = append(k.ended, e)
}

// trace writes what the call passes on into its request.
func (k *Caller) trace(t *http1.RequestTemplate, c *call) {
	f := &k.calls[c.index]
	t.SetTrace(f.run, f.entry)
}

// noteStatus keeps the status of a failure for the end of a call of a Caller.
func (l *loop) noteStatus(c *call, status uint16) {
	if l.fed != nil {
		l.fed.calls[c.index].status = status
	}
}

// Open is what is under way.
type Open struct{ Calls, Attempts int }

// Open returns what is under way. Attempts that wait for a connection count in
// once they have it.
func (k *Caller) Open() (o Open) {
	k.l.calls.Each(func(c *call) {
		if !c.open {
			return
		}
		o.Calls++
		for s := range c.slots {
			if c.slots[s].state == slotSent {
				o.Attempts++
			}
		}
	})
	return o
}

// Recount counts what is under way into the book, which was reset: what ends
// later has then been begun.
func (k *Caller) Recount() {
	b := k.l.ln.book[0]
	k.l.calls.Each(func(c *call) {
		if !c.open {
			return
		}
		b.Calls.Scheduled++
		for s := range c.slots {
			if a := &c.slots[s]; a.state == slotSent {
				b.Sent(a.kind)
			}
		}
	})
}
