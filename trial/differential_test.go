package trial

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"latencylab/policy"
	"latencylab/results"
	"latencylab/workloads"
)

// TestSocketsDoWhatTheSimulatorDoes runs each policy over sockets against the
// embedded target and in virtual time, with the same arrivals and the same keyed
// draws, and compares what both counted.
//
// Where only the keys decide, the counts are equal to the digit. Where instants
// decide too, a machine that stalls moves calls across them: the bounds say how
// many. They are far above what a quiet machine shows, and far below what a rule
// that differs would do.
func TestSocketsDoWhatTheSimulatorDoes(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, "1")
	const (
		errors  = "time: 2ms\nstatus: {503: 20%}\nreplicas: 3\n"
		slow    = "time: 5ms\nslow: {share: 10%, time: constant(250ms), by: request}\nreplicas: 3\n"
		outage  = "time: 2ms\noutage: {at: 250ms, for: 350ms, kind: 503}\n"
		lasting = "time: 40ms\n"
		broken  = "time: 2ms\nreplicas: 3\nfault: {reset: 15%}\n"
		one     = "time: 2ms\nreplicas: 3\neach: [{replica: 0, time: 60ms}]\n"
	)
	for _, c := range []struct {
		spec, service string
		// share and count bound the difference of each figure: share of the larger
		// one, plus count. Both 0: equal.
		share float64
		count float64
		rule  policy.Rule // that must have refused something
		why   string
	}{
		{"plain", errors, 0, 0, policy.RuleNone, "the keys decide the statuses"},
		{"retry=2,backoff=1ms,jitter=none", errors, 0, 0, policy.RuleAttempts, "and how often each call is tried"},
		{"retry=1,retry.on=429", errors, 0, 0, policy.RuleDisposition, "and what is not retryable"},
		{"retry=2", broken, 0, 0, policy.RuleNone, "and whose connection is reset"},
		{"envoy", errors, 0.1, 3, policy.RuleNone, "how many calls are in flight decides whether a retry is paid for"},
		{"retry=3,budget=5%,budget.capacity=10", errors, 0.1, 3, policy.RuleBudget, "answers of the same instant may swap the last token"},
		{"hedge=100ms", slow, 0.05, 5, policy.RuleNone, "a stall of 95 ms makes hedges of fast calls"},
		{"hedge=p95,hedge.min-samples=50,budget=20%", slow, 0.5, 12, policy.RuleSamples, "the percentile lies between the two modes, and follows every delay of the machine"},
		{"hedge=100ms,hedge.on-error=next,retry.on=503", "time: 5ms\nstatus: {503: 10%}\nreplicas: 3\n", 0.05, 5, policy.RuleNone, "errors are drawn by key, a stall adds hedges"},
		{"attempt-timeout=100ms,retry=1", slow, 0.05, 5, policy.RuleAttempts, "a stall of 95 ms times out fast calls"},
		{"headers-timeout=100ms,deadline=2s", slow, 0.05, 5, policy.RuleNone, "the same by the phase's timeout"},
		{"breaker=5,breaker.open=100ms", outage, 0.15, 25, policy.RuleBreaker, "calls around the ends of the outage and of the open breaker"},
		{"throttle=2", "time: 2ms\noutage: {at: 100ms, for: 500ms, kind: 503}\n", 0.15, 25, policy.RuleThrottle, "calls around the ends of the outage; each rejection hangs on those before"},
		{"limit=8", lasting, 0.15, 25, policy.RuleLimit, "how many answers have come when a call begins"},
		{"picker=least,hedge=30ms", one, 0.25, 12, policy.RuleNone, "ties of replicas hang on the answer before"},
		{"picker=round-robin,eject=3,eject.for=5s,eject.max=50%", "time: 2ms\nreplicas: 3\nstatus: {500: 60%}\n", 0.2, 25, policy.RuleNone, "failures in a row by replica, in the order of the answers"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			w := workload(t, c.spec)
			w.Service = parseService(t, c.service)
			w.Rate, w.Arrivals, w.Requests, w.WarmupGiven = 500*1e6, workloads.Constant, 400, true
			p := plan(t, w, false)
			s := &Setup{CallHeaders: "on", Child: []string{exe}}
			if err := s.Check(p); err != nil {
				t.Fatal(err)
			}
			res, err := p.simulate(0, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			l := res.Ledger
			virtual := map[string]uint64{
				"calls ok": l.Calls.OK, "calls failed": l.Calls.Failed,
				"sent": l.Attempts.Sent, "first": l.Attempts.First, "retries": l.Attempts.Retries, "hedges": l.Attempts.Hedges,
				"attempts ok": l.Attempts.OK, "attempts failed": l.Attempts.Failed, "timed out": l.Attempts.TimedOut, "cancelled": l.Attempts.Cancelled,
			}
			for rule := range policy.Rules {
				if rule != policy.RuleNone && rule != policy.RuleConnections { // the simulator knows no connections
					virtual["refused by "+rule.String()] = l.Refused[rule]
				}
			}
			if c.rule != policy.RuleNone && l.Refused[c.rule] == 0 {
				t.Errorf("%v refuses nothing: the comparison says nothing about it", c.rule)
			}
			alike(t, func() (differ []string) {
				r, err := Real(t.Context(), p, s)
				if err != nil {
					t.Fatal(err)
				}
				for _, rec := range r.Target.Reconciliation {
					if !rec.Holds {
						t.Errorf("client and target disagree: %+v", rec)
					}
				}
				real := countsOf(&r.Policies[0])
				for _, name := range slices.Sorted(maps.Keys(virtual)) {
					a, b := float64(real[name]), float64(virtual[name])
					if d := max(a-b, b-a); d > c.share*max(a, b)+c.count {
						differ = append(differ, fmt.Sprintf("%s: %v on sockets, %v in virtual time; may differ by %v: %s", name, a, b, allowed(c.share, c.count), c.why))
					}
				}
				return differ
			})
		})
	}
}

