package engine

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ready says what an Event found; several may be set.
type Ready uint32

const (
	Readable Ready = unix.EPOLLIN
	Writable Ready = unix.EPOLLOUT
	// HungUp: the peer has closed its side, or the connection broke. A read
	// tells which.
	HungUp Ready = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
)

// Events is a reusable buffer for Poller.Wait.
type Events struct{ buf []unix.EpollEvent }

// NewEvents returns a buffer for n events, at least 1.
func NewEvents(n int) *Events { return &Events{make([]unix.EpollEvent, n)} }

// Len returns the capacity of the buffer.
func (e *Events) Len() int { return len(e.buf) }

// At returns event i of the last Wait.
func (e *Events) At(i int) (token uint64, r Ready) {
	ev := &e.buf[i]
	return uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32, Ready(ev.Events)
}

const (
	sysEpollPwait2 = 441
	wakeToken      = ^uint64(0)
	timerToken     = ^uint64(0) - 1
)

// Poller waits for sockets: epoll, edge-triggered. All methods but Wake belong
// to one thread.
type Poller struct {
	fd, wakeFD int
	timerFD    int // -1 where epoll_pwait2 exists (Linux 5.11 and later)
}

// NewPoller returns a poller, or an error when the process is out of files.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	p := &Poller{fd: fd, wakeFD: -1, timerFD: -1}
	if p.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		p.Close()
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if err = p.add(p.wakeFD, wakeToken, unix.EPOLLIN); err != nil {
		p.Close()
		return nil, err
	}
	var none unix.EpollEvent
	zero := unix.Timespec{}
	if _, _, e := unix.RawSyscall6(sysEpollPwait2, uintptr(fd), uintptr(unsafe.Pointer(&none)), 1, uintptr(unsafe.Pointer(&zero)), 0, 8); e == unix.ENOSYS {
		if p.timerFD, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
			p.Close()
			return nil, fmt.Errorf("timerfd_create: %w", err)
		}
		if err = p.add(p.timerFD, timerToken, unix.EPOLLIN); err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

// Method names the system call that ends a wait in time.
func (p *Poller) Method() string {
	if p.timerFD >= 0 {
		return "epoll_pwait+timerfd"
	}
	return "epoll_pwait2"
}

// Close releases the poller; sockets that were added stay open.
func (p *Poller) Close() {
	for _, fd := range []int{p.fd, p.wakeFD, p.timerFD} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (p *Poller) add(fd int, token uint64, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(uint32(token)), Pad: int32(uint32(token >> 32))}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// Add watches a socket for everything, edge-triggered; closing the socket ends
// that. token comes back with its events; the two largest values are taken.
func (p *Poller) Add(fd int, token uint64) error {
	return p.add(fd, token, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET&0xffffffff)
}

// Nest has p find q Readable, edge-triggered, when a Wait of q would find
// something.
func (p *Poller) Nest(q *Poller, token uint64) error {
	return p.add(q.fd, token, unix.EPOLLIN|unix.EPOLLET&0xffffffff)
}

// Wait waits until an event, a Wake or the end of d: negative waits for ever, 0
// only looks. It returns the number of events in ev; a signal returns 0 early.
func (p *Poller) Wait(ev *Events, d time.Duration) (int, error) {
	var n uintptr
	var e syscall.Errno
	buf, size := uintptr(unsafe.Pointer(&ev.buf[0])), uintptr(len(ev.buf))
	switch {
	case d == 0:
		n, _, e = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), buf, size, 0, 0, 8)
	case d < 0:
		n, _, e = unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&ev.buf[0])), size, ^uintptr(0), 0, 8)
	case p.timerFD >= 0:
		it := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
		if err := unix.TimerfdSettime(p.timerFD, 0, &it, nil); err != nil {
			return 0, fmt.Errorf("timerfd_settime: %w", err)
		}
		n, _, e = unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&ev.buf[0])), size, ^uintptr(0), 0, 8)
	default:
		ts := unix.NsecToTimespec(int64(d))
		n, _, e = unix.Syscall6(sysEpollPwait2, uintptr(p.fd), uintptr(unsafe.Pointer(&ev.buf[0])), size, uintptr(unsafe.Pointer(&ts)), 0, 8)
	}
	if e == unix.EINTR {
		return 0, nil
	}
	if e != 0 {
		return 0, fmt.Errorf("%s: %w", p.Method(), e)
	}
	return p.strip(ev, int(n)), nil
}

// strip takes the poller's own events out of the first n.
func (p *Poller) strip(ev *Events, n int) int {
	for i := 0; i < n; i++ {
		t, _ := ev.At(i)
		if t < timerToken {
			continue
		}
		fd := p.wakeFD
		if t == timerToken {
			fd = p.timerFD
		}
		var b [8]byte
		unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), 8)
		n--
		ev.buf[i] = ev.buf[n]
		i--
	}
	return n
}

// Wake ends a Wait that is under way or the next one. Any goroutine may call it.
func (p *Poller) Wake() {
	one := [8]byte{1}
	unix.Write(p.wakeFD, one[:])
}

// PreciseThread asks the kernel to wake this thread on time: without the 50 µs
// by which it may otherwise let waits end late, and, where the process may
// (root, CAP_SYS_NICE), before the other work of the machine. What is refused
// stays as it was. The caller has locked its goroutine to the thread.
func PreciseThread() {
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	unix.Setpriority(unix.PRIO_PROCESS, 0, loopNice)
}

// loopNice is the nice value of a loop's thread, -20 to 19.
const loopNice = -15
