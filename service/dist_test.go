package service

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"latencylab/draw"
	"latencylab/histo"
)

func mustParse(t testing.TB, s string) Dist {
	t.Helper()
	d, err := ParseDist(s)
	if err != nil {
		t.Fatalf("parse %v", err)
	}
	return d
}

func TestParseDist(t *testing.T) {
	for _, c := range []struct{ about, in, want string }{
		{"a bare duration is constant", "5ms", "constant(5ms)"},
		{"constant", "constant(5ms)", "constant(5ms)"},
		{"constant 0", "0s", "constant(0s)"},
		{"uniform", "uniform(20ms,60ms)", "uniform(20ms,60ms)"},
		{"uniform of width 0", "uniform(1ms,1ms)", "uniform(1ms,1ms)"},
		{"blanks around arguments", " uniform( 20ms , 60ms ) ", "uniform(20ms,60ms)"},
		{"normal", "normal(40ms,10ms)", "normal(40ms,10ms)"},
		{"lognormal", "lognormal(40ms,0.50)", "lognormal(40ms,0.5)"},
		{"exponential", "exponential(1m30s)", "exponential(1m30s)"},
		{"pareto", "pareto(10ms,1.5)", "pareto(10ms,1.5)"},
		{"weibull", "weibull(40ms,7e-1)", "weibull(40ms,0.7)"},
		{"mixture", "mixture(98%:uniform(20ms,60ms),0.02:1s)", "mixture(98%:uniform(20ms,60ms),2%:constant(1s))"},
		{"a mixture of mixtures", "mixture(50%:mixture(12.5%:1ms,87.5%:2ms),50%:3ms)", "mixture(50%:mixture(12.5%:constant(1ms),87.5%:constant(2ms)),50%:constant(3ms))"},
		{"shares of a third", "mixture(33.3333333333%:1ms,33.3333333333%:2ms,33.3333333334%:3ms)", "mixture(33.3333333333%:constant(1ms),33.3333333333%:constant(2ms),33.3333333334%:constant(3ms))"},
		{"empirical is sorted", "empirical(3ms,1ms,2ms)", "empirical(1ms,2ms,3ms)"},
		{"a sequence is not", "sequence(3ms,1ms,2ms)", "sequence(3ms,1ms,2ms)"},
	} {
		d, err := ParseDist(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.about, err)
			continue
		}
		if got := d.String(); got != c.want {
			t.Errorf("%s: %q reads as %q, want %q", c.about, c.in, got, c.want)
		}
		if again := mustParse(t, d.String()); !again.Equal(d) {
			t.Errorf("%s: %q does not read back equal", c.about, d.String())
		}
	}
}

func TestParseDistErrors(t *testing.T) {
	deep := strings.Repeat("mixture(100%:", 9) + "1ms" + strings.Repeat(")", 9)
	for _, c := range []struct{ about, in, want string }{
		{"nothing", "", "empty"},
		{"a number without unit", "5", "has no unit"},
		{"a second argument without unit", "uniform(20ms,60)", `uniform: to: "60" has no unit`},
		{"an unknown word", "unifrom(20ms,60ms)", `unknown distribution "unifrom"`},
		{"a word without arguments", "uniform", "uniform has no arguments"},
		{"a word in place of a duration", "fast", `unknown distribution "fast"`},
		{"too few arguments", "uniform(20ms)", "1 arguments, want 2: from, to"},
		{"too many arguments", "exponential(1ms,2ms)", "2 arguments, want 1: mean"},
		{"no argument at all", "exponential()", "mean"},
		{"an open parenthesis", "uniform(20ms,60ms", "not closed"},
		{"more than one closing", "uniform(20ms,60ms))", "after the last parenthesis"},
		{"something behind", "uniform(20ms,60ms)x", `"x" after the last parenthesis`},
		{"limits the wrong way round", "uniform(60ms,20ms)", "to = 20ms is below from = 60ms"},
		{"a negative duration", "constant(-1ms)", "-1ms"},
		{"an exponential of mean 0", "exponential(0s)", "mean = 0s, want more than 0"},
		{"alpha 0", "pareto(1ms,0)", "alpha = 0"},
		{"alpha that is not a number", "pareto(1ms,NaN)", `"NaN" is not a number`},
		{"a negative sigma", "lognormal(1ms,-1)", `"-1" is outside 0`},
		{"sigma infinite", "lognormal(1ms,1e999)", `"1e999" is not a number`},
		{"a part without share", "mixture(98%:1ms,2ms)", `part 2: "2ms" has no share`},
		{"shares below 1", "mixture(98%:1ms,1%:2ms)", "add up to 99%"},
		{"shares above 1", "mixture(98%:1ms,98%:2ms)", "add up to 196%"},
		{"a share of 0", "mixture(100%:1ms,0%:2ms)", "part 2: share = 0%, want more than 0"},
		{"an error deep inside", "mixture(50%:1ms,50%:mixture(100%:uniform(1ms,x)))", "mixture: part 2: mixture: part 1: uniform: to"},
		{"an empty value", "empirical(1ms,,2ms)", "empirical: value 2"},
		{"nested too deep", deep, "nested more than 8 deep"},
		{"a file where none is read", "empirical(@d.txt)", "empirical: @d.txt: a file can only be named where files are read"},
		{"a histogram that is none", "hdr(5ms)", "which begins with HISTF"},
		{"a histogram that is cut off", "hdr(HISTFAAAA)", "hdr: decode histogram"},
		{"a histogram without values", "hdr(" + histo.New().Encode() + ")", "holds no value"},
	} {
		d, err := ParseDist(c.in)
		if err == nil {
			t.Errorf("%s: %q reads as %v, want an error", c.about, c.in, d)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %q, want it to contain %q", c.about, err, c.want)
		}
	}
}

