package main

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

var (
	answer     = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world\n")
	headerEnd  = []byte("\r\n\r\n")
	reportLine = []byte("GET /report ")
)

// server is one loop over one epoll set.
type server struct {
	listener, epoll int
	port            int
	host            [4]byte
	conns           []*conn // by file descriptor
	stamps          []int64 // kernel arrival instants in nanoseconds since 1970, in order of reading
	unstamped       int
	format          func(stamps []int64, unstamped int) []byte
	buf             []byte // the loop's read buffer
	oob             []byte
}

// conn holds what came of a request that is not whole yet, and the stamp of its
// first bytes.
type conn struct {
	partial []byte
	stamp   int64
}

func newServer(listen string, format func([]int64, int) []byte) (*server, error) {
	addr, err := net.ResolveTCPAddr("tcp4", listen)
	if err != nil {
		return nil, err
	}
	s := &server{format: format, stamps: make([]int64, 0, 1<<20), buf: make([]byte, 64<<10), oob: make([]byte, 128)}
	if ip := addr.IP.To4(); ip != nil {
		copy(s.host[:], ip)
	}
	if s.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	// Accepted sockets inherit the option, so that a request which comes with
	// the handshake's last segment is stamped too.
	for _, opt := range []int{unix.SO_REUSEADDR, unix.SO_TIMESTAMPNS} {
		if err := unix.SetsockoptInt(s.listener, unix.SOL_SOCKET, opt, 1); err != nil {
			return nil, fmt.Errorf("setsockopt %d: %w", opt, err)
		}
	}
	if err := unix.Bind(s.listener, &unix.SockaddrInet4{Port: addr.Port, Addr: s.host}); err != nil {
		return nil, fmt.Errorf("bind %s: %w", listen, err)
	}
	if err := unix.Listen(s.listener, 4096); err != nil {
		return nil, fmt.Errorf("listen %s: %w", listen, err)
	}
	name, err := unix.Getsockname(s.listener)
	if err != nil {
		return nil, fmt.Errorf("getsockname: %w", err)
	}
	s.port = name.(*unix.SockaddrInet4).Port
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	return s, s.watch(s.listener)
}

func (s *server) watch(fd int) error {
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// url is where the server listens.
func (s *server) url() string {
	return "http://" + net.JoinHostPort(net.IP(s.host[:]).String(), strconv.Itoa(s.port)) + "/"
}

// serve answers requests until stop is set, which it looks at ten times a second.
func (s *server) serve(stop *atomic.Bool) error {
	events := make([]unix.EpollEvent, 512)
	for !stop.Load() {
		n, err := unix.EpollWait(s.epoll, events, 100)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		for _, e := range events[:n] {
			if int(e.Fd) == s.listener {
				s.accept()
			} else {
				s.read(int(e.Fd))
			}
		}
	}
	return nil
}

func (s *server) accept() {
	for {
		fd, _, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		for fd >= len(s.conns) {
			s.conns = append(s.conns, nil)
		}
		s.conns[fd] = &conn{}
		if s.watch(fd) != nil {
			s.close(fd)
		}
	}
}

func (s *server) close(fd int) {
	unix.Close(fd)
	s.conns[fd] = nil
}

// read takes what one connection has. A generator sends a request in one piece
// and waits for the answer, so one read is nearly always one request; of a
// request that came in pieces the first piece's stamp counts.
func (s *server) read(fd int) {
	n, oobn, _, _, err := unix.Recvmsg(fd, s.buf, s.oob, 0)
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	if err != nil || n == 0 {
		s.close(fd)
		return
	}
	c := s.conns[fd]
	if len(c.partial) == 0 {
		c.stamp = stampOf(s.oob[:oobn])
	}
	in := s.buf[:n]
	if len(c.partial) > 0 {
		in = append(c.partial, in...)
	}
	for len(in) > 0 {
		end := bytes.Index(in, headerEnd)
		if end < 0 {
			break
		}
		reply := answer
		if bytes.HasPrefix(in, reportLine) {
			reply = s.reportAnswer()
		} else if c.stamp == 0 {
			s.unstamped++
		} else {
			s.stamps = append(s.stamps, c.stamp)
		}
		in = in[end+len(headerEnd):]
		if w, err := unix.Write(fd, reply); err != nil || w < len(reply) {
			s.close(fd)
			return
		}
	}
	c.partial = append(c.partial[:0], in...)
}

func (s *server) report() []byte { return s.format(s.stamps, s.unstamped) }

// reportAnswer is the answer to GET /report; it begins anew.
func (s *server) reportAnswer() []byte {
	body := s.report()
	s.stamps, s.unstamped = s.stamps[:0], 0
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	return append([]byte(head), body...)
}

// stampOf returns the SCM_TIMESTAMPNS of a read, in nanoseconds since 1970, or 0
// when there is none.
func stampOf(oob []byte) int64 {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			return (*unix.Timespec)(unsafe.Pointer(&m.Data[0])).Nano()
		}
	}
	return 0
}
