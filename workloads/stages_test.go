package workloads

import (
	"slices"
	"testing"
	"time"
)

func TestParseStages(t *testing.T) {
	for _, c := range []struct {
		about, in string
		want      []Stage
		err       string
	}{
		{"one", "blocks", []Stage{Blocks}, ""},
		{"all", "pilot, blocks,sustained,pulse", []Stage{Pilot, Blocks, Sustained, Pulse}, ""},
		{"another order", "blocks,pilot", nil, `"pilot" after "blocks", want the order pilot, blocks, sustained, pulse`},
		{"twice", "blocks,blocks", nil, `"blocks" is given twice`},
		{"no blocks", "sustained,pulse", nil, `"sustained,pulse" without blocks, want them among the stages: policies and comparisons are theirs`},
		{"an unknown one", "blocks,coin", nil, `"coin", want pilot, blocks, sustained or pulse`},
		{"nothing", "", nil, `"", want pilot, blocks, sustained or pulse`},
	} {
		got, err := ParseStages(c.in)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: error %v, want %s", c.about, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.about, got, err, c.want)
		}
	}
}

func TestMultiple(t *testing.T) {
	for _, c := range []struct {
		about, in string
		of        time.Duration // of 100 ms
		text      string
		err       string
	}{
		{"a number of times", "10", time.Second, "10", ""},
		{"a fraction", "0.5", 50 * time.Millisecond, "0.5", ""},
		{"a duration", "3s", 3 * time.Second, "3s", ""},
		{"none", "0", 0, "", `"0", want from 0.001 to 1000000000`},
		{"no time", "0s", 0, "", `"0s", want more than 0s`},
		{"a unit of another kind", "3/s", 0, "", `"3/s" has the unknown unit "/s", want ns, us, ms, s, m or h`},
	} {
		got, err := ParseMultiple(c.in)
		switch {
		case c.err != "" && (err == nil || err.Error() != c.err):
			t.Errorf("%s: error %v, want %s", c.about, err, c.err)
		case c.err == "" && (err != nil || got.Of(100*time.Millisecond) != c.of || got.String() != c.text):
			t.Errorf("%s: %v of 100ms, written %q, error %v; want %v, %q", c.about, got.Of(100*time.Millisecond), got, err, c.of, c.text)
		}
	}
	if d := (Multiple{Times: 1e9}).Of(time.Hour); d <= 0 {
		t.Errorf("too long gives %v", d)
	}
}
