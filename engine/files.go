package engine

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// spareFiles is how many files the Go runtime and the reading of a file may
// open. Where they do not fit, the runtime ends the process with a trace.
const spareFiles = 8

// CheckFiles returns an error when the process cannot open a handful of files.
// A program calls it first of all: it uses system calls alone, while package os
// starts the runtime's poller.
func CheckFiles() error {
	var open []int
	defer func() {
		for _, fd := range open {
			_ = syscall.Close(fd) // it held nothing
		}
	}()
	for range spareFiles {
		fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if errors.Is(err, syscall.EMFILE) {
			var r syscall.Rlimit
			_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) // 0 when it is not told
			return fmt.Errorf("the file limit of %d leaves %d files to open, want at least %d (ulimit -n)", r.Cur, len(open), spareFiles)
		}
		if err != nil {
			return nil // whoever needs a file will say so
		}
		open = append(open, fd)
	}
	return nil
}
