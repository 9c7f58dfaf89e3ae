package target

import "syscall"

// childAttr makes the kernel end a child when its parent has ended.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
