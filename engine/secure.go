package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"latencylab/clock"
)

const (
	// shakeAhead is how many bytes a handshake may lag behind what was received
	// before the loop reads no more of the socket.
	shakeAhead = 16 << 10
	// maxRecord bounds the ciphertext of one TLS record with its header (RFC 8446
	// 5.2, RFC 5246 6.2.3).
	maxRecord = 5 + 16<<10 + 2048
	// secureWrite is the plaintext that one TLS record takes.
	secureWrite = 16 << 10
)

// ErrTruncated says that the peer ended the stream without a close_notify: what
// it was about to send may be missing (RFC 8446 6.1).
var ErrTruncated = errors.New("tls: the stream ended without close_notify")

// Handshakes runs the TLS handshakes of the connections of one loop, each on a
// goroutine of its own, so that the loop spends nothing on them. It belongs to
// the loop. A goroutine is parked while its peer owes bytes; the sockets stay in
// the loop's poller.
type Handshakes struct {
	poll *Poller
	wg   sync.WaitGroup
	news atomic.Bool // told is not empty
	mu   sync.Mutex
	told []*Secure
}

// NewHandshakes returns the handshakes of the loop that waits at p.
func NewHandshakes(p *Poller) *Handshakes { return &Handshakes{poll: p} }

// Next returns a connection whose handshake has ended or wants more bytes after
// its Full was true: see Secure.Ended. The poller's Wait returns when there is
// one. ok is false when there is none.
func (h *Handshakes) Next() (s *Secure, ok bool) {
	for h.news.Load() {
		if s = h.pop(); s != nil && !s.wire.over { // over: closed meanwhile
			s.take()
			return s, true
		}
	}
	return nil, false
}

func (h *Handshakes) pop() (s *Secure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.told) - 1
	s, h.told[n] = h.told[n], nil
	h.told = h.told[:n]
	h.news.Store(n > 0)
	return s
}

// Wait waits until no goroutine is left. All connections were closed; the
// poller is still open.
func (h *Handshakes) Wait() { h.wg.Wait() }

func (h *Handshakes) tell(s *Secure) {
	h.mu.Lock()
	h.told = append(h.told, s)
	h.news.Store(true)
	h.mu.Unlock()
	h.poll.Wake()
}

// Secure is TLS over a socket that a loop owns: the loop receives and hands over
// the ciphertext, and gets the plaintext back. It begins with a handshake, whose
// end Handshakes.Next tells. All methods belong to the loop. Between requests it
// holds no memory but that of the tls.Conn.
type Secure struct {
	// Token is for the owner: what the poller returns for the socket.
	Token uint64

	h      *Handshakes
	tls    *tls.Conn
	wire   wire
	server bool
	begun  bool // the goroutine was started
	ended  bool // the loop knows that the handshake has ended
	closed bool // a close_notify has come
	frames frames

	// Written by the goroutine before it tells the end.
	err error
	at  clock.Time
}

// Client begins a handshake as the client on a connected socket. cfg is not
// changed and may be shared.
func (h *Handshakes) Client(fd int, token uint64, cfg *tls.Config) *Secure {
	s := h.secure(fd, token)
	s.tls = tls.Client(&s.wire, cfg)
	s.begin()
	return s
}

// Server is Client as the server. It costs no goroutine before the first byte
// has come.
func (h *Handshakes) Server(fd int, token uint64, cfg *tls.Config) *Secure {
	s := h.secure(fd, token)
	s.server = true
	s.tls = tls.Server(&s.wire, cfg)
	return s
}

func (h *Handshakes) secure(fd int, token uint64) *Secure {
	s := &Secure{Token: token, h: h}
	s.wire.s, s.wire.fd = s, fd
	s.wire.more.L = &s.wire.mu
	return s
}

// begin starts the handshake's goroutine.
func (s *Secure) begin() {
	s.begun = true
	s.h.wg.Add(1)
	go func() {
		defer s.h.wg.Done()
		err := s.tls.HandshakeContext(context.Background())
		s.err, s.at = err, clock.Now()
		s.wire.mu.Lock()
		s.wire.done = true
		s.wire.mu.Unlock()
		s.h.tell(s)
	}()
}

