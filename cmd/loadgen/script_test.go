package main

import (
	"bufio"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"latencylab/results"
	"latencylab/target"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"loadgen": main})
}

// TestScripts runs the command line against servers in this process:
//
//	serve VAR            a plain server that answers 200; VAR becomes its URL
//	serve VAR tls        the same over TLS; ca.pem becomes its authority
//	serve VAR silent     one that accepts and never answers
//	serve VAR dying      one that answers 20 requests and then closes everything
//	serve VAR FILE       a target of the service in FILE; VAR2, … are its other replicas,
//	                     and ca.pem its authority when it speaks TLS
//	refuse VAR           the URL of an address at which nobody listens
//	codes N,… COMMAND…   COMMAND ends with one of these exit codes; a busy machine
//	                     may make a run in open loop invalid (3)
//	schema FILE          the Run fits its JSON schema
//	draws FILE           all policies of the Run met the same arrivals and draws
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"serve":  serve,
			"refuse": refuse,
			"codes":  codes,
			"draws":  draws,
			"schema": schema,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "devfull" {
				_, err := os.Stat("/dev/full")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: serve VAR [tls|silent|dying|FILE]")
	}
	how := ""
	if len(args) == 2 {
		how = args[1]
	}
	switch how {
	case "":
		ts.Setenv(args[0], plainServer(ts))
	case "tls":
		ts.Setenv(args[0], secureServer(ts))
	case "silent":
		ts.Setenv(args[0], silentServer(ts))
	case "dying":
		ts.Setenv(args[0], dyingServer(ts))
	default:
		spec, err := os.ReadFile(ts.MkAbs(how))
		ts.Check(err)
		// The program itself, as in a run: a process of its own.
		self, err := exec.LookPath("loadgen")
		ts.Check(err)
		tg, err := target.StartChild(self, []string{childCommand}, target.ChildConfig{Service: string(spec), Seed: 1, Threads: 1})
		ts.Check(err)
		ts.Defer(func() { tg.Close() })
		scheme := "http"
		if tg.CA != "" {
			scheme = "https"
			ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), []byte(tg.CA), 0o600))
		}
		for i, a := range tg.Replicas {
			name := args[0]
			if i > 0 {
				name = fmt.Sprintf("%s%d", args[0], i+1)
			}
			ts.Setenv(name, scheme+"://"+a.String())
		}
	}
}

func plainServer(ts *testscript.TestScript) string {
	s := httptest.NewServer(http.HandlerFunc(sayOK))
	ts.Defer(s.Close)
	return s.URL
}

func sayOK(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "2")
	w.Write([]byte("ok"))
}

func secureServer(ts *testscript.TestScript) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(sayOK))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	ts.Defer(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), ca, 0o600))
	return s.URL
}

// silentServer accepts connections and reads, and says nothing.
func silentServer(ts *testscript.TestScript) string {
	return listener(ts, func(c net.Conn) {
		buf := make([]byte, 4096)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	})
}

// dyingServer answers 20 requests; then it closes every connection at its first
// byte.
func dyingServer(ts *testscript.TestScript) string {
	var served atomic.Int64
	return listener(ts, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if strings.TrimSpace(line) != "" {
				continue
			}
			if served.Add(1) > 20 {
				return
			}
			if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")); err != nil {
				return
			}
		}
	})
}

// listener serves each connection with f, which returns when it is to be closed.
func listener(ts *testscript.TestScript, f func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// refuse sets VAR to the URL of a port that was free a moment ago.
func refuse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: refuse VAR")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], "http://"+l.Addr().String())
	l.Close()
}

// codes runs a command and checks its exit code.
func codes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: codes N,… COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(code)) {
		ts.Fatalf("%v ends with %d, want %s", args[1:], code, args[0])
	}
}

// schema checks a Run against its JSON schema.
func schema(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: schema FILE")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(results.RunSchema))
	ts.Check(err)
	c := jsonschema.NewCompiler()
	ts.Check(c.AddResource("run.schema.json", doc))
	s, err := c.Compile("run.schema.json")
	ts.Check(err)
	run, err := jsonschema.UnmarshalJSON(strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(err)
	ts.Check(s.Validate(run))
}

// draws checks that every policy has the same digest of draws, and that there
// is one.
func draws(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: draws FILE")
	}
	r, err := results.Read(ts.MkAbs(args[0]))
	ts.Check(err)
	for i := range r.Policies {
		if d := r.Policies[i].DrawsDigest.Value; d == "" || d != r.Policies[0].DrawsDigest.Value {
			ts.Fatalf("policy %s has draws_digest %q, policy %s has %q", r.Policies[i].Name, d, r.Policies[0].Name, r.Policies[0].DrawsDigest.Value)
		}
	}
	if r.ArrivalsDigest.Value == "" || len(r.Warnings) > 0 {
		ts.Fatalf("arrivals_digest %q, warnings %v", r.ArrivalsDigest.Value, r.Warnings)
	}
}

