package sim

import (
	"cmp"
	"errors"
	"time"

	"latencylab/clock"
	"latencylab/draw"
	"latencylab/histo"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/workloads"
)

const (
	dataBook = 0 // index of a lane's ledger of data calls
	burnBook = 1 // and of burn-in calls: see book

	// stopEvery is how many turns pass between two questions to Config.Stop.
	stopEvery = 1 << 14
	// longGap is the number of intervals that may be empty before they are left out.
	longGap = 600
)

// world is the state of a run. Its instants are those of the policy's clock,
// which stands still between blocks.
type world struct {
	cfg      *Config
	schedule *workloads.Schedule
	users    []user // of a closed loop
	lanes    []lane // of users, then of hops
	hops     []hop
	tied     bool // some lane has its servers drop the copies of a started call
	split    splitter
	servers  []*service.Server
	came     []uint64 // of a graph: requests, by server
	rises    []rising // of the servers, if the slots of one change over time
	events   events

	calls    []call    // slab; calls[0] is not used
	freeCall uint32    // first free one, linked by next; 0: none
	attempts []attempt // slab; attempts[0] is not used
	freeAtt  uint32
	joins    []join // slab; joins[0] is not used
	freeJoin uint32

	now   clock.Time
	live  int              // calls of users that have not ended
	inner int              // those of hops
	book  []*ledger.Ledger // two of each lane
	// hopBooks is the number of the first book of a hop.
	hopBooks int

	// Of the block under way.
	block                    workloads.Block
	base, dataStart, dataEnd clock.Time
	limit                    clock.Time // calls still open then are given up
	counted                  uint64     // data calls, those that a split skips too

	// Of a closed loop: users that think, whether they begin no more, calls begun,
	// and how many of them at one instant, that instant.
	thinking  int
	dispersed bool
	userCalls uint64
	herd      int
	herdAt    clock.Time

	draws, results uint64
	books          Served // of the servers, without what follows from the rest: see tally
	count          uint64 // events
	unasked        int    // turns since Config.Stop was asked
	stopped        bool
	room           int   // calls and attempts that may be open
	full           bool  // there was no room, so the run has stopped
	err            error // why the run cannot go on
	overflow       *Overflow
	// Of the arrival that was next when the run stopped: it was not begun.
	unbegun       uint64 // 1 if there is one
	unbegunDigest uint64

	cur     []Interval // under way, of the calls of each book
	cutFrom clock.Time // when they began
	nextCut clock.Time

	nextSample clock.Time
	sampled    [2]uint64  // calls begun and attempts sent by the last sample
	nextLook   clock.Time // the earlier of nextCut and nextSample
}

func newWorld(cfg *Config) *world {
	w := &world{
		cfg:      cfg,
		schedule: workloads.NewSchedule(&cfg.Arrivals),
		calls:    make([]call, 1, 256),
		attempts: make([]attempt, 1, 256),
		split:    newSplitter(cfg),
		nextLook: clock.Never,
		room:     cmp.Or(cfg.Open, MaxOpen),
	}
	w.users = make([]user, cfg.Users)
	if cfg.Graph != nil {
		w.newGraph(cfg.Graph)
		return w
	}
	n := cfg.Service.Servers()
	replicas := n
	if len(cfg.Hops) > 0 {
		replicas = 1
	}
	for i := range max(len(cfg.Lanes), 1) {
		w.addLane(cfg.lane(i), replicas, max(cfg.Clients, 1), cfg.Seed)
		w.lanes[i].toHop = len(cfg.Hops) > 0
	}
	w.hopBooks = len(w.book)
	w.newHops(n)
	w.addServers(cfg.Service, cfg.TargetSeed)
	return w
}

// addServers adds the replicas of a service.
func (w *world) addServers(spec *service.Spec, seed uint64) {
	ramped := w.rises != nil
	for i := range spec.Servers() {
		s := service.New(spec, i, seed)
		ramped = ramped || s.Ramped()
		w.servers = append(w.servers, s)
	}
	if ramped {
		w.rises = append(w.rises, make([]rising, len(w.servers)-len(w.rises))...)
	}
}

// addLane adds a policy with its clients, which pick from so many replicas.
func (w *world) addLane(p *policy.Policy, replicas, clients int, seed uint64) {
	l := lane{policy: p}
	for range clients {
		l.clients = append(l.clients, policy.NewClient(p, replicas, seed))
	}
	l.phased = l.clients[0].Phased()
	w.tied = w.tied || p.Cancel == policy.CancelTied
	w.lanes = append(w.lanes, l)
	w.book = append(w.book, nil, ledger.New(w.cfg.Within))
	for range 2 {
		i := Interval{Lane: len(w.lanes) - 1}
		if w.cfg.OnInterval != nil {
			i.OK = histo.New()
		}
		w.cur = append(w.cur, i)
	}
}

