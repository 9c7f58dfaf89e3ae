package lab

import (
	"fmt"
	"math"
	"time"

	"latencylab/clock"
	"latencylab/policy"
)

// jitterLab is the published table of jitter: 1,000 clients fail together.
var jitterLab = Lab{
	Name:  "jitter",
	About: "1,000 clients fail at t = 0 and retry three times, base 1 s: the busiest 50 ms",
	takes: takes{prng: true, seedJS: 3},
	run:   runJitter,
	noExport: "its clients fail at one instant and its figure is the number of attempts in 50 ms, " +
		"which a run at a rate does not have; its policies are printed with its table",
}

const (
	jitterClients = 1000
	jitterRetries = 3
	jitterBase    = time.Second
	jitterWindow  = 50 * time.Millisecond
)

// jitterRows are the kinds of jitter. box is the range that the wait before a
// retry is drawn from, in parts of its backoff; nil: it is not of that kind.
var jitterRows = []struct {
	name, spec string
	box        *[2]float64
	published  float64 // 0: none
}{
	{"none", "retry=3,backoff=1s,jitter=none", &[2]float64{1, 1}, 1000},
	{"equal", "retry=3,backoff=1s,jitter=equal", &[2]float64{0.5, 1}, 114},
	{"full", "retry=3,backoff=1s,jitter=full", &[2]float64{0, 1}, 78},
	{"decorrelated", "retry=3,backoff=1s,backoff.kind=decorrelated", nil, 0},
	{"fraction 20 %", "retry=3,backoff=1s,jitter=20%", &[2]float64{0.8, 1.2}, 0},
}

func runJitter(o Options) (*Result, error) {
	r := &Result{Columns: []string{"busiest_50ms", "retries", "last_s"}}
	g := published{uint32(o.Seed)}
	for _, row := range jitterRows {
		var sent []time.Duration // of the retries
		if o.PRNG == SeedJS {
			if row.published == 0 {
				continue
			}
			sent = publishedRetries(&g, row.box)
		} else {
			ps, err := policies(row.spec)
			if err != nil {
				return nil, err
			}
			sent = failTogether(&ps[0].Policy, o.Seed)
			r.note("%-14s%s", row.name, ps[0].Spec)
		}
		windows, last := tumble(sent)
		busiest := 0
		plot := Plot{Title: fmt.Sprintf("%s: retries in each 50 ms (logarithmic)", row.name), Bars: true, Rows: 5,
			X: Axis{Label: "s after the failure", Max: 12}, Y: Axis{Log: true, Min: 1, Max: 1000}}
		points := make([]Point, len(windows))
		for i, n := range windows {
			busiest = max(busiest, n)
			points[i] = Point{float64(i) * jitterWindow.Seconds(), float64(n)}
		}
		plot.Series = []Series{{Name: row.name, Points: points}}
		r.Plots = append(r.Plots, plot)
		r.add(row.name, count(busiest), count(len(sent)), num(round(last.Seconds(), 3)))
	}
	for _, row := range jitterRows {
		if row.published != 0 {
			r.refer(row.name, "published, one run", num(row.published), num(jitterClients*jitterRetries), absent("the published table does not say"))
		}
	}
	for _, row := range jitterRows {
		if row.box != nil && (row.published != 0 || o.PRNG != SeedJS) {
			r.refer(row.name, "exact: mean of the busiest window, longest sum of waits", num(round(expectedBusiest(row.box), 1)),
				num(jitterClients*jitterRetries), num(7*row.box[1]))
		}
	}
	r.jitterClaims(o)
	return r, nil
}

