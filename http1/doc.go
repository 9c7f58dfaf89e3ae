// Package http1 turns bytes of HTTP/1.1 connections into events and back, in
// both roles: [Response] parses answers, [Request] parses requests,
// [RequestTemplate] and [AppendResponse] write them.
//
// It does no I/O, reads no clock, keeps no strings and starts no goroutine.
// Parsers are incremental and small: a caller feeds what it has, keeps what was
// not consumed (never more than one partial line) and feeds it again with more
// behind it. The result does not depend on where the bytes were cut. Nothing
// here allocates after construction, and nothing is safe for concurrent use.
//
// Message length follows RFC 9112 6.3, dates RFC 9110 5.6.7. Bodies are counted,
// not kept or decoded. Deliberately strict, in both roles:
//   - a field line that starts with a space or tab (obs-fold, RFC 9112 5.2) and
//     a space before the colon (5.1) are bad_header;
//   - an invalid Content-Length is bad_framing even where another rule would
//     have set it aside;
//   - lines of the chunked coding end in CR LF; a bare LF is accepted only where
//     RFC 9112 2.2 allows it, after the start line, fields and trailer fields.
//
// CONNECT, and with it tunnels, are outside of this package.
package http1

const (
	// MaxLine is the longest accepted line in bytes, its line end included:
	// start line, field, chunk size or trailer field.
	MaxLine = 16 << 10
	// MaxHead bounds the bytes of one message that are not its body: start
	// line, fields and trailer fields, and of an answer also the interim (1xx)
	// answers before it. Chunk-size lines do not count.
	MaxHead = 64 << 10
	// Continue is the interim answer to a request for which Expect100 holds.
	Continue = "HTTP/1.1 100 Continue\r\n\r\n"
)

// Header is one field of a message head, without line end.
type Header struct{ Name, Value string }
