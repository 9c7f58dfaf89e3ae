package engine

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"latencylab/http1"
	"latencylab/policy"
	"latencylab/units"
	"latencylab/workloads"
)

// server is a peer on loopback that answers each request as answer says.
type server struct {
	addr     netip.AddrPort
	conns    atomic.Int64 // accepted
	requests atomic.Int64
	ln       net.Listener
	mu       sync.Mutex
	open     map[net.Conn]bool
}

// serve starts a server; answer writes the reply to request n (from 1) and
// returns false to close the connection.
func serve(t *testing.T, answer func(n int64, r *http.Request, c net.Conn) bool) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: ln.Addr().(*net.TCPAddr).AddrPort(), ln: ln, open: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			s.mu.Lock()
			s.open[c] = true
			s.mu.Unlock()
			wg.Add(1)
			go func() {
				defer wg.Done()
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					io.Copy(io.Discard, r.Body)
					if !answer(s.requests.Add(1), r, c) {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		s.mu.Lock()
		for c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return s
}

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func ok(_ int64, _ *http.Request, c net.Conn) bool {
	_, err := io.WriteString(c, hello)
	return err == nil
}

// config returns an engine of one lane per policy at 1,000 calls a second.
func config(t *testing.T, at []netip.AddrPort, ps ...policy.Policy) Config {
	t.Helper()
	cfg := Config{Endpoints: EndpointsAt(at...), Threads: 1, Connections: 64, Seed: 1, Drain: 2 * time.Second, Idempotent: true,
		Within:   []time.Duration{10 * time.Millisecond},
		Arrivals: workloads.NewArrivals(workloads.Poisson, units.Rate(1000e6), 1)}
	for i := range ps {
		tmpl, err := http1.NewRequestTemplate("GET", "/", "test", nil, nil, &http1.LabHeaders{Run: "0123456789abcdef-00"})
		if err != nil {
			t.Fatal(err)
		}
		if err := ps[i].Validate(); err != nil {
			t.Fatal(err)
		}
		cfg.Lanes = append(cfg.Lanes, Lane{Name: "p", Policy: &ps[i], Template: tmpl})
	}
	return cfg
}

// benchConfig is a closed loop of 16 users against one server.
func benchConfig(b *testing.B, at netip.AddrPort, p *policy.Policy) Config {
	b.Helper()
	tmpl, err := http1.NewRequestTemplate("GET", "/", "test", nil, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	return Config{Lanes: []Lane{{Name: "p", Policy: p, Template: tmpl}}, Endpoints: EndpointsAt(at), Threads: 1, Connections: 16, Closed: true, Drain: time.Second, Idempotent: true}
}

func drive(t *testing.T, cfg Config, b workloads.Block) *Block {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	out, err := e.Run(0, b)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Burn.Check(); err != nil {
		t.Errorf("burn-in: %v", err)
	}
	return out
}

func count(n uint64) workloads.Block { return workloads.Block{Calls: n} }

func errorsOf(b *Block) string {
	var s []string
	for _, e := range b.Data.Errors {
		s = append(s, e.Class.String()+"/"+e.Phase.String())
	}
	return strings.Join(s, " ")
}
