package lab

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Plot is a picture of curves or bars in plain text.
type Plot struct {
	Title  string
	X, Y   Axis
	Series []Series
	// Bars draws each point as a bar that stands on the lower end of Y; a Plot
	// of bars has one series.
	Bars bool
	// Rows is the height of the drawing area in lines. 0 means 12.
	Rows int
}

// Axis is one axis of a Plot. Min and Max both 0 mean: from the data.
type Axis struct {
	Label    string
	Log      bool // only points above 0 are drawn then
	Min, Max float64
}

// Series is one curve. Its points stand in the order of X.
type Series struct {
	Name   string
	Points []Point
	// Loose points are not joined by a line.
	Loose bool
	// Mark draws the series. 0 means one of its own.
	Mark byte
}

// Point is one point of a curve.
type Point struct{ X, Y float64 }

const (
	plotWidth  = 80 // of the whole picture, in characters
	plotMargin = 9  // of it, for the labels of the Y axis
	plotRows   = 12 // height of the drawing area when Plot.Rows is 0
)

// marks draw the series in order. Where curves meet, the later one shows.
const marks = "ox+*#@%&"

// scale turns values of one axis into cells 0 … cells-1.
type scale struct {
	low, high float64 // on a logarithmic axis: of the logarithms
	log       bool
	cells     int
}

func (s *scale) place(v float64) float64 {
	if s.log {
		v = math.Log10(v)
	}
	return (v - s.low) / (s.high - s.low) * float64(s.cells-1)
}

// shows reports whether v has a place on the axis.
func (s *scale) shows(v float64) bool {
	if math.IsNaN(v) || math.IsInf(v, 0) || s.log && v <= 0 {
		return false
	}
	p := s.place(v)
	return p > -0.5 && p < float64(s.cells)-0.5
}

// scaleOf returns the scale of an axis. It holds every value that can be drawn
// unless the axis says otherwise.
func scaleOf(a *Axis, cells int, values func(yield func(float64))) scale {
	low, high := a.Min, a.Max
	if low == 0 && high == 0 {
		low, high = math.Inf(1), math.Inf(-1)
		values(func(v float64) {
			if !math.IsNaN(v) && !math.IsInf(v, 0) && !(a.Log && v <= 0) {
				low, high = min(low, v), max(high, v)
			}
		})
		if low > high { // nothing to draw
			low, high = 1, 10
		}
	}
	if a.Log {
		low, high = math.Log10(low), math.Log10(high)
	}
	if high <= low {
		low, high = low-0.5, high+0.5
	}
	return scale{low: low, high: high, log: a.Log, cells: cells}
}

// String draws the plot, plotWidth characters wide.
func (p *Plot) String() string {
	rows := p.Rows
	if rows == 0 {
		rows = plotRows
	}
	points := func(of func(Point) float64) func(func(float64)) {
		return func(yield func(float64)) {
			for _, s := range p.Series {
				for _, q := range s.Points {
					yield(of(q))
				}
			}
		}
	}
	y := p.Y
	if p.Bars && !y.Log && y.Min == 0 && y.Max == 0 { // bars stand on 0
		points(func(q Point) float64 { return q.Y })(func(v float64) { y.Max = max(y.Max, v) })
	}
	sx := scaleOf(&p.X, plotWidth-plotMargin-2, points(func(q Point) float64 { return q.X }))
	sy := scaleOf(&y, rows, points(func(q Point) float64 { return q.Y }))
	area := make([][]byte, rows)
	for i := range area {
		area[i] = []byte(strings.Repeat(" ", sx.cells))
	}
	set := func(x, y float64, mark byte) {
		i, j := int(math.Round(x)), rows-1-int(math.Round(y))
		if i >= 0 && i < sx.cells && j >= 0 && j < rows {
			area[j][i] = mark
		}
	}
	for i := range p.Series {
		s, mark := &p.Series[i], p.Series[i].mark(i)
		if p.Bars {
			drawBars(s, &sx, &sy, set)
		} else {
			drawCurve(s, &sx, &sy, mark, set)
		}
	}
	return p.frame(area, &sx, &sy)
}

// drawCurve marks the points and, unless they are loose, every column between
// two of them.
func drawCurve(s *Series, sx, sy *scale, mark byte, set func(x, y float64, mark byte)) {
	joined := false // to the point before
	var px, py float64
	for _, q := range s.Points {
		drawable := !math.IsNaN(q.X+q.Y) && !math.IsInf(q.X+q.Y, 0) && !(sx.log && q.X <= 0) && !(sy.log && q.Y <= 0)
		if !drawable {
			joined = false
			continue
		}
		x, y := sx.place(q.X), sy.place(q.Y)
		set(x, y, mark)
		if joined && !s.Loose {
			steps := int(max(math.Abs(x-px), math.Abs(y-py))) + 1
			for k := 1; k < min(steps, 10*plotWidth); k++ {
				t := float64(k) / float64(steps)
				set(px+t*(x-px), py+t*(y-py), mark)
			}
		}
		px, py, joined = x, y, true
	}
}

