package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"latencylab/trial"
	"latencylab/units"
	"latencylab/workloads"
)

const guardsHelp = `usage: loadgen run URL [flags]

Flags that keep load from harming a service that is not your own machine. They
act on any address; some have defaults where one is not loopback (127.0.0.0/8,
::1): private addresses and other machines of yours are such.

      --yes                 its owner agrees to more than 1,000 attempts a
                            second, or to a closed loop without a rate
      --max-attempt-rate R  ceiling on attempts a second, such as 500/s: first
                            attempts, retries and hedges of all calls. A tenth
                            of a second's may come at once. Retries and hedges
                            beyond it are not sent (refused: ceiling); users of
                            a closed loop wait; an open loop whose first
                            attempts reach it ends, void, with exit code 3.
                            Up to 1,000/s it takes the place of --yes
      --stop-if RULES       end at once when one holds: errors>5%, p99>2s,
                            open>1000 (calls in flight), with a window as in
                            errors>5% for 3s (5s); a comma list, repeatable;
                            none. Not loopback: errors>50% for 5s, and open>
                            5 s of the rate
      --idempotency-key H   a field with a key for each call, the same on all
                            its attempts: a POST may be sent twice then
      --idempotent          sending the request twice does no harm
      --no-marker REASON    requests without Latencylab-Load, which has the same
                            16 hex digits on every request of a run; the reason
                            is kept in the result
  -H 'User-Agent: V'        in place of latencylab/VERSION (+load test; …)

examples:
  loadgen run http://10.0.0.7/ -r 100/s --stop-if 'errors>5% for 3s,p99>2s'
  loadgen run http://10.0.0.7/ -r 2k/s --yes
  loadgen run http://10.0.0.7/ -r 100/s -H 'User-Agent: checkout-test (+ops@x)'
`

// guardFlags are the flags of trial.Guards.
type guardFlags struct {
	trial.Guards
	stops      [][]workloads.Stop
	ceiling    units.Rate
	idempotent bool
	key        string
}

func (g *guardFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&g.Yes, "yes", false, "")
	scalar(fs, &g.ceiling, "max-attempt-rate", "", "RATE", units.ParseRate)
	list(fs, &g.stops, "stop-if", "", "RULES", workloads.ParseStops)
	scalar(fs, &g.key, "idempotency-key", "", "HEADER", workloads.ParseKeyHeader)
	fs.BoolVar(&g.idempotent, "idempotent", false, "")
	scalar(fs, &g.NoMarker, "no-marker", "", "REASON", reason)
}

// apply lays the flags that were given over w.
func (g *guardFlags) apply(fs *pflag.FlagSet, w *workloads.Workload) {
	if fs.Changed("max-attempt-rate") {
		w.MaxAttemptRate = g.ceiling
	}
	if fs.Changed("stop-if") {
		w.Stops = slices.Concat([]workloads.Stop{}, slices.Concat(g.stops...))
		if w.Stops == nil {
			w.Stops = []workloads.Stop{}
		}
	}
	if fs.Changed("idempotency-key") {
		w.Request.Key = g.key
	}
	if fs.Changed("idempotent") {
		w.Request.Safe = g.idempotent
	}
}

// reason takes a text in words.
func reason(s string) (string, error) {
	if s = strings.TrimSpace(s); s == "" {
		return "", errors.New("an empty reason, want one in words: it is kept in the result")
	}
	return s, nil
}

// guard resolves the site and asks the guards, before anything is sent.
func guard(ctx context.Context, p *trial.Plan, s *trial.Setup) error {
	if s.Site == nil {
		return nil
	}
	if err := s.Site.Resolve(ctx); err != nil {
		return err
	}
	return refused(s.Guard(p))
}

// refused makes what the guards refuse a mistake of the user's: exit 2.
func refused(err error) error {
	var r *trial.Refusal
	if errors.As(err, &r) {
		return usage(r)
	}
	return err
}

// help prints the help of a command or of the guards.
func (a *app) help(args []string) error {
	if len(args) == 0 {
		return a.print(mainHelp)
	}
	if args[0] == "guards" {
		return a.print(guardsHelp)
	}
	for _, c := range commands {
		if c.name == args[0] && c.name != childCommand {
			return c.run(a, []string{"--help"})
		}
	}
	return usage(fmt.Errorf("no help on %q, want run, sim, lab, report, lint or guards", args[0]))
}
