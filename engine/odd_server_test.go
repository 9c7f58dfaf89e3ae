package engine

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"latencylab/http1"
	"latencylab/ledger"
	"latencylab/policy"
)

// peer is a server that knows which attempts it has received whole.
type peer struct {
	addr     netip.AddrPort
	accepted atomic.Int64
	mu       sync.Mutex
	seen     map[string]int // requests by call and attempt
	requests int
	open     map[net.Conn]bool
}

// received is one connection of a peer.
type received struct {
	*net.TCPConn
	p  *peer
	br *bufio.Reader
	n  int // number of the connection, from 1
}

// request reads a whole request and counts it.
func (c *received) request() (*http.Request, error) {
	r, err := http.ReadRequest(c.br)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	c.count(r)
	return r, nil
}

// head reads a request up to its body and counts it.
func (c *received) head() (*http.Request, error) {
	r, err := http.ReadRequest(c.br)
	if err != nil {
		return nil, err
	}
	c.count(r)
	return r, nil
}

func (c *received) count(r *http.Request) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.requests++
	c.p.seen[r.Header.Get("Latencylab-Run")+"/"+r.Header.Get("Latencylab-Call")+"/"+r.Header.Get("Latencylab-Attempt")]++
}

// say writes s; the connection may have gone.
func (c *received) say(s string) bool {
	_, err := io.WriteString(c, s)
	return err == nil
}

// gone waits until the client has closed the connection.
func (c *received) gone() { io.Copy(io.Discard, c.br) }

// reset closes with RST.
func (c *received) reset() {
	c.SetLinger(0)
	c.Close()
}

