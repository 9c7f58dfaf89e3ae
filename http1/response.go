package http1

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"
)

// Response is the incremental parser of the answers on one connection, in the
// client role. It holds no pointer and allocates nothing. The zero Response
// awaits the answer to a GET on a fresh connection.
type Response struct {
	message
	after     int64 // value of Retry-After, by afterKind
	work      int64 // Latencylab-Work
	replica   int32 // Latencylab-Replica plus 1; 0 when there is none
	status    uint16
	afterKind afterKind
	hasAfter  bool
}

// Begin prepares for the answer to the next request. head: the request is
// HEAD, whose answer has no body. reused: the connection carried an answer
// before, so that a close without a byte is stale_connection.
func (p *Response) Begin(head, reused bool) {
	*p = Response{}
	if head {
		p.flags |= flagHead
	}
	if reused {
		p.flags |= flagReused
	}
}

// Feed consumes bytes of the answer from the front of b and returns how many.
// A partial line of head, chunk header or trailer is not consumed: the caller
// keeps those bytes, less than MaxLine, and feeds them again with more behind
// them. Body bytes are always consumed. done: the answer is complete and b[n:]
// does not belong to it (UnexpectedBytes unless a further answer is due). After
// a fault or done, Feed consumes nothing and returns the same again.
//
// Interim answers (1xx) are skipped but for 101, which is UnexpectedUpgrade.
func (p *Response) Feed(b []byte) (n int, done bool, f Fault) {
	if p.fault != FaultNone {
		return 0, false, p.fault
	}
	for {
		k := 0
		if p.state == stateStart {
			k, f = p.statusLine(b[n:])
			n += k
		}
		if p.state == stateFields && f == FaultNone {
			k, f = p.fields(b[n:])
			n += k
			if p.state == stateStart && f == FaultNone {
				continue
			}
		}
		break
	}
	if p.state > stateDone && f == FaultNone {
		var k int
		k, f = p.content(b[n:])
		n += k
	}
	p.wire += uint64(n)
	p.fault = f
	return n, p.state == stateDone && f == FaultNone, f
}

// EOF says that the peer closed its direction; pending is the number of bytes
// that Feed has left with the caller. It completes a body that lasts to the end
// of the stream; any other answer that is not done gets its fault.
func (p *Response) EOF(pending int) (done bool, f Fault) {
	if p.fault != FaultNone {
		return false, p.fault
	}
	switch p.state {
	case stateDone:
		return true, FaultNone
	case stateToEOF:
		p.state = stateDone
		return true, FaultNone
	case stateStart:
		switch {
		case pending > 0:
			p.fault = TruncatedHeader
		case p.has(flagReused) && !p.has(flagInterim):
			p.fault = StaleConnection
		default:
			p.fault = ClosedBeforeResponse
		}
	case stateFields:
		p.fault = TruncatedHeader
	default:
		p.fault = TruncatedBody
	}
	return false, p.fault
}

// Status is the code of the final answer, 200 to 999, or 0 before its status
// line is complete. Codes from 600 are not standard; RFC 9110 15 lets a client
// take them as 5xx.
func (p *Response) Status() int {
	if p.status < 200 {
		return 0
	}
	return int(p.status)
}

// Started reports whether the final answer has begun: its first ten bytes, up
// to the first digit of the status, tell it from an interim one.
func (p *Response) Started() bool { return p.has(flagStarted) }

// Reuse reports whether the connection may carry the next request (RFC 9112
// 9.3). It is false before the answer is done and after a fault, after a body
// to the end of the stream, after Content-Length and Transfer-Encoding in one
// answer, and after Transfer-Encoding in HTTP/1.0 (6.1, 6.3).
func (p *Response) Reuse() bool {
	if p.state != stateDone || p.fault != FaultNone || !p.persistent() {
		return false
	}
	if p.has(flagCoding) && p.has(flagLength|flagHTTP10) {
		return false
	}
	return p.bodiless() || p.has(flagLength|flagChunks)
}

// RetryAfter returns the first valid Retry-After of the answer, of any status,
// or what a grpc-retry-pushback-ms says in its place.
func (p *Response) RetryAfter() (a After, ok bool) {
	return After{p.after, p.afterKind}, p.hasAfter
}

// Target reports whether the answer carries Latencylab-Replica: the server is
// a target of this project.
func (p *Response) Target() bool { return p.has(flagTarget) }

// Work is the value of Latencylab-Work: how long the request was worked on; ok
// is false without a valid one.
func (p *Response) Work() (d time.Duration, ok bool) {
	return time.Duration(p.work), p.has(flagWork)
}

// Replica is the value of Latencylab-Replica, -1 when there is no valid one.
func (p *Response) Replica() int { return int(p.replica) - 1 }

// bodiless: answers that have no body whatever their fields say (RFC 9112 6.3
// rule 1).
func (p *Response) bodiless() bool {
	return p.has(flagHead) || p.status == 204 || p.status == 304
}

const (
	// httpVersion is "HTTP/1." as a little-endian load of eight bytes, without
	// the minor version.
	httpVersion     = 'H' | 'T'<<8 | 'T'<<16 | 'P'<<24 | '/'<<32 | '1'<<40 | '.'<<48
	httpVersionMask = 1<<56 - 1
	// statusOK is "200 OK\r\n", the rest of nearly every status line.
	statusOK = '2' | '0'<<8 | '0'<<16 | ' '<<24 | 'O'<<32 | 'K'<<40 | '\r'<<48 | '\n'<<56
)

