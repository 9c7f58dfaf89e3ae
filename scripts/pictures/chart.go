package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	width, height            = 760, 400
	left, right, top, bottom = 76, 36, 84, 60
)

// colours stand out from white and from each other, also for most of those who
// see fewer colours; dashes tell the lines apart as well.
var (
	colours = []string{"#1f5fa8", "#c4501b", "#3d7a33", "#7b4aa0", "#8a6d00"}
	dashes  = []string{"", "7 4", "2 4", "12 4 2 4"}
)

// point is one point of a line, in the units of the axes.
type point struct{ x, y float64 }

// line is one named line; a point that is not finite interrupts it.
type line struct {
	name   string
	points []point
}

// axis is one axis: its title with the unit, its range and its ticks. On a
// logarithmic axis the range is above 0.
type axis struct {
	title    string
	low, top float64
	log      bool
	ticks    []float64
	label    func(float64) string // nil: the number
}

// chart is a picture of lines.
type chart struct {
	title string
	x, y  axis
	lines []line
}

func (a *axis) place(v float64) float64 {
	if a.log {
		return (math.Log10(v) - math.Log10(a.low)) / (math.Log10(a.top) - math.Log10(a.low))
	}
	return (v - a.low) / (a.top - a.low)
}

func (a *axis) text(v float64) string {
	if a.label != nil {
		return a.label(v)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func (c *chart) at(p point) (x, y float64) {
	return left + (width-left-right)*c.x.place(p.x), height - bottom - (height-top-bottom)*c.y.place(p.y)
}

// svg writes the picture on a white ground, which is readable on any page.
func (c *chart) svg() string {
	var b strings.Builder
	f := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	f(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`, width, height)
	f(`<rect width="%d" height="%d" fill="white"/>`, width, height)
	f(`<text x="%d" y="22" font-size="15" fill="#111">%s</text>`, left, escape(c.title))
	for _, v := range c.y.ticks {
		_, y := c.at(point{c.x.low, v})
		f(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, left, width-right, y, y)
		f(`<text x="%d" y="%.1f" text-anchor="end" fill="#444">%s</text>`, left-8, y+4, escape(c.y.text(v)))
	}
	for _, v := range c.x.ticks {
		x, _ := c.at(point{v, c.y.low})
		f(`<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`, x, x, top, height-bottom)
		f(`<text x="%.1f" y="%d" text-anchor="middle" fill="#444">%s</text>`, x, height-bottom+18, escape(c.x.text(v)))
	}
	f(`<text x="%d" y="%d" text-anchor="middle" fill="#111">%s</text>`, (left+width-right)/2, height-14, escape(c.x.title))
	f(`<text x="%d" y="%d" fill="#111">%s</text>`, 12, top-10, escape(c.y.title))
	legend, row := left, 40
	for i, l := range c.lines {
		wide := 36 + 15*len([]rune(l.name))/2 // 7.5 is the width of most letters
		if legend+wide > width {
			legend, row = left, row+17
		}
		c.draw(&b, i, legend, row, l)
		legend += wide + 20
	}
	f(`</svg>`)
	return b.String()
}

// draw writes one line and its entry in the legend, which begins at x and has
// its middle at y.
func (c *chart) draw(b *strings.Builder, i, x, y int, l line) {
	style := fmt.Sprintf(`stroke="%s" stroke-width="2.2"`, colours[i%len(colours)])
	if d := dashes[i%len(dashes)]; d != "" {
		style += fmt.Sprintf(` stroke-dasharray="%s"`, d)
	}
	var path strings.Builder
	pen := "M"
	for _, p := range l.points {
		if math.IsInf(p.y, 0) || math.IsNaN(p.y) || p.x < c.x.low || p.x > c.x.top*(1+1e-9) { // what was added up may be off in its last bit
			pen = "M"
			continue
		}
		px, py := c.at(point{p.x, min(max(p.y, c.y.low), c.y.top)})
		fmt.Fprintf(&path, "%s%.1f %.1f ", pen, px, py)
		pen = "L"
	}
	fmt.Fprintf(b, `<path fill="none" %s d="%s"/>`+"\n", style, strings.TrimSpace(path.String()))
	fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" %s/>`+"\n", x, x+30, y, y, style)
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="#111">%s</text>`+"\n", x+36, y+4, escape(l.name))
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
