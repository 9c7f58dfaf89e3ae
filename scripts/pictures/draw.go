package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"latencylab/sim"
	"latencylab/workloads"
)

var inf = math.Inf(1)

func percent(v float64) string { return fmt.Sprintf("%g %%", math.Round(v*1e4)/100) }

// deadlines: what a service that is too busy still answers in time, when it
// works on whatever it has and when it heeds the deadline that it is told.
func deadlines() (*chart, error) {
	c := &chart{title: "Answers in time of a service that is asked for too much",
		x: axis{title: "arrivals, in parts of what the service can do", low: 0.5, top: 2, ticks: steps(0.5, 2, 0.25)},
		y: axis{title: "calls answered within 200 ms", low: 0, top: 1, ticks: steps(0, 1, 0.25), label: percent}}
	const told = "deadline=200ms,deadline.wire=x-deadline-ms"
	for _, v := range []struct{ name, spec, heeds string }{
		{"deadline, not told", "deadline=200ms", "ignore"},
		{"told: queued", told, "queued"},
		{"told: running", told, "running"},
		{"queued, newest first", told, "queued\ndiscipline: lifo"},
	} {
		l, err := each(v.name, steps(0.5, 2, 0.125), func(x float64) (float64, error) {
			r, err := world{spec: v.spec, service: "time: exponential(10ms)\nslots: 4\ndeadline: " + v.heeds + "\n", rate: 400 * x, calls: 20_000}.run(
				func(c *sim.Config) { c.Within = []time.Duration{200 * time.Millisecond} })
			if err != nil {
				return 0, err
			}
			return float64(r.Ledger.WithinCount[0]) / float64(r.Ledger.Calls.Scheduled), nil
		})
		if err != nil {
			return nil, err
		}
		c.lines = append(c.lines, l)
	}
	return c, nil
}

// timeouts: what an attempt timeout costs and what it bounds.
func timeouts() (*chart, error) {
	c := &chart{title: "An attempt timeout of T with one retry; 2 % of attempts hang",
		x: axis{title: "T in ms (the service: lognormal, median 20 ms, sigma 0.5)", low: 15, top: 200, log: true, ticks: []float64{20, 30, 50, 70, 100, 200}},
		y: axis{title: "share", low: 1e-4, top: 1, log: true, ticks: []float64{1e-4, 1e-3, 1e-2, 1e-1, 1}, label: percent}}
	cut, wrongly, failed := line{name: "attempts cut off"}, line{name: "cut off wrongly: none hangs"}, line{name: "failed calls"}
	share := func(n, of uint64) float64 { // nothing has no place on a logarithmic axis
		if n == 0 {
			return inf
		}
		return float64(n) / float64(of)
	}
	for _, x := range []float64{15, 18, 22, 27, 33, 40, 50, 62, 75, 90, 110, 135, 165, 200} {
		w := world{spec: fmt.Sprintf("retry=1,attempt-timeout=%dms,deadline=2s", int(x)),
			service: "time: lognormal(20ms,0.5)\n", rate: 1000, calls: 200_000}
		r, err := w.run(nil)
		if err != nil {
			return nil, err
		}
		wrongly.points = append(wrongly.points, point{x, share(r.Ledger.Attempts.TimedOut, r.Ledger.Attempts.Sent)})
		w.service += "fault: {hang: 2%}\n"
		if r, err = w.run(nil); err != nil {
			return nil, err
		}
		cut.points = append(cut.points, point{x, share(r.Ledger.Attempts.TimedOut, r.Ledger.Attempts.Sent)})
		failed.points = append(failed.points, point{x, share(r.Ledger.Calls.Failed, r.Ledger.Calls.Scheduled)})
	}
	c.lines = []line{cut, wrongly, failed}
	return c, nil
}

