package target

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"latencylab/clock"
	"latencylab/histo"
	"latencylab/http1"
	"latencylab/service"
)

// beyond is what a loop has to do with the upstream; nil without one.
type beyond struct {
	*upstream
	ctx    context.Context
	end    context.CancelFunc
	wg     sync.WaitGroup
	counts UpstreamCounts
	failed [setbacks]uint64
	time   *histo.Histogram // from forwarding to the whole answer

	waits atomic.Bool
	mu    sync.Mutex
	list  []*passage // that have come back
	taken []*passage // the same, being worked through
}

func newBeyond(u *upstream) *beyond {
	b := &beyond{upstream: u, time: histo.New()}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b
}

// UpstreamLedger is what was recorded of the upstream. At every instant
//
//	forwarded = answered + sum of failed + cancelled + in_flight
type UpstreamLedger struct {
	Address string `json:"address"`
	UpstreamCounts
	// Failed counts requests without an answer that could be handed on, by the
	// reason that Latencylab-Upstream told; nil when there were none.
	Failed map[string]uint64 `json:"failed,omitempty"`
	// Opened counts connections to the upstream.
	Opened uint64 `json:"opened"`
	// Time is from when a request was to be forwarded until its answer was whole.
	Time Span `json:"time"`
}

// UpstreamCounts are the plain numbers of an upstream.
type UpstreamCounts struct {
	Forwarded uint64 `json:"forwarded"`
	Answered  uint64 `json:"answered"` // by a whole answer, of any status
	// Cancelled were given up: their caller had left, their replica was killed, or
	// the target has ended.
	Cancelled uint64 `json:"cancelled"`
	InFlight  uint64 `json:"in_flight"`
	// Waited counts requests that found every connection in use.
	Waited uint64 `json:"waited"`
	// SentAgain counts requests that were sent once more because the connection had
	// been closed before any of the answer.
	SentAgain uint64 `json:"sent_again"`
	// TooLarge and NoRoom were refused with 413 and 503 while they were read, and
	// never arrived.
	TooLarge uint64 `json:"too_large"`
	NoRoom   uint64 `json:"no_room"`
}

func (c *UpstreamCounts) merge(o *UpstreamCounts) {
	c.Forwarded += o.Forwarded
	c.Answered += o.Answered
	c.Cancelled += o.Cancelled
	c.InFlight += o.InFlight
	c.Waited += o.Waited
	c.SentAgain += o.SentAgain
	c.TooLarge += o.TooLarge
	c.NoRoom += o.NoRoom
}

// addTo adds what the loop has recorded; times gets its histogram.
func (b *beyond) addTo(l *UpstreamLedger, times *histo.Histogram) {
	l.merge(&b.counts)
	for s, n := range b.failed {
		if n > 0 {
			if l.Failed == nil {
				l.Failed = map[string]uint64{}
			}
			l.Failed[setbackOf[s].word] += n
		}
	}
	times.Merge(b.time)
}

// reset empties the record; what is under way counts as forwarded then.
func (b *beyond) reset() {
	n := b.counts.InFlight
	b.counts = UpstreamCounts{Forwarded: n, InFlight: n}
	b.failed = [setbacks]uint64{}
	b.time.Reset()
}

// keepRequest keeps bytes of the request that connection id reads. It returns
// false when they are too many; the request is then refused.
func (l *loop) keepRequest(id uint32, b []byte) bool {
	c := l.conns.At(id)
	if c.req.WellKnown() { // the target's own
		l.letGo(c)
		return true
	}
	if c.up == nil {
		c.up = &passage{}
	}
	p := c.up
	switch size := c.req.BodyKnown(); {
	case size > l.beyond.Body, int64(len(p.raw)+len(b))-size > l.beyond.Body+2*http1.MaxHead: // or much framing
		l.beyond.counts.TooLarge++
		l.turnAway(id, 413, "the body is over the limit of the target\n")
	case !l.beyond.hold(len(b)):
		l.beyond.counts.NoRoom++
		l.turnAway(id, 503, "no room is left for the request\n")
	default:
		p.held += len(b)
		p.raw = append(p.raw, b...)
		return true
	}
	return false
}

// turnAway answers a request that is not read to its end.
func (l *loop) turnAway(id uint32, status int, text string) {
	c := l.conns.At(id)
	l.letGo(c)
	c.final, c.run, c.held = true, noRun, true
	l.write(id, status, 0, []byte(text), 0)
}

// letGo drops what a connection holds of a request or an answer.
func (l *loop) letGo(c *conn) {
	if c.up != nil {
		l.beyond.release(c.up)
		c.up = nil
	}
}

// release gives back the room of a passage that no goroutine has.
func (b *beyond) release(p *passage) {
	b.upstream.held.Add(-int64(p.held))
	p.held, p.raw, p.body, p.fields = 0, nil, nil, nil
}

// giveUp ends the passage of a record that ends without its answer.
func (l *loop) giveUp(p *passage) {
	if p.out {
		p.orphan = true
		p.cancel()
		return
	}
	l.beyond.release(p)
}

// forward sends record id on, if a is an answer that the upstream is to give.
func (l *loop) forward(id uint32, a *service.Answer) bool {
	rec := l.records.At(id)
	if a.Shed || a.Status != 200 || a.Fault != service.FaultNone && !a.Fault.Spoils() {
		return false
	}
	b, p := l.beyond, rec.up
	p.record, p.verdict, p.out, p.sent = id, *a, true, clock.Now()
	b.counts.Forwarded++
	b.counts.InFlight++
	ctx, cancel := context.WithTimeout(b.ctx, b.Timeout)
	p.cancel = cancel
	b.wg.Add(1)
	go func() {
		defer b.wg.Done()
		b.exchange(ctx, p)
		cancel()
		p.back = clock.Now()
		b.mu.Lock()
		b.list = append(b.list, p)
		b.waits.Store(true)
		b.mu.Unlock()
		l.poll.Wake()
	}()
	return true
}

