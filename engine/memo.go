package engine

import (
	"bytes"

	"latencylab/http1"
)

// memo remembers the last answer that came whole in one read. A parser is a
// function of its state and the bytes, and most servers repeat themselves
// within a second (the Date changes then), so equal bytes need no second parse.
type memo struct {
	before, after http1.Response
	n             int
	bytes         [512]byte
}

// feed does what p.Feed(b) does.
func (m *memo) feed(p *http1.Response, b []byte) (n int, done bool, f http1.Fault) {
	if len(b) == m.n && *p == m.before && bytes.Equal(b, m.bytes[:m.n]) {
		*p = m.after
		return m.n, true, http1.FaultNone
	}
	before := *p
	n, done, f = p.Feed(b)
	if done && n == len(b) && n <= len(m.bytes) {
		m.before, m.after, m.n = before, *p, n
		copy(m.bytes[:], b)
	}
	return n, done, f
}
