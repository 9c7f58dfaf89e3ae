package http1

import (
	"bytes"
	"math"
)

// state is where in a message the next byte belongs.
type state uint8

const (
	stateStart  state = iota // start line
	stateFields              // field lines of the head
	stateDone
	stateLength    // body of known length
	stateToEOF     // body to the end of the stream
	stateChunkSize // chunk-size line
	stateChunkData // data of a chunk
	stateChunkEnd  // CR LF behind the data of a chunk
	stateTrailer   // trailer fields
)

// flags are the facts of one message head, and of the request that an answer
// belongs to.
type flags uint32

const (
	flagHTTP10    flags = 1 << iota // version 1.0
	flagClose                       // Connection: close
	flagKeepAlive                   // Connection: keep-alive
	flagLength                      // Content-Length
	flagCoding                      // Transfer-Encoding
	flagChunked                     // chunked is among the transfer codings
	flagChunks                      // chunked is the last transfer coding
	flagForeign                     // some transfer coding is not chunked
	flagHead                        // answer to HEAD
	flagReused                      // the connection had carried an answer before
	flagInterim                     // an interim answer was seen
	flagStarted                     // the final answer has begun
	flagTarget                      // Latencylab-Replica
	flagPushback                    // grpc-retry-pushback-ms
	flagHost                        // Host
	flagExpect                      // Expect: 100-continue
	flagCall                        // Latencylab-Call
	flagAttempt                     // Latencylab-Attempt
	flagWork                        // Latencylab-Work
	flagEntry                       // Latencylab-Entry
)

// message is what both roles share: framing and its state.
type message struct {
	remain int64  // bytes left of the body (Content-Length) or of the chunk
	body   int64  // body bytes so far, without chunk framing
	wire   uint64 // bytes consumed
	head   int32  // bytes counted towards MaxHead
	flags  flags
	state  state
	fault  Fault
}

// BodyBytes is the number of body bytes so far, without chunk framing.
func (m *message) BodyBytes() int64 { return m.body }

// BodyKnown is the number of body bytes so far, and of those that the message has
// announced: the rest of its Content-Length, or of the chunk under way.
func (m *message) BodyKnown() int64 {
	switch {
	case m.state <= stateDone:
		return m.body
	case m.remain > math.MaxInt64-m.body:
		return math.MaxInt64
	}
	return m.body + m.remain
}

// WireBytes is the number of bytes consumed since Begin: head, framing, body
// and, of an answer, the interim answers before it.
func (m *message) WireBytes() uint64 { return m.wire }

// HeadDone reports whether the (final) head is complete; from then on the
// accessors of its fields hold.
func (m *message) HeadDone() bool { return m.state >= stateDone }

func (m *message) has(f flags) bool { return m.flags&f != 0 }

// persistent is the rule of RFC 9112 9.3 without what only one role knows.
func (m *message) persistent() bool {
	if m.has(flagClose) {
		return false
	}
	return !m.has(flagHTTP10) || m.has(flagKeepAlive)
}

// partial judges rest bytes without line end, of which more must follow. It
// finds exactly what room would find when the line is complete.
func (m *message) partial(rest int) Fault {
	if rest >= MaxLine || int(m.head)+rest >= MaxHead {
		return HeaderTooLarge
	}
	return FaultNone
}

// room takes a line of n bytes, line end included, into the head's account.
func (m *message) room(n int) Fault {
	if n > MaxLine || int(m.head)+n > MaxHead {
		return HeaderTooLarge
	}
	m.head += int32(n)
	return FaultNone
}

// contentLength reads one Content-Length value: 1*DIGIT, or a list of equal
// ones; further lines must agree (RFC 9110 8.6, RFC 9112 6.3 rule 5).
func (m *message) contentLength(value []byte) Fault {
	var v int64
	for i, c := range value {
		d := int64(c) - '0'
		if uint64(d) > 9 {
			return m.lengthList(value, i)
		}
		if v > math.MaxInt64/10 || v == math.MaxInt64/10 && d > math.MaxInt64%10 {
			return BadFraming
		}
		v = v*10 + d
	}
	if len(value) == 0 || m.has(flagLength) && v != m.remain {
		return BadFraming
	}
	m.remain = v
	m.flags |= flagLength
	return FaultNone
}

// lengthList reads a Content-Length value whose first byte that is no digit is
// value[i].
func (m *message) lengthList(value []byte, i int) Fault {
	if bytes.IndexByte(value[i:], ',') < 0 {
		return BadFraming
	}
	for more := true; more; {
		var item []byte
		item, value, more = nextItem(value)
		for _, c := range item {
			if !isDigit(c) {
				return BadFraming
			}
		}
		if f := m.contentLength(item); f != FaultNone {
			return f
		}
	}
	return FaultNone
}