// retries: what retries add to the load as failures become frequent.
func retries() (*chart, error) {
	c := &chart{title: "Retries multiply the load of a service that fails",
		x: axis{title: "share of attempts that fail", low: 0, top: 1, ticks: steps(0, 1, 0.2), label: percent},
		y: axis{title: "attempts a call", low: 1, top: 4, ticks: []float64{1, 2, 3, 4}}}
	for _, spec := range []string{"retry=3", "retry=2", "retry=1", "retry=3,budget=10%"} {
		l, err := each(spec, steps(0, 1, 0.05), func(x float64) (float64, error) {
			r, err := world{spec: spec, service: fmt.Sprintf("time: 5ms\nstatus: {503: %.2f%%}\n", 100*x), rate: 1000, calls: 50_000}.run(nil)
			if err != nil {
				return 0, err
			}
			a, _ := r.Ledger.Amplification()
			return a, nil
		})
		if err != nil {
			return nil, err
		}
		c.lines = append(c.lines, l)
	}
	return c, nil
}

// backoffs: when 1,000 clients that fail at the same instant come back.
func backoffs() (*chart, error) {
	c := &chart{title: "1,000 clients fail at once and retry three times",
		x: axis{title: "seconds after the failure", low: 0, top: 8, ticks: steps(0, 8, 1)},
		y: axis{title: "retries in 50 ms", low: 1, top: 1000, log: true, ticks: []float64{1, 10, 100, 1000}, label: func(v float64) string {
			if v == 1 {
				return "0, 1"
			}
			return fmt.Sprintf("%g", v)
		}}}
	for _, spec := range []string{"jitter=none", "jitter=equal", "jitter=full", "backoff.kind=decorrelated"} {
		np, err := workloads.ParsePolicy("retry=3,backoff=1s," + spec)
		if err != nil {
			return nil, err
		}
		const width = 50 * time.Millisecond
		counts := make([]float64, 8*time.Second/width)
		for _, at := range driveFailing(&np.Policy, 1000) {
			if i := int(at / width); i < len(counts) {
				counts[i]++
			}
		}
		l := line{name: strings.TrimPrefix(spec, "backoff.kind=")}
		for i, n := range counts {
			l.points = append(l.points, point{(time.Duration(i) * width).Seconds(), max(n, 1)})
		}
		c.lines = append(c.lines, l)
	}
	return c, nil
}

// hedges: the response times of the whole distribution.
func hedges() (*chart, error) {
	nines := func(q float64) float64 { return -math.Log10(1 - q) }
	c := &chart{title: "2 % of attempts take 1 s, the others 20 to 60 ms; copies are independent",
		x: axis{title: "percentile", low: 0, top: 4, label: func(v float64) string {
			return fmt.Sprintf("p%g", math.Round((1-math.Pow(10, -v))*1e6)/1e4)
		}},
		y: axis{title: "response time in ms", low: 10, top: 2000, log: true, ticks: []float64{10, 20, 50, 100, 200, 500, 1000}}}
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999} {
		c.x.ticks = append(c.x.ticks, nines(q))
	}
	for _, spec := range []string{"plain", "hedge=58ms", "hedge=58ms,hedge.probability=50%", "hedge=20ms,hedge.max=2"} {
		r, err := world{spec: spec, service: "replicas: 3\ntime: uniform(20ms,60ms)\nslow: {share: 2%, time: 1s}\n", rate: 1000, calls: 400_000}.run(nil)
		if err != nil {
			return nil, err
		}
		e, _ := r.Ledger.ExtraLoad()
		l := line{name: fmt.Sprintf("%s +%.0f %%", short(spec), 100*e)}
		for x := 0.0; x <= 4; x += 0.02 {
			l.points = append(l.points, point{x, tail(r.Ledger, 1-math.Pow(10, -x))})
		}
		c.lines = append(c.lines, l)
	}
	return c, nil
}

// short names a hedge in the legend.
func short(spec string) string {
	switch spec {
	case "hedge=58ms,hedge.probability=50%":
		return "half of them"
	case "hedge=20ms,hedge.max=2":
		return "two, 20ms"
	}
	return spec
}

// storm is a service that is away for 10 s and does half as much when it is
// asked for more than one and a half times of what it can.
const storm = "capacity: {requests: 100, per: 100ms}\nthrash: {above: 150, factor: 50%}\ndiscipline: proportional\noutage: {at: 5s, for: 10s}\n"

