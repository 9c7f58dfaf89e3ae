package lab

import (
	"fmt"
	"time"

	"latencylab/clock"
	"latencylab/policy"
)

// budgetWalkLab follows one time budget down a chain of services.
var budgetWalkLab = Lab{
	Name:     "budget-walk",
	About:    "one budget of 900 ms down a chain: each service spends of it and passes on what is left",
	run:      runBudgetWalk,
	real:     budgetWalkSockets,
	noExport: "it is one call",
}

// childBudgetLab is what a service may give a call of its own.
var childBudgetLab = Lab{
	Name:     "child-budget",
	About:    "what a call may have: the time left less a reserve, never more than was left",
	run:      runChildBudget,
	noExport: "each row is one call",
}

// walk starts a call with the budget at the first service and passes what is
// left, in x-deadline-ms, through services that work for so long each before
// they call on. It returns what was left when each called on.
func walk(budget time.Duration, spent ...time.Duration) ([]time.Duration, error) {
	var out []time.Duration
	now := clock.Time(0)
	left := budget
	for _, d := range spent {
		// The service hears of the budget when the request arrives, and each of its
		// own calls is bounded by it.
		p := policy.Policy{Wire: policy.WireDeadlineMS}
		deadline := now.Add(left)
		now = now.Add(d)
		var k policy.Call
		a := k.Start(policy.NewClient(&p, 1, 0), policy.Request{Deadline: deadline, Intended: now, Idempotent: true}, now)
		if a.Finish != policy.Going { // nothing is left, and nothing is sent
			out = append(out, 0)
			break
		}
		header := p.Wire.Append(nil, k.Deadline().Sub(now), 0)
		var ok bool
		var err error
		if left, ok, err = p.Wire.Parse(string(header), 0); err != nil || !ok {
			return nil, fmt.Errorf("%q is no time left: %w", header, err)
		}
		out = append(out, left)
	}
	return out, nil
}

// walkRows are a budget, what each service spends of it, and the ms that are
// left then.
var walkRows = []struct {
	name   string
	budget time.Duration
	spent  []time.Duration
	want   []float64
}{
	{"900 ms; API 180, service 260", 900 * time.Millisecond, []time.Duration{180 * time.Millisecond, 260 * time.Millisecond}, []float64{720, 460}},
	{"900 ms; API 500, service 500", 900 * time.Millisecond, []time.Duration{500 * time.Millisecond, 500 * time.Millisecond}, []float64{400, 0}},
}

func runBudgetWalk(Options) (*Result, error) {
	r := &Result{Columns: []string{"remaining_ms"}}
	for _, row := range walkRows {
		left, err := walk(row.budget, row.spent...)
		if err != nil {
			return nil, err
		}
		v := Value{List: []float64{}}
		for _, d := range left {
			v.List = append(v.List, d.Seconds()*1000)
		}
		r.add(row.name, v)
		want := Value{List: row.want}
		r.refer(row.name, "the budget less what was spent", want)
		r.claim(v.text() == want.text(), v.text(), "%s: %s left", row.name, want.text())
	}
	r.note("What is left travels in x-deadline-ms. A service that set a fresh 900 ms instead would let the last one work until 1,340 ms.")
	return r, nil
}

func runChildBudget(Options) (*Result, error) {
	r := &Result{Columns: []string{"child_ms", "attempts"}}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, row := range []struct {
		name                        string
		remaining, reserve, propose time.Duration
		want, attempts              float64
	}{
		{"remaining 300, reserve 60, proposed 500", ms(300), ms(60), ms(500), 240, 1},
		{"remaining 600, reserve 0, proposed 2000", ms(600), 0, ms(2000), 600, 1},
		{"remaining 300, reserve 60, proposed 100", ms(300), ms(60), ms(100), 100, 1},
		{"remaining 50, reserve 60, proposed 500", ms(50), ms(60), ms(500), 0, 0},
	} {
		// The proposal bounds the attempt: the reserve is kept of what the caller gave.
		p := policy.Policy{Deadline: time.Hour, Reserve: row.reserve}
		p.Timeouts[policy.PartAttempt].After = row.propose
		c := policy.NewClient(&p, 1, 0)
		rec := drive(c, &p, policy.Request{Deadline: clock.Time(row.remaining), Idempotent: true}, nil,
			func(uint32, clock.Time) answer { return answer{after: -1} })
		r.add(row.name, num(rec.end.Sub(0).Seconds()*1000), count(len(rec.attempts)))
		r.refer(row.name, "min(proposed, remaining - reserve)", num(row.want), num(row.attempts))
		r.equals(row.name, "child_ms", row.want)
		r.equals(row.name, "attempts", row.attempts)
	}
	r.note("child_ms is how long the call lasts against a callee that never answers. With nothing left it fails before it dials.")
	return r, nil
}
