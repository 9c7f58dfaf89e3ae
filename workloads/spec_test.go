package workloads

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/policy"
)

func TestParsePolicy(t *testing.T) {
	for _, c := range []struct {
		why, spec string
		name      string
		full      string // canonical spec; "" when it is the spec itself
		want      policy.Policy
	}{
		{"plain is the zero policy", "plain", "plain", "", policy.Policy{}},
		{"a fixed hedge", "hedge=58ms", "hedge-58ms", "", policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 58 * time.Millisecond}}},
		{"a hedge at once", "hedge=0s", "hedge-0s", "", policy.Policy{Hedge: policy.Hedge{Max: 1}}},
		{"a tracked hedge", "hedge=p95", "hedge-p95", "", policy.Policy{Hedge: policy.Hedge{Max: 1, Quantile: 0.95}}},
		{"a percentile with a fraction gives the nearest float", "hedge=p99.9", "hedge-p99.9", "", policy.Policy{Hedge: policy.Hedge{Max: 1, Quantile: 0.999}}},
		{"hedge.max may come before hedge", "hedge.max=3,hedge=5ms", "hedge.max-3", "hedge=5ms,hedge.max=3",
			policy.Policy{Hedge: policy.Hedge{Max: 3, Delay: 5 * time.Millisecond}}},
		{"all of hedge", "hedge=p90,hedge.max=2,hedge.window=10s,hedge.min-samples=1k", "hedge-p90", "",
			policy.Policy{Hedge: policy.Hedge{Max: 2, Quantile: 0.9, Window: 10 * time.Second, MinSamples: 1000}}},
		{"a retry with a given name", "calm:retry=3", "calm", "retry=3", policy.Policy{Retry: policy.Retry{Max: 3}}},
		{"the name comes from the first entry", "retry=3,budget=10%", "retry-3", "", policy.Policy{Retry: policy.Retry{Max: 3}, Budget: policy.Budget{Deposit: 0.1}}},
		{"attempts alone means retries", "attempts=4", "attempts-4", "retry=3,attempts=4", policy.Policy{Attempts: 4, Retry: policy.Retry{Max: 3}}},
		{"attempts=1 alone retries nothing", "attempts=1", "attempts-1", "", policy.Policy{Attempts: 1}},
		{"attempts beside hedge only caps", "hedge=5ms,attempts=2", "hedge-5ms", "", policy.Policy{Attempts: 2, Hedge: policy.Hedge{Max: 1, Delay: 5 * time.Millisecond}}},
		{"attempts beside retry=0 only caps", "retry=0,attempts=3", "retry-0", "", policy.Policy{Attempts: 3}},
		{"spaces around entries are allowed", " retry = 2 , jitter=none, backoff=1ms ", "retry-2", "retry=2,backoff=1ms,jitter=none",
			policy.Policy{Retry: policy.Retry{Max: 2}, Backoff: policy.Backoff{Base: time.Millisecond, Jitter: policy.JitterNone}}},
		{"the design's long example", "retry=3,backoff=100ms..2s,jitter=full,budget.capacity=500,attempt-timeout=250ms,deadline=1s", "retry-3",
			"retry=3,backoff=100ms..2s,budget.capacity=500,attempt-timeout=250ms,deadline=1s",
			policy.Policy{Retry: policy.Retry{Max: 3}, Backoff: policy.Backoff{Base: 100 * time.Millisecond, Cap: 2 * time.Second},
				Budget: policy.Budget{Capacity: 500}, Timeouts: policy.Timeouts{policy.PartAttempt: {After: 250 * time.Millisecond}}, Deadline: time.Second}},
		{"statuses and unsafe", "retry=1,retry.on=429+503,retry.unsafe", "retry-1", "retry=1,retry.on=429+503,retry.unsafe=true",
			policy.Policy{Retry: policy.Retry{Max: 1, On: []uint16{429, 503}, Unsafe: true}}},
		{"unsafe may be denied", "retry=1,retry.unsafe=false", "retry-1", "retry=1", policy.Policy{Retry: policy.Retry{Max: 1}}},
		{"a factor", "retry=9,backoff=1ms,backoff.factor=1.5", "retry-9", "",
			policy.Policy{Retry: policy.Retry{Max: 9}, Backoff: policy.Backoff{Base: time.Millisecond, Factor: 1.5}}},
		{"a constant backoff with equal jitter", "retry=2,backoff=10ms,backoff.kind=constant,jitter=equal", "retry-2", "",
			policy.Policy{Retry: policy.Retry{Max: 2}, Backoff: policy.Backoff{Kind: policy.BackoffConstant, Base: 10 * time.Millisecond, Jitter: policy.JitterEqual}}},
		{"a table", "retry=2,backoff=0s+10ms,jitter=20%", "retry-2", "",
			policy.Policy{Retry: policy.Retry{Max: 2}, Backoff: policy.Backoff{Kind: policy.BackoffTable, Steps: []time.Duration{0, 10 * time.Millisecond}, Jitter: policy.JitterFraction, Share: 0.2}}},
		{"jitter before the cap", "retry=2,backoff=10ms..1s,jitter=5ms,jitter.when=before-cap", "retry-2", "",
			policy.Policy{Retry: policy.Retry{Max: 2}, Backoff: policy.Backoff{Base: 10 * time.Millisecond, Cap: time.Second, Jitter: policy.JitterAbsolute, Span: 5 * time.Millisecond, JitterFirst: true}}},
		{"decorrelated", "retry=2,backoff=10ms..1s,backoff.kind=decorrelated", "retry-2", "",
			policy.Policy{Retry: policy.Retry{Max: 2}, Backoff: policy.Backoff{Kind: policy.BackoffDecorrelated, Base: 10 * time.Millisecond, Cap: time.Second}}},
		{"a budget above all", "retry=2,budget=150%", "retry-2", "", policy.Policy{Retry: policy.Retry{Max: 2}, Budget: policy.Budget{Deposit: 1.5}}},
		{"a budget as a fraction", "retry=2,budget=0.05", "retry-2", "retry=2,budget=5%", policy.Policy{Retry: policy.Retry{Max: 2}, Budget: policy.Budget{Deposit: 0.05}}},
		{"a fixed number of tokens", "retry=2,budget=0%,budget.capacity=10", "retry-2", "retry=2,budget.capacity=10",
			policy.Policy{Retry: policy.Retry{Max: 2}, Budget: policy.Budget{Capacity: 10}}},
		{"a deadline with min-start", "deadline=1s,min-start=20ms", "deadline-1s", "", policy.Policy{Deadline: time.Second, MinStart: 20 * time.Millisecond}},
		{"cancel and picker", "hedge=5ms,cancel=reset,picker=round-robin", "hedge-5ms", "",
			policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 5 * time.Millisecond}, Cancel: policy.CancelReset, Picker: policy.PickRoundRobin}},
		{"a default name keeps only what names may hold", "deadline=1500µs", "deadline-1500us", "deadline=1.5ms", policy.Policy{Deadline: 1500 * time.Microsecond}},
		{"a percentage loses its sign in a name", "budget=12.5%,retry=1", "budget-12.5", "retry=1,budget=12.5%",
			policy.Policy{Retry: policy.Retry{Max: 1}, Budget: policy.Budget{Deposit: 0.125}}},
	} {
		got, err := ParsePolicy(c.spec)
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		full := c.full
		if full == "" {
			full = c.spec
		}
		if diff := cmp.Diff(NamedPolicy{c.name, full, c.want}, got); diff != "" {
			t.Errorf("%s: %s: (-want +got)\n%s", c.why, c.spec, diff)
		}
	}
}

