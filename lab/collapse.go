package lab

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"latencylab/ledger"
	"latencylab/service"
	"latencylab/sim"
	"latencylab/workloads"
)

// collapseLab is one server asked by few users who wait for each answer, by
// many, and by a stream that waits for nobody.
var collapseLab = Lab{
	Name:   "collapse",
	About:  "the same load from closed and open clients, and what a retry after 15 ms does to each",
	takes:  takes{requests: true},
	run:    runCollapse,
	export: collapseWorkloads,
}

const (
	// collapseRate is the number of calls in a millisecond: of the stream, and of
	// closed clients if the server took no time to queue in.
	collapseRate = 8
	// collapseWork is the unfinished work above which the server has collapsed.
	collapseWork = time.Second
	// collapseStream is the number of calls of a stream without retries: p99 needs
	// many of the rare long requests. collapseLong is how long retries are watched.
	collapseStream = 800_000
	collapseLong   = 20 * time.Second
	collapseSample = 100 * time.Millisecond
)

// Service times of the table, with mean and mean square in ms.
var (
	collapseExp     = collapseTime{"exponential(100us)", 0.1, 0.02}
	collapseBimodal = collapseTime{"mixture(99.9%:constant(100us),0.1%:constant(10ms))", 0.999*0.1 + 0.001*10, 0.999*0.01 + 0.001*100}
)

type collapseTime struct {
	dist         string
	mean, square float64
}

// collapseRetry is a client that gives up on an attempt after 15 ms.
const collapseRetry = "attempt-timeout=15ms,retry=3"

var collapseTable = []struct {
	name  string
	time  collapseTime
	users int // 0: an open stream
	spec  string
}{
	{"exponential, 1 client", collapseExp, 1, "plain"},
	{"exponential, 10 clients", collapseExp, 10, "plain"},
	{"exponential, open", collapseExp, 0, "plain"},
	{"bimodal, 1 client", collapseBimodal, 1, "plain"},
	{"bimodal, 10 clients", collapseBimodal, 10, "plain"},
	{"bimodal, open", collapseBimodal, 0, "plain"},
	{"retry, 10 clients", collapseBimodal, 10, collapseRetry},
	{"retry, 100 clients", collapseBimodal, 100, collapseRetry},
	{"retry, 1000 clients", collapseBimodal, 1000, collapseRetry},
	{"retry, open", collapseBimodal, 0, collapseRetry},
	{"retry with backoff, 1000 clients", collapseBimodal, 1000, collapseRetry + ",backoff=100ms..1s"},
	{"retry with backoff, open", collapseBimodal, 0, collapseRetry + ",backoff=100ms..1s"},
	{"retry with budget 10%, open", collapseBimodal, 0, collapseRetry + ",budget=10%"},
}

