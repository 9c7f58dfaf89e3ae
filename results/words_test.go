package results

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"

	"latencylab/ledger"
)

func TestTheVerdictDoesNotCallSpoiledFiguresValid(t *testing.T) {
	l := world{calls: 600, attempts: true}.block(0)
	l.ReadDelay.RecordN(int64(20*time.Millisecond), 600)
	for _, c := range []struct {
		why, mode string
		l         *ledger.Ledger
		want      string
	}{
		{"closed loop, read in time", Closed, world{calls: 600, attempts: true}.block(0), "verdict: valid\n"},
		{"closed loop, read late", Closed, l, "verdict: valid as load, but not for 5 figures: their answers were read too late\n  plain p50: read delay p99 is "},
		{"open loop, read late", Open, l, "verdict: NOT VALID, "},
	} {
		r := frame()
		r.Mode = c.mode
		r.Policies = []Policy{NewPolicy("plain", "plain", c.l, nil)}
		r.Verdict = Judge(r)
		if c.mode == Closed && !r.Verdict.Valid {
			t.Errorf("%s: the Run is not valid", c.why)
		}
		if got := string(render(t, r, "text", Options{})); !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in\n%s", c.why, c.want, got)
		}
	}
}

func TestALedgerThatWasNotReadIsSaid(t *testing.T) {
	for _, c := range []struct {
		why, driver, void, reason string
		want                      bool
	}{
		{"a foreign server has none", Sockets, "", ForeignServer, false},
		{"virtual time has one for both", Virtual, "", "virtual time has one ledger for both sides", false},
		{"no run key", Sockets, "", "attempts carried no run key, so the target cannot tell them from others", true},
		{"the target does not answer", Sockets, "", "read ledger: connection refused", true},
		{"the verdict says it already", Sockets, "the target says nothing: read ledger: timeout", "read ledger: timeout", false},
	} {
		r := frame()
		r.Driver, r.Void, r.NoTarget = c.driver, c.void, c.reason
		r.Policies = []Policy{world{calls: 600}.policyOf(t, "plain", "plain", 1, nil)}
		r.Verdict = Judge(r)
		got := strings.ReplaceAll(string(render(t, r, "text", Options{})), "\n", " ")
		if strings.Contains(got, "target: its ledger was not held against the client's: "+c.reason) != c.want {
			t.Errorf("%s: shown %t in\n%s", c.why, !c.want, got)
		}
	}
}

// Every string of a Run may come from a file that somebody has edited, or from
// a server.
func TestNoFormatPrintsWhatATerminalActsOn(t *testing.T) {
	const evil = "\x1b[2J\u009b31m\u202e\x7f"
	r := frame()
	r.Version, r.Command, r.Void, r.NoTarget, r.NoComparison = evil, evil, "", evil, evil
	r.Requested.Arrivals.Value = evil
	r.Requested.Endpoints = []string{evil}
	r.Warnings = []string{evil}
	p := world{calls: 600, fail: 0.1}.policyOf(t, "plain", evil, 1, nil)
	p.Errors[0].Class, p.Errors[0].Phase, p.Errors[0].Sample = evil, evil, evil
	p.AchievedShare, p.DrawsDigest = Absent(evil), Text{Value: evil}
	r.Policies = []Policy{p}
	r.Verdict = Judge(r)
	r.Verdict.Claims = append(r.Verdict.Claims, Claim{Figure: evil, Policy: evil, Reason: Text{Value: evil}, Generator: true})
	for _, format := range []string{"text", "csv", "hgrm", "hlog"} {
		out := render(t, r, format, Options{})
		for i, line := range bytes.Split(out, []byte("\n")) {
			if at := bytes.IndexFunc(line, func(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) }); at >= 0 {
				t.Errorf("%s:%d: %q", format, i+1, line)
			}
		}
	}
}

// TestWhatWasBought: the last line says by its word whether it was good, and
// joins no two lower bounds by an arrow.
func TestWhatWasBought(t *testing.T) {
	for _, c := range []struct {
		word string
		a, b Figure
		want string
	}{
		{Better, Num(1e9), Num(1e8), "b against a bought: p99 of the response time 1.00 s → 100.0 ms."},
		{Worse, Num(1e8), Num(1e9), "b against a did harm: p99 of the response time 100.0 ms → 1.00 s."},
		{Equivalent, Num(1e8), Num(1e8), "b against a bought nothing that shows: p99 of the response time 100.0 ms as before."},
		{NotShown, Figure{AtLeast: 2e8}, Figure{AtLeast: 1e8}, "b against a bought nothing that shows: p99 of the response time is not known (≥ 200 ms and ≥ 100 ms)."},
	} {
		r, a, b := &Run{}, &Policy{Name: "a"}, &Policy{Name: "b"}
		a.Response.P99, b.Response.P99 = c.a, c.b
		if got := r.bought(&Comparison{Word: c.word}, a, b); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.word, got, c.want)
		}
	}
	if got := inWords(Equivalent, 0.01, "points"); got != "equivalent (within ±1 point)" {
		t.Error(got)
	}
	if got := loadCell(Num(0.99941)); got != "99.9 %" {
		t.Error(got)
	}
}
