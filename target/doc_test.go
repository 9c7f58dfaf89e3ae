package target

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"latencylab/service"
)

// TestDocsNameEveryField keeps docs/target.md to what the ledger page says.
func TestDocsNameEveryField(t *testing.T) {
	doc, err := os.ReadFile("../docs/target.md")
	if err != nil {
		t.Fatal(err)
	}
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	c.answer("GET")
	l := tg.Ledger()
	l.Other, l.Warnings, l.Upstream = &l.Runs[0], []string{""}, &UpstreamLedger{Failed: map[string]uint64{"200": 1}}
	b, err := json.Marshal([]any{l, Attempt{}})
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v { // order does not show: every key is checked
				if key != "200" && !strings.Contains(string(doc), "`"+key+"`") {
					t.Errorf("docs/target.md does not name %q", key)
				}
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(v)
}