// collapseWorkloads are the rows of the open stream. A workload's closed clients
// do not think between calls.
func collapseWorkloads(o Options) ([]*workloads.Workload, error) {
	var out []*workloads.Workload
	for i := range collapseTable {
		x := &collapseTable[i]
		if x.users > 0 {
			continue
		}
		w := workloads.New()
		w.Name = strings.NewReplacer(", ", "-", " ", "-", "%", "").Replace("collapse " + x.name)
		w.About = x.name + ": one server, 8 calls in a millisecond"
		w.Rate, w.Duration, w.Seed, w.WarmupGiven = perUnit(collapseRate, time.Millisecond), collapseLength(&o, x.spec), o.Seed, true
		w.Service = collapseService(x.time)
		var err error
		if w.Policies, err = policies(x.spec); err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

func collapseService(t collapseTime) *service.Spec {
	return &service.Spec{Time: dist(t.dist), Slots: 1, Queue: -1}
}

// collapsed is one row: its record, and the unfinished work over time.
type collapsed struct {
	*sim.Result
	work  time.Duration // at the end
	curve []Point       // s, ms
}

// collapseLength is how long a row with that policy lasts.
func collapseLength(o *Options, spec string) time.Duration {
	if spec == "plain" {
		return time.Duration(cmp.Or(o.Requests, collapseStream)) * time.Millisecond / collapseRate
	}
	return collapseLong
}

// collapseThink is the mean time in ms that a client thinks, for so many clients
// to ask for the rate together if they never waited.
func collapseThink(users int, mean float64) float64 {
	return max(0, float64(users)/collapseRate-mean)
}

func collapseRow(o *Options, row int) (collapsed, error) {
	x := &collapseTable[row]
	np, err := workloads.ParsePolicy(x.spec)
	if err != nil {
		return collapsed{}, err
	}
	length := collapseLength(o, x.spec)
	cfg := sim.Config{
		Policy: np.Policy, Service: collapseService(x.time), Seed: o.Seed, TargetSeed: o.Seed, Idempotent: true,
		Blocks: []workloads.Block{{Data: length}}, Stop: o.interrupted,
		Horizon: time.Second, Sample: collapseSample,
	}
	if x.users == 0 {
		cfg.Arrivals = workloads.NewArrivals(workloads.Poisson, perUnit(collapseRate, time.Millisecond), o.Seed)
	} else {
		cfg.Users = x.users
		cfg.Think = dist(fmt.Sprintf("exponential(%dns)", int64(1e6*collapseThink(x.users, x.time.mean))))
	}
	var c collapsed
	const mean = 5 // samples of a point of the curve
	sum := 0.0
	cfg.OnSample = func(s sim.Sample) {
		at := time.Duration(s.At)
		if at >= length {
			return
		}
		c.work = s.Work
		sum += s.Work.Seconds() * 1000 / mean
		if at/collapseSample%mean == mean-1 {
			c.curve = append(c.curve, Point{at.Seconds(), sum})
			sum = 0
		}
	}
	c.Result, err = sim.Run(cfg)
	if err == nil && c.Stopped && o.interrupted() {
		err = ErrInterrupted
	}
	return c, err
}

func runCollapse(o Options) (*Result, error) {
	found := make([]collapsed, len(collapseTable))
	err := each(len(found), func(i int) (err error) {
		found[i], err = collapseRow(&o, i)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &Result{Columns: []string{"mean_ms", "p50_ms", "p99_ms", "extra_load", "failed", "work_ms"}}
	plot := Plot{Title: "unfinished work with a retry after 15 ms; above 15 ms every call is sent again",
		X: Axis{Label: "s", Min: 0, Max: collapseLong.Seconds()}, Y: Axis{Label: "ms", Log: true, Min: 1, Max: 100_000}, Rows: 14}
	for i := range collapseTable {
		x, f := &collapseTable[i], &found[i]
		l := f.Ledger
		mean := absent("calls failed or did not end")
		if l.Calls.OK == l.Calls.Scheduled {
			mean = num(l.OK.Mean() / 1e6)
		}
		extra, _ := l.ExtraLoad()
		r.add(x.name, mean, quantileMS(l, 0.5), quantileMS(l, 0.99), num(extra),
			num(float64(l.Calls.Failed+l.Calls.Unfinished)/float64(l.Calls.Scheduled)), num(f.work.Seconds()*1000))
		if x.spec != "plain" && x.users != 10 && x.users != 100 {
			plot.Series = append(plot.Series, Series{Name: x.name, Points: f.curve})
		}
	}
	r.Plots = append(r.Plots, plot)
	r.collapseReferences()
	r.note("One server; 99.9 %% of requests take 0.1 ms and 0.1 %% take 10 ms (bimodal), or all are exponential with mean 0.1 ms. The\n"+
		"stream has %d calls in a millisecond, and so would the closed clients have, who think between calls, if they never\n"+
		"waited. Attempts that are given up are still worked on.", collapseRate)
	r.note("A closed client has one call open. With a timeout of 15 ms, 100 of them ask for at most 100/15 = 6.7 in a millisecond,\n" +
		"under the 9.1 that the server can do; 1,000 ask for 67, and a stream for four times its rate. Backoff spreads the\n" +
		"retries: closed clients call less often meanwhile, a stream does not, so for it the load stays the same.")
	r.note("A budget of 10 %% bounds the load at 1.1 times 0.88 of what the server can do. That is under 1: the queue stays finite,\n" +
		"but long enough to fail many calls. The timeout, not the retry, is the mistake here.")
	r.collapseClaims()
	return r, nil
}

// quantileMS returns a quantile of all calls in ms.
func quantileMS(l *ledger.Ledger, q float64) Value {
	ns, ok := l.OK.QuantileOf(q, l.Calls.Scheduled)
	if !ok {
		return absent("falls among the calls that failed or did not end")
	}
	return num(float64(ns) / 1e6)
}

// collapseReferences are closed forms: one client never waits; of ten with
// exponential times the mean follows from the recursion of mean values (Reiser
// and Lavenberg, JACM 1980); the stream is M/M/1, or M/G/1 with the mean of
// Pollaczek and Khinchine.
func (r *Result) collapseReferences() {
	no := absent("no closed form")
	none := []Value{num(0), num(0), absent("0 on average once it is idle")}
	ref := func(row, source string, mean, p50, p99 Value) {
		r.refer(row, source, append([]Value{mean, p50, p99}, none...)...)
	}
	exp := func(rate, q float64) Value { return num(round(-math.Log(1-q)/rate, 4)) }
	ref("exponential, 1 client", "exact: the service time", num(0.1), exp(10, 0.5), exp(10, 0.99))
	ref("exponential, 10 clients", "exact: mean values", num(round(meanOfClosed(10, collapseExp.mean), 4)), no, no)
	ref("exponential, open", "exact: M/M/1", num(0.5), exp(10-collapseRate, 0.5), exp(10-collapseRate, 0.99))
	ref("bimodal, 1 client", "exact: the service time", num(round(collapseBimodal.mean, 4)), num(0.1), num(0.1))
	b := collapseBimodal
	ref("bimodal, open", "exact: M/G/1", num(round(b.mean+collapseRate*b.square/(2*(1-collapseRate*b.mean)), 3)), no, no)
}

// meanOfClosed returns the mean response in ms of so many clients that think,
// at a server with exponential times of that mean: with Q the mean number at the
// server, R(n) = s (1 + Q(n-1)), Q(n) = n R(n) / (R(n) + Z).
func meanOfClosed(users int, mean float64) float64 {
	think, queue, response := collapseThink(users, mean), 0.0, 0.0
	for n := 1; n <= users; n++ {
		response = mean * (1 + queue)
		queue = float64(n) * response / (response + think)
	}
	return response
}

func (r *Result) collapseClaims() {
	r.within("bimodal, 1 client", "p99_ms", 0, 1)
	r.within("bimodal, open", "p99_ms", 20, 36)
	for _, row := range []string{"exponential, 1 client", "exponential, 10 clients", "exponential, open"} {
		want := 0.0
		for i := range r.Reference {
			if r.Reference[i].Row == row {
				want = r.Reference[i].Values[0].Value
			}
		}
		r.within(row, "mean_ms", round(0.97*want, 4), round(1.03*want, 4))
	}
	most := collapseWork.Seconds() * 1000
	for _, row := range []string{"retry, open", "retry, 1000 clients", "retry with backoff, open"} {
		v := r.value(row, "work_ms")
		r.claim(v.Value > most, v.text(), "%s: collapses: work_ms above %s", row, bound(most))
	}
	for _, row := range []string{"retry, 10 clients", "retry, 100 clients", "retry with backoff, 1000 clients", "retry with budget 10%, open"} {
		r.within(row, "work_ms", 0, most)
	}
}
