package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"latencylab/engine"
	"latencylab/service"
	"latencylab/target"
	"latencylab/units"
	"latencylab/workloads"
)

// options are the flags as typed.
type options struct {
	flags   *pflag.FlagSet
	version bool
	cfg     target.Config
	host    string
	// record and ledgerOut are the files for the full record and for the ledger at
	// the end; "" for none.
	record, ledgerOut string
	// change holds what the flags say about the service, in the order typed.
	change []func(*service.Spec)
	status bool // --status was given
	tls    tlsOptions
}

func newOptions() *options {
	o := &options{flags: pflag.NewFlagSet("target", pflag.ContinueOnError)}
	f := o.flags
	f.SortFlags = false
	f.Usage = func() {}
	f.BoolVar(&o.version, "version", false, "")
	f.Uint64Var(&o.cfg.Seed, "seed", 1, "")
	f.StringVar(&o.host, "host", "127.0.0.1", "")
	f.IntVar(&o.cfg.Port, "port", 8080, "")
	f.StringVar(&o.record, "record", "", "")
	f.StringVar(&o.ledgerOut, "ledger-out", "", "")
	f.IntVar(&o.cfg.AdminPort, "admin-port", 0, "")
	f.IntVarP(&o.cfg.Threads, "threads", "t", 1, "")
	f.BoolVar(&o.cfg.Baseline, "baseline", false, "")
	f.IntVar(&o.cfg.FrontPort, "vip-port", 0, "")
	f.IntVar(&o.cfg.MaxConnections, "max-connections", 0, "")
	f.Func("hosts", "", func(text string) (err error) {
		o.cfg.Hosts, err = hosts(text)
		return err
	})
	f.Func("vip", "", func(word string) error {
		d, ok := target.DealNamed(word)
		if !ok {
			return errors.New("want round-robin, random or least")
		}
		o.cfg.Front = d
		return nil
	})
	f.Func("idle", "", func(text string) (err error) {
		if o.cfg.Idle, err = units.ParseDuration(text); err == nil && o.cfg.Idle == 0 {
			err = errors.New("want above 0")
		}
		return err
	})
	f.Func("spin", "", func(text string) (err error) {
		if o.cfg.Spin, err = engine.ParseSpin(text); err == nil && o.cfg.Spin == 0 {
			o.cfg.Spin = -1
		}
		return err
	})
	f.StringVar(&o.cfg.Upstream.Address, "upstream", "", "")
	f.IntVar(&o.cfg.Upstream.Connections, "upstream-connections", target.DefaultUpstreamConnections, "")
	f.Func("upstream-timeout", "", func(text string) (err error) {
		if o.cfg.Upstream.Timeout, err = units.ParseDuration(text); err == nil && o.cfg.Upstream.Timeout == 0 {
			err = errors.New("want above 0")
		}
		return err
	})
	f.Func("upstream-body", "", func(text string) (err error) {
		if o.cfg.Upstream.Body, err = units.ParseSize(text); err == nil && o.cfg.Upstream.Body == 0 {
			err = errors.New("want above 0B")
		}
		return err
	})
	o.tls.register(f)
	serviceFlag(o, "replicas", count(1), func(s *service.Spec, n int) { s.Replicas = n })
	serviceFlag(o, "slots", count(1), func(s *service.Spec, n int) { s.Slots = n })
	serviceFlag(o, "queue", queue, func(s *service.Spec, n int) { s.Queue = n })
	serviceFlag(o, "time", workloads.ParseDist, func(s *service.Spec, d service.Dist) { s.Time = d })
	serviceFlag(o, "slow", slow, func(s *service.Spec, w service.Slow) { s.Slow = w })
	serviceFlag(o, "status", statusShare, func(s *service.Spec, w service.StatusShare) { s.Status = append(s.Status, w) })
	serviceFlag(o, "fault", faultShare, func(s *service.Spec, w faultOf) { s.Faults[w.fault].Share = w.share })
	serviceFlag(o, "retry-after", units.ParseDuration, func(s *service.Spec, d time.Duration) { s.RetryAfter = d })
	serviceFlag(o, "cancel", cancel, func(s *service.Spec, c service.Cancel) { s.Cancel = c })
	serviceFlag(o, "body", units.ParseSize, func(s *service.Spec, n int64) { s.Body = int(n) })
	return o
}

