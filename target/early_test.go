package target

import (
	"testing"
	"time"
)

func TestEarly(t *testing.T) {
	e := early{late: firstLead}
	if got := e.lead(); got != 0 {
		t.Errorf("a lead of %v before any time has passed, want 0", got)
	}
	e.turned(time.Minute)
	if got := e.lead(); got != firstLead {
		t.Errorf("a lead of %v before a wait has ended late, want %v", got, firstLead)
	}
	e.waited(time.Millisecond, time.Millisecond+300*time.Microsecond)
	if got := e.lead(); got != 300*time.Microsecond {
		t.Errorf("a lead of %v after a wait that ended 300µs late", got)
	}
	for range 1000 {
		e.waited(time.Millisecond, time.Millisecond+50*time.Microsecond)
	}
	if got := e.lead(); got != 50*time.Microsecond {
		t.Errorf("a lead of %v after a thousand waits that ended 50µs late", got)
	}
	e.waited(time.Millisecond, time.Second)
	if got := e.lead(); got != longestLead {
		t.Errorf("a lead of %v after one wait of a second, want %v", got, longestLead)
	}
}

func TestEarlyPollsATenth(t *testing.T) {
	e := early{late: longestLead}
	var all, polled time.Duration
	for range 1_000_000 {
		e.polls = e.lead() >= time.Microsecond
		if e.polls {
			polled += time.Microsecond
		}
		all += time.Microsecond
		e.turned(time.Microsecond)
	}
	if polled > all/pollShare+pollSaved {
		t.Errorf("polled for %v of %v", polled, all)
	}
}
