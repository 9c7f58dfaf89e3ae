package engine

// chunk is how many records a slab adds at a time: records never move, so that
// growth copies nothing while calls are under way.
const chunk = 256

// connSlab holds the connections of a loop by index.
type connSlab struct {
	chunks [][]conn
	free   []uint32
}

func (s *connSlab) at(i uint32) *conn { return &s.chunks[i/chunk][i%chunk] }

// take returns a free record; its generation tells it from what used it before.
func (s *connSlab) take() *conn {
	if len(s.free) == 0 {
		base := uint32(len(s.chunks)) * chunk
		c := make([]conn, chunk)
		for i := range c {
			c[i].index = base + uint32(i)
		}
		s.chunks = append(s.chunks, c)
		for i := chunk; i > 0; i-- {
			s.free = append(s.free, base+uint32(i)-1)
		}
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return s.at(i)
}

func (s *connSlab) put(c *conn) { s.free = append(s.free, c.index) }

// used is how many records are taken.
func (s *connSlab) used() int { return len(s.chunks)*chunk - len(s.free) }

func (s *connSlab) each(f func(*conn)) {
	for _, c := range s.chunks {
		for i := range c {
			f(&c[i])
		}
	}
}

// callSlab holds the calls of a loop by index, which is also their timer's id.
type callSlab struct {
	chunks [][]call
	free   []uint32
}

func (s *callSlab) at(i uint32) *call { return &s.chunks[i/chunk][i%chunk] }

func (s *callSlab) take() *call {
	if len(s.free) == 0 {
		base := uint32(len(s.chunks)) * chunk
		c := make([]call, chunk)
		for i := range c {
			c[i].index = base + uint32(i)
		}
		s.chunks = append(s.chunks, c)
		for i := chunk; i > 0; i-- {
			s.free = append(s.free, base+uint32(i)-1)
		}
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return s.at(i)
}

func (s *callSlab) put(c *call) { s.free = append(s.free, c.index) }

func (s *callSlab) each(f func(*call)) {
	for _, c := range s.chunks {
		for i := range c {
			f(&c[i])
		}
	}
}
