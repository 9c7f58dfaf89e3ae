package lab

import (
	"cmp"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"latencylab/service"
)

// fanOutLab asks many leaves for each answer and waits for the slowest.
var fanOutLab = Lab{
	Name:     "fan-out",
	About:    "an answer that needs every one of n leaves: how often it waits for a slow one",
	takes:    takes{requests: true},
	run:      runFanOut,
	real:     fanOutSockets,
	noExport: "a row of it is a workload of two services: docs/examples/fan-out-load.yaml",
}

// fanOutRows are the leaves, the slow share of each, how many answers are drawn
// (for a standard error of 0.3 % of them), and what is claimed.
var fanOutRows = []struct {
	name    string
	leaves  int
	slow    float64
	answers int
	claim   *[2]float64
}{
	{"1 leaf, 1 % slow", 1, 0.01, 20_000, nil},
	{"69 leaves, 1 % slow", 69, 0.01, 20_000, &[2]float64{0.485, 0.515}},
	{"100 leaves, 1 % slow", 100, 0.01, 20_000, &[2]float64{0.624, 0.644}},
	{"2000 leaves, 0.01 % slow", 2000, 0.0001, 20_000, &[2]float64{0.171, 0.191}},
}

func runFanOut(o Options) (*Result, error) {
	r := &Result{Columns: []string{"slow_share", "answers"}}
	for i := range fanOutRows {
		row := &fanOutRows[i]
		answers := int(min(cmp.Or(o.Requests, uint64(row.answers)), 1_000_000))
		share, err := slowAnswers(&o, uint64(i), row.leaves, row.slow, answers)
		if err != nil {
			return nil, err
		}
		r.add(row.name, num(share), count(answers))
		r.refer(row.name, "exact: 1-(1-p)^n", num(round(exactFanOut(row.leaves, row.slow), 4)), absent("no number of answers"))
		if row.claim != nil {
			r.within(row.name, "slow_share", row.claim[0], row.claim[1])
		}
	}
	r.note("From 69 leaves on, 1 %% slow leaves are the median answer (Dean and Barroso, \"The Tail at Scale\", CACM 2013).")
	plot, err := fanOutPlot(&o)
	if err != nil {
		return nil, err
	}
	r.Plots = append(r.Plots, plot)
	return r, nil
}

// slowAnswers draws answers that need so many leaves, of which each takes a
// second with probability slow and 5 to 15 ms otherwise, and returns the share
// that waits for a slow one. set tells the draws of different rows apart.
func slowAnswers(o *Options, set uint64, leaves int, slow float64, answers int) (float64, error) {
	leaf := &service.Spec{Time: dist("uniform(5ms,15ms)"), Slow: service.Slow{Share: slow, Time: service.Constant(time.Second)}}
	const part = 500
	var late atomic.Int64
	err := each((answers+part-1)/part, func(k int) error {
		if o.interrupted() {
			return ErrInterrupted
		}
		n := 0
		for i := k * part; i < min((k+1)*part, answers); i++ {
			worst := time.Duration(0)
			for j := range leaves {
				d, _ := leaf.Draw(o.Seed, 0, set<<48|uint64(i*leaves+j), 1)
				worst = max(worst, d)
			}
			if worst >= time.Second {
				n++
			}
		}
		late.Add(int64(n))
		return nil
	})
	return float64(late.Load()) / float64(answers), err
}

// exactFanOut returns the probability that one of n leaves is slow.
func exactFanOut(n int, p float64) float64 { return 1 - math.Pow(1-p, float64(n)) }

// fanOutPlot is the share of slow answers against the number of leaves: drawn
// as points, exact as lines.
func fanOutPlot(o *Options) (Plot, error) {
	p := Plot{Title: "share of answers that wait for a slow leaf: lines are exact, points are drawn",
		X: Axis{Label: "leaves", Log: true, Min: 1, Max: 2000}, Y: Axis{Label: "share", Min: 0, Max: 1}, Rows: 16}
	drawn := Series{Name: "drawn", Loose: true, Mark: '@'}
	for i, slow := range []float64{0.01, 0.001, 0.0001} {
		exact := Series{Name: fmt.Sprintf("%g %% slow", slow*100)}
		for n := 1.0; n <= 2000; n *= 1.1 {
			exact.Points = append(exact.Points, Point{n, 1 - math.Pow(1-slow, n)})
		}
		p.Series = append(p.Series, exact)
		for _, n := range []int{1, 3, 10, 30, 100, 300, 1000} {
			share, err := slowAnswers(o, uint64(100+i), n, slow, 1000)
			if err != nil {
				return p, err
			}
			drawn.Points = append(drawn.Points, Point{float64(n), share})
		}
	}
	p.Series = append(p.Series, drawn)
	return p, nil
}
