package results

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(RunSchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("run.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("run.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instance(t *testing.T, data []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEveryRunFitsTheSchema(t *testing.T) {
	s := compileSchema(t)
	all := runs(t)
	all["zero"] = &Run{Schema: Schema, Mode: Open, Driver: Virtual}
	for name, r := range all {
		if err := s.Validate(instance(t, render(t, r, "json", Options{}))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := compileSchema(t)
	good := render(t, runs(t)["comparison"], "json", Options{})
	for _, c := range []struct {
		why    string
		change func(run map[string]any)
	}{
		{"a key that nobody knows", func(r map[string]any) { r["p99"] = 1 }},
		{"a key that nobody knows, deep inside", func(r map[string]any) { first(r)["calls"].(map[string]any)["lost"] = 1 }},
		{"a missing key", func(r map[string]any) { delete(first(r), "extra_load") }},
		{"an absent figure without a reason", func(r map[string]any) { first(r)["response"].(map[string]any)["p99_ns"] = nil }},
		{"another schema", func(r map[string]any) { r["schema"] = "latencylab.run/2" }},
		{"a word of one's own", func(r map[string]any) { r["comparisons"].([]any)[0].(map[string]any)["word"] = "safe" }},
	} {
		var r map[string]any
		if err := json.Unmarshal(good, &r); err != nil {
			t.Fatal(err)
		}
		c.change(r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate(instance(t, b)) == nil {
			t.Errorf("%s passes", c.why)
		}
	}
}

func first(r map[string]any) map[string]any { return r["policies"].([]any)[0].(map[string]any) }

// The keys that the contract of the project lists for a Run.
func TestContractKeysExist(t *testing.T) {
	var r any
	if err := json.Unmarshal(render(t, runs(t)["comparison"], "json", Options{}), &r); err != nil {
		t.Fatal(err)
	}
	const dist = "{count,censored,failed,min_ns,mean_ns,p50_ns,p90_ns,p95_ns,p99_ns,p999_ns,p9999_ns,max_ns,hdr}"
	for _, list := range []string{
		".{schema,version,seed,target_seed,command,started_at,duration_ns,mode,clients,loops,host,requested,achieved,arrivals_digest,draws_digest}",
		".policies.{name,spec,calls,attempts,refused,extra_load,amplification,connections,errors,ok_within,phases,blocks,intervals}",
		".policies.calls.{scheduled,ok,failed,unfinished,dropped}",
		".policies.attempts.{sent,first,retries,hedges,ok,failed,timed_out,cancelled,abandoned,hedge_wins,spurious_hedges,spurious_timeouts}",
		".policies.connections.{opened,reused,closed_by_cancel}",
		".policies.response." + dist, ".policies.ok." + dist, ".policies.failed." + dist, ".policies.first." + dist,
		".policies.retry." + dist, ".policies.hedge." + dist, ".policies.service." + dist, ".policies.lag." + dist,
		".policies.pool_wait." + dist, ".policies.read_delay." + dist,
		".policies.ok_within.{t_ns,share}",
		".policies.phases.{dns,connect,tls,write,first_byte,body}",
		".policies.blocks.{start_ns,calls,hdr,state}",
		".comparisons.{base,other,estimand,design,blocks,tail_episodes,ok_within,p50,p99,p999,carry_over,pulse,word}",
		".comparisons.ok_within.{difference,low,high}",
		".comparisons.p50.{ratio,low,high}",
		".verdict.{valid,claims}",
		".verdict.claims.{figure,valid,reason}",
	} {
		path, keys, _ := strings.Cut(strings.TrimSuffix(list, "}"), "{")
		v := r
		for _, k := range strings.Split(strings.Trim(path, "."), ".") {
			if k != "" {
				v = v.(map[string]any)[k]
			}
			if a, ok := v.([]any); ok {
				v = a[0]
			}
		}
		for _, k := range strings.Split(keys, ",") {
			if _, ok := v.(map[string]any)[k]; !ok {
				t.Errorf("no key %s%s", path, k)
			}
		}
	}
}
