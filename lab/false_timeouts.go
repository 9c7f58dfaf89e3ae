package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"latencylab/clock"
	"latencylab/draw"
	"latencylab/policy"
	"latencylab/service"
	"latencylab/units"
	"latencylab/workloads"
)

// falseTimeoutsLab sweeps the timeout of an attempt over the quantiles of the
// service time.
var falseTimeoutsLab = Lab{
	Name:   "false-timeouts",
	About:  "an attempt timeout at p50 … p99.99: answers cut off, extra load, failures and the tail",
	takes:  takes{requests: true},
	run:    runFalseTimeouts,
	export: falseTimeoutsWorkloads,
}

const (
	falseCalls    = 200_000
	falseMedian   = 20 * time.Millisecond
	falseSigma    = 0.5 // of the logarithm of the service time
	falseHang     = 0.02
	falseTries    = 3
	falseDeadline = 2 * time.Second
	falseSlower   = 1.5 // factor of the column false_if_slower
	// falseNear is the largest ratio of timeout and median that is warned of.
	falseNear = 2
	hangs     = time.Hour // what takes so long never answers
)

// falseQuantiles are the rows; 1 is no timeout but the deadline.
var falseQuantiles = []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1}

// falseTimeout returns the quantile q of the service time of attempts that
// answer, to the microsecond.
func falseTimeout(q float64) time.Duration {
	t := float64(falseMedian) * math.Exp(falseSigma*draw.NormalQuantile(q))
	return time.Duration(t).Round(time.Microsecond)
}

func falseRow(q float64) (name, spec string) {
	if q == 1 {
		return "no timeout", fmt.Sprintf("none:retry=%d,deadline=%s", falseTries-1, units.FormatDuration(falseDeadline))
	}
	p := units.Percentile(q)
	return "T = p" + p, fmt.Sprintf("p%s:retry=%d,attempt-timeout=%s,deadline=%s", p, falseTries-1,
		units.FormatDuration(falseTimeout(q)), units.FormatDuration(falseDeadline))
}

func falseService() *service.Spec {
	return &service.Spec{Queue: -1, Time: dist("lognormal(20ms,0.5)"), Slow: service.Slow{Share: falseHang, Time: service.Constant(hangs)}}
}

func falseTimeoutsWorkloads(o Options) ([]*workloads.Workload, error) {
	w := workloads.New()
	w.Name, w.About = "false-timeouts", "attempt timeouts at quantiles of a lognormal service time; 2 % of attempts never answer"
	w.Rate, w.Requests, w.Seed = perUnit(1000, time.Second), cmp.Or(o.Requests, falseCalls), o.Seed
	w.Service = falseService()
	var specs []string
	for _, q := range falseQuantiles {
		_, spec := falseRow(q)
		specs = append(specs, spec)
	}
	var err error
	w.Policies, err = policies(specs...)
	return []*workloads.Workload{w}, err
}

// cut is what one timeout did to many calls.
type cut struct {
	attempts, wrongly int // attempts sent; of them, cut off though they would have answered in time
	failed            int // calls
	took              []time.Duration
}

// cutOff drives calls against the service, whose times are multiplied by
// factor. There is no queue: a call meets what its own attempts draw.
func cutOff(o *Options, p *policy.Policy, factor float64, calls int) (cut, error) {
	spec := falseService()
	c := policy.NewClient(p, 1, o.Seed)
	var out cut
	var memory []attempt
	var drawn []time.Duration
	for id := range uint64(calls) {
		if id%10_000 == 0 && o.interrupted() {
			return out, ErrInterrupted
		}
		drawn = drawn[:0]
		rec := drive(c, p, policy.Request{ID: id, Idempotent: true}, memory, func(n uint32, _ clock.Time) answer {
			d, _ := spec.Draw(o.Seed, 0, id, n)
			if d < hangs {
				d = time.Duration(float64(d) * factor)
			}
			drawn = append(drawn, d)
			if d >= hangs {
				return answer{after: -1}
			}
			return answer{after: d, status: 200}
		})
		memory = rec.attempts
		out.attempts += len(rec.attempts)
		for i, a := range rec.attempts {
			if a.timedOut && a.sent.Add(drawn[i]) < clock.Time(falseDeadline) {
				out.wrongly++
			}
		}
		if rec.outcome == policy.OK {
			out.took = append(out.took, rec.end.Sub(0))
		} else {
			out.failed++
		}
	}
	slices.Sort(out.took)
	return out, nil
}

