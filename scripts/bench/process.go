package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Cores of the two sides.
const (
	serverCore    = 0
	generatorCore = 1
)

// table holds what was started and has not ended, to end it in any case.
type table struct {
	mu   sync.Mutex
	pids []int // each leads its own process group
}

var running table

func (t *table) add(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pids = append(t.pids, pid)
}

func (t *table) remove(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.pids, pid); i >= 0 {
		t.pids = slices.Delete(t.pids, i, i+1)
	}
}

func (t *table) killAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pid := range t.pids {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	t.pids = nil
}

// outcome is what one finished process has used.
type outcome struct {
	cpu    time.Duration // user + system, all threads, from exec to exit
	peak   int64         // bytes, VmHWM as last seen
	stdout []byte
	stderr []byte
	exit   int
}

// pinned makes a process on one core, the leader of its own group. taskset
// replaces itself by the program, so the process id and the times are its.
func pinned(core int, c command) *exec.Cmd {
	cmd := exec.Command("taskset", append([]string{"-c", strconv.Itoa(core)}, c.args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), c.env...)
	if c.stdin != "" {
		cmd.Stdin = strings.NewReader(c.stdin)
	}
	return cmd
}

// run runs a generator to its end, at most limit.
func run(c command, limit time.Duration) (outcome, error) { return runWatched(c, limit, nil) }

// runWatched calls seen with the process's peak memory every 100 ms.
//
// The peak is read from /proc because ru_maxrss would include the memory of this
// process, which the child shares between fork and exec. What is allocated in
// the last 100 ms may be missed.
func runWatched(c command, limit time.Duration, seen func(peak int64)) (outcome, error) {
	cmd := pinned(generatorCore, c)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return outcome{}, fmt.Errorf("start %s: %w", c, err)
	}
	pid := cmd.Process.Pid
	running.add(pid)
	defer running.remove(pid)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(limit)
	defer late.Stop()
	var u outcome
	for {
		select {
		case <-tick.C:
			if p := peakOf(pid); p > 0 {
				u.peak = p
				if seen != nil {
					seen(p)
				}
			}
		case <-late.C:
			syscall.Kill(-pid, syscall.SIGKILL)
			<-done
			return u, fmt.Errorf("%s did not end within %s", c, limit)
		case <-done:
			st := cmd.ProcessState
			u.cpu, u.exit = st.UserTime()+st.SystemTime(), st.ExitCode()
			u.stdout, u.stderr = stdout.Bytes(), stderr.Bytes()
			if u.exit != 0 && !slices.Contains(c.exits, u.exit) {
				return u, fmt.Errorf("%s: %s: %s", c, st, tail(stderr.String()))
			}
			return u, nil
		}
	}
}

// tail returns the last lines of a message.
func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], " | ")
}

// peakOf returns VmHWM in bytes, or 0 when the process has none any more.
func peakOf(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return parsePeak(string(b))
}

func parsePeak(status string) int64 {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			if err == nil {
				return kb << 10
			}
		}
	}
	return 0
}

// stop ends a server with SIGTERM, and with SIGKILL when that takes over 10 s.
func stop(cmd *exec.Cmd) {
	pid := cmd.Process.Pid
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	syscall.Kill(pid, syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		syscall.Kill(-pid, syscall.SIGKILL)
		<-done
	}
	running.remove(pid)
}
