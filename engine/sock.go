package engine

import (
	"fmt"
	"net"
	"strconv"
	"syscall"

	"latencylab/ledger"
)

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

// classOf sorts an error of a socket call.
func classOf(err error, otherwise ledger.Class) ledger.Class {
	e, ok := err.(syscall.Errno)
	if !ok {
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
