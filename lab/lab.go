// Package lab holds the built-in experiments: each is a workload or other
// inputs, a table beside the figures that it is held against, and the claims
// that the table must bear out.
//
// A lab runs in virtual time and depends on its options alone: the simulator
// drives it where there is a server, and where there is none the lab drives
// package policy itself. Rows are computed on all cores. Some labs also run on
// sockets (Options.Real), against targets of this process, and hold what they
// measure against what the simulator predicts. The package prints
// only what Result.WriteText and WriteJSON are asked for, and never exits.
package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"latencylab/workloads"
)

// Options are what a lab may be run with.
type Options struct {
	// Seed keys every draw.
	Seed uint64
	// Runs is the number of times that the lab is run, each with seeds of its
	// own, from Seed on. 0 means 1.
	Runs int
	// Requests is the number of calls of each row. 0 means as many as the claims
	// are made for; with few, claims about rare calls may fail.
	Requests uint64
	// PRNG is where random numbers come from: "" or Keyed for our own, SeedJS for
	// those of the published figures.
	PRNG string
	// Discipline is the order in which an overloaded server serves; "" is the
	// lab's own.
	Discipline string
	// Real runs the lab on sockets. What it finds then depends on the machine too.
	Real bool
	// Interrupt, when closed, ends the lab without a result. nil never does.
	Interrupt <-chan struct{}
}

// Values of Options.PRNG.
const (
	Keyed  = "keyed"
	SeedJS = "seed-js"
)

// chosen lists the choices that are not the default, as key and word.
func (o *Options) chosen() (out [][2]string) {
	if o.PRNG != "" && o.PRNG != Keyed {
		out = append(out, [2]string{"prng", o.PRNG})
	}
	if o.Discipline != "" {
		out = append(out, [2]string{"discipline", o.Discipline})
	}
	return out
}

// interrupted reports whether the lab is to end. Any goroutine may ask.
func (o *Options) interrupted() bool {
	select {
	case <-o.Interrupt:
		return true
	default:
		return false
	}
}

// ErrInterrupted says that a lab was ended before its table was complete.
var ErrInterrupted = errors.New("the lab was interrupted")

// Lab is one experiment.
type Lab struct {
	Name string
	// About is one sentence for the list.
	About string
	takes takes
	// seeds is how many seeds one run uses: Options.Seed and the next ones. 0
	// means 1.
	seeds int
	run   func(Options) (*Result, error)
	// real is run on sockets; nil: there is no such version.
	real func(Options) (*Result, error)
	// export returns the workloads of which the lab is made. nil: it is made of
	// none, for the reason in noExport.
	export   func(Options) ([]*workloads.Workload, error)
	noExport string
}

// takes says which options, beside Seed and Runs, a lab takes.
type takes struct {
	requests    bool
	prng        bool
	seedJS      uint64 // the seed of the published figures
	disciplines []string
}

// labs is the list, from what needs no server to what takes longest.
var labs = []Lab{
	retryRulesLab, budgetWalkLab, childBudgetLab, clockSkewLab, jitterLab, layersLab, nestedTimeoutsLab, timeoutPhasesLab, poolExhaustionLab, fanOutLab, falseTimeoutsLab, collapseLab, hedgeLab, hedgeQueueLab, retryStormLab, interferenceLab, hedgeCollapseLab, pulseLab,
}

// All returns the labs in the order of the list.
func All() []Lab { return slices.Clone(labs) }

// Find returns the lab of that name. An error proposes the nearest name.
func Find(name string) (Lab, error) {
	var names []string
	for _, l := range labs {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return Lab{}, fmt.Errorf("no lab %q, nearest is %q", name, workloads.Nearest(name, names))
}

// DefaultSeed is the seed for those who name none: 1, or with the published
// generator the published one.
func (l *Lab) DefaultSeed(o Options) uint64 {
	if o.PRNG == SeedJS && l.takes.seedJS != 0 {
		return l.takes.seedJS
	}
	return 1
}

// Check returns an error for the first option that the lab does not take.
func (l *Lab) Check(o Options) error {
	switch {
	case o.Real && l.real == nil:
		return fmt.Errorf("lab %s has no version on sockets: %s", l.Name, haveReal())
	case o.Requests > 0 && !l.takes.requests:
		return fmt.Errorf("lab %s takes no --requests: its size is part of it", l.Name)
	case o.PRNG != "" && o.PRNG != Keyed && !l.takes.prng:
		return fmt.Errorf("lab %s takes no --prng: hedge and jitter do", l.Name)
	case o.Discipline != "" && !slices.Contains(l.takes.disciplines, o.Discipline):
		if l.takes.disciplines == nil {
			return fmt.Errorf("lab %s takes no --discipline: retry-storm does", l.Name)
		}
		return fmt.Errorf("lab %s has no discipline %q, nearest is %q", l.Name, o.Discipline, workloads.Nearest(o.Discipline, l.takes.disciplines))
	}
	return nil
}

// haveReal says which labs have a version on sockets.
func haveReal() string {
	var names []string
	for i := range labs {
		if labs[i].real != nil {
			names = append(names, labs[i].Name)
		}
	}
	if len(names) == 1 {
		return names[0] + " has"
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " have"
}

// Run carries the lab out. An error means that there is no table; a claim that
// does not hold is part of the Result.
func (l *Lab) Run(o Options) (*Result, error) {
	if err := l.Check(o); err != nil {
		return nil, err
	}
	var runs []*Result
	run := l.run
	if o.Real {
		run = l.real
	}
	for i := range max(o.Runs, 1) {
		one := o
		one.Seed += uint64(i * max(l.seeds, 1))
		r, err := run(one)
		if err != nil {
			return nil, fmt.Errorf("lab %s: %w", l.Name, err)
		}
		if o.interrupted() {
			return nil, fmt.Errorf("lab %s: %w", l.Name, ErrInterrupted)
		}
		runs = append(runs, r)
	}
	r := merge(runs)
	r.Schema, r.Name, r.About, r.Options = Schema, l.Name, l.About, o
	return r, nil
}

// File is a workload file of a lab.
type File struct {
	Name string // without a directory
	Data []byte
}

// Export returns the workloads of the lab as files for loadgen sim. The error
// of a lab that is made of none says why.
func (l *Lab) Export(o Options) ([]File, error) {
	if err := l.Check(o); err != nil {
		return nil, err
	}
	if l.export == nil {
		return nil, fmt.Errorf("lab %s has no workload: %s", l.Name, l.noExport)
	}
	ws, err := l.export(o)
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", l.Name, err)
	}
	var out []File
	for _, w := range ws {
		data, err := w.Marshal()
		if err != nil {
			return nil, fmt.Errorf("lab %s: %w", l.Name, err)
		}
		out = append(out, File{w.Name + ".yaml", data})
	}
	return out, nil
}
