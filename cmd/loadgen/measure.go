package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"latencylab/units"
	"latencylab/workloads"
)

// measureFlags are the flags that run and sim share. A flag that was given
// takes the place of what the workload says.
type measureFlags struct {
	fs *pflag.FlagSet

	rate       units.Rate
	arrivals   workloads.Kind
	duration   time.Duration
	requests   uint64
	warmup     time.Duration
	ramp       time.Duration
	drain      time.Duration
	within     []time.Duration
	clients    int
	policies   []workloads.NamedPolicy
	stages     []workloads.Stage
	block      time.Duration
	seed       uint64
	targetSeed uint64
	output
}

// maxClients and the like bound what may be asked for in one process.
const (
	maxClients     = 1 << 20
	maxThreads     = 1024
	maxConnections = 1<<31 - 1
)

func (m *measureFlags) register(fs *pflag.FlagSet) {
	m.fs = fs
	scalar(fs, &m.rate, "rate", "r", "RATE", units.ParseRate)
	scalar(fs, &m.arrivals, "arrivals", "", "KIND", workloads.ParseKind)
	scalar(fs, &m.duration, "duration", "d", "D", positive(units.ParseDuration))
	scalar(fs, &m.requests, "requests", "n", "N", positive(units.ParseCount))
	scalar(fs, &m.warmup, "warmup", "", "D", units.ParseDuration)
	scalar(fs, &m.ramp, "ramp", "", "D", workloads.ParseRamp)
	scalar(fs, &m.drain, "drain", "", "D", positive(units.ParseDuration))
	list(fs, &m.within, "within", "", "D", positive(units.ParseDuration))
	scalar(fs, &m.clients, "clients", "", "N", atLeast1(maxClients))
	list(fs, &m.policies, "policy", "", "[NAME:]SPEC", workloads.ParsePolicy)
	scalar(fs, &m.stages, "stages", "", "LIST", workloads.ParseStages)
	scalar(fs, &m.block, "block", "", "D", positive(units.ParseDuration))
	scalar(fs, &m.seed, "seed", "", "N", seed)
	scalar(fs, &m.targetSeed, "target-seed", "", "N", seed)
	m.output.register(fs)
}

// positive refuses 0.
func positive[T time.Duration | uint64](parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := parse(s)
		if err == nil && v == 0 || s != "" && strings.Trim(s, "0.") == "" {
			err = fmt.Errorf("%q, want more than 0", s)
		}
		return v, err
	}
}

// apply lays the flags that were given over w.
func (m *measureFlags) apply(w *workloads.Workload) error {
	if m.fs.Changed("requests") && m.fs.Changed("duration") {
		return usagef("--requests %s and --duration %s both say when to end, want one of them",
			units.FormatCount(m.requests), units.FormatDuration(m.duration))
	}
	// What a flag says holds in virtual time too, whatever the file has for it.
	m.fs.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "rate":
			w.Rate = m.rate
		case "arrivals":
			w.Arrivals = m.arrivals
		case "duration":
			w.Duration, w.Requests = m.duration, 0
			w.Sim.Duration, w.Sim.Requests = 0, 0
		case "requests":
			w.Duration, w.Requests = 0, m.requests
			w.Sim.Duration, w.Sim.Requests = 0, 0
		case "warmup":
			w.Warmup, w.WarmupGiven = m.warmup, true
		case "ramp":
			w.Ramp, w.RampGiven = m.ramp, true
		case "drain":
			w.Drain = m.drain
		case "within":
			w.Within = ascending(m.within)
		case "clients":
			w.Clients = m.clients
		case "policy":
			w.Policies, w.Sim.Policies = m.policies, nil
		case "stages":
			w.Stages, w.Sim.Stages = m.stages, nil
		case "block":
			w.Block = m.block
		case "seed":
			w.Seed = m.seed
		}
	})
	if m.fs.Changed("arrivals") && w.Rate == 0 {
		return usagef("--arrivals %s without --rate: a closed loop has no schedule, want both or neither", w.Arrivals)
	}
	return nil
}

// targetSeedOr returns the seed given, or nil.
func (m *measureFlags) targetSeedOr() *uint64 {
	if !m.fs.Changed("target-seed") {
		return nil
	}
	return &m.targetSeed
}

// loadWorkload reads the workload that arg names: with a slash or a YAML ending
// a file, else a built-in one.
func loadWorkload(arg string) (*workloads.Workload, error) {
	if strings.Contains(arg, "/") || strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		w, err := workloads.Load(arg)
		return w, usageOr(err)
	}
	w, err := workloads.Builtin(arg)
	return w, usageOr(err)
}

func usageOr(err error) error {
	if err == nil {
		return nil
	}
	return usage(err)
}

// readBody reads the argument of --body: text, or @FILE, where @- is standard
// input.
func readBody(s string) ([]byte, error) {
	file, ok := strings.CutPrefix(s, "@")
	if !ok {
		return []byte(s), nil
	}
	if file == "-" {
		return readLimited(os.Stdin, "standard input")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f, file)
}

// maxBody bounds a request's body in bytes; each loop holds it once.
const maxBody = 64 << 20

func readLimited(r io.Reader, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err == nil && len(b) > maxBody {
		err = fmt.Errorf("%s is larger than %s", name, units.FormatSize(maxBody))
	}
	return b, err
}

// ascending returns a sorted copy without repetitions.
func ascending(ds []time.Duration) []time.Duration {
	ds = slices.Clone(ds)
	slices.Sort(ds)
	return slices.Compact(ds)
}
