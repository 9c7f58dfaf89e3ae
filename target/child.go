package target

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"latencylab/service"
	"latencylab/workloads"
)

// ChildConfig is what a child process is told, as one line of JSON.
type ChildConfig struct {
	// Service is a service in the form of a service file; "" is the zero Spec.
	Service string `json:"service"`
	Seed    uint64 `json:"seed"`
	Threads int    `json:"threads"` // see Config.Threads
}

// childReply is the one line of JSON that a child answers.
type childReply struct {
	Replicas []netip.AddrPort `json:"replicas,omitempty"`
	Admin    netip.AddrPort   `json:"admin,omitzero"`
	CA       string           `json:"ca,omitempty"` // PEM, of a target that speaks TLS
	Error    string           `json:"error,omitempty"`
}

// RunChild is the whole life of a child process: it reads a ChildConfig from
// stdin, starts a target on free ports of 127.0.0.1, writes its addresses to
// stdout, and serves until stdin ends, which it does when the parent has ended.
// It ignores SIGINT and SIGTERM, which are the parent's to handle. The
// error of a target that does not start is also told to the parent.
func RunChild(stdin io.Reader, stdout io.Writer) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	in := bufio.NewReader(stdin)
	t, err := startChild(in)
	reply := childReply{}
	if err != nil {
		reply.Error = err.Error()
	} else {
		defer t.Stop()
		reply.Replicas, reply.Admin, reply.CA = t.Replicas(), t.Admin(), string(t.CA())
	}
	line, jerr := json.Marshal(&reply)
	if jerr != nil {
		return jerr
	}
	if _, werr := stdout.Write(append(line, '\n')); werr != nil && err == nil {
		return fmt.Errorf("tell the parent: %w", werr)
	}
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	select {
	case err = <-ended:
	case err = <-t.Failed():
	}
	return err
}

func startChild(in *bufio.Reader) (*Target, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read the child's config: %w", err)
	}
	var cfg ChildConfig
	if err := json.Unmarshal(line, &cfg); err != nil {
		return nil, fmt.Errorf("read the child's config: %w", err)
	}
	g := workloads.Single(&service.Spec{})
	if cfg.Service != "" {
		if g, err = workloads.ParseGraphText("service", []byte(cfg.Service)); err != nil {
			return nil, err
		}
	}
	return Start(Config{Graph: g, Seed: cfg.Seed, Threads: cfg.Threads})
}

// closePatience is how long Close waits for a child before it kills it.
const closePatience = 2 * time.Second

// maxStderr bounds what is kept of a child's standard error: the last bytes.
const maxStderr = 4 << 10

// Child is a target in a process of its own.
type Child struct {
	Replicas []netip.AddrPort // by number
	Admin    netip.AddrPort
	// CA is the certificate of the target's authority as PEM; "" without TLS.
	CA string

	process *os.Process
	stdin   io.WriteCloser
	stderr  tail
	done    chan struct{}
	err     error // how it ended; valid once done is closed
	closing sync.Once
}

// StartChild runs exe with args, a program that calls RunChild, and waits until
// it serves. The child ends with this process, however that ends.
func StartChild(exe string, args []string, cfg ChildConfig) (*Child, error) {
	line, err := json.Marshal(&cfg)
	if err != nil {
		return nil, fmt.Errorf("start the target: %w", err)
	}
	cmd := exec.Command(exe, args...)
	c := &Child{done: make(chan struct{})}
	cmd.Stderr = &c.stderr
	cmd.SysProcAttr = childAttr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the target: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the target: %w", err)
	}
	c.stdin = stdin
	cmd.WaitDelay = time.Second // a process of the child's may hold its standard error
	started, greeted := make(chan error), make(chan struct{})
	go c.watch(cmd, started, greeted)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the target: %w", err)
	}
	err = c.greet(append(line, '\n'), stdout)
	close(greeted)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("start the target: %w", c.explain(err))
	}
	return c, nil
}

// watch starts the process and waits for its end, all on one thread: the
// kernel ends the child when the thread that has started it ends, and Go ends
// threads that it needs no longer.
func (c *Child) watch(cmd *exec.Cmd, started chan<- error, greeted <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	if err == nil {
		c.process = cmd.Process
	}
	started <- err
	if err != nil {
		return
	}
	<-greeted // Wait closes the pipe that greet reads
	c.err = cmd.Wait()
	close(c.done)
}

// greet tells the child its config and reads its reply.
func (c *Child) greet(line []byte, stdout io.Reader) error {
	if _, err := c.stdin.Write(line); err != nil {
		return err
	}
	answer, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no answer of the child: %w", err)
	}
	var reply childReply
	if err := json.Unmarshal(answer, &reply); err != nil {
		return fmt.Errorf("answer of the child: %w", err)
	}
	if reply.Error != "" {
		return errors.New(reply.Error)
	}
	if len(reply.Replicas) == 0 || !reply.Admin.IsValid() {
		return errors.New("answer of the child: no addresses")
	}
	c.Replicas, c.Admin, c.CA = reply.Replicas, reply.Admin, reply.CA
	return nil
}

// LedgerURL returns the address of the child's ledger page.
func (c *Child) LedgerURL() string { return "http://" + c.Admin.String() + "/ledger" }

// Pid returns the number of the child's process.
func (c *Child) Pid() int { return c.process.Pid }

// Done is closed when the process has ended, for whatever reason.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err waits for the end of the process and says how it ended, with the last of
// its standard error; nil is an end in order.
func (c *Child) Err() error {
	<-c.done
	if c.err == nil {
		return nil
	}
	return c.explain(fmt.Errorf("the target has ended: %w", c.err))
}

// explain adds the child's standard error to err, on one line.
func (c *Child) explain(err error) error {
	text := strings.Join(strings.Fields(c.stderr.String()), " ")
	if text == "" || strings.Contains(text, err.Error()) && strings.Contains(err.Error(), text) {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// Close ends the child and waits for it: by the end of its standard input, or
// after 2 s by force. It returns what Err does.
func (c *Child) Close() error {
	c.closing.Do(func() {
		c.stdin.Close()
		timer := time.NewTimer(closePatience)
		defer timer.Stop()
		select {
		case <-c.done:
		case <-timer.C:
			c.process.Kill()
		}
	})
	return c.Err()
}

// tail keeps the last bytes written to it.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(p)
	if over := t.b.Len() - maxStderr; over > 0 {
		t.b.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
