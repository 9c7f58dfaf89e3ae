//go:build !linux

package target

import "syscall"

// childAttr is empty: here a child ends at the end of its standard input alone.
func childAttr() *syscall.SysProcAttr { return nil }
