package service

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"

	"latencylab/draw"
	"latencylab/histo"
)

func histogramOf(values ...string) *histo.Histogram {
	h := histo.New()
	for _, s := range values {
		d, err := time.ParseDuration(s)
		if err != nil {
			panic(err)
		}
		h.Record(int64(d))
	}
	return h
}

// logOf returns a histogram log with one interval for each tag.
func logOf(h *histo.Histogram, tags ...string) []byte {
	var b bytes.Buffer
	w := histo.NewLogWriter(&b, "", time.Unix(0, 0))
	for i, tag := range tags {
		if err := w.Write(tag, time.Duration(i)*time.Second, time.Second, h); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// hoursLog is a log of another tool with a value above histo.Highest.
func hoursLog() []byte {
	h := hdrhistogram.New(1, int64(10*time.Hour), 3)
	_ = h.RecordValue(int64(2 * time.Hour))
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic(err)
	}
	return []byte("0.0,1.0,7200000.0," + string(text) + "\n")
}

// files are those that the tests here name.
func files(name string, most int) ([]byte, error) {
	content := map[string][]byte{
		"list":  []byte("# GC pauses\n5ms\n\n80ms # the long one\r\n 20ms\n"),
		"bare":  []byte("5ms\n80\n"),
		"blank": []byte("\n# nothing\n"),
		"long":  bytes.Repeat([]byte("1ms\n"), maxListed+1),
		"full":  bytes.Repeat([]byte("1ms\n"), maxListed),
		"log":   logOf(histogramOf("1ms", "2ms", "9ms"), "a.response", "b", "b"),
		"plain": logOf(histogramOf("1ms"), "", ""),
		"one":   logOf(histogramOf("1ms"), "x"),
		"none":  logOf(histo.New(), "x"),
		"hours": hoursLog(),
		"text":  []byte("no log"),
	}[name]
	if content == nil {
		return nil, errors.New(name + ": no such file")
	}
	if len(content) > most {
		return nil, errors.New("too large")
	}
	return content, nil
}

func TestParseDistFrom(t *testing.T) {
	three := histo.New()
	three.Merge(histogramOf("1ms", "2ms", "9ms"))
	twice := three.Clone()
	twice.Merge(three)
	for _, c := range []struct{ in, want, err string }{
		{in: "empirical(@list)", want: "empirical(5ms,20ms,80ms)"},
		{in: "sequence( @list )", want: "sequence(5ms,80ms,20ms)"},
		{in: "mixture(50%:sequence(@list),50%:1s)", want: "mixture(50%:sequence(5ms,80ms,20ms),50%:constant(1s))"},
		{in: "hdr(@log,a.response)", want: "hdr(" + three.Encode() + ")"},
		{in: "hdr(@log, b)", want: "hdr(" + twice.Encode() + ")"},
		{in: "hdr(@one)", want: "hdr(" + histogramOf("1ms").Encode() + ")"},
		{in: "hdr(@plain)", want: "hdr(" + histogramOf("1ms", "1ms").Encode() + ")"},
		{in: "empirical(@missing)", err: `empirical: missing: no such file`},
		{in: "empirical(@list,5ms)", err: "2 arguments, want @FILE alone"},
		{in: "empirical(@bare)", err: `bare:2: "80" has no unit`},
		{in: "empirical(@blank)", err: "blank: no value, want one duration a line"},
		{in: "empirical(@long)", err: "long:50001: more than 50000 values"},
		{in: "hdr(@log)", err: "log has tags a.response, b; want one of them, as in hdr(@log,b)"},
		{in: "hdr(@log,c)", err: `log has no values with the tag "c", but tags a.response, b`},
		{in: "hdr(@log,b,c)", err: "3 arguments, want @FILE, or @FILE and a tag"},
		{in: "hdr(@plain,c)", err: `"c", but tags intervals without a tag`},
		{in: "hdr(@none)", err: "none holds no value"},
		{in: "hdr(@hours)", err: "values above 1h, the largest that is told apart"},
		{in: "hdr(@text)", err: "text:1: "},
	} {
		d, err := ParseDistFrom(c.in, files)
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.in, err)
		case c.err == "" && d.String() != c.want:
			t.Errorf("%s reads as %q, want %q", c.in, d, c.want)
		case c.err == "" && !mustParse(t, d.String()).Equal(d):
			t.Errorf("%s does not read back equal without the file", c.in)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: error %v, want it to contain %q", c.in, err, c.err)
		}
	}
	if _, err := ParseDistFrom("sequence(@full)", files); err != nil {
		t.Error(err)
	}
}

