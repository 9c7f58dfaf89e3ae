package engine

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"latencylab/clock"
	"latencylab/histo"
	"latencylab/http1"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/slab"
	"latencylab/workloads"
)

const (
	eventsPerPoll   = 512
	readBuffer      = 64 << 10
	arrivalsPerTurn = 256 // calls begun before replies are read again
	pairFor         = 100 * time.Microsecond
)

// run is one block, told to all loops of its lane.
type run struct {
	lane      int
	loops     int
	block     workloads.Block
	begin     clock.Time // real instants
	dataStart clock.Time
	end       clock.Time
	offset    time.Duration // policy time = real time - offset
	wg        sync.WaitGroup
}

// lane is what one loop holds of one policy.
type lane struct {
	policy   *policy.Policy
	clients  []*policy.Client // of this loop; client c stands at c/loops
	phased   bool             // the policy wants to know of phases
	heads    bool             // it wants to know of heads
	template *http1.RequestTemplate
	bare     *http1.RequestTemplate // of a Caller: without the field of a deadline
	schedule *workloads.Schedule
	pools    []pool // by endpoint
	open     int    // connections open or dialling
	idle     int
	draining int
	ceiling  int
	waiting  int               // attempts without a connection
	turn     int               // pool that dialWaiting begins with
	begun    uint64            // closed loop: calls of all blocks so far
	book     [2]*ledger.Ledger // data, burn-in
	target   bool
	agreed   Agreed // by the last TLS handshake
}

// part is what ended in one interval on one loop, by the book of its calls. Two
// of them take turns: one is filled by the loop, the other waits for the
// reporter.
type part struct {
	by         [2]tally
	start, end clock.Time
	open       int         // calls of both books that are open at the end
	full       atomic.Bool // only of the spare one: the reporter's turn
}

// tally is the part of one book.
type tally struct {
	ok                  *histo.Histogram
	ended, failed, sent uint64
}

func (p *part) empty() bool {
	for i := range p.by {
		if p.by[i].ended > 0 || p.by[i].sent > 0 {
			return false
		}
	}
	return true
}

// loop is one event loop on one thread. Only its own goroutine touches it while
// a block runs, but for spare.
type loop struct {
	eng    *Engine
	index  int
	work   chan *run
	poll   *Poller
	events *Events
	recv   *Receiver
	plain  []byte      // what was decrypted; nil without TLS
	shakes *Handshakes // nil without TLS
	// shaking are the connections in their TLS handshake, the oldest first.
	shaking connList
	remark  bool // an attempt that waited for one of them waits no longer
	memo    memo
	timers  Timers
	// dials are the connections in the making, dialTimers when their races go on.
	dials      slab.Slab[dialling]
	dialTimers Timers
	lanes      []lane
	conns      slab.Slab[conn]
	calls      slab.Slab[call]

	fed     *Caller // the loop is fed by Submit; nil: by blocks
	ln      *lane   // of the block under way
	run     *run
	done    []completion
	pending []failure
	again   []unfinished
	users   int // closed loop: users without a call
	coming  int // closed loop: users that come later in the ramp
	group   int // closed loop: all users of this loop
	ceiling ceiling
	held    clock.Time // closed loop: until then users wait for the ceiling
	joinAt  clock.Time // when the next of coming comes; Never: none
	quota   uint64     // closed loop: calls this loop may still begin, when counted
	live    int        // calls that have not ended

	nextID   uint64 // open loop: the next arrival of this loop
	nextAt   clock.Time
	nextBurn bool
	finished bool // no more calls begin
	end      clock.Time
	lastDue  clock.Time

	heard    clock.Time // when a call last ended or an attempt was answered
	vain     int        // attempts since then that ended without an answer
	dialled  clock.Time // the first dial of all; 0 before
	reached  bool       // a connection was made, by any loop
	dialErr  error      // of the first dial that failed
	failedAt clock.Time // when a dial last failed
	early    string     // why the block ended before its time; "" when it did not

	seen   clock.Time // what had arrived by then has been read: timers act as of it
	polled clock.Time // instant of the last return from the poller
	wall   int64      // realtime at polled
	paired clock.Time // when both clocks were last read together
	ahead  int64      // realtime less monotonic time then; 0: never yet
	lately clock.Time // the last look at the clock while calls began; 0: something came after
	read   clock.Time // instant at which the reads of the turn were over
	now    clock.Time // instant of the step under way

	idle      time.Duration // waited since busySince
	busySince clock.Time
	busiest   float64
	inTime    uint64
	lastBegun clock.Time // when the last data call was begun
	stranded  uint64     // data calls whose first attempt never got a connection
	stopped   bool
	ended     clock.Time
	err       error

	cur    part
	spare  part
	report bool
	handAt clock.Time // when cur is handed over
}

