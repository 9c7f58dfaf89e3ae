package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPicturesAreCurrent: the pictures that are drawn in a moment are what the
// code draws, and each picture has its page.
func TestPicturesAreCurrent(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "policies")
	quick := map[string]bool{"backoff": true, "budget": true, "throttle": true}
	for _, d := range drawings {
		kept, err := os.ReadFile(filepath.Join(dir, d.name+".svg"))
		if err == nil {
			_, err = os.Stat(filepath.Join(dir, d.name+".md"))
		}
		if err != nil {
			t.Error(err)
		}
		if !quick[d.name] {
			continue
		}
		c, err := d.draw()
		if err != nil {
			t.Errorf("%s: %v", d.name, err)
		} else if c.svg() != string(kept) {
			t.Errorf("docs/policies/%s.svg is not what go run ./scripts/pictures %s draws", d.name, d.name)
		}
	}
}