// quantile returns that of all calls in ms; failed calls rank as +infinity.
func (c *cut) quantile(q float64) Value {
	n := len(c.took) + c.failed
	if float64(n)*(1-q) < 5 {
		return absent("too few calls")
	}
	if k := int(math.Ceil(q*float64(n))) - 1; k < len(c.took) {
		return num(c.took[k].Seconds() * 1000)
	}
	return absent("falls among the calls that failed")
}

func runFalseTimeouts(o Options) (*Result, error) {
	ws, err := falseTimeoutsWorkloads(o)
	if err != nil {
		return nil, err
	}
	calls := int(min(cmp.Or(o.Requests, falseCalls), 100_000_000))
	cuts := make([][2]cut, len(falseQuantiles))
	err = each(2*len(cuts), func(i int) (err error) {
		factor := 1.0
		if i%2 == 1 {
			factor = falseSlower
		}
		cuts[i/2][i%2], err = cutOff(&o, &ws[0].Policies[i/2].Policy, factor, calls)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &Result{Columns: []string{"timeout_ms", "false_timeouts", "false_if_slower", "extra_load", "failed", "p99_ms", "p999_ms"}}
	for i, q := range falseQuantiles {
		name, _ := falseRow(q)
		t := falseTimeout(q)
		timeout := num(t.Seconds() * 1000)
		if q == 1 {
			t, timeout = falseDeadline, absent("no timeout but the deadline of 2 s")
		}
		normal, slower := &cuts[i][0], &cuts[i][1]
		share := func(c *cut) float64 { return float64(c.wrongly) / float64(c.attempts) }
		r.add(name, timeout, num(share(normal)), num(share(slower)), num(float64(normal.attempts)/float64(calls)-1),
			num(float64(normal.failed)/float64(calls)), normal.quantile(0.99), normal.quantile(0.999))
		r.refer(name, "exact, independent attempts", append([]Value{timeout}, exactTimeouts(t)...)...)
		if q < 1 && t < falseNear*falseMedian {
			r.note("warning: %s is %.2g times the median. When the service slows down by half, %.0f %% of attempts are cut off.",
				name, float64(t)/float64(falseMedian), 100*share(slower))
		}
	}
	r.Notes = append(r.Notes, "Service: lognormal, median 20 ms, sigma .5; 2 % of attempts never answer. Policy: 2 retries at once, deadline 2 s.",
		"false_timeouts: attempts cut off that would have answered before the deadline, of all attempts; false_if_slower: the",
		"same with a service 1.5 times slower. Short timeouts fail calls and add load, long ones move p99.9 to the timeout.")
	r.falsePlot(cuts)
	r.falseClaims()
	return r, nil
}

func (r *Result) falseClaims() {
	for i, row := range r.Rows {
		ref := &r.Reference[i]
		for k, column := range r.Columns {
			if v, want := row.Values[k], ref.Values[k]; (column == "false_timeouts" || column == "extra_load") && want.Value > 0.001 {
				d := math.Abs(v.Value - want.Value)
				r.claim(v.Present && d <= 0.1*want.Value, v.text(), "%s: %s within 10 %% of the exact %s", row.Row, column, number(want.Value))
			}
		}
	}
	short, long, none := r.value("T = p50", "failed"), r.value("T = p99", "failed"), r.value("no timeout", "failed")
	r.claim(short.Value > 0.1 && long.Value < 1e-3, short.text()+" and "+long.text(), "a timeout at p50 fails over 10 %% of calls, one at p99 under 0.1 %%")
	r.claim(none.Value > 0.005, none.text(), "without a timeout the attempts that hang fail their calls")
}

// falsePlot shows the two sides of the choice against the timeout.
func (r *Result) falsePlot(cuts [][2]cut) {
	p := Plot{Title: "what a timeout costs: answers cut off and failed calls (share), against the timeout",
		X: Axis{Label: "timeout, ms", Log: true, Min: 20, Max: 200}, Y: Axis{Label: "share", Log: true, Min: 1e-5, Max: 1}, Rows: 14}
	q := Plot{Title: "what it bounds: the tail of the calls, failed ones ranking last",
		X: p.X, Y: Axis{Label: "ms", Min: 0, Max: 200}, Rows: 9}
	wrong, slower, failed, tail := Series{Name: "false timeouts"}, Series{Name: "if 1.5 times slower"}, Series{Name: "failed calls"}, Series{Name: "p99.9"}
	p99 := Series{Name: "p99"}
	for i, x := range falseQuantiles {
		if x == 1 {
			continue
		}
		v := r.Rows[i].Values
		t := v[0].Value
		wrong.Points = append(wrong.Points, Point{t, v[1].Value})
		slower.Points = append(slower.Points, Point{t, v[2].Value})
		failed.Points = append(failed.Points, Point{t, v[4].Value})
		if v[5].Present {
			p99.Points = append(p99.Points, Point{t, v[5].Value})
		}
		if v[6].Present {
			tail.Points = append(tail.Points, Point{t, v[6].Value})
		}
	}
	p.Series, q.Series = []Series{wrong, slower, failed}, []Series{p99, tail}
	r.Plots = append(r.Plots, p, q)
}

// exactTimeouts returns the columns of a row from false_timeouts on, for
// attempts that are independent of each other and of load: with F = P(answer
// within T) and R = 1-F, an attempt is cut off wrongly with probability
// 1 - hang - F, a call sends 1 + R + R^2 attempts, fails with R^3, and
//
//	P(call > t) = R^k S(t - kT) for kT <= t < (k+1)T, k = 0, 1, 2
//
// where S(x) is the probability that an attempt takes longer than x. A deadline
// far beyond 3T does not show.
func exactTimeouts(t time.Duration) []Value {
	answered := func(x, factor float64) float64 { // within x ns
		if x <= 0 {
			return 0
		}
		return (1 - falseHang) * normalBelow(math.Log(x/(float64(falseMedian)*factor))/falseSigma)
	}
	r := 1 - answered(float64(t), 1)
	tail := func(x float64) float64 {
		k := min(math.Floor(x/float64(t)), falseTries)
		if k == falseTries {
			return math.Pow(r, k)
		}
		return math.Pow(r, k) * (1 - answered(x-k*float64(t), 1))
	}
	if t == falseDeadline { // one attempt, which may hang
		r, tail = 0, func(x float64) float64 { return 1 - answered(x, 1) }
	}
	failed := math.Pow(r, falseTries)
	if t == falseDeadline {
		failed = falseHang
	}
	quantile := func(q float64) Value {
		if failed >= 1-q {
			return absent("falls among the calls that failed")
		}
		low, high := 0.0, float64(falseTries*t)
		for range 80 {
			mid := (low + high) / 2
			if tail(mid) > 1-q {
				low = mid
			} else {
				high = mid
			}
		}
		return num(round(high/1e6, 2))
	}
	wrongly := func(factor float64) Value { return num(round(1-falseHang-answered(float64(t), factor), 6)) }
	return []Value{wrongly(1), wrongly(falseSlower), num(round(r+r*r, 5)), num(round(failed, 6)), quantile(0.99), quantile(0.999)}
}

// normalBelow is the distribution function of the standard normal.
func normalBelow(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
