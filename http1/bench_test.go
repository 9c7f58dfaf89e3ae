package http1

import "testing"

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
