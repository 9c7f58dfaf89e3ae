package service

import (
	"fmt"
	"math"
	"time"

	"latencylab/units"
)

var slowByNames = [...]string{SlowByRequest: "request", SlowByReplica: "replica"}

// String returns the word used in service files: "request" or "replica".
func (b SlowBy) String() string { return name(slowByNames[:], int(b)) }

// SlowByNamed returns the value of that word; ok is false when there is none.
func SlowByNamed(word string) (b SlowBy, ok bool) {
	i, ok := index(slowByNames[:], word)
	return SlowBy(i), ok
}

var cancelNames = [...]string{CancelNone: "none", CancelQueued: "queued", CancelRunning: "running"}

// String returns the word used in service files: "none", "queued" or "running".
func (c Cancel) String() string { return name(cancelNames[:], int(c)) }

// CancelNamed returns the value of that word; ok is false when there is none.
func CancelNamed(word string) (c Cancel, ok bool) {
	i, ok := index(cancelNames[:], word)
	return Cancel(i), ok
}

var disciplineNames = [...]string{FIFO: "fifo", LIFO: "lifo", Proportional: "proportional", NewFirst: "new-first"}

// String returns the word used in service files: "fifo", "lifo", "proportional"
// or "new-first".
func (d Discipline) String() string { return name(disciplineNames[:], int(d)) }

// DisciplineNamed returns the value of that word; ok is false when there is none.
func DisciplineNamed(word string) (d Discipline, ok bool) {
	i, ok := index(disciplineNames[:], word)
	return Discipline(i), ok
}

func name(words []string, i int) string {
	if i < len(words) {
		return words[i]
	}
	return "unknown"
}

func index(words []string, word string) (int, bool) {
	for i, w := range words {
		if w == word {
			return i, true
		}
	}
	return 0, false
}

// Servers returns the number of replicas, at least 1.
func (sp *Spec) Servers() int { return max(sp.Replicas, 1) }

const (
	maxReplicas = 65535
	maxBody     = 1 << 30
)

// Validate returns an error for the first field whose value makes no sense; it
// begins with the field's key in service files.
func (sp *Spec) Validate() error {
	switch {
	case sp.Replicas < 0 || sp.Replicas > maxReplicas:
		return fmt.Errorf("replicas = %d, want 1 to %d", sp.Replicas, maxReplicas)
	case sp.Slots < 0:
		return fmt.Errorf("slots = %d, want 1 or more, or 0 for no limit", sp.Slots)
	case sp.Discipline > NewFirst:
		return fmt.Errorf("discipline = %d, want fifo, lifo, proportional or new-first", sp.Discipline)
	case sp.Discipline != FIFO && sp.Slots > 0 && sp.Queue == 0:
		return fmt.Errorf("discipline = %v orders those that wait, but queue = 0 lets none wait", sp.Discipline)
	case sp.Shed != 0 && !finalStatus(sp.Shed):
		return fmt.Errorf("shed = %d, want a status from 200 to 599", sp.Shed)
	case sp.RetryAfter < 0 || sp.RetryAfter%time.Second != 0:
		return fmt.Errorf("retry-after = %v, want whole seconds", sp.RetryAfter)
	case sp.Cancel > CancelRunning:
		return fmt.Errorf("cancel = %d, want none, queued or running", sp.Cancel)
	case sp.Body < 0 || sp.Body > maxBody:
		return fmt.Errorf("body = %d, want 0 to %d bytes", sp.Body, maxBody)
	}
	if err := sp.Slow.validate(); err != nil {
		return err
	}
	if err := sp.validateStatus(); err != nil {
		return err
	}
	return sp.validateEach()
}

func (s *Slow) validate() error {
	switch {
	case !(s.Share >= 0 && s.Share <= 1):
		return fmt.Errorf("slow.share = %v, want 0 to 1", s.Share)
	case s.By > SlowByReplica:
		return fmt.Errorf("slow.by = %d, want request or replica", s.By)
	case s.Share > 0 && s.Time.IsZero():
		return fmt.Errorf("slow.share = %s, but slow.time is not given", units.FormatShare(s.Share))
	}
	return nil
}

// slack is how far the sum of shares may pass 1 by rounding.
const slack = 1e-9

func (sp *Spec) validateStatus() error {
	sum := 0.0
	for i, s := range sp.Status {
		if !finalStatus(s.Status) {
			return fmt.Errorf("status.%d: want a status from 200 to 599", s.Status)
		}
		if !(s.Share >= 0 && s.Share <= 1) {
			return fmt.Errorf("status.%d = %v, want 0 to 1", s.Status, s.Share)
		}
		for _, o := range sp.Status[:i] {
			if o.Status == s.Status {
				return fmt.Errorf("status.%d is given twice", s.Status)
			}
		}
		sum += s.Share
	}
	if sum > 1+slack {
		return fmt.Errorf("status: the shares add up to %s, want at most 100%%", units.FormatShare(sum))
	}
	return nil
}

func (sp *Spec) validateEach() error {
	for i, e := range sp.Each {
		if e.Replica < 0 || e.Replica >= sp.Servers() {
			return fmt.Errorf("each[%d].replica = %d, want 0 to %d", i, e.Replica, sp.Servers()-1)
		}
		if !(e.Factor >= 0) || math.IsInf(e.Factor, 0) {
			return fmt.Errorf("each[%d].factor = %v, want more than 0", i, e.Factor)
		}
		for _, o := range sp.Each[:i] {
			if o.Replica == e.Replica {
				return fmt.Errorf("each[%d].replica = %d is given twice", i, e.Replica)
			}
		}
	}
	return nil
}

// finalStatus reports whether a server may end an exchange with status (RFC
// 9110 15: 1xx are interim).
func finalStatus(status uint16) bool { return status >= 200 && status <= 599 }
