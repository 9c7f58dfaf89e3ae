package service

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"latencylab/units"
)

var slowByNames = [...]string{SlowByRequest: "request", SlowByReplica: "replica", SlowByConnection: "connection", SlowByWindow: "window"}

// String returns the word used in service files: "request", "replica",
// "connection" or "window".
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

// EndingNamed reads the word that [Ending.String] writes: a status from 200 to
// 599, or a fault that FaultNamed knows.
func EndingNamed(word string) (e Ending, ok bool) {
	if f, ok := FaultNamed(word); ok {
		return Ending{Fault: f}, true
	}
	n, err := strconv.ParseUint(word, 10, 16)
	if err != nil || !finalStatus(uint16(n)) || word[0] == '+' {
		return Ending{}, false
	}
	return Ending{Status: uint16(n)}, true
}

// String returns the word used in service files, such as "503" or "reset".
func (e Ending) String() string {
	if e.Fault != FaultNone {
		return e.Fault.String()
	}
	return strconv.Itoa(int(e.Status))
}

// valid reports whether e is an ending of least or of a higher status, or a
// fault that a service may have.
func (e Ending) valid(least uint16) bool {
	if e.Fault == FaultNone {
		return finalStatus(e.Status) && e.Status >= least
	}
	return e.Fault < Kinds && e.Fault != FaultGone && e.Status == 0
}

var copiesNames = [...]string{CopiesIndependent: "independent", CopiesSame: "same", CopiesMixed: "mixed"}

// String returns the word used in service files: "independent", "same" or
// "mixed".
func (c Copies) String() string { return name(copiesNames[:], int(c)) }

// CopiesNamed returns the value of that word; ok is false when there is none.
func CopiesNamed(word string) (c Copies, ok bool) {
	i, ok := index(copiesNames[:], word)
	return Copies(i), ok
}

var deadlineNames = [...]string{DeadlineIgnore: "ignore", DeadlineQueued: "queued", DeadlineRunning: "running"}

// String returns the word used in service files: "ignore", "queued" or "running".
func (d Deadline) String() string { return name(deadlineNames[:], int(d)) }

// DeadlineNamed returns the value of that word; ok is false when there is none.
func DeadlineNamed(word string) (d Deadline, ok bool) {
	i, ok := index(deadlineNames[:], word)
	return Deadline(i), ok
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
	case sp.CancelCost < 0:
		return fmt.Errorf("cancel-cost = %v, want 0 or more", sp.CancelCost)
	case sp.CancelCost > 0 && sp.Cancel != CancelRunning:
		return fmt.Errorf("cancel-cost = %v is what stopping running work costs, but cancel = %v stops none", sp.CancelCost, sp.Cancel)
	case sp.CancelCost > 0 && sp.Slots == 0:
		return fmt.Errorf("cancel-cost = %v is time in a slot, but slots = 0 sets no limit", sp.CancelCost)
	case sp.Deadline > DeadlineRunning:
		return fmt.Errorf("deadline = %d, want ignore, queued or running", sp.Deadline)
	case sp.Body < 0 || sp.Body > maxBody:
		return fmt.Errorf("body = %d, want 0 to %d bytes", sp.Body, maxBody)
	case sp.Copies > CopiesMixed:
		return fmt.Errorf("copies = %d, want independent, same or mixed", sp.Copies)
	}
	if err := sp.Slow.validate(); err != nil {
		return err
	}
	if err := sp.validateCapacity(); err != nil {
		return err
	}
	if err := sp.validateStatus(); err != nil {
		return err
	}
	if err := sp.validateEndings(); err != nil {
		return err
	}
	if err := sp.validateEach(); err != nil {
		return err
	}
	if err := sp.validateRamps(); err != nil {
		return err
	}
	return sp.validateSchedules()
}

