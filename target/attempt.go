package target

import (
	"encoding/json"
	"strconv"
	"time"

	"latencylab/clock"
	"latencylab/http1"
	"latencylab/service"
)

// Attempt is the record of one attempt that has ended, as the pages show it, one
// line of JSON each.
type Attempt struct {
	// Loop and N number the record: N counts from 0 for each loop, without gaps.
	Loop int    `json:"loop"`
	N    uint64 `json:"n"`
	// Arrived is when, by the target's wall clock.
	Arrived time.Time `json:"arrived"`
	// Run is the key; nil when the request is one of those counted as other.
	Run *string `json:"run"`
	// Call is the number of the call; where the request carried none, and Numbered
	// is false, its arrival number at that replica.
	Call     uint64 `json:"call"`
	Numbered bool   `json:"numbered"`
	Attempt  uint32 `json:"attempt"` // from 1
	// Entry is CALL/ATTEMPT of the attempt at the entry that it was made for, of a
	// request that a service has sent; "" of others.
	Entry   string `json:"entry,omitempty"`
	Replica int    `json:"replica"`
	// End is how it ended: answered, after_left, dropped or broken, as in WorkBy.
	End string `json:"end"`
	// Status is that of the answer, nil without one; Fault is what was done
	// instead, "none" if nothing.
	Status *uint16 `json:"status"`
	Fault  string  `json:"fault"`
	Shed   bool    `json:"shed"`   // it found the queue full or its window overloaded
	Worked bool    `json:"worked"` // see Work
	// WaitNS is the time until its work began, or until its end where none did;
	// WorkNS the time of its work; TookNS from its arrival to its end.
	WaitNS int64 `json:"wait_ns"`
	WorkNS int64 `json:"work_ns"`
	TookNS int64 `json:"took_ns"`
	// DelayErrorNS is how much later than due its answer was written or its
	// connection broken, ReadDelayNS how long it lay in the kernel, LeftNS how long
	// after its arrival its caller was seen to leave. nil: there is none.
	DelayErrorNS *int64 `json:"delay_error_ns"`
	ReadDelayNS  *int64 `json:"read_delay_ns"`
	LeftNS       *int64 `json:"left_ns"`
}

// batch is a copy of entries of one loop with what is needed to show them.
type batch struct {
	loop    int
	at      uint64 // number of the first entry
	entries []entry
	names   []http1.Run // by number of the run
}

// name is the key of an entry's run; ok is false for those counted as other.
func (b *batch) name(e *entry) (key string, ok bool) {
	if int(e.run) >= len(b.names) {
		return "", false
	}
	return b.names[e.run].String(), true
}

// appendLine appends the record of entry i as a line of JSON, as Attempt
// describes it.
func (b *batch) appendLine(dst []byte, i int) []byte {
	e := &b.entries[i]
	dst = strconv.AppendInt(append(dst, `{"loop":`...), int64(b.loop), 10)
	dst = strconv.AppendUint(append(dst, `,"n":`...), b.at+uint64(i), 10)
	dst = append(dst, `,"arrived":"`...)
	dst = wallOf(e.arrived).AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","run":`...)
	if key, ok := b.name(e); ok {
		dst = strconv.AppendQuote(dst, key) // visible ASCII: quoted as in JSON
	} else {
		dst = append(dst, "null"...)
	}
	dst = strconv.AppendUint(append(dst, `,"call":`...), e.call, 10)
	dst = strconv.AppendBool(append(dst, `,"numbered":`...), e.numbered)
	dst = strconv.AppendUint(append(dst, `,"attempt":`...), uint64(e.attempt), 10)
	if e.entry.Attempt != 0 {
		dst = strconv.AppendUint(append(dst, `,"entry":"`...), e.entry.Call, 10)
		dst = append(strconv.AppendUint(append(dst, '/'), uint64(e.entry.Attempt), 10), '"')
	}
	dst = strconv.AppendUint(append(dst, `,"replica":`...), uint64(e.replica), 10)
	dst = append(append(append(dst, `,"end":"`...), e.end.String()...), `","status":`...)
	dst = appendOr(dst, int64(e.status), e.status != 0)
	dst = append(append(append(dst, `,"fault":"`...), e.faultName()...), '"')
	dst = strconv.AppendBool(append(dst, `,"shed":`...), e.shed)
	dst = strconv.AppendBool(append(dst, `,"worked":`...), e.worked)
	dst = strconv.AppendInt(append(dst, `,"wait_ns":`...), int64(e.wait), 10)
	dst = strconv.AppendInt(append(dst, `,"work_ns":`...), int64(e.work), 10)
	dst = strconv.AppendInt(append(dst, `,"took_ns":`...), int64(e.took), 10)
	dst = appendOr(append(dst, `,"delay_error_ns":`...), int64(e.late), e.late >= 0)
	dst = appendOr(append(dst, `,"read_delay_ns":`...), int64(e.read), e.read != unread)
	dst = appendOr(append(dst, `,"left_ns":`...), int64(e.left), e.left >= 0)
	return append(dst, "}\n"...)
}

func appendOr(dst []byte, v int64, ok bool) []byte {
	if !ok {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, v, 10)
}

// faultName is the fault in words; that a job held its slot on is none.
func (e *entry) faultName() string {
	if e.fault == service.FaultGone {
		return service.FaultNone.String()
	}
	return e.fault.String()
}

// wallOf is an instant by the wall clock, as it went when the process began.
func wallOf(at clock.Time) time.Time { return clock.Origin().Add(time.Duration(at)).Round(0).UTC() }

// ParseAttempt reads a line that a page of attempts or a record holds.
func ParseAttempt(line []byte) (a Attempt, err error) {
	err = json.Unmarshal(line, &a)
	return a, err
}
