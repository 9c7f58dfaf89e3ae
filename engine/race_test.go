package engine

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latencylab/clock"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/workloads"
)

func addrs(t *testing.T, list string) []netip.AddrPort {
	t.Helper()
	var out []netip.AddrPort
	for _, s := range strings.Fields(list) {
		a, err := netip.ParseAddr(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, netip.AddrPortFrom(a, 80))
	}
	return out
}

func TestInterleave(t *testing.T) {
	for _, row := range []struct{ why, in, want string }{
		{"none", "", ""},
		{"one", "::1", "::1"},
		{"one family keeps its order", "10.0.0.2 10.0.0.1", "10.0.0.2 10.0.0.1"},
		{"the first one's family begins", "::1 ::2 10.0.0.1 10.0.0.2", "::1 10.0.0.1 ::2 10.0.0.2"},
		{"IPv4 may be preferred", "10.0.0.1 ::1 ::2", "10.0.0.1 ::1 ::2"},
		{"what one family has more comes last", "::1 ::2 ::3 10.0.0.1", "::1 10.0.0.1 ::2 ::3"},
		{"IPv4 in IPv6 form is IPv4", "::1 ::2 ::ffff:10.0.0.1", "::1 ::ffff:10.0.0.1 ::2"},
	} {
		got, want := Interleave(addrs(t, row.in)), addrs(t, row.want)
		if len(got) != len(want) {
			t.Fatalf("%s: %v, want %v", row.why, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", row.why, got, want)
				break
			}
		}
	}
}

// TestRace plays races: a number is an instant in ms, f a failure then. The
// addresses begun at each instant must be those wanted.
func TestRace(t *testing.T) {
	type at struct {
		ms   int64
		fail bool
		want string // numbers of the addresses begun
	}
	for _, row := range []struct {
		why  string
		n    int
		play []at
		lost bool
	}{
		{"one address", 1, []at{{0, false, "0"}, {1000, false, ""}}, false},
		{"one address fails", 1, []at{{0, false, "0"}, {3, true, ""}}, true},
		{"the next after the delay", 3, []at{{0, false, "0"}, {249, false, ""}, {250, false, "1"}, {499, false, ""}, {500, false, "2"}, {900, false, ""}}, false},
		{"the next at once when one fails", 3, []at{{0, false, "0"}, {10, true, "1"}, {259, false, ""}, {260, false, "2"}}, false},
		{"also when an earlier one is still under way", 3, []at{{0, false, "0"}, {250, false, "1"}, {260, true, "2"}}, false},
		{"all fail", 2, []at{{0, false, "0"}, {1, true, "1"}, {2, true, ""}}, true},
		{"the last one is waited for", 2, []at{{0, false, "0"}, {250, false, "1"}, {300, true, ""}}, false},
	} {
		r := race{addrs: make([]netip.AddrPort, row.n), delay: 250 * time.Millisecond}
		for _, step := range row.play {
			now := clock.Time(step.ms) * clock.Time(time.Millisecond)
			if step.fail {
				r.failed(now)
			}
			got := ""
			for {
				i, ok := r.begin(now)
				if !ok {
					break
				}
				got += string(rune('0' + i))
			}
			if got != step.want {
				t.Errorf("%s: at %d ms begins %q, want %q", row.why, step.ms, got, step.want)
			}
		}
		if r.lost() != row.lost {
			t.Errorf("%s: lost %v, want %v", row.why, r.lost(), row.lost)
		}
	}
}