// errClock is an instant that a clock.Time cannot hold.
var errClock = errors.New("the clock, which holds 292 years, ends before the block")

// run simulates one block. The servers are idle and no call is open.
func (w *world) run(b workloads.Block) (Block, error) {
	w.begin(b)
	if w.dataEnd == clock.Never {
		return Block{}, errClock
	}
	var id uint64
	var at clock.Time
	var burn, more bool
	if len(w.users) > 0 {
		w.gather()
	} else if id, at, burn, more = w.schedule.Next(); !more {
		w.noMore()
	}
	for !w.stopping() {
		t := w.events.peek()
		if more && at < t {
			w.advance(at)
			w.start(id, 0, at, burn)
			if id, at, burn, more = w.schedule.Next(); !more {
				w.noMore()
			}
			continue
		}
		if !more && w.live == 0 && w.thinking == 0 {
			break
		}
		if t == clock.Never || t > w.limit {
			break
		}
		w.advance(t)
		w.step()
	}
	if more && id >= workloads.RampID {
		w.dataEnd = w.now
	} else if more { // stopped before the arrival
		w.unbegun, w.unbegunDigest = 1, draw.Mix(id, uint64(w.cfg.Arrivals.Gap(id)), 0)
		w.dataEnd = w.now
	}
	if w.stopped && len(w.users) > 0 && b.Calls > 0 && !w.dispersed {
		w.dataEnd = w.now
	}
	if w.err != nil {
		return Block{}, w.err
	}
	if !w.stopped && w.counted < b.Calls {
		return Block{}, errClock
	}
	return w.finish(), nil
}

// begin sets up the block.
func (w *world) begin(b workloads.Block) {
	w.block, w.base, w.limit = b, w.now, clock.Never
	w.dataStart = w.base.Add(b.Ramp + b.Burn)
	w.dataEnd = w.dataStart.Add(b.Data)
	for i := range w.lanes {
		w.book[2*i+dataBook] = ledger.New(w.cfg.Within)
		w.book[2*i+burnBook].Reset()
	}
	w.counted = 0
	w.schedule.Begin(w.base, b)
	for _, s := range w.servers {
		s.Mark(w.dataStart)
	}
	w.split.begin(w.base)
	w.lookFrom(w.base)
}

// noMore notes that the block has no further arrival, or no user that begins one
// after the data.
func (w *world) noMore() {
	if w.block.Calls > 0 {
		w.dataEnd = max(w.now, w.dataStart)
	}
	if w.cfg.Horizon > 0 {
		w.limit = w.dataEnd.Add(w.cfg.Horizon)
	}
}

// stopping asks now and then whether the run is to end.
func (w *world) stopping() bool {
	if w.cfg.Stop == nil {
		return w.stopped
	}
	if w.unasked++; w.unasked >= stopEvery {
		w.unasked, w.stopped = 0, w.stopped || w.cfg.Stop()
	}
	return w.stopped
}

// grown ends the run when a slab with so many records, the first one unused,
// holds more than there is room for. Only open calls and attempts make it grow.
func (w *world) grown(records int) {
	if records > w.room+1 {
		w.stopped, w.full = true, true
	}
}

// inUse is the number of attempts that a call or a server knows.
func (w *world) inUse() int {
	n := len(w.attempts) - 1
	for i := w.freeAtt; i != 0; i = w.attempts[i].call {
		n--
	}
	return n
}

// finish gives up what is still open and closes the books of the block.
func (w *world) finish() Block {
	switch {
	case w.stopped:
		w.dataEnd = min(w.dataEnd, w.now)
		w.dataStart = min(w.dataStart, w.dataEnd)
	case w.live > 0 && w.limit != clock.Never:
		w.advance(max(w.now, w.limit))
	default:
		w.advance(max(w.now, w.dataEnd))
	}
	if w.full {
		w.overflow = &Overflow{At: w.now, Calls: w.live + w.inner, Attempts: w.inUse()}
	}
	w.giveUp(false)
	w.cut(w.now)
	end := w.now
	if w.stopped {
		w.giveUp(true)
	} else if len(w.hops) > 0 {
		w.runOn()
		w.giveUp(true) // what waits for an answer that never comes
		w.runOut()
	}
	for _, b := range w.book {
		if len(w.users) == 0 { // in a closed loop there is no schedule to lag behind
			b.Lag.RecordN(0, b.Calls.Scheduled)
		}
		b.PoolWait.RecordN(0, b.Attempts.First+b.Attempts.Retries)
	}
	blk := Block{Start: w.base, DataStart: w.dataStart, DataEnd: w.dataEnd, End: end}
	for i := range w.hops {
		for _, e := range w.hops[i].edges {
			blk.Hops = append(blk.Hops, w.record(int(e.lane)))
		}
	}
	if len(w.cfg.Lanes) == 0 {
		blk.Record = w.record(0)
		return blk
	}
	blk.Data = ledger.New(w.cfg.Within)
	for i := range w.cfg.Lanes {
		r := w.record(i)
		blk.Data.Merge(r.Data)
		blk.Burn.Merge(&r.Burn)
		blk.Lanes = append(blk.Lanes, r)
	}
	return blk
}

