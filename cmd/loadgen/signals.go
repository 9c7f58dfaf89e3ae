package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// What the user is told at an interrupt.
const (
	interruptedOnce  = "interrupted: ending; ^C again to stop at once"
	interruptedTwice = "interrupted again: stopped at once, what is not written by now is lost"
)

// interrupts is onInterrupt with words of its own on stderr.
func (a *app) interrupts() (first <-chan struct{}, stop func()) {
	return a.onInterrupt(interruptedOnce, func(s string) { fmt.Fprintln(a.stderr, s) })
}

// onInterrupt returns a channel that is closed at the first interrupt, when say
// is called with once; the second one ends the process at once. stop ends the
// listening.
func (a *app) onInterrupt(once string, say func(string)) (first <-chan struct{}, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	closed, done := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-signals:
		case <-done:
			return
		}
		close(closed)
		say(once)
		select {
		case <-signals:
			say(interruptedTwice)
			os.Exit(exitInterrupted)
		case <-done:
		}
	}()
	return closed, func() { signal.Stop(signals); close(done) }
}

// identity returns the version of the program and the command line as typed.
func (a *app) identity() (v, command string) {
	v, commit := buildVersion()
	words := []string{"loadgen"}
	for _, w := range a.args[1:] {
		words = append(words, quote(w))
	}
	return v + " " + commit, strings.Join(words, " ")
}

// quote makes a word safe to paste into a shell.
func quote(w string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,%+@", r)
	}
	if w != "" && strings.IndexFunc(w, func(r rune) bool { return !plain(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
