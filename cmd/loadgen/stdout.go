package main

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errClosed is what writing to a standard output that nobody gave us comes to.
var errClosed = errors.New("is closed, want it open or -o FILE")

// closedOutput takes the place of a standard output that was closed.
type closedOutput struct{}

func (closedOutput) Write([]byte) (int, error) { return 0, errClosed }

// standardOutput returns where results are printed. The Go runtime opens the
// null device, for reading and writing, in place of a descriptor that is closed
// at the start: a result would vanish there without an error. A shell's
// "> /dev/null" opens it for writing alone, and is taken for what the user
// wants.
func standardOutput(f *os.File) io.Writer {
	var st, null syscall.Stat_t
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return closedOutput{}
	}
	if flags&unix.O_ACCMODE != unix.O_RDWR || syscall.Fstat(int(f.Fd()), &st) != nil || syscall.Stat(os.DevNull, &null) != nil {
		return f
	}
	if st.Mode&syscall.S_IFMT == syscall.S_IFCHR && st.Rdev == null.Rdev {
		return closedOutput{}
	}
	return f
}

// lostOutput says whether nothing can be written to standard output.
func (a *app) lostOutput() bool {
	_, lost := a.stdout.(closedOutput)
	return lost
}
