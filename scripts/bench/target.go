package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// server is a server whose process is watched: our target, or nginx.
type server struct {
	cmd   *exec.Cmd
	pid   int // of the process that serves
	url   string
	admin string // of a target: its admin listener
}

func (s *server) stop() { stop(s.cmd) }

// startTarget runs the target on the server's core with one loop.
func (t tools) startTarget(args ...string) (*server, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	args = append([]string{t.path("target"), "--port", strconv.Itoa(ports[0]), "--admin-port", strconv.Itoa(ports[1]), "-t", "1"}, args...)
	s := &server{url: fmt.Sprintf("http://127.0.0.1:%d/", ports[0]), admin: fmt.Sprintf("http://127.0.0.1:%d", ports[1])}
	s.cmd = pinned(serverCore, command{args: args})
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start target: %w", err)
	}
	s.pid = s.cmd.Process.Pid
	running.add(s.pid)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			s.stop()
			return nil, fmt.Errorf("the target does not start: %w", err)
		}
		if strings.HasPrefix(line, "try ") { // the last line
			return s, nil
		}
	}
}

// page decodes a page of the admin listener.
func (s *server) page(path string, into any) error {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(s.admin + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	return json.NewDecoder(r.Body).Decode(into)
}

// cpu returns the user and system time of the serving process so far.
func (s *server) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(b))
}

// tick is the unit of times in /proc (USER_HZ).
const tick = 10 * time.Millisecond

// parseStat reads utime and stime, the 14th and 15th field of /proc/PID/stat;
// the second is a name that may hold anything but ends with the last ")".
func parseStat(line string) (time.Duration, error) {
	_, rest, _ := cutLast(line, ")")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat: %q", line)
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/PID/stat: %q", line)
	}
	return time.Duration(user+system) * tick, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// resident returns VmRSS in bytes.
func (s *server) resident() (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmRSS", s.pid)
}

var wrkCount = regexp.MustCompile(`(\d+) requests in`)

// loaded runs wrk against a server and returns the server's CPU time per
// request in µs and the requests.
func (b *bench) loaded(s *server, conns int, d time.Duration) (cpu, requests float64, err error) {
	before, err := s.cpu()
	if err != nil {
		return 0, 0, err
	}
	u, err := run(b.tools.wrk(s.url, conns, d), d+slack)
	if err != nil {
		return 0, 0, err
	}
	after, err := s.cpu()
	if err != nil {
		return 0, 0, err
	}
	m := wrkCount.FindSubmatch(u.stdout)
	if m == nil {
		return 0, 0, fmt.Errorf("wrk reported %q", u.stdout)
	}
	requests, err = strconv.ParseFloat(string(m[1]), 64)
	return (after - before).Seconds() * 1e6 / requests, requests, err
}

// target compares the CPU time of the target, without faults, with nginx's.
func (b *bench) target() error {
	n, err := startNginx(false)
	if err != nil {
		return err
	}
	defer n.stop()
	worker, err := children(n.cmd.Process.Pid)
	if err != nil {
		return err
	}
	own, err := b.tools.startTarget("--body", "13B")
	if err != nil {
		return err
	}
	defer own.stop()
	d := b.span(4*time.Second, time.Second)
	servers := []*server{own, {pid: worker, url: n.url(0)}}
	names := []string{"target", "nginx"}
	b.printf("command: target --body 13B -t 1; nginx with one worker, return 200 of 13 bytes; both on core %d, one at a time\ncommand: %s\n", serverCore, b.tools.wrk("URL", 64, d))
	var cpu, rate [2][]float64
	pairs := b.count(15)
	for range pairs {
		for i, s := range servers {
			c, r, err := b.loaded(s, 64, d)
			if err != nil {
				return err
			}
			cpu[i], rate[i] = append(cpu[i], c), append(rate[i], r/d.Seconds())
		}
	}
	for i, name := range names {
		b.printf("%-8s CPU per request %5.2f µs (median of %d), %7.0f requests/s\n", name, median(cpu[i]), pairs, median(rate[i]))
	}
	r := ratios(cpu[0], cpu[1])
	b.printf("ratios: %s\nmedian ratio %.3f, %s\n", listOf(r, "%.3f"), median(r), interval(r, "%.3f"))
	b.hold(median(r) <= 1.3, "CPU per request of the target against nginx: median ratio %.3f, at most 1.3", median(r))
	return nil
}

// children returns the one child of a process.
func children(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b))
	if len(f) != 1 {
		return 0, fmt.Errorf("process %d has the children %q, want one", pid, b)
	}
	return strconv.Atoi(f[0])
}

