package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAppendResponse(t *testing.T) {
	rows := []struct {
		why  string
		a    Answer
		want string
	}{
		{"the plain answer", Answer{Status: 200, Body: 3, Replica: 1, KeepAlive: true},
			"HTTP/1.1 200 OK\r\nLatencylab-Replica: 1\r\nContent-Length: 3\r\n\r\n012"},
		{"with everything", Answer{Status: 503, RetryAfter: 7, Replica: 0, HTTP10: true, KeepAlive: true, Date: []byte("D")},
			"HTTP/1.1 503 Service Unavailable\r\nDate: D\r\nLatencylab-Replica: 0\r\nRetry-After: 7\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"},
		{"the connection ends", Answer{Status: 404, Replica: -1},
			"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
		{"HEAD has the length and no body", Answer{Status: 200, Body: 500, Head: true, KeepAlive: true, Replica: -1},
			"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"},
		{"204 has neither", Answer{Status: 204, Body: 500, KeepAlive: true, Replica: -1},
			"HTTP/1.1 204 No Content\r\n\r\n"},
		{"304 has neither", Answer{Status: 304, Body: 500, KeepAlive: true, Replica: -1},
			"HTTP/1.1 304 Not Modified\r\n\r\n"},
		{"a code without phrase", Answer{Status: 599, KeepAlive: true, Replica: -1},
			"HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n"},
		{"no code of an answer is 500", Answer{Status: 99, KeepAlive: true, Replica: -1},
			"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"},
		{"nor is an interim one", Answer{Status: 100, KeepAlive: true, Replica: -1, Body: -5, RetryAfter: -5},
			"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"},
	}
	for _, row := range rows {
		got := string(AppendResponse([]byte("before"), row.a))
		if diff := cmp.Diff("before"+row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.why, diff)
		}
	}
}

func TestAppendResponseRoundTrip(t *testing.T) {
	date := AppendDate(nil, 1_796_000_000)
	for _, status := range []int{200, 204, 302, 304, 404, 429, 503, 599} {
		for _, size := range []int{0, 1, 63, 64, 65, 128, 129, 1000, 4096, 100_000} {
			for _, head := range []bool{false, true} {
				for _, keep := range []bool{false, true} {
					b := AppendResponse(nil, Answer{Status: status, RetryAfter: size, Body: size, Replica: 7, Head: head, KeepAlive: keep, Date: date})
					bodiless := head || status == 204 || status == 304
					want := size
					if bodiless {
						want = 0
					}
					p, r := checkAnswer(t, b, head, true, false, [][]int{nil, seededCuts(len(b), uint64(size))})
					a, ok := p.RetryAfter()
					if !r.done || r.pending != 0 || p.Status() != status || p.BodyBytes() != int64(want) || p.Reuse() != keep ||
						p.Replica() != 7 || ok != (size > 0) || a.Wait(0) != time.Duration(size)*time.Second {
						t.Fatalf("status %d, size %d, head %v, keep %v: %+v %s", status, size, head, keep, r, answerView(&p))
					}
					req := &http.Request{Method: "GET"}
					if head {
						req.Method = "HEAD"
					}
					res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(b)), req)
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(res.Body)
					if err != nil || len(body) != want || string(body) != strings.Repeat(pattern, want/64+1)[:want] {
						t.Fatalf("net/http reads a body of %d bytes, %v; want %d of the pattern", len(body), err, want)
					}
				}
			}
		}
	}
}

func TestReason(t *testing.T) {
	for status := -1; status < 1000; status++ {
		want := http.StatusText(status)
		switch status { // phrases that RFC 9110 changed or net/http adds
		case 413:
			want = "Content Too Large"
		case 414:
			want = "URI Too Long"
		case 416:
			want = "Range Not Satisfiable"
		case 422:
			want = "Unprocessable Content"
		case 208, 226, 418, 506, 508, 510:
			want = ""
		}
		if got := Reason(status); got != want {
			t.Errorf("Reason(%d) = %q, want %q", status, got, want)
		}
	}
}
