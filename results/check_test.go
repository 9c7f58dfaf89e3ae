package results

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"latencylab/ledger"
)

// minimal is the smallest Run that reads; every part of it is there once.
const minimal = `{"schema": "latencylab.run/1", "mode": "open", "policies": [{"name": "a", "predicted": {}, "blocks": [{}], "intervals": [{}]}],
	"comparisons": [{"base": "a", "other": "a"}], "target": {"reconciliation": [{}]}}`

func TestARunMustAddUp(t *testing.T) {
	good := map[string][]byte{}
	for _, name := range []string{"comparison", "censored"} {
		good[name] = render(t, runs(t)[name], "json", Options{})
	}
	set := func(value any, path ...string) func(map[string]any) {
		return func(p map[string]any) {
			for _, key := range path[:len(path)-1] {
				if next, ok := p[key].([]any); ok {
					p = next[0].(map[string]any)
					continue
				}
				p = p[key].(map[string]any)
			}
			p[path[len(path)-1]] = value
		}
	}
	for _, c := range []struct {
		why, run string
		change   func(run map[string]any)
		want     string
	}{
		{"a call more than ended", "comparison", set(10001, "policies", "calls", "scheduled"), "policies[0].calls: scheduled = 10001, but ok + failed + unfinished + dropped = 10000"},
		{"an attempt more than ended", "comparison", set(10001, "policies", "attempts", "sent"), "policies[0].attempts: sent = 10001, but ok + failed + timed_out + cancelled + abandoned = 10000"},
		{"an attempt of no kind", "comparison", set(9999, "policies", "attempts", "first"), "policies[0].attempts: sent = 10000, but first + retries + hedges = 9999"},
		{"counts whose sum is too large", "comparison", set(uint64(1<<64-1), "policies", "calls", "dropped"), "policies[0].calls: scheduled = 10000, but ok + failed + unfinished + dropped = 18446744073709551615"},
		{"more hedges that won than hedges", "comparison", set(1, "policies", "attempts", "hedge_wins"), "policies[0].attempts: hedge_wins = 1, but only hedges = 0"},
		{"a burn-in that does not add up", "comparison", set(7, "policies", "burn_in", "calls", "ok"), "policies[0].burn_in.calls: scheduled = "},
		{"a prediction that does not add up", "comparison", set(7, "policies", "predicted", "calls", "ok"), "policies[0].predicted.calls: scheduled = "},
		{"a histogram of other calls than the ledger's", "comparison", func(r map[string]any) {
			p := first(r)
			p["ok"], p["response"] = p["service"], p["service"]
			calls := p["calls"].(map[string]any)
			calls["ok"], calls["failed"] = 9999, 1
		}, "policies[0].ok: count = 10000, but calls.ok = 9999"},
		{"a response that lost its failed calls", "censored", set(0, "policies", "response", "censored"), "policies[0].response: censored = 0, but censored.count = "},
		{"a histogram that is gone", "comparison", func(r map[string]any) { delete(first(r), "ok") }, "policies[0].ok: count = 0, but calls.ok = 10000"},
		{"first attempts without their number", "comparison", set(3, "policies", "first", "censored"), "policies[0].first: count + censored = 10003, but attempts.first = 10000"},
		{"a share of other calls", "comparison", set(5, "policies", "ok_within", "calls"), "policies[0].ok_within[0]: calls = 5, but calls.scheduled = 10000"},
		{"a share above all", "comparison", set(10001, "policies", "ok_within", "count"), "policies[0].ok_within[0]: count = 10001, but only calls answered OK = 10000"},
		{"a block of other calls", "comparison", set(5, "policies", "blocks", "calls"), "policies[0].blocks[0]: ok + absent = 1250, but calls = 5"},
		{"a block too few", "comparison", func(r map[string]any) {
			first(r)["blocks"] = first(r)["blocks"].([]any)[1:]
		}, "policies[0].blocks: sum of calls = 8750, but calls.scheduled = 10000"},
		{"no policy", "comparison", set([]any{}, "policies"), "policies: found none, want at least one"},
		{"policies that are null", "comparison", set(nil, "policies"), "policies: found none, want at least one"},
		{"a policy twice", "comparison", func(r map[string]any) {
			r["policies"] = []any{first(r), first(r)}
		}, `policies[1].name: "plain" is the name of policies[0] too`},
		{"a name that no workload takes", "comparison", set("a\x1b[2J", "policies", "name"), `policies[0].name: "a\x1b[2J", want one or more of a-z`},
		{"a policy without a name", "comparison", func(r map[string]any) { delete(first(r), "name") }, `policies[0].name: "", want one or more of a-z`},
		{"a comparison with a stranger", "comparison", set("x", "comparisons", "other"), `comparisons[0].other: "x" is not a policy of the run`},
		{"a duration below 0", "comparison", set(-1, "duration_ns"), "duration_ns: -1, want 0 or more"},
		{"a rate below 0", "comparison", set(-3.5, "requested", "rate_per_s"), "requested.rate_per_s: -3.5, want 0 or more"},
		{"data of a length below 0", "comparison", set(-5, "achieved", "data_ns"), "achieved.data_ns: -5, want 0 or more"},
		{"an objective below 0", "comparison", set([]int{-5}, "requested", "within_ns"), "requested.within_ns[0]: -5, want 0 or more"},
		{"a block of a length below 0", "comparison", set(-2, "policies", "blocks", "length_ns"), "policies[0].blocks[0].length_ns: -2, want 0 or more"},
		{"an interval that starts below 0", "comparison", set(-2, "policies", "intervals", "start_ns"), "policies[0].intervals[0].start_ns: -2, want 0 or more"},
		{"a verdict against its claims", "comparison", func(r map[string]any) {
			c := r["verdict"].(map[string]any)["claims"].([]any)[0].(map[string]any)
			c["valid"], c["generator"], c["used"] = false, true, true
		}, "verdict: valid = true, but a claim in use is not valid"},
	} {
		d := json.NewDecoder(bytes.NewReader(good[c.run]))
		d.UseNumber()
		var r map[string]any
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		c.change(r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Decode("x.json", bytes.NewReader(b))
		if err == nil || !strings.HasPrefix(err.Error(), "read run: x.json: "+c.want) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s: error\n%v\nwant\nread run: x.json: %s", c.why, err, c.want)
		}
	}
}

