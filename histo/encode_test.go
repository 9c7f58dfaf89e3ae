package histo

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

func TestEncodeDecodeIsIdentity(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		h := record(sample(r, r.IntN(2000)))
		s := h.Encode()
		if !strings.HasPrefix(s, "HISTF") {
			t.Fatalf("encoding begins with %q, want HISTF", s[:5])
		}
		d, err := Decode(s)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if flat(d) != flat(h) || d.count != h.count {
			t.Errorf("seed %d: counts differ after a round trip", seed)
		}
		if !d.SetExact(h.Min(), h.Max(), h.Sum()) {
			t.Errorf("seed %d: the exact extremes contradict the decoded counts", seed)
		}
		if d.Quantile(0.99) != h.Quantile(0.99) || d.Min() != h.Min() || d.Max() != h.Max() || d.Mean() != h.Mean() {
			t.Errorf("seed %d: figures differ after a round trip with the exact extremes", seed)
		}
		if again := d.Encode(); again != s {
			t.Errorf("seed %d: a second encoding differs from the first", seed)
		}
	}
}

func TestEncoderIsUsedAgain(t *testing.T) {
	var e Encoder
	for _, h := range []*Histogram{record([]int64{1, 2, 3, 1e9}), New(), record([]int64{0}), record([]int64{0, 1, 3, 7}), record([]int64{Highest})} {
		if got, want := string(e.Append(nil, h)), h.Encode(); got != want {
			t.Errorf("an encoder that was used gives %s, a new one %s", got, want)
		}
	}
}

func TestLargeCountsSurvive(t *testing.T) {
	for shift := range 57 {
		h := New()
		h.RecordN(5, 1<<shift)
		d, err := Decode(h.Encode())
		if err != nil || d.Count() != 1<<shift {
			t.Errorf("a count of 2^%d: %v", shift, err)
		}
	}
}