// playing starts a peer that runs play on each connection and closes it then.
func playing(t testing.TB, play func(c *received)) *peer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{addr: ln.Addr().(*net.TCPAddr).AddrPort(), seen: map[string]int{}, open: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n := p.accepted.Add(1)
			p.mu.Lock()
			p.open[c] = true
			p.mu.Unlock()
			wg.Add(1)
			go func() {
				defer wg.Done()
				defer c.Close()
				play(&received{TCPConn: c.(*net.TCPConn), p: p, br: bufio.NewReader(c), n: int(n)})
				p.mu.Lock()
				delete(p.open, c)
				p.mu.Unlock()
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		p.mu.Lock()
		for c := range p.open {
			c.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

// served returns how many requests came whole, and fails when one attempt came twice.
func served(t *testing.T, ps ...*peer) int {
	t.Helper()
	all, sum := map[string]int{}, 0
	for _, p := range ps {
		p.mu.Lock()
		sum += p.requests
		for k, n := range p.seen {
			all[k] += n
		}
		p.mu.Unlock()
	}
	for k, n := range all {
		if n > 1 {
			t.Errorf("attempt %s came %d times", k, n)
		}
	}
	return sum
}

// answeredWhole is the number of attempts with a complete answer.
func answeredWhole(c *ledger.Counts) uint64 {
	n := c.Attempts.OK
	for _, e := range c.Errors {
		if e.Status != 0 {
			n += e.Count
		}
	}
	return n
}

// agree compares both ledgers with what the peers saw: every attempt at most
// once, none that was not reported, and every one that was answered.
func agree(t *testing.T, blocks []*Block, ps ...*peer) {
	t.Helper()
	var all ledger.Counts
	for _, b := range blocks {
		for about, c := range map[string]*ledger.Counts{"data": &b.Data.Counts, "burn-in": &b.Burn} {
			if err := c.Check(); err != nil {
				t.Errorf("%s: %v", about, err)
			}
			all.Merge(c)
		}
		var cut uint64
		for _, n := range b.Data.Cut {
			cut += n
		}
		var whole uint64
		for k := range policy.Kinds {
			whole += b.Data.Won[k].Count() + b.Data.Lost[k].Count()
		}
		if whole+cut != b.Data.Attempts.Sent {
			t.Errorf("histograms hold %d answered and %d cut attempts, %d sent", whole, cut, b.Data.Attempts.Sent)
		}
		if d := b.Data; d.OK.Count()+d.Failed.Count()+d.Censored.Count() != d.Calls.Scheduled {
			t.Errorf("ok %d + failed %d + censored %d, %d scheduled", d.OK.Count(), d.Failed.Count(), d.Censored.Count(), d.Calls.Scheduled)
		}
	}
	n := uint64(served(t, ps...))
	if least := answeredWhole(&all); n > all.Attempts.Sent || n < least {
		t.Errorf("the server saw %d attempts, want %d answered … %d sent; %+v", n, least, all.Attempts.Sent, all.Attempts)
	}
}

// tight fails when file descriptors or goroutines are left at the end of the
// test, after all servers begun later have ended.
func tight(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // the runtime's own poller is open from now on
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	files, routines := countFiles(t), runtime.NumGoroutine()
	t.Cleanup(func() {
		give := time.After(5 * time.Second)
		for countFiles(t) > files || runtime.NumGoroutine() > routines {
			select {
			case <-give:
				t.Errorf("%d files and %d goroutines are left, %d and %d were before", countFiles(t), runtime.NumGoroutine(), files, routines)
				return
			case <-time.After(ms):
			}
		}
	})
}

func countFiles(t *testing.T) int {
	d, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// request gives a lane's template another method and body.
func request(t testing.TB, cfg *Config, method string, body []byte) {
	t.Helper()
	for i := range cfg.Lanes {
		run := fmt.Sprintf("0123456789abcdef-%02d", i)
		tmpl, err := http1.NewRequestTemplate(method, "/", "test", nil, body, &http1.LabHeaders{Run: run})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Lanes[i].Template = tmpl
	}
}

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// sound checks the accounts that the loops keep of connections and calls, while
// no block is under way.
func sound(t *testing.T, e *Engine) {
	t.Helper()
	for _, l := range e.loops {
		if l.live != 0 || l.timers.Len() != 0 || len(l.done)+len(l.pending) != 0 {
			t.Errorf("loop %d: %d calls, %d timers, %d answers and %d failures are left", l.index, l.live, l.timers.Len(), len(l.done), len(l.pending))
		}
		l.calls.Each(func(c *call) {
			for s, a := range c.slots {
				if c.open || a.state != slotFree || a.conn != nil {
					t.Errorf("loop %d: call %d is open (%v) or its slot %d in use", l.index, c.id, c.open, s)
				}
			}
		})
		states := make([][connStates]int, len(l.lanes))
		l.conns.Each(func(cn *conn) {
			if cn.state == connFree && (cn.call != nil || cn.in != nil || cn.out != nil) {
				t.Errorf("loop %d: a closed connection holds memory", l.index)
			}
			if cn.state != connFree {
				states[cn.lane][cn.state]++
			}
		})
		used := 0
		for i := range l.lanes {
			ln, n := &l.lanes[i], states[i]
			open, dialing := 0, 0
			for k := range ln.pools {
				open += ln.pools[k].open
				dialing += ln.pools[k].dialing
				if ln.pools[k].wait.live != 0 {
					t.Errorf("loop %d, lane %d: %d attempts wait for replica %d", l.index, i, ln.pools[k].wait.live, k)
				}
			}
			if ln.waiting != 0 || ln.draining != 0 || n[connBusy]+n[connAnswered]+n[connDraining] != 0 {
				t.Errorf("loop %d, lane %d: %d wait, %d drain, connections by state %v", l.index, i, ln.waiting, ln.draining, n)
			}
			if ln.idle != n[connIdle] || dialing != n[connDialing] || open != ln.open || open != ln.idle+dialing || open > ln.ceiling {
				t.Errorf("loop %d, lane %d: %d open, of them %d idle, pools say %d and %d dialling, ceiling %d; connections by state %v", l.index, i, ln.open, ln.idle, open, dialing, ln.ceiling, n)
			}
			used += open
		}
		if used != l.conns.Used() {
			t.Errorf("loop %d: %d records of connections in use, %d open", l.index, l.conns.Used(), used)
		}
	}
}

// connStates is the number of states of a connection.
const connStates = connDraining + 1
