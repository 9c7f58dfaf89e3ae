package lab

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlotDrawsCurvesAndBars(t *testing.T) {
	for _, c := range []struct {
		why  string
		plot Plot
		want string
	}{
		{"a line joins its points; axes are labelled", Plot{
			Title: "a line", X: Axis{Label: "x"}, Y: Axis{Label: "y"}, Rows: 5,
			Series: []Series{{Name: "up", Points: []Point{{0, 0}, {10, 4}}}, {Name: "flat", Points: []Point{{0, 2}, {10, 2}}}},
		}, `
a line
        y
       4 +                                                            ooooooooo
       3 +                                           ooooooooooooooooo
       2 +xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
       1 +         ooooooooooooooooo
       0 +ooooooooo
         ++-------------+------------+-------------+------------+-------------+
          0             2            4             6            8            10
                                                                               x
          o up  x flat
`},
		{"bars stand on 0, and what is too low for a cell is a dot", Plot{
			Title: "bars", X: Axis{Label: "s", Max: 2}, Bars: true, Rows: 3,
			Series: []Series{{Points: []Point{{0.5, 100}, {1, 50}, {1.5, 1}}}},
		}, `
bars
     100 +                 #
      50 +                 #                #
       0 +                 #                #                .
         ++----------------+----------------+----------------+----------------+
          0               0.5               1               1.5               2
                                                                               s
`},
		{"a logarithmic axis leaves out what it cannot show", Plot{
			Title: "log", X: Axis{Log: true, Min: 1, Max: 1000, Label: "n"}, Y: Axis{Log: true, Min: 0.01, Max: 1}, Rows: 3,
			Series: []Series{{Points: []Point{{0, 1}, {1, 1}, {1000, 0.01}, {2000, 0}}}},
		}, `
log
       1 +oooooooooooooooooo
     0.1 +                  ooooooooooooooooooooooooooooooooo
    0.01 +                                                   oooooooooooooooooo
         ++----------------------+---------------------+----------------------+
          1                     10                    100                   1000
                                                                               n
`},
	} {
		got := c.plot.String()
		if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", c.why, diff, got)
		}
	}
}

func TestPlotSurvivesWhatItIsGiven(t *testing.T) {
	inf := math.Inf(1)
	for _, p := range []Plot{
		{Series: []Series{{}}},
		{Series: []Series{{Points: []Point{{1, 1}}}}},
		{Series: []Series{{Points: []Point{{1, inf}, {inf, 1}, {math.NaN(), 0}, {-1, -1}, {2, 2}}}}, X: Axis{Log: true}, Y: Axis{Log: true}},
		{Series: []Series{{Points: []Point{{1, 1e300}, {2, -1e300}}}}},
		{Series: []Series{{Points: []Point{{1, -5}}}}, Bars: true},
		{Series: []Series{{Points: []Point{{-3, 1}, {1e9, 2}}}}, X: Axis{Max: 1}, Bars: true},
	} {
		for _, line := range strings.Split(p.String(), "\n") {
			if len(line) > plotWidth {
				t.Errorf("%+v: %d characters wide: %q", p, len(line), line)
			}
		}
	}
}
