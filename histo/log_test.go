package histo

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func readAll(t *testing.T, l *LogReader) (n int, all *Histogram) {
	t.Helper()
	all = New()
	for {
		iv, err := l.Next()
		if errors.Is(err, io.EOF) {
			return n, all
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
		all.Merge(iv.Values)
	}
}

func TestForeignLogHasTheTotalsOfTheJavaTool(t *testing.T) {
	var want struct {
		File      string
		Intervals int
		Total     uint64  `json:"total_count"`
		P999      int64   `json:"p999"`
		Max       int64   `json:"max"`
		Start     float64 `json:"start_time_s"`
	}
	b, err := os.ReadFile("testdata/expect.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("testdata/" + want.File)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := NewLogReader(f, want.File)
	n, all := readAll(t, l)
	if n != want.Intervals || all.Count() != want.Total || all.Quantile(0.999) != want.P999 || all.Max() != want.Max || l.StartTime != want.Start {
		t.Errorf("intervals, total, p999, max, start = %d, %d, %d, %d, %f, want %+v", n, all.Count(), all.Quantile(0.999), all.Max(), l.StartTime, want)
	}
	check(t, all)
}

func ownLog(t *testing.T) (log []byte, all *Histogram) {
	t.Helper()
	var b bytes.Buffer
	w := NewLogWriter(&b, "written by a test\nin one line", time.Unix(1_700_000_000, 250e6))
	a, c := record([]int64{1e6, 2e6, 1e9}), record([]int64{3e6})
	for _, iv := range []struct {
		tag   string
		start time.Duration
		h     *Histogram
	}{{"plain.response", 0, a}, {"hedge-p95.response", 1500 * time.Millisecond, c}, {"", 3 * time.Second, New()}} {
		if err := w.Write(iv.tag, iv.start, time.Second, iv.h); err != nil {
			t.Fatal(err)
		}
	}
	a.Merge(c)
	return b.Bytes(), a
}

func TestOwnLogReadsBack(t *testing.T) {
	log, want := ownLog(t)
	l := NewLogReader(bytes.NewReader(log), "own.hlog")
	iv, err := l.Next()
	if err != nil {
		t.Fatal(err)
	}
	if iv.Tag != "plain.response" || iv.Start != 0 || iv.Length != 1 || iv.Max != 1000 || l.StartTime != 1_700_000_000.25 {
		t.Errorf("first interval is %+v after start %f", iv, l.StartTime)
	}
	if iv, err = l.Next(); err != nil || iv.Tag != "hedge-p95.response" || iv.Start != 1.5 {
		t.Errorf("second interval is %+v, %v", iv, err)
	}
	_, all := readAll(t, NewLogReader(bytes.NewReader(log), "own.hlog"))
	if flat(all) != flat(want) {
		t.Error("merged counts differ from what was written")
	}
}

func TestLogWriterRefusesTagsThatBreakTheLine(t *testing.T) {
	for _, tag := range []string{"a,b", "a b", "a\nb", `"a`} {
		var b bytes.Buffer
		if err := NewLogWriter(&b, "", time.Time{}).Write(tag, 0, 0, New()); err == nil || b.Len() != 0 {
			t.Errorf("tag %q: error %v after %d bytes", tag, err, b.Len())
		}
	}
}

func TestLogReader(t *testing.T) {
	ok := record([]int64{5}).Encode()
	for _, c := range []struct {
		why, log string
		n        int
		err      string
	}{
		{"an empty log has no intervals", "", 0, ""},
		{"comments, legend, blank lines and CRLF are skipped", "#x\r\n\"a\",\"b\"\r\n\r\n1,1,1," + ok + "\r\n", 1, ""},
		{"a last line without line feed counts", "1,1,1," + ok, 1, ""},
		{"a StartTime that is no number is a comment", "#[StartTime: soon]\n1,1,1," + ok, 1, ""},
		{"a histogram that was cut off names its line", "1,1,1," + ok + "\n2,1,1," + ok[:len(ok)-7], 1, "x.hlog:2: decode"},
		{"an error at the end asks whether the log is cut off", "1,1,1," + ok[:9], 0, "(is the log cut off?)"},
		{"an error before the end does not ask", "1,1\n1,1,1," + ok, 0, "x.hlog:1: 2 fields, want start, length, maximum and histogram$"},
		{"a broken histogram before the end does not ask", "1,1,1," + ok[:9] + "\n#", 0, "x.hlog:1: decode histogram: illegal base64 data at input byte 8$"},
		{"a stamp that is no number is not cut off", "a,1,1," + ok, 0, "want a number$"},
		{"a log of another version", "#[Histogram log format version 2.0]\n1,1,1," + ok, 0, `x.hlog:1: log format version "2.0", want 1.0 to 1.3$`},
		{"a line cut off before its histogram names its line", "1,1,1," + ok + "\n\n2,1,", 1, "x.hlog:3: 3 fields"},
		{"a stamp that is no number names its field", "a,1,1," + ok, 0, `x.hlog:1: field 1 = "a"`},
		{"an infinite stamp is no number", "1,+Inf,1," + ok, 0, "x.hlog:1: field 2"},
		{"a tag without comma", "Tag=a", 0, "x.hlog:1: no comma after tag"},
		{"some other file", "{\n", 0, "x.hlog:1: 1 fields"},
	} {
		l := NewLogReader(strings.NewReader(c.log), "x.hlog")
		n := 0
		var err error
		for err == nil {
			if _, err = l.Next(); err == nil {
				n++
			}
		}
		if n != c.n || (c.err == "") != errors.Is(err, io.EOF) || !strings.Contains(err.Error()+"$", c.err) {
			t.Errorf("%s: %d intervals, error %v; want %d, %q", c.why, n, err, c.n, c.err)
		}
		if _, again := l.Next(); again != err {
			t.Errorf("%s: a further Next gives %v, want %v again", c.why, again, err)
		}
	}
}

func TestEveryTruncationOfALogIsAnErrorOrFewerIntervals(t *testing.T) {
	log, _ := ownLog(t)
	for n := range log {
		l := NewLogReader(bytes.NewReader(log[:n]), "cut.hlog")
		got := 0
		var err error
		for err == nil {
			if _, err = l.Next(); err == nil {
				got++
			}
		}
		whole := 0
		for _, line := range strings.SplitAfter(string(log[:n]), "\n") {
			if line != "" && line[0] != '#' && line[0] != '"' && strings.HasSuffix(line, "\n") {
				whole++
			}
		}
		if got < whole || got > whole+1 {
			t.Fatalf("cut at %d: %d intervals, %d whole lines", n, got, whole)
		}
		if got == whole && errors.Is(err, io.EOF) {
			if cut := log[bytes.LastIndexByte(log[:n], '\n')+1 : n]; len(cut) > 0 && cut[0] != '#' && cut[0] != '"' {
				t.Fatalf("cut at %d: the line %q was lost without an error", n, cut)
			}
		}
	}
}

func FuzzLogReader(f *testing.F) {
	f.Add("#[StartTime: 1.5 (seconds since epoch)]\nTag=a.b,0.1,1,2," + record([]int64{5, 1e9}).Encode() + "\n")
	f.Add("1,2,3,")
	f.Fuzz(func(t *testing.T, s string) {
		l := NewLogReader(strings.NewReader(s), "fuzz")
		for {
			iv, err := l.Next()
			if err != nil {
				return
			}
			check(t, iv.Values)
			if !finite(iv.Start) || !finite(iv.Length) || !finite(iv.Max) {
				t.Fatalf("stamps %+v", iv)
			}
		}
	})
}

func TestWriteHgrm(t *testing.T) {
	h := New()
	for v := range int64(1000) {
		h.Record((v + 1) * 1e6)
	}
	for _, c := range []struct {
		why        string
		h          *Histogram
		total      uint64
		want, deny []string
	}{
		{"all values known", h, 1000,
			[]string{"       1.000 0.000000000000          1           1.00\n", " 0.500000000000        500           2.00\n", "    1000.000 1.000000000000       1000\n", "#[Max     =     1000.000, Total count    =         1000]", "#[Mean    =      500.500"}, []string{"Beyond", "NaN", "nf"}},
		{"half of the calls failed", h, 2000,
			[]string{" 0.500000000000       1000           2.00\n", "#[Beyond  =         1000 of 2000"}, []string{" 1.000000000000 ", "NaN", "nf"}},
		{"no value at all", New(), 5, []string{"#[Beyond  =            5 of 5"}, []string{"NaN", "nf"}},
	} {
		var b strings.Builder
		if err := WriteHgrm(&b, c.h, c.total, 1e6); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: no %q in\n%s", c.why, w, b.String())
			}
		}
		for _, d := range c.deny {
			if strings.Contains(b.String(), d) {
				t.Errorf("%s: %q in\n%s", c.why, d, b.String())
			}
		}
	}
}
