package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tools builds the command lines of all generators: nothing else does.
type tools struct {
	dir string // holds loadgen, lateness, vegeta and bombardier
}

func (t tools) path(name string) string { return filepath.Join(t.dir, name) }

// command is a program to run and how it is called in the output.
type command struct {
	name  string
	args  []string
	stdin string
	env   []string
	// exits lists the exit codes beside 0 that are a finished run.
	exits []int
}

// String is the command as a person would type it, without directories.
func (c command) String() string {
	words := slices.Clone(c.args)
	for i, w := range words {
		if filepath.IsAbs(w) && w != "/dev/null" {
			words[i] = filepath.Base(w)
		}
	}
	s := strings.Join(append(append([]string{}, c.env...), words...), " ")
	if c.stdin != "" {
		s = "echo '" + strings.TrimSpace(c.stdin) + "' | " + s
	}
	return s
}

// loadgen exits 3 when a figure that it states is not valid, which a busy
// machine can cause; what is measured here is its cost.
func (t tools) loadgen(name, url string, d time.Duration, more ...string) command {
	args := append([]string{t.path("loadgen"), "run", url, "-d", d.String(), "-t", "1"}, more...)
	return command{name: name, args: args, exits: []int{3}}
}

func (t tools) loadgenClosed(url string, conns int, d time.Duration, more ...string) command {
	return t.loadgen("loadgen", url, d, append([]string{"-c", strconv.Itoa(conns)}, more...)...)
}

func (t tools) loadgenHedge(url string, conns int, d time.Duration) command {
	c := t.loadgenClosed(url, conns, d, "--policy", "hedge=10s")
	c.name = "loadgen, hedge armed"
	return c
}

func (t tools) loadgenOpen(url string, rate int, d time.Duration) command {
	return t.loadgen("loadgen", url, d, "-r", strconv.Itoa(rate)+"/s", "--arrivals", "constant")
}

func (t tools) wrk(url string, conns int, d time.Duration) command {
	return command{name: "wrk", args: []string{"wrk", "-t1", "-c" + strconv.Itoa(conns), "-d" + d.String(), url}}
}

func (t tools) bombardier(url string, conns int, d time.Duration) command {
	return command{name: "bombardier", args: []string{t.path("bombardier"), "-q", "-c", strconv.Itoa(conns), "-d", d.String(), url}}
}

func (t tools) vegetaClosed(url string, conns int, d time.Duration) command {
	n := strconv.Itoa(conns)
	return command{name: "vegeta", stdin: "GET " + url + "\n", args: []string{t.path("vegeta"), "attack", "-rate", "0",
		"-workers", n, "-max-workers", n, "-duration", d.String(), "-output", "/dev/null"}}
}

func (t tools) vegetaOpen(url string, rate int, d time.Duration) command {
	return command{name: "vegeta", stdin: "GET " + url + "\n", args: []string{t.path("vegeta"), "attack", "-rate", strconv.Itoa(rate) + "/s",
		"-duration", d.String(), "-output", "/dev/null"}}
}

// commit names the state of the sources, or says that it is not known.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "commit unknown"
	}
	return "commit " + strings.TrimSpace(string(out))
}
