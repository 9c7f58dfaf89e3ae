package workloads

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// queueing is a service whose replicas are busy to a share by the rate.
const (
	tail     = "service: {replicas: 3, time: 'uniform(20ms,60ms)', slow: {share: 2%, time: 1s}}\n"
	queueing = "service: {replicas: 3, time: 'uniform(20ms,60ms)', slots: 24}\n"
)

// TestLintRules: each rule fires on its bad example, by its key, and neither it
// nor the repair's own side effects fire on the good one.
func TestLintRules(t *testing.T) {
	const all = "deadline=1s,attempt-timeout=150ms,retry=2,backoff=10ms..100ms,budget=10%"
	for _, c := range []struct {
		about     string
		id, key   string
		bad, good string
		wrong     string // part of what it says
	}{
		{"waits for ever", "no-timeout", "deadline", "policy: retry=1,backoff=1ms,budget=10%\n", "policy: retry=1,backoff=1ms,budget=10%,deadline=1s,attempt-timeout=400ms\n", "waits for ever"},
		{"a timeout that each byte begins anew", "no-timeout", "deadline", "policy: read-timeout=1s\n", "policy: read-timeout=1s,deadline=5s\n", "drop by drop"},
		{"a service that is not told", "deadline-not-told", "deadline.wire", "service: {time: 1ms, deadline: queued}\npolicy: deadline=1s\n", "service: {time: 1ms, deadline: queued}\npolicy: deadline=1s,deadline.wire=grpc-timeout\n", "is not told"},
		{"an instant of the wall clock", "epoch-deadline", "deadline.wire", "policy: deadline=1s,deadline.wire=x-request-deadline\n", "policy: deadline=1s,deadline.wire=x-deadline-ms\n", "off by the skew"},
		{"plain alone is looked at", "no-timeout", "deadline", "policy: plain\n", "policy: [plain, deadline=1s]\n", "never answers"},
		{"the inner timeout is the longer one", "timeout-inward", "attempt-timeout",
			"policy: deadline=1s,attempt-timeout=2s\n", "policy: deadline=1s,attempt-timeout=500ms\n", "attempt-timeout=2s never acts inside deadline=1s"},
		{"four attempts of a second within two", "attempts-past-deadline", "attempts",
			"policy: deadline=2s,attempt-timeout=900ms,retry=3,backoff=100ms..200ms,budget=10%\n", "policy: deadline=5s,attempt-timeout=900ms,retry=3,backoff=100ms..200ms,budget=10%\n", "4 attempts of attempt-timeout=900ms with their backoff take longer than deadline=2s: when attempts time out, 2 of them fit"},
		{"a decorrelated wait without a cap", "attempts-past-deadline", "attempts",
			"policy: deadline=2s,attempt-timeout=100ms,retry=1,backoff=1ms,backoff.kind=decorrelated,budget=10%\n", "policy: deadline=2s,attempt-timeout=100ms,retry=1,backoff=1ms..1s,backoff.kind=decorrelated,budget=10%\n", "1 of them fit"},
		{"a timeout in the slow share", "timeout-cuts", "attempt-timeout",
			tail + "policy: attempt-timeout=500ms\n", tail + "policy: attempt-timeout=1.1s\n", "below the service's p99 (1.00 s): it cuts 2.0 % of the attempts"},
		{"a timeout in the bulk", "timeout-cuts", "attempt-timeout",
			queueing + "policy: attempt-timeout=50ms\n", queueing + "policy: attempt-timeout=60ms\n", "it cuts 24.9 %"},
		{"a followed timeout in the bulk", "timeout-cuts", "attempt-timeout", tail + "policy: attempt-timeout=p95\n", tail + "policy: attempt-timeout=p95+1s\n", "attempt-timeout=p95 (5"},
		{"nothing ends a slow attempt", "retry-without-attempt-timeout", "attempt-timeout", "policy: deadline=1s,retry=2,backoff=1ms,budget=10%\n", "policy: " + all + "\n", "takes the whole of deadline=1s"},
		{"not found is found again", "retry-all", "retry.on", "policy: " + all + ",retry.on=404+503+500\n", "policy: " + all + ",retry.on=429+503\n", "404+500 says"},
		{"a POST sent twice", "retry-unsafe", "retry.unsafe",
			"method: POST\npolicy: " + all + ",retry.unsafe\n", "method: POST\nheader: 'Idempotency-Key: 1'\npolicy: " + all + "\n", "POST without Idempotency-Key is sent again"},
		{"a POST never sent twice", "never-resent", "retry.unsafe", "method: POST\npolicy: hedge=1s,budget=5%,deadline=2s\n", "method: PUT\npolicy: hedge=1s,budget=5%,deadline=2s\n", "the policy is no policy"},
		{"retries at once", "no-backoff", "backoff", "policy: deadline=1s,attempt-timeout=300ms,retry=2,budget=10%\n", "policy: " + all + "\n", "at once"},
		{"a constant wait", "fixed-delay", "backoff.factor", "policy: " + all + ",backoff.kind=constant\n", "policy: " + all + "\n", "does not grow"},
		{"a factor of 1", "fixed-delay", "backoff.factor", "policy: " + all + ",backoff.factor=1\n", "policy: " + all + ",backoff.factor=1.5\n", "does not grow"},
		{"no jitter", "no-jitter", "jitter", "policy: " + all + ",jitter=none\n", "policy: " + all + ",jitter=equal\n", "come back together"},
		{"jitter before the cap", "jitter-before-cap", "jitter.when", "policy: deadline=2s,attempt-timeout=150ms,retry=5,backoff=10ms..100ms,budget=10%,jitter.when=before-cap\n", "policy: deadline=1s,attempt-timeout=150ms,retry=2,backoff=10ms..100ms,budget=10%,jitter.when=before-cap\n", "exactly that"},
		{"a breaker bounds retries", "retry-without-budget", "budget", "policy: deadline=1s,attempt-timeout=150ms,retry=3,backoff=10ms..100ms\n", "policy: deadline=1s,attempt-timeout=150ms,retry=3,backoff=10ms..100ms,breaker=5\n", "4 times"},
		{"a limit bounds hedges", "hedge-without-budget", "budget", "policy: hedge=p95,deadline=1s\n", "policy: hedge=p95,deadline=1s,limit=100\n", "every call is copied"},
		{"jitter is taken for a budget", "retry-without-budget", "budget",
			"policy: deadline=1s,attempt-timeout=150ms,retry=3,backoff=10ms..100ms\n", "policy: deadline=1s,attempt-timeout=150ms,retry=3,backoff=10ms..100ms,budget=10%\n", "4 times what it was (backoff and jitter spread them"},
		{"neither jitter nor budget", "retry-without-budget", "budget",
			"policy: deadline=1s,attempt-timeout=150ms,retry=1,backoff=10ms..100ms,jitter=none\n", "policy: plain\n", "2 times what it was (backoff only delays them)"},
		{"25 retries", "many-retries", "retry", "policy: retry=25,backoff=1ms..10ms,budget=10%,deadline=9s,attempt-timeout=100ms\n", "policy: retry=4,backoff=1ms..10ms,budget=10%,deadline=9s,attempt-timeout=100ms\n", "26 attempts of one call"},
		{"the server is not listened to", "retry-after-ignored", "retry.after", "policy: " + all + ",retry.after=ignore\n", "policy: " + all + ",retry.after=exact\n", "not listened to"},
		{"Retry-After beyond the deadline", "retry-after-past-deadline", "deadline",
			"service: {time: 1ms, status: {503: 10%}, retry-after: 60s}\npolicy: " + all + "\n", "service: {time: 1ms, status: {503: 10%}, retry-after: 1s}\npolicy: retry=1,backoff=1ms,budget=10%,attempt-timeout=1s,deadline=3s\n", "Retry-After 1m and deadline=1s"},
		{"copies at a high load", "hedge-at-load", "budget",
			"rate: 1350/s\n" + queueing + "policy: hedge=p95,deadline=1s\n", "rate: 1350/s\n" + queueing + "policy: hedge=p95,deadline=1s,budget=5%\n", "75.0 % busy"},
		{"cancel saves it", "hedge-at-load", "budget",
			"rate: 1350/s\n" + queueing + "policy: hedge=p95,deadline=1s,cancel=drain\n", "rate: 1350/s\nservice: {replicas: 3, time: 'uniform(20ms,60ms)', slots: 24, cancel: running}\npolicy: hedge=p95,deadline=1s\n", "busy"},
		{"copies at a low load", "hedge-without-budget", "budget",
			"rate: 900/s\n" + queueing + "policy: hedge=p95,deadline=1s\n", "rate: 900/s\n" + tail + "policy: hedge=p95,deadline=1s\n", "rho 0.5 becomes 1"},
		{"copies to a service that nobody knows", "hedge-without-budget", "budget", "policy: hedge=p95,deadline=1s\n", "policy: hedge=p95,deadline=1s,budget=5%\n", "every call is copied"},
		{"below the median", "hedge-early", "hedge", tail + "policy: hedge=30ms,deadline=2s\n", tail + "policy: hedge=58ms,deadline=2s\n", "the hedge after 30.0 ms comes before the service's median of 40."},
		{"a low percentile", "hedge-early", "hedge", tail + "policy: hedge=p40,deadline=2s\n", tail + "policy: hedge=p95,deadline=2s\n", "adds 60.0 % of load"},
		{"beyond every answer", "hedge-never", "hedge", tail + "policy: hedge=1.1s,deadline=2s\n", tail + "policy: hedge=999ms,deadline=2s\n", "no answer takes longer than 1.00 s"},
		{"after the objective", "hedge-too-late", "hedge", "within: 100ms\n" + tail + "policy: hedge=p99,deadline=2s\n", "within: 100ms\n" + tail + "policy: hedge=p95,deadline=2s\n", "come later than the objective of 100ms"},
		{"too few for anything", "few-samples", "hedge.min-samples", "rate: 3/s\npolicy: hedge=p95,deadline=1s,budget=5%\n", "rate: 100/s\npolicy: hedge=p95,deadline=1s,budget=5%\n", "gives 90 calls in 30s, and below 100 nothing is hedged"},
		{"clients share the calls", "few-samples", "hedge.min-samples", "rate: 100/s\nclients: 100\npolicy: hedge=p95,deadline=1s,budget=5%\n", "rate: 100/s\nclients: 2\npolicy: hedge=p95,deadline=1s,budget=5%\n", "for each client"},
		{"too few beyond it", "few-samples", "hedge.min-samples", "rate: 10/s\npolicy: hedge=p99,deadline=1s,budget=5%\n", "rate: 100/s\npolicy: hedge=p99,deadline=1s,budget=5%\n", "p99 rests on the 3.0 slowest of the 300 calls in 30s"},
		{"a timeout that follows too few", "few-samples", "attempt-timeout", "rate: 3/s\npolicy: attempt-timeout=p99\n", "rate: 100/s\npolicy: attempt-timeout=p99\n", "below 100 nothing is cut off"},
		{"hedges off under load", "hedge-without-budget", "budget", "policy: hedge=p95,deadline=1s\n", "policy: hedge=p95,deadline=1s,hedge.off-above=10\n", "every call is copied"},
		{"a comparison in closed loop", "closed-comparison", "rate", "policy: [plain, deadline=1s]\n", "rate: 10/s\npolicy: [plain, deadline=1s]\n", "2 policies are compared in a closed loop"},
		{"more than it can serve", "overload", "rate", "rate: 2000/s\n" + queueing + "policy: deadline=1s\n", "rate: 1000/s\n" + queueing + "policy: deadline=1s\n", "keeps a replica 111.1 % busy"},
		{"more than the windows serve", "overload", "rate", "rate: 2000/s\nservice: {capacity: {requests: 100, per: 100ms}}\npolicy: deadline=1s\n", "rate: 900/s\nservice: {capacity: {requests: 100, per: 100ms}}\npolicy: deadline=1s\n", "2k/s is 200.0 % of what a replica serves in its windows"},
	} {
		bad, good := lint(t, c.bad), lint(t, c.good)
		i := slices.IndexFunc(bad, func(f Finding) bool { return f.ID == c.id && f.Key == c.key })
		switch {
		case i < 0:
			t.Errorf("%s: no %s (%s) in %v", c.about, c.id, c.key, ids(bad))
		case !strings.Contains(bad[i].Wrong, c.wrong):
			t.Errorf("%s: %q does not say %q", c.about, bad[i].Wrong, c.wrong)
		case bad[i].Do == "" || strings.HasSuffix(bad[i].Wrong, "."):
			t.Errorf("%s: %+v, want what goes wrong and what to do, without full stops", c.about, bad[i])
		}
		if slices.Contains(ids(good), c.id) {
			t.Errorf("%s: %s is found after the repair", c.about, c.id)
		}
	}
}