func newLoop(e *Engine, index int) (*loop, error) {
	p, err := NewPoller()
	if err != nil {
		return nil, err
	}
	l := &loop{eng: e, index: index, work: make(chan *run), poll: p, events: NewEvents(eventsPerPoll), recv: NewReceiver(readBuffer), report: e.cfg.OnInterval != nil}
	if l.report {
		for i := range l.cur.by {
			l.cur.by[i].ok, l.spare.by[i].ok = histo.New(), histo.New()
		}
	}
	if e.cfg.TLS != nil {
		l.shakes, l.plain = NewHandshakes(p), make([]byte, PlainSize(readBuffer))
	}
	l.done = make([]completion, 0, eventsPerPoll)
	l.lanes = make([]lane, len(e.cfg.Lanes))
	for i := range l.lanes {
		c, ln, loops := &e.cfg.Lanes[i], &l.lanes[i], e.lanes[i].loops
		if index >= loops {
			continue
		}
		ln.policy = c.Policy
		for k := index; k < c.Clients || len(ln.clients) == 0; k += loops {
			ln.clients = append(ln.clients, policy.NewClient(c.Policy, len(e.cfg.Endpoints), e.cfg.Seed))
		}
		ln.phased, ln.heads = ln.clients[0].Phased(), c.Policy.Hedge.WinAtHead
		ln.template = c.Template.Clone()
		ln.schedule = workloads.NewSchedule(&e.cfg.Arrivals)
		ln.pools = make([]pool, len(e.cfg.Endpoints))
		for k := range ln.pools {
			ln.pools[k].connected = make([]uint64, len(e.cfg.Endpoints[k].Addrs))
		}
		for k := range e.lanes[i].tls {
			ln.pools[k].tls = e.lanes[i].tls[k]
		}
		ln.ceiling = share(e.cfg.Connections, index, loops)
		if e.cfg.Closed {
			ln.ceiling = math.MaxInt32 // users need one each, hedges further ones
		}
		ln.book = [2]*ledger.Ledger{ledger.New(e.cfg.Within), ledger.New(e.cfg.Within)}
	}
	return l, nil
}

// share is this loop's part of n things dealt evenly.
func share(n, index, loops int) int {
	s := n / loops
	if index < n%loops {
		s++
	}
	return s
}

func (l *loop) main() {
	runtime.LockOSThread()
	PreciseThread()
	for r := range l.work {
		l.err = l.drive(r)
		r.wg.Done()
	}
	l.conns.Each(func(cn *conn) {
		if cn.state != connFree {
			cn.close(false)
		}
	})
	if l.shakes != nil {
		l.shakes.Wait()
	}
	l.poll.Close()
}

// drive runs one block to its end.
func (l *loop) drive(r *run) error {
	l.enter(r)
	for !l.over() {
		if err := l.turn(); err != nil {
			return err
		}
	}
	if l.live != 0 || l.ln.draining != 0 {
		return fmt.Errorf("%d calls and %d draining connections are left after all were given up", l.live, l.ln.draining)
	}
	if l.polled.Sub(l.busySince) >= 200*time.Millisecond {
		l.measureBusy()
	}
	l.ended = max(clock.Now(), r.begin)
	return nil
}

