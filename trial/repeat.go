package trial

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"latencylab/results"
	"latencylab/sim"
	"latencylab/units"
)

// closed returns a function that says whether c is closed; nil never is.
func closed(c <-chan struct{}) func() bool {
	return func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
}

// crowded is how many simulations may run at once where each may take up to 1 GB
// on its way to the largest number of open calls.
const crowded = 2

// workers is how many simulations may run at once, when each may have so many
// calls and attempts open: as many as there are cores, as long as their records
// fit into a few GB.
func workers(open float64) int {
	return min(runtime.GOMAXPROCS(0), max(crowded, int(2*crowded*sim.MaxOpen/max(min(open, sim.MaxOpen), 1))))
}

// piles is how many calls are open at the end of a simulation of that time, when
// none of them is answered; 0 where first attempts do not outrun the service.
func (p *Plan) piles(d time.Duration) float64 {
	if rho, _, _ := p.load(); rho <= 1 {
		return 0
	}
	return p.Workload.Rate.PerSecond() * d.Seconds()
}

// spreadOn calls f with 0 to n-1 on at most so many goroutines, and begins them
// in that order. Once stop says true none but the first is begun. It returns how
// many were begun, all of which have returned, and the error of the first that
// failed.
func spreadOn(workers, n int, stop func() bool, f func(i int) error) (begun int, err error) {
	errs := make([]error, n)
	var failed atomic.Bool
	var mu sync.Mutex // of begun
	next := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if begun == n || failed.Load() || begun > 0 && stop() {
			return 0, false
		}
		begun++
		return begun - 1, true
	}
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i, ok := next(); ok; i, ok = next() {
				if errs[i] = f(i); errs[i] != nil {
					failed.Store(true)
				}
			}
		}()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return begun, err
		}
	}
	return begun, nil
}

// MaxRuns is the largest Choices.Runs.
const MaxRuns = 10_000

// reseeded returns the plan with arrivals, policies and target of another seed.
// It shares memory with p.
func (p *Plan) reseeded(by uint64) *Plan {
	q := *p
	q.Workload.Seed += by
	q.TargetSeed += by
	return &q
}

// repeat simulates the plan with the next seeds, on all cores, and adds the
// spread of the figures to r, which holds the Run of the first seed.
func (p *Plan) repeat(r *results.Run, all []simulation, stop func() bool) error {
	if p.Runs < 2 {
		return nil
	}
	var names []string
	for i := range p.Workload.Policies {
		names = append(names, p.Workload.Policies[i].Name)
	}
	k := len(names)
	var seeds []uint64
	var samples [][]results.Sample
	if !r.Interrupted {
		first := make([]results.Sample, k)
		for i := range r.Policies {
			if first[i] = results.SampleOf(r, &r.Policies[i]); all[i].overflow != nil {
				first[i] = noRoom()
			}
		}
		open := p.piles(p.data())
		if r.Void != "" {
			open = sim.MaxOpen
		}
		rest := make([]results.Sample, (p.Runs-1)*k)
		done := make([]bool, len(rest))
		if _, err := spreadOn(workers(open), len(rest), stop, func(i int) (err error) {
			rest[i], done[i], err = p.reseeded(uint64(1+i/k)).sample(r, i%k, stop)
			return err
		}); err != nil {
			return err
		}
		seeds, samples = append(seeds, p.Workload.Seed), append(samples, first)
		for run := range p.Runs - 1 {
			complete := true
			for i := range k {
				complete = complete && done[run*k+i]
			}
			if complete {
				seeds, samples = append(seeds, p.Workload.Seed+uint64(run+1)), append(samples, rest[run*k:(run+1)*k])
			}
		}
	}
	r.Runs = results.NewRuns(p.Runs, names, seeds, samples)
	if len(seeds) < p.Runs {
		r.Interrupted, r.Runs.Incomplete = true, "interrupted by the user"
	}
	return nil
}

// sample simulates policy i alone for its figures. done is false when stop
// ended it.
func (p *Plan) sample(r *results.Run, i int, stop func() bool) (s results.Sample, done bool, err error) {
	np := &p.Workload.Policies[i]
	res, err := p.simulate(i, stop, nil)
	if err != nil {
		return s, false, fmt.Errorf("policy %s, seed %d: %w", np.Name, p.Workload.Seed, err)
	}
	if res.Overflow != nil {
		return noRoom(), true, nil
	}
	record := results.NewPolicy(np.Name, np.Spec, res.Ledger, nil)
	return results.SampleOf(r, &record), !res.Stopped, nil
}

// noRoom is the sample of a policy that ended before its time.
func noRoom() results.Sample {
	f := results.Absentf("more than %s calls or attempts in flight are not simulated", units.Count(sim.MaxOpen))
	return results.Sample{P50: f, P99: f, P999: f, OK: f, ExtraLoad: f}
}
