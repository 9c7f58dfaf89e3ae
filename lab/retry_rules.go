package lab

import (
	"strconv"
	"time"

	"latencylab/clock"
	"latencylab/policy"
)

// retryRulesLab asks one client's policy what it does with one failure each.
var retryRulesLab = Lab{
	Name:     "retry-rules",
	About:    "which failures are tried again, how often, and which rule ends the call",
	run:      runRetryRules,
	noExport: "each row is one call against a script of answers; its policy is printed with its table",
}

// retryHelper is the policy of the published helper, a preset: three attempts of
// at most a second, full jitter from 100 ms to 2 s, and a budget of one token in
// ten calls.
const retryHelper = "seed-helper"

// retryRules are the rows: what the server answers, in order; the last answer
// repeats.
var retryRules = []struct {
	name       string
	more       string // beside retryHelper
	idempotent bool
	spent      bool // the budget is
	answers    []answer
	result     string
	attempts   float64
	published  bool
}{
	{"GET, 503 503 200", ",deadline=10s", true, false, []answer{{5 * time.Millisecond, 503, 0}, {5 * time.Millisecond, 503, 0}, {5 * time.Millisecond, 200, 0}}, "200", 3, true},
	{"POST, 422", ",deadline=10s", false, false, []answer{{5 * time.Millisecond, 422, 0}}, "not retryable", 1, true},
	{"POST without key, 503", ",deadline=10s", false, false, []answer{{5 * time.Millisecond, 503, 0}}, "not idempotent", 1, true},
	{"GET, slow, deadline 1.5 s", ",deadline=1.5s", true, false, []answer{{3 * time.Second, 200, 0}}, "no time left", 2, true},
	{"GET, 503 for ever", ",deadline=10s", true, false, []answer{{5 * time.Millisecond, 503, 0}}, "no attempts left", 3, false},
	{"GET, 503, Retry-After 60 s, deadline 2 s", ",deadline=2s", true, false, []answer{{5 * time.Millisecond, 503, time.Minute}}, "no time left", 1, false},
	{"GET, 503, budget spent", ",deadline=10s", true, true, []answer{{5 * time.Millisecond, 503, 0}}, "no token", 1, false},
}

func runRetryRules(o Options) (*Result, error) {
	r := &Result{Columns: []string{"result", "attempts", "user_ms"}}
	for i := range retryRules {
		row := &retryRules[i]
		ps, err := policies(retryHelper + row.more)
		if err != nil {
			return nil, err
		}
		p := &ps[0].Policy
		c := policy.NewClient(p, 1, o.Seed)
		id := uint64(i)
		if row.spent {
			id = spend(c, p, id)
		}
		rec := drive(c, p, policy.Request{ID: id, Idempotent: row.idempotent}, nil, func(n uint32, _ clock.Time) answer {
			return row.answers[min(int(n), len(row.answers))-1]
		})
		r.add(row.name, word(endOf(&rec)), count(len(rec.attempts)), num(round(rec.end.Sub(0).Seconds()*1000, 1)))
		if row.published {
			r.refer(row.name, "published", word(row.result), num(row.attempts), absent("the published table does not say"))
		}
		r.says(row.name, "result", row.result)
		r.equals(row.name, "attempts", row.attempts)
	}
	ps, err := policies(retryHelper)
	if err != nil {
		return nil, err
	}
	r.note("policy: preset %s, which is %s, and the deadline of the row (10 s where it names none)", retryHelper, ps[0].Spec)
	return r, nil
}

// spend fails calls until the client has no token left, and returns the number
// of the next call.
func spend(c *policy.Client, p *policy.Policy, id uint64) uint64 {
	for c.Tokens() >= 1 {
		id++
		drive(c, p, policy.Request{ID: id, Idempotent: true}, nil, func(uint32, clock.Time) answer { return answer{status: 503} })
	}
	return id + 1
}

// endOf says in words how a call ended.
func endOf(rec *record) string {
	if rec.outcome == policy.OK {
		return strconv.Itoa(int(rec.status))
	}
	if rec.outcome == policy.Expired {
		return "no time left"
	}
	switch rec.refused {
	case policy.RuleDisposition:
		return "not retryable"
	case policy.RuleIdempotency:
		return "not idempotent"
	case policy.RuleAttempts:
		return "no attempts left"
	case policy.RuleTime:
		return "no time left"
	case policy.RuleBudget:
		return "no token"
	}
	return rec.outcome.String()
}