// enter makes ready for a block.
func (l *loop) enter(r *run) {
	l.ln, l.run = &l.lanes[r.lane], r
	for _, b := range l.ln.book {
		b.Reset()
	}
	l.end, l.lastDue, l.finished, l.stopped, l.early = r.end, r.begin, false, false, ""
	l.heard, l.vain = r.begin, 0
	l.ceiling.set(l.eng.cfg.Ceiling, r.loops)
	l.held = 0
	l.busiest, l.inTime, l.stranded, l.lastBegun = 0, 0, 0, 0
	l.nextAt, l.handAt, l.joinAt = clock.Never, clock.Never, clock.Never
	if l.report {
		l.cur.start, l.handAt = r.begin, r.begin.Add(l.eng.cfg.Interval)
	}
	if l.eng.cfg.Closed {
		l.users = share(l.eng.cfg.Connections, l.index, r.loops)
		l.quota = ^uint64(0)
		if n := r.block.Calls; n > 0 {
			l.quota = uint64(share(int(n), l.index, r.loops))
		}
		l.warm()
		if r.block.Ramp > 0 {
			l.group, l.coming, l.users, l.joinAt = l.users, l.users, 0, r.begin
		}
	} else {
		l.ln.schedule.Begin(r.begin, r.block)
		l.advance()
	}
	l.idle, l.busySince = 0, clock.Now()
}

// over says whether the block has ended, and gives up what is still open when
// its time to drain is over.
func (l *loop) over() bool {
	now := l.seen
	if l.eng.stop.Load() && !l.finished {
		l.stopped, l.finished = true, true
		l.end = min(l.end, max(now, l.run.begin))
		l.nextAt = clock.Never
	}
	if l.finished && l.eng.abort.Load() {
		l.abandon()
		return true
	}
	if !l.finished && now >= l.end && l.nextAt == clock.Never {
		l.finished = true
	}
	if !l.finished {
		if now < l.giveUpAt() || l.end == clock.Never && !l.unreached() && !l.stuck(now) {
			return false
		}
		l.cutShort()
		l.abandon()
		return true
	}
	if l.live == 0 && l.ln.draining == 0 && (now >= l.end || l.end == clock.Never || l.stopped) {
		return true
	}
	if now >= l.drainEnd() {
		if l.unreached() {
			l.nothingThere(now)
		}
		l.abandon()
		return true
	}
	return false
}

// drainEnd is when calls that are still open are given up.
func (l *loop) drainEnd() clock.Time {
	if !l.finished {
		return l.giveUpAt()
	}
	from := l.end
	if from == clock.Never {
		from = l.lastDue
	}
	return from.Add(l.eng.cfg.Drain)
}

// turn is one round: wait, read everything, pass replies on in the order of
// their stamps, begin the calls that are due, let timers act.
func (l *loop) turn() error {
	if err := l.wait(); err != nil {
		return err
	}
	l.act()
	return nil
}

// act is what a turn does with what was read.
func (l *loop) act() {
	l.order()
	l.flushPending()
	for i := range l.done {
		if e := &l.done[i]; e.head {
			l.headCame(e)
		} else {
			l.answer(e)
		}
	}
	l.done = l.done[:0]
	l.begin()
	// Timers act as of the last look at the sockets, never later: no answer that
	// had arrived by then is unread.
	l.now = l.seen
	for {
		id, ok := l.timers.Pop(l.seen)
		if !ok {
			break
		}
		c := l.calls.At(id)
		l.lately = 0
		l.apply(c, c.k.Advance(l.policyTime(l.seen)), clock.Never)
	}
	l.dialsDue()
	l.flushPending()
	if l.remark {
		l.markAll()
	}
}

