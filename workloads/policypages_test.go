package workloads

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPolicyPages: every SPEC of docs/policies reads, the table of presets is
// the presets, every page is in the index, every key of a SPEC on some page, has a picture of its own where it is
// about one policy, and links to nothing that is not there.
func TestPolicyPages(t *testing.T) {
	dir := filepath.Join("..", "docs", "policies")
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(pages) < 13 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	specs, all := 0, ""
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text, name := string(data), filepath.Base(page)
		if name != "README.md" && !strings.Contains(string(index), "("+name+")") {
			t.Errorf("%s is not in the index", name)
		}
		all += text
		in := false
		for n, l := range strings.Split(text, "\n") {
			if strings.HasPrefix(l, "```") {
				in = l == "```spec"
				continue
			}
			if in {
				specs++
				if _, err := ParsePolicy(l); err != nil {
					t.Errorf("%s:%d: %v", name, n+1, err)
				}
			}
		}
		for rest := text; ; {
			_, after, ok := strings.Cut(rest, "](")
			if !ok {
				break
			}
			link, tail, _ := strings.Cut(after, ")")
			rest = tail
			if file, _, _ := strings.Cut(link, "#"); file != "" && !strings.Contains(file, "://") {
				if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		picture := strings.TrimSuffix(name, ".md") + ".svg"
		if strings.Contains(text, "go run ./scripts/pictures ") && !strings.Contains(text, "]("+picture+")") {
			t.Errorf("%s does not show %s", name, picture)
		}
	}
	for _, key := range specKeyNames {
		if !regexp.MustCompile("(?m)(`|^|,|:)" + regexp.QuoteMeta(key) + "(`|=|,|$)").MatchString(all) {
			t.Errorf("no page names the key %s", key)
		}
	}
	if specs < 25 {
		t.Errorf("%d SPECs were found", specs)
	}
	data, err := os.ReadFile(filepath.Join(dir, "presets.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Presets() {
		if !strings.Contains(string(data), "| `"+p.Name+"` | `"+p.Spec+"` |") {
			t.Errorf("presets.md does not say that %s is %s", p.Name, p.Spec)
		}
	}
}
