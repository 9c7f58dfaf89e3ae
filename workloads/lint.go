package workloads

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"latencylab/policy"
	"latencylab/service"
	"latencylab/units"
)

// Finding is one pitfall that a workload steps into: something that works in a
// test and goes wrong in production.
type Finding struct {
	ID string `json:"id"` // such as "no-timeout"; docs/lint.md lists them
	// Policy is the policy's name; "" is the workload itself.
	Policy string `json:"policy"`
	Key    string `json:"key"`   // of the policy or of the workload
	Wrong  string `json:"wrong"` // one sentence: what goes wrong
	Do     string `json:"do"`    // one sentence: what to do
}

// Lint returns the pitfalls of w: those of the whole first, then policy by
// policy. It predicts from 100,000 draws of the service where there is one; what
// depends on the load that copies make is the simulator's to find. A policy
// "plain" beside others is what they are held against, and is not looked at. w
// has passed Check. The result is a function of w alone.
func (w *Workload) Lint() []Finding {
	l := &linter{w: w}
	l.sample()
	var found []Finding
	note := func(id, policy, key, wrong, do string) {
		if wrong != "" {
			found = append(found, Finding{id, policy, key, wrong, do})
		}
	}
	for _, r := range workloadRules {
		wrong, do := r.check(l)
		note(r.id, "", r.key, wrong, do)
	}
	for _, np := range l.policies() {
		for _, r := range policyRules {
			wrong, do := r.check(l, &np.Policy)
			note(r.id, np.Name, r.key, wrong, do)
		}
	}
	return found
}

// linter is a workload with what its service draws.
type linter struct {
	w     *Workload
	draws []time.Duration // ascending; none without a service
}

// lintDraws is how many service times are drawn: p99.9 rests on 100 of them.
const lintDraws = 100_000

func (l *linter) sample() {
	s := l.w.Service
	if s == nil {
		return
	}
	n := s.Servers()
	l.draws = make([]time.Duration, lintDraws)
	for i := range l.draws {
		l.draws[i], _ = s.Draw(l.w.Seed, i%n, uint64(i), 1)
	}
	slices.Sort(l.draws)
}

// policies are those of the workload and those that the simulator has instead.
func (l *linter) policies() []NamedPolicy {
	all := slices.Clone(l.w.Policies)
	for _, np := range l.w.Sim.Policies {
		if !slices.ContainsFunc(all, func(o NamedPolicy) bool { return o.Spec == np.Spec }) {
			all = append(all, np)
		}
	}
	if len(all) == 0 {
		all = []NamedPolicy{{Name: "plain", Spec: "plain"}}
	}
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(np NamedPolicy) bool { return np.Spec == "plain" })
	}
	return all
}

// exceed is the share of first attempts whose service time is longer than d. ok
// is false when the service is not known.
func (l *linter) exceed(d time.Duration) (share float64, ok bool) {
	n := len(l.draws)
	i, _ := slices.BinarySearch(l.draws, d+1)
	return float64(n-i) / float64(max(n, 1)), n > 0
}

// quantile is the service time that a share q of the draws does not exceed; 0
// when the service is not known.
func (l *linter) quantile(q float64) time.Duration {
	if len(l.draws) == 0 {
		return 0
	}
	return l.draws[min(int(q*float64(len(l.draws))), len(l.draws)-1)]
}

// rho is how busy the busiest replica is with first attempts alone; 0 when
// nothing queues, or rate or service are not known.
func (l *linter) rho() float64 {
	s := l.w.Service
	if s == nil || l.w.Rate == 0 {
		return 0
	}
	n, most := s.Servers(), 0.0
	for i := range n {
		if x, ok := s.Load(l.w.Seed, i, l.w.Rate.PerSecond()/float64(n)); ok {
			most = max(most, x)
		}
	}
	return most
}

// queues says whether copies of a call take capacity from other calls.
func (l *linter) queues() bool {
	s := l.w.Service
	return s != nil && s.Coupled()
}

// stops says whether an attempt that is no longer wanted ends at the server, or
// hardly ever begins there because its copy has (CancelTied).
func (l *linter) stops(p *policy.Policy) bool {
	if l.w.Service == nil || p.Cancel == policy.CancelDrain {
		return false
	}
	return l.w.Service.Cancel == service.CancelRunning || p.Cancel == policy.CancelTied
}

// hedgeDelay is the delay of the first hedge: the fixed one, or the quantile of
// the service times. ok is false when it is not known.
func (l *linter) hedgeDelay(p *policy.Policy) (d time.Duration, ok bool) {
	switch {
	case p.Hedge.Max == 0:
		return 0, false
	case p.Hedge.Quantile == 0:
		return p.Hedge.Delay, true
	}
	d = max(l.quantile(p.Hedge.Quantile), p.Hedge.Floor)
	if p.Hedge.Ceiling > 0 {
		d = min(d, p.Hedge.Ceiling)
	}
	return d, len(l.draws) > 0
}