// drawBars draws, in each column, the highest of its points as a bar. A bar
// that is too low for a cell is a dot: only nothing looks like nothing.
func drawBars(s *Series, sx, sy *scale, set func(x, y float64, mark byte)) {
	highest := make([]float64, sx.cells)
	for _, q := range s.Points {
		if q.Y > 0 && sx.shows(q.X) {
			i := int(math.Round(sx.place(q.X)))
			highest[i] = max(highest[i], q.Y)
		}
	}
	for i, v := range highest {
		if v <= 0 {
			continue
		}
		top := min(sy.place(v), float64(sy.cells-1))
		if top < 0.5 {
			set(float64(i), 0, '.')
		}
		for j := 0.5; j <= top; j++ {
			set(float64(i), j-0.5, '#')
			set(float64(i), j+0.5, '#')
		}
	}
}

// frame puts the axes, their labels and the legend around the area.
func (p *Plot) frame(area [][]byte, sx, sy *scale) string {
	var b strings.Builder
	b.WriteString(p.Title + "\n")
	labels := make([]string, len(area))
	for _, v := range ticks(sy, 4) {
		if i := len(area) - 1 - int(math.Round(sy.place(v))); labels[i] == "" {
			labels[i] = short(v)
		}
	}
	if p.Y.Label != "" {
		fmt.Fprintf(&b, "%*s\n", plotMargin, p.Y.Label)
	}
	for i, line := range area {
		edge := "|"
		if labels[i] != "" {
			edge = "+"
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("%*s %s%s", plotMargin-1, labels[i], edge, line), " ") + "\n")
	}
	rule := []byte(strings.Repeat("-", sx.cells))
	under := []byte(strings.Repeat(" ", plotWidth+8))
	free := 0 // first column of under that is free
	for _, v := range ticks(sx, 7) {
		i := int(math.Round(sx.place(v)))
		rule[i] = '+'
		text := short(v)
		at := min(max(plotMargin+1+i-len(text)/2, 0), plotWidth-len(text))
		if at >= free {
			copy(under[at:], text)
			free = at + len(text) + 1
		}
	}
	fmt.Fprintf(&b, "%s+%s\n%s\n", strings.Repeat(" ", plotMargin), rule, strings.TrimRight(string(under), " "))
	fmt.Fprintf(&b, "%*s\n", plotWidth, p.X.Label)
	if !p.Bars && (len(p.Series) > 1 || p.Series[0].Name != "") {
		b.WriteString(legend(p.Series))
	}
	return b.String()
}

func (s *Series) mark(i int) byte {
	if s.Mark != 0 {
		return s.Mark
	}
	return marks[i%len(marks)]
}

// legend names the marks, in lines no longer than the picture. A series without
// a name is not in it.
func legend(series []Series) string {
	var b, line strings.Builder
	for i, s := range series {
		if s.Name == "" {
			continue
		}
		item := fmt.Sprintf("  %c %s", s.mark(i), s.Name)
		if line.Len() > 0 && line.Len()+len(item) > plotWidth-plotMargin {
			b.WriteString(strings.Repeat(" ", plotMargin-1) + line.String() + "\n")
			line.Reset()
		}
		line.WriteString(item)
	}
	b.WriteString(strings.Repeat(" ", plotMargin-1) + line.String() + "\n")
	return b.String()
}

// ticks returns round values of the axis, about most of them at least where the
// axis is linear. On a logarithmic one they are powers of ten and, where those
// are few, 2 and 5 times them.
func ticks(s *scale, most int) []float64 {
	var out []float64
	add := func(v float64) {
		if p := s.place(v); p > -1e-6 && p < float64(s.cells-1)+1e-6 {
			out = append(out, v)
		}
	}
	if !s.log {
		step := niceStep((s.high - s.low) / float64(most))
		for k := math.Ceil(s.low/step - 1e-9); k*step <= s.high+step*1e-9 && len(out) < 100; k++ {
			add(k*step + 0) // not -0
		}
		return out
	}
	first, last := math.Ceil(s.low-1e-9), math.Floor(s.high+1e-9)
	every := max(1, math.Ceil((last-first)/float64(most)))
	few := last-first < 2
	for e := first + math.Mod(last-first, every) - 1; e <= last; e++ {
		if few || math.Mod(last-e, every) == 0 {
			add(math.Pow(10, e))
		}
		if few {
			add(2 * math.Pow(10, e))
			add(5 * math.Pow(10, e))
		}
	}
	return out
}

// niceStep returns the smallest of 1, 2 and 5 times a power of ten that is at
// least x, which is above 0.
func niceStep(x float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(x)))
	for _, k := range []float64{1, 2, 5} {
		if k*p >= x*(1-1e-9) {
			return k * p
		}
	}
	return 10 * p
}

// short writes a tick in at most seven characters where it can.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