func lint(t *testing.T, text string) []Finding {
	t.Helper()
	w, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return w.Lint()
}

func ids(found []Finding) (list []string) {
	for _, f := range found {
		list = append(list, f.ID)
	}
	return list
}

// TestLintFindsNothingInACarefulPolicy: what docs/lint.md recommends is clean.
func TestLintFindsNothingInACarefulPolicy(t *testing.T) {
	for _, text := range []string{
		"rate: 1000/s\nwithin: 100ms\n" + tail + "policy: [plain, 'hedge=p95,budget=10%,deadline=3s']\n",
		"rate: 1000/s\n" + queueing + "policy: 'retry=2,backoff=10ms..100ms,budget=10%,attempt-timeout=100ms,deadline=1s'\n",
	} {
		if found := lint(t, text); len(found) > 0 {
			t.Errorf("%s: %+v", text, found)
		}
	}
}

// TestEveryRuleIsOnThePage: docs/lint.md has a row for each rule, and no other.
func TestEveryRuleIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/lint.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, r := range workloadRules {
		want[r.id] = true
	}
	for _, r := range policyRules {
		want[r.id] = true
	}
	for line := range strings.Lines(string(page)) {
		if id, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); ok && strings.HasPrefix(line, "| `") && rest != "" {
			if !want[id] {
				t.Errorf("the page has %q, and there is no such rule or it has two rows", id)
			}
			delete(want, id)
		}
	}
	for id := range want {
		t.Errorf("the page lacks %q", id)
	}
}
