package http1

import (
	"bytes"
	"math"
)

const (
	// MaxMethod is the longest method name in bytes; a longer one is UnknownMethod.
	MaxMethod = 16
	// MaxRun is the longest Latencylab-Run in bytes; a longer one is ignored.
	MaxRun = 24
	// MaxDeadline is the longest value of a deadline field in bytes; a longer one
	// is ignored.
	MaxDeadline = 36
	// WellKnownPath is where a target announces its ledger.
	WellKnownPath = "/.well-known/latencylab"
)

// Run is a Latencylab-Run value, filled up with zero bytes. It is comparable
// and may key a map.
type Run [MaxRun]byte

// String returns the value without the filling.
func (r Run) String() string {
	n := bytes.IndexByte(r[:], 0)
	if n < 0 {
		n = len(r)
	}
	return string(r[:n])
}

// Entry is the attempt by which a request came into a chain of services: its
// call and attempt number there. Services pass it on with what they call.
type Entry struct {
	Call    uint64
	Attempt uint32
}

// Request is the incremental parser of the requests on one connection, in the
// server role. It holds no pointer and allocates nothing. The zero Request is
// ready for the first request.
type Request struct {
	message
	call       uint64
	path       uint64
	attempt    uint32
	method     Method
	methodSize uint8
	wellKnown  bool
	methodName [MaxMethod]byte
	run        Run
	entry      Entry
	// The value of the first field that says how much time is left.
	deadlineBy   DeadlineField
	deadlineSize uint8
	deadline     [MaxDeadline]byte
	// The field that Watch has named, by length and digest, and the digest of its
	// value; 0: none.
	watchSize  uint8
	watch, key uint64
}

// DeadlineField is a field by which a client says how much time is left, or
// until when.
type DeadlineField uint8

const (
	NoDeadline      DeadlineField = iota
	DeadlineGRPC                  // grpc-timeout
	DeadlineMS                    // x-deadline-ms
	DeadlineEnvoy                 // x-envoy-expected-rq-timeout-ms
	DeadlineConnect               // connect-timeout-ms
	DeadlineRFC3339               // x-request-deadline
)

var deadlineNames = [...]string{DeadlineGRPC: "grpc-timeout", DeadlineMS: "x-deadline-ms",
	DeadlineEnvoy: "x-envoy-expected-rq-timeout-ms", DeadlineConnect: "connect-timeout-ms", DeadlineRFC3339: "x-request-deadline"}

// String returns the name of the field in lower case, "" for NoDeadline.
func (d DeadlineField) String() string {
	if int(d) < len(deadlineNames) {
		return deadlineNames[d]
	}
	return ""
}

// Deadline returns the first field of the request that says how much time is
// left, and its value, which is not looked at here. The value points into the
// parser and is valid until Begin.
func (p *Request) Deadline() (by DeadlineField, value []byte) {
	return p.deadlineBy, p.deadline[:p.deadlineSize]
}

// deadlineField keeps the value of a field of that name's length if it is by.
func (p *Request) deadlineField(line []byte, k int, by DeadlineField) {
	if p.deadlineBy != NoDeadline || !foldEqual(line[:k], deadlineNames[by]) {
		return
	}
	v := fieldValue(line, k)
	if len(v) > MaxDeadline {
		return
	}
	p.deadlineBy, p.deadlineSize = by, uint8(copy(p.deadline[:], v))
}

// Begin prepares for the next request on the connection, after done.
func (p *Request) Begin() { *p = Request{} }

