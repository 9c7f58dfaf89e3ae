package target

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"latencylab/draw"
	"latencylab/engine"
)

// Deal is how one address in front of the replicas deals connections to them.
type Deal uint8

const (
	// DealNone: there is no such address.
	DealNone Deal = iota
	// DealRoundRobin deals to one after the other.
	DealRoundRobin
	// DealRandom deals to any, each as likely: drawn by the connection's number.
	DealRandom
	// DealLeast deals to one of those with the fewest open connections, the
	// lowest number of them.
	DealLeast
)

var dealNames = [...]string{"none", "round-robin", "random", "least"}

// String returns the word that DealNamed reads.
func (d Deal) String() string { return dealNames[d] }

// DealNamed reads "round-robin", "random" or "least".
func DealNamed(word string) (d Deal, ok bool) {
	for i, name := range dealNames[1:] {
		if name == word {
			return Deal(i + 1), true
		}
	}
	return DealNone, false
}

// frontToken is the poller's token of the front, beside listenerBit.
const frontToken = 1 << 40

// front is one address before the replicas of the first service, as that of a
// virtual IP: each connection is dealt to a replica when it is accepted, and
// stays there. It knows nothing of what the replicas are doing. Everything but
// addr and open belongs to the first loop.
type front struct {
	fd    int // -1 once closed
	addr  netip.AddrPort
	deal  Deal
	n     uint64 // connections dealt
	dealt []uint64
	open  []atomic.Int64 // connections of the replicas, by number
}

// FrontLedger is what the address in front of the replicas has done.
type FrontLedger struct {
	Address string   `json:"address"`
	Deal    string   `json:"deal"`
	Dealt   []uint64 `json:"dealt"` // connections, by number of the replica
}

// openFront opens the front's listener on the first loop.
func (t *Target) openFront(cfg *Config) error {
	if cfg.Front == DealNone {
		return nil
	}
	fd, addr, err := listen(netip.AddrPortFrom(cfg.Host, uint16(cfg.FrontPort)))
	if err != nil {
		return fmt.Errorf("vip: %w", err)
	}
	n := t.nodes[0].Spec.Servers()
	f := &front{fd: fd, addr: addr, deal: cfg.Front, dealt: make([]uint64, n), open: make([]atomic.Int64, n)}
	for _, l := range t.loops {
		l.front = f
	}
	return t.loops[0].poll.Add(fd, listenerBit|frontToken)
}

// Front returns the address in front of the replicas; ok is false when there is
// none.
func (t *Target) Front() (addr netip.AddrPort, ok bool) {
	if f := t.loops[0].front; f != nil {
		return f.addr, true
	}
	return netip.AddrPort{}, false
}

// pick returns the number of the replica that the next connection is dealt to.
func (f *front) pick(seed uint64) int {
	k, n := f.n, uint64(len(f.dealt))
	f.n++
	to := 0
	switch f.deal {
	case DealRoundRobin:
		to = int(k % n)
	case DealRandom:
		to = int(draw.Uniform(seed, draw.Front, k, 0, 0) * float64(n))
	case DealLeast:
		for i := range f.open {
			if f.open[i].Load() < f.open[to].Load() {
				to = i
			}
		}
	}
	f.dealt[to]++
	return to
}

// changed counts a connection of a replica that was opened or closed.
func (f *front) changed(replica int, by int64) {
	if f != nil && replica < len(f.open) {
		f.open[replica].Add(by)
	}
}

// acceptFront takes every connection that waits at the front, and gives each to
// the loop of its replica.
func (l *loop) acceptFront() {
	f := l.front
	for f != nil && f.fd >= 0 {
		fd, ok := l.acceptOne(f.fd)
		if !ok {
			return
		}
		if fd < 0 {
			continue
		}
		to := f.pick(l.target.seed)
		loops := l.target.loops // replica i is at place i/len of loop i%len
		if o := loops[to%len(loops)]; o != l {
			o.hand(fd, to/len(loops))
		} else {
			l.take(fd, to/len(loops))
		}
	}
}

// take makes a connection of what the front has dealt to a replica. One that is
// dead resets it, as a host without the process would.
func (l *loop) take(fd, replica int) {
	if r := l.replicas[replica]; r.killed || l.draining {
		engine.Close(fd, r.killed)
		l.target.open.Add(-1)
		l.sockets.Accepted++
		if r.killed {
			l.sockets.Killed++
		}
		return
	}
	l.open(fd, replica)
}

// dealtTo is a connection on its way to the loop of its replica.
type dealtTo struct{ fd, replica int }

// inbox holds what other loops hand over. Its lock is taken once a connection.
type inbox struct {
	waits  atomic.Bool
	mu     sync.Mutex
	list   []dealtTo
	closed bool
}

// hand gives a connection to l, of another loop's thread.
func (l *loop) hand(fd, replica int) {
	b := &l.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		engine.Close(fd, true)
		l.target.open.Add(-1)
		return
	}
	b.list = append(b.list, dealtTo{fd, replica})
	b.waits.Store(true)
	l.poll.Wake()
}

// takeHanded makes connections of what was handed over; at the loop's end it
// closes them, and what may still come.
func (l *loop) takeHanded(end bool) {
	b := &l.inbox
	if !end && !b.waits.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits.Store(false)
	b.closed = b.closed || end
	for _, d := range b.list {
		if end {
			engine.Close(d.fd, false)
			l.target.open.Add(-1)
			continue
		}
		l.take(d.fd, d.replica)
	}
	b.list = b.list[:0]
}

// ledger returns what the front has done; in mail of the first loop.
func (f *front) ledger() *FrontLedger {
	return &FrontLedger{Address: f.addr.String(), Deal: f.deal.String(), Dealt: append([]uint64{}, f.dealt...)}
}
