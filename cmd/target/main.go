// Command target runs HTTP/1.1 servers that misbehave on purpose, as a service
// file or flags say, and keeps a ledger of what they were asked.
//
// This package turns flags into a service, prints addresses and totals, and
// turns the result into an exit code; serving is the business of package target.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"latencylab/engine"
	"latencylab/results"
	"latencylab/target"
	"latencylab/units"
)

// Exit codes. 0 is an end in order, also by the first interrupt.
const (
	exitFailed      = 1   // the servers could not run
	exitUsage       = 2   // flags or service
	exitInterrupted = 130 // a second interrupt came before the first had ended
)

// drainFor is how long requests in flight may go on after the first interrupt.
const drainFor = 5 * time.Second

const help = `usage: target [SERVICE] [flags]

Runs HTTP/1.1 servers that are slow, queue, shed and fail as told, until
interrupted. SERVICE is a service file (with a / or .yaml), or the name of a
built-in workload whose service is meant; none answers 200 at once. Flags
override it. A file may hold several services that call each other.

      --replicas N          servers, each on its own port
      --time DIST           service time: 5ms, uniform(20ms,60ms), exponential(10ms), …
      --slow SHARE:DIST     service time of a share of the requests: 2%:1s
      --slots N             requests worked on at once by a replica; default no limit
      --queue N|unlimited   requests that wait for a slot; more are shed
      --status CODE:SHARE   share answered with another status: 503:1%; repeatable
      --fault KIND=SHARE    share that meets a fault: reset=1%; repeatable
      --retry-after T       sent with 429 and 503, whole seconds
      --cancel WORD         what stops when the caller leaves: none, queued, running
      --body SIZE           length of the answer's body
      --seed N              keys the draws; default 1
      --host ADDR           address to listen on; default 127.0.0.1
      --hosts FROM-TO,…     an address for each replica, all on one port
      --port N              port of the first replica; default 8080, 0 for free ports
      --record FILE         the record of every attempt, as lines of JSON
      --ledger-out FILE     the ledger at the end
      --admin-port N        port of ledger and admin on 127.0.0.1; default a free one
  -t, --threads N           event loops that the replicas share; default 1
      --vip WORD            one address for all replicas: round-robin, random, least
      --vip-port N          its port; default a free one
      --max-connections N   open at once; default the file limit less some
      --idle T              a peer may owe bytes for so long; default 60s
      --spin D              poll this long before an answer is due, up to 10ms
      --upstream HOST:PORT  forward to a real HTTP service what would be answered
                            200; also --upstream-connections N (256),
                            --upstream-timeout T (30s), --upstream-body SIZE (8MiB)
      --baseline            one more server, that answers 200 at once
      --tls                 speak TLS, by an authority generated for this run
      --tls-ca-out FILE     where callers find that authority's certificate (PEM)
      --tls-name NAME       further name or address in its certificate; repeatable
      --cert, --key FILE    speak TLS with this certificate and key (PEM) instead
      --client-ca FILE      ask callers for a certificate of this authority (PEM)
      --version, --help

The first interrupt stops accepting, waits up to 5s for requests in flight and
prints totals; the second quits. Exit: 0 ended; 1 could not run; 2 flags or service.

examples:
  target hedge-tail
  target --time 'uniform(20ms,60ms)' --slow '2%:1s' --replicas 3
  target service.yaml --slots 8 --queue 100 --cancel running
`

// usageError is a mistake of the user's.
type usageError struct{ error }

// quit ends the process with a code and no line of its own.
type quit int

func (q quit) Error() string { return "" }

// app is the process.
type app struct {
	stdout, stderr io.Writer
	signals        <-chan os.Signal
}

func main() {
	if err := engine.CheckFiles(); err != nil {
		fmt.Fprintf(os.Stderr, "target: %v\n", err)
		os.Exit(exitFailed)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	a := &app{stdout: os.Stdout, stderr: os.Stderr, signals: signals}
	os.Exit(a.main(os.Args[1:]))
}

// main runs the command line and returns the exit code.
func (a *app) main(args []string) int {
	err := a.run(args)
	var q quit
	var u usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &q):
		return int(q)
	}
	text := units.Plain(strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
	fmt.Fprintf(a.stderr, "target: %s\n", text)
	if errors.As(err, &u) {
		return exitUsage
	}
	return exitFailed
}

func (a *app) run(args []string) error {
	o := newOptions()
	arguments, err := o.parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, err := io.WriteString(a.stdout, help)
		return err
	case err != nil:
		return usageError{err}
	case o.version:
		_, err := fmt.Fprintln(a.stdout, version())
		return err
	}
	cfg, err := o.config(arguments)
	if err != nil {
		return usageError{err}
	}
	t, err := target.Start(cfg)
	if err != nil {
		return err
	}
	defer t.Stop()
	if err := o.writeCA(t.CA()); err != nil {
		return err
	}
	stop, err := a.record(t, o.record)
	if err != nil {
		return err
	}
	if err := a.greet(t, o); err != nil { // whoever reads an address is on the record
		stop()
		return err
	}
	err = a.wait(t)
	t.Stop()
	stop()
	if lost := t.Ledger().Record.Lost; o.record != "" && lost > 0 {
		fmt.Fprintf(a.stderr, "target: %s records were lost\n", units.Count(lost))
	}
	if e := a.writeLedger(t.Ledger(), o.ledgerOut); err == nil {
		err = e
	}
	return err
}