// Feed consumes bytes of the request from the front of b, by the contract of
// Response.Feed. done: the request is complete and b[n:] belongs to the next
// one. Empty lines before the request line are skipped (RFC 9112 2.2).
func (p *Request) Feed(b []byte) (n int, done bool, f Fault) {
	if p.fault != FaultNone {
		return 0, false, p.fault
	}
	if p.state == stateStart {
		n, f = p.requestLine(b)
	}
	if p.state == stateFields && f == FaultNone {
		var k int
		k, f = p.fields(b[n:])
		n += k
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
// that Feed has left with the caller. FaultNone means that nothing was cut
// short: the close came after a request or before the next had begun.
func (p *Request) EOF(pending int) Fault {
	if p.fault != FaultNone {
		return p.fault
	}
	switch {
	case p.state == stateDone || p.state == stateStart && pending == 0:
		return FaultNone
	case p.state == stateStart || p.state == stateFields:
		p.fault = TruncatedHeader
	default:
		p.fault = TruncatedBody
	}
	return p.fault
}

// KeepAlive reports whether the connection may carry another request after this
// one (RFC 9112 9.3). It holds from HeadDone on; after a fault it is false.
func (p *Request) KeepAlive() bool {
	return p.state >= stateDone && p.fault == FaultNone && p.persistent()
}

// HTTP10 reports whether the request is of version 1.0: its client must be told
// by Connection: keep-alive that the connection stays.
func (p *Request) HTTP10() bool { return p.has(flagHTTP10) }

// Method is the request's method, MethodOther for one without a constant.
func (p *Request) Method() Method { return p.method }

// MethodName is the method as it was sent, at most MaxMethod bytes. It points
// into the parser and is valid until Begin.
func (p *Request) MethodName() []byte { return p.methodName[:p.methodSize] }

// Head reports whether the method is HEAD: the answer must have no body.
func (p *Request) Head() bool { return p.method == MethodHead }

// Path is the digest of the path, as PathDigest makes it: without query, and
// of an absolute target without scheme and authority. Nothing is decoded.
func (p *Request) Path() uint64 { return p.path }

// WellKnown reports whether the path is WellKnownPath; a query is ignored.
func (p *Request) WellKnown() bool { return p.wellKnown }

// Expect100 reports whether the client waits for Continue before it sends the
// body (RFC 9110 10.1.1): the head is done, asks for it, and the body has not
// begun.
func (p *Request) Expect100() bool {
	return p.has(flagExpect) && !p.has(flagHTTP10) && p.state > stateDone && p.fault == FaultNone &&
		p.body == 0 && (p.state == stateLength || p.state == stateChunkSize)
}

// LabCall is the value of Latencylab-Call; ok is false without a valid one.
func (p *Request) LabCall() (call uint64, ok bool) { return p.call, p.has(flagCall) }

// LabAttempt is the value of Latencylab-Attempt; ok is false without a valid one.
func (p *Request) LabAttempt() (attempt uint32, ok bool) { return p.attempt, p.has(flagAttempt) }

// LabRun is the value of Latencylab-Run; ok is false without one of 1 to MaxRun
// visible ASCII characters.
func (p *Request) LabRun() (run Run, ok bool) { return p.run, p.run[0] != 0 }

// LabEntry returns the Latencylab-Entry value, if the request carries one.
func (p *Request) LabEntry() (e Entry, ok bool) { return p.entry, p.has(flagEntry) }

// PathDigest is the 64-bit FNV-1a hash of a path, for comparing with Path.
func PathDigest(path string) uint64 {
	h := uint64(fnvOffset)
	for i := 0; i < len(path); i++ {
		h = (h ^ uint64(path[i])) * fnvPrime
	}
	return h
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// Watch has the request that follows keep a digest of the value of the first
// field of that name, for Key. It holds until Begin. A name beyond 255 bytes is
// not found.
func (p *Request) Watch(name string) {
	if len(name) > math.MaxUint8 {
		return
	}
	p.watchSize, p.watch, p.key = uint8(len(name)), foldDigest([]byte(name)), 0
}

// Key is the digest of the value of the field that Watch has named, never 0; ok
// is false when there is none.
func (p *Request) Key() (key uint64, ok bool) { return p.key, p.key != 0 }

// watched keeps the digest of the value if the field, whose name has k bytes, is
// the one.
func (p *Request) watched(line []byte, k int) {
	if p.key == 0 && foldDigest(line[:k]) == p.watch {
		p.key = max(digest(fieldValue(line, k)), 1)
	}
}

// foldDigest is the FNV-1a hash of a name in lower case.
func foldDigest(name []byte) uint64 {
	h := uint64(fnvOffset)
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

func digest(b []byte) uint64 {
	h := uint64(fnvOffset)
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

// requestLine consumes "METHOD TARGET HTTP/1.x" (RFC 9112 3), single spaces,
// and empty lines before it from b; a partial line is not consumed. A first
// byte that no method starts with is found at once: a TLS client never sends a
// line end.
func (p *Request) requestLine(b []byte) (n int, f Fault) {
	for {
		rest := b[n:]
		if len(rest) == 0 {
			return n, p.partial(0)
		}
		if c := rest[0]; !isToken[c] && c != '\r' && c != '\n' {
			return n, BadRequestLine
		}
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return n, p.partial(len(rest))
		}
		if f := p.room(i + 1); f != FaultNone {
			return n, f
		}
		line := cutCR(rest[:i])
		if len(line) > 0 {
			if f := p.startLine(line); f != FaultNone {
				return n, f
			}
			p.state = stateFields
			return n + i + 1, FaultNone
		}
		n += i + 1
	}
}

// startLine reads a whole request line without its line end.
func (p *Request) startLine(line []byte) Fault {
	k := 0
	for k < len(line) && isToken[line[k]] {
		k++
	}
	if k == 0 || k == len(line) || line[k] != ' ' {
		return BadRequestLine
	}
	method, rest := line[:k], line[k+1:]
	k = bytes.IndexByte(rest, ' ')
	if k <= 0 || hasControl(rest) || bytes.IndexByte(rest, '\t') >= 0 {
		return BadRequestLine
	}
	target, version := rest[:k], rest[k+1:]
	const sample = "HTTP/1.x"
	if len(version) != len(sample) || string(version[:5]) != sample[:5] ||
		!isDigit(version[5]) || version[6] != '.' || !isDigit(version[7]) {
		return BadRequestLine
	}
	if version[5] != '1' {
		return UnknownVersion
	}
	if version[7] == '0' {
		p.flags |= flagHTTP10
	}
	if len(method) > MaxMethod || string(method) == "CONNECT" {
		return UnknownMethod
	}
	p.method = ParseMethod(method)
	p.methodSize = uint8(copy(p.methodName[:], method))
	return p.target(target)
}

// target reads origin-form, absolute-form and "*" (RFC 9112 3.2).
func (p *Request) target(target []byte) Fault {
	if target[0] != '/' && string(target) != "*" {
		k := bytes.Index(target, []byte("://"))
		if k <= 0 {
			return BadRequestLine
		}
		target = target[k+3:]
		for len(target) > 0 && target[0] != '/' && target[0] != '?' {
			target = target[1:]
		}
	}
	if k := bytes.IndexByte(target, '?'); k >= 0 {
		target = target[:k]
	}
	h := uint64(fnvOffset)
	for _, c := range target {
		h = (h ^ uint64(c)) * fnvPrime
	}
	if len(target) == 0 { // absolute-form without a path
		h = PathDigest("/")
	}
	p.path = h
	p.wellKnown = string(target) == WellKnownPath
	return FaultNone
}

// fields consumes whole field lines from b, and the empty line that ends the
// head. Unlike an answer's, a request's values must be free of control characters.
func (p *Request) fields(b []byte) (n int, f Fault) {
	for {
		rest := b[n:]
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return n, p.partial(len(rest))
		}
		if f := p.room(i + 1); f != FaultNone {
			return n, f
		}
		line := cutCR(rest[:i])
		if len(line) == 0 {
			f = p.headEnd()
			if f == FaultNone {
				n += i + 1
			}
			return n, f
		}
		k := nameLen(line)
		if k == 0 || hasControl(line[k:]) {
			return n, BadHeader
		}
		if f := p.field(line, k); f != FaultNone {
			return n, f
		}
		n += i + 1
	}
}

// field takes note of the field line, of which the name has k bytes.
func (p *Request) field(line []byte, k int) Fault {
	if p.watchSize != 0 && int(p.watchSize) == k {
		p.watched(line, k)
	}
	switch k {
	case len("grpc-timeout"):
		p.deadlineField(line, k, DeadlineGRPC)
	case len("x-deadline-ms"):
		p.deadlineField(line, k, DeadlineMS)
	case len("x-envoy-expected-rq-timeout-ms"):
		p.deadlineField(line, k, DeadlineEnvoy)
	case len("host"):
		if foldEqual(line[:k], "host") {
			if p.has(flagHost) {
				return BadHost
			}
			p.flags |= flagHost
		}
	case len("expect"):
		if foldEqual(line[:k], "expect") && foldEqual(fieldValue(line, k), "100-continue") {
			p.flags |= flagExpect
		}
	case len("connection"):
		if isConnection(line) {
			p.connection(fieldValue(line, k))
		}
	case len("content-length"):
		switch {
		case isContentLength(line):
			return p.contentLength(fieldValue(line, k))
		case isLabRun(line):
			p.labRun(fieldValue(line, k))
		}
	case len("transfer-encoding"):
		if isTransferEncoding(line) {
			return p.transferEncoding(fieldValue(line, k))
		}
	case len("latencylab-call"):
		if isLabCall(line) {
			if v, ok := parseUint(fieldValue(line, k), math.MaxUint64); ok {
				p.call = v
				p.flags |= flagCall
			}
		}
	case len("latencylab-entry"):
		if foldEqual(line[:k], "latencylab-entry") {
			p.labEntry(fieldValue(line, k))
		}
	case len("latencylab-attempt"):
		if isLabAttempt(line) {
			if v, ok := parseUint(fieldValue(line, k), math.MaxUint32); ok {
				p.attempt = uint32(v)
				p.flags |= flagAttempt
			}
			break
		}
		p.deadlineField(line, k, DeadlineConnect)
		p.deadlineField(line, k, DeadlineRFC3339)
	}
	return FaultNone
}

// labRun keeps a Latencylab-Run value of 1 to MaxRun visible ASCII characters.
func (p *Request) labRun(value []byte) {
	if len(value) > MaxRun {
		return
	}
	for _, c := range value {
		if c <= ' ' || c >= 0x7f {
			return
		}
	}
	p.run = Run{}
	copy(p.run[:], value)
}

// labEntry keeps a Latencylab-Entry value: CALL/ATTEMPT, both decimal.
func (p *Request) labEntry(value []byte) {
	n := bytes.IndexByte(value, '/')
	if n < 0 {
		return
	}
	call, ok := parseUint(value[:n], math.MaxUint64)
	attempt, well := parseUint(value[n+1:], math.MaxUint32)
	if ok && well {
		p.entry = Entry{call, uint32(attempt)}
		p.flags |= flagEntry
	}
}

// headEnd turns to the body or ends the message. A request never lasts to the
// end of the stream, and what two readers could frame differently is refused
// (RFC 9112 6.1, 6.3, 11.2).
func (p *Request) headEnd() Fault {
	if !p.has(flagHost) && !p.has(flagHTTP10) {
		return BadHost
	}
	if p.has(flagCoding) {
		switch {
		case p.has(flagLength | flagHTTP10):
			return BadFraming
		case p.has(flagForeign):
			return UnknownCoding
		}
		p.state = stateChunkSize
		return FaultNone
	}
	p.state = stateDone
	if p.remain > 0 {
		p.state = stateLength
	}
	return FaultNone
}

// cutCR returns line without the CR of its line end.
func cutCR(line []byte) []byte {
	if len(line) > 0 && line[len(line)-1] == '\r' {
		return line[:len(line)-1]
	}
	return line
}
