package target

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"latencylab/service"
	"latencylab/workloads"
)

// childRole, in the environment, makes the test binary a child process.
const childRole = "LATENCYLAB_TARGET_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(childRole) {
	case "child":
		if err := RunChild(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	case "broken":
		fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 2000)+"the reason")
		os.Exit(3)
	case "parent": // starts a child, says its address, and ends without Close
		os.Setenv(childRole, "child")
		c, err := StartChild(os.Args[0], nil, ChildConfig{})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(c.Replicas[0])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// within runs f and fails when it takes longer than a test may wait.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s did not end", what)
	}
}

func TestChild(t *testing.T) {
	t.Setenv(childRole, "child")
	spec := &service.Spec{Replicas: 2, Queue: -1, Time: dist(t, "uniform(1ms,2ms)"), Body: 7}
	text, err := workloads.MarshalService(spec)
	if err != nil {
		t.Fatal(err)
	}
	c, err := StartChild(os.Args[0], nil, ChildConfig{Service: string(text), Seed: 5, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Replicas) != 2 {
		t.Fatalf("replicas %v, want 2", c.Replicas)
	}
	o := dial(t, c.Replicas[1])
	o.send(get("child", 3, 1))
	if _, body := o.answer("GET"); len(body) != 7 {
		t.Errorf("body %q, want 7 bytes", body)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := FetchLedger(ctx, c.LedgerURL(), "child")
	if err != nil {
		t.Fatal(err)
	}
	drawn, _ := spec.Draw(5, 1, 3, 1)
	if r := l.Run("child"); r == nil || r.DrawsFirst != digestOf(3, 1, drawn) || l.Seed != 5 || l.Threads != 2 {
		t.Errorf("ledger %+v", l)
	}
	within(t, "the child", func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	o.closed()
}

func TestChildEndsWithItsParent(t *testing.T) {
	t.Setenv(childRole, "parent")
	// The parent is a child of this test, so its own child is a grandchild.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(os.Args[0], []string{os.Args[0]}, &os.ProcAttr{Files: []*os.File{nil, w, os.Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	address, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	settle(t, "the end of the grandchild", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

func TestChildThatDoesNotStart(t *testing.T) {
	for _, row := range []struct {
		what, role, exe, service string
		want                     string // in the error
	}{
		{what: "no such program", exe: "/nowhere/target", want: "no such file"},
		{what: "a service that is none", role: "child", service: "tiem: 5ms\n", want: `unknown key "tiem"`},
		{what: "a program that ends at once", role: "broken", want: "the reason"},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Setenv(childRole, row.role)
			exe := row.exe
			if exe == "" {
				exe = os.Args[0]
			}
			_, err := StartChild(exe, nil, ChildConfig{Service: row.service})
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 2*maxStderr {
				t.Errorf("error %v, want one line with %q", err, row.want)
			}
		})
	}
}

func TestChildThatIsKilled(t *testing.T) {
	t.Setenv(childRole, "child")
	c, err := StartChild(os.Args[0], nil, ChildConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(c.Pid())
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	within(t, "the wait", func() {
		<-c.Done()
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("error %v, want that it was killed", err)
		}
	})
	c.Close()
}

func TestRunChildInProcess(t *testing.T) {
	stdin, toChild := io.Pipe()
	fromChild, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- RunChild(stdin, stdout) }()
	io.WriteString(toChild, `{"service": "time: 1ms\nreplicas: 3", "seed": 2}`+"\n")
	line, err := bufio.NewReader(fromChild).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var reply childReply
	if err := json.Unmarshal(line, &reply); err != nil || len(reply.Replicas) != 3 {
		t.Fatalf("reply %s, %v", line, err)
	}
	toChild.Close()
	within(t, "the child", func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
