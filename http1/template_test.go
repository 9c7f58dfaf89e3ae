package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const testRun = "0123456789abcdefXYZ"

func TestTemplateBytes(t *testing.T) {
	rows := []struct {
		why                  string
		method, target, host string
		headers              []Header
		body                 string
		lab                  *LabHeaders
		want                 string
	}{
		{why: "the plain request", method: "GET", target: "/", host: "h:1",
			want: "GET / HTTP/1.1\r\nHost: h:1\r\nUser-Agent: latencylab/1\r\n\r\n"},
		{why: "the user's Host wins, in any case", method: "GET", target: "/", host: "h:1", headers: []Header{{"hOST", "x"}},
			want: "GET / HTTP/1.1\r\nhOST: x\r\nUser-Agent: latencylab/1\r\n\r\n"},
		{why: "an empty Host of the user's, none of ours", method: "GET", target: "/", host: "", headers: []Header{{"Host", ""}},
			want: "GET / HTTP/1.1\r\nHost: \r\nUser-Agent: latencylab/1\r\n\r\n"},
		{why: "the user's User-Agent wins", method: "GET", target: "/", host: "h", headers: []Header{{"USER-AGENT", "x"}},
			want: "GET / HTTP/1.1\r\nHost: h\r\nUSER-AGENT: x\r\n\r\n"},
		{why: "names repeat in their order, values lose the space around", method: "GET", target: "/a?b", host: "[::1]:8080", headers: []Header{{"A", " 1\t"}, {"B", "2"}, {"A", "3"}},
			want: "GET /a?b HTTP/1.1\r\nHost: [::1]:8080\r\nUser-Agent: latencylab/1\r\nA: 1\r\nB: 2\r\nA: 3\r\n\r\n"},
		{why: "a body has its length", method: "POST", target: "/", host: "h", body: "abc",
			want: "POST / HTTP/1.1\r\nHost: h\r\nUser-Agent: latencylab/1\r\nContent-Length: 3\r\n\r\nabc"},
		{why: "an empty POST says so", method: "POST", target: "/", host: "h",
			want: "POST / HTTP/1.1\r\nHost: h\r\nUser-Agent: latencylab/1\r\nContent-Length: 0\r\n\r\n"},
		{why: "the user's right length is sent once", method: "PUT", target: "/", host: "h", body: "abc", headers: []Header{{"content-length", " 3"}, {"Content-Length", "3"}},
			want: "PUT / HTTP/1.1\r\nHost: h\r\nUser-Agent: latencylab/1\r\nContent-Length: 3\r\n\r\nabc"},
		{why: "a length of 0 with GET", method: "GET", target: "/", host: "h", headers: []Header{{"Content-Length", "0"}},
			want: "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: latencylab/1\r\nContent-Length: 0\r\n\r\n"},
		{why: "lab fields at fixed width", method: "GET", target: "/", host: "h", lab: &LabHeaders{Run: testRun},
			want: "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: latencylab/1\r\nLatencylab-Run: " + testRun +
				"\r\nLatencylab-Call: 00000000000000000000\r\nLatencylab-Attempt: 0000000000\r\n\r\n"},
		{why: "lab fields of the user's when there are none of ours", method: "GET", target: "/", host: "h", headers: []Header{{"Latencylab-Call", "7"}},
			want: "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: latencylab/1\r\nLatencylab-Call: 7\r\n\r\n"},
		{why: "OPTIONS *", method: "OPTIONS", target: "*", host: "h",
			want: "OPTIONS * HTTP/1.1\r\nHost: h\r\nUser-Agent: latencylab/1\r\n\r\n"},
		{why: "absolute form for a proxy", method: "GET", target: "http://x/a", host: "x",
			want: "GET http://x/a HTTP/1.1\r\nHost: x\r\nUser-Agent: latencylab/1\r\n\r\n"},
	}
	for _, row := range rows {
		tmpl, err := NewRequestTemplate(row.method, row.target, row.host, row.headers, []byte(row.body), row.lab)
		if err != nil {
			t.Errorf("%s: %v", row.why, err)
			continue
		}
		if diff := cmp.Diff(row.want, string(tmpl.Bytes())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.why, diff)
		}
		// A server must read exactly one request out of it.
		p, r := checkRequest(t, tmpl.Bytes(), cutSets(len(tmpl.Bytes())))
		if !r.done || r.pending != 0 || p.Method() != tmpl.Method() || p.Head() != tmpl.Head() || p.KeepAlive() == tmpl.Close() || p.BodyBytes() != int64(len(row.body)) {
			t.Errorf("%s: read as %+v %s", row.why, r, requestView(&p))
		}
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(tmpl.Bytes())))
		if err != nil {
			t.Errorf("%s: net/http: %v", row.why, err)
			continue
		}
		if body, err := io.ReadAll(req.Body); err != nil || string(body) != row.body {
			t.Errorf("%s: net/http reads body %q, %v", row.why, body, err)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	lab := &LabHeaders{Run: testRun}
	rows := []struct {
		why                  string
		method, target, host string
		headers              []Header
		body                 string
		lab                  *LabHeaders
		want                 string // part of the error
	}{
		{"no method", "", "/", "h", nil, "", nil, `method "" is not a token`},
		{"a method with a space", "GE T", "/", "h", nil, "", nil, `method "GE T" is not a token`},
		{"a tunnel", "CONNECT", "/", "h", nil, "", nil, "opens a tunnel"},
		{"no target", "GET", "", "h", nil, "", nil, `target "" does not start with a slash`},
		{"a relative target", "GET", "a", "h", nil, "", nil, `target "a" does not start with a slash`},
		{"* is for OPTIONS", "GET", "*", "h", nil, "", nil, `target "*" does not start with a slash`},
		{"a space in the target", "GET", "/a b", "h", nil, "", nil, `has the byte 0x20 at 2`},
		{"a line end in the target", "GET", "/\r\nX: y", "h", nil, "", nil, `has the byte 0x0d at 1`},
		{"a target beyond ASCII", "GET", "/\xc3\xa4", "h", nil, "", nil, `want it percent-encoded`},
		{"a fragment", "GET", "/#a", "h", nil, "", nil, "has a fragment"},
		{"no host", "GET", "/", "", nil, "", nil, "host is empty"},
		{"a host with a path", "GET", "/", "h/a", nil, "", nil, `host "h/a" has '/' at 1`},
		{"a host with a line end", "GET", "/", "h\n", nil, "", nil, `has '\n' at 1`},
		{"an international host that is not in ASCII", "GET", "/", "münchen.example", nil, "", nil, `host "münchen.example" has 'ü' at 1, want an international name in its ASCII form`},
		{"an IPv6 host without brackets", "GET", "/", "::1", nil, "", nil, "without brackets"},
		{"two hosts of the user's", "GET", "/", "h", []Header{{"Host", "a"}, {"host", "b"}}, "", nil, `header "host" is given twice ("a" and "b")`},
		{"an empty name", "GET", "/", "h", []Header{{"", "a"}}, "", nil, `header name "" is not a token`},
		{"a name with a colon", "GET", "/", "h", []Header{{"A:", "a"}}, "", nil, `header name "A:" is not a token`},
		{"CR in a value", "GET", "/", "h", []Header{{"A", "b\rc"}}, "", nil, `header "A" has the control character 0x0d at 1`},
		{"LF in a value", "GET", "/", "h", []Header{{"A", "\nb"}}, "", nil, `0x0a at 0`},
		{"NUL in a value", "GET", "/", "h", []Header{{"A", "bc\x00"}}, "", nil, `0x00 at 2`},
		{"a line end in Host", "GET", "/", "h", []Header{{"Host", "a\r\nB: c"}}, "", nil, `0x0d at 1`},
		{"a length that is not the body's", "POST", "/", "h", []Header{{"Content-Length", "4"}}, "abc", nil, `header "Content-Length" = "4", but the body has 3 bytes`},
		{"a length that is no number", "POST", "/", "h", []Header{{"Content-Length", "+3"}}, "abc", nil, "but the body has 3 bytes"},
		{"a transfer coding", "POST", "/", "h", []Header{{"transfer-encoding", "chunked"}}, "abc", nil, "a body is sent with its length"},
		{"a lab field twice", "GET", "/", "h", []Header{{"latencylab-call", "1"}}, "", lab, "is set for every attempt"},
		{"a short run key", "GET", "/", "h", nil, "", &LabHeaders{Run: "a"}, `run key "a" has 1 bytes, want 19`},
		{"a run key with a space", "GET", "/", "h", nil, "", &LabHeaders{Run: " 123456789012345678"}, "want visible ASCII"},
	}
	for _, row := range rows {
		tmpl, err := NewRequestTemplate(row.method, row.target, row.host, row.headers, []byte(row.body), row.lab)
		if err == nil || tmpl != nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want %q", row.why, err, row.want)
		}
	}
}