// hole returns an address of loopback at which handshakes get no answer: its
// listener's queue is full.
func hole(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	a := addrPort(sa)
	for range 64 {
		c, err := net.DialTimeout("tcp", a.String(), 200*time.Millisecond)
		if err != nil {
			return a
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue of a listener does not fill")
	return a
}

// shut returns an address that refuses.
func shut(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func racing(t *testing.T, p policy.Policy, addrs ...netip.AddrPort) Config {
	t.Helper()
	cfg := config(t, addrs[:1], p)
	cfg.Endpoints = []Endpoint{{Name: "name:80", Addrs: addrs}}
	cfg.FallbackDelay = 20 * ms
	return cfg
}

// TestRaceFallsBack: an address that does not answer is overtaken by the next
// one, one that refuses is followed at once, and the handshakes that lose are
// closed and counted.
func TestRaceFallsBack(t *testing.T) {
	s := serve(t, ok)
	for _, row := range []struct {
		why             string
		first           netip.AddrPort
		lost, fallbacks bool
		atLeast         time.Duration
	}{
		{"no answer", hole(t), true, false, 20 * ms},
		{"refused", shut(t), false, true, 0},
		{"the first one answers", s.addr, false, false, 0},
	} {
		cfg := racing(t, policy.Policy{}, row.first, s.addr)
		cfg.Closed, cfg.Connections = true, 4
		b := drive(t, cfg, count(20)).Data
		c := b.Connections
		if b.Calls.OK != 20 || c.Opened != 4 {
			t.Errorf("%s: %d calls ok on %d connections, want 20 on 4: %+v", row.why, b.Calls.OK, c.Opened, b.Errors)
		}
		if row.lost && c.Lost != 4 || row.fallbacks && c.Fallbacks != 4 {
			t.Errorf("%s: %d lost, %d addresses failed", row.why, c.Lost, c.Fallbacks)
		}
		if got := time.Duration(b.Connect.Min()); got < row.atLeast {
			t.Errorf("%s: connected in %v, want at least %v", row.why, got, row.atLeast)
		}
	}
}

// TestRaceAllFail: the sample names every address.
func TestRaceAllFail(t *testing.T) {
	one, two := shut(t), shut(t)
	b := drive(t, racing(t, policy.Policy{}, one, two), count(5)).Data
	if b.Calls.Failed != 5 || len(b.Errors) != 1 || b.Errors[0].Class != ledger.ClassRefused || b.Errors[0].Phase != policy.PhaseConnect {
		t.Fatalf("%d failed, errors %+v", b.Calls.Failed, b.Errors)
	}
	want := "name:80: " + one.String() + ": connection refused; " + two.String() + ": connection refused"
	if b.Errors[0].Sample != want {
		t.Errorf("sample %q, want %q", b.Errors[0].Sample, want)
	}
}

// TestRaceAndConnectTimeout: attempts that a connect timeout ends while two
// addresses race are accounted for, and so are those open at the end of a block.
func TestRaceAndConnectTimeout(t *testing.T) {
	one, two := hole(t), hole(t)
	p := policy.Policy{}
	p.Timeouts[policy.PartConnect] = policy.Timeout{After: 50 * ms}
	cfg := racing(t, p, one, two)
	cfg.Drain = 300 * ms
	b := drive(t, cfg, count(20)).Data
	if b.Calls.Failed != 20 || b.Attempts.TimedOut != 20 || errorsOf(&Block{Data: b}) != "connect_timeout/connect" {
		t.Errorf("%d failed, %d timed out, %s", b.Calls.Failed, b.Attempts.TimedOut, errorsOf(&Block{Data: b}))
	}
	cfg = racing(t, policy.Policy{}, one, two)
	cfg.Drain = 200 * ms
	out := drive(t, cfg, workloads.Block{Data: 100 * ms})
	if n := out.Data.Calls; n.Unfinished == 0 || n.Unfinished+n.Failed+n.Dropped != n.Scheduled {
		t.Errorf("calls %+v, want them unfinished", n)
	}
}

// TestIPv6Loopback: an IPv6 address is dialled as such.
func TestIPv6Loopback(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	port := ln.Addr().(*net.TCPAddr).AddrPort().Port()
	ln.Close()
	s := serve(t, ok)
	b := drive(t, racing(t, policy.Policy{}, netip.AddrPortFrom(netip.IPv6Loopback(), port), s.addr), count(10)).Data
	if b.Calls.OK != 10 || b.Connections.Fallbacks == 0 {
		t.Errorf("%d ok, %d addresses failed; want a refusal of ::1 and then 10", b.Calls.OK, b.Connections.Fallbacks)
	}
}