// delay measures how much later than due an idle target answers.
func (b *bench) delay() error {
	d := b.span(10*time.Second, 2*time.Second)
	dir, err := os.MkdirTemp("", "bench-delay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	trace := filepath.Join(dir, "trace.txt")
	if err := os.WriteFile(trace, []byte("3ms\n90ms\n7ms\n25ms\n"), 0o644); err != nil {
		return err
	}
	b.printf("command: target --time DIST -t 1 [--spin 10ms]; %s\n", b.tools.loadgen("loadgen", "URL", d, "-r", "RATE"))
	for _, rate := range []string{"100/s", "1000/s"} {
		for _, dist := range []string{"20ms", "uniform(20ms,60ms)", "exponential(10ms)", "lognormal(40ms,0.5)", "sequence(@" + trace + ")"} {
			for _, spin := range [][]string{nil, {"--spin", "10ms"}} {
				what := strings.Replace(dist, trace, "FILE", 1)
				if spin != nil {
					what += ", " + strings.Join(spin, " ")
				}
				e, err := b.delayErrorOf(rate, d, append([]string{"--time", dist}, spin...)...)
				if err != nil {
					return err
				}
				us := func(ns int64) float64 { return float64(ns) / 1e3 }
				b.printf("%-7s %-33s %6d answers, later than due by p50 %5.1f, p90 %5.1f, p99 %6.1f, p99.9 %6.1f, max %7.1f µs\n",
					rate, what, e.Count, us(e.P50), us(e.P90), us(e.P99), us(e.P999), us(e.Max))
				b.hold(e.P99 <= 300_000, "delay error p99 at %s of %s: %.1f µs, at most 300", rate, what, us(e.P99))
			}
		}
	}
	return nil
}

// delayError is how much later than due a target has answered.
type delayError struct {
	Count uint64 `json:"count"`
	P50   int64  `json:"p50_ns"`
	P90   int64  `json:"p90_ns"`
	P99   int64  `json:"p99_ns"`
	P999  int64  `json:"p999_ns"`
	Max   int64  `json:"max_ns"`
}

// delayErrorOf runs a target with args under load for d.
func (b *bench) delayErrorOf(rate string, d time.Duration, args ...string) (delayError, error) {
	var l struct {
		DelayError delayError `json:"delay_error"`
	}
	s, err := b.tools.startTarget(args...)
	if err != nil {
		return l.DelayError, err
	}
	defer s.stop()
	if _, err := run(b.tools.loadgen("loadgen", s.url, d, "-r", rate), d+slack); err != nil {
		return l.DelayError, err
	}
	err = s.page("/ledger", &l)
	return l.DelayError, err
}

// delayed measures what a target needs for calls that are delayed at once.
func (b *bench) delayed() error {
	const calls = 10_000
	s, err := b.tools.startTarget("--time", "1h")
	if err != nil {
		return err
	}
	defer s.stop()
	conns := make([]net.Conn, 0, calls)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	address := strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/")
	open := func(n int) error {
		for range n {
			c, err := net.Dial("tcp", address)
			if err != nil {
				return err
			}
			conns = append(conns, c)
			if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", address); err != nil {
				return err
			}
		}
		for range 200 {
			var state struct {
				InFlight int `json:"in_flight"`
			}
			if err := s.page("/backlog", &state); err != nil {
				return err
			}
			if state.InFlight == len(conns) {
				return nil
			}
			time.Sleep(50 * time.Millisecond)
		}
		return fmt.Errorf("not all of %d calls have arrived", len(conns))
	}
	if err := open(100); err != nil { // what the first ones need once and for all
		return err
	}
	before, err := s.resident()
	if err != nil {
		return err
	}
	if err := open(calls - 100); err != nil {
		return err
	}
	after, err := s.resident()
	if err != nil {
		return err
	}
	each := float64(after-before) / (calls - 100)
	b.printf("command: target --time 1h -t 1; GET / on each of %d connections\nresident memory with 100 calls %.2f MB, with %d calls %.2f MB\n", calls, float64(before)/1e6, calls, float64(after)/1e6)
	b.hold(each < 2000, "a delayed call with its connection takes %.0f bytes of the target's memory, under 2000", each)
	return nil
}

// flat measures the memory of a target over its first millions of calls.
func (b *bench) flat() error {
	s, err := b.tools.startTarget()
	if err != nil {
		return err
	}
	defer s.stop()
	want := []float64{100e3, 1e6, 2e6, 3e6}
	if b.quick {
		want = []float64{20e3, 40e3}
	}
	d := time.Second
	var sizes []float64
	for served := 0.0; len(sizes) < len(want); {
		_, n, err := b.loaded(s, 64, d)
		if err != nil {
			return err
		}
		if served += n; served < want[len(sizes)] {
			continue
		}
		size, err := s.resident()
		if err != nil {
			return err
		}
		sizes = append(sizes, float64(size)/1e6)
		b.printf("resident memory after %9.0f calls %.2f MB\n", served, sizes[len(sizes)-1])
	}
	last := len(sizes) - 1
	b.hold(sizes[last]-sizes[last-1] <= 1, "memory over the last million calls grows by %.2f MB, at most 1", sizes[last]-sizes[last-1])
	return nil
}
