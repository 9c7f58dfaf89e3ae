package http1

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"
)

func TestResponseCases(t *testing.T) {
	var file struct {
		Cases []struct {
			Name     string
			Method   string
			Reused   bool `json:"reused_connection"`
			Bytes    string
			EOFAfter bool `json:"eof_after"`
			Expect   struct {
				Outcome    string
				Class      string
				Status     int
				BodyBytes  int64 `json:"body_bytes"`
				Reuse      bool
				RetryAfter *int64 `json:"retry_after_s"`
			}
		}
	}
	readJSON(t, "testdata/http1-responses.json", &file)
	if len(file.Cases) < 29 {
		t.Fatalf("%d cases, want at least 29", len(file.Cases))
	}
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			in := []byte(c.Bytes)
			p, r := checkAnswer(t, in, c.Method == "HEAD", c.Reused, c.EOFAfter, cutSets(len(in)))
			if p.Reuse() != c.Expect.Reuse {
				t.Errorf("reuse = %v, want %v", p.Reuse(), c.Expect.Reuse)
			}
			if c.Expect.Outcome == "error" {
				if r.done || r.fault.String() != c.Expect.Class {
					t.Errorf("done %v, fault %v; want %s", r.done, r.fault, c.Expect.Class)
				}
				return
			}
			if !r.done || r.consumed != len(in) || p.Status() != c.Expect.Status || p.BodyBytes() != c.Expect.BodyBytes {
				t.Errorf("%+v, status %d, body %d; want done, all %d bytes, status %d, body %d",
					r, p.Status(), p.BodyBytes(), len(in), c.Expect.Status, c.Expect.BodyBytes)
			}
			a, ok := p.RetryAfter()
			if want := c.Expect.RetryAfter; ok != (want != nil) || ok && a.Wait(0) != time.Duration(*want)*time.Second {
				t.Errorf("retry-after %v %v, want %v", a, ok, want)
			}
		})
	}
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

const ok200 = "HTTP/1.1 200 OK\r\n"

