package target

import (
	"math"
	"time"

	"latencylab/clock"
	"latencylab/http1"
	"latencylab/service"
)

// KeptAttempts is the number of attempts of which each loop, and so the target,
// keeps the record: the last that have ended.
const KeptAttempts = 1 << 16

// unread is the read delay of a request that has none.
const unread = math.MaxUint32

// entry is the record of one attempt that has ended, 96 bytes without a pointer.
type entry struct {
	call    uint64
	arrived clock.Time
	wait    time.Duration // for its work to begin, or for its end without
	work    time.Duration
	late    time.Duration // answer written less due; negative: there is no answer
	took    time.Duration // from the arrival to the end
	left    time.Duration // from the arrival to the caller's leaving; negative: it was not seen to leave
	read    uint32        // read delay in ns, unread if there is none
	attempt uint32
	run     uint16      // number of the run
	replica uint16      // number in the service
	status  uint16      // 0 without an answer
	entry   http1.Entry // that it carried; Attempt 0: none
	end     end
	fault   service.Fault
	// numbered: it carried Latencylab-Call. shed: it found the queue full or its
	// window overloaded. worked: see Work.
	numbered, shed, worked bool
}

// ring keeps the last entries of one loop. They are numbered from 0 on; entry n
// lies at list[n%len]. Only the loop's thread touches it.
type ring struct {
	list  []entry // len is a power of two
	next  uint64  // number of the next entry
	first uint64  // of the first one since the last reset
}

func (r *ring) init(n int) { r.list = make([]entry, n) }

// add writes an entry and returns it, with what the one before it has left there.
func (r *ring) add() *entry {
	e := &r.list[r.next&uint64(len(r.list)-1)]
	r.next++
	return e
}

// reset forgets all entries.
func (r *ring) reset() { r.first = r.next }

// oldest is the number of the oldest entry that is kept.
func (r *ring) oldest() uint64 {
	if n := uint64(len(r.list)); r.next-r.first > n {
		return r.next - n
	}
	return r.first
}

// read copies the entries from number from on, as many as there are and fit.
// at is the number of the first of them: it is larger than from when those
// between were overwritten or forgotten.
func (r *ring) read(into []entry, from uint64) (n int, at uint64) {
	at = max(from, r.oldest())
	for n < len(into) && at+uint64(n) < r.next {
		i := (at + uint64(n)) & uint64(len(r.list)-1)
		k := min(uint64(len(into)-n), uint64(len(r.list))-i, r.next-at-uint64(n))
		copy(into[n:], r.list[i:i+k])
		n += int(k)
	}
	return n, at
}

// worked is how long the request was worked on, if its work has ended.
func (rec *record) worked() time.Duration {
	if rec.began == clock.Never {
		return 0
	}
	return rec.due.Sub(rec.began) - rec.outside
}

// finish records that a request has ended: in the tally of its run and in the
// ring. a says how its work ended; due is the instant of that.
func (l *loop) finish(rec *record, a *service.Answer, how end) {
	if rec.up != nil {
		l.giveUp(rec.up)
	}
	if rec.run == noRun { // of before a reset
		return
	}
	if a.Worked {
		l.repeated(rec, &l.tallies.at(rec.run).repeats.Worked, didWork)
	}
	if how == endAnswered {
		l.repeated(rec, &l.tallies.at(rec.run).repeats.Answered, didAnswer)
	}
	wait, work := rec.due.Sub(rec.arrived), time.Duration(0)
	t := l.tallies.at(rec.run)
	if rec.began != clock.Never {
		wait = rec.began.Sub(rec.arrived)
	}
	if a.Worked {
		if rec.began != clock.Never {
			work = rec.worked()
			t.queueWait.Record(int64(wait))
			t.workTime.Record(int64(work))
		}
		t.work[how].add(Work{1, uint64(work)})
	}
	e := l.ring.add()
	*e = entry{
		call: rec.call, entry: rec.entry, arrived: rec.arrived, wait: wait, work: work, took: rec.due.Sub(rec.arrived), left: -1, late: -1,
		read: rec.read, attempt: rec.attempt, run: rec.run, replica: uint16(l.replicas[rec.replica].index),
		status: a.Status, end: how, fault: a.Fault, numbered: rec.numbered, shed: a.Shed, worked: a.Worked,
	}
	if rec.written != 0 {
		e.late, e.took = rec.written.Sub(rec.due), rec.written.Sub(rec.arrived)
	}
	if rec.left != clock.Never {
		e.left = rec.left.Sub(rec.arrived)
	}
}
