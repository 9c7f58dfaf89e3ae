package lab

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"latencylab/histo"
	"latencylab/results"
	"latencylab/service"
	"latencylab/trial"
	"latencylab/workloads"
)

// each calls f for 0 … n-1 on as many goroutines as there are cores. The error
// is that of the smallest number among those that failed; after one, no further
// call begins.
func each(n int, f func(i int) error) error { return beside(runtime.GOMAXPROCS(0), n, f) }

// beside is each with so many goroutines.
func beside(most, n int, f func(i int) error) error {
	var next, failed atomic.Int64
	errs := make([]error, n)
	var wg sync.WaitGroup
	for range min(n, most) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for failed.Load() == 0 {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = f(i); errs[i] != nil {
					failed.Store(1)
				}
			}
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// simulate carries w out in virtual time, as loadgen sim does.
func simulate(o *Options, w *workloads.Workload) (*results.Run, error) {
	p, err := trial.NewPlan(w, trial.Choices{Virtual: true, BlocksOnly: true})
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	r, err := trial.Sim(p, time.Time{}, o.Interrupt)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	if r.Interrupted {
		return nil, ErrInterrupted
	}
	return r, nil
}

// policies parses specs of the form [NAME:]SPEC.
func policies(specs ...string) ([]workloads.NamedPolicy, error) {
	var out []workloads.NamedPolicy
	for _, s := range specs {
		np, err := workloads.ParsePolicy(s)
		if err != nil {
			return nil, err
		}
		out = append(out, np)
	}
	return out, nil
}

// dist parses a distribution that a lab has written down.
func dist(s string) service.Dist {
	d, err := service.ParseDist(s)
	if err != nil {
		panic(fmt.Sprintf("lab: %v", err)) // a lab's own constant
	}
	return d
}

// tailCurve returns the share of calls slower than t against t in units of unit
// ns. Calls without a known end count as slower than any t.
func tailCurve(d *results.Dist, unit float64) ([]Point, error) {
	h, err := histo.Decode(d.HDR)
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	total := d.Count + d.Censored + d.Failed
	var out []Point
	below := uint64(0)
	point := func(ns int64) {
		out = append(out, Point{float64(ns) / unit, float64(total-below) / float64(total)})
	}
	h.Each(func(from, to int64, n uint64) {
		point(from)
		below += n
		point(to)
	})
	return out, nil
}