// record begins the full record in a new file of that name, if there is one;
// stop ends it.
func (a *app) record(t *target.Target, name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	end := t.Record(f, func(err error) {
		fmt.Fprintf(a.stderr, "target: --record: %v; records are lost until it can be written again\n", err)
	})
	return func() {
		end()
		if err := f.Close(); err != nil {
			fmt.Fprintf(a.stderr, "target: --record: %v\n", err)
		}
	}, nil
}

// writeLedger writes the ledger to a file in one step, if one is named; when
// that fails it goes to standard output.
func (a *app) writeLedger(l *target.Ledger, name string) error {
	if name == "" {
		return nil
	}
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("--ledger-out: %w", err)
	}
	b = append(b, '\n')
	err = results.WriteFile(name, func(w io.Writer) error { _, err := w.Write(b); return err })
	if err != nil {
		a.stdout.Write(b)
		return fmt.Errorf("--ledger-out: %w; it was printed instead", err)
	}
	return nil
}

// greet prints where the servers are.
func (a *app) greet(t *target.Target, o *options) error {
	var b strings.Builder
	scheme := "http"
	if t.Secure() {
		scheme = "https"
	}
	replicas := t.Replicas()
	if services := t.Services(); len(services) > 1 {
		for _, s := range services {
			for _, r := range s.Replicas {
				fmt.Fprintf(&b, "%-10s %s://%v/\n", s.Name, scheme, r)
			}
		}
	} else {
		for i, r := range replicas {
			fmt.Fprintf(&b, "replica %d  %s://%v/\n", i, scheme, r)
		}
	}
	if front, ok := t.Front(); ok {
		fmt.Fprintf(&b, "vip        %s://%v/\n", scheme, front)
	}
	if base, ok := t.Baseline(); ok {
		fmt.Fprintf(&b, "baseline   %s://%v/\n", scheme, base)
	}
	if u := o.cfg.Upstream.Address; u != "" {
		fmt.Fprintf(&b, "upstream   http://%s/\n", u)
	}
	fmt.Fprintf(&b, "ledger     %s\n", t.LedgerURL())
	if t.Secure() {
		fmt.Fprintf(&b, "tls        %s\n", o.tlsWords())
	}
	fmt.Fprintf(&b, "try        loadgen run %s://%v/", scheme, reachable(replicas[0]))
	if len(replicas) > 1 {
		for _, r := range replicas {
			fmt.Fprintf(&b, " --endpoint %v", reachable(r))
		}
	}
	if t.Secure() {
		b.WriteString(o.trustFlags())
	}
	b.WriteString(" -r 1k/s -d 10s --policy plain --policy hedge=p95\n")
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// reachable is where a caller on this machine finds a server that listens on
// every address.
func reachable(at netip.AddrPort) netip.AddrPort {
	if !at.Addr().IsUnspecified() {
		return at
	}
	host := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if at.Addr().Is6() {
		host = netip.IPv6Loopback()
	}
	return netip.AddrPortFrom(host, at.Port())
}

// wait serves until a signal, and drains until a second one.
func (a *app) wait(t *target.Target) error {
	select {
	case <-a.signals:
	case err := <-t.Failed():
		return err
	}
	ended := make(chan bool, 1)
	go func() { ended <- t.Drain(drainFor) }()
	select {
	case <-a.signals:
		return quit(exitInterrupted)
	case clean := <-ended:
		if !clean {
			fmt.Fprintf(a.stderr, "target: some requests were still in flight after %s\n", units.FormatDuration(drainFor))
		}
	}
	l := t.Ledger()
	fmt.Fprintf(a.stderr, "target: %s\n", totals(l))
	if l.DelayError.Count > 0 {
		fmt.Fprintf(a.stderr, "target: %s\n", delayError(&l.DelayError))
	}
	return nil
}

// delayError says how exact the target was, on one line.
func delayError(s *target.Span) string {
	d := func(ns *int64) string { return units.Duration(time.Duration(*ns)) }
	return fmt.Sprintf("written later than due: p50 %s, p90 %s, p99 %s, p99.9 %s, max %s, of %s", d(s.P50), d(s.P90), d(s.P99), d(s.P999), d(s.Max), units.Count(s.Count))
}

// totals is the ledger on one line.
func totals(l *target.Ledger) string {
	sum := l.Total()
	text := fmt.Sprintf("arrived %s, answered %s", units.Count(sum.Arrived), units.Count(sum.AnsweredTotal()))
	var statuses []uint16
	for s := range sum.Answered { // order does not show: sorted below
		statuses = append(statuses, s)
	}
	slices.Sort(statuses)
	var parts []string
	for _, s := range statuses {
		parts = append(parts, fmt.Sprintf("%d: %s", s, units.Count(sum.Answered[s])))
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text + fmt.Sprintf(", due after the caller left %s, dropped %s, in flight %s",
		units.Count(sum.AfterLeft), units.Count(sum.Cancelled.Dropped), units.Count(sum.InFlight))
}

// version names the build: module version, commit and Go.
func version() string {
	v, commit, changes := "(devel)", "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				changes = "+changes"
			}
		}
	}
	return fmt.Sprintf("target %s, commit %s%s, %s %s/%s", v, commit, changes, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
