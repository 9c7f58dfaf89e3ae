package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

func start(t *testing.T) *server {
	t.Helper()
	s, err := newServer("127.0.0.1:0", func(stamps []int64, unstamped int) []byte {
		b, _ := json.Marshal(judge(stamps, unstamped, 0, 0))
		return b
	})
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() { done <- s.serve(&stop) }()
	t.Cleanup(func() {
		stop.Store(true)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("%s: %d %v", url, r.StatusCode, err)
	}
	return string(b)
}

func reportOf(t *testing.T, s *server) (r Report) {
	t.Helper()
	if err := json.Unmarshal([]byte(get(t, s.url()+"report")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestServerStampsEveryRequest(t *testing.T) {
	s := start(t)
	for range 20 {
		if got := get(t, s.url()); got != "Hello, world\n" {
			t.Fatalf("answered %q", got)
		}
	}
	if r := reportOf(t, s); r.Requests != 20 || r.Unstamped != 0 {
		t.Errorf("%+v, want 20 stamped requests", r)
	}
	if r := reportOf(t, s); r.Requests != 0 {
		t.Errorf("%+v, want none after a report", r)
	}
}

func TestServerReadsRequestsInPieces(t *testing.T) {
	s := start(t)
	c, err := net.Dial("tcp", s.url()[len("http://"):len(s.url())-1])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, len(answer))
	for _, whole := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /b HTTP/1.1\r\nHost: a\r\n\r\n"} {
		for i := range whole {
			if _, err := io.WriteString(c, whole[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.ReadFull(c, buf); err != nil || string(buf) != string(answer) {
			t.Fatalf("answered %q, %v", buf, err)
		}
	}
	if r := reportOf(t, s); r.Requests != 2 || r.Unstamped != 0 {
		t.Errorf("%+v, want 2 stamped requests", r)
	}
}
