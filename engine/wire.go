package engine

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// errAgain is what a read of the wire returns when nothing was received. It is a
// temporary net.Error, after which a tls.Conn can be read on.
var errAgain error = again{}

type again struct{}

func (again) Error() string   { return "nothing was received" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// wire is the net.Conn below a tls.Conn: its reads take what the loop has
// received, its writes go to the socket. During the handshake the goroutine
// reads and writes it, and waits in Read; then it belongs to the loop alone.
type wire struct {
	s    *Secure
	fd   int
	mine bool // the loop's alone; set when the goroutine has told its end

	mu     sync.Mutex // while not mine
	more   sync.Cond
	in     []byte // received and not read; a copy of the wire's own while not mine
	out    []byte // written and not taken by the socket
	cause  error  // why nothing more comes; nil while more may
	hungry bool   // the loop waits until in is used up
	done   bool   // the handshake has ended
	over   bool   // closed
}

func (w *wire) feed(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.in = append(w.in, b...)
	w.more.Signal()
}

func (w *wire) end(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cause = cause
	w.more.Signal()
}

func (w *wire) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hungry = len(w.in) >= shakeAhead
	return w.hungry
}

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	if w.mine {
		if len(w.in) == 0 {
			return 0, errAgain
		}
		n := copy(b, w.in)
		w.in = w.in[n:]
		return n, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.in) == 0 && w.cause == nil && !w.over {
		w.more.Wait()
	}
	switch {
	case w.over:
		return 0, net.ErrClosed
	case len(w.in) == 0:
		return 0, w.cause
	}
	n := copy(b, w.in)
	if w.in = w.in[n:]; len(w.in) == 0 {
		w.in = nil
		if w.hungry {
			w.hungry = false
			w.s.h.tell(w.s)
		}
	}
	return n, nil
}

// Write implements net.Conn. It takes all of b: what the socket does not waits
// in out.
func (w *wire) Write(b []byte) (int, error) {
	if !w.mine {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.over {
			return 0, net.ErrClosed
		}
	}
	n := 0
	for len(w.out) == 0 && n < len(b) {
		m, e := Write(w.fd, b[n:])
		if e == syscall.EAGAIN {
			break
		}
		if e != 0 && e != syscall.EINTR {
			return n, e
		}
		n += m
	}
	w.out = append(w.out, b[n:]...)
	return len(b), nil
}

// flush writes out.
func (w *wire) flush() error {
	for len(w.out) > 0 {
		n, e := Write(w.fd, w.out)
		if e == syscall.EAGAIN {
			return nil
		}
		if e != 0 && e != syscall.EINTR {
			return e
		}
		w.out = w.out[n:]
	}
	w.out = nil
	return nil
}

// Close implements net.Conn: the loop closes the socket.
func (w *wire) Close() error { return nil }

// LocalAddr and the others implement net.Conn; crypto/tls needs none of them.
func (w *wire) LocalAddr() net.Addr              { return noAddr{} }
func (w *wire) RemoteAddr() net.Addr             { return noAddr{} }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

type noAddr struct{}

func (noAddr) Network() string { return "tcp" }
func (noAddr) String() string  { return "" }

// frames follows the borders of TLS records in a stream.
type frames struct {
	head [5]byte
	have int // bytes of head
	left int // bytes of the record's content that are to come
}

// walk goes on over b. It returns how many records end in it, and whether b ends
// with one.
func (f *frames) walk(b []byte) (ended int, whole bool) {
	for len(b) > 0 {
		n := 0
		if f.have < len(f.head) {
			n = copy(f.head[f.have:], b)
			if f.have += n; f.have == len(f.head) {
				f.left = int(f.head[3])<<8 | int(f.head[4])
			}
		} else {
			n = min(f.left, len(b))
			f.left -= n
		}
		b = b[n:]
		if f.have == len(f.head) && f.left == 0 {
			ended++
			f.have = 0
		}
	}
	return ended, f.have == 0
}