// record returns what the lane did in the block, whose books are closed.
func (w *world) record(lane int) Record {
	c := w.lanes[lane].clients[0]
	r := Record{Data: w.book[2*lane+dataBook], Tokens: c.Tokens()}
	r.Burn.Merge(&w.book[2*lane+burnBook].Counts)
	r.HedgeDelay, r.HedgeOn = c.HedgeDelay()
	return r
}

// settle lets the servers finish what they have, and then turns the clock back:
// for the policy it stands still.
func (w *world) settle() {
	from := w.now
	w.runOut()
	if len(w.hops) == 0 {
		w.now = from
	}
}

// runOn takes all events that are left, with samples of the servers: calls of
// hops go on after those of the users.
func (w *world) runOn() {
	w.nextCut, w.nextLook = clock.Never, w.nextSample
	for t := w.events.peek(); t != clock.Never; t = w.events.peek() {
		w.advance(max(w.now, t))
		w.step()
	}
}

// runOut takes all events that are left.
func (w *world) runOut() {
	w.nextLook = clock.Never
	for t := w.events.peek(); t != clock.Never; t = w.events.peek() {
		w.now = max(w.now, t)
		w.step()
	}
}

// advance moves the time on to t and reports what is due by then.
func (w *world) advance(t clock.Time) {
	if t >= w.nextLook {
		w.look(t)
	}
	w.now = t
}

// step takes the event that was just peeked at.
func (w *world) step() {
	e := w.events.pop()
	w.count++
	if !w.current(&e) {
		w.events.stale--
		return
	}
	switch e.what {
	case end:
		w.ended(e.index)
	case reply:
		a := &w.attempts[e.index]
		a.order = 0
		w.answer(e.index)
	case timer:
		w.timer(e.index)
	case request:
		w.attempts[e.index].order = 0
		w.arrive(e.index)
	case leave:
		w.left(e.index)
	case begin:
		w.ready(e.index)
	case rise:
		w.risen(e.index)
	case piece:
		w.act(e.index)
	}
	if w.events.crowded() {
		w.events.sweep(w.current)
	}
}

// current says whether the owner of the event still waits for it.
func (w *world) current(e *event) bool {
	switch e.what {
	case timer:
		return w.calls[e.index].order == e.order
	case leave:
		return w.attempts[e.index].leave == e.order
	case begin:
		return w.users[e.index].order == e.order
	case rise:
		return w.rises[e.index].order == e.order
	}
	return w.attempts[e.index].order == e.order
}

func (w *world) interval() time.Duration {
	if w.cfg.Interval > 0 {
		return w.cfg.Interval
	}
	return time.Second
}

// cutUntil reports the intervals that end by t.
func (w *world) cutUntil(t clock.Time) {
	d := w.interval()
	if gap := t.Sub(w.nextCut) / d; gap > longGap {
		w.cut(w.nextCut)
		for i := range w.cur {
			w.cur[i].Start = w.cur[i].Start.Add(gap * d)
		}
		w.cutFrom = w.cutFrom.Add(gap * d)
		w.nextCut = w.cutFrom.Add(d)
	}
	for w.nextCut <= t {
		w.cut(w.nextCut)
		w.nextCut = w.nextCut.Add(d)
	}
}

// cut reports the interval under way, which ends at t, and begins the next: the
// calls of the burn-in first, then the data calls, either only where it has its
// time or something to tell.
func (w *world) cut(t clock.Time) {
	if w.cfg.OnInterval == nil {
		return
	}
	for n := range w.hopBooks {
		i := &w.cur[n^1] // the burn-in of a lane comes first
		burn := (n^1)&1 == burnBook
		if i.Ended > 0 || i.Sent > 0 || t > w.cutFrom && burn == (w.cutFrom < w.dataStart) {
			i.Burn, i.End = burn, t
			w.cfg.OnInterval(*i)
			i.OK.Reset()
		}
		*i = Interval{Lane: i.Lane, Start: t, OK: i.OK}
	}
	w.cutFrom = t
}
