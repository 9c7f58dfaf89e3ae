package engine

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Ready says what an Event found; several may be set.
type Ready uint32

const (
	Readable Ready = 1 << iota
	Writable
	// HungUp: the peer has closed its side, or the connection broke. A read
	// tells which.
	HungUp
)

// Events is a reusable buffer for Poller.Wait.
type Events struct {
	buf   []unix.Kevent_t
	token []uint64
}

// NewEvents returns a buffer for n events, at least 1.
func NewEvents(n int) *Events { return &Events{buf: make([]unix.Kevent_t, n)} }

// Len returns the capacity of the buffer.
func (e *Events) Len() int { return len(e.buf) }

// At returns event i of the last Wait.
func (e *Events) At(i int) (token uint64, r Ready) {
	ev := &e.buf[i]
	switch ev.Filter {
	case unix.EVFILT_READ:
		r = Readable
	case unix.EVFILT_WRITE:
		r = Writable
	}
	if ev.Flags&unix.EV_EOF != 0 {
		r |= HungUp
	}
	return e.token[ev.Ident], r
}

const wakeToken = ^uint64(0)

// Poller waits for sockets: kqueue, edge-triggered (EV_CLEAR). All methods but
// Wake belong to one thread.
type Poller struct {
	fd    int
	token []uint64 // token[fd] of what was added
}

// NewPoller returns a poller, or an error when the process is out of files.
func NewPoller() (*Poller, error) {
	fd, err := unix.Kqueue()
	if err != nil {
		return nil, fmt.Errorf("kqueue: %w", err)
	}
	p := &Poller{fd: fd}
	p.set(0, wakeToken)
	var ev unix.Kevent_t
	unix.SetKevent(&ev, 0, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR)
	if _, err := unix.Kevent(fd, []unix.Kevent_t{ev}, nil, nil); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("kevent: %w", err)
	}
	return p, nil
}

// Method names the system call that ends a wait in time.
func (p *Poller) Method() string { return "kevent" }

// Close releases the poller; sockets that were added stay open.
func (p *Poller) Close() { unix.Close(p.fd) }

func (p *Poller) set(fd int, token uint64) {
	for fd >= len(p.token) {
		p.token = append(p.token, 0)
	}
	p.token[fd] = token
}

// Add watches a socket for everything, edge-triggered; closing the socket ends
// that. token comes back with its events; the two largest values are taken.
func (p *Poller) Add(fd int, token uint64) error {
	var evs [2]unix.Kevent_t
	unix.SetKevent(&evs[0], fd, unix.EVFILT_READ, unix.EV_ADD|unix.EV_CLEAR)
	unix.SetKevent(&evs[1], fd, unix.EVFILT_WRITE, unix.EV_ADD|unix.EV_CLEAR)
	p.set(fd, token)
	if _, err := unix.Kevent(p.fd, evs[:], nil, nil); err != nil {
		return fmt.Errorf("kevent: %w", err)
	}
	return nil
}

// Nest has p find q Readable, edge-triggered, when a Wait of q would find
// something.
func (p *Poller) Nest(q *Poller, token uint64) error {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, q.fd, unix.EVFILT_READ, unix.EV_ADD|unix.EV_CLEAR)
	p.set(q.fd, token)
	if _, err := unix.Kevent(p.fd, []unix.Kevent_t{ev}, nil, nil); err != nil {
		return fmt.Errorf("kevent: %w", err)
	}
	return nil
}

// Wait waits until an event, a Wake or the end of d: negative waits for ever, 0
// only looks. It returns the number of events in ev; a signal returns 0 early.
func (p *Poller) Wait(ev *Events, d time.Duration) (int, error) {
	ts := unix.NsecToTimespec(int64(max(d, 0)))
	at := &ts
	if d < 0 {
		at = nil
	}
	n, err := unix.Kevent(p.fd, nil, ev.buf, at)
	if err == unix.EINTR {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("kevent: %w", err)
	}
	ev.token = p.token
	for i := 0; i < n; i++ {
		if ev.buf[i].Filter == unix.EVFILT_USER {
			n--
			ev.buf[i] = ev.buf[n]
			i--
		}
	}
	return n, nil
}

// Wake ends a Wait that is under way or the next one. Any goroutine may call it.
func (p *Poller) Wake() {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, 0, unix.EVFILT_USER, 0)
	ev.Fflags = unix.NOTE_TRIGGER
	unix.Kevent(p.fd, []unix.Kevent_t{ev}, nil, nil)
}

// PreciseThread does nothing here: kevent waits have no slack to take away.
func PreciseThread() {}