// serviceFlag adds a flag that changes the service.
func serviceFlag[T any](o *options, name string, read func(string) (T, error), set func(*service.Spec, T)) {
	o.flags.Func(name, "", func(text string) error {
		v, err := read(strings.TrimSpace(text))
		if err != nil {
			return err
		}
		o.status = o.status || name == "status"
		o.change = append(o.change, func(s *service.Spec) { set(s, v) })
		return nil
	})
}

// parse reads the command line and returns its arguments.
func (o *options) parse(args []string) ([]string, error) {
	err := o.flags.Parse(args)
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var names []string
		o.flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		return nil, fmt.Errorf("unknown flag --%s, nearest is --%s", unknown.GetSpecifiedName(), workloads.Nearest(unknown.GetSpecifiedName(), names))
	case errors.As(err, &value):
		// The readers of quantities quote what they read.
		quoted := strconv.Quote(value.GetValue())
		text := strings.TrimPrefix(value.Unwrap().Error(), quoted+": ")
		if !strings.HasPrefix(text, quoted) {
			text = quoted + ": " + text
		}
		return nil, fmt.Errorf("--%s: %s", value.GetFlag().Name, text)
	}
	return o.flags.Args(), err
}

// config makes the target's configuration of arguments and flags.
func (o *options) config(args []string) (target.Config, error) {
	cfg := o.cfg
	if len(args) > 1 {
		return cfg, fmt.Errorf("%d arguments, want one SERVICE or none", len(args))
	}
	spec := &service.Spec{Queue: -1}
	if len(args) == 1 {
		var err error
		if spec, cfg.Graph, err = load(args[0]); err != nil {
			return cfg, err
		}
	}
	if cfg.Graph != nil && len(o.change) > 0 {
		return cfg, fmt.Errorf("a flag changes the service, but %s has %d of them: want the change in the file", args[0], len(cfg.Graph.Services))
	}
	if o.status {
		spec.Status = nil // flags replace the file's shares
	}
	for _, change := range o.change {
		change(spec)
	}
	if n := len(cfg.Hosts); n > 0 && cfg.Graph == nil {
		if spec.Replicas == 0 {
			spec.Replicas = n
		}
		if spec.Replicas != n {
			return cfg, fmt.Errorf("--hosts names %d addresses, want %d: one for each replica", n, spec.Replicas)
		}
	}
	if err := spec.Validate(); err != nil {
		return cfg, err
	}
	if o.flags.Changed("queue") && spec.Slots == 0 {
		return cfg, errors.New("queue needs slots")
	}
	if o.flags.Changed("retry-after") && !workloads.SaysRetryAfter(spec) {
		return cfg, errors.New("--retry-after needs --status with 429 or 503, or --slots and a --queue that is full at some length")
	}
	host, err := netip.ParseAddr(o.host)
	if err != nil {
		return cfg, fmt.Errorf("--host %q is not an IP address", o.host)
	}
	if cfg.Threads < 1 {
		return cfg, fmt.Errorf("threads = %d, want 1 or more", cfg.Threads)
	}
	if f := o.flags; f.Changed("vip-port") && o.cfg.Front == target.DealNone {
		return cfg, errors.New("--vip-port needs --vip")
	} else if f.Changed("max-connections") && cfg.MaxConnections < 1 {
		return cfg, fmt.Errorf("max-connections = %d, want 1 or more", cfg.MaxConnections)
	} else if cfg.FrontPort < 0 || cfg.FrontPort > 65535 {
		return cfg, fmt.Errorf("vip-port = %d, want 0 to 65535", cfg.FrontPort)
	}
	if err := o.upstream(&cfg); err != nil {
		return cfg, err
	}
	last := spec.Servers() - 1
	if cfg.Graph != nil {
		last = -1
		for i := range cfg.Graph.Services {
			last += cfg.Graph.Services[i].Spec.Servers()
		}
	}
	if cfg.Baseline {
		last++
	}
	switch {
	case cfg.Port < 0 || cfg.Port > 65535:
		return cfg, fmt.Errorf("port = %d, want 0 to 65535", cfg.Port)
	case cfg.AdminPort < 0 || cfg.AdminPort > 65535:
		return cfg, fmt.Errorf("admin-port = %d, want 0 to 65535", cfg.AdminPort)
	case cfg.Port > 0 && cfg.Port+last > 65535:
		return cfg, fmt.Errorf("port = %d and the %d after it end at %d, want at most 65535", cfg.Port, last, cfg.Port+last)
	}
	if cfg.Host = host; cfg.Graph == nil {
		cfg.Service = spec
	}
	cfg.TLS, err = o.tls.config(spec.TLS)
	return cfg, err
}