// attemptTimeout is that of p: the fixed one, or the quantile of the service
// times and its pad; key is how the policy writes it. ok is false when there is
// none or it is not known.
func (l *linter) attemptTimeout(p *policy.Policy) (d time.Duration, key string, ok bool) {
	switch t := p.Timeouts[policy.PartAttempt]; {
	case t.Quantile > 0:
		d = l.quantile(t.Quantile) + t.Pad
		return d, fmt.Sprintf("attempt-timeout=p%s (%s)", units.Percentile(t.Quantile), units.Duration(d)), len(l.draws) > 0
	case t.After > 0:
		return t.After, "attempt-timeout=" + units.FormatDuration(t.After), true
	}
	return 0, "", false
}

// deadline writes the deadline of p, less what it keeps back.
func deadline(p *policy.Policy) string {
	s := "deadline=" + units.FormatDuration(p.Deadline)
	if p.Reserve > 0 {
		s += " less reserve=" + units.FormatDuration(p.Reserve)
	}
	return s
}

// most is the largest number of attempts of a call.
func most(p *policy.Policy) int {
	n := 1 + p.Retry.Max + p.Hedge.Max
	if p.Attempts > 0 {
		n = min(n, p.Attempts)
	}
	return n
}

// workloadRules are the pitfalls of the workload as a whole.
var workloadRules = []struct {
	id, key string
	check   func(l *linter) (wrong, do string)
}{
	{"closed-comparison", "rate", func(l *linter) (string, string) {
		if l.w.Rate > 0 || len(l.w.Policies) < 2 {
			return "", ""
		}
		return fmt.Sprintf("%d policies are compared in a closed loop, where a faster policy raises its own load and a stall hides the calls that it held up", len(l.w.Policies)),
			"give rate, such as rate: 1000/s, and each call is due whatever came before"
	}},
	{"overload", "rate", func(l *linter) (string, string) {
		rho := l.rho()
		if rho <= 1 || l.w.Service.Slots > 0 && l.w.Service.Queue >= 0 {
			return "", ""
		}
		if l.w.Service.Slots == 0 {
			return fmt.Sprintf("%s is %s of what a replica serves in its windows, so that the rest is shed whatever the policy does", l.w.Rate, percent(rho)),
				"lower rate, or give the service more capacity or replicas"
		}
		return fmt.Sprintf("%s keeps a replica %s busy with first attempts alone, so that its queue grows without end and every percentile only says how long the run was", l.w.Rate, percent(rho)),
			"lower rate, or give the service more slots or replicas, or a queue with an end"
	}},
}

// policyRules are the pitfalls of one policy, in the order of the page.
var policyRules = []struct {
	id, key string
	check   func(l *linter, p *policy.Policy) (wrong, do string)
}{
	{"no-timeout", "deadline", noTimeout},
	{"deadline-not-told", "deadline.wire", deadlineNotTold},
	{"epoch-deadline", "deadline.wire", epochDeadline},
	{"timeout-inward", "attempt-timeout", timeoutInward},
	{"attempts-past-deadline", "attempts", attemptsPastDeadline},
	{"timeout-cuts", "attempt-timeout", timeoutCuts},
	{"retry-without-attempt-timeout", "attempt-timeout", retryWithoutTimeout},
	{"retry-all", "retry.on", retryAll},
	{"retry-unsafe", "retry.unsafe", retryUnsafe},
	{"never-resent", "retry.unsafe", neverResent},
	{"no-backoff", "backoff", noBackoff},
	{"fixed-delay", "backoff.factor", fixedDelay},
	{"no-jitter", "jitter", noJitter},
	{"jitter-before-cap", "jitter.when", jitterBeforeCap},
	{"retry-without-budget", "budget", retryWithoutBudget},
	{"many-retries", "retry", manyRetries},
	{"retry-after-ignored", "retry.after", retryAfterIgnored},
	{"retry-after-past-deadline", "deadline", retryAfterPastDeadline},
	{"hedge-at-load", "budget", hedgeAtLoad},
	{"hedge-without-budget", "budget", hedgeWithoutBudget},
	{"hedge-early", "hedge", hedgeEarly},
	{"hedge-never", "hedge", hedgeNever},
	{"hedge-too-late", "hedge", hedgeTooLate},
	{"few-samples", "hedge.min-samples", fewSamples},
	{"few-samples", "attempt-timeout", fewSamplesForTimeout},
}

func percent(share float64) string { return units.Percent(share) }

func statuses(list []uint16) string {
	var words []string
	for _, s := range list {
		words = append(words, strconv.Itoa(int(s)))
	}
	return strings.Join(words, "+")
}
