package workloads

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"latencylab/service"
)

// The reference must be true: every example in it is read, and every key of the
// language has its row.
func TestReference(t *testing.T) {
	data, err := os.ReadFile("../docs/workloads.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	type block struct{ info, text string }
	var blocks []block
	for _, m := range regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$").FindAllStringSubmatch(doc, -1) {
		blocks = append(blocks, block{m[1], m[2]})
	}

	dir := t.TempDir()
	services := 0
	for _, b := range blocks {
		if name, ok := strings.CutPrefix(b.info, "file "); ok {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, b := range blocks {
		if name, ok := strings.CutPrefix(b.info, "yaml service "); ok {
			services++
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadGraph(path); err != nil {
				t.Errorf("%v in\n%s", err, b.text)
			}
		}
	}
	workloads, specs, dists := 0, 0, 0
	for _, b := range blocks {
		lines := strings.Split(strings.TrimSpace(b.text), "\n")
		switch {
		case b.info == "yaml":
			workloads++
			if _, err := Parse(filepath.Join(dir, "doc.yaml"), []byte(b.text)); err != nil {
				t.Errorf("%v in\n%s", err, b.text)
			}
		case b.info == "spec":
			for _, s := range lines {
				specs++
				if _, err := ParsePolicy(s); err != nil {
					t.Error(err)
				}
			}
		case b.info == "dist":
			for _, s := range lines {
				dists++
				if _, err := service.ParseDist(s); err != nil {
					t.Error(err)
				}
			}
		case b.info == "text", strings.HasPrefix(b.info, "yaml service "), strings.HasPrefix(b.info, "file "):
		default:
			t.Errorf("a block of kind %q is not checked", b.info)
		}
	}
	if services < 1 || workloads < 4 || specs < 6 || dists < 10 {
		t.Errorf("%d services, %d workloads, %d specs and %d distributions were found", services, workloads, specs, dists)
	}

	// The errors shown are those that come.
	for _, c := range []struct{ why, text string }{
		{"an unknown key", "name: x\n\nratee: 500/s\n"},
		{"a missing unit", "name: x\n\nrate: 500\n"},
	} {
		_, err := Parse("checkout.yaml", []byte(c.text))
		if err == nil || !strings.Contains(doc, err.Error()+"\n") {
			t.Errorf("%s: the reference does not show %v", c.why, err)
		}
	}

	row := func(section, key string) {
		t.Helper()
		if !strings.Contains(section, "\n| `"+key+"` |") {
			t.Errorf("no row for the key %s", key)
		}
	}
	section := func(title string) string {
		t.Helper()
		_, rest, ok := strings.Cut(doc, "\n## "+title+"\n")
		if !ok {
			t.Fatalf("no section %s", title)
		}
		s, _, _ := strings.Cut(rest, "\n## ")
		return s
	}
	for _, f := range New().fields() {
		row(section("Keys of a workload file"), f.name)
	}
	for _, k := range specKeyNames {
		if k != "plain" {
			row(section("Policies"), k)
		}
	}
	for _, k := range []string{"replicas", "time", "slow", "copies", "slots", "queue", "capacity", "thrash", "discipline", "shed", "status", "fault", "script", "retry-after", "cancel", "cancel-cost", "deadline", "outage", "stall", "body", "each"} {
		row(section("Services"), k)
	}
	for _, name := range Names() {
		if !strings.Contains(doc, "`"+name+"`") {
			t.Errorf("the built-in workload %s is not named", name)
		}
	}
}
