package target

import "time"

const (
	// firstLead is about how late a thread wakes on a machine that idles.
	firstLead = 100 * time.Microsecond
	// longestLead bounds what is learnt from one very late end of a wait.
	longestLead = time.Millisecond
	// pollShare is the part of all time that a loop may poll, as one over it, and
	// pollSaved how much of that it may save up.
	pollShare = 10
	pollSaved = 10 * time.Millisecond
)

// early decides how long before an answer is due a loop polls instead of sleeping:
// as long as its waits have lately ended late, and never for more than a share of
// all time unless told to.
type early struct {
	late  time.Duration // by about this, waits have ended late at the most
	saved time.Duration // what it may still poll
	polls bool          // this turn only polls for an answer
	told  time.Duration // Config.Spin: 0 leaves it to the rest
}

// lead returns how long before an answer is due to begin to poll.
func (e *early) lead() time.Duration {
	if e.told != 0 {
		return max(e.told, 0)
	}
	return min(e.late, e.saved)
}

// turned tells how long the last turn of the loop was.
func (e *early) turned(d time.Duration) {
	e.saved = min(e.saved+d/pollShare, pollSaved)
	if e.polls {
		e.saved = max(e.saved-d, 0)
	}
}

// waited learns from a wait of d that only the clock has ended, after took.
func (e *early) waited(d, took time.Duration) {
	e.late = min(max(took-d, e.late-e.late/128), longestLead)
}
