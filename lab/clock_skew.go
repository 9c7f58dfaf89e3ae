package lab

import (
	"fmt"
	"math"
	"time"

	"latencylab/draw"
	"latencylab/policy"
	"latencylab/units"
)

// clockSkewLab tells a callee, over each header, how much time a call has left,
// and looks at what the callee makes of it when its clock is wrong.
var clockSkewLab = Lab{
	Name:     "clock-skew",
	About:    "a deadline sent as an instant or as the time left, to a callee whose clock is 200 ms off",
	run:      runClockSkew,
	noExport: "it writes and reads headers; the simulator has one clock",
}

const (
	skewCalls = 10_000
	skew      = 200 * time.Millisecond
	// skewEpoch is the wall clock of the caller at its instant 0.
	skewEpoch = 1_790_000_000_000_000_000
)

// skewRows are the headers, and how far the callee's clock is ahead.
var skewRows = []struct {
	name      string
	wire      policy.Wire
	ahead     time.Duration
	low, high float64 // claimed of error_ms
}{
	{"epoch, clocks agree", policy.WireRFC3339, 0, -5, 5},
	{"epoch, callee 200 ms behind", policy.WireRFC3339, -skew, 195, 205},
	{"epoch, callee 200 ms ahead", policy.WireRFC3339, skew, -205, -195},
	{"remaining", policy.WireDeadlineMS, -skew, 0, 5},
	{"remaining, callee 200 ms ahead", policy.WireDeadlineMS, skew, 0, 5},
	{"remaining, grpc-timeout", policy.WireGRPC, skew, 0, 5},
	{"remaining, x-envoy-expected-rq-timeout-ms", policy.WireEnvoy, skew, 0, 5},
	{"remaining, connect-timeout-ms", policy.WireConnect, skew, 0, 5},
}

// skewResult is what callees believed of the time left, less what was left, over
// many calls.
type skewResult struct {
	mean, low, high time.Duration
	vain, refused   int // calls begun after their deadline, and refused before it
}

func runClockSkew(o Options) (*Result, error) {
	r := &Result{Columns: []string{"error_ms", "least_ms", "most_ms", "begun_late", "refused_early"}}
	ms := func(d time.Duration) Value { return num(round(d.Seconds()*1000, 3)) }
	for i := range skewRows {
		row := &skewRows[i]
		s, err := skewed(&o, row.wire, row.ahead)
		if err != nil {
			return nil, err
		}
		r.add(row.name, ms(s.mean), ms(s.low), ms(s.high), num(float64(s.vain)/skewCalls), num(float64(s.refused)/skewCalls))
		r.within(row.name, "error_ms", row.low, row.high)
	}
	const published = "the skew; the mean time of a message"
	none := absent("the published lab does not say")
	r.refer("epoch, callee 200 ms behind", published, num(200), none, none, none, none)
	r.refer("epoch, callee 200 ms ahead", published, num(-200), none, none, none, none)
	r.refer("remaining", published, num(2.5), none, none, none, none)
	r.note("%s calls that have 0 to 1 s left when they are sent, over a network that takes 1 to 4 ms. error: what the callee\n"+
		"believes is left, less what is, of calls with time left on both sides. Above 0 it works for a caller that has\n"+
		"gone, below 0 it gives up on one that waits. begun_late: calls begun after their deadline, refused_early: calls\n"+
		"refused before it, of all.", units.Count(skewCalls))
	plot, err := skewPlot(&o)
	r.Plots = append(r.Plots, plot)
	return r, err
}

// skewed sends calls to a callee whose wall clock is ahead by so much.
func skewed(o *Options, wire policy.Wire, ahead time.Duration) (skewResult, error) {
	s := skewResult{low: math.MaxInt64, high: math.MinInt64}
	var sum, n time.Duration
	for i := range uint64(skewCalls) {
		if i%1000 == 0 && o.interrupted() {
			return s, ErrInterrupted
		}
		sent := time.Duration(i) * time.Millisecond
		left := time.Duration(float64(time.Second) * draw.Uniform(o.Seed, draw.Service, i, 1, 0))
		net := time.Millisecond + time.Duration(float64(3*time.Millisecond)*draw.Uniform(o.Seed, draw.Service, i, 1, 1))
		header := wire.Append(nil, left, skewEpoch+int64(sent))
		believed, ok, err := wire.Parse(string(header), skewEpoch+int64(sent+net+ahead))
		if err != nil {
			return s, fmt.Errorf("%s: %w", wire, err)
		}
		if !ok {
			return s, fmt.Errorf("%s: %q sets no deadline", wire, header)
		}
		truly := left - net
		if truly <= 0 && believed > 0 {
			s.vain++
		}
		if truly > 0 && believed <= 0 {
			s.refused++
		}
		if believed > 0 && truly > 0 { // at 0 an error is cut off and does not show its size
			e := believed - truly
			sum += e
			n++
			s.low, s.high = min(s.low, e), max(s.high, e)
		}
	}
	if n == 0 {
		return s, fmt.Errorf("%s: no call has time left on both sides", wire)
	}
	s.mean = sum / n
	return s, nil
}

// skewPlot is the mean error against the skew.
func skewPlot(o *Options) (Plot, error) {
	p := Plot{Title: "mean error of the time left against the skew of the callee's clock",
		X: Axis{Label: "callee ahead, ms", Min: -300, Max: 300}, Y: Axis{Label: "error, ms", Min: -300, Max: 300}, Rows: 13}
	for _, w := range []struct {
		name string
		wire policy.Wire
	}{{"an instant (RFC 3339)", policy.WireRFC3339}, {"the time left (x-deadline-ms)", policy.WireDeadlineMS}} {
		s := Series{Name: w.name}
		for ahead := -300; ahead <= 300; ahead += 50 {
			found, err := skewed(o, w.wire, time.Duration(ahead)*time.Millisecond)
			if err != nil {
				return p, err
			}
			s.Points = append(s.Points, Point{float64(ahead), found.mean.Seconds() * 1000})
		}
		p.Series = append(p.Series, s)
	}
	return p, nil
}