// take makes the loop the owner of the wire once the handshake has ended.
func (s *Secure) take() {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	if s.wire.done && !s.ended {
		s.ended, s.wire.mine = true, true
	}
}

// Ended says whether the handshake has ended, at which instant and with what
// error. Next has returned s since then.
func (s *Secure) Ended() (ended bool, at clock.Time, err error) {
	if !s.ended {
		return false, 0, nil
	}
	return true, s.at, s.err
}

// State describes the connection: version, cipher, resumption. The handshake
// has ended well.
func (s *Secure) State() tls.ConnectionState { return s.tls.ConnectionState() }

// PlainSize is the length of buffer that Receive wants where a loop reads n
// bytes at once.
func PlainSize(n int) int { return n + shakeAhead + maxRecord }

// Receive takes ciphertext that was received and returns the plaintext that
// became complete with it, in buf, which is PlainSize of the loop's reads long.
// err is io.EOF after the peer's close_notify, which may follow plaintext, else
// what is wrong with the stream. During the handshake there is no plaintext;
// once it has ended, Receive of nothing returns what came with its last bytes.
func (s *Secure) Receive(b, buf []byte) (plain []byte, err error) {
	records, whole := s.frames.walk(b)
	if !s.ended {
		s.wire.feed(b)
		if !s.begun {
			s.begin()
		}
		return nil, nil
	}
	w := &s.wire
	if len(w.in) == 0 {
		w.in = b
	} else if len(b) > 0 {
		w.in = append(w.in, b...)
	}
	n := 0
	for err == nil && n < len(buf) {
		var got int
		got, err = s.tls.Read(buf[n:])
		n += got
		if records == 1 && whole && got > 0 {
			break // a further read would find nothing
		}
	}
	w.in = nil // all is read, or the stream is broken
	if err == errAgain {
		err = nil
	}
	s.closed = s.closed || err == io.EOF
	return buf[:n], err
}

// Full says that the handshake has not yet used what was received: the loop
// reads no more of the socket until Next returns s.
func (s *Secure) Full() bool { return !s.ended && s.wire.full() }

// End says that nothing more can be received: cause is io.EOF at the end of the
// stream, else the error of reading. It returns what that means for the
// connection: io.EOF after a close_notify, ErrTruncated for an end without, or
// cause. During the handshake it returns nil, and the handshake fails with cause.
func (s *Secure) End(cause error) error {
	switch {
	case !s.ended:
		s.wire.end(cause)
		if !s.begun {
			s.begin()
		}
		return nil
	case cause != io.EOF:
		return cause
	case s.closed:
		return io.EOF
	}
	return ErrTruncated
}

// Write encrypts and sends what the socket takes of b at once. n is how much of
// b needs no further Write; ciphertext of it may be Pending. The error is
// syscall.EAGAIN when Flush must come first, else the connection is of no use.
func (s *Secure) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if len(s.wire.out) > 0 {
			return n, syscall.EAGAIN
		}
		m, err := s.tls.Write(b[n:min(len(b), n+secureWrite)])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Pending says that ciphertext waits for room in the socket: Flush sends it when
// the socket is Writable.
func (s *Secure) Pending() bool {
	if !s.ended {
		s.wire.mu.Lock()
		defer s.wire.mu.Unlock()
	}
	return len(s.wire.out) > 0
}

// Flush sends ciphertext that the socket had no room for, as far as it has now.
func (s *Secure) Flush() error {
	if !s.ended {
		s.wire.mu.Lock()
		defer s.wire.mu.Unlock()
	}
	return s.wire.flush()
}

// Shut sends close_notify: nothing more is written.
func (s *Secure) Shut() {
	if s.ended && s.err == nil && len(s.wire.out) == 0 {
		s.tls.CloseWrite()
	}
}

// Close closes the socket, by RST instead of close_notify and FIN if reset, and
// ends a handshake under way. Next does not return s any more.
func (s *Secure) Close(reset bool) {
	if !reset {
		s.Shut()
	}
	w := &s.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.in, w.out = true, nil, nil
	Close(w.fd, reset) // under the lock: the goroutine must not write to another's socket
	w.more.Broadcast()
}
