package http1

// Fault is the reason why bytes are not a message of this protocol, or why a
// message stays incomplete. The zero Fault is none. A fault is final: the
// connection cannot carry another message.
type Fault uint8

// The faults of answers come first; those after UnexpectedBytes are of requests only.
const (
	// FaultNone means that nothing is wrong.
	FaultNone Fault = iota
	// BadStatusLine: the first line is not "HTTP/1.x NNN …".
	BadStatusLine
	// BadFraming: the end of the body cannot be known (RFC 9112 6.3, 7.1).
	BadFraming
	// BadHeader: a field line without a valid name, or folded.
	BadHeader
	// HeaderTooLarge: a line beyond MaxLine or a head beyond MaxHead.
	HeaderTooLarge
	// UnexpectedUpgrade: an answer 101, which no request here asks for.
	UnexpectedUpgrade
	// TruncatedHeader: the peer closed within the head.
	TruncatedHeader
	// TruncatedBody: the peer closed within the body.
	TruncatedBody
	// ClosedBeforeResponse: the peer closed before the first byte of the answer.
	ClosedBeforeResponse
	// StaleConnection: as ClosedBeforeResponse, on a connection that had carried
	// an answer before and on which nothing at all came for this request.
	StaleConnection
	// UnexpectedBytes: bytes that belong to no answer. The parser reports them as
	// not consumed; its caller, who knows what is outstanding, uses this value.
	UnexpectedBytes
	// BadRequestLine: the first line is not "METHOD TARGET HTTP/1.x".
	BadRequestLine
	// BadHost: an HTTP/1.1 request without Host, or with several (RFC 9112 3.2).
	BadHost
	// UnknownCoding: a transfer coding other than chunked.
	UnknownCoding
	// UnknownMethod: CONNECT, or a method name beyond MaxMethod bytes.
	UnknownMethod
	// UnknownVersion: a major version other than 1.
	UnknownVersion
	numFaults
)

var faultNames = [numFaults]string{
	FaultNone: "none", BadStatusLine: "bad_status_line", BadFraming: "bad_framing",
	BadHeader: "bad_header", HeaderTooLarge: "header_too_large",
	UnexpectedUpgrade: "unexpected_upgrade", TruncatedHeader: "truncated_header",
	TruncatedBody: "truncated_body", ClosedBeforeResponse: "closed_before_response",
	StaleConnection: "stale_connection", UnexpectedBytes: "unexpected_bytes",
	BadRequestLine: "bad_request_line", BadHost: "bad_host", UnknownCoding: "unknown_coding",
	UnknownMethod: "unknown_method", UnknownVersion: "unknown_version",
}

// String returns the name that results and messages use, "none" for FaultNone.
func (f Fault) String() string {
	if f >= numFaults {
		return "unknown_fault"
	}
	return faultNames[f]
}

// Status is the code that a server answers a faulty request with: 431
// (RFC 6585 5), 501 or 505 (RFC 9110 15.6.2, 15.6.6), 400 for every other
// fault, 0 for FaultNone.
func (f Fault) Status() int {
	switch f {
	case FaultNone:
		return 0
	case HeaderTooLarge:
		return 431
	case UnknownCoding, UnknownMethod:
		return 501
	case UnknownVersion:
		return 505
	}
	return 400
}
