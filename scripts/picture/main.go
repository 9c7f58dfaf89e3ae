// Picture draws the response times of a saved run as an SVG: one curve per
// policy over the percentiles, measured as a line and predicted as black dots.
//
//	go run ./scripts/picture RUN.json > RUN.svg
//
// The horizontal axis counts nines (50, 90, 99, 99.9 … %), so that the tail has
// as much room as the rest; a curve ends where fewer than five calls lie beyond.
// Failed calls rank as infinitely slow: a curve that meets them leaves the top.
package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"latencylab/histo"
	"latencylab/results"
	"latencylab/units"
)

const (
	width, height            = 760, 420
	left, right, top, bottom = 76, 36, 52, 52
	nines                    = 4.0 // 99.99 % is the right end
)

var colours = []string{"#1f5fa8", "#c4501b", "#3d7a33", "#7b4aa0", "#8a6d00"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: picture RUN.json > RUN.svg")
		os.Exit(2)
	}
	r, err := results.Read(os.Args[1])
	if err == nil {
		w := bufio.NewWriter(os.Stdout)
		if err = draw(w, r); err == nil {
			err = w.Flush()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// curve is one line of the picture.
type curve struct {
	name   string
	values *histo.Histogram
	total  uint64
	dotted bool
	colour string
}

func draw(w io.Writer, r *results.Run) error {
	var curves []curve
	lowest, highest := int64(math.MaxInt64), int64(0)
	add := func(name string, d *results.Dist, dotted bool, colour string) error {
		if d.Count == 0 {
			return nil
		}
		h, err := histo.Decode(d.HDR)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		lowest, highest = min(lowest, h.Quantile(0.01)), max(highest, h.Max())
		curves = append(curves, curve{name, h, d.Count + d.Failed + d.Censored, dotted, colour})
		return nil
	}
	for i := range r.Policies {
		p := &r.Policies[i]
		colour := colours[i%len(colours)]
		if err := add(p.Name, &p.Response, false, colour); err != nil {
			return err
		}
		if p.Predicted != nil {
			if err := add(p.Name+", simulated", &p.Predicted.Response, true, "#000"); err != nil {
				return err
			}
		}
	}
	if len(curves) == 0 {
		return fmt.Errorf("no call of any policy ended ok, so there is nothing to draw")
	}
	lo := math.Floor(math.Log10(float64(max(lowest, 1))))
	hi := math.Ceil(math.Log10(float64(highest)) - 1e-9)
	frame(w, lo, hi, fmt.Sprintf("Response time by percentile, %s calls a policy", units.Count(curves[0].total)))
	for i := range curves {
		curves[i].draw(w, i, lo, hi)
	}
	fmt.Fprintln(w, "</svg>")
	return nil
}

// x places a percentile: its nines, from 0 (all calls) on.
func x(q float64) float64 {
	return left + (width-left-right)*min(-math.Log10(1-q), nines)/nines
}

// y places a duration in ns on a scale from 10^lo to 10^hi.
func y(ns float64, lo, hi float64) float64 {
	return height - bottom - (height-top-bottom)*(math.Log10(max(ns, 1))-lo)/(hi-lo)
}

func frame(w io.Writer, lo, hi float64, title string) {
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(w, `<text x="%d" y="24" font-size="15">%s</text>`+"\n", left, title)
	for e := lo; e <= hi; e++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, e)
			if e == hi && m > 1 {
				break
			}
			at := y(v, lo, hi)
			fmt.Fprintf(w, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", left, width-right, at, at)
			fmt.Fprintf(w, `<text x="%d" y="%.1f" text-anchor="end" fill="#444">%s</text>`+"\n", left-8, at+4, units.FormatDuration(time.Duration(v)))
		}
	}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999} {
		fmt.Fprintf(w, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`+"\n", x(q), x(q), top, height-bottom)
		label := "min"
		if q > 0 {
			label = fmt.Sprintf("p%g", math.Round(q*1e6)/1e4)
		}
		fmt.Fprintf(w, `<text x="%.1f" y="%d" text-anchor="middle" fill="#444">%s</text>`+"\n", x(q), height-bottom+20, label)
	}
}

// draw adds the curve and its entry in the legend.
func (c *curve) draw(w io.Writer, n int, lo, hi float64) {
	last := 1 - results.MinBeyond/float64(c.total)
	style := `stroke-width="2.5"`
	if c.dotted {
		style = `stroke-width="2" stroke-dasharray="0.1 7" stroke-linecap="round"`
	}
	fmt.Fprintf(w, `<polyline fill="none" stroke="%s" %s points="`, c.colour, style)
	for i := 0.0; i <= nines*60; i++ {
		q := 1 - math.Pow(10, -i/60)
		if q > last {
			break
		}
		v, ok := c.values.QuantileOf(q, c.total)
		if !ok {
			fmt.Fprintf(w, "%.1f,%d ", x(q), top)
			break
		}
		fmt.Fprintf(w, "%.1f,%.1f ", x(q), y(float64(v), lo, hi))
	}
	fmt.Fprintln(w, `"/>`)
	at := top + 18 + 18*n
	fmt.Fprintf(w, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" %s/>`+"\n", left+16, left+48, at-4, at-4, c.colour, style)
	fmt.Fprintf(w, `<text x="%d" y="%d">%s</text>`+"\n", left+56, at, c.name)
}