func (r *Result) jitterClaims(o Options) {
	r.equals("none", "busiest_50ms", 1000)
	if o.PRNG == SeedJS {
		r.note("The published generator from seed 3: one stream, first equal, then full jitter, client after client. 5 of\n" +
			"2,000 seeds give both published numbers. Sound draws spread more: run without --prng, and with --runs.")
		r.equals("equal", "busiest_50ms", 114)
		r.equals("full", "busiest_50ms", 78)
		return
	}
	r.note("The published 114 and 78 are one run of a generator that repeats itself (--prng seed-js gives them exactly). The\n" +
		"ranges claimed go from the 1st to the 99th percentile over seeds: one seed in fifty falls outside of one of them.")
	r.within("equal", "busiest_50ms", 106, 131)
	r.within("full", "busiest_50ms", 76, 101)
	r.within("decorrelated", "busiest_50ms", 35, 50)
}

// failTogether drives one call of each client, all of which fail whenever they
// are sent, and returns when they retried.
func failTogether(p *policy.Policy, seed uint64) []time.Duration {
	fail := func(uint32, clock.Time) answer { return answer{} }
	var sent []time.Duration
	var memory []attempt
	for id := range uint64(jitterClients) {
		c := policy.NewClient(p, 1, seed)
		rec := drive(c, p, policy.Request{ID: id, Idempotent: true}, memory, fail)
		for _, a := range rec.attempts[1:] {
			sent = append(sent, a.sent.Sub(0))
		}
		memory = rec.attempts
	}
	return sent
}

// publishedRetries is failTogether with the formula and the generator of the
// published table: wait k = 0, 1, 2 is drawn from the box times base 2^k.
func publishedRetries(g *published, box *[2]float64) []time.Duration {
	var sent []time.Duration
	for range jitterClients {
		t := 0.0
		for k := range jitterRetries {
			d := float64(jitterBase) * math.Pow(2, float64(k))
			wait := box[0] * d
			if box[1] > box[0] {
				wait += g.next() * (box[1] - box[0]) * d
			}
			t += wait
			sent = append(sent, time.Duration(t))
		}
	}
	return sent
}

// tumble counts instants in windows [0, 50 ms), [50 ms, 100 ms), …, and returns
// the last instant.
func tumble(sent []time.Duration) (windows []int, last time.Duration) {
	for _, t := range sent {
		last = max(last, t)
	}
	windows = make([]int, last/jitterWindow+1)
	for _, t := range sent {
		windows[t/jitterWindow]++
	}
	return windows, last
}

// expectedBusiest returns the mean number of retries in the window where it is
// largest. The busiest window of a run is above it by chance.
func expectedBusiest(box *[2]float64) float64 {
	highest := 0.0
	for i := range int(20 * time.Second / jitterWindow) {
		from := float64(i) * jitterWindow.Seconds()
		sum := 0.0
		for k := 1; k <= jitterRetries; k++ {
			sum += sumBelow(k, box, from+jitterWindow.Seconds()) - sumBelow(k, box, from)
		}
		highest = max(highest, jitterClients*sum)
	}
	return highest
}

// sumBelow returns the probability that the sum of the waits before retries 1
// … n, drawn from the box times 1, 2, 4 s, is below t. With widths w and lower
// ends that add up to a, it is by inclusion and exclusion
//
//	1/(n! w1 … wn) * sum over subsets S of (-1)^|S| max(0, t - a - sum of w in S)^n
func sumBelow(n int, box *[2]float64, t float64) float64 {
	widths, scale := make([]float64, n), 1.0
	for k := range n {
		d := math.Pow(2, float64(k))
		t -= box[0] * d
		widths[k] = (box[1] - box[0]) * d
		scale *= widths[k] * float64(k+1)
	}
	if scale == 0 { // no width: the sum is known
		if t > 0 {
			return 1
		}
		return 0
	}
	sum := 0.0
	for s := range 1 << n {
		rest, sign := t, 1.0
		for k := range n {
			if s>>k&1 != 0 {
				rest, sign = rest-widths[k], -sign
			}
		}
		if rest > 0 {
			sum += sign * math.Pow(rest, float64(n))
		}
	}
	return min(max(sum/scale, 0), 1)
}
