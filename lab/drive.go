package lab

import (
	"math/bits"
	"time"

	"latencylab/clock"
	"latencylab/policy"
)

// answer is what a scripted server does with an attempt.
type answer struct {
	after  time.Duration // from the send; negative: never
	status uint16        // 0: the connection fails
	hint   time.Duration // Retry-After; 0: none
}

// attempt is one send of a driven call.
type attempt struct {
	number   uint32
	kind     policy.Kind
	sent     clock.Time
	timedOut bool
}

// record is how a driven call ended.
type record struct {
	outcome  policy.Outcome
	refused  policy.Rule // the rule that ended the call; RuleNone: no rule did
	status   uint16      // of the last answer; 0: there was none
	end      clock.Time
	attempts []attempt
}

// drive carries out one call of client c, whose policy is p, against a server
// that is told each attempt when it is sent and says at once what will become
// of it. Nothing but this call goes on: it is the smallest driver that package
// policy can have. attempts, whose memory is used, may be nil.
func drive(c *policy.Client, p *policy.Policy, r policy.Request, attempts []attempt, serve func(number uint32, sent clock.Time) answer) record {
	var k policy.Call
	rec := record{attempts: attempts[:0]}
	var due [policy.MaxOpen]clock.Time // Never: the slot is free, or nothing comes
	var says [policy.MaxOpen]answer
	var index [policy.MaxOpen]int // in rec.attempts
	for i := range due {
		due[i] = clock.Never
	}
	now := r.Intended
	a := k.Start(c, r, now)
	for {
		if a.Refused != policy.RuleNone {
			rec.refused = a.Refused
		}
		for m := a.Cancel; m != 0; m &= m - 1 {
			slot := bits.TrailingZeros8(m)
			due[slot] = clock.Never
			rec.attempts[index[slot]].timedOut = a.TimedOut>>slot&1 != 0
		}
		if a.Attempt != 0 {
			rec.refused = policy.RuleNone
			index[a.Slot] = len(rec.attempts)
			rec.attempts = append(rec.attempts, attempt{number: a.Attempt, kind: a.Kind, sent: now})
			s := serve(a.Attempt, now)
			says[a.Slot] = s
			if s.after >= 0 {
				due[a.Slot] = now.Add(s.after)
			}
		}
		if a.Finish != policy.Going {
			rec.outcome, rec.end = a.Finish, now
			return rec
		}
		slot := 0
		for i := range due {
			if due[i] < due[slot] {
				slot = i
			}
		}
		// What has arrived is read before a timer acts.
		switch t := due[slot]; {
		case t != clock.Never && t <= a.Timer:
			now = max(now, t)
			due[slot] = clock.Never
			s := says[slot]
			res := policy.Result{Disposition: policy.DispRetryable, Phase: policy.PhaseFirstByte, Hint: s.hint}
			if s.status != 0 {
				res.Disposition, res.Phase, res.Status = p.Classify(s.status), policy.PhaseBody, s.status
				rec.status = s.status
			}
			a = k.Reply(uint8(slot), res, now)
		case a.Timer != clock.Never:
			now = max(now, a.Timer)
			a = k.Advance(now)
		default: // nothing will ever happen: the user waits for ever
			rec.outcome, rec.end = policy.Going, clock.Never
			return rec
		}
	}
}