// program makes this test binary run as loadgen, under that name in dir.
func program(t *testing.T, dir string) string {
	t.Helper()
	exe := filepath.Join(dir, "loadgen")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, exe); err != nil {
		t.Fatal(err)
	}
	return exe
}

// TestInterruptWritesWhatWasMeasured: the first interrupt ends the run in order,
// with the marked result in the file and on standard output, and exit code 130.
func TestInterruptWritesWhatWasMeasured(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer s.Close()
	dir := t.TempDir()
	exe := program(t, dir)
	out := filepath.Join(dir, "run.json")
	cmd := exec.Command(exe, "run", s.URL, "-r", "200/s", "-d", "60s", "-o", out, "--progress")
	var stdout strings.Builder
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "calls/s") {
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer kill.Stop()
	told := false
	for lines.Scan() {
		told = told || lines.Text() == "interrupted: waiting up to 5s for calls under way; ^C again to stop at once"
	}
	cmd.Wait()
	if !told {
		t.Error("standard error does not say what the interrupt began")
	}
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if !strings.Contains(stdout.String(), "INTERRUPTED") {
		t.Errorf("standard output does not say that the run was interrupted:\n%s", stdout.String())
	}
	saved, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(saved), `"interrupted": true`) {
		t.Errorf("the saved result is not marked (%v)", err)
	}
}

// TestASecondInterruptStopsAtOnce: it does not wait for calls that never end.
func TestASecondInterruptStopsAtOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts by its backlog and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	exe := program(t, dir)
	cmd := exec.Command(exe, "run", "http://"+l.Addr().String()+"/", "-c", "1", "-d", "10m", "--drain", "10m", "-o", filepath.Join(dir, "run.json"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer kill.Stop()
	told := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		switch text := lines.Text(); {
		case strings.HasPrefix(text, "block 1 of 1"), text == "interrupted: waiting up to 10m for calls under way; ^C again to stop at once":
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		case text == interruptedTwice:
			told = true
		}
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !told {
		t.Errorf("exit code %d, told %t; want %d after a line that says so", code, told, exitInterrupted)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "run.*")); err != nil || len(left) != 1 || filepath.Base(left[0]) != "run.hlog.part" {
		t.Errorf("files %v (%v), want the log alone, under the name of an unfinished one", left, err)
	}
}

// TestHelpFitsAScreenAndNamesEveryFlag: at most 48 lines of 80 columns, ending
// in three examples.
func TestHelpFitsAScreenAndNamesEveryFlag(t *testing.T) {
	var run runFlags
	runSet := flagSet("run")
	run.register(runSet)
	var guards guardFlags
	guardSet := flagSet("guards")
	guards.register(guardSet)
	var m measureFlags
	simSet := flagSet("sim")
	m.register(simSet)
	for _, c := range []struct {
		name, help string
		flags      []string
	}{
		{"loadgen", mainHelp, nil},
		{"run", runHelp, except(flagNames(runSet), flagNames(guardSet))},
		{"guards", guardsHelp, flagNames(guardSet)},
		{"sim", simHelp, flagNames(simSet)},
		{"lint", lintHelp, []string{"policy", "rate", "format", "output"}},
		{"report", reportHelp, []string{"format", "policy", "of", "output"}},
		{"lab", labHelp, []string{"real", "seed", "runs", "requests", "prng", "discipline", "export", "format", "output"}},
	} {
		lines := strings.Split(strings.TrimSuffix(c.help, "\n"), "\n")
		if len(lines) > 48 {
			t.Errorf("%s: help has %d lines, want at most 48", c.name, len(lines))
		}
		for _, l := range lines {
			if n := len([]rune(l)); n > 80 {
				t.Errorf("%s: help has a line of %d columns: %s", c.name, n, l)
			}
		}
		if k := len(lines) - 4; k < 0 || lines[k] != "examples:" {
			t.Errorf("%s: help does not end in three examples", c.name)
		}
		for _, f := range c.flags {
			if !strings.Contains(c.help, "--"+f) {
				t.Errorf("%s: help does not name --%s", c.name, f)
			}
		}
	}
}