// TestQuantilesAndMean compares draws with the distribution functions.
func TestQuantilesAndMean(t *testing.T) {
	const n = 400_000
	ms := float64(time.Millisecond)
	for _, c := range []struct {
		dist          string
		mean          float64 // in ms; 0: infinite
		p10, p50, p99 float64 // in ms
		digest        uint64  // of the draws: the same on every machine
	}{
		{"constant(5ms)", 5, 5, 5, 5, 0x950c360cdf717894},
		{"uniform(20ms,60ms)", 40, 24, 40, 59.6, 0xc8947e8fb13d4cf},
		{"normal(40ms,10ms)", 40, 27.184, 40, 63.263, 0x8c35a9ca343f7816},
		{"normal(10ms,20ms)", 13.956, 0, 10, 56.527, 0xa08695b25866a4ef},
		{"lognormal(40ms,0.5)", 45.326, 21.076, 40, 128.006, 0x39c63f4a5c502a33},
		{"exponential(10ms)", 10, 1.0536, 6.9315, 46.052, 0x7794aee57f868915},
		{"pareto(10ms,2.5)", 16.667, 10.430, 13.195, 63.096, 0xfffa2dc4f0615275},
		{"pareto(10ms,0.9)", 0, 11.242, 21.601, 1668.1, 0x5a381470a15543bb},
		{"weibull(40ms,2)", 35.449, 12.984, 33.302, 85.839, 0x308e1eda45a6d57},
		{"mixture(98%:uniform(20ms,60ms),2%:1s)", 59.2, 24.082, 40.408, 1000, 0x9225ed0477481989},
		{"empirical(1ms,2ms,3ms,10ms)", 4, 1, 2.5, 10, 0x8cc1dc1997557f29},
	} {
		d := mustParse(t, c.dist)
		mean, ok := d.Mean()
		if ok != (c.mean > 0) || ok && math.Abs(mean/ms/c.mean-1) > 1e-4 {
			t.Errorf("%s: mean %v %v, want %v ms", c.dist, mean, ok, c.mean)
		}
		xs, sum, digest := make([]time.Duration, n), 0.0, uint64(0)
		for i := range xs {
			xs[i] = d.Draw(1, draw.Service, uint64(i), 1)
			sum += float64(xs[i])
			digest += draw.Mix(uint64(i), 0, uint64(xs[i]))
		}
		if digest != c.digest {
			t.Errorf("%s: digest of the draws %#x, want %#x", c.dist, digest, c.digest)
		}
		if ok && math.Abs(sum/n/mean-1) > 0.02 {
			t.Errorf("%s: mean of the draws %.3f ms, want %.3f", c.dist, sum/n/ms, mean/ms)
		}
		slices.Sort(xs)
		for _, q := range []struct{ at, want float64 }{{0.1, c.p10}, {0.5, c.p50}, {0.99, c.p99}} {
			got := float64(xs[int(q.at*n)]) / ms
			if c.dist == "empirical(1ms,2ms,3ms,10ms)" && q.at == 0.5 {
				continue // lies on a step
			}
			if math.Abs(got-q.want) > 0.03*q.want {
				t.Errorf("%s: quantile %v of the draws %.3f ms, want %.3f", c.dist, q.at, got, q.want)
			}
		}
	}
}

func TestDrawsSaturate(t *testing.T) {
	for _, s := range []string{"pareto(1000h,0.000001)", "weibull(1000h,0.000001)", "lognormal(1000h,1000000)", "uniform(0s,2562047h)", "normal(0s,2562047h)", "exponential(2562047h)"} {
		d := mustParse(t, s)
		for i := range uint64(1000) {
			if x := d.Draw(1, draw.Service, i, 1); x < 0 {
				t.Fatalf("%s: draw %d is %d, want 0 or more", s, i, x)
			}
		}
	}
	if got := scale(math.MaxInt64, 1e9); got != math.MaxInt64 {
		t.Errorf("the largest duration times 1e9 is %d, want it to saturate", got)
	}
}

func FuzzParseDist(f *testing.F) {
	for _, s := range []string{"5ms", "uniform(20ms,60ms)", "mixture(98%:uniform(20ms,60ms),2%:1s)", "pareto(10ms,1e-3)", "empirical(1ms,2ms)", "normal(1s,0s)", "((,)", "mixture(1:1s)",
		"sequence(2ms,1ms)", "sequence(@list)", "empirical(@list)", "hdr(@log)", "hdr(@log, a.response)", "mixture(50%:hdr(@log,b),50%:1s)", "hdr(" + histogramOf("1ms", "9ms").Encode() + ")"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDistFrom(s, files)
		if err != nil {
			return
		}
		again, err := ParseDist(d.String())
		if err != nil || !again.Equal(d) {
			t.Fatalf("%q reads as %q, which reads as %q, %v", s, d, again, err)
		}
		if m, ok := d.Mean(); ok && !(m >= 0) {
			t.Fatalf("%q has mean %v", s, m)
		}
		for i := range uint64(20) {
			if x := d.Draw(i, draw.Service, i, 1); x < 0 {
				t.Fatalf("%q draws %d", s, x)
			}
		}
	})
}