// answerRows complete the shared cases. rest is what must be left behind a
// complete answer.
var answerRows = []struct {
	why    string
	in     string
	head   bool
	reused bool
	eof    bool
	fault  Fault
	status int
	body   int64
	reuse  bool
	rest   string
}{
	{why: "lines may end in a bare LF (RFC 9112 2.2)", in: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", status: 200, body: 2, reuse: true},
	{why: "a folded field line is refused", in: ok200 + "X-A: 1\r\n  2\r\n\r\n", fault: BadHeader},
	{why: "space before the first field is refused", in: ok200 + " X-A: 1\r\n\r\n", fault: BadHeader},
	{why: "space before the colon is refused", in: ok200 + "Content-Length : 2\r\n\r\nok", fault: BadHeader},
	{why: "a field line needs a colon", in: ok200 + "Content-Length\r\n\r\n", fault: BadHeader},
	{why: "a field line needs a name", in: ok200 + ": 1\r\n\r\n", fault: BadHeader},
	{why: "a name is a token: no bytes beyond ASCII", in: ok200 + "X-\xc3\xa4: 1\r\n\r\n", fault: BadHeader},
	{why: "a name is a token: no delimiters behind a word of letters", in: ok200 + "Abcdefghi(j): 1\r\n\r\n", fault: BadHeader},
	{why: "a comma behind a dash is no token", in: ok200 + "Abc-,ef: 1\r\n\r\n", fault: BadHeader},
	{why: "names of digits and marks are tokens", in: ok200 + "X-2_.~!#$%&'*+^`|: 1\r\nContent-Length: 0\r\n\r\n", status: 200, reuse: true},
	{why: "upper-case names", in: ok200 + "CONTENT-LENGTH: 2\r\nCONNECTION: CLOSE\r\n\r\nok", status: 200, body: 2},
	{why: "names of the same length are not taken for others", in: ok200 + "Content-Lengti: 9\r\nConnectiom: close\r\nContent-Length: 0\r\n\r\n", status: 200, reuse: true},
	{why: "space around a length", in: ok200 + "Content-Length: \t 2 \t\r\n\r\nok", status: 200, body: 2, reuse: true},
	{why: "leading zeros of a length", in: ok200 + "Content-Length: 0000000000000000000000002\r\n\r\nok", status: 200, body: 2, reuse: true},
	{why: "a list of equal lengths", in: ok200 + "Content-Length: 2, 2\r\n\r\nok", status: 200, body: 2, reuse: true},
	{why: "a list of unequal lengths", in: ok200 + "Content-Length: 2, 3\r\n\r\nok", fault: BadFraming},
	{why: "a list with an empty element", in: ok200 + "Content-Length: 2,\r\n\r\nok", fault: BadFraming},
	{why: "a length with text behind", in: ok200 + "Content-Length: 2 bytes\r\n\r\nok", fault: BadFraming},
	{why: "an empty length", in: ok200 + "Content-Length:\r\n\r\nok", fault: BadFraming},
	{why: "the largest length", in: ok200 + "Content-Length: 9223372036854775807\r\n\r\nok", eof: true, fault: TruncatedBody, body: 2},
	{why: "one more than the largest length", in: ok200 + "Content-Length: 9223372036854775808\r\n\r\nok", fault: BadFraming},
	{why: "HEAD of a chunked answer has no body", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n", head: true, status: 200, reuse: true},
	{why: "HEAD without any length may be followed by another answer", in: ok200 + "\r\n", head: true, status: 200, reuse: true},
	{why: "a body behind the answer to HEAD belongs to nothing", in: ok200 + "Content-Length: 2\r\n\r\nok", head: true, status: 200, reuse: true, rest: "ok"},
	{why: "304 with chunked has no body", in: "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", status: 304, reuse: true},
	{why: "204 with a length has no body", in: "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n", status: 204, reuse: true},
	{why: "an answer behind a complete one is left", in: ok200 + "Content-Length: 2\r\n\r\nok" + ok200, status: 200, body: 2, reuse: true, rest: ok200},
	{why: "chunked is compared in any case", in: ok200 + "transfer-encoding: CHUNKED\r\n\r\n1\r\nx\r\n0\r\n\r\n", status: 200, body: 1, reuse: true},
	{why: "gzip inside chunked is framed by chunks", in: ok200 + "Transfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", status: 200, body: 1, reuse: true},
	{why: "codings over several lines are one list", in: ok200 + "Transfer-Encoding: gzip;q=1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", status: 200, body: 1, reuse: true},
	{why: "a coding that is not chunked lasts to the end (RFC 9112 6.3 rule 4)", in: ok200 + "Transfer-Encoding: gzip\r\n\r\nabc", eof: true, status: 200, body: 3},
	{why: "chunked that is not last does not frame", in: ok200 + "Transfer-Encoding: chunked, gzip\r\n\r\nabc", eof: true, status: 200, body: 3},
	{why: "chunked twice", in: ok200 + "Transfer-Encoding: chunked, chunked\r\n\r\n", fault: BadFraming},
	{why: "chunked twice over two lines", in: ok200 + "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", fault: BadFraming},
	{why: "chunked has no parameters", in: ok200 + "Transfer-Encoding: chunked;a=b\r\n\r\n", fault: BadFraming},
	{why: "an empty transfer coding", in: ok200 + "Transfer-Encoding:\r\n\r\n", fault: BadFraming},
	{why: "a quoted transfer coding", in: ok200 + "Transfer-Encoding: gzip;a=\"x,chunked\"\r\n\r\n", fault: BadFraming},
	{why: "chunked in HTTP/1.0 is read, and the connection not used again (RFC 9112 6.1)", in: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", status: 200, body: 1},
	{why: "spaces behind a chunk size", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n1  \r\nx\r\n0 ;a\r\n\r\n", status: 200, body: 1, reuse: true},
	{why: "a chunk line must end in CR LF", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n", fault: BadFraming},
	{why: "a CR inside a chunk extension", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n1;a\rb\r\nx\r\n0\r\n\r\n", fault: BadFraming},
	{why: "chunk data longer than its size", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n", fault: BadFraming, body: 1},
	{why: "CR without LF behind chunk data", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\rz", fault: BadFraming, body: 1},
	{why: "an empty chunk size", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n;a\r\n", fault: BadFraming},
	{why: "a signed chunk size", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", fault: BadFraming},
	{why: "a chunk size with prefix", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n", fault: BadFraming},
	{why: "the largest chunk size", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\nab", eof: true, fault: TruncatedBody, body: 2},
	{why: "one more than the largest chunk size", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\nab", fault: BadFraming},
	{why: "several zeros end the chunks too", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n000\r\n\r\n", status: 200, reuse: true},
	{why: "a trailer line without colon", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-Sum\r\n\r\n", fault: BadHeader},
	{why: "framing fields in trailers are ignored", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 9\r\nConnection: close\r\n\r\n", status: 200, reuse: true},
	{why: "a close within the trailers", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n", eof: true, fault: TruncatedBody},
	{why: "a close between chunks", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", eof: true, fault: TruncatedBody, body: 1},
	{why: "close is stronger than keep-alive", in: ok200 + "Connection: keep-alive\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", status: 200},
	{why: "connection list with empty elements and tabs", in: ok200 + "Connection: ,\tfoo ,, close\t,\r\nContent-Length: 0\r\n\r\n", status: 200},
	{why: "closer is not close", in: ok200 + "Connection: closer\r\nContent-Length: 0\r\n\r\n", status: 200, reuse: true},
	{why: "HTTP/1.0 closes by default", in: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200, body: 2},
	{why: "HTTP/1.0 keep-alive without length lasts to the end", in: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nok", eof: true, status: 200, body: 2},
	{why: "a CR is no dash", in: "HTTP/1.0 200 OK\r\nConnection: keep\ralive\r\nContent-Length: 0\r\n\r\n", status: 200},
	{why: "a higher minor version is read as 1.1", in: "HTTP/1.9 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200, reuse: true},
	{why: "HTTP/2 is not this protocol", in: "HTTP/2.0 200 OK\r\n", fault: BadStatusLine},
	{why: "lower-case version", in: "http/1.1 200 OK\r\n", fault: BadStatusLine},
	{why: "a TLS alert has no line end and is found at once", in: "\x15\x03\x01\x00\x02\x02\x46", fault: BadStatusLine},
	{why: "a version without digit", in: "HTTP/1.x 200 OK\r\n", fault: BadStatusLine},
	{why: "a line that ends in the version", in: "HTTP/1.1\n200 OK\r\n\r\n", fault: BadStatusLine},
	{why: "a line that ends behind the version", in: "HTTP/1.1 \n200 OK\r\n\r\n", fault: BadStatusLine},
	{why: "a status of two digits", in: "HTTP/1.1 20 OK\r\n\r\n", fault: BadStatusLine},
	{why: "a status of letters", in: "HTTP/1.1 2x0 OK\r\n\r\n", fault: BadStatusLine},
	{why: "a status below 100", in: "HTTP/1.1 099 Low\r\n\r\n", fault: BadStatusLine},
	{why: "a reason must be behind a space", in: "HTTP/1.1 200\tOK\r\n\r\n", fault: BadStatusLine},
	{why: "a CR behind the status is not its end", in: "HTTP/1.1 200\rOK\r\n\r\n", fault: BadStatusLine},
	{why: "an empty reason behind a space, bare LF", in: "HTTP/1.1 200 \nContent-Length: 0\n\n", status: 200, reuse: true},
	{why: "no reason, bare LF", in: "HTTP/1.1 200\nContent-Length: 0\n\n", status: 200, reuse: true},
	{why: "an empty line before the answer", in: "\r\nHTTP/1.1 200 OK\r\n\r\n", fault: BadStatusLine},
	{why: "a code that is not standard passes", in: "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", status: 999, reuse: true},
	{why: "fields of an interim answer are not the answer's", in: "HTTP/1.1 103 Hints\r\nContent-Length: 9\r\nConnection: close\r\nRetry-After: 3\r\nLatencylab-Replica: 4\r\n\r\n" + ok200 + "Content-Length: 0\r\n\r\n", status: 200, reuse: true},
	{why: "several interim answers to HEAD", in: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + ok200 + "Content-Length: 5\r\n\r\n", head: true, status: 200, reuse: true},
	{why: "a close behind an interim answer", in: "HTTP/1.1 100 Continue\r\n\r\n", reused: true, eof: true, fault: ClosedBeforeResponse},
	{why: "a close within the status line", in: "HTT", reused: true, eof: true, fault: TruncatedHeader},
	{why: "a close within an interim head", in: "HTTP/1.1 100 Continue\r\n", eof: true, fault: TruncatedHeader},
	{why: "a close within the fields", in: ok200, eof: true, fault: TruncatedHeader},
	{why: "a close behind a complete answer", in: ok200 + "Content-Length: 2\r\n\r\nok", reused: true, eof: true, status: 200, body: 2, reuse: true},
	{why: "a body to the end may be empty", in: ok200 + "\r\n", eof: true, status: 200},
	{why: "NUL in a value that is not used", in: ok200 + "X: \x00\r\nContent-Length: 0\r\n\r\n", status: 200, reuse: true},
	{why: "the longest line", in: ok200 + "X: " + strings.Repeat("v", MaxLine-5) + "\r\nContent-Length: 0\r\n\r\n", status: 200, reuse: true},
	{why: "a line one byte too long", in: ok200 + "X: " + strings.Repeat("v", MaxLine-4) + "\r\nContent-Length: 0\r\n\r\n", fault: HeaderTooLarge},
	{why: "a line without end", in: ok200 + strings.Repeat("v", MaxLine+9), fault: HeaderTooLarge},
	{why: "a status line without end", in: ok200[:16] + strings.Repeat("v", MaxLine+9), fault: HeaderTooLarge},
	{why: "a chunk extension without end", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("v", MaxLine+9), fault: HeaderTooLarge},
	{why: "the largest head", in: headOf(MaxHead), status: 200, reuse: true},
	{why: "a head one byte too large", in: headOf(MaxHead + 1), fault: HeaderTooLarge},
	{why: "a head that fills the limit before its end", in: strings.TrimSuffix(headOf(MaxHead+2), "\r\n"), fault: HeaderTooLarge},
	{why: "the longest chunk line", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("v", MaxLine-4) + "\r\nx\r\n0\r\n\r\n", status: 200, body: 1, reuse: true},
	{why: "a chunk line one byte too long", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("v", MaxLine-3) + "\r\nx\r\n0\r\n\r\n", fault: HeaderTooLarge},
	{why: "interim answers without end", in: strings.Repeat("HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n", 3000), fault: HeaderTooLarge},
	{why: "trailers without end", in: ok200 + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X-Sum: 1234567890\r\n", 5000), fault: HeaderTooLarge},
	{why: "many lines without colon do not hide behind the limit", in: ok200 + strings.Repeat("x\r\n", 40), fault: BadHeader},
}

// headOf returns an answer whose head has n bytes in lines within MaxLine.
func headOf(n int) string {
	b := ok200 + "Content-Length: 0\r\n"
	for len(b) < n-2-8000 {
		b += "X: " + strings.Repeat("v", 4000) + "\r\n"
	}
	return b + "X: " + strings.Repeat("v", n-2-5-len(b)) + "\r\n\r\n"
}

func TestResponseTable(t *testing.T) {
	for _, row := range answerRows {
		t.Run(row.why, func(t *testing.T) {
			in := []byte(row.in)
			p, r := checkAnswer(t, in, row.head, row.reused, row.eof, cutSets(len(in)))
			if r.fault != row.fault || r.done != (row.fault == FaultNone) {
				t.Fatalf("%+v, want fault %v", r, row.fault)
			}
			if p.BodyBytes() != row.body || p.Reuse() != row.reuse {
				t.Errorf("body %d, reuse %v; want %d, %v", p.BodyBytes(), p.Reuse(), row.body, row.reuse)
			}
			if row.fault != FaultNone {
				return
			}
			if p.Status() != row.status {
				t.Errorf("status %d, want %d", p.Status(), row.status)
			}
			if rest := row.in[r.consumed:]; rest != row.rest {
				t.Errorf("left %q, want %q", rest, row.rest)
			}
			if !p.Started() || p.Target() || p.Replica() != -1 {
				t.Errorf("started %v, target %v, replica %d; want true, false, -1", p.Started(), p.Target(), p.Replica())
			}
			if _, ok := p.RetryAfter(); ok {
				t.Error("a Retry-After that was not sent")
			}
		})
	}
}

// TestResponseAgainstNetHTTP compares status and body length with net/http for
// every row that it reads too.
func TestResponseAgainstNetHTTP(t *testing.T) {
	compared := 0
	for _, row := range answerRows {
		// net/http takes a coded HTTP/1.0 body for one to the end of the stream.
		if row.fault != FaultNone || strings.HasPrefix(row.in, "HTTP/1.0") && strings.Contains(row.in, "chunked") {
			continue
		}
		req := &http.Request{Method: http.MethodGet}
		if row.head {
			req.Method = http.MethodHead
		}
		in := bufio.NewReader(strings.NewReader(row.in))
		res, err := http.ReadResponse(in, req)
		for err == nil && res.StatusCode < 200 {
			res, err = http.ReadResponse(in, req)
		}
		if err != nil {
			continue
		}
		n, err := io.Copy(io.Discard, res.Body)
		if err != nil {
			continue
		}
		compared++
		if res.StatusCode != row.status || n != row.body {
			t.Errorf("%s: net/http reads status %d, body %d; want %d, %d", row.why, res.StatusCode, n, row.status, row.body)
		}
	}
	if compared < 25 {
		t.Errorf("%d rows compared, want at least 25", compared)
	}
}

func TestResponseFields(t *testing.T) {
	const end = "Content-Length: 0\r\n\r\n"
	rows := []struct {
		why     string
		fields  string
		target  bool
		replica int
		wait    time.Duration
		after   bool
	}{
		{why: "a target names its replica", fields: "Latencylab-Replica: 2\r\n", target: true, replica: 2},
		{why: "replica 0, lower case", fields: "latencylab-replica:0\r\n", target: true, replica: 0},
		{why: "a replica that is no number", fields: "Latencylab-Replica: x\r\n", target: true, replica: -1},
		{why: "a replica beyond 31 bits", fields: "Latencylab-Replica: 2147483647\r\n", target: true, replica: -1},
		{why: "the largest replica", fields: "Latencylab-Replica: 2147483646\r\n", target: true, replica: 2147483646},
		{why: "a field of like name", fields: "Latencylab-Replicb: 1\r\n", replica: -1},
		{why: "a delay", fields: "RETRY-AFTER: 7\r\n", replica: -1, wait: 7 * time.Second, after: true},
		{why: "an invalid delay is none", fields: "Retry-After: -7\r\n", replica: -1},
		{why: "the first valid delay counts", fields: "Retry-After: soon\r\nRetry-After: 3\r\nRetry-After: 9\r\n", replica: -1, wait: 3 * time.Second, after: true},
		{why: "a date", fields: "Retry-After: Thu, 01 Jan 1970 00:01:00 GMT\r\n", replica: -1, wait: time.Minute, after: true},
		{why: "a date of two-digit year", fields: "Retry-After: Thursday, 01-Jan-70 00:01:00 GMT\r\n", replica: -1, wait: time.Minute, after: true},
	}
	for _, row := range rows {
		in := []byte("HTTP/1.1 503 Busy\r\n" + row.fields + end)
		p, r := checkAnswer(t, in, false, false, false, cutSets(len(in)))
		a, ok := p.RetryAfter()
		if !r.done || p.Target() != row.target || p.Replica() != row.replica || ok != row.after || a.Wait(0) != row.wait {
			t.Errorf("%s: %+v target %v replica %d wait %v %v", row.why, r, p.Target(), p.Replica(), a.Wait(0), ok)
		}
	}
}

func TestResponseStarted(t *testing.T) {
	var p Response
	in := "HTTP/1.1 100 Continue\r\n\r\n" + ok200 + "Content-Length: 1\r\n\r\nx"
	interim := strings.Index(in, ok200)
	head := strings.Index(in, "x")
	for i := 1; i < len(in); i++ {
		p.Begin(false, false)
		p.Feed([]byte(in[:i]))
		if got, want := p.Started(), i >= interim+10; got != want {
			t.Errorf("after %d bytes: started %v, want %v", i, got, want)
		}
		if got, want := p.HeadDone(), i >= head; got != want {
			t.Errorf("after %d bytes: head done %v, want %v", i, got, want)
		}
		if got := p.Status() == 200; got != (i >= interim+len(ok200)) {
			t.Errorf("after %d bytes: status %d", i, p.Status())
		}
	}
}

func TestResponseSize(t *testing.T) {
	if n := unsafe.Sizeof(Response{}); n > 64 {
		t.Errorf("Response has %d bytes, want at most 64", n)
	}
}

func TestResponseSequence(t *testing.T) {
	// One connection: the parser is used again after Begin, and the bytes left
	// by one answer are the next.
	in := []byte(ok200 + "Content-Length: 1\r\n\r\na" + ok200 + "Transfer-Encoding: chunked\r\n\r\n2\r\nbc\r\n0\r\n\r\n" + ok200 + "Content-Length: 4\r\n\r\n" + ok200 + "\r\nd")
	var p Response
	for i, want := range []int64{1, 2, 0, 1} {
		p.Begin(i == 2, i > 0)
		n, done, f := p.Feed(in)
		if i == 3 {
			done, f = p.EOF(len(in) - n)
		}
		if !done || f != FaultNone || p.BodyBytes() != want || p.WireBytes() != uint64(n) {
			t.Fatalf("answer %d: done %v, %v, body %d", i, done, f, p.BodyBytes())
		}
		in = in[n:]
	}
	if len(in) != 0 {
		t.Errorf("left %q", in)
	}
}

func TestFaultNames(t *testing.T) {
	seen := make(map[string]bool)
	for f := FaultNone; f < numFaults; f++ {
		if s := f.String(); s == "" || seen[s] {
			t.Errorf("fault %d has the name %q, want one of its own", f, s)
		}
		seen[f.String()] = true
	}
	if got := numFaults.String(); got != "unknown_fault" {
		t.Errorf("name %q of a value that is no fault", got)
	}
}