// stormOf draws, for each pair of a name and a SPEC, the attempts in each 100 ms before, during and after an outage.
func stormOf(title string, lines ...[2]string) (*chart, error) {
	c := &chart{title: title,
		x: axis{title: "seconds (the service is away from 5 to 15 s)", low: 0, top: 40, ticks: steps(0, 40, 5)},
		y: axis{title: "attempts in 100 ms (capacity 100, 50 above 150)", low: 0, top: 400, ticks: steps(0, 400, 100)}}
	for _, named := range lines {
		w := world{spec: named[1], service: storm, rate: 800, calls: 800 * 40, constant: true, burn: 20 * time.Second}
		l, err := w.over(named[0], 100*time.Millisecond, func(s sim.Sample) float64 { return float64(s.Sent) })
		if err != nil {
			return nil, err
		}
		c.lines = append(c.lines, l)
	}
	return c, nil
}

func budgets() (*chart, error) {
	return stormOf("An outage of 10 s: without a budget it does not end", [2]string{"three retries", "retry=3,backoff=1s"},
		[2]string{"with a budget of 10 %", "retry=3,backoff=1s,budget=10%"}, [2]string{"no retries", "plain"})
}

func breakers() (*chart, error) {
	return stormOf("A breaker around three retries", [2]string{"three retries", "retry=3,backoff=1s"},
		[2]string{"with a breaker at 50 %, open 2 s", "retry=3,backoff=1s,breaker=50%,breaker.open=2s"})
}

func throttles() (*chart, error) {
	return stormOf("A throttle acts when its window has seen enough failures", [2]string{"three retries", "retry=3,backoff=1s"},
		[2]string{"with a throttle, K 2 over 10 s", "retry=3,backoff=1s,throttle=2,throttle.window=10s"},
		[2]string{"K 1.5 over 10 s", "retry=3,backoff=1s,throttle=1.5,throttle.window=10s"})
}

// limits: what a limit of attempts in flight does to calls of an overloaded service.
func limits() (*chart, error) {
	c := &chart{title: "A limit turns waiting into refusals",
		x: axis{title: "arrivals, in parts of what the service can do", low: 0.5, top: 2, ticks: steps(0.5, 2, 0.25)},
		y: axis{title: "calls answered within 100 ms", low: 0, top: 1, ticks: steps(0, 1, 0.25), label: percent}}
	for _, spec := range []string{"plain", "limit=20", "limit=2..200,limit.timeout=100ms"} {
		l, err := each(strings.TrimSuffix(spec, ",limit.timeout=100ms"), steps(0.5, 2, 0.125), func(x float64) (float64, error) {
			r, err := world{spec: spec, service: "time: exponential(10ms)\nslots: 4\n", rate: 400 * x, calls: 20_000}.run(
				func(c *sim.Config) { c.Within = []time.Duration{100 * time.Millisecond} })
			if err != nil {
				return 0, err
			}
			return float64(r.Ledger.WithinCount[0]) / float64(r.Ledger.Calls.Scheduled), nil
		})
		if err != nil {
			return nil, err
		}
		c.lines = append(c.lines, l)
	}
	return c, nil
}

// pickers: the tail against the load, with one replica of ten slower.
func pickers() (*chart, error) {
	c := &chart{title: "Ten one-slot replicas, one of them three times slower",
		x: axis{title: "arrivals, in parts of what all replicas can do", low: 0.1, top: 0.9, ticks: steps(0.1, 0.9, 0.1)},
		y: axis{title: "p99 in ms", low: 20, top: 2000, log: true, ticks: []float64{20, 50, 100, 200, 500, 1000, 2000}}}
	for _, name := range []string{"random", "least", "choices", "peak-ewma"} {
		l, err := each(name, steps(0.1, 0.9, 0.05), func(x float64) (float64, error) {
			r, err := world{spec: "picker=" + name, service: "replicas: 10\ntime: exponential(10ms)\nslots: 1\neach: [{replica: 0, factor: 3}]\n",
				rate: 933 * x, calls: 60_000}.run(nil)
			if err != nil {
				return 0, err
			}
			return tail(r.Ledger, 0.99), nil
		})
		if err != nil {
			return nil, err
		}
		c.lines = append(c.lines, l)
	}
	return c, nil
}