// policyTime turns a real instant into one of the lane's own clock.
func (l *loop) policyTime(t clock.Time) clock.Time { return t.Add(-l.run.offset) }

// realTime is the reverse of policyTime.
func (l *loop) realTime(t clock.Time) clock.Time { return t.Add(l.run.offset) }

// readClocks sets polled and wall. Within pairFor of a common reading of both
// clocks their distance stays what it was: slewing moves it by less than a
// tenth of a microsecond.
func (l *loop) readClocks() {
	now := clock.Now()
	if l.ahead == 0 || now.Sub(l.paired) >= pairFor {
		var wall int64
		now, wall = clock.Pair()
		l.paired, l.ahead = now, wall-int64(now)
	}
	l.polled, l.wall = now, int64(now)+l.ahead
}

// wait sleeps until something is due or ready and reads what is ready.
func (l *loop) wait() error {
	now := l.lately
	if now == 0 {
		now = clock.Now()
	}
	due := min(l.nextAt, l.joinAt, l.timers.Next(), l.dialTimers.Next(), l.end, l.drainEnd(), l.handAt)
	if l.finished {
		due = min(l.timers.Next(), l.dialTimers.Next(), l.drainEnd(), l.handAt)
		if l.end > now {
			due = min(due, l.end)
		}
	}
	if l.shaking.head != 0 {
		due = min(due, l.shakeEnd())
	}
	users := l.users > 0 && !l.finished && now >= l.run.begin
	if users && l.held > now {
		users, due = false, min(due, l.held)
	}
	var d time.Duration
	switch {
	case users, len(l.pending) > 0, len(l.again) > 0:
	case now < l.run.begin:
		d = l.run.begin.Sub(now)
	case due == clock.Never:
		d = -1
	case due > now:
		d = due.Sub(now)
	}
	if spin := l.eng.cfg.Spin; spin > 0 && d > 0 {
		d = max(d-spin, 0)
	}
	return l.look(now, d)
}

// look waits for d, at most, from now on and reads what is ready. Negative waits
// for ever.
func (l *loop) look(now clock.Time, d time.Duration) error {
	n, err := l.poll.Wait(l.events, d)
	if err != nil {
		return err
	}
	l.readClocks()
	if d != 0 || n == 0 {
		l.idle += l.polled.Sub(now)
	}
	if l.polled.Sub(l.busySince) >= time.Second {
		l.measureBusy()
	}
	if l.polled >= l.handAt {
		l.handAt = l.polled.Add(l.eng.cfg.Interval / 4)
		if !l.spare.full.Load() {
			l.handOver()
			l.handAt = l.polled.Add(l.eng.cfg.Interval)
		}
	}
	l.read, l.now = l.polled, l.polled
	if err := l.readAll(n); err != nil {
		return err
	}
	l.seen = now
	return nil
}

// readAll handles the n events of the first look and looks again while the
// buffer comes back full. The kernel gives the sockets that are ready in the
// order in which they became so, hence once as many events were taken as there
// are sockets, all that was ready before the first look has been read.
func (l *loop) readAll(n int) error {
	if l.shakes != nil {
		l.shaken()
		l.endShakes()
	}
	rest := len(l.again)
	for _, u := range l.again[:rest] {
		l.ready(u.token, u.ready&^Writable)
	}
	l.again = l.again[:copy(l.again, l.again[rest:])]
	for more := l.conns.Used()/l.events.Len() + 1; ; more-- {
		for i := range n {
			token, ready := l.events.At(i)
			l.ready(token, ready)
		}
		if n < l.events.Len()-1 || more == 0 { // one may have been the poller's own
			return nil
		}
		var err error
		if n, err = l.poll.Wait(l.events, 0); err != nil {
			return err
		}
	}
}

