package trial

import (
	"fmt"
	"time"

	"latencylab/engine"
	"latencylab/results"
	"latencylab/units"
	"latencylab/workloads"
)

// watcher asks the rules of stop-if about each interval. It looks at the service
// alone: its windows go on over blocks, policies and stages. Intervals are told
// by one goroutine at a time.
type watcher struct {
	rules []*ruling
	last  engine.Interval // the one before; without its histogram
}

// ruling is one rule with what its window holds.
type ruling struct {
	workloads.Stop
	window []slice
	sum    slice
	above  time.Duration // of StopOpen: how long more have been open in a row
}

// slice is what ended in one interval, or in some without a call.
type slice struct {
	time          time.Duration
	ended, beyond uint64
}

const (
	// leastEnded is the number of calls that a window holds at the least: at a low
	// rate it reaches further back than its time.
	leastEnded = 10
	// leastBeyond is how many calls must be beyond a limit: one alone ends nothing.
	leastBeyond = 2
)

func newWatcher(stops []workloads.Stop) *watcher {
	w := &watcher{}
	for _, s := range stops {
		w.rules = append(w.rules, &ruling{Stop: s})
	}
	return w
}

// add takes an interval and returns what the first rule that acts says, or nil.
func (w *watcher) add(iv engine.Interval) *results.Stop {
	if len(w.rules) == 0 {
		return nil
	}
	took := iv.End.Sub(iv.Start)
	if iv.Lane == w.last.Lane && iv.End == w.last.End && iv.Burn != w.last.Burn {
		took = 0 // data calls beside those of the burn-in, in the same time
	}
	ended := iv.Ended
	var found *results.Stop
	for _, r := range w.rules {
		if s := r.add(&iv, took, ended); s != nil && found == nil {
			found = s
		}
	}
	w.last = iv
	w.last.OK = nil
	return found
}

// add takes an interval; the answer is nil unless the rule acts.
func (r *ruling) add(iv *engine.Interval, took time.Duration, ended uint64) *results.Stop {
	if r.Of == workloads.StopOpen {
		if r.above += took; uint64(max(iv.Open, 0)) <= r.Calls {
			r.above = 0
			return nil
		}
		if r.above < r.For {
			return nil
		}
		return &results.Stop{Rule: r.String(), WindowNS: int64(r.For), Open: uint64(iv.Open),
			Words: fmt.Sprintf("%s calls were open", units.Count(uint64(iv.Open)))}
	}
	s := slice{took, ended, iv.Failed}
	if r.Of == workloads.StopQuantile {
		s.beyond += iv.OK.Count() - iv.OK.CountAtOrBelow(int64(r.Time))
	}
	r.push(s)
	if r.sum.time < r.For || r.sum.ended < leastEnded || r.sum.beyond < leastBeyond {
		return nil
	}
	share := r.Share
	if r.Of == workloads.StopQuantile {
		share = 1 - r.Quantile
	}
	if float64(r.sum.beyond) <= share*float64(r.sum.ended) {
		return nil
	}
	what := "failed"
	if r.Of == workloads.StopQuantile {
		what = fmt.Sprintf("failed or took more than %s", units.FormatDuration(r.Time))
	}
	return &results.Stop{Rule: r.String(), WindowNS: int64(r.sum.time), Calls: r.sum.ended, Beyond: r.sum.beyond, Open: uint64(max(iv.Open, 0)),
		Words: fmt.Sprintf("%s of the last %s calls (%s) %s", units.Count(r.sum.beyond), units.Count(r.sum.ended), units.Duration(r.sum.time), what)}
}

// push adds a slice and lets those go that the window no longer needs. Time in
// which no call ended is kept in one slice, so that the window stays small.
func (r *ruling) push(s slice) {
	r.sum.time += s.time
	r.sum.ended += s.ended
	r.sum.beyond += s.beyond
	if n := len(r.window); n > 0 && s.ended == 0 && r.window[n-1].ended == 0 {
		r.window[n-1].time += s.time
		return
	}
	r.window = append(r.window, s)
	gone := 0
	for _, old := range r.window {
		if r.sum.time-old.time < r.For || r.sum.ended-old.ended < leastEnded {
			break
		}
		gone++
		r.sum.time -= old.time
		r.sum.ended -= old.ended
		r.sum.beyond -= old.beyond
	}
	r.window = r.window[:copy(r.window, r.window[gone:])]
}

// look asks the rules about an interval of eng, and ends the measurement when
// one acts.
func (m *measurement) look(name string, iv engine.Interval, eng *engine.Engine) {
	if m.halt != nil {
		return
	}
	s := m.watcher.add(iv)
	if s == nil {
		return
	}
	s.Policy, s.AtNS = name, int64(time.Since(m.reached))
	m.halt = s
	eng.Abort()
}

// halted returns why a rule has ended the measurement; "" when none has. No
// engine is running.
func (m *measurement) halted() string {
	if m.halt == nil {
		return ""
	}
	return fmt.Sprintf("stopped by the rule %s: %s, under policy %s, %s after the start", m.halt.Rule, m.halt.Words, m.halt.Policy, units.Duration(time.Duration(m.halt.AtNS)))
}