// takeBack answers the requests that have come back from the upstream.
func (l *loop) takeBack() {
	b := l.beyond
	if b == nil || !b.waits.Load() {
		return
	}
	b.mu.Lock()
	b.taken, b.list = b.list, b.taken[:0]
	b.waits.Store(false)
	b.mu.Unlock()
	for i, p := range b.taken {
		b.taken[i] = nil
		p.out = false
		b.count(p)
		if p.orphan {
			b.release(p)
			continue
		}
		l.handOn(p)
	}
}

// count records how a passage has ended.
func (b *beyond) count(p *passage) {
	c := &b.counts
	c.InFlight--
	c.SentAgain += p.again
	if p.waited {
		c.Waited++
	}
	switch {
	case p.orphan || p.setback == setbackCancelled:
		c.Cancelled++
	case p.setback != noSetback:
		b.failed[p.setback]++
	default:
		c.Answered++
		b.time.Record(int64(p.back - p.sent))
	}
}

// handOn answers the request of a passage that is back.
func (l *loop) handOn(p *passage) {
	rec := *l.records.At(p.record)
	l.records.Put(p.record)
	rec.due = p.back
	a := p.verdict
	if p.setback != noSetback {
		p.fail()
		a.Fault = service.FaultNone
	}
	a.Status, a.Body = uint16(p.status), len(p.body)
	if rec.conn != none && (l.conns.At(rec.conn).req.Head() || p.status == 204 || p.status == 304) &&
		(a.Fault.Phase() == service.PhaseBody || a.Fault == service.FaultDuplicateLength) {
		a.Fault = service.FaultNone // there is no body, and no length of one
	}
	if a.Fault == service.FaultNone {
		l.answer(&rec, &a)
	} else {
		l.perform(&rec, &a)
	}
}

// fail makes the target's own answer of a setback.
func (p *passage) fail() {
	s := &setbackOf[p.setback]
	p.status, p.dated, p.length = s.status, false, -1
	p.fields = append([]byte(nil), "Content-Type: text/plain\r\nLatencylab-Upstream: "+s.word+"\r\n"...)
	p.body = []byte(s.text + "\n")
}

// carry gives the answer that a record has from the upstream, if it has one, to
// the connection that it is written to.
func (rec *record) carry(c *conn) {
	if rec.up != nil && rec.up.status != 0 {
		c.up, rec.up = rec.up, nil
	}
}

// appendUpstream appends the head of an answer of the upstream with a body of n
// bytes.
func (l *loop) appendUpstream(b []byte, c *conn, status, n int) []byte {
	p := c.up
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10)
	b = append(append(append(b, ' '), http1.Reason(status)...), "\r\n"...)
	if b = append(b, p.fields...); !p.dated {
		b = append(append(append(b, "Date: "...), l.out.dateOf(l.now)...), "\r\n"...)
	}
	b = appendField(b, "Latencylab-Replica: ", int64(l.replicas[c.replica].index))
	if l.out.worked {
		b = appendField(b, "Latencylab-Work: ", int64(l.out.work))
	}
	switch {
	case c.final:
		b = append(b, "Connection: close\r\n"...)
	case c.req.HTTP10():
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	switch {
	case status == 204 || status == 304 || c.req.Head() && p.length < 0 && p.setback == noSetback:
	case c.req.Head() && p.length >= 0:
		b = appendField(b, "Content-Length: ", p.length)
	case l.out.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	default:
		b = appendField(b, "Content-Length: ", int64(n))
	}
	return append(b, "\r\n"...)
}

func appendField(b []byte, name string, v int64) []byte {
	return append(strconv.AppendInt(append(b, name...), v, 10), "\r\n"...)
}

// body returns bytes of the body that connection c writes, from offset at, at most
// n of them.
func (l *loop) body(c *conn, at, n int) []byte {
	if c.up == nil || at >= len(c.up.body) {
		return l.out.filler(at, n)
	}
	b := c.up.body[at:]
	return b[:min(len(b), n, fillSize)]
}

// dropPassage decides what becomes of the request on connection id, whose caller
// has left, at the upstream. It returns false if the request is not there.
func (l *loop) dropPassage(id uint32, t *tally) bool {
	c := l.conns.At(id)
	rec := l.records.At(c.rec)
	if rec.up == nil || !rec.up.out {
		return false
	}
	t.Cancelled.Running++
	if l.replicas[rec.replica].spec().Cancel != service.CancelRunning {
		t.Cancelled.WentOn++
		if l.target.open.Load() > l.maxConns/2 {
			l.close(id)
		}
		return true
	}
	t.Cancelled.Dropped++
	rec.due = l.now
	l.finish(rec, &service.Answer{Worked: rec.up.verdict.Worked}, endDropped)
	l.records.Put(c.rec)
	c.rec = none
	l.close(id)
	return true
}

// closeBeyond gives up what the upstream has, and waits for the goroutines. The
// poller is still open.
func (l *loop) closeBeyond() {
	if l.beyond != nil {
		l.beyond.end()
		l.beyond.wg.Wait()
	}
}