func (l *loop) measureBusy() {
	span := l.polled.Sub(l.busySince)
	busy := 1 - float64(l.idle)/float64(span)
	l.busiest = max(l.busiest, min(max(busy, 0), 1))
	l.idle, l.busySince = 0, l.polled
}

// handOver gives the interval under way to the reporter and begins the next.
// The spare part is free.
func (l *loop) handOver() {
	c, s := &l.cur, &l.spare
	c.end = max(l.polled, c.start)
	if c.end == c.start && c.empty() {
		return
	}
	c.by, s.by = s.by, c.by // the reporter has emptied s.by
	s.start, s.end, s.open = c.start, c.end, l.live
	c.start = c.end
	s.full.Store(true)
}

// begin starts the calls that are due.
func (l *loop) begin() {
	l.lately = 0
	if l.finished {
		return
	}
	if l.eng.cfg.Closed {
		l.beginClosed()
		return
	}
	for range arrivalsPerTurn {
		now := clock.Now()
		l.lately = now
		if l.nextAt > now {
			return
		}
		id, at, burn := l.nextID, l.nextAt, l.nextBurn
		l.advance()
		l.start(id, at, now, burn)
	}
}

// join lets the users come that the ramp has room for: user k of n at the k-th
// n-th part of it.
func (l *loop) join(now clock.Time) {
	for now >= l.joinAt {
		l.users++
		l.coming--
		l.joinAt = clock.Never
		if l.coming > 0 {
			l.joinAt = l.run.begin.Add(time.Duration(float64(l.run.block.Ramp) * float64(l.group-l.coming) / float64(l.group)))
		}
	}
}

func (l *loop) beginClosed() {
	if l.coming > 0 {
		l.join(clock.Now())
	}
	for l.users > 0 {
		now := clock.Now()
		l.lately = now
		if now < l.run.begin || now >= l.end {
			return
		}
		if l.quota == 0 {
			l.finished = true
			return
		}
		if !l.ceiling.admits(policy.First, now) {
			l.held = l.ceiling.opens()
			return
		}
		burn := now < l.run.dataStart
		if !burn || l.run.block.Calls == 0 {
			l.quota--
		}
		l.users--
		id := l.ln.begun*uint64(l.run.loops) + uint64(l.index)
		l.ln.begun++
		l.start(id, now, now, burn)
	}
	if l.quota == 0 {
		l.finished = true
	}
}

// advance finds this loop's next arrival.
func (l *loop) advance() {
	clients := uint64(l.eng.cfg.Lanes[l.run.lane].Clients)
	loops := uint64(l.run.loops)
	if !l.ln.policy.Shared() {
		clients = loops
	}
	for {
		i, at, burn, ok := l.ln.schedule.Next()
		if !ok {
			l.nextAt = clock.Never
			if l.end == clock.Never {
				l.finished = true
			}
			return
		}
		l.lastDue = max(l.lastDue, at)
		if i%clients%loops == uint64(l.index) {
			l.nextID, l.nextAt, l.nextBurn = i, at, burn
			return
		}
	}
}

// client returns the client that call id belongs to.
func (l *loop) client(id uint64) *policy.Client {
	cs := l.ln.clients
	if len(cs) == 1 {
		return cs[0]
	}
	if l.eng.cfg.Closed {
		return cs[id/uint64(l.run.loops)%uint64(len(cs))]
	}
	n := uint64(l.eng.cfg.Lanes[l.run.lane].Clients)
	return cs[id%n/uint64(l.run.loops)%uint64(len(cs))]
}

// abandon gives up the calls and connections that are still busy at the end of
// the time to drain.
func (l *loop) abandon() {
	now := clock.Now()
	l.calls.Each(func(c *call) {
		if c.open {
			l.giveUp(c, now)
		}
	})
	l.conns.Each(func(cn *conn) {
		if cn.state == connDraining && &l.lanes[cn.lane] == l.ln {
			l.closeConn(cn, false)
		}
	})
}
