package sim

import (
	"time"

	"latencylab/clock"
	"latencylab/histo"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/workloads"
)

const (
	dataBook = 0 // index of the ledger of data calls
	burnBook = 1 // and of burn-in calls

	// stopEvery is how many turns pass between two questions to Config.Stop.
	stopEvery = 1 << 14
	// longGap is the number of intervals that may be empty before they are left out.
	longGap = 600
)

// world is the state of a run. Instants in it are virtual; they differ from the
// policy's clock by offset, the time that it stood still.
type world struct {
	cfg      *Config
	schedule *workloads.Schedule
	clients  []*policy.Client
	servers  []*service.Server
	events   heap

	calls    []call    // slab; calls[0] is not used
	freeCall uint32    // first free one, linked by next; 0: none
	attempts []attempt // slab; attempts[0] is not used
	freeAtt  uint32

	now    clock.Time
	offset time.Duration
	live   int // calls that have not ended
	book   [2]*ledger.Ledger

	// Of the block under way.
	base, dataStart, dataEnd clock.Time
	limit                    clock.Time // calls still open then are given up

	draws, results uint64
	count          uint64 // events
	unasked        int    // turns since Config.Stop was asked
	stopped        bool

	cur     Interval // under way; Start and End are virtual
	nextCut clock.Time
}

func newWorld(cfg *Config) *world {
	w := &world{
		cfg:      cfg,
		schedule: workloads.NewSchedule(&cfg.Arrivals),
		calls:    make([]call, 1, 256),
		attempts: make([]attempt, 1, 256),
		book:     [2]*ledger.Ledger{nil, ledger.New(cfg.Within)},
		nextCut:  clock.Never,
	}
	n := cfg.Service.Servers()
	for range max(cfg.Clients, 1) {
		w.clients = append(w.clients, policy.NewClient(&cfg.Policy, n, cfg.Seed))
	}
	for i := range n {
		w.servers = append(w.servers, service.New(cfg.Service, i, cfg.TargetSeed))
	}
	if cfg.OnInterval != nil {
		w.cur.OK = histo.New()
	}
	return w
}

// run simulates one block. The servers are idle and no call is open.
func (w *world) run(b workloads.Block) Block {
	w.begin(b)
	id, at, burn, more := w.schedule.Next()
	if !more {
		w.noMore(b)
	}
	for !w.stopping() {
		t := clock.Never
		if len(w.events.a) > 0 {
			t = w.events.a[0].at
		}
		if more && at < t {
			w.advance(at)
			w.start(id, at, burn)
			if id, at, burn, more = w.schedule.Next(); !more {
				w.noMore(b)
			}
			continue
		}
		if !more && w.live == 0 {
			break
		}
		if t == clock.Never || t > w.limit {
			break
		}
		w.advance(t)
		w.step()
	}
	if more { // stopped: the arrival is consumed, so its call counts
		w.advance(at)
		w.start(id, at, burn)
	}
	return w.finish()
}

// begin sets up the block.
func (w *world) begin(b workloads.Block) {
	w.base, w.limit = w.now, clock.Never
	w.dataStart = w.base.Add(b.Burn)
	w.dataEnd = w.dataStart.Add(b.Data)
	w.book[dataBook] = ledger.New(w.cfg.Within)
	w.book[burnBook].Reset()
	w.schedule.Begin(w.base, b)
	if w.cfg.OnInterval != nil {
		w.cur.Start = w.base
		w.nextCut = w.base.Add(w.interval())
	}
}

// noMore notes that the block has no further arrival.
func (w *world) noMore(b workloads.Block) {
	if b.Calls > 0 {
		w.dataEnd = max(w.now, w.dataStart)
	}
	if w.cfg.Horizon > 0 {
		w.limit = w.dataEnd.Add(w.cfg.Horizon)
	}
}

// stopping asks now and then whether the run is to end.
func (w *world) stopping() bool {
	if w.cfg.Stop == nil {
		return false
	}
	if w.unasked++; w.unasked >= stopEvery {
		w.unasked, w.stopped = 0, w.cfg.Stop()
	}
	return w.stopped
}

// finish gives up what is still open and closes the books of the block.
func (w *world) finish() Block {
	switch {
	case w.stopped:
		w.dataEnd = min(w.dataEnd, w.now)
	case w.live > 0 && w.limit != clock.Never:
		w.advance(max(w.now, w.limit))
	default:
		w.advance(max(w.now, w.dataEnd))
	}
	w.giveUp()
	w.cut(w.now)
	data := w.book[dataBook]
	for _, b := range w.book {
		b.Lag.RecordN(0, b.Calls.Scheduled)
		b.PoolWait.RecordN(0, b.Attempts.First+b.Attempts.Retries)
	}
	blk := Block{
		Start:     w.policyTime(w.base),
		DataStart: w.policyTime(w.dataStart),
		DataEnd:   w.policyTime(w.dataEnd),
		End:       w.policyTime(w.now),
		Data:      data,
		Tokens:    w.clients[0].Tokens(),
	}
	blk.Burn.Merge(&w.book[burnBook].Counts)
	blk.HedgeDelay, blk.HedgeOn = w.clients[0].HedgeDelay()
	return blk
}

// settle lets the servers finish what they have; the policy's clock stands still.
func (w *world) settle() {
	from := w.now
	w.nextCut = clock.Never
	for len(w.events.a) > 0 {
		w.now = max(w.now, w.events.a[0].at)
		w.step()
	}
	w.offset += w.now.Sub(from)
}

// advance moves the time on to t and reports the intervals that end by then.
func (w *world) advance(t clock.Time) {
	if t >= w.nextCut {
		w.cutUntil(t)
	}
	w.now = t
}

// step takes the next event.
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
		w.answer(e.index, a.status, a.hint)
	case timer:
		w.timer(e.index)
	case request:
		w.attempts[e.index].order = 0
		w.arrive(e.index)
	case leave:
		w.left(e.index)
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
	}
	return w.attempts[e.index].order == e.order
}

// policyTime turns a virtual instant into one of the policy's clock.
func (w *world) policyTime(t clock.Time) clock.Time { return t.Add(-w.offset) }

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
		w.cur.Start = w.cur.Start.Add(gap * d)
		w.nextCut = w.cur.Start.Add(d)
	}
	for w.nextCut <= t {
		w.cut(w.nextCut)
		w.nextCut = w.nextCut.Add(d)
	}
}

// cut reports the interval under way, which ends at t, and begins the next.
func (w *world) cut(t clock.Time) {
	if w.cfg.OnInterval == nil || t == w.cur.Start && w.cur.Ended == 0 && w.cur.Sent == 0 {
		return
	}
	i := w.cur
	i.Burn = i.Start < w.dataStart
	i.Start, i.End = w.policyTime(i.Start), w.policyTime(t)
	w.cfg.OnInterval(i)
	w.cur.OK.Reset()
	w.cur = Interval{Start: t, OK: w.cur.OK}
}
