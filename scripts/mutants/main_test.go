package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFaultsApply holds the list against the sources, so that a change that
// moves a fault's text says so at once and not at the next long run.
func TestFaultsApply(t *testing.T) {
	if len(faults) < 20 {
		t.Errorf("%d faults, want 20 or more", len(faults))
	}
	seen := map[string]bool{}
	for _, f := range faults {
		if err := f.check("../.."); err != nil {
			t.Error(err)
		}
		if key := f.file + f.old + f.new; seen[key] {
			t.Errorf("%s: stands in the list twice", f.name())
		} else {
			seen[key] = true
		}
	}
}

// TestTry runs the machinery on a module of its own.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":          "module small\n\ngo 1.26\n",
		"root.go":         "package small\n",
		"sum/sum.go":      "package sum\n\nfunc Sum(v []int) (s int) {\n\tfor _, x := range v {\n\t\ts += x\n\t}\n\treturn s + 0*len(v)\n}\n",
		"sum/sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum([]int{1, 2}) != 3 {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "version").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tests := []struct {
		about    string
		old, new string
		want     verdict
	}{
		{"a test fails", "s += x", "s -= x", caught},
		{"a panic is no success", "s += x", "panic(x)", caught},
		{"no test looks at it", "0*len(v)", "len(v)*0", survives},
		{"what does not compile proves nothing", "s += x", "s += y", senseless},
	}
	for _, tt := range tests {
		f := fault{file: "sum/sum.go", old: tt.old, new: tt.new, why: tt.about}
		if err := f.check(dir); err != nil {
			t.Fatal(err)
		}
		v, text, err := try(context.Background(), dir, f, time.Minute)
		if err != nil || v != tt.want {
			t.Errorf("%s: %s (%s), %v, want %s", tt.about, v, text, err, tt.want)
		}
		if b, _ := os.ReadFile(filepath.Join(dir, "sum/sum.go")); !strings.Contains(string(b), "s += x") {
			t.Fatalf("%s: the file was not put back", tt.about)
		}
	}
	twice := fault{file: "sum/sum.go", old: "s", new: "t", why: "an old text that stands there often is refused"}
	if twice.check(dir) == nil {
		t.Error(twice.why)
	}
}
