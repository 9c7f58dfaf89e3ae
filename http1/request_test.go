package http1

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

const get = "GET / HTTP/1.1\r\nHost: x\r\n"

// requestRows are requests and what a server makes of them.
var requestRows = []struct {
	why    string
	in     string
	fault  Fault
	method Method
	path   string // "" means "/"
	body   int64
	close  bool // the connection ends after the answer
	rest   string
	more   bool // neither done nor at fault: more bytes must come
	expect bool
}{
	{why: "the shortest request", in: get + "\r\n", method: MethodGet},
	{why: "lines may end in a bare LF", in: "GET / HTTP/1.1\nHost: x\n\n", method: MethodGet},
	{why: "empty lines before the request line are skipped", in: "\r\n\n\r\n" + get + "\r\n", method: MethodGet},
	{why: "HEAD", in: "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n", method: MethodHead, path: "/a"},
	{why: "POST with a length", in: "POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", method: MethodPost, path: "/a", body: 3},
	{why: "PUT in chunks with extension and trailer", in: "PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nA: b\r\n\r\n", method: MethodPut, path: "/a", body: 3},
	{why: "GET with a body", in: get + "Content-Length: 2\r\n\r\nab", method: MethodGet, body: 2},
	{why: "a length of 0", in: "DELETE / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", method: MethodDelete},
	{why: "a second request on the wire is left", in: get + "\r\n" + get, method: MethodGet, rest: get},
	{why: "a request without length has no body", in: get + "\r\nabc", method: MethodGet, rest: "abc"},
	{why: "a method of another registry", in: "PROPFIND /a HTTP/1.1\r\nHost: x\r\n\r\n", path: "/a"},
	{why: "methods are case-sensitive", in: "get / HTTP/1.1\r\nHost: x\r\n\r\n"},
	{why: "the longest method", in: "ABCDEFGHIJKLMNOP / HTTP/1.1\r\nHost: x\r\n\r\n"},
	{why: "a method one byte too long", in: "ABCDEFGHIJKLMNOPQ / HTTP/1.1\r\nHost: x\r\n\r\n", fault: UnknownMethod},
	{why: "CONNECT is not served", in: "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", fault: UnknownMethod},
	{why: "OPTIONS *", in: "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", method: MethodOptions, path: "*"},
	{why: "absolute form", in: "GET http://h:1/a/b?c HTTP/1.1\r\nHost: x\r\n\r\n", method: MethodGet, path: "/a/b"},
	{why: "absolute form without path", in: "GET http://h HTTP/1.1\r\nHost: x\r\n\r\n", method: MethodGet},
	{why: "absolute form with a query only", in: "GET http://h?q HTTP/1.1\r\nHost: x\r\n\r\n", method: MethodGet},
	{why: "a path is not decoded", in: "GET /%61//. HTTP/1.1\r\nHost: x\r\n\r\n", method: MethodGet, path: "/%61//."},
	{why: "a target without slash", in: "GET a HTTP/1.1\r\nHost: x\r\n\r\n", fault: BadRequestLine},
	{why: "no target", in: "GET HTTP/1.1\r\nHost: x\r\n\r\n", fault: BadRequestLine},
	{why: "two spaces before the target", in: "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", fault: BadRequestLine},
	{why: "a space in the target", in: "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", fault: BadRequestLine},
	{why: "a tab in the target", in: "GET /a\tb HTTP/1.1\r\nHost: x\r\n\r\n", fault: BadRequestLine},
	{why: "a CR in the target", in: "GET /a\rb HTTP/1.1\r\nHost: x\r\n\r\n", fault: BadRequestLine},
	{why: "a CR before the CR LF", in: "GET / HTTP/1.1\r\r\nHost: x\r\n\r\n", fault: BadRequestLine},
	{why: "a line of CRs", in: "\r\r\n" + get + "\r\n", fault: BadRequestLine},
	{why: "HTTP/0.9", in: "GET /\r\n", fault: BadRequestLine},
	{why: "the preface of HTTP/2", in: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", fault: UnknownVersion},
	{why: "a version of two digits", in: "GET / HTTP/1.10\r\nHost: x\r\n\r\n", fault: BadRequestLine},
	{why: "a lower-case version", in: "GET / http/1.1\r\nHost: x\r\n\r\n", fault: BadRequestLine},
	{why: "a TLS hello has no line end and is found at once", in: "\x16\x03\x01\x02\x00\x01", fault: BadRequestLine},
	{why: "a space first", in: " GET / HTTP/1.1\r\n", fault: BadRequestLine},
	{why: "a method that is no token", in: "G(T / HTTP/1.1\r\nHost: x\r\n\r\n", fault: BadRequestLine},
	{why: "HTTP/1.1 without Host", in: "GET / HTTP/1.1\r\n\r\n", fault: BadHost},
	{why: "two Host fields", in: get + "HOST: x\r\n\r\n", fault: BadHost},
	{why: "an empty Host", in: "GET / HTTP/1.1\r\nHost:\r\n\r\n", method: MethodGet},
	{why: "HTTP/1.0 needs no Host and closes", in: "GET / HTTP/1.0\r\n\r\n", method: MethodGet, close: true},
	{why: "HTTP/1.0 keep-alive", in: "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", method: MethodGet},
	{why: "Connection: close", in: get + "Connection: close\r\n\r\n", method: MethodGet, close: true},
	{why: "close in a list", in: get + "Connection: TE, Close\r\n\r\n", method: MethodGet, close: true},
	{why: "length and coding together are refused (RFC 9112 11.2)", in: get + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", fault: BadFraming},
	{why: "coding and length, the other order", in: get + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", fault: BadFraming},
	{why: "length and an unknown coding", in: get + "Content-Length: 3\r\nTransfer-Encoding: xchunked\r\n\r\nabc", fault: BadFraming},
	{why: "unequal lengths", in: get + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", fault: BadFraming},
	{why: "equal lengths", in: get + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", method: MethodGet, body: 3},
	{why: "a negative length", in: get + "Content-Length: -3\r\n\r\nabc", fault: BadFraming},
	{why: "an unknown coding", in: get + "Transfer-Encoding: gzip\r\n\r\n", fault: UnknownCoding},
	{why: "an unknown coding inside chunked", in: get + "Transfer-Encoding: gzip, chunked\r\n\r\n", fault: UnknownCoding},
	{why: "a coding of like name", in: get + "Transfer-Encoding: xchunked\r\n\r\n", fault: UnknownCoding},
	{why: "identity is not a coding of RFC 9112", in: get + "Transfer-Encoding: identity\r\n\r\n", fault: UnknownCoding},
	{why: "chunked twice", in: get + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", fault: BadFraming},
	{why: "a coding with a vertical tab", in: get + "Transfer-Encoding: \vchunked\r\n\r\n", fault: BadHeader},
	{why: "a coding in HTTP/1.0", in: "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", fault: BadFraming},
	{why: "a space before the colon", in: get + "Transfer-Encoding : chunked\r\n\r\n", fault: BadHeader},
	{why: "a folded line", in: get + "A: b\r\n c\r\n\r\n", fault: BadHeader},
	{why: "a line without colon", in: get + "A\r\n\r\n", fault: BadHeader},
	{why: "a CR inside a value", in: get + "A: b\rContent-Length: 3\r\n\r\n", fault: BadHeader},
	{why: "NUL inside a value", in: get + "A: b\x00\r\n\r\n", fault: BadHeader},
	{why: "DEL inside a long value", in: get + "A: bcdefghijklmn\x7fopq\r\n\r\n", fault: BadHeader},
	{why: "a tab and bytes beyond ASCII in a value", in: get + "A: b\tcdefghijkl\xff\xa0mnopqrst\r\n\r\n", method: MethodGet},
	{why: "chunk line with bare LF", in: get + "Transfer-Encoding: chunked\r\n\r\n0\n\r\n", fault: BadFraming},
	{why: "a length that has not all come", in: get + "Content-Length: 3\r\n\r\nab", method: MethodGet, body: 2, more: true},
	{why: "a client that waits for 100", in: get + "Content-Length: 3\r\nExpect: 100-Continue\r\n\r\n", method: MethodGet, more: true, expect: true},
	{why: "a chunked client that waits for 100", in: get + "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n", method: MethodGet, more: true, expect: true},
	{why: "a client that has begun its body waits no longer", in: get + "Content-Length: 3\r\nExpect: 100-continue\r\n\r\na", method: MethodGet, body: 1, more: true},
	{why: "nothing to wait for without a body", in: get + "Expect: 100-continue\r\n\r\n", method: MethodGet},
	{why: "HTTP/1.0 never waits for 100", in: "POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", method: MethodPost, close: true, more: true},
	{why: "the longest target", in: "GET /" + strings.Repeat("a", MaxLine-16) + " HTTP/1.1\r\nHost: x\r\n\r\n", method: MethodGet, path: "/" + strings.Repeat("a", MaxLine-16)},
	{why: "a target one byte too long", in: "GET /" + strings.Repeat("a", MaxLine-15) + " HTTP/1.1\r\nHost: x\r\n\r\n", fault: HeaderTooLarge},
	{why: "fields without end", in: get + strings.Repeat("A: 0123456789\r\n", 5000), fault: HeaderTooLarge},
	{why: "empty lines without end", in: strings.Repeat("\r\n", MaxHead/2+1), fault: HeaderTooLarge},
}

func TestRequestTable(t *testing.T) {
	if len(requestRows) < 25 {
		t.Fatalf("%d rows, want at least 25", len(requestRows))
	}
	for _, row := range requestRows {
		t.Run(row.why, func(t *testing.T) {
			in := []byte(row.in)
			p, r := checkRequest(t, in, cutSets(len(in)))
			if r.fault != row.fault || r.done != (row.fault == FaultNone && !row.more) {
				t.Fatalf("%+v, want fault %v, more %v", r, row.fault, row.more)
			}
			if row.fault != FaultNone {
				return
			}
			path := row.path
			if path == "" {
				path = "/"
			}
			if p.Method() != row.method || p.Path() != PathDigest(path) || p.BodyBytes() != row.body {
				t.Errorf("%s, want method %v, path %q = %d, body %d", requestView(&p), row.method, path, PathDigest(path), row.body)
			}
			if p.KeepAlive() == row.close || p.Expect100() != row.expect || p.WellKnown() {
				t.Errorf("%s, want close %v, expect %v", requestView(&p), row.close, row.expect)
			}
			if name, _, _ := strings.Cut(strings.TrimLeft(row.in, "\r\n"), " "); string(p.MethodName()) != name {
				t.Errorf("method name %q, want %q", p.MethodName(), name)
			}
			if rest := row.in[r.consumed:]; !row.more && rest != row.rest {
				t.Errorf("left %q, want %q", rest, row.rest)
			}
		})
	}
}

// TestRequestAgainstNetHTTP checks that what is accepted here is read alike by
// net/http, wherever that accepts it.
func TestRequestAgainstNetHTTP(t *testing.T) {
	compared := 0
	for _, row := range requestRows {
		if row.fault != FaultNone || row.more {
			continue
		}
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(row.in)))
		if err != nil {
			continue
		}
		n, err := io.Copy(io.Discard, req.Body)
		if err != nil {
			continue
		}
		compared++
		if n != row.body || req.Close != row.close {
			t.Errorf("%s: net/http reads body %d, close %v; want %d, %v", row.why, n, req.Close, row.body, row.close)
		}
	}
	if compared < 20 {
		t.Errorf("%d rows compared, want at least 20", compared)
	}
}

func TestRequestLab(t *testing.T) {
	const run24 = "123456789012345678901234"
	rows := []struct {
		why     string
		fields  string
		call    uint64
		attempt uint32
		run     string
		has     [3]bool // call, attempt, run
	}{
		{why: "as a template sends them", fields: "Latencylab-Run: 0123456789012345678\r\nLatencylab-Call: 00000000000000000042\r\nLatencylab-Attempt: 0000000003\r\n", call: 42, attempt: 3, run: "0123456789012345678", has: [3]bool{true, true, true}},
		{why: "any case, no space", fields: "latencylab-run:a\r\nLATENCYLAB-CALL:1\r\nLatencyLab-Attempt:2\r\n", call: 1, attempt: 2, run: "a", has: [3]bool{true, true, true}},
		{why: "the largest values", fields: "Latencylab-Call: 18446744073709551615\r\nLatencylab-Attempt: 4294967295\r\nLatencylab-Run: " + run24 + "\r\n", call: 1<<64 - 1, attempt: 1<<32 - 1, run: run24, has: [3]bool{true, true, true}},
		{why: "one beyond them", fields: "Latencylab-Call: 18446744073709551616\r\nLatencylab-Attempt: 4294967296\r\nLatencylab-Run: " + run24 + "5\r\n"},
		{why: "the last one counts", fields: "Latencylab-Run: abc\r\nLatencylab-Call: 1\r\nLatencylab-Run: d\r\nLatencylab-Call: 2\r\n", call: 2, run: "d", has: [3]bool{true, false, true}},
		{why: "no numbers", fields: "Latencylab-Call: x\r\nLatencylab-Attempt: -1\r\nLatencylab-Run: a b\r\n"},
		{why: "empty", fields: "Latencylab-Call:\r\nLatencylab-Attempt:\r\nLatencylab-Run:\r\n"},
		{why: "names of the same length", fields: "Latencylab-Cal1: 1\r\nLatencylab-Attemps: 1\r\nLatencylab-Ran: 1\r\n"},
		{why: "a run among bytes beyond ASCII", fields: "Latencylab-Run: \xc3\xa4\r\n"},
	}
	for _, row := range rows {
		in := []byte(get + row.fields + "\r\n")
		p, r := checkRequest(t, in, cutSets(len(in)))
		call, hasCall := p.LabCall()
		attempt, hasAttempt := p.LabAttempt()
		run, hasRun := p.LabRun()
		if !r.done || call != row.call || attempt != row.attempt || run.String() != row.run || [3]bool{hasCall, hasAttempt, hasRun} != row.has {
			t.Errorf("%s: %s", row.why, requestView(&p))
		}
	}
}

func TestRequestWellKnown(t *testing.T) {
	for target, want := range map[string]bool{
		WellKnownPath: true, WellKnownPath + "?run=1": true, "http://h" + WellKnownPath: true,
		WellKnownPath + "/": false, "/.well-known/latencyla": false, "/": false, "/?" + WellKnownPath: false,
	} {
		in := []byte("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
		p, r := checkRequest(t, in, cutSets(len(in)))
		if !r.done || p.WellKnown() != want || p.WellKnown() != (p.Path() == PathDigest(WellKnownPath)) {
			t.Errorf("target %q: well known %v, want %v", target, p.WellKnown(), want)
		}
	}
}

func TestRequestEOF(t *testing.T) {
	rows := []struct {
		why  string
		in   string
		want Fault
	}{
		{"before any byte", "", FaultNone},
		{"behind empty lines", "\r\n", FaultNone},
		{"within the request line", "GE", TruncatedHeader},
		{"within the fields", get, TruncatedHeader},
		{"within the body", get + "Content-Length: 3\r\n\r\nab", TruncatedBody},
		{"between chunks", get + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", TruncatedBody},
		{"behind a request", get + "\r\n", FaultNone},
		{"after a fault", "\x16", BadRequestLine},
	}
	for _, row := range rows {
		var p Request
		n, _, _ := p.Feed([]byte(row.in))
		for range 2 {
			if got := p.EOF(len(row.in) - n); got != row.want {
				t.Errorf("close %s: %v, want %v", row.why, got, row.want)
			}
		}
		if _, _, f := p.Feed([]byte(get)); f != row.want {
			t.Errorf("close %s: Feed gives %v, want %v", row.why, f, row.want)
		}
	}
}

func TestRequestPipeline(t *testing.T) {
	in := []byte(get + "Connection: close\r\nLatencylab-Call: 1\r\n\r\n" + "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab" + get + "\r\n")
	var p Request
	for i, want := range []Method{MethodGet, MethodPost, MethodGet} {
		p.Begin()
		n, done, f := p.Feed(in)
		if !done || f != FaultNone || p.Method() != want || p.KeepAlive() != (i > 0) {
			t.Fatalf("request %d: %v, %v, %s", i, done, f, requestView(&p))
		}
		in = in[n:]
	}
	if _, has := p.LabCall(); has || len(in) != 0 {
		t.Errorf("a call number of an earlier request, or %d bytes left", len(in))
	}
}

func TestFaultStatus(t *testing.T) {
	want := map[Fault]int{
		FaultNone: 0, HeaderTooLarge: 431, UnknownCoding: 501, UnknownMethod: 501, UnknownVersion: 505,
		BadRequestLine: 400, BadHeader: 400, BadFraming: 400, BadHost: 400,
	}
	for f, code := range want {
		if got := f.Status(); got != code {
			t.Errorf("%v is answered with %d, want %d", f, got, code)
		}
	}
}

func TestMethods(t *testing.T) {
	for m := MethodGet; m < numMethods; m++ {
		if got := ParseMethod(m.String()); got != m {
			t.Errorf("%v is read as %v", m, got)
		}
		if got, want := m.Idempotent(), m != MethodPost && m != MethodPatch; got != want {
			t.Errorf("%v idempotent = %v, want %v", m, got, want)
		}
	}
	if MethodOther.Idempotent() || numMethods.String() != "other" {
		t.Error("an unknown method is not known to be idempotent and has no name")
	}
}

func TestRequestDeadline(t *testing.T) {
	for _, c := range []struct {
		why, head string
		by        DeadlineField
		value     string
	}{
		{"none", "A: 1\r\n", NoDeadline, ""},
		{"each name, in any case", "Grpc-Timeout: 250m\r\n", DeadlineGRPC, "250m"},
		{"each name, in any case", "X-DEADLINE-MS:  00250 \r\n", DeadlineMS, "00250"},
		{"each name, in any case", "x-envoy-expected-rq-timeout-ms: 9\r\n", DeadlineEnvoy, "9"},
		{"two names of the length of a third", "Latencylab-Attempt: 1\r\nconnect-timeout-ms: 9\r\n", DeadlineConnect, "9"},
		{"two names of the length of a third", "x-request-deadline: 2026-01-31T12:00:00.000000000Z\r\n", DeadlineRFC3339, "2026-01-31T12:00:00.000000000Z"},
		{"the first one counts", "grpc-timeout: 1S\r\nx-deadline-ms: 2\r\n", DeadlineGRPC, "1S"},
		{"a value that is too long", "x-deadline-ms: " + strings.Repeat("0", MaxDeadline+1) + "\r\n", NoDeadline, ""},
	} {
		var p Request
		if _, done, f := p.Feed([]byte("GET / HTTP/1.1\r\nHost: h\r\n" + c.head + "\r\n")); !done || f != FaultNone {
			t.Fatalf("%s: done %v, fault %v", c.why, done, f)
		}
		if by, value := p.Deadline(); by != c.by || string(value) != c.value {
			t.Errorf("%s: %v = %q, want %v = %q", c.why, by, value, c.by, c.value)
		}
		if p.Begin(); p.deadlineBy != NoDeadline {
			t.Errorf("%s: the next request has it too", c.why)
		}
	}
}
