package policy

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestValidateAccepts(t *testing.T) {
	full := armed(0)
	tests := []struct {
		name string
		p    Policy
	}{
		{"the zero policy", Policy{}},
		{"everything in use", full},
		{"a tracked delay", Policy{Hedge: Hedge{Max: 1, Quantile: 0.95}, Budget: Budget{Deposit: 0.1}}},
		{"an attempt timeout above the deadline, which then is the limit", Policy{Deadline: time.Second, Timeouts: Timeouts{PartAttempt: {After: time.Minute}}}},
		{"a hedge delay of 0", Policy{Deadline: time.Second, Hedge: Hedge{Max: MaxOpen - 1}}},
		{"a delay that is not used beside a quantile", Policy{Deadline: time.Second, Hedge: Hedge{Max: 1, Delay: time.Hour, Quantile: 0.5}}},
		{"a delay that is not used without hedges", Policy{Deadline: time.Second, Hedge: Hedge{Delay: time.Hour}}},
		{"a backoff that jitter may bring below the deadline", Policy{Deadline: time.Second, Retry: Retry{Max: 1}, Backoff: Backoff{Base: time.Minute}}},
		{"a base that equals its cap", Policy{Retry: Retry{Max: 1}, Backoff: Backoff{Base: time.Second, Cap: time.Second}}},
		{"a bucket that is never refilled", Policy{Retry: Retry{Max: 1}, Budget: Budget{Capacity: 1}}},
		{"one attempt in all", Policy{Attempts: 1}},
		{"no status is retried", Policy{Retry: Retry{Max: 1, On: []uint16{}}}},
		{"the first and the last failure's status", Policy{Retry: Retry{Max: 1, On: []uint16{400, 999}}}},
	}
	for _, tt := range tests {
		if err := tt.p.Validate(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	hedge := func(h Hedge) Policy { return Policy{Hedge: h} }
	budget := func(b Budget) Policy { return Policy{Retry: Retry{Max: 2}, Budget: b} }
	tests := []struct {
		p    Policy
		want string
	}{
		{Policy{Deadline: -1}, "deadline=-1ns is negative, want 0 or more"},
		{Policy{MinStart: -1}, "min-start=-1ns is negative"},
		{Policy{Timeouts: Timeouts{PartAttempt: {After: -time.Second}}}, "attempt-timeout=-1s is negative"},
		{Policy{Backoff: Backoff{Base: -1}}, "backoff=-1ns is negative"},
		{Policy{Backoff: Backoff{Cap: -1}}, "backoff cap=-1ns is negative"},
		{hedge(Hedge{Delay: -1}), "hedge=-1ns is negative"},
		{hedge(Hedge{Window: -1}), "hedge.window=-1ns is negative"},
		{Policy{Attempts: -1}, "attempts=-1, want 1 or more"},
		{Policy{Retry: Retry{Max: -2}}, "retry=-2 is negative"},
		{hedge(Hedge{Max: -2}), "hedge.max=-2 is negative"},
		{hedge(Hedge{MinSamples: -2}), "hedge.min-samples=-2 is negative"},
		{Policy{Cancel: 9}, "cancel=9, want close, drain, reset or tied"},
		{Policy{Picker: 9}, "picker=9, want random, round-robin, least, choices or peak-ewma"},
		{Policy{Backoff: Backoff{Jitter: 9}}, "jitter=9, want full, none, equal, a share or a duration"},

		{Policy{Retry: Retry{Max: math.MaxInt}}, "want at most 2147483647"},
		{Policy{Attempts: 1, Retry: Retry{Max: 3}}, "attempts=1 leaves none for retry=3"},
		{Policy{Backoff: Backoff{Factor: 0.5}}, "backoff.factor=0.5, want 1 or more"},
		{Policy{Backoff: Backoff{Factor: math.NaN()}}, "backoff.factor=NaN, want 1 or more"},
		{Policy{Backoff: Backoff{Factor: math.Inf(1)}}, "backoff.factor=+Inf, want 1 or more"},
		{Policy{Backoff: Backoff{Base: 2 * time.Second, Cap: time.Second}}, "backoff=2s..1s: the base is above the cap"},
		{Policy{Retry: Retry{On: []uint16{503, 200}}}, "retry.on=200, want a failure's status, 400 to 999"},

		{hedge(Hedge{Max: MaxOpen}), "hedge.max=8, want at most 7"},
		{hedge(Hedge{Max: 1, Quantile: 1}), "hedge=p100, want a quantile between p0 and p100"},
		{hedge(Hedge{Max: 1, Quantile: -0.5}), "hedge=p-50, want a quantile"},
		{hedge(Hedge{Max: 1, Quantile: math.NaN()}), "hedge=pNaN, want a quantile"},
		{hedge(Hedge{Max: 1, Window: 2 * time.Hour}), "hedge.window=2h0m0s, want at most 1h0m0s"},
		{Policy{Attempts: 1, Hedge: Hedge{Max: 1, Quantile: 0.999}}, "attempts=1 leaves none for hedge=p99.9"},

		{budget(Budget{Deposit: -0.1}), "budget=-0.1, want 0 or more"},
		{budget(Budget{Deposit: math.NaN()}), "budget=NaN, want 0 or more"},
		{budget(Budget{Capacity: math.NaN()}), "budget.capacity=NaN, want 0 or more"},
		{budget(Budget{Capacity: math.Inf(1)}), "budget.capacity=+Inf, want at most 1e+12"},
		{budget(Budget{Deposit: 1e-9}), "budget=1e-09, want 0 or at least a millionth"},
		{budget(Budget{Deposit: 0.1, Capacity: 0.5}), "budget.capacity=0.5 is below the 1 token that each attempt of retry=2 costs"},
		{Policy{Hedge: Hedge{Max: 1, Delay: ms}, Budget: Budget{Capacity: 0.5}}, "attempt of hedge=1ms costs"},

		{Policy{Deadline: time.Second, MinStart: time.Second}, "min-start=1s is not below deadline=1s"},
		{Policy{Deadline: time.Second, Hedge: Hedge{Max: 1, Delay: 2 * time.Second}}, "hedge=2s is not below deadline=1s"},
		{Policy{Deadline: time.Second, Hedge: Hedge{Max: 1, Delay: time.Second}}, "hedge=1s is not below deadline=1s"},
		{Policy{Deadline: time.Second, MinStart: 500 * ms, Hedge: Hedge{Max: 1, Delay: 500 * ms}}, "hedge=500ms and min-start=500ms leave nothing of deadline=1s"},
		{Policy{Deadline: time.Second, Retry: Retry{Max: 1}, Backoff: Backoff{Base: time.Second, Jitter: JitterNone}}, "backoff=1s without jitter is not below deadline=1s"},
		{Policy{Timeouts: Timeouts{PartAttempt: {After: 50 * ms}}, Hedge: Hedge{Max: 1, Delay: 50 * ms}}, "hedge=50ms is not below attempt-timeout=50ms"},
	}
	for _, tt := range tests {
		err := tt.p.Validate()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v:\n got %v\nwant %s", tt.p, err, tt.want)
		}
	}
}

func TestClassify(t *testing.T) {
	tests := []struct {
		on     []uint16
		status uint16
		want   Disposition
	}{
		{nil, 0, DispRetryable}, // no answer
		{nil, 200, DispOK},
		{nil, 399, DispOK},
		{nil, 400, DispFatal},
		{nil, 404, DispFatal},
		{nil, 408, DispRetryable},
		{nil, 409, DispFatal},
		{nil, 429, DispRetryable},
		{nil, 500, DispFatal},
		{nil, 502, DispRetryable},
		{nil, 503, DispRetryable},
		{nil, 504, DispRetryable},
		{[]uint16{500}, 500, DispRetryable},
		{[]uint16{500}, 503, DispFatal},
		{[]uint16{}, 503, DispFatal},
		{[]uint16{}, 0, DispRetryable},
	}
	for _, tt := range tests {
		p := Policy{Retry: Retry{Max: 1, On: tt.on}}
		if got := p.Classify(tt.status); got != tt.want {
			t.Errorf("status %d with %v listed is %v, want %v", tt.status, tt.on, got, tt.want)
		}
	}
	p := Policy{}
	if n := testing.AllocsPerRun(100, func() { p.Classify(503) }); n != 0 {
		t.Errorf("Classify allocates %v times", n)
	}
}

func TestState(t *testing.T) {
	tests := []struct {
		name    string
		p       Policy
		resends bool
		shared  bool
		burnIn  time.Duration
	}{
		{"a plain policy has no state", Policy{Deadline: time.Second}, false, false, 0},
		{"a fixed hedge has none either", Policy{Hedge: Hedge{Max: 1}}, true, false, 0},
		{"nor have retries", Policy{Retry: Retry{Max: 1}}, true, false, 0},
		{"a tracked delay has its window", Policy{Hedge: Hedge{Max: 1, Quantile: 0.95}}, true, true, 30 * time.Second},
		{"of the given length", Policy{Hedge: Hedge{Max: 1, Quantile: 0.95, Window: 2 * time.Second}}, true, true, 2 * time.Second},
		{"a budget has to leave its full bucket", Policy{Retry: Retry{Max: 1}, Budget: Budget{Deposit: 0.1}}, true, true, 10 * time.Second},
		{"the longer counts", Policy{Hedge: Hedge{Max: 1, Quantile: 0.95, Window: 2 * time.Second}, Budget: Budget{Deposit: 0.1}}, true, true, 10 * time.Second},
		{"a budget that nothing pays from is no state", Policy{Budget: Budget{Deposit: 0.1}}, false, false, 0},
		{"a quantile without hedges is none", Policy{Hedge: Hedge{Quantile: 0.95}}, false, false, 0},
		{"one attempt is one attempt", Policy{Attempts: 1, Retry: Retry{Max: 1}, Budget: Budget{Deposit: 0.1}}, false, false, 0},
	}
	for _, tt := range tests {
		if tt.p.CanResend() != tt.resends || tt.p.Shared() != tt.shared || tt.p.BurnIn() != tt.burnIn {
			t.Errorf("%s: resends %v, shared %v, burn-in %v", tt.name, tt.p.CanResend(), tt.p.Shared(), tt.p.BurnIn())
		}
	}
}

func TestNames(t *testing.T) {
	var got []string
	for k := range Kinds {
		got = append(got, k.String())
	}
	for p := range Phases {
		got = append(got, p.String())
	}
	for d := range DispUnsent + 1 {
		got = append(got, d.String())
	}
	for o := range Expired + 1 {
		got = append(got, o.String())
	}
	for r := range Rules {
		got = append(got, r.String())
	}
	for c := range CancelReset + 1 {
		got = append(got, c.String())
	}
	got = append(got, PickRandom.String(), PickRoundRobin.String(), JitterFull.String(), JitterNone.String())
	want := "first retry hedge acquire dns connect tls write first_byte body ok retryable fatal unsent going ok failed expired " +
		"none disposition idempotency attempts time budget connections samples throttle breaker limit overload idle probability pushback committed ceiling close drain reset random round-robin full none"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("names are\n%s, want\n%s", s, want)
	}
	for _, s := range []string{Kind(99).String(), Phases.String(), Disposition(99).String(), Outcome(99).String(),
		Rules.String(), Cancel(99).String(), Picker(99).String(), Jitter(99).String()} {
		if s != "unknown" {
			t.Errorf("a value without name is called %q", s)
		}
	}
}
