package results

import (
	"strings"
	"testing"
	"time"

	"latencylab/ledger"
)

// judged returns a Run of one policy with 10,000 calls of 40 ms, changed by f
// before it is recorded.
func judged(f func(l *ledger.Ledger), g func(r *Run)) *Run {
	l := ledger.New([]time.Duration{objective})
	l.Calls.Scheduled = 10_000
	for range 10_000 {
		l.CallOK(40 * time.Millisecond)
		l.Lag.Record(2_000)
		l.ReadDelay.Record(3_000)
	}
	if f != nil {
		f(l)
	}
	r := frame()
	r.Policies = []Policy{NewPolicy("p", "plain", l, nil)}
	r.Policies[0].AchievedShare, r.Policies[0].BusiestShare = Num(1), Num(0.5)
	if g != nil {
		g(r)
	}
	r.Verdict = Judge(r)
	return r
}

func claim(r *Run, figure string) *Claim {
	for i := range r.Verdict.Claims {
		if r.Verdict.Claims[i].Figure == figure {
			return &r.Verdict.Claims[i]
		}
	}
	return &Claim{Figure: "none"}
}

func TestJudge(t *testing.T) {
	lag := func(n int, d time.Duration) func(*ledger.Ledger) {
		return func(l *ledger.Ledger) {
			l.Lag.Reset()
			l.Lag.RecordN(2000, uint64(10_000-n))
			l.Lag.RecordN(int64(d), uint64(n))
		}
	}
	read := func(n int, d time.Duration) func(*ledger.Ledger) {
		return func(l *ledger.Ledger) { l.ReadDelay.RecordN(int64(d), uint64(n)) }
	}
	closed := func(r *Run) { r.Mode = Closed }
	second := func(r *Run) { r.Policies = append(r.Policies, Policy{Name: "q"}) }
	for _, c := range []struct {
		why       string
		ledger    func(*ledger.Ledger)
		run       func(*Run)
		figure    string
		valid     bool   // the claim
		reason    string // part of the claim's
		generator bool   // the verdict: exit code 3
	}{
		{"a quiet run", nil, nil, "p.response.p50", true, "", false},
		{"lag p99 at the limit of 5 % of p50", lag(200, 1990*time.Microsecond), nil, "p.response.p50", true, "", false},
		{"lag p99 above 5 % of p50: nothing else is compared, so the run is about p50", lag(200, 2100*time.Microsecond), nil, "p.response.p50", false, "lag p99 is 2.10 ms, above 2.00 ms", true},
		{"the same beside a second policy: the objective is what counts", lag(200, 2100*time.Microsecond), second, "p.response.p50", false, "lag p99 is 2.10 ms, above 2.00 ms", false},
		{"lag p99 above 5 % of the objective", lag(200, 6*time.Millisecond), nil, "p.ok_within.100ms", false, "lag p99 is 6.00 ms, above 5.00 ms", true},
		{"lag p99.9 spoils p99.9", lag(20, 3*time.Millisecond), nil, "p.response.p999", false, "lag p99.9 is 3.00 ms", false},
		{"lag p99.9 does not spoil p99", lag(20, 3*time.Millisecond), nil, "p.response.p99", true, "", false},
		{"lag in closed loop is no lateness", lag(10_000, time.Second), closed, "p.ok_within.100ms", true, "", false},
		{"98.9 % of the calls begun", nil, func(r *Run) { r.Policies[0].AchievedShare = Num(0.989) }, "p.ok_within.100ms", false, "only 98.9 % of the scheduled calls", true},
		{"99 % of the calls begun", nil, func(r *Run) { r.Policies[0].AchievedShare = Num(0.99) }, "p.ok_within.100ms", true, "", false},
		{"a loop busy for 91 % of a second", nil, func(r *Run) { r.Policies[0].BusiestShare = Num(0.91) }, "p.response.p50", false, "a loop was busy for 91.0 %", true},
		{"a busy loop in closed loop is what closed loop does", nil, func(r *Run) { r.Policies[0].BusiestShare, r.Mode = Num(1), Closed }, "p.response.p50", true, "", false},
		{"read delay p99 above 10 % of p50", read(200, 5*time.Millisecond), nil, "p.response.p50", false, "read delay p99 is 5.00 ms, above 10 % of the figure (4.00 ms)", true},
		{"read delay p99 above 10 % of the objective", read(200, 11*time.Millisecond), nil, "p.ok_within.100ms", false, "read delay p99", true},
		{"read delay in closed loop is told and no more", read(200, 11*time.Millisecond), closed, "p.ok_within.100ms", false, "read delay p99", false},
		{"too few samples are not the generator's fault", nil, nil, "p.response.p9999", false, "too few samples: 10,000 calls, want 50,000", false},
		{"spurious hedges", func(l *ledger.Ledger) { l.Attempts.Hedges, l.Attempts.SpuriousHedges = 100, 10 }, nil, "p.ok_within.100ms", false, "10 of 100 hedges and timeouts were spurious", true},
		{"few spurious hedges", func(l *ledger.Ledger) { l.Attempts.Hedges, l.Attempts.SpuriousHedges = 1000, 10 }, nil, "p.ok_within.100ms", true, "", false},
		{"a percentile that a comparison uses", lag(200, 2100*time.Microsecond), func(r *Run) {
			r.Comparisons = []Comparison{{Base: "p", Other: "q", P50: Ratio{Low: Num(1)}}}
		}, "p.response.p50", false, "lag p99", true},
		{"a percentile that falls among failed calls is a valid statement", func(l *ledger.Ledger) {
			l.Calls.Scheduled += 1000
			for range 1000 {
				l.CallExpired(time.Second)
			}
		}, nil, "p.response.p99", true, "", false},
		{"its lower bound is held against the lag", func(l *ledger.Ledger) {
			lag(200, 60*time.Millisecond)(l)
			l.Calls.Scheduled += 1000
			for range 1000 {
				l.CallExpired(time.Second)
			}
		}, nil, "p.response.p99", false, "lag p99 is 60.0 ms, above 50.0 ms", true},
	} {
		r := judged(c.ledger, c.run)
		got := claim(r, c.figure)
		if got.Valid != c.valid || !strings.Contains(got.Reason.Value, c.reason) || (got.Reason.Value == "") != c.valid {
			t.Errorf("%s: claim %+v, want valid %v, %q", c.why, got, c.valid, c.reason)
		}
		if r.Verdict.GeneratorInvalid() != c.generator || r.Verdict.Valid == c.generator {
			t.Errorf("%s: generator invalid %v, valid %v, want %v", c.why, r.Verdict.GeneratorInvalid(), r.Verdict.Valid, c.generator)
		}
	}
}

// TestVoidRunIsNotValid: whatever its claims, and the text says why.
func TestVoidRunIsNotValid(t *testing.T) {
	r := &Run{Mode: Closed, Void: "the server is\tgone"}
	if r.Verdict = Judge(r); r.Verdict.Valid {
		t.Error("a void run is valid")
	}
	var b strings.Builder
	if err := WriteText(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"VOID, the server is gone: ", "\nverdict: NOT VALID, the run is void: the server is gone\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
