package engine

import (
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// Stamps says whether received bytes carry the kernel's receive stamp here.
const Stamps = false

func stream(a netip.AddrPort) (int, error) {
	domain := unix.AF_INET
	if a.Addr().Is6() && !a.Addr().Is4In6() {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	setStream(fd)
	return fd, nil
}

func setStream(fd int) {
	unix.CloseOnExec(fd)
	unix.SetNonblock(fd, true)
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NOSIGPIPE, 1)
}

// Dial begins a connection without waiting. The socket is non-blocking and
// without Nagle's delay; it becomes Writable when the handshake has ended, and
// SocketError tells how.
func Dial(to netip.AddrPort) (fd int, err error) {
	if fd, err = stream(to); err != nil {
		return -1, err
	}
	if err = unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// SocketError returns how a connection attempt ended: nil when it stands.
func SocketError(fd int) error {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if n != 0 {
		return syscall.Errno(n)
	}
	return nil
}

// Bind opens a non-blocking socket that holds an address and does not listen:
// callers are refused until [ListenOn]. Port 0 takes a free one; addr is the
// address it got.
func Bind(at netip.AddrPort) (fd int, addr netip.AddrPort, err error) {
	if fd, err = stream(at); err != nil {
		return -1, addr, fmt.Errorf("listen on %v: %w", at, err)
	}
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	var sa unix.Sockaddr
	if err = unix.Bind(fd, sockaddr(at)); err == nil {
		sa, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, addr, fmt.Errorf("listen on %v: %w", at, err)
	}
	return fd, addrPort(sa), nil
}

// Accept takes one waiting connection, set up as by Dial. again is true when
// none waits.
func Accept(listener int) (fd int, again bool, err error) {
	fd, _, err = unix.Accept(listener)
	switch err {
	case nil:
		setStream(fd)
		return fd, false, nil
	case unix.EAGAIN:
		return -1, true, nil
	case unix.EINTR, unix.ECONNABORTED:
		return -1, false, nil
	}
	return -1, false, err
}

// Receiver reads sockets into one shared buffer. It belongs to one thread.
type Receiver struct {
	Buf []byte // what the last Read brought is Buf[:n]
}

// NewReceiver returns a receiver with a buffer of size bytes.
func NewReceiver(size int) *Receiver { return &Receiver{Buf: make([]byte, size)} }

// Read takes what lies in the socket. n is 0 at the end of the stream; e is
// EAGAIN when nothing lies there. There are no stamps here: stamp is 0.
func (r *Receiver) Read(fd int) (n int, stamp int64, e syscall.Errno) {
	n, err := unix.Read(fd, r.Buf)
	if err != nil {
		e, _ = err.(syscall.Errno)
		return 0, 0, e
	}
	return n, 0, 0
}

// Unread returns how many bytes lie in a socket.
func Unread(fd int) int {
	const fionread = 0x4004667f // sys/filio.h
	n, _ := unix.IoctlGetInt(fd, fionread)
	return n
}

// Write sends what the socket takes of b at once.
func Write(fd int, b []byte) (n int, e syscall.Errno) {
	if len(b) == 0 {
		return 0, 0
	}
	n, err := unix.Write(fd, b)
	if err != nil {
		e, _ = err.(syscall.Errno)
		return 0, e
	}
	return n, 0
}

// Close closes a socket; with reset the peer gets RST instead of FIN.
func Close(fd int, reset bool) {
	if reset {
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 0})
	}
	unix.Close(fd)
}