// TestSequence: first attempts and stalls take the values in turn, later
// attempts draw one.
func TestSequence(t *testing.T) {
	d := mustParse(t, "sequence(5ms,80ms,20ms)")
	want := []time.Duration{5e6, 80e6, 20e6}
	counts := map[time.Duration]int{}
	for i := range uint64(3000) {
		if got := d.Draw(7, draw.Service, i, 1); got != want[i%3] {
			t.Fatalf("call %d takes %v, want %v", i, got, want[i%3])
		}
		if got := d.Draw(7, draw.Stall, i, 9); got != want[i%3] {
			t.Fatalf("stall %d takes %v, want %v", i, got, want[i%3])
		}
		counts[d.Draw(7, draw.Service, i, 2)]++
	}
	for _, v := range want {
		if n := counts[v]; math.Abs(float64(n)-1000) > 4*math.Sqrt(3000*2.0/9) {
			t.Errorf("%v comes out %d times of 3000 at second attempts", v, n)
		}
	}
	sp := Spec{Time: d, Copies: CopiesSame}
	for i := range uint64(6) {
		if got, _ := sp.Draw(7, 0, i, 2); got != want[i%3] {
			t.Errorf("with copies the same, attempt 2 of call %d takes %v, want %v", i, got, want[i%3])
		}
	}
}

// TestHDRDrawsItsHistogram: what is drawn has the quantiles of the histogram, and
// lies in its buckets.
func TestHDRDrawsItsHistogram(t *testing.T) {
	from := mustParse(t, "mixture(98%:lognormal(40ms,0.5),2%:1s)")
	h := histo.New()
	for i := range uint64(100_000) {
		h.Record(int64(from.Draw(1, draw.Service, i, 1)))
	}
	d := mustParse(t, "hdr("+h.Encode()+")")
	h, err := histo.Decode(h.Encode())
	if err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	xs, sum := make([]time.Duration, n), 0.0
	for i := range xs {
		xs[i] = d.Draw(2, draw.Service, uint64(i), 1)
		sum += float64(xs[i])
		if h.CountAtOrBelow(int64(xs[i])) == h.CountAtOrBelow(h.Floor(int64(xs[i]))-1) {
			t.Fatalf("draw %d is %v, a bucket that is empty", i, xs[i])
		}
	}
	slices.Sort(xs)
	for _, q := range []float64{0.01, 0.1, 0.5, 0.9, 0.97, 0.99} {
		got, want := float64(xs[int(q*n)]), float64(h.Quantile(q))
		if math.Abs(got/want-1) > 0.03 {
			t.Errorf("quantile %v of the draws is %v, want %v", q, time.Duration(got), time.Duration(want))
		}
	}
	mean, ok := d.Mean()
	if !ok || math.Abs(mean/h.Mean()-1) > 1e-3 || math.Abs(sum/n/mean-1) > 0.02 {
		t.Errorf("mean %v, of the draws %v, of the histogram %v", mean, sum/n, h.Mean())
	}
	digest := uint64(0)
	for i := range uint64(10_000) {
		digest += draw.Mix(i, 0, uint64(d.Draw(1, draw.Service, i, 1)))
	}
	if want := uint64(0x1bd56d7782ead395); digest != want {
		t.Errorf("digest of the draws %#x, want %#x", digest, want)
	}
}

// TestHDRIsMonotone: a larger uniform never draws a smaller value.
func TestHDRIsMonotone(t *testing.T) {
	l := listOf(histogramOf("0s", "1us", "1us", "5ms", "1h"))
	last := time.Duration(-1)
	for i := range 100_000 {
		x := l.at((float64(i) + 0.5) / 100_000)
		if x < last {
			t.Fatalf("at %d: %v after %v", i, x, last)
		}
		last = x
	}
	if l.at(1-1e-16) > time.Duration(histo.Highest)*1001/1000 || l.at(1e-300) != 0 {
		t.Errorf("ends at %v, want at most the bucket of 1h; begins with %v, want 0", l.at(1-1e-16), l.at(1e-300))
	}
}
