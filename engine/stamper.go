package engine

import (
	"net"
	"syscall"
	"time"
)

const (
	// stamperWaits is how long the kernel may take to begin with its stamps, and
	// stamperEvery how often it is asked.
	stamperWaits = 50 * time.Millisecond
	stamperEvery = 200 * time.Microsecond
)

// openStamper opens a socket that keeps the kernel stamping what it receives until
// shut is called; without such a socket answers count as unstamped. Linux stamps nothing until some socket asks for it, and
// begins a moment later (net_enable_timestamp in net/core/dev.c hands that to a
// worker): without it the first answers of a process would come unstamped.
func openStamper() (shut func()) {
	shut = func() {}
	if !Stamps {
		return shut
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return shut
	}
	defer ln.Close()
	fd, err := Dial(ln.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		return shut
	}
	shut = func() { Close(fd, false) }
	peer, err := ln.Accept()
	if err != nil {
		return shut
	}
	defer peer.Close()
	r := NewReceiver(64)
	for end := time.Now().Add(stamperWaits); time.Now().Before(end); time.Sleep(stamperEvery) {
		if _, err := peer.Write([]byte{0}); err != nil {
			break
		}
		if _, stamp, e := r.Read(fd); e != 0 && e != syscall.EAGAIN || stamp != 0 {
			break
		}
	}
	return shut
}
