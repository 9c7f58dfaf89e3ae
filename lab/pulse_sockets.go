package lab

import (
	"fmt"
	"time"

	"latencylab/service"
	"latencylab/target"
	"latencylab/units"
)

const (
	pulseRealAfter = pulseAfter * qRealUnit
	pulseRealLast  = 100 * qRealUnit // the part of it that work_u is the mean of
)

// backlogs are looks at a target: how many requests had arrived, and the
// unfinished work of all servers.
type backlogs struct {
	arrived []uint64
	work    []time.Duration
}

// look takes a look each pulseSample u until stop.
func (b *backlogs) look(t *target.Target) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(pulseSample * qRealUnit)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			total, backlog := t.Ledger().Total(), t.Backlog()
			b.arrived, b.work = append(b.arrived, total.Arrived), append(b.work, time.Duration(backlog.WorkNS))
		}
	}()
	return func() { close(quit); <-done }
}

// end is the mean unfinished work of a server, in u, over the last looks at which
// requests were still arriving.
func (b *backlogs) end() Value {
	last := len(b.arrived) - 1
	for last > 0 && b.arrived[last] == b.arrived[last-1] {
		last--
	}
	n := int(pulseRealLast / (pulseSample * qRealUnit))
	if last < n {
		return absent("too few looks at the target")
	}
	var sum time.Duration
	for _, w := range b.work[last-n : last] { // the last one may lie after the last arrival
		sum += w
	}
	return num(round(float64(sum)/float64(n)/qServers/float64(qRealUnit), 1))
}

func pulseSockets(o Options) (*Result, error) {
	return pulseSocketsAt(&o, []float64{0.5, 0.7}, []int{0, 1, 2, 3})
}

// pulseSocketsAt carries rows out at each load. One at a time: the largest load
// needs most of a core.
func pulseSocketsAt(o *Options, rhos []float64, rows []int) (*Result, error) {
	r := &Result{Columns: []string{"not_recovered", "of", "work_u", "delay_u"}}
	for _, rho := range rhos {
		delay, err := plainP95(o, rho)
		if err != nil {
			return nil, err
		}
		for _, i := range rows {
			if err := r.pulsedOnSockets(o, i, rho, delay); err != nil {
				return nil, err
			}
		}
	}
	r.note("1 u is %s; %d servers of one slot, which all freeze for %s after %s. One run of each: work_u is the unfinished work of a\n"+
		"server in the last %s of the %s after the freeze; recovered means at most %d u.",
		units.Duration(qRealUnit), qServers, units.Duration(qRealFreeze), units.Duration(qRealBefore), units.Duration(pulseRealLast), units.Duration(pulseRealAfter), pulseWork)
	return r, nil
}

// pulsedOnSockets adds a row at a load, beside the same in virtual time.
func (r *Result) pulsedOnSockets(o *Options, row int, rho, delay float64) error {
	x := &pulseRows[row]
	np, err := qSpec(x.spec, delay)
	if err != nil {
		return err
	}
	w, err := qRealWorkload(o, x.name, x.spec, x.cancel, rho, delay, pulseRealAfter)
	if err != nil {
		return err
	}
	sim, err := pulseRun(o, rho, np.Policy, x.cancel, o.Seed)
	if err != nil {
		return err
	}
	var b backlogs
	if _, _, err := beheld(o, w, b.look); err != nil {
		return err
	}
	name, after := fmt.Sprintf("rho %g %s", rho, x.name), num(delay)
	if x.spec == "plain" {
		after = absent("no hedge")
	}
	seen := func(work Value) []Value {
		down := work // absent with it
		if work.Present {
			down = count(0)
			if work.Value > pulseWork {
				down = count(1)
			}
		}
		return []Value{down, count(1), work, after}
	}
	r.add(name, seen(b.end())...)
	r.refer(name, predicted, seen(num(round(sim.work, 1)))...)
	want := 0.0
	if rho >= 0.6 && x.cancel == service.CancelNone && x.spec == "hedge=%s" {
		want = 1
	}
	r.equals(name, "not_recovered", want)
	return nil
}
