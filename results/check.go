package results

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// check holds a Run that was read against itself: a ledger that does not add
// up, a histogram that contradicts it or a negative duration is an error that
// names the place. Figures that are computed anew are not looked at.
func (r *Run) check() error {
	if len(r.Policies) == 0 {
		return &fieldError{"policies", errors.New("found none, want at least one")}
	}
	if err := firstNegative([]signedField{
		{"duration_ns", float64(r.DurationNS)}, {"clients", float64(r.Clients)}, {"loops", float64(r.Loops)},
		{"requested.connections", float64(r.Requested.Connections)}, {"requested.threads", float64(r.Requested.Threads)},
		{"requested.rate_per_s", r.Requested.RatePerS.Value}, {"requested.requests", r.Requested.Requests.Value},
		{"requested.duration_ns", r.Requested.DurationNS.Value}, {"requested.warmup_ns", r.Requested.WarmupNS.Value},
		{"requested.drain_ns", r.Requested.DrainNS.Value},
		{"achieved.data_ns", r.Achieved.DataNS.Value}, {"achieved.rate_per_s", r.Achieved.RatePerS.Value},
	}); err != nil {
		return err
	}
	for i, ns := range r.Requested.WithinNS {
		if err := firstNegative([]signedField{{"requested.within_ns" + index(i), float64(ns)}}); err != nil {
			return err
		}
	}
	seen := map[string]int{}
	for i := range r.Policies {
		p := &r.Policies[i]
		at := "policies" + index(i)
		if err := checkName(p.Name); err != nil {
			return &fieldError{at + ".name", err}
		}
		if before, ok := seen[p.Name]; ok {
			return &fieldError{at + ".name", fmt.Errorf("%q is the name of policies[%d] too", p.Name, before)}
		}
		seen[p.Name] = i
		if err := p.check(); err != nil {
			return place(at, err)
		}
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		for _, side := range [2][2]string{{"base", c.Base}, {"other", c.Other}} {
			if _, ok := seen[side[1]]; !ok {
				return &fieldError{"comparisons" + index(i) + "." + side[0], fmt.Errorf("%q is not a policy of the run", side[1])}
			}
		}
	}
	if err := r.checkStages(seen); err != nil {
		return err
	}
	if r.Runs != nil {
		if err := r.Runs.check(seen); err != nil {
			return err
		}
	}
	if r.Verdict.Valid && r.Verdict.GeneratorInvalid() {
		return &fieldError{"verdict", errors.New("valid = true, but a claim in use is not valid")}
	}
	return nil
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// checkName wants what a workload takes for the name of a policy.
func checkName(s string) error {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-'
	}
	if s == "" || strings.ContainsFunc(s, odd) {
		return fmt.Errorf("%q, want one or more of a-z, 0-9, '.', '_' and '-'", s)
	}
	return nil
}

// signedField is a number that may not be below 0.
type signedField struct {
	key   string
	value float64
}

func firstNegative(list []signedField) error {
	for _, f := range list {
		if f.value < 0 {
			return &fieldError{f.key, fmt.Errorf("%s, want 0 or more", appendNumber(nil, f.value))}
		}
	}
	return nil
}

// equation is a sum that must be equal to another figure, or at most that.
type equation struct {
	place string // key of what holds the sum; "" for the policy itself
	terms string
	sum   uint64
	other string
	want  uint64
	most  bool // sum <= want
}

func firstWrong(list []equation) error {
	for _, e := range list {
		if e.sum == e.want || e.most && e.sum < e.want {
			continue
		}
		word := ""
		if e.most {
			word = "only "
		}
		err := fmt.Errorf("%s = %d, but %s%s = %d", e.terms, e.sum, word, e.other, e.want)
		if e.place == "" {
			return err
		}
		return &fieldError{e.place, err}
	}
	return nil
}

// total adds; a sum that does not fit is the largest number.
func total(ns ...uint64) uint64 {
	var sum uint64
	for _, n := range ns {
		var carry uint64
		if sum, carry = bits.Add64(sum, n, 0); carry > 0 {
			return math.MaxUint64
		}
	}
	return sum
}

// identities are the sums of package ledger; at is the key of what holds calls
// and attempts, with its dot, or "".
func identities(at string, c *Calls, a *Attempts) []equation {
	return []equation{
		{at + "calls", "scheduled", c.Scheduled, "ok + failed + unfinished + dropped", total(c.OK, c.Failed, c.Unfinished, c.Dropped), false},
		{at + "attempts", "sent", a.Sent, "ok + failed + timed_out + cancelled + abandoned", total(a.OK, a.Failed, a.TimedOut, a.Cancelled, a.Abandoned), false},
		{at + "attempts", "sent", a.Sent, "first + retries + hedges", total(a.First, a.Retries, a.Hedges), false},
		{at + "attempts", "first", a.First, "scheduled calls that were not dropped", c.Scheduled - min(c.Dropped, c.Scheduled), true},
		{at + "attempts", "hedge_wins", a.HedgeWins, "hedges", a.Hedges, true},
	}
}

