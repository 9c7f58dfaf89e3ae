package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"latencylab/engine"
	"latencylab/results"
	"latencylab/target"
	"latencylab/trial"
	"latencylab/units"
	"latencylab/workloads"
)

const runHelp = `usage: loadgen run [URL] [WORKLOAD] [flags]

Drives an HTTP/1.1 server, by http:// or https://; several policies are compared
in alternating blocks. Without argument: the built-in hedge-tail on an embedded
target. WORKLOAD is a file (with / or .yaml) or a built-in one; a flag replaces
what it says.

  -r, --rate RATE           open loop at this rate, such as 1k/s; without a rate
  -c, --connections N       closed loop of N (10); in open loop a ceiling
  -d, --duration D          data time of each policy (10s), or
  -n, --requests N          calls of each policy
  -t, --threads N           event loops (1)
  -X, --method METHOD       GET, or POST when there is a body
  -H, --header 'NAME: V'    repeatable
  -b, --body TEXT|@FILE     request body
      --policy [NAME:]SPEC  repeatable, such as plain or hedge=p95,budget=10%
      --endpoint HOST:PORT  repeatable: the replicas behind the URL's host
      --resolve HOST:PORT:ADDR[,ADDR]…  addresses in place of a look-up, and
      --connect-to HOST1:PORT1:HOST2:PORT2  connect elsewhere, as curl has them
      --insecure            https: accept any certificate
      --cacert FILE         trust these authorities instead of the system's
      --cert, --key FILE    the client's certificate and its key
      --servername NAME     name to ask for and verify (the URL's host)
      --tls-resumption WORD on or off: connections resume sessions (on)
      --tls-min, --tls-max  1.2 or 1.3
      --arrivals KIND       poisson (default) or constant
      --within D            objective: share of calls OK within D; repeatable
      --clients N           policy clients that share the calls (1)
      --warmup D            burn-in before data (3s to compare, else none; up
                            to 30s for hedge=pN at a low rate)
      --ramp D              the rate rises from 0 over D before the warm-up
      --drain D             time for calls after the end (5s, or the deadline)
      --stages LIST         of pilot,blocks,sustained,pulse (blocks; without a
                            URL a comparison ends with a pulse)
      --block D             data of a policy in one block
      --call-headers WHEN   auto, on or off: number calls and attempts
      --spin D              poll this long before a call is due, up to 10ms
      --seed N              keys arrivals and policies (1)
      --target-seed N       keys the embedded target's draws (the seed)
  -o, --output FILE         write the result, as JSON or as the ending says
      --format FORMAT       text, json, csv, hgrm or hlog
      --progress            a line a second on stderr, terminal or not
More flags, for a service that is not your own machine: loadgen help guards

examples:
  loadgen run
  loadgen run http://127.0.0.1:8080/ -c 64 -d 10s
  loadgen run https://127.0.0.1:8443/ --cacert ca.pem -r 2k/s --policy hedge=p95
`

// runFlags are the flags of run alone.
type runFlags struct {
	measureFlags
	connections int
	threads     int
	method      string
	headers     []workloads.Header
	body        string
	endpoints   []string
	steer       workloads.Steer
	callHeaders string
	spin        time.Duration
	progress    bool
	tls         tlsFlags
	guards      guardFlags
}

func (m *runFlags) register(fs *pflag.FlagSet) {
	m.measureFlags.register(fs)
	scalar(fs, &m.connections, "connections", "c", "N", atLeast1(maxConnections))
	scalar(fs, &m.threads, "threads", "t", "N", atLeast1(maxThreads))
	scalar(fs, &m.method, "method", "X", "METHOD", workloads.ParseMethod)
	list(fs, &m.headers, "header", "H", "NAME: VALUE", workloads.ParseHeader)
	scalar(fs, &m.body, "body", "b", "TEXT", text)
	list(fs, &m.endpoints, "endpoint", "", "HOST:PORT", text)
	list(fs, &m.steer.Resolve, "resolve", "", "HOST:PORT:ADDR", workloads.ParseResolve)
	list(fs, &m.steer.ConnectTo, "connect-to", "", "HOST:PORT:HOST:PORT", workloads.ParseConnectTo)
	m.callHeaders = "auto"
	scalar(fs, &m.callHeaders, "call-headers", "", "WHEN", oneOf("auto", "on", "off"))
	m.spin = -1
	scalar(fs, &m.spin, "spin", "", "D", engine.ParseSpin)
	fs.BoolVar(&m.progress, "progress", false, "")
	m.tls.register(fs)
	m.guards.register(fs)
}

