package service

import "testing"

// TestKeys: each value counts by itself, and beyond MaxKeys the first to come is
// forgotten.
func TestKeys(t *testing.T) {
	var k keys
	for turn := uint32(1); turn <= 3; turn++ {
		for key := uint64(1); key <= MaxKeys; key++ {
			if got := k.next(key); got != turn {
				t.Fatalf("key %d: %d, want %d", key, got, turn)
			}
		}
	}
	k.next(MaxKeys + 1)
	if a, b := k.next(2), k.next(1); a != 4 || b != 1 || len(k.turns) != MaxKeys || len(k.ring) != MaxKeys {
		t.Errorf("an old key at %d, the first at %d, %d kept", a, b, len(k.turns))
	}
}
