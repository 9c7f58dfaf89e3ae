package target

// slab holds values under small numbers that are given out again.
type slab[T any] struct {
	items []T
	free  []uint32
}

// take returns a free number; its value is what drop has left there. It may
// move the items: pointers from at are then stale.
func (s *slab[T]) take() uint32 {
	if n := len(s.free); n > 0 {
		id := s.free[n-1]
		s.free = s.free[:n-1]
		return id
	}
	var zero T
	s.items = append(s.items, zero)
	return uint32(len(s.items) - 1)
}

// drop makes a taken number free.
func (s *slab[T]) drop(id uint32) { s.free = append(s.free, id) }

// at points to the value of id until the next take.
func (s *slab[T]) at(id uint32) *T { return &s.items[id] }

// used returns how many numbers are taken.
func (s *slab[T]) used() int { return len(s.items) - len(s.free) }
