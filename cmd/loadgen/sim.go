package main

import (
	"fmt"
	"strings"
	"time"

	"latencylab/results"
	"latencylab/trial"
	"latencylab/workloads"
)

const simHelp = `usage: loadgen sim WORKLOAD [flags]

Runs the policies of a workload against its service in virtual time: exact to
the seed, with no machine in between. WORKLOAD is a file (with / or .yaml) or a
built-in one. A flag takes the place of what the workload says.

  -r, --rate RATE           arrivals, such as 1k/s
  -d, --duration D          data time of each policy   } default: 1M calls
  -n, --requests N          or calls of each policy    }
      --arrivals KIND       poisson (default) or constant
      --policy [NAME:]SPEC  repeatable, such as plain or hedge=p95,budget=10%
      --clients N           policy clients that share the calls (1)
      --warmup D            burn-in before data (3s; more for tracked delays)
      --ramp D              the rate rises from 0 over D before the warm-up
      --drain D             time for calls after the end of a block (5s)
      --within D            objective: share of calls OK within D; repeatable
      --stages LIST         of pilot,blocks,sustained,pulse; a comparison ends
                            with pulse, which freezes all servers
      --block D             data of a policy in one block
      --runs N              N seeds from --seed on, on all cores: their spread
      --seed N              keys arrivals and policies (1)
      --target-seed N       keys the service's draws (the seed)
  -o, --output FILE         write the result, as JSON or as the ending says
      --format FORMAT       text, json, csv, hgrm or hlog

examples:
  loadgen sim hedge-tail
  loadgen sim hedge-tail --policy plain --policy hedge=58ms,budget=5% -n 100k
  loadgen sim ./mine.yaml --seed 7 --runs 20 -o mine.json
`

func runSim(a *app, args []string) error {
	var m measureFlags
	fs := flagSet("sim")
	m.register(fs)
	runs := 1
	scalar(fs, &runs, "runs", "", "N", atLeast1(trial.MaxRuns))
	if err := a.parse(fs, simHelp, args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return usagef("sim takes one workload, got %d arguments; built in are %s", fs.NArg(), builtins())
	}
	if arg := fs.Arg(0); strings.Contains(arg, "://") {
		return usagef("%q is a URL, and sim takes a workload with a service: loadgen run %s drives a server", arg, arg)
	}
	w, err := loadWorkload(fs.Arg(0))
	if err != nil {
		return err
	}
	if err := m.apply(w); err != nil {
		return err
	}
	p, err := trial.NewPlan(w, trial.Choices{TargetSeed: m.targetSeedOr(), Virtual: true, Runs: runs})
	if err != nil {
		return usage(err)
	}
	p.Version, p.Command = a.identity()
	if err := m.output.check(a, len(p.Workload.Policies)); err != nil {
		return err
	}
	interrupt, stop := a.interrupts()
	defer stop()
	r, err := trial.Sim(p, time.Now(), interrupt)
	if err != nil {
		return err
	}
	if err := m.output.write(a, r); err != nil {
		return err
	}
	if !r.Interrupted && scheduled(r) == 0 {
		return fmt.Errorf("nothing was simulated: no call falls into the data at %s, want a longer --duration or --requests", w.Rate)
	}
	return exit(codeOf(r))
}

// scheduled is the number of calls of all policies.
func scheduled(r *results.Run) (n uint64) {
	for i := range r.Policies {
		n += r.Policies[i].Calls.Scheduled
	}
	return n
}

// builtins lists the built-in workloads.
func builtins() string { return strings.Join(workloads.Names(), ", ") }