// transferEncoding reads one Transfer-Encoding value; several lines are one
// list (RFC 9112 6.1). Chunked twice, with a parameter, or in no valid list is
// bad_framing.
func (m *message) transferEncoding(value []byte) Fault {
	m.flags |= flagCoding
	if len(value) == 0 || bytes.IndexByte(value, '"') >= 0 {
		return BadFraming
	}
	for more := true; more; {
		var item []byte
		item, value, more = nextItem(value)
		k := 0
		for k < len(item) && isToken[item[k]] {
			k++
		}
		if k == 0 || k < len(item) && item[k] != ';' && item[k] != ' ' && item[k] != '\t' {
			return BadFraming
		}
		if foldEqual(item[:k], "chunked") {
			if m.has(flagChunked) || k < len(item) {
				return BadFraming
			}
			m.flags |= flagChunked | flagChunks
			continue
		}
		m.flags = m.flags&^flagChunks | flagForeign
	}
	return FaultNone
}

// connection reads one Connection value: a list of tokens in any case, of which
// only close and keep-alive matter (RFC 9110 7.6.1).
func (m *message) connection(value []byte) {
	if len(value) == len("keep-alive") && fold8(value, 0) == foldKeepAli && fold8(value, 2) == foldEpAlive && value[4] == '-' {
		m.flags |= flagKeepAlive
		return
	}
	for more := true; more; {
		var item []byte
		item, value, more = nextItem(value)
		switch {
		case foldEqual(item, "close"):
			m.flags |= flagClose
		case foldEqual(item, "keep-alive"):
			m.flags |= flagKeepAlive
		}
	}
}

// content consumes body bytes until the message is done or b holds no more than
// a partial line.
func (m *message) content(b []byte) (n int, f Fault) {
	for {
		switch m.state {
		case stateLength, stateChunkData:
			k := int64(len(b) - n)
			if k > m.remain {
				k = m.remain
			}
			m.remain -= k
			m.body += k
			n += int(k)
			if m.remain > 0 {
				return n, FaultNone
			}
			if m.state == stateLength {
				m.state = stateDone
				return n, FaultNone
			}
			m.state = stateChunkEnd
		case stateToEOF:
			m.body += int64(len(b) - n)
			return len(b), FaultNone
		case stateChunkEnd:
			rest := b[n:]
			if len(rest) > 0 && rest[0] != '\r' || len(rest) > 1 && rest[1] != '\n' {
				return n, BadFraming
			}
			if len(rest) < 2 {
				return n, FaultNone
			}
			n += 2
			m.state = stateChunkSize
		case stateChunkSize:
			k, f := m.chunkSize(b[n:])
			if k == 0 || f != FaultNone {
				return n, f
			}
			n += k
		case stateTrailer:
			k, f := m.trailer(b[n:])
			if k == 0 || f != FaultNone {
				return n, f
			}
			n += k
		default:
			return n, FaultNone
		}
	}
}

// chunkSize consumes one line "1*HEXDIG [BWS ;ext] CR LF" (RFC 9112 7.1) from
// b, 0 bytes when it is not complete. Extensions are ignored.
func (m *message) chunkSize(b []byte) (n int, f Fault) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 && len(b) < MaxLine {
		return 0, FaultNone
	}
	if i < 0 || i >= MaxLine {
		return 0, HeaderTooLarge
	}
	if i == 0 || b[i-1] != '\r' {
		return 0, BadFraming
	}
	line := b[:i-1]
	var v int64
	k := 0
	for ; k < len(line); k++ {
		d := hexValue[line[k]]
		if d == 0xff {
			break
		}
		if v > math.MaxInt64>>4 {
			return 0, BadFraming
		}
		v = v<<4 | int64(d)
	}
	ext := trim(line[k:])
	if k == 0 || len(ext) > 0 && ext[0] != ';' || bytes.IndexByte(ext, '\r') >= 0 {
		return 0, BadFraming
	}
	m.remain = v
	m.state = stateChunkData
	if v == 0 {
		m.state = stateTrailer
	}
	return i + 1, FaultNone
}

// trailer consumes one trailer line from b, 0 bytes when it is not complete.
// Trailer fields are checked as field lines and ignored.
func (m *message) trailer(b []byte) (n int, f Fault) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return 0, m.partial(len(b))
	}
	if f := m.room(i + 1); f != FaultNone {
		return 0, f
	}
	if i == 0 || i == 1 && b[0] == '\r' {
		m.state = stateDone
	} else if nameLen(b[:i]) == 0 {
		return 0, BadHeader
	}
	return i + 1, FaultNone
}