func TestParsePolicyErrors(t *testing.T) {
	for _, c := range []struct{ why, spec, want string }{
		{"an unknown key names the nearest one", "hegde=5ms", `policy "hegde=5ms": unknown key "hegde", nearest is "hedge"`},
		{"a deeper key is as strict", "retry=1,retry.un=503", `policy "retry=1,retry.un=503": unknown key "retry.un", nearest is "retry.on"`},
		{"underscores are not dashes", "attempt_timeout=1s", `policy "attempt_timeout=1s": unknown key "attempt_timeout", nearest is "attempt-timeout"`},
		{"a URL is not a policy", "http://x/", `policy "http://x/": unknown key "//x/", nearest is "plain"`},
		{"a missing unit proposes one", "deadline=10", `policy "deadline=10": deadline = "10" has no unit, want a duration such as 10s`},
		{"a hedge without unit", "hedge=58", `policy "hedge=58": hedge = "58" has no unit, want a duration such as 58s, or a percentile such as p95`},
		{"a budget without percent sign", "retry=1,budget=10", `policy "retry=1,budget=10": budget = "10" has no unit, want a share such as 10%`},
		{"negative", "deadline=-1s", `policy "deadline=-1s": deadline = "-1s" is negative, want a duration such as 10s`},
		{"zero where zero would mean none", "deadline=0s", `policy "deadline=0s": deadline = "0s", want more than 0s`},
		{"a percentile that does not exist", "hedge=p100", `policy "hedge=p100": hedge = "p100", want a duration such as 50ms or a percentile above p0 and below p100`},
		{"a percentile of none", "hedge=p0", `policy "hedge=p0": hedge = "p0", want a duration such as 50ms or a percentile above p0 and below p100`},
		{"too many open at once", "hedge=5ms,hedge.max=8", `policy "hedge=5ms,hedge.max=8": hedge.max = "8", want from 1 to 7`},
		{"a word that is not one", "retry=1,backoff=1s,jitter=half", `policy "retry=1,backoff=1s,jitter=half": jitter = "half", want full, none, equal, a share such as 20% or a duration such as 50ms`},
		{"three words", "cancel=kill", `policy "cancel=kill": cancel = "kill", want close, drain, reset or tied`},
		{"a count is not a duration", "retry=3s", `policy "retry=3s": retry = "3s" has the unknown unit "s", want a count such as 100 or 10k`},
		{"attempts count from one", "attempts=0", `policy "attempts=0": attempts = "0", want 1 or more`},
		{"half an attempt", "attempts=1.5", `policy "attempts=1.5": attempts = "1.5" is not a whole number`},
		{"twice", "retry=1,retry=2", `policy "retry=1,retry=2": retry is given twice`},
		{"plain is alone", "plain,deadline=1s", `policy "plain,deadline=1s": plain stands alone, without further keys`},
		{"plain has no value", "plain=1", `policy "plain=1": plain has a value, want it alone`},
		{"no value", "hedge", `policy "hedge": hedge has no value, want hedge=D or pNN`},
		{"empty value", "retry=", `policy "retry=": retry = "" is empty, want a count such as 100 or 10k`},
		{"empty", "", `policy "": empty, want plain or a list such as hedge=p95,budget=10%`},
		{"a name only", "a:", `policy "a:": empty, want plain or a list such as hedge=p95,budget=10%`},
		{"an empty name", ":plain", `policy ":plain": the name before ':' is empty`},
		{"a name in capitals", "Fast:plain", `policy "Fast:plain": name "Fast" has 'F', want a-z, 0-9, '.', '_' and '-' only`},
		{"a trailing comma", "retry=1,", `policy "retry=1,": entry 2 is empty, want key=value`},
		{"a status that is no failure", "retry=1,retry.on=200", `policy "retry=1,retry.on=200": retry.on = "200", want a status from 400 to 599`},
		{"a status twice", "retry=1,retry.on=503+503", `policy "retry=1,retry.on=503+503": retry.on = "503+503" has 503 twice`},
		{"a cap below the wait", "retry=1,backoff=2s..1s", `policy "retry=1,backoff=2s..1s": backoff = "2s..1s", want a cap of at least the first wait`},
		{"a factor that shrinks", "retry=1,backoff=1s,backoff.factor=0.5", `policy "retry=1,backoff=1s,backoff.factor=0.5": backoff.factor = "0.5", want from 1 to 1000000000`},
		{"a factor that is no number", "retry=1,backoff=1s,backoff.factor=NaN", `policy "retry=1,backoff=1s,backoff.factor=NaN": backoff.factor = "NaN", want a number`},
		{"a budget of nothing", "retry=1,budget=0%", `policy "retry=1,budget=0%": budget=0% pays for none of retry=1, want more, budget.capacity for a fixed number, or no budget`},
		{"backoff says nothing alone", "backoff=1s", `policy "backoff=1s": backoff needs retry or attempts`},
		{"hedge.max says nothing alone", "hedge.max=2", `policy "hedge.max=2": hedge.max needs hedge`},
		{"a window needs a tracked delay", "hedge=5ms,hedge.window=5s", `policy "hedge=5ms,hedge.window=5s": hedge.window needs a hedge after a percentile such as hedge=p95`},
		{"more retries than attempts", "attempts=3,retry=3", `policy "attempts=3,retry=3": attempts=3 leaves 2 for retry=3`},
		{"more hedges than attempts", "attempts=2,hedge=1ms,hedge.max=3", `policy "attempts=2,hedge=1ms,hedge.max=3": attempts=2 leaves 1 for hedge.max=3`},
		{"min-start needs deadline", "min-start=5ms", `policy "min-start=5ms": min-start needs deadline`},
		{"a decorrelated backoff is drawn already", "retry=1,backoff=1ms,backoff.kind=decorrelated,jitter=full", `policy "retry=1,backoff=1ms,backoff.kind=decorrelated,jitter=full": jitter says nothing of backoff.kind=decorrelated, which is drawn already`},
		{"a factor of what does not multiply", "retry=1,backoff=1ms,backoff.kind=linear,backoff.factor=2", `policy "retry=1,backoff=1ms,backoff.kind=linear,backoff.factor=2": backoff.factor=2 is of an exponential backoff or a sum only`},
		{"jitter of nothing", "retry=1,backoff=1ms,jitter=0%", `policy "retry=1,backoff=1ms,jitter=0%": jitter = "0%", want a share above 0% and at most 100%`},
		{"before or after which cap", "retry=1,backoff=1ms,jitter.when=before-cap", `policy "retry=1,backoff=1ms,jitter.when=before-cap": jitter.when needs a cap, such as backoff=100ms..2s`},
		{"budget limits nothing alone", "budget=10%", `policy "budget=10%": budget needs retry, attempts or hedge`},
		{"a hedge after the deadline: both keys are named", "hedge=2s,deadline=1s", `policy "hedge=2s,deadline=1s": hedge=2s is not below deadline=1s`},
		{"one attempt cannot be retried", "attempts=1,retry=2", `policy "attempts=1,retry=2": attempts=1 leaves none for retry=2`},
		{"long text is clipped", strings.Repeat("x", 5000), `policy "` + strings.Repeat("x", 80) + `…": 5000 bytes long, want at most 4000`},
	} {
		_, err := ParsePolicy(c.spec)
		if err == nil {
			t.Errorf("%s: no error", c.why)
		} else if err.Error() != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.why, err, c.want)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	for _, s := range []string{
		"plain", "a:hedge=p95,budget=10%", "retry=3,backoff=100ms..2s,jitter=none,budget.capacity=500,attempt-timeout=250ms,deadline=1s,min-start=5ms",
		"attempts=4", "hedge=0s,hedge.max=7,cancel=drain", "hedge=p99.99,hedge.window=1m,hedge.min-samples=10", "retry=1,retry.on=429+503,retry.unsafe",
		"retry=0,attempts=3", "retry=9,backoff=1ms,backoff.factor=1.5,picker=round-robin", "retry=1,backoff=1ms+2s,jitter=20%", "retry=1,backoff=1ms..2s,backoff.kind=linear,jitter=5ms,jitter.when=before-cap", "=", ",", "hedge=p", "x:y:z", "deadline=1µs", "budget=1e9",
		"retry=1,budget=20%,budget.kind=window,budget.min-rate=7/min,budget.window=5s", "hedge=1ms,budget=0.1,budget.kind=concurrency,budget.min=3,budget.charge=fire,hedge.budget=3%",
		"retry=1,budget.capacity=9,budget.initial=0,budget=1%,budget.cost=2.5,budget.refund", "breaker=33%,breaker.window=7s,breaker.slow=1ms,breaker.open=1s..9s", "breaker=5,breaker.permits=2,breaker.max-wait=1s",
		"throttle=1.5,throttle.min-rate=1/h,throttle.max=0.7", "limit=1..9,limit.backoff=33%,limit.initial=3", "deadline=1s,deadline.wire=x-request-deadline",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		np, err := ParsePolicy(s)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("error of several lines: %q", err)
			}
			return
		}
		if err := checkName(np.Name); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		again, err := ParsePolicy(np.Name + ":" + FormatPolicy(np.Policy))
		if err != nil {
			t.Fatalf("%q became %q: %v", s, np.Spec, err)
		}
		if diff := cmp.Diff(np, again); diff != "" {
			t.Fatalf("%q became %q: (-first +again)\n%s", s, np.Spec, diff)
		}
	})
}

func TestNearest(t *testing.T) {
	words := []string{"hedge", "retry", "budget", "rate"}
	for _, c := range []struct{ why, word, want string }{
		{"neighbours exchanged", "hegde", "hedge"},
		{"one letter left out", "rety", "retry"},
		{"one letter too many", "budgett", "budget"},
		{"one letter wrong", "rale", "rate"},
		{"the first of equals", "xxxxx", "hedge"},
	} {
		if got := Nearest(c.word, words); got != c.want {
			t.Errorf("%s: Nearest(%q) = %q, want %q", c.why, c.word, got, c.want)
		}
	}
	if got := edits([]rune("ab"), []rune("ba")); got != 1 {
		t.Errorf("an exchange of neighbours costs %d, want 1", got)
	}
	if got := Nearest("x", nil); got != "" {
		t.Errorf("nearest of nothing is %q", got)
	}
}