// statusLine consumes "HTTP/1.x NNN [reason]" (RFC 9112 4) from b, 0 bytes when
// it is not complete. What does not begin so is found at once: a server of
// another protocol may never send a line end.
func (p *Response) statusLine(b []byte) (n int, f Fault) {
	if len(b) < 10 {
		return p.shortStatusLine(b)
	}
	if binary.LittleEndian.Uint64(b)&httpVersionMask != httpVersion || !isDigit(b[7]) {
		return 0, BadStatusLine
	}
	if b[8] == ' ' && isDigit(b[9]) && b[9] != '1' {
		p.flags |= flagStarted
	}
	i := len("HTTP/1.1 200 OK\r")
	if len(b) <= i || binary.LittleEndian.Uint64(b[9:]) != statusOK {
		i = bytes.IndexByte(b, '\n')
	}
	if i < 0 {
		return 0, p.partial(len(b))
	}
	if f := p.room(i + 1); f != FaultNone {
		return 0, f
	}
	if i < 12 || b[8] != ' ' || b[12] != ' ' && b[12] != '\r' && b[12] != '\n' || b[12] == '\r' && i != 13 {
		return 0, BadStatusLine
	}
	d0, d1, d2 := b[9]-'0', b[10]-'0', b[11]-'0'
	if d0 == 0 || d0 > 9 || d1 > 9 || d2 > 9 {
		return 0, BadStatusLine
	}
	if b[7] == '0' {
		p.flags |= flagHTTP10
	}
	p.status = uint16(d0)*100 + uint16(d1)*10 + uint16(d2)
	if p.status == 101 {
		return 0, UnexpectedUpgrade
	}
	p.state = stateFields
	return i + 1, FaultNone
}

// shortStatusLine judges fewer than ten bytes, which cannot be a status line yet.
func (p *Response) shortStatusLine(b []byte) (n int, f Fault) {
	const version = "HTTP/1."
	for i, c := range b {
		if i < len(version) && c != version[i] || i == len(version) && !isDigit(c) || c == '\n' {
			return 0, BadStatusLine
		}
	}
	return 0, p.partial(len(b))
}

// fields consumes whole field lines from b, and the empty line that ends the head.
func (p *Response) fields(b []byte) (n int, f Fault) {
	for {
		rest := b[n:]
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return n, p.partial(len(rest))
		}
		if f := p.room(i + 1); f != FaultNone {
			return n, f
		}
		line := rest[:i]
		if i == 0 || i == 1 && line[0] == '\r' {
			p.headEnd()
			return n + i + 1, FaultNone
		}
		k := nameLen(line)
		if k == 0 {
			return n, BadHeader
		}
		switch k {
		case len("connection"):
			if isConnection(line) {
				p.connection(fieldValue(line, k))
			}
		case len("retry-after"):
			if isRetryAfter(line) && !p.hasAfter && !p.has(flagPushback) {
				var a After
				a, p.hasAfter = RetryAfter(fieldValue(line, k))
				p.after, p.afterKind = a.value, a.kind
			}
		case len("grpc-retry-pushback-ms"):
			if isPushback(line) {
				p.pushback(fieldValue(line, k))
			}
		case len("content-length"):
			if isContentLength(line) {
				f = p.contentLength(fieldValue(line, k))
			}
		case len("transfer-encoding"):
			if isTransferEncoding(line) {
				f = p.transferEncoding(fieldValue(line, k))
			}
		case len("latencylab-work"):
			if isLabWork(line) {
				p.labWork(fieldValue(line, k))
			}
		case len("latencylab-replica"):
			if isLabReplica(line) {
				p.targetReplica(fieldValue(line, k))
			}
		}
		if f != FaultNone {
			return n, f
		}
		n += i + 1
	}
}

// pushback takes a grpc-retry-pushback-ms, which comes before any Retry-After;
// given twice it asks not to retry.
func (p *Response) pushback(value []byte) {
	a := Pushback(value)
	if p.has(flagPushback) {
		a = After{kind: afterNever}
	}
	p.flags |= flagPushback
	p.after, p.afterKind, p.hasAfter = a.value, a.kind, true
}

// labWork reads a Latencylab-Work value; one that is no number is none.
func (p *Response) labWork(value []byte) {
	if v, ok := parseUint(value, math.MaxInt64); ok {
		p.flags |= flagWork
		p.work = int64(v)
	}
}

// targetReplica reads a Latencylab-Replica value, 0 to 2^31-2.
func (p *Response) targetReplica(value []byte) {
	p.flags |= flagTarget
	if v, ok := parseUint(value, 1<<31-2); ok {
		p.replica = int32(v) + 1
	}
}

// headEnd turns to the body, to the next answer behind an interim one, or ends
// the message, by RFC 9112 6.3.
func (p *Response) headEnd() {
	switch {
	case p.status < 200:
		*p = Response{message: message{
			wire: p.wire, head: p.head, flags: p.flags&(flagHead|flagReused) | flagInterim,
		}}
	case p.bodiless():
		p.state = stateDone
	case p.has(flagCoding):
		p.state = stateToEOF
		if p.has(flagChunks) {
			p.state = stateChunkSize
		}
	case p.has(flagLength):
		p.state = stateLength
		if p.remain == 0 {
			p.state = stateDone
		}
	default:
		p.state = stateToEOF
	}
}
