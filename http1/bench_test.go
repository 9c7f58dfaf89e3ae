package http1

import "testing"

// nginxAnswer is what nginx sends for a small file.
const nginxAnswer = "HTTP/1.1 200 OK\r\n" +
	"Server: nginx/1.22.1\r\n" +
	"Date: Mon, 30 Nov 2026 20:00:00 GMT\r\n" +
	"Content-Type: text/html\r\n" +
	"Content-Length: 6\r\n" +
	"Last-Modified: Mon, 30 Nov 2026 19:00:00 GMT\r\n" +
	"Connection: keep-alive\r\n" +
	"ETag: \"692c9a10-6\"\r\n" +
	"Accept-Ranges: bytes\r\n" +
	"\r\n" +
	"hello\n"

func testTemplate(t testing.TB) *RequestTemplate {
	tmpl, err := NewRequestTemplate("GET", "/", "127.0.0.1:8080", nil, nil, &LabHeaders{Run: testRun})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func TestAllocations(t *testing.T) {
	answer := []byte(nginxAnswer)
	chunked := []byte("HTTP/1.1 503 Busy\r\nRetry-After: Monday, 30-Nov-26 20:00:09 GMT\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n")
	tmpl := testTemplate(t)
	date := AppendDate(nil, 0)
	buf := make([]byte, 0, 4096)
	var p Response
	var q Request
	rows := []struct {
		what string
		f    func()
	}{
		{"an answer", func() { p.Begin(false, true); p.Feed(answer) }},
		{"an answer in two pieces", func() {
			p.Begin(false, true)
			n, _, _ := p.Feed(answer[:100])
			p.Feed(answer[n:])
		}},
		{"a chunked answer with a date", func() {
			p.Begin(false, true)
			p.Feed(chunked)
			a, _ := p.RetryAfter()
			a.Wait(1_796_000_000_000_000_000)
		}},
		{"an end of the stream", func() { p.Begin(false, true); p.EOF(0) }},
		{"a request", func() { q.Begin(); q.Feed(tmpl.Bytes()); q.LabRun(); q.MethodName() }},
		{"a patch", func() { tmpl.SetCall(1 << 60); tmpl.SetAttempt(2) }},
		{"writing an answer", func() {
			buf = AppendResponse(buf[:0], Answer{Status: 503, RetryAfter: 1, Body: 1000, KeepAlive: true, Date: date})
		}},
		{"writing a date", func() { buf = AppendDate(buf[:0], 1_796_000_000) }},
	}
	for _, row := range rows {
		if n := testing.AllocsPerRun(100, row.f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", row.what, n)
		}
	}
}

func BenchmarkResponse(b *testing.B) {
	in := []byte(nginxAnswer)
	var p Response
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		p.Begin(false, true)
		if n, done, _ := p.Feed(in); !done || n != len(in) {
			b.Fatal("answer not parsed")
		}
	}
}

func BenchmarkResponseTarget(b *testing.B) {
	in := AppendResponse(nil, Answer{Status: 200, Body: 100, KeepAlive: true, Date: AppendDate(nil, 0)})
	var p Response
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		p.Begin(false, true)
		if n, done, _ := p.Feed(in); !done || n != len(in) {
			b.Fatal("answer not parsed")
		}
	}
}

func BenchmarkResponseChunked(b *testing.B) {
	in := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello\n\r\n0\r\n\r\n")
	var p Response
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		p.Begin(false, true)
		if n, done, _ := p.Feed(in); !done || n != len(in) {
			b.Fatal("answer not parsed")
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	in := testTemplate(b).Bytes()
	var p Request
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		p.Begin()
		if n, done, _ := p.Feed(in); !done || n != len(in) {
			b.Fatal("request not parsed")
		}
	}
}

func BenchmarkTemplatePatch(b *testing.B) {
	tmpl := testTemplate(b)
	b.ReportAllocs()
	call := uint64(0)
	for b.Loop() {
		call++
		tmpl.SetCall(call)
		tmpl.SetAttempt(1)
	}
}

func BenchmarkAppendResponse(b *testing.B) {
	date := AppendDate(nil, 0)
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendResponse(buf[:0], Answer{Status: 200, Body: 100, KeepAlive: true, Date: date})
	}
}
