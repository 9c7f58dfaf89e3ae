package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"latencylab/service"
	"latencylab/units"
)

// patience bounds every wait of a test; reaching it is a failure.
const patience = 20 * time.Second

func TestMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(file, []byte("time: 5ms\nslotz: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args string
		want string // the only line on stderr
	}{
		{"--replica 3", "unknown flag --replica, nearest is --replicas"},
		{"-q", "unknown shorthand flag: 'q' in -q"},
		{"--time", "flag needs an argument: --time"},
		{"--time 10", `--time: "10" has no unit, want a duration such as 10s`},
		{"--slow 2%", `--slow: "2%": want SHARE:DIST such as 2%:1s`},
		{"--slow 2%:0s", "slow.share = 2%, but slow.time is not given, nor slow.factor"},
		{"--status 99:1%", `--status: "99:1%": status "99", want 200 to 599`},
		{"--status 503:60% --status 500:60%", "status: the shares add up to 120%, want at most 100%"},
		{"--fault reset", `--fault: "reset": want KIND=SHARE such as reset=1%`},
		{"--fault body-dript=1%", `--fault: "body-dript=1%": unknown fault "body-dript", nearest is body-drip`},
		{"--fault reset=60% --fault hang=60%", "fault: the shares add up to 120%, want at most 100%"},
		{"--fault body-stall=1%", "fault.body-stall: body-stall needs a body to strike, but body = 0: want such as body: 1KiB"},
		{"--retry-after 1500ms", "retry-after = 1.5s, want whole seconds"},
		{"--retry-after 1s", "--retry-after needs --status with 429 or 503, or --slots and a --queue that is full at some length"},
		{"--retry-after 1s --status 500:1%", "--retry-after needs --status with 429 or 503, or --slots and a --queue that is full at some length"},
		{"--cancel maybe", `--cancel: "maybe": want none, queued or running`},
		{"--slots 0", `--slots: "0": want 1 to 2147483647`},
		{"--queue 5", "queue needs slots"},
		{"--queue many", `--queue: "many": want a count such as 100, or unlimited`},
		{"--body 100", `--body: "100" has no unit, want a size such as 100B`},
		{"--seed -1", `--seed: "-1": must be a non-negative integer`},
		{"-t 0", "threads = 0, want 1 or more"},
		{"--port 65536", "port = 65536, want 0 to 65535"},
		{"--port 65534 --replicas 2 --baseline", "port = 65534 and the 2 after it end at 65536, want at most 65535"},
		{"--host localhost", `--host "localhost" is not an IP address`},
		{"--cert a.pem", "--cert without --key, want both"},
		{"--cert a.pem --key b.pem", "--cert a.pem with --key b.pem: a.pem: no such file or directory"},
		{"--client-ca a.pem", "--client-ca without TLS, want --tls or --cert and --key too"},
		{"--tls --client-ca a.pem", "--client-ca: a.pem: no such file or directory"},
		{"--tls --client-ca " + file, "--client-ca " + file + " holds no certificate, want PEM with BEGIN CERTIFICATE"},
		{"--tls-ca-out a.pem", "--tls-ca-out without a generated authority, want --tls and no --cert"},
		{"--tls --tls-name a/b", `--tls-name "a/b", want a name or an address such as shop.example`},
		{"--upstream http://a:1", `upstream = "http://a:1", want HOST:PORT of plain HTTP, without scheme and path`},
		{"--upstream a", `upstream = "a", want HOST:PORT such as 127.0.0.1:9000`},
		{"--upstream a:1 --upstream-connections 0", "upstream-connections = 0, want 1 or more"},
		{"--upstream-body 1MiB", "--upstream-body needs --upstream"},
		{"a b", "2 arguments, want one SERVICE or none"},
		{"hedge-tial", `no built-in workload "hedge-tial", nearest is "hedge-tail"`},
		{"http://127.0.0.1/", `"http://127.0.0.1/" is a URL, want a service file or the name of a built-in workload`},
		{"no/such.yaml", "read service: stat no/such.yaml: no such file or directory"},
		{file, "read service: " + file + `:2: unknown key "slotz", nearest is "slots"`},
	} {
		var stdout, stderr bytes.Buffer
		a := &app{stdout: &stdout, stderr: &stderr}
		code := a.main(strings.Fields(row.args))
		if diff := cmp.Diff("target: "+row.want+"\n", stderr.String()); diff != "" || code != exitUsage || stdout.Len() > 0 {
			t.Errorf("target %s: exit %d, want %d; stdout %q; stderr (-want +got):\n%s", row.args, code, exitUsage, stdout.String(), diff)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &stdout, stderr: &stderr}
	if code := a.main([]string{"--help"}); code != 0 || stdout.String() != help {
		t.Errorf("--help: exit %d, %q", code, stdout.String())
	}
	if n := strings.Count(help, "\n"); n > 48 {
		t.Errorf("help has %d lines, want one screen", n)
	}
	for _, line := range strings.Split(help, "\n") {
		if len([]rune(line)) > 88 {
			t.Errorf("help line of %d characters: %s", len(line), line)
		}
	}
	doc, err := os.ReadFile("../../docs/target.md")
	if err != nil {
		t.Fatal(err)
	}
	o := newOptions()
	o.flags.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(help, "--"+f.Name) || !strings.Contains(string(doc), "--"+f.Name) {
			t.Errorf("--%s is missing in the help or in docs/target.md", f.Name)
		}
	})
	stdout.Reset()
	if code := a.main([]string{"--version"}); code != 0 || !strings.HasPrefix(stdout.String(), "target ") || strings.Count(stdout.String(), "\n") != 1 {
		t.Errorf("--version: exit %d, %q", code, stdout.String())
	}
}

func TestFlagsOverrideTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "service.yaml")
	text := "replicas: 2\ntime: 5ms\nslots: 4\nqueue: 7\nstatus: {500: 10%}\nbody: 1KiB\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := func(s string) service.Dist {
		d, err := service.ParseDist(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, row := range []struct {
		what string
		args []string
		want service.Spec
	}{
		{"nothing at all is constant 0", nil, service.Spec{Queue: -1}},
		{"a file alone", []string{file}, service.Spec{
			Replicas: 2, Time: d("5ms"), Slots: 4, Queue: 7, Body: 1024, Status: []service.StatusShare{{Status: 500, Share: 0.1}},
		}},
		{
			"a file and flags", strings.Fields(file + " --replicas 3 --time uniform(1ms,2ms) --slow 2%:1s --queue unlimited --status 503:1% --status 429:2% --retry-after 2s --cancel running"),
			service.Spec{
				Replicas: 3, Time: d("uniform(1ms,2ms)"), Slow: service.Slow{Share: 0.02, Time: d("1s")}, Slots: 4, Queue: -1, Body: 1024,
				Status:     []service.StatusShare{{Status: 503, Share: 0.01}, {Status: 429, Share: 0.02}},
				RetryAfter: 2 * time.Second, Cancel: service.CancelRunning,
			},
		},
	} {
		o := newOptions()
		args, err := o.parse(row.args)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := o.config(args)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&row.want, cfg.Service); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.what, diff)
		}
		if cfg.Seed != 1 || cfg.Port != 8080 || cfg.Threads != 1 || cfg.Host.String() != "127.0.0.1" {
			t.Errorf("%s: defaults %+v", row.what, cfg)
		}
	}
}

// running is a target in this process.
type running struct {
	t       *testing.T
	lines   map[string]string // first lines of stdout, by their first word
	signals chan os.Signal
	stderr  bytes.Buffer
	code    chan int
}

func run(t *testing.T, args ...string) *running {
	t.Helper()
	r, w := io.Pipe()
	p := &running{t: t, lines: map[string]string{}, signals: make(chan os.Signal, 2), code: make(chan int, 1)}
	a := &app{stdout: w, stderr: &p.stderr, signals: p.signals}
	go func() {
		p.code <- a.main(args)
		w.Close()
	}()
	for s := bufio.NewScanner(r); s.Scan(); {
		word, rest, _ := strings.Cut(s.Text(), " ")
		p.lines[word] = strings.TrimSpace(rest)
		if word == "try" {
			break
		}
	}
	if p.lines["try"] == "" {
		t.Fatalf("did not start: %s", p.stderr.String())
	}
	return p
}

func (p *running) exit() int {
	p.t.Helper()
	select {
	case code := <-p.code:
		return code
	case <-time.After(patience):
		p.t.Fatal("did not end")
		return 0
	}
}

