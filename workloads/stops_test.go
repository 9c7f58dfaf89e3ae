package workloads

import (
	"strings"
	"testing"
)

func TestParseStops(t *testing.T) {
	for _, c := range []struct{ text, want, fails string }{
		{"errors>5%", "errors>5% for 5s", ""},
		{"errors > 0.5% for 3s", "errors>0.5% for 3s", ""},
		{"p99.9>2s for 10s", "p99.9>2s for 10s", ""},
		{"p50>20ms,open>1k", "p50>20ms for 5s,open>1k", ""},
		{"open>0 for 2s", "open>0 for 2s", ""},
		{"none", "", ""},
		{"", "", "want a rule such as"},
		{"errors", "", "want a rule such as"},
		{"errors>5", "", "rule \"errors>5\""},
		{"errors>100%", "", "want less than 100%"},
		{"p100>1s", "", "want a percentile"},
		{"p.>1s", "", "want a percentile"},
		{"p99>5", "", "no unit"},
		{"p99>0s", "", "rule"},
		{"calls>5", "", "want errors, open, or a percentile"},
		{"errors>5% for 11m", "", "want at most 10m"},
		{"errors>5% for", "", "rule"},
		{"none,open>1", "", "want a rule such as"},
	} {
		got, err := ParseStops(c.text)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: %v, want %q", c.text, err, c.fails)
			}
			continue
		}
		if err != nil || got == nil {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
		var words []string
		for _, r := range got {
			words = append(words, r.String())
		}
		if s := strings.Join(words, ","); s != c.want {
			t.Errorf("%q is %q, want %q", c.text, s, c.want)
		}
	}
}

// TestGuardsAreKept: what a file says of guards is written again.
func TestGuardsAreKept(t *testing.T) {
	const text = "rate: 10/s\nstop-if: [errors>5% for 3s, p99.9>2s]\nmethod: POST\nidempotent: true\nidempotency-key: X-Key\n"
	w, err := Parse("t", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("t", out)
	if err != nil || len(again.Stops) != 2 || again.Stops[1] != w.Stops[1] || !again.Request.Safe || again.Request.Key != "X-Key" || !again.Request.Idempotent() {
		t.Errorf("%v: %+v", err, again)
	}
	if w, err = Parse("t", []byte("stop-if: none\n")); err != nil || w.Stops == nil || len(w.Stops) != 0 {
		t.Errorf("none is %v, %v", w, err)
	}
	if out, err = w.Marshal(); err != nil || !strings.Contains(string(out), "none") {
		t.Errorf("none is written %q, %v", out, err)
	}
}

func FuzzParseStops(f *testing.F) {
	f.Add("errors>5% for 3s,p99>2s,open>1k")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseStops(s)
		if err != nil {
			return
		}
		for _, r := range list {
			again, err := ParseStops(r.String())
			if err != nil || len(again) != 1 || again[0].String() != r.String() {
				t.Errorf("%q is written %q, which is %v (%v)", s, r.String(), again, err)
			}
		}
	})
}
