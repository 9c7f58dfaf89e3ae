package http1

import (
	"strconv"
	"time"
)

// Answer is what AppendResponse writes.
type Answer struct {
	// Status is the code, 200 to 999; any other is written as 500.
	Status int
	// RetryAfter is the Retry-After in seconds. 0 or less sends none.
	RetryAfter int
	// Body is the length of the body in bytes, a repeating printable pattern.
	// 204 and 304 have none. 0 or less is an empty body.
	Body int
	// Replica is the value of Latencylab-Replica. Negative sends none.
	Replica int
	// Worked: the request was worked on, for Work, and Latencylab-Work says so in
	// nanoseconds.
	Worked bool
	Work   time.Duration
	// LeftOut is the value of Latencylab-Left-Out: the optional parts that the
	// answer does without. Empty sends none.
	LeftOut []byte
	// Head: the request was HEAD; the answer says the length without the body.
	Head bool
	// Chunked announces a body in chunks in place of Body, with Head: the chunks
	// follow by other means.
	Chunked bool
	// KeepAlive is whether the connection stays open, usually Request.KeepAlive.
	KeepAlive bool
	// HTTP10 says that the client is of version 1.0 and must be told when the
	// connection stays (RFC 9112 C.2.2).
	HTTP10 bool
	// Date is the value of Date, as AppendDate writes it; nil sends none. It is
	// only read during the call.
	Date []byte
}

// AppendResponse appends a complete answer to dst and returns the longer slice.
// It does not allocate when dst has room.
func AppendResponse(dst []byte, a Answer) []byte {
	status := a.Status
	if status < 200 || status > 999 {
		status = 500
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(dst, byte('0'+status/100), byte('0'+status/10%10), byte('0'+status%10), ' ')
	dst = append(append(dst, Reason(status)...), "\r\n"...)
	if len(a.Date) > 0 {
		dst = append(append(append(dst, "Date: "...), a.Date...), "\r\n"...)
	}
	if a.Replica >= 0 {
		dst = appendInt(dst, "Latencylab-Replica: ", a.Replica)
	}
	if a.Worked {
		dst = appendInt(dst, "Latencylab-Work: ", int(a.Work))
	}
	if len(a.LeftOut) > 0 {
		dst = append(append(append(dst, "Latencylab-Left-Out: "...), a.LeftOut...), "\r\n"...)
	}
	if a.RetryAfter > 0 {
		dst = appendInt(dst, "Retry-After: ", a.RetryAfter)
	}
	switch {
	case !a.KeepAlive:
		dst = append(dst, "Connection: close\r\n"...)
	case a.HTTP10:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	// RFC 9110 8.6: no length in 204; one in 304 would be that of another answer.
	if status == 204 || status == 304 {
		return append(dst, "\r\n"...)
	}
	if a.Chunked {
		return append(dst, "Transfer-Encoding: chunked\r\n\r\n"...)
	}
	body := max(a.Body, 0)
	dst = append(appendInt(dst, "Content-Length: ", body), "\r\n"...)
	if !a.Head {
		dst = appendPattern(dst, body)
	}
	return dst
}

// AppendInterim appends an interim answer of status 100, 102 or 103 (RFC 9110
// 15.2, RFC 8297). One of 103 names a style sheet.
func AppendInterim(dst []byte, status int) []byte {
	dst = strconv.AppendInt(append(dst, "HTTP/1.1 "...), int64(status), 10)
	dst = append(append(append(dst, ' '), Reason(status)...), "\r\n"...)
	if status == 103 {
		dst = append(dst, "Link: </style.css>; rel=preload; as=style\r\n"...)
	}
	return append(dst, "\r\n"...)
}

func appendInt(dst []byte, name string, v int) []byte {
	dst = strconv.AppendInt(append(dst, name...), int64(v), 10)
	return append(dst, "\r\n"...)
}

// pattern is one line of the body that AppendResponse writes: 64 bytes.
const pattern = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.\n"

// appendPattern appends n bytes of the repeated pattern.
func appendPattern(dst []byte, n int) []byte {
	start := len(dst)
	dst = append(dst, pattern[:min(n, len(pattern))]...)
	for have := len(dst) - start; have < n; have = len(dst) - start {
		// have is a multiple of the pattern: the copy continues it.
		dst = append(dst, dst[start:start+min(have, n-have)]...)
	}
	return dst
}

// Reason is the standard reason phrase of a status (RFC 9110 15, RFC 4918,
// RFC 6585, RFC 7725, RFC 8297, RFC 8470), empty for one without.
func Reason(status int) string {
	if status < 0 || status >= len(reasons) {
		return ""
	}
	return reasons[status]
}

var reasons = [...]string{
	100: "Continue", 101: "Switching Protocols", 102: "Processing", 103: "Early Hints",
	200: "OK", 201: "Created", 202: "Accepted", 203: "Non-Authoritative Information",
	204: "No Content", 205: "Reset Content", 206: "Partial Content", 207: "Multi-Status",
	300: "Multiple Choices", 301: "Moved Permanently", 302: "Found", 303: "See Other",
	304: "Not Modified", 305: "Use Proxy", 307: "Temporary Redirect", 308: "Permanent Redirect",
	400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden",
	404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable",
	407: "Proxy Authentication Required", 408: "Request Timeout", 409: "Conflict", 410: "Gone",
	411: "Length Required", 412: "Precondition Failed", 413: "Content Too Large",
	414: "URI Too Long", 415: "Unsupported Media Type", 416: "Range Not Satisfiable",
	417: "Expectation Failed", 421: "Misdirected Request", 422: "Unprocessable Content",
	423: "Locked", 424: "Failed Dependency", 425: "Too Early", 426: "Upgrade Required",
	428: "Precondition Required", 429: "Too Many Requests", 431: "Request Header Fields Too Large",
	451: "Unavailable For Legal Reasons",
	500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway",
	503: "Service Unavailable", 504: "Gateway Timeout", 505: "HTTP Version Not Supported",
	507: "Insufficient Storage", 511: "Network Authentication Required",
}