// upstream checks what the flags say of it.
func (o *options) upstream(cfg *target.Config) error {
	if !o.flags.Changed("upstream") {
		for _, name := range []string{"upstream-connections", "upstream-timeout", "upstream-body"} {
			if o.flags.Changed(name) {
				return fmt.Errorf("--%s needs --upstream", name)
			}
		}
		cfg.Upstream = target.Upstream{}
		return nil
	}
	if cfg.Upstream.Connections < 1 {
		return fmt.Errorf("upstream-connections = %d, want 1 or more", cfg.Upstream.Connections)
	}
	if cfg.Graph != nil {
		return errors.New("--upstream needs one service that calls no other")
	}
	return cfg.Upstream.Check()
}

// load reads what SERVICE names. g is nil unless it is several services, or one
// that calls on; spec is then the entry.
func load(name string) (spec *service.Spec, g *workloads.Graph, err error) {
	switch {
	case strings.Contains(name, "://"):
		return nil, nil, fmt.Errorf("%q is a URL, want a service file or the name of a built-in workload", name)
	case strings.Contains(name, "/") || strings.HasSuffix(name, ".yaml"):
		g, err := workloads.LoadGraph(name)
		if err != nil {
			return nil, nil, err
		}
		if len(g.Services) == 1 && !g.Calls() {
			return g.Entry(), nil, nil
		}
		return g.Entry(), g, nil
	}
	w, err := workloads.Builtin(name)
	if err != nil {
		return nil, nil, err
	}
	if w.Service == nil {
		var with []string
		for _, n := range workloads.Names() {
			if o, err := workloads.Builtin(n); err == nil && o.Service != nil {
				with = append(with, n)
			}
		}
		slices.Sort(with)
		return nil, nil, fmt.Errorf("the built-in workload %q has no service, want one of %s", name, strings.Join(with, ", "))
	}
	return w.Service, w.Graph, nil
}

// count reads a whole number from least on.
func count(least uint64) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := units.ParseCount(s)
		if err != nil {
			return 0, err
		}
		if n < least || n > 1<<31-1 {
			return 0, fmt.Errorf("want %d to %d", least, 1<<31-1)
		}
		return int(n), nil
	}
}

// queue reads a count or "unlimited".
func queue(s string) (int, error) {
	if s == "unlimited" {
		return -1, nil
	}
	n, err := count(0)(s)
	if err != nil {
		return 0, errors.New("want a count such as 100, or unlimited")
	}
	return n, nil
}

// slow reads SHARE:DIST.
func slow(s string) (w service.Slow, err error) {
	share, dist, ok := strings.Cut(s, ":")
	if !ok {
		return w, errors.New("want SHARE:DIST such as 2%:1s")
	}
	if w.Share, err = units.ParseShare(share); err != nil {
		return w, err
	}
	w.Time, err = workloads.ParseDist(dist)
	return w, err
}

// statusShare reads CODE:SHARE.
func statusShare(s string) (w service.StatusShare, err error) {
	code, share, ok := strings.Cut(s, ":")
	if !ok {
		return w, errors.New("want CODE:SHARE such as 503:1%")
	}
	n, err := strconv.ParseUint(code, 10, 16)
	if err != nil || n < 200 || n > 599 {
		return w, fmt.Errorf("status %q, want 200 to 599", code)
	}
	w.Status = uint16(n)
	w.Share, err = units.ParseShare(share)
	return w, err
}

// faultOf is the share of a fault.
type faultOf struct {
	fault service.Fault
	share float64
}

// faultShare reads KIND=SHARE.
func faultShare(s string) (w faultOf, err error) {
	kind, share, ok := strings.Cut(s, "=")
	if !ok {
		return w, errors.New("want KIND=SHARE such as reset=1%")
	}
	if w.fault, ok = service.FaultNamed(kind); !ok {
		return w, fmt.Errorf("unknown fault %q, nearest is %s", kind, workloads.Nearest(kind, service.FaultNames()))
	}
	w.share, err = units.ParseShare(share)
	return w, err
}

// cancel reads none, queued or running.
func cancel(s string) (service.Cancel, error) {
	c, ok := service.CancelNamed(s)
	if !ok {
		return c, errors.New("want none, queued or running")
	}
	return c, nil
}
