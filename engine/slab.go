package engine

// chunk is how many records a slab adds at a time: records never move, so that
// growth copies nothing while calls are under way.
const chunk = 256

// slab holds records by number; the numbers of those put back are given out
// again. A call's number is also the id of its timer.
type slab[T any] struct {
	chunks [][]T
	free   []uint32
}

func (s *slab[T]) at(i uint32) *T { return &s.chunks[i/chunk][i%chunk] }

// take returns a free record and its number. The record is as put left it.
func (s *slab[T]) take() (uint32, *T) {
	if len(s.free) == 0 {
		base := uint32(len(s.chunks)) * chunk
		s.chunks = append(s.chunks, make([]T, chunk))
		for i := uint32(chunk); i > 0; i-- {
			s.free = append(s.free, base+i-1)
		}
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return i, s.at(i)
}

func (s *slab[T]) put(i uint32) { s.free = append(s.free, i) }

// used is how many records are taken.
func (s *slab[T]) used() int { return len(s.chunks)*chunk - len(s.free) }

// each visits all records, free ones too.
func (s *slab[T]) each(f func(*T)) {
	for _, c := range s.chunks {
		for i := range c {
			f(&c[i])
		}
	}
}
