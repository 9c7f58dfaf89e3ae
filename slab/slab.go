// Package slab holds many values of one type under small numbers.
package slab

// chunk is how many values a Slab adds at a time.
const chunk = 256

// Slab holds values by number; the numbers of those put back are given out again.
// Values never move: growth copies nothing, leaves no garbage, and pointers to them
// stay good. The zero Slab is empty.
type Slab[T any] struct {
	chunks [][]T
	free   []uint32
	n      uint32
}

// At returns the value of a number that was taken at some time.
func (s *Slab[T]) At(i uint32) *T { return &s.chunks[i/chunk][i%chunk] }

// Take returns a free number and its value, which is as Put left it, or zero.
func (s *Slab[T]) Take() (uint32, *T) {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i, s.At(i)
	}
	i := s.n
	if s.n++; int(i/chunk) == len(s.chunks) {
		s.chunks = append(s.chunks, make([]T, chunk))
	}
	return i, s.At(i)
}

// Put makes a taken number free.
func (s *Slab[T]) Put(i uint32) { s.free = append(s.free, i) }

// Used returns how many numbers are taken.
func (s *Slab[T]) Used() int { return int(s.n) - len(s.free) }

// Len returns how many numbers were ever taken: they are those below it.
func (s *Slab[T]) Len() int { return int(s.n) }

// Each visits all values whose numbers were ever taken, free ones too.
func (s *Slab[T]) Each(f func(*T)) {
	for i := range s.n {
		f(s.At(i))
	}
}
