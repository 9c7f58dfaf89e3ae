package lab

import (
	"fmt"
	"strings"

	"latencylab/target"
	"latencylab/units"
	"latencylab/workloads"
)

// nestedFile is the service file of a row: the chain that runNested builds of
// hops.
func nestedFile(row int) string {
	x := &nestedRows[row]
	var b strings.Builder
	b.WriteString("services:\n")
	for _, s := range []struct {
		name, to, spec string
		silent         bool
	}{{"a", "b", x.a, false}, {"b", "c", x.b, x.silent}} {
		fmt.Fprintf(&b, "  %s:\n    cancels: %t\n    silent: %t\n    calls: [{to: %s, policy: %q, forward-deadline: %t}]\n",
			s.name, x.tell, s.silent, s.to, s.spec, x.tell)
	}
	fmt.Fprintf(&b, "  c: {time: %s, cancel: %s}\n", units.FormatDuration(nestedWork), cancels(x.stop))
	return b.String()
}

// nestedWorkload is the one call of the user to the chain of a row.
func nestedWorkload(o *Options, row int) (*workloads.Workload, error) {
	x := &nestedRows[row]
	g, err := workloads.ParseGraphText("chain "+x.name, []byte(nestedFile(row)))
	if err != nil {
		return nil, err
	}
	spec := "user:deadline=" + units.FormatDuration(nestedUser)
	if x.tell {
		spec += ",deadline.wire=x-deadline-ms"
	}
	return oneCall(x.name, spec, g, o.Seed)
}

// nestedSockets carries the chains out beside each other: they wait, and need
// no core.
func nestedSockets(o Options) (*Result, error) {
	r := &Result{Columns: []string{"user_ms", "c_calls", "c_work_ms", "c_stopped_early"}}
	found := make([][]Value, len(nestedRows))
	err := beside(len(nestedRows), len(nestedRows), func(i int) error {
		w, err := nestedWorkload(&o, i)
		if err != nil {
			return err
		}
		run, l, err := onSockets(&o, w)
		if err == nil {
			found[i] = append([]Value{userMS(&run.Policies[0])}, workOfC(l)...)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range nestedRows {
		x := &nestedRows[i]
		r.add(x.name, found[i]...)
		n, err := runNested(&o, i)
		if err != nil {
			return nil, err
		}
		r.refer(x.name, predicted, n.values()...)
		r.note("%-32s A: %s; B: %s", x.name+":", x.a, x.b)
	}
	r.nestedPublished()
	r.note("The user waits 300 ms for A, A calls B, B calls C, C works for 2 s; each on a port of its own. c_stopped_early are the\n" +
		"calls whose work C has stopped because B had gone. A deadline is told in whole ms, rounded down: A may answer 504 up to\n" +
		"1 ms before the user gives up.")
	r.nestedClaims(299)
	return r, nil
}

// workOfC is what the ledger says of C: calls, work, and calls stopped early.
func workOfC(l *target.Ledger) []Value {
	c := l.Service("c").Total()
	return []Value{count(c.Arrived), num(float64(c.Work.Total().NS) / 1e6), count(c.Work.Dropped.Requests)}
}