func TestTemplatePatch(t *testing.T) {
	tmpl, err := NewRequestTemplate("POST", "/a", "h", []Header{{"Connection", "x, CLOSE"}, {"connection", "y"}}, []byte("body"), &LabHeaders{Run: testRun})
	if err != nil {
		t.Fatal(err)
	}
	if !tmpl.Close() {
		t.Error("Close is false for Connection: close")
	}
	other := tmpl.Clone()
	before := string(other.Bytes())
	for _, call := range []uint64{1, 0, 99, 100, 12345678901234567890, 1<<64 - 1, 7} {
		for _, attempt := range []uint32{1, 10, 1<<32 - 1, 0} {
			tmpl.SetCall(call)
			tmpl.SetAttempt(attempt)
			p, r := checkRequest(t, tmpl.Bytes(), [][]int{nil})
			gotCall, _ := p.LabCall()
			gotAttempt, _ := p.LabAttempt()
			run, _ := p.LabRun()
			if !r.done || r.pending != 0 || gotCall != call || gotAttempt != attempt || run.String() != testRun || len(tmpl.Bytes()) != len(before) {
				t.Fatalf("call %d, attempt %d: %+v %s", call, attempt, r, requestView(&p))
			}
		}
	}
	if string(other.Bytes()) != before {
		t.Error("a patch shows in a clone")
	}
	plain, err := NewRequestTemplate("GET", "/", "h", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := string(plain.Bytes())
	plain.SetCall(7)
	plain.SetAttempt(7)
	if string(plain.Bytes()) != want {
		t.Error("a template without lab fields was patched")
	}
}

func TestTemplateField(t *testing.T) {
	tm, err := NewRequestTemplate("POST", "/", "h", []Header{{"A", "1"}}, []byte("body\r\n\r\n"), &LabHeaders{Run: testRun})
	if err != nil {
		t.Fatal(err)
	}
	if err := tm.AddField("a", 4); err == nil || err.Error() != `header "a" is set for every attempt, want it not given` {
		t.Errorf("a field of the user's: %v", err)
	}
	if err := tm.AddField("x-deadline-ms", 6); err != nil {
		t.Fatal(err)
	}
	c := tm.Clone()
	c.SetCall(7)
	c.SetField([]byte("250"))
	c.SetField([]byte("1234567")) // does not fit
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(c.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("X-Deadline-Ms") != "000250" || r.Header.Get("Latencylab-Call") != "00000000000000000007" || string(body) != "body\r\n\r\n" {
		t.Errorf("header %v, body %q", r.Header, body)
	}
	if !bytes.Contains(tm.Bytes(), []byte("x-deadline-ms: 000000\r\n")) {
		t.Error("a clone shares its bytes")
	}
}
