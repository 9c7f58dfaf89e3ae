package engine

import (
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Stamps says whether received bytes carry the kernel's receive stamp here.
const Stamps = true

// Dial begins a connection without waiting. The socket is non-blocking, without
// Nagle's delay, and stamps what it receives; it becomes Writable when the
// handshake has ended, and SocketError tells how.
func Dial(to netip.AddrPort) (fd int, err error) {
	domain := unix.AF_INET
	if to.Addr().Is6() && !to.Addr().Is4In6() {
		domain = unix.AF_INET6
	}
	fd, err = unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	setStream(fd)
	if err = unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func setStream(fd int) {
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
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
	domain := unix.AF_INET
	if at.Addr().Is6() && !at.Addr().Is4In6() {
		domain = unix.AF_INET6
	}
	fd, err = unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
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
	fd, _, err = unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
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

// Receiver reads sockets into one shared buffer together with the kernel's
// receive stamps. It belongs to one thread.
type Receiver struct {
	Buf []byte // what the last Read brought is Buf[:n]
	msg unix.Msghdr
	iov unix.Iovec
	oob [64]byte
}

// NewReceiver returns a receiver with a buffer of size bytes.
func NewReceiver(size int) *Receiver {
	r := &Receiver{Buf: make([]byte, size)}
	r.iov.Base = &r.Buf[0]
	r.iov.SetLen(size)
	r.msg.Iov = &r.iov
	r.msg.SetIovlen(1)
	r.msg.Control = &r.oob[0]
	return r
}

// Read takes what lies in the socket. n is 0 at the end of the stream; e is
// EAGAIN when nothing lies there. stamp is the kernel's receive stamp of the
// last byte in nanoseconds since 1970 UTC, 0 when there is none.
func (r *Receiver) Read(fd int) (n int, stamp int64, e syscall.Errno) {
	r.msg.SetControllen(len(r.oob))
	got, _, e := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.msg)), 0)
	if e != 0 {
		return 0, 0, e
	}
	if r.msg.Controllen >= 32 {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&r.oob[0]))
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS {
			ts := (*unix.Timespec)(unsafe.Pointer(&r.oob[unix.SizeofCmsghdr]))
			stamp = ts.Nano()
		}
	}
	return int(got), stamp, 0
}

// Unread returns how many bytes lie in a socket.
func Unread(fd int) int {
	n, _ := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return n
}

// Write sends what the socket takes of b at once.
func Write(fd int, b []byte) (n int, e syscall.Errno) {
	if len(b) == 0 {
		return 0, 0
	}
	// SIGPIPE of a socket that is not stdout or stderr is ignored by the runtime.
	w, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if e != 0 {
		return 0, e
	}
	return int(w), 0
}

// Close closes a socket; with reset the peer gets RST instead of FIN.
func Close(fd int, reset bool) {
	if reset {
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 0})
	}
	unix.Close(fd)
}