// TestServesTLS: the certificate of the generated authority is what callers need.
func TestServesTLS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	p := run(t, "--port", "0", "--tls", "--tls-ca-out", file)
	_, url, _ := strings.Cut(p.lines["replica"], " ")
	url = strings.TrimSpace(url)
	ca, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	resp, err := client.Get(url)
	if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(url, "https://") {
		t.Fatalf("%s: %v, %v", url, resp, err)
	}
	resp.Body.Close()
	if !strings.Contains(p.lines["try"], "--cacert "+file) || !strings.Contains(p.lines["tls"], file) {
		t.Errorf("tls %q, try %q; want both to name the file", p.lines["tls"], p.lines["try"])
	}
	p.signals <- syscall.SIGTERM
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d, want 0: %s", code, p.stderr.String())
	}
}

func TestServesUntilInterrupted(t *testing.T) {
	p := run(t, "hedge-tail", "--port", "0", "--replicas", "2", "--time", "1ms", "--slow", "0%:1s", "--status", "503:100%")
	fields := strings.Fields(p.lines["replica"]) // the last one: "1  http://…/"
	if len(fields) != 2 || fields[0] != "1" || strings.Count(p.lines["try"], "--endpoint") != 2 {
		t.Fatalf("printed %q", p.lines)
	}
	c := http.Client{Timeout: patience}
	resp, err := c.Get(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 503 || resp.Header.Get("Latencylab-Replica") != "1" {
		t.Errorf("status %d of replica %q, want 503 of 1", resp.StatusCode, resp.Header.Get("Latencylab-Replica"))
	}
	if resp, err = c.Get(p.lines["ledger"]); err != nil || resp.StatusCode != 200 {
		t.Errorf("ledger page: %v, %v", resp, err)
	}
	resp.Body.Close()
	p.signals <- syscall.SIGTERM
	want := "target: arrived 1, answered 1 (503: 1), due after the caller left 0, dropped 0, in flight 0\ntarget: written later than due: p50 "
	if code := p.exit(); code != 0 || !strings.HasPrefix(p.stderr.String(), want) {
		t.Errorf("exit %d, stderr %q, want 0 and %q", code, p.stderr.String(), want)
	}
}

func TestSecondInterruptQuits(t *testing.T) {
	p := run(t, "--port", "0", "--time", "1h")
	addr := strings.TrimSuffix(strings.TrimPrefix(strings.Fields(p.lines["replica"])[1], "http://"), "/")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	c := http.Client{Timeout: patience}
	for end := time.Now().Add(patience); ; {
		resp, err := c.Get(p.lines["ledger"])
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Contains(string(b), `"in_flight": 1`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the request did not arrive")
		}
	}
	p.signals <- os.Interrupt
	p.signals <- os.Interrupt
	if code := p.exit(); code != exitInterrupted {
		t.Errorf("exit %d, want %d", code, exitInterrupted)
	}
}

func TestPortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &stdout, stderr: &stderr}
	code := a.main([]string{"--port", strconv.Itoa(port)})
	want := "target: listen on " + ln.Addr().String() + ": the port is in use\n"
	if code != exitFailed || stderr.String() != want || stdout.Len() > 0 {
		t.Errorf("exit %d, stderr %q, stdout %q; want %d and %q", code, stderr.String(), stdout.String(), exitFailed, want)
	}
}

func TestBodyLimit(t *testing.T) {
	n, err := units.ParseSize("2GiB")
	if err != nil {
		t.Fatal(err)
	}
	o := newOptions()
	args, err := o.parse([]string{"--body", units.FormatSize(n)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.config(args); err == nil || !strings.HasPrefix(err.Error(), "body = ") {
		t.Errorf("error %v, want that the body is too long", err)
	}
}

// TestSeveralServices: a file of services that call each other, each address
// printed by name.
func TestSeveralServices(t *testing.T) {
	p := run(t, "../../docs/examples/page.yaml", "--port", "0")
	for _, name := range []string{"page", "account", "orders", "advice"} {
		if !strings.HasPrefix(p.lines[name], "http://127.0.0.1:") {
			t.Fatalf("printed %q, want the address of %s", p.lines, name)
		}
	}
	c := http.Client{Timeout: patience}
	resp, err := c.Get(p.lines["page"])
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %d, want 200", resp.StatusCode)
	}
	p.signals <- syscall.SIGTERM
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d, want 0: %s", code, p.stderr.String())
	}
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs}
	if code := a.main([]string{"../../docs/examples/page.yaml", "--time", "5ms"}); code != 2 || !strings.Contains(errs.String(), "has 4 of them: want the change in the file") {
		t.Errorf("a flag for several services: exit %d, %q", code, errs.String())
	}
}