func (s *Slow) validate() error {
	switch {
	case !(s.Share >= 0 && s.Share <= 1):
		return fmt.Errorf("slow.share = %v, want 0 to 1", s.Share)
	case s.By > SlowByWindow:
		return fmt.Errorf("slow.by = %d, want request, connection, replica or window", s.By)
	case !(s.Factor >= 0) || math.IsInf(s.Factor, 0):
		return fmt.Errorf("slow.factor = %v, want more than 0", s.Factor)
	case s.Factor > 0 && !s.Time.IsZero():
		return fmt.Errorf("slow.factor = %v contradicts slow.time = %s, want one of them", s.Factor, clip(s.Time.String()))
	case s.Share > 0 && s.Factor == 0 && s.Time.IsZero():
		return fmt.Errorf("slow.share = %s, but slow.time is not given, nor slow.factor", units.FormatShare(s.Share))
	case s.Window < 0:
		return fmt.Errorf("slow.window = %v, want more than 0", s.Window)
	case s.By == SlowByWindow && s.Window == 0:
		return errors.New("slow.by = window needs slow.window, its length")
	case s.By != SlowByWindow && s.Window > 0:
		return fmt.Errorf("slow.window = %v needs slow.by = window, not %v", s.Window, s.By)
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

// validateEndings checks faults and script.
func (sp *Spec) validateEndings() error {
	if err := sp.validateFaults(); err != nil {
		return err
	}
	switch {
	case sp.ScriptKey != "" && len(sp.Script) == 0:
		return fmt.Errorf("script-key = %q needs script", sp.ScriptKey)
	case sp.ScriptKey != "" && !fieldName(sp.ScriptKey):
		return fmt.Errorf("script-key = %q, want the name of a header such as X-Key", sp.ScriptKey)
	case len(sp.Script) == 0:
		return nil
	case sp.Faults.anyShare():
		return errScriptBesideFaults
	case len(sp.Status) > 0:
		return errors.New("script contradicts status: it says how every attempt ends")
	}
	if len(sp.Script) > maxScript {
		return fmt.Errorf("script: a list of %d, want at most %d", len(sp.Script), maxScript)
	}
	for i, e := range sp.Script {
		if !e.valid(200) {
			return fmt.Errorf("script[%d] = %v, want a status from 200 to 599, or a fault such as reset", i, e)
		}
	}
	return nil
}

// fieldName reports whether a name is one of a header field (RFC 9110 5.6.2), of
// at most 100 letters, digits and signs.
func fieldName(name string) bool {
	for _, c := range []byte(name) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return len(name) > 0 && len(name) <= 100
}

// maxScript is the number of attempts that a script may tell apart.
const maxScript = 1000

// validateCapacity checks the windows, and what overload costs.
func (sp *Spec) validateCapacity() error {
	c, th := sp.Capacity, sp.Thrash
	switch {
	case c.Requests < 0 || c.Requests > math.MaxInt32:
		return fmt.Errorf("capacity.requests = %d, want 1 to %d", c.Requests, math.MaxInt32)
	case c.Per < 0:
		return fmt.Errorf("capacity.per = %v, want more than 0", c.Per)
	case (c.Requests > 0) != (c.Per > 0):
		return fmt.Errorf("capacity.requests = %d per capacity.per = %v, want both above 0", c.Requests, c.Per)
	case th.Above < 0:
		return fmt.Errorf("thrash.above = %d, want 0 or more", th.Above)
	case !(th.Factor >= 0 && th.Factor <= 1):
		return fmt.Errorf("thrash.factor = %v, want more than 0 and at most 1", th.Factor)
	case th.Factor == 0 && th.Above > 0:
		return fmt.Errorf("thrash.above = %d, but thrash.factor is not given", th.Above)
	case th.Factor > 0 && sp.Slots > 0 && sp.Queue >= 0 && th.Above >= sp.Slots+sp.Queue:
		return fmt.Errorf("thrash.above = %d is never passed: slots = %d and queue = %d hold no more than %d", th.Above, sp.Slots, sp.Queue, sp.Slots+sp.Queue)
	case c.Per == 0:
		return nil
	case sp.Slots > 0:
		return fmt.Errorf("slots = %d contradicts capacity: a window has no slots", sp.Slots)
	case !sp.Time.IsZero():
		return fmt.Errorf("time = %s contradicts capacity: a window answers at its end", clip(sp.Time.String()))
	case sp.Slow.Share > 0:
		return fmt.Errorf("slow.share = %s contradicts capacity: a window answers at its end", units.FormatShare(sp.Slow.Share))
	}
	return nil
}

// validateSchedules checks outages and stalls.
func (sp *Spec) validateSchedules() error {
	for i, o := range sp.Outages {
		key := fmt.Sprintf("outage[%d]", i)
		switch {
		case o.At < 0:
			return fmt.Errorf("%s.at = %v, want 0 or more", key, o.At)
		case o.For <= 0:
			return fmt.Errorf("%s.for = %v, want more than 0", key, o.For)
		case o.Every < 0:
			return fmt.Errorf("%s.every = %v, want more than 0", key, o.Every)
		case o.Every > 0 && o.For >= o.Every:
			return fmt.Errorf("%s.for = %v is not below %s.every = %v", key, o.For, key, o.Every)
		case !o.Ending.valid(400):
			return fmt.Errorf("%s.kind = %v, want a status from 400 to 599, or a fault such as reset", key, o.Ending)
		case !(o.Share >= 0 && o.Share <= 1):
			return fmt.Errorf("%s.share = %v, want 0 to 1", key, o.Share)
		}
		if err := sp.validateReplicas(key, o.Replicas); err != nil {
			return err
		}
	}
	if len(sp.Stalls) > maxSeries {
		return fmt.Errorf("stall: a list of %d, want at most %d", len(sp.Stalls), maxSeries)
	}
	for i, x := range sp.Stalls {
		key := fmt.Sprintf("stall[%d]", i)
		mean, finite := x.For.Mean()
		switch {
		case x.At < 0:
			return fmt.Errorf("%s.at = %v, want 0 or more", key, x.At)
		case x.For.IsZero():
			return fmt.Errorf("%s.for = 0s, want more than 0", key)
		case x.Every < 0:
			return fmt.Errorf("%s.every = %v, want more than 0", key, x.Every)
		case x.Every > 0 && !(finite && mean < float64(x.Every)):
			return fmt.Errorf("%s.for = %s is in the mean not below %s.every = %v", key, clip(x.For.String()), key, x.Every)
		case x.Apart && x.Every == 0:
			return fmt.Errorf("%s.together = false needs %s.every, a part of which each replica is late by", key, key)
		}
		if err := sp.validateReplicas(key, x.Replicas); err != nil {
			return err
		}
	}
	return nil
}

// maxSeries is the number of stalls that a service may list.
const maxSeries = 64

func (sp *Spec) validateReplicas(key string, replicas []int) error {
	for i, r := range replicas {
		if r < 0 || r >= sp.Servers() {
			return fmt.Errorf("%s.replicas has %d, want 0 to %d", key, r, sp.Servers()-1)
		}
		for _, o := range replicas[:i] {
			if o == r {
				return fmt.Errorf("%s.replicas has %d twice", key, r)
			}
		}
	}
	return nil
}

// finalStatus reports whether a server may end an exchange with status (RFC
// 9110 15: 1xx are interim).
func finalStatus(status uint16) bool { return status >= 200 && status <= 599 }