// alike measures until nothing differs, four times at most: a machine that stalls
// makes one measurement differ, a rule that does makes them all.
func alike(t *testing.T, measure func() (differ []string)) {
	t.Helper()
	var differ []string
	for range 4 {
		if differ = measure(); len(differ) == 0 {
			return
		}
		t.Logf("once more: %s", strings.Join(differ, "; "))
	}
	t.Error(strings.Join(differ, "\n"))
}

// countsOf names the counts of a run on sockets as those in virtual time are.
func countsOf(p *results.Policy) map[string]uint64 {
	real := map[string]uint64{
		"calls ok": p.Calls.OK, "calls failed": p.Calls.Failed,
		"sent": p.Attempts.Sent, "first": p.Attempts.First, "retries": p.Attempts.Retries, "hedges": p.Attempts.Hedges,
		"attempts ok": p.Attempts.OK, "attempts failed": p.Attempts.Failed, "timed out": p.Attempts.TimedOut, "cancelled": p.Attempts.Cancelled,
	}
	for rule := range policy.Rules {
		real["refused by "+rule.String()] = p.Refused[rule.String()]
	}
	return real
}

func allowed(share, count float64) string { return fmt.Sprintf("%v %% and %v", 100*share, count) }

// TestTiedNeedsServersThatTalk: copies that the servers drop for each other are
// refused before anything is driven.
func TestTiedNeedsServersThatTalk(t *testing.T) {
	w := workload(t, "plain", "hedge=1ms,cancel=tied")
	w.Service = parseService(t, "time: 2ms\n")
	err := (&Setup{CallHeaders: "on"}).Check(plan(t, w, false))
	if want := "policy hedge-1ms: cancel=tied, but servers on sockets do not tell each other of copies: want close, drain or reset, or loadgen sim"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
