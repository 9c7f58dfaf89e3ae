package engine

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"latencylab/policy"
	"latencylab/units"
	"latencylab/workloads"
)

// always answers every request with the same text.
func always(reply string) func(*received) {
	return func(c *received) {
		for {
			if _, err := c.request(); err != nil || !c.say(reply) {
				return
			}
		}
	}
}

// TestOddAnswers: answers that are right but unusual, from one user: all
// succeed, none hangs, and the connection is kept or not as it should.
func TestOddAnswers(t *testing.T) {
	const calls = 10
	for _, row := range []struct {
		about, method string
		play          func(*received)
		conns         int64
		errors        string
	}{
		{"HEAD with a length", "HEAD", always("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"), 1, ""},
		{"HEAD, chunked", "HEAD", always("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), 1, ""},
		{"204", "GET", always("HTTP/1.1 204 No Content\r\n\r\n"), 1, ""},
		{"304 with the length of the other answer", "GET", always("HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n"), 1, ""},
		{"100 first", "POST", always("HTTP/1.1 100 Continue\r\n\r\n" + hello), 1, ""},
		{"103 twice, with fields", "GET", always(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 2) + hello), 1, ""},
		{"chunks, extensions and trailers", "GET", always("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nChecksum: 1\r\nOther: 2\r\n\r\n"), 1, ""},
		{"HTTP/1.0, and the server would go on", "GET", always("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"), calls, ""},
		{"HTTP/1.0 that keeps the connection", "GET", always("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello"), 1, ""},
		{"HTTP/1.0, to the end of the stream", "GET", func(c *received) {
			if _, err := c.request(); err == nil {
				c.say("HTTP/1.0 200 OK\r\n\r\nhello")
			}
		}, calls, ""},
		{"Connection: close, and the server leaves it to us", "GET", always("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"), calls, ""},
		{"404 keeps the connection", "GET", always("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello"), 1, "status/body"},
		{"503 keeps the connection", "GET", always("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n\r\n"), 1, "status/body"},
		{"302 is a wanted answer", "GET", always("HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"), 1, ""},
		{"every answer twice", "GET", always(hello + hello), calls, "unexpected_bytes/body"},
		{"a byte at a time", "GET", func(c *received) {
			for {
				if _, err := c.request(); err != nil {
					return
				}
				for i := range hello {
					if !c.say(hello[i : i+1]) {
						return
					}
				}
			}
		}, 1, ""},
		{"3 MB", "GET", always("HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + strings.Repeat("0123456789", 300_000)), 1, ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			tight(t)
			p := playing(t, row.play)
			cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
			cfg.Closed, cfg.Connections, cfg.Drain = true, 1, time.Minute
			request(t, &cfg, row.method, nil)
			b := drive(t, cfg, count(calls))
			ok := uint64(calls)
			if row.errors == "status/body" {
				ok = 0
			}
			if b.Data.Calls.OK != ok || errorsOf(b) != row.errors || p.accepted.Load() != row.conns {
				t.Errorf("%d ok, errors %q, %d connections; want %d, %q, %d", b.Data.Calls.OK, errorsOf(b), p.accepted.Load(), ok, row.errors, row.conns)
			}
			if b.Data.Connections.Opened != uint64(row.conns) {
				t.Errorf("%d connections opened, want %d", b.Data.Connections.Opened, row.conns)
			}
			if n := served(t, p); n != calls {
				t.Errorf("the server saw %d requests, want %d", n, calls)
			}
			agree(t, []*Block{b}, p)
		})
	}
}

// TestBrokenConnections: each way a connection ends under an attempt is one
// failure of the right class, on one attempt.
func TestBrokenConnections(t *testing.T) {
	const calls = 10
	for _, row := range []struct {
		about string
		play  func(*received)
		want  []string // classes that may stand in the report
		all   bool     // all calls fail
	}{
		{"RST before the answer", func(c *received) {
			c.request()
			c.reset()
		}, []string{"reset/first_byte"}, true},
		{"RST within the body", func(c *received) {
			c.request()
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			c.reset()
		}, []string{"reset/body"}, true},
		{"RST within a body without length is not its end", func(c *received) {
			c.request()
			c.say("HTTP/1.1 200 OK\r\n\r\nhalf")
			c.reset()
		}, []string{"reset/body"}, true},
		{"the end of the stream within a chunk", func(c *received) {
			c.request()
			c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf")
		}, []string{"truncated_body/body"}, true},
		{"closed without a word after two answers", func(c *received) {
			for range 2 {
				if _, err := c.request(); err != nil || !c.say(hello) {
					return
				}
			}
		}, []string{"stale_connection/first_byte", "stale_connection/write"}, false},
		{"RST without a word after two answers", func(c *received) {
			for range 2 {
				if _, err := c.request(); err != nil || !c.say(hello) {
					return
				}
			}
			if _, err := c.br.Peek(1); err == nil { // the next request is there, and nobody reads it
				c.reset()
			}
		}, []string{"stale_connection/first_byte"}, false},
	} {
		t.Run(row.about, func(t *testing.T) {
			tight(t)
			p := playing(t, row.play)
			cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
			cfg.Closed, cfg.Connections, cfg.Drain = true, 1, time.Minute
			b := drive(t, cfg, count(calls))
			for _, e := range strings.Fields(errorsOf(b)) {
				if !slices.Contains(row.want, e) {
					t.Errorf("error %s, want one of %q", e, row.want)
				}
			}
			if row.all && b.Data.Calls.Failed != calls {
				t.Errorf("%+v, want all failed", b.Data.Calls)
			}
			agree(t, []*Block{b}, p)
		})
	}
}

// TestStaleConnectionsAreRetried: a server that closes each connection after
// two answers without saying so; one retry mends every call of one user.
func TestStaleConnectionsAreRetried(t *testing.T) {
	tight(t)
	p := playing(t, func(c *received) {
		for range 2 {
			if _, err := c.request(); err != nil || !c.say(hello) {
				return
			}
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{Retry: policy.Retry{Max: 1}})
	cfg.Closed, cfg.Connections, cfg.Drain = true, 1, time.Minute
	b := drive(t, cfg, count(200))
	if b.Data.Calls.OK != 200 {
		t.Errorf("%+v (%s), want 200 ok", b.Data.Calls, errorsOf(b))
	}
	if n := served(t, p); n != 200 {
		t.Errorf("the server saw %d requests whole, want 200", n)
	}
	agree(t, []*Block{b}, p)
}

// bigBody is more than the socket buffers of both sides hold.
var bigBody = bytes.Repeat([]byte("0123456789abcde\n"), 1<<20)

// TestAnswerBeforeTheRequestIsRead: a server that refuses a big body and lets
// the client see it: the answer counts and the connection is not used again.
func TestAnswerBeforeTheRequestIsRead(t *testing.T) {
	const calls = 5
	for _, row := range []struct {
		about, reply string
		close        bool
		ok           uint64
	}{
		{"413 and close", "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", true, 0},
		{"413, and the server leaves the end to us", "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n", false, 0},
		{"200 without reading on", hello, false, calls},
	} {
		t.Run(row.about, func(t *testing.T) {
			tight(t)
			over := make(chan struct{})
			p := playing(t, func(c *received) {
				if _, err := c.head(); err != nil {
					return
				}
				c.say(row.reply)
				if row.close {
					c.CloseWrite()
					c.gone()
				}
				<-over // without reading, so that the request stays half-written
			})
			cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
			cfg.Closed, cfg.Connections, cfg.Drain = true, 1, time.Minute
			request(t, &cfg, "POST", bigBody)
			b := drive(t, cfg, count(calls))
			close(over)
			if b.Data.Calls.OK != row.ok || b.Data.Calls.OK+b.Data.Calls.Failed != calls || p.accepted.Load() != calls {
				t.Errorf("%+v on %d connections (%s), want %d ok on %d", b.Data.Calls, p.accepted.Load(), errorsOf(b), row.ok, calls)
			}
			if row.ok == 0 && errorsOf(b) != "status/body" {
				t.Errorf("errors %q, want status/body", errorsOf(b))
			}
			agree(t, []*Block{b}, p)
		})
	}
}

// TestAnswerAndReset: the server answers, does not read the big body and closes:
// its kernel sends RST, and writing fails before the answer is read.
func TestAnswerAndReset(t *testing.T) {
	tight(t)
	p := playing(t, func(c *received) {
		if _, err := c.head(); err == nil {
			c.say("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
	cfg.Closed, cfg.Connections, cfg.Drain = true, 2, time.Minute
	request(t, &cfg, "POST", bigBody)
	b := drive(t, cfg, count(20))
	for _, e := range b.Data.Errors {
		if got := fmt.Sprintf("%v/%v", e.Class, e.Phase); got != "status/body" && got != "reset/write" {
			t.Errorf("%d errors %s, want status/body, or reset/write where the reset came first", e.Count, got)
		}
	}
	if b.Data.Calls.Failed != 20 {
		t.Errorf("%+v, want 20 failed", b.Data.Calls)
	}
	agree(t, []*Block{b}, p)
}

// TestBigBodiesArriveWhole: partial writes go on where they stopped.
func TestBigBodiesArriveWhole(t *testing.T) {
	tight(t)
	p := playing(t, func(c *received) {
		for {
			r, err := c.head()
			if err != nil {
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || !bytes.Equal(body, bigBody) {
				t.Errorf("%d bytes came, %v", len(body), err)
				return
			}
			if !c.say(hello) {
				return
			}
		}
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
	cfg.Closed, cfg.Connections, cfg.Drain = true, 2, time.Minute
	request(t, &cfg, "PUT", bigBody)
	b := drive(t, cfg, count(6))
	if b.Data.Calls.OK != 6 || p.accepted.Load() != 2 || b.Data.BytesOut < 6*uint64(len(bigBody)) {
		t.Errorf("%+v on %d connections, %d bytes out", b.Data.Calls, p.accepted.Load(), b.Data.BytesOut)
	}
}

// TestGarbageOnIdleConnections: what comes on an idle connection ends it, and
// belongs to no call.
func TestGarbageOnIdleConnections(t *testing.T) {
	tight(t)
	p := playing(t, func(c *received) {
		c.say("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
		c.gone()
	})
	cfg := config(t, []netip.AddrPort{p.addr}, policy.Policy{})
	cfg.Arrivals = workloads.NewArrivals(workloads.Constant, units.Rate(1e6)/3600, 1)
	l := stepping(t, cfg, workloads.Block{Data: time.Hour})
	l.dial(0)
	turns(t, l, func() bool { return l.ln.open == 0 })
	if b := l.ln.book[0]; len(b.Errors) != 1 || b.Errors[0].Class.String() != "unexpected_bytes" || b.Attempts.Sent != 0 {
		t.Errorf("errors %+v, %+v; want unexpected_bytes and nothing sent", b.Errors, b.Attempts)
	}
}
