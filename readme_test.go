package latencylab_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"latencylab/results"
)

// TestReadmeShowsTheReferenceRun: the table in README is what report makes of
// the run that is kept.
func TestReadmeShowsTheReferenceRun(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	r, err := results.Read("results/reference/hedge-tail.json")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := results.WriteText(&text, r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```text\n"+text.String()+"```\n") {
		t.Error("the table in README differs from loadgen report results/reference/hedge-tail.json")
	}
}