// The peer reads our encoding and must count and rank as we do.
func TestEncodingReadsAlikeInHdrhistogramGo(t *testing.T) {
	h := record(sample(rand.New(rand.NewPCG(7, 5)), 3001))
	p, err := hdr.Decode([]byte(h.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if uint64(p.TotalCount()) != h.Count() || p.SignificantFigures() != Digits {
		t.Errorf("peer counts %d of %d digits, want %d of %d", p.TotalCount(), p.SignificantFigures(), h.Count(), Digits)
	}
	h.Each(func(from, to int64, n uint64) {
		if !p.ValuesAreEquivalent(from, to) || p.ValuesAreEquivalent(to, to+1) {
			t.Errorf("bucket [%d, %d] is not a bucket of the peer", from, to)
		}
	})
}

func TestDecodeForeignGeometry(t *testing.T) {
	for _, c := range []struct {
		why     string
		low, hi int64
		digits  int
		bound   float64
	}{
		{"two digits", 1, Highest, 2, 1.0 / 100},
		{"five digits", 1, Highest, 5, 1.0 / 1000},
		{"a lowest value of 1 µs", 1000, Highest, 3, 1.0 / 1000},
		{"a highest value of 24 h", 1, 24 * Highest, 3, 1.0 / 1000},
	} {
		p := hdr.New(c.low, c.hi, c.digits)
		for v := int64(1_000_000); v <= 1_000_000_000; v += 1_000_000 {
			if err := p.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		b, err := p.Encode(hdr.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		h, err := Decode(string(b))
		if err != nil {
			t.Fatalf("%s: %v", c.why, err)
		}
		if h.Count() != 1000 || !near(h.Max(), p.Max(), c.bound) || !near(h.Min(), p.Min(), c.bound) {
			t.Errorf("%s: count, min, max = %d, %d, %d, want 1000, %d, %d", c.why, h.Count(), h.Min(), h.Max(), p.Min(), p.Max())
		}
		if got := h.Quantile(0.5); !near(got, 5e8, c.bound) {
			t.Errorf("%s: median %d, want 5e8 within %g", c.why, got, c.bound)
		}
	}
}

func near(a, b int64, bound float64) bool { return math.Abs(float64(a-b)) <= bound*float64(b) }

func TestDecodeClampsValuesAboveAnHour(t *testing.T) {
	p := hdr.New(1, 24*Highest, 3)
	if err := p.RecordValues(5*Highest, 3); err != nil {
		t.Fatal(err)
	}
	b, err := p.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Decode(string(b))
	if err != nil {
		t.Fatal(err)
	}
	if h.Over() != 3 || h.Max() != Highest || h.Min() != Highest {
		t.Errorf("over, min, max = %d, %d, %d, want 3 and twice %d", h.Over(), h.Min(), h.Max(), Highest)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := record([]int64{1, 2, 3, 1e9}).Encode()
	for _, c := range []struct{ why, in string }{
		{"nothing", ""},
		{"no base64", "HISTF***"},
		{"another format", "HELLOWORLD=="},
		{"the first half", good[:len(good)/2]},
		{"one character short", good[:len(good)-1]},
		{"a changed character", good[:20] + flip(good[20]) + good[21:]},
	} {
		if h, err := Decode(c.in); err == nil {
			t.Errorf("%s: decoded to %d values, want an error", c.why, h.Count())
		} else if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "decode histogram: ") {
			t.Errorf("%s: error %q is not one line of ours", c.why, err)
		}
	}
}

func TestDecodeNamesWhatIsWrongWithTheHeader(t *testing.T) {
	// encoded is an encoding whose header is what change makes of a good one.
	encoded := func(outer uint32, change func(h []byte)) string {
		h := make([]byte, headerSize, headerSize+1)
		binary.BigEndian.PutUint32(h[0:], plainCookie)
		binary.BigEndian.PutUint32(h[4:], 1)
		binary.BigEndian.PutUint32(h[12:], 3)
		binary.BigEndian.PutUint64(h[16:], 1)
		binary.BigEndian.PutUint64(h[24:], uint64(Highest))
		binary.BigEndian.PutUint64(h[32:], math.Float64bits(1))
		change(h)
		var packed bytes.Buffer
		z := zlib.NewWriter(&packed)
		z.Write(append(h, 0))
		z.Close()
		b := binary.BigEndian.AppendUint32(nil, outer)
		b = binary.BigEndian.AppendUint32(b, uint32(packed.Len()))
		return base64.StdEncoding.EncodeToString(append(b, packed.Bytes()...))
	}
	same := func([]byte) {}
	for _, c := range []struct {
		why, in, want string
	}{
		{"a good header", encoded(compressedCookie, same), ""},
		{"a lowest value of 0 is read as 1", encoded(compressedCookie, func(h []byte) { binary.BigEndian.PutUint64(h[16:], 0) }), ""},
		{"an older format", encoded(0x1c849312, same), "cookie 0x1c849312 (compressed V1), want 0x1c849314 (compressed V2)"},
		{"no cookie", encoded(0x01020304, same), "cookie 0x01020304 (no format of HdrHistogram), want 0x1c849314 (compressed V2)"},
		{"an older format inside", encoded(compressedCookie, func(h []byte) { h[3] = 0x11 }), "inside: cookie 0x1c849311 (plain V1), want 0x1c849313 (plain V2)"},
		{"too many digits", encoded(compressedCookie, func(h []byte) { h[15] = 6 }), "6 significant digits, want 0 to 5"},
		{"an empty range", encoded(compressedCookie, func(h []byte) { binary.BigEndian.PutUint64(h[24:], 1) }), "range from 1 to 1, want the highest value at least twice the lowest"},
		{"a range below 0", encoded(compressedCookie, func(h []byte) { h[24] = 0x80 }), "range from 1 to -"},
		{"scaled values", encoded(compressedCookie, func(h []byte) { binary.BigEndian.PutUint64(h[32:], math.Float64bits(0.5)) }), "values scaled by 0.5, want whole ns"},
	} {
		_, err := Decode(c.in)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), "decode histogram: "+c.want) {
			t.Errorf("%s: error %v, want %q", c.why, err, c.want)
		}
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// check holds for every histogram, however it came about.
func check(t *testing.T, h *Histogram) {
	t.Helper()
	var n uint64
	h.Each(func(from, to int64, c uint64) {
		n += c
		if from > to || from < 0 {
			t.Fatalf("bucket [%d, %d]", from, to)
		}
	})
	var all uint64
	for _, c := range flat(h) {
		all += c
	}
	if n != h.Count() || all != n {
		t.Fatalf("buckets in the span hold %d, all hold %d, count is %d", n, all, h.Count())
	}
	last := h.Min()
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		v := h.Quantile(q)
		if v < last || v > h.Max() {
			t.Fatalf("quantile %g = %d, outside [%d, %d]", q, v, last, h.Max())
		}
		last = v
	}
	if m := h.Mean(); m != m || m < 0 {
		t.Fatalf("mean %g", m)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("")
	f.Add(New().Encode())
	f.Add(record([]int64{1, 2, 3, 1e9, Highest}).Encode())
	f.Fuzz(func(t *testing.T, s string) {
		h, err := Decode(s)
		if err != nil {
			return
		}
		check(t, h)
		d, err := Decode(h.Encode())
		if err != nil {
			t.Fatalf("our own encoding does not decode: %v", err)
		}
		if d.Count() != h.Count() || flat(d) != flat(h) {
			t.Fatal("counts differ after a second round trip")
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	h := record(sample(rand.New(rand.NewPCG(2, 4)), 5000))
	var e Encoder
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = e.Append(dst[:0], h)
	}
}

func BenchmarkDecode(b *testing.B) {
	s := record(sample(rand.New(rand.NewPCG(2, 4)), 5000)).Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(s); err != nil {
			b.Fatal(err)
		}
	}
}
