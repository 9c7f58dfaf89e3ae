package engine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"latencylab/ledger"
)

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() || a.Addr().Is4In6() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: zone(a.Addr().Zone())}
}

// addrPort is the inverse of sockaddr, without the zone.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// zone turns the zone of an IPv6 address into an interface index, 0 when there
// is none of that name.
func zone(name string) uint32 {
	if name == "" {
		return 0
	}
	if i, err := net.InterfaceByName(name); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(name, 10, 32)
	return uint32(n)
}

// FileLimit returns how many files this process may have open. The runtime has
// raised the soft limit to the hard one at start.
func FileLimit() (int, error) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, fmt.Errorf("read the file limit: %w", err)
	}
	return int(min(uint64(r.Cur), 1<<30)), nil
}

// Listen opens a non-blocking listener with the kernel's longest backlog. Port
// 0 takes a free one; addr is the address it got.
func Listen(at netip.AddrPort) (fd int, addr netip.AddrPort, err error) {
	fd, addr, err = Bind(at)
	if err != nil {
		return -1, addr, err
	}
	if err = ListenOn(fd); err != nil {
		unix.Close(fd)
		return -1, addr, fmt.Errorf("listen on %v: %w", at, err)
	}
	return fd, addr, nil
}

// ListenOn turns a socket of Bind into a listener.
func ListenOn(fd int) error { return unix.Listen(fd, 1<<16-1) }

// classOf sorts an error of a socket call.
func classOf(err error, otherwise ledger.Class) ledger.Class {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return otherwise
	}
	switch e {
	case syscall.ECONNREFUSED:
		return ledger.ClassRefused
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN, syscall.EACCES, syscall.EPERM:
		return ledger.ClassUnreachable
	case syscall.ETIMEDOUT:
		return ledger.ClassConnectTimeout
	case syscall.EADDRNOTAVAIL:
		return ledger.ClassPortsExhausted
	case syscall.EMFILE, syscall.ENFILE:
		return ledger.ClassFileLimit
	case syscall.ECONNRESET, syscall.EPIPE:
		return ledger.ClassReset
	}
	return otherwise
}
