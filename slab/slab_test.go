package slab

import "testing"

func TestSlab(t *testing.T) {
	var s Slab[int]
	seen := map[uint32]*int{}
	for range 3*chunk + 1 {
		i, v := s.Take()
		if seen[i] != nil || *v != 0 {
			t.Fatalf("number %d again, or value %d", i, *v)
		}
		seen[i], *v = v, int(i)
	}
	for i, v := range seen {
		if s.At(i) != v || *v != int(i) {
			t.Errorf("value %d has moved, or is %d", i, *v)
		}
	}
	if s.Used() != 3*chunk+1 || s.Len() != 3*chunk+1 {
		t.Errorf("%d used of %d", s.Used(), s.Len())
	}
	s.Put(7)
	if s.Used() != 3*chunk || s.Len() != 3*chunk+1 {
		t.Errorf("%d used of %d after a Put", s.Used(), s.Len())
	}
	if i, v := s.Take(); i != 7 || *v != 7 {
		t.Errorf("number %d with %d, want 7 as it was left", i, *v)
	}
	n := 0
	s.Each(func(*int) { n++ })
	if n != s.Len() {
		t.Errorf("%d visited, want %d", n, s.Len())
	}
}