func (m *runFlags) apply(w *workloads.Workload) error {
	if err := m.measureFlags.apply(w); err != nil {
		return err
	}
	if m.fs.Changed("connections") {
		w.Connections = m.connections
	}
	if m.fs.Changed("threads") {
		w.Threads = m.threads
	}
	if m.fs.Changed("header") {
		w.Request.Headers = m.headers
	}
	if m.fs.Changed("body") {
		body, err := readBody(m.body)
		if err != nil {
			return usagef("--body %s: %w", m.body, bare(err))
		}
		w.Request.Body = body
		if !m.fs.Changed("method") && w.Request.Method == "GET" {
			w.Request.Method = "POST"
		}
	}
	if m.fs.Changed("method") {
		w.Request.Method = m.method
	}
	if m.fs.Changed("resolve") {
		w.Steer.Resolve = m.steer.Resolve
	}
	if m.fs.Changed("connect-to") {
		w.Steer.ConnectTo = m.steer.ConnectTo
	}
	m.tls.apply(m.fs, &w.TLS)
	m.guards.apply(m.fs, w)
	return nil
}

// runArgs splits the arguments into a URL and a workload, each "" when absent.
func runArgs(args []string) (url, workload string, err error) {
	for _, arg := range args {
		to, what := &workload, "workloads"
		if strings.Contains(arg, "://") {
			to, what = &url, "URLs"
		}
		if *to != "" {
			return "", "", usagef("two %s: %q and %q, want one", what, *to, arg)
		}
		if arg == "" {
			return "", "", usagef("an empty argument, want a URL or a workload")
		}
		*to = arg
	}
	return url, workload, nil
}

func runRun(a *app, args []string) error {
	var m runFlags
	fs := flagSet("run")
	m.register(fs)
	if err := a.parse(fs, runHelp, args); err != nil {
		return err
	}
	p, s, err := m.plan(fs.Args())
	if err != nil {
		return err
	}
	p.Version, p.Command = a.identity()
	if err := s.Check(p); err != nil {
		return usage(err)
	}
	if err := m.output.check(a, len(p.Workload.Policies)); err != nil {
		return err
	}
	if err := guard(context.Background(), p, s); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	s.Child = []string{exe, childCommand}
	log, err := m.output.openLog()
	if err != nil {
		return err
	}
	if log != nil {
		s.Log = log
	}
	show := newProgress(a, p, m.progress)
	once := fmt.Sprintf("interrupted: waiting up to %s for calls under way; ^C again to stop at once", units.FormatDuration(p.Workload.Drain))
	interrupt, stop := a.onInterrupt(once, show.say)
	defer stop()
	s.Interrupt = interrupt
	s.Observer = show.observer()
	show.begin()
	r, err := trial.Real(context.Background(), p, s)
	show.end()
	if err != nil {
		log.drop()
		return err
	}
	if err := log.keep(m.output.write(a, r)); err != nil {
		return err
	}
	if sample, ok := trial.Unreached(r); ok && !r.Interrupted {
		return fmt.Errorf("nothing was measured: no attempt reached the server (%s)", sample)
	}
	if r.Void == trial.Nothing {
		return fmt.Errorf("nothing was measured: %s, want a longer --duration or --requests", r.Void)
	}
	return exit(codeOf(r))
}

// plan turns flags and arguments into what is to be measured, and where.
func (m *runFlags) plan(args []string) (*trial.Plan, *trial.Setup, error) {
	url, name, err := runArgs(args)
	if err != nil {
		return nil, nil, err
	}
	w := workloads.New()
	switch {
	case name != "":
		w, err = loadWorkload(name)
	case url == "" && len(m.endpoints) == 0:
		w, err = loadWorkload("hedge-tail")
	}
	if err != nil {
		return nil, nil, err
	}
	if err := m.apply(w); err != nil {
		return nil, nil, err
	}
	s := &trial.Setup{CallHeaders: m.callHeaders, Spin: m.spin, Guards: m.guards.Guards}
	endpoints := m.endpoints
	if len(endpoints) == 0 && url == "" {
		endpoints = w.Endpoints
	}
	if url != "" || len(endpoints) > 0 {
		if s.Site, err = trial.ParseSite(url, w.Request.Path, endpoints); err != nil {
			return nil, nil, usage(err)
		}
		w.Request.Path = s.Site.Path
		w.Endpoints = s.Site.URLs()
	}
	p, err := trial.NewPlan(w, trial.Choices{TargetSeed: m.targetSeedOr(), Embedded: s.Site == nil})
	if err != nil {
		return nil, nil, usage(err)
	}
	return p, s, nil
}

// childCommand is the hidden command of the embedded target's process.
const childCommand = "embedded-target"

func runChild(a *app, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument: it is started by loadgen run", childCommand)
	}
	return target.RunChild(os.Stdin, os.Stdout)
}

// codeOf is the exit code of a Run that was written.
func codeOf(r *results.Run) int {
	switch {
	case r.Interrupted:
		return exitInterrupted
	case !r.Verdict.Valid:
		return exitInvalid
	}
	return 0
}