// answers are what the distributions of calls have in common with the counts.
func answers(at string, c *Calls, response, ok, censored *Dist) []equation {
	return []equation{
		{at + "ok", "count", ok.Count, "calls.ok", c.OK, false},
		{at + "response", "count", response.Count, "calls.ok", c.OK, false},
		{at + "response", "censored", response.Censored, "censored.count", censored.Count, false},
		{at + "response", "count + censored + failed", total(response.Count, response.Censored, response.Failed), "calls.scheduled", c.Scheduled, false},
	}
}

// check looks at one policy; see Run.check.
func (p *Policy) check() error {
	c, a := &p.Calls, &p.Attempts
	list := append(identities("", c, a), identities("burn_in.", &p.BurnIn.Calls, &p.BurnIn.Attempts)...)
	list = append(list, answers("", c, &p.Response, &p.OK, &p.Censored)...)
	list = append(list,
		equation{"", "failed.count + censored.count", total(p.Failed.Count, p.Censored.Count), "calls.failed + calls.unfinished", total(c.Failed, c.Unfinished), false},
		equation{"failed", "censored", p.Failed.Censored, "censored.count", p.Censored.Count, false},
		equation{"service", "count", p.Service.Count, "attempts.ok", a.OK, false},
		equation{"lag", "count", p.Lag.Count, "calls.scheduled", c.Scheduled, true},
	)
	for _, k := range []struct {
		key, sent string
		d         *Dist
		n         uint64
	}{{"first", "attempts.first", &p.First, a.First}, {"retry", "attempts.retries", &p.Retry, a.Retries}, {"hedge", "attempts.hedges", &p.Hedge, a.Hedges}} {
		list = append(list, equation{k.key, "count + censored", total(k.d.Count, k.d.Censored), k.sent, k.n, false})
	}
	list = append(list, shareSums("ok_within", "calls.scheduled", p.OKWithin, c.Scheduled, c.OK)...)
	if x := p.Predicted; x != nil {
		list = append(list, identities("predicted.", &x.Calls, &x.Attempts)...)
		list = append(list, answers("predicted.", &x.Calls, &x.Response, &x.OK, &x.Censored)...)
		list = append(list, shareSums("predicted.ok_within", "calls.scheduled", x.OKWithin, x.Calls.Scheduled, x.Calls.OK)...)
	}
	if err := firstWrong(append(list, p.blockSums()...)); err != nil {
		return err
	}
	return firstNegative(p.signed())
}

// shareSums wants each share to be of all calls, and of the OK ones among them.
func shareSums(at, of string, list []Share, calls, ok uint64) []equation {
	var out []equation
	for i := range list {
		key := at + index(i)
		out = append(out, equation{key, "calls", list[i].Calls, of, calls, false}, equation{key, "count", list[i].Count, "calls answered OK", ok, true})
	}
	return out
}

// blockSums wants the blocks, when there are any, to make the whole.
func (p *Policy) blockSums() []equation {
	if len(p.Blocks) == 0 {
		return nil
	}
	var out []equation
	var calls, ok uint64
	for i := range p.Blocks {
		b := &p.Blocks[i]
		at := "blocks" + index(i)
		out = append(out, equation{at, "ok + absent", total(b.OK, b.Absent), "calls", b.Calls, false})
		out = append(out, shareSums(at+".ok_within", "the block's calls", b.OKWithin, b.Calls, b.OK)...)
		calls, ok = total(calls, b.Calls), total(ok, b.OK)
	}
	return append(out,
		equation{"blocks", "sum of calls", calls, "calls.scheduled", p.Calls.Scheduled, false},
		equation{"blocks", "sum of ok", ok, "calls.ok", p.Calls.OK, false})
}

// signed lists the times of a policy that the file alone says.
func (p *Policy) signed() []signedField {
	list := []signedField{{"hedge_delay_ns", p.HedgeDelayNS.Value}, {"achieved_share", p.AchievedShare.Value}, {"busiest_loop_share", p.BusiestShare.Value}, {"loops", float64(p.Loops)}}
	within := func(at string, shares []Share) {
		for i := range shares {
			list = append(list, signedField{at + "ok_within" + index(i) + ".t_ns", float64(shares[i].TNS)})
		}
	}
	within("", p.OKWithin)
	if p.Predicted != nil {
		within("predicted.", p.Predicted.OKWithin)
	}
	for i := range p.Blocks {
		b, at := &p.Blocks[i], "blocks"+index(i)+"."
		list = append(list, signedField{at + "start_ns", float64(b.StartNS)}, signedField{at + "length_ns", float64(b.LengthNS)},
			signedField{at + "state.start.hedge_delay_ns", b.State.Start.HedgeDelayNS.Value}, signedField{at + "state.end.hedge_delay_ns", b.State.End.HedgeDelayNS.Value})
		within(at, b.OKWithin)
	}
	for i := range p.Intervals {
		v, at := &p.Intervals[i], "intervals"+index(i)+"."
		list = append(list, signedField{at + "start_ns", float64(v.StartNS)}, signedField{at + "length_ns", float64(v.LengthNS)})
	}
	return list
}