// A Run may be all but empty: interrupted before its first call.
func TestAnEmptyRunReads(t *testing.T) {
	if _, err := Decode("x.json", strings.NewReader(minimal)); err != nil {
		t.Error(err)
	}
	r := frame()
	r.Interrupted = true
	l := ledger.New(nil)
	p := NewPolicy("plain", "plain", l, nil)
	p.Blocks = []Block{NewBlock(BlockInput{Start: 3, Length: -2, Ledger: l})}
	r.Policies = []Policy{p, NewPolicy("hedge-p95", "hedge=p95", l, nil)}
	r.NoComparison = "the run was interrupted"
	r.Verdict = Judge(r)
	back, err := Decode("x.json", bytes.NewReader(render(t, r, "json", Options{})))
	if err != nil {
		t.Fatal(err)
	}
	if n := back.Policies[0].Blocks[0].LengthNS; n != 0 {
		t.Errorf("a block that was interrupted in its burn-in has a length of %d ns, want 0", n)
	}
}

// What the file says of sums of its counts is not believed.
func TestExtraLoadIsComputedFromTheCounts(t *testing.T) {
	good := render(t, runs(t)["comparison"], "json", Options{})
	edited := bytes.Replace(good, []byte(`"extra_load": 0,`), []byte(`"extra_load": 0.5,`), 1)
	edited = bytes.Replace(edited, []byte(`"amplification": 1,`), []byte(`"amplification": 1.5,`), 1)
	if bytes.Equal(good, edited) {
		t.Fatal("nothing was edited")
	}
	r, err := Decode("x.json", bytes.NewReader(edited))
	if err != nil {
		t.Fatal(err)
	}
	if p := &r.Policies[0]; p.ExtraLoad.Value != 0 || p.Amplification.Value != 1 {
		t.Errorf("extra load %g, amplification %g, want 0 and 1", p.ExtraLoad.Value, p.Amplification.Value)
	}
}
