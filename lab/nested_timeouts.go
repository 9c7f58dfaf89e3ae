package lab

import (
	"time"

	"latencylab/clock"
	"latencylab/service"
	"latencylab/sim"
	"latencylab/units"
	"latencylab/workloads"
)

// nestedTimeoutsLab is one user, two services that call on, and one that is
// slow.
var nestedTimeoutsLab = Lab{
	Name:     "nested-timeouts",
	About:    "timeouts that grow inward and retries at each hop, against one deadline that goes down",
	run:      runNestedTimeouts,
	real:     nestedSockets,
	noExport: "its chains are service files: docs/examples/nested-bad.yaml and nested-good.yaml",
}

// nestedRows are the chains: the user waits 300 ms for A, which calls B, which
// calls C, which works for 2 s.
var nestedRows = []struct {
	name   string
	a, b   string // policies
	tell   bool   // the time left is told, and heeded
	silent bool   // B passes no failure on
	stop   service.Cancel
}{
	{"bad", "attempt-timeout=500ms,retry=2", "attempt-timeout=1s,retry=3", false, false, service.CancelNone},
	{"good", "deadline=1s,attempt-timeout=500ms,min-start=50ms", "deadline=1s,attempt-timeout=1s,min-start=50ms,reserve=20ms", true, true, service.CancelRunning},
	{"good, B answers in its reserve", "deadline=1s,attempt-timeout=500ms,min-start=50ms", "deadline=1s,attempt-timeout=1s,min-start=50ms,reserve=20ms", true, false, service.CancelRunning},
	{"good, A and B keep 20 ms back", "deadline=1s,attempt-timeout=500ms,min-start=50ms,reserve=20ms", "deadline=1s,attempt-timeout=1s,min-start=50ms,reserve=20ms", true, false, service.CancelRunning},
	{"deadline told, C does not stop", "deadline=1s,attempt-timeout=500ms,min-start=50ms", "deadline=1s,attempt-timeout=1s,min-start=50ms,reserve=20ms", true, true, service.CancelNone},
	{"bad, but C stops", "attempt-timeout=500ms,retry=2", "attempt-timeout=1s,retry=3", false, false, service.CancelRunning},
}

const (
	nestedUser = 300 * time.Millisecond
	nestedWork = 2 * time.Second
	// nestedStart is when the user calls.
	nestedStart = time.Second
)

// nested is what one chain did for one call.
type nested struct {
	user         time.Duration
	calls, stops uint64
	work         time.Duration
	curve        []Point // calls at work in C
}

func runNested(o *Options, row int) (nested, error) {
	x := &nestedRows[row]
	wire := ""
	if x.tell {
		wire = ",deadline.wire=x-deadline-ms"
	}
	ps, err := policies("user:deadline="+units.FormatDuration(nestedUser)+wire, "a:"+x.a+wire, "b:"+x.b+wire)
	if err != nil {
		return nested{}, err
	}
	a, b := sim.Hop{Policy: ps[1].Policy}, sim.Hop{Policy: ps[2].Policy, Silent: x.silent}
	cfg := sim.Config{
		Policy: ps[0].Policy, Seed: o.Seed, TargetSeed: o.Seed, Idempotent: true, Stop: o.interrupted,
		Service:  &service.Spec{Time: service.Constant(nestedWork), Cancel: x.stop},
		Arrivals: workloads.NewArrivals(workloads.Constant, perUnit(1, nestedStart), o.Seed),
		Blocks:   []workloads.Block{{Calls: 1}},
		Sample:   time.Millisecond,
	}
	a.Cancels, b.Cancels = x.tell, x.tell
	cfg.Hops = []sim.Hop{a, b}
	var n nested
	var last sim.Sample
	cfg.OnSample = func(s sim.Sample) {
		if s.Requests != last.Requests {
			n.steps(last.At, last.Requests)
			n.steps(s.At, s.Requests)
		}
		last = s
	}
	r, err := sim.Run(cfg)
	if err != nil {
		return nested{}, err
	}
	n.user = time.Duration(max(r.Ledger.OK.Max(), r.Ledger.Failed.Max(), r.Ledger.Censored.Max()))
	n.calls, n.work, n.stops = r.Served.Arrived, r.Served.Work, r.Served.Stopped
	return n, nil
}

func (n *nested) steps(at clock.Time, running int) {
	n.curve = append(n.curve, Point{at.Sub(clock.Time(nestedStart)).Seconds(), float64(running)})
}

func runNestedTimeouts(o Options) (*Result, error) {
	r := &Result{Columns: []string{"user_ms", "c_calls", "c_work_ms", "c_stopped_early"}}
	plot := Plot{Title: "calls at work in C after the user has called", X: Axis{Label: "s"}, Y: Axis{Label: "calls", Min: 0, Max: 6}, Rows: 7}
	for i := range nestedRows {
		row := &nestedRows[i]
		n, err := runNested(&o, i)
		if err != nil {
			return nil, err
		}
		r.add(row.name, n.values()...)
		if i < 2 {
			plot.Series = append(plot.Series, Series{Name: row.name, Points: n.curve})
		}
		r.note("%-32s A: %s; B: %s", row.name+":", row.a, row.b)
	}
	r.nestedPublished()
	r.Plots = append(r.Plots, plot)
	calls := r.value("bad", "c_calls").Value
	r.note("The user waits 300 ms for A, A calls B, B calls C, C works for 2 s. At 500 calls a second the bad chain asks C for\n"+
		"%s calls and %s s of work in each second. Where it is told, what is left travels in x-deadline-ms.",
		units.Count(uint64(500*calls)), units.Count(uint64(500*r.value("bad", "c_work_ms").Value/1000)))
	r.nestedClaims(300)
	return r, nil
}

// values are the cells of the row.
func (n *nested) values() []Value {
	return []Value{num(n.user.Seconds() * 1000), count(n.calls), num(n.work.Seconds() * 1000), count(n.stops)}
}

// nestedPublished adds the published figures.
func (r *Result) nestedPublished() {
	r.refer("bad", publishedOnSockets, nums(309, 12, 24011, 0)...)
	r.refer("good", publishedOnSockets, nums(309, 1, 281, 1)...)
}

// nestedClaims are what both drivers must bear out. A user waits for least ms.
func (r *Result) nestedClaims(least float64) {
	r.within("bad", "user_ms", least, 330)
	r.equals("bad", "c_calls", 12)
	r.within("bad", "c_work_ms", 23900, 24300)
	r.equals("bad", "c_stopped_early", 0)
	r.within("good", "user_ms", least, 330)
	r.equals("good", "c_calls", 1)
	r.within("good", "c_work_ms", 255, 300)
	r.equals("good", "c_stopped_early", 1)
}
