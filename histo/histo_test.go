package histo

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"
)

// sample returns n values of a shape that a seed picks: uniform, log-uniform,
// two lumps or constant.
func sample(r *rand.Rand, n int) []int64 {
	shape := r.IntN(4)
	vs := make([]int64, n)
	for i := range vs {
		switch shape {
		case 0:
			vs[i] = r.Int64N(Highest + 1)
		case 1:
			vs[i] = int64(math.Exp(r.Float64() * math.Log(float64(Highest))))
		case 2:
			vs[i] = 20_000_000 + r.Int64N(40_000_000)
			if r.IntN(50) == 0 {
				vs[i] = 1_000_000_000
			}
		case 3:
			vs[i] = 501_000_000
		}
	}
	return vs
}

func record(vs []int64) *Histogram {
	h := New()
	for _, v := range vs {
		h.Record(v)
	}
	return h
}

func TestIndexIsMonotoneAndInvertible(t *testing.T) {
	for i := range size - 1 {
		lo, hi := lowest(i), highest(i)
		if lo > Highest {
			break
		}
		if index(lo) != i || index(hi) != i {
			t.Fatalf("bucket %d is [%d, %d], but these have indices %d and %d", i, lo, hi, index(lo), index(hi))
		}
		if lo > 0 && float64(hi-lo) >= float64(lo)/1000 {
			t.Fatalf("bucket %d is [%d, %d], wider than 1 part in 1000", i, lo, hi)
		}
	}
	if i := index(Highest); i >= size {
		t.Fatalf("index(Highest) = %d, want below %d", i, size)
	}
}

func TestQuantilesAgainstSortedSlice(t *testing.T) {
	qs := []float64{0, 0.001, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		vs := sample(r, 1+r.IntN(5000))
		h := record(vs)
		slices.Sort(vs)
		last := int64(-1)
		for _, q := range qs {
			got := h.Quantile(q)
			want := vs[max(int(math.Ceil(q*float64(len(vs))-1e-9)), 1)-1]
			if got < want || float64(got-want) > float64(want)/1000 {
				t.Errorf("seed %d, n %d: quantile %g = %d, exact %d", seed, len(vs), q, got, want)
			}
			if got < last || got < vs[0] || got > vs[len(vs)-1] {
				t.Errorf("seed %d: quantile %g = %d is below the one before it (%d) or outside [%d, %d]", seed, q, got, last, vs[0], vs[len(vs)-1])
			}
			last = got
		}
		var sum uint64
		for _, v := range vs {
			sum += uint64(v)
		}
		if h.Min() != vs[0] || h.Max() != vs[len(vs)-1] || h.Count() != uint64(len(vs)) || h.Sum() != sum {
			t.Errorf("seed %d: min, max, count, sum = %d, %d, %d, %d", seed, h.Min(), h.Max(), h.Count(), h.Sum())
		}
	}
}

func TestRank(t *testing.T) {
	for _, c := range []struct {
		why   string
		q     float64
		total uint64
		want  uint64
	}{
		{"the median of one value is that value", 0.5, 1, 1},
		{"the lower of two middle values is the median", 0.5, 2, 1},
		{"0.9 of 10 is 9 although 0.9 is above nine tenths in binary", 0.9, 10, 9},
		{"0.99 of 100 is the last but one", 0.99, 100, 99},
		{"0.999 of 1000 is the last but one", 0.999, 1000, 999},
		{"0.55 of 100 is 55 although their product is above it in binary", 0.55, 100, 55},
		{"a fraction of a rank counts as a whole one", 0.999, 1001, 1000},
		{"quantile 0 is the first value", 0, 10, 1},
		{"quantile 1 is the last value", 1, 10, 10},
		{"a quantile below 0 is the first value", -3, 10, 1},
		{"a quantile above 1 is the last value", 7, 10, 10},
		{"a quantile that is no number is the first value", math.NaN(), 10, 1},
		{"the largest total does not overflow", 1, math.MaxUint64, math.MaxUint64},
	} {
		if got := Rank(c.q, c.total); got != c.want {
			t.Errorf("%s: Rank(%g, %d) = %d, want %d", c.why, c.q, c.total, got, c.want)
		}
	}
}

func TestQuantileOfRanksAbsentValuesLast(t *testing.T) {
	h := New()
	for v := range int64(98) {
		h.Record(v + 1)
	}
	for _, c := range []struct {
		why  string
		q    float64
		n    uint64
		want int64
		ok   bool
	}{
		{"p50 falls among the values", 0.5, 100, 50, true},
		{"p98 is the last value", 0.98, 100, 98, true},
		{"p99 falls among the two that are absent", 0.99, 100, 0, false},
		{"a total below the count counts as the count", 1, 5, 98, true},
	} {
		if got, ok := h.QuantileOf(c.q, c.n); got != c.want || ok != c.ok {
			t.Errorf("%s: QuantileOf(%g, %d) = %d, %v, want %d, %v", c.why, c.q, c.n, got, ok, c.want, c.ok)
		}
	}
	if _, ok := New().QuantileOf(0.5, 0); ok {
		t.Error("an empty histogram has a median")
	}
}

func TestOutOfRangeIsClampedAndCounted(t *testing.T) {
	h := New()
	h.Record(-1)
	h.RecordN(math.MinInt64, 2)
	h.Record(Highest)
	h.Record(Highest + 1)
	h.RecordN(math.MaxInt64, 3)
	if h.Count() != 8 || h.Negative() != 3 || h.Over() != 4 || h.Min() != 0 || h.Max() != Highest {
		t.Errorf("count %d, negative %d, over %d, min %d, max %d", h.Count(), h.Negative(), h.Over(), h.Min(), h.Max())
	}
	if got := h.Quantile(1); got != Highest {
		t.Errorf("quantile 1 = %d, want %d", got, Highest)
	}
}

func TestSumSaturatesAndMeanDoesNot(t *testing.T) {
	h := New()
	h.RecordN(Highest, 10_000_000)
	if h.Sum() != math.MaxUint64 {
		t.Errorf("sum = %d, want saturation", h.Sum())
	}
	if m := h.Mean(); math.Abs(m-float64(Highest)) > 1 {
		t.Errorf("mean = %g, want %d", m, Highest)
	}
}

func TestEmptyHistogramHasNoNaN(t *testing.T) {
	h := New()
	if h.Count() != 0 || h.Min() != 0 || h.Max() != 0 || h.Mean() != 0 || h.Quantile(0.5) != 0 || h.CountAtOrBelow(5) != 0 {
		t.Error("an empty histogram is not all zero")
	}
	h.RecordN(7, 0)
	if h.Count() != 0 || h.Min() != 0 {
		t.Error("recording a value no times changed the histogram")
	}
}

func TestMergeEqualsRecordingBoth(t *testing.T) {
	f := func(seedA, seedB uint64) bool {
		a := sample(rand.New(rand.NewPCG(seedA, 2)), int(seedA%300))
		b := sample(rand.New(rand.NewPCG(seedB, 3)), int(seedB%300))
		m := record(a)
		m.Merge(record(b))
		return equal(m, record(append(slices.Clone(a), b...)))
	}
	if err := quick.Check(f, &quick.Config{MaxCount: 60}); err != nil {
		t.Error(err)
	}
}

func TestResetLeavesAnEmptyHistogram(t *testing.T) {
	h := record([]int64{1, 5_000_000, Highest, -1, math.MaxInt64})
	h.Reset()
	if !equal(h, New()) {
		t.Error("a reset histogram differs from a new one")
	}
	h.Reset()
	h.Record(3)
	if !equal(h, record([]int64{3})) {
		t.Error("a histogram used after Reset differs from a new one")
	}
}

func TestCountAtOrBelow(t *testing.T) {
	h := record([]int64{10, 20, 20, 1_000_000_000})
	for _, c := range []struct {
		why  string
		ns   int64
		want uint64
	}{
		{"below the smallest", 9, 0},
		{"negative", -1, 0},
		{"at a value", 20, 3},
		{"between values", 999_000_000, 3},
		{"at the largest", 1_000_000_000, 4},
		{"far above", math.MaxInt64, 4},
	} {
		if got := h.CountAtOrBelow(c.ns); got != c.want {
			t.Errorf("%s: CountAtOrBelow(%d) = %d, want %d", c.why, c.ns, got, c.want)
		}
	}
}

func TestFloorIsALowerBoundOfTheBucket(t *testing.T) {
	h := record([]int64{1_000_100_000, 1_000_200_000, 2_000_000_001})
	for _, c := range []struct {
		why      string
		ns, want int64
	}{
		{"the bottom of the bucket is below the minimum", 1_000_300_000, 1_000_100_000},
		{"the bottom of a bucket above the minimum", 2_000_000_001, 1_999_634_432},
		{"below the range", -1, 1_000_100_000},
		{"above the range", math.MaxInt64, lowest(index(Highest))},
	} {
		if got := h.Floor(c.ns); got != c.want {
			t.Errorf("%s: Floor(%d) = %d, want %d", c.why, c.ns, got, c.want)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	h := record([]int64{1, 2, math.MaxInt64})
	c := h.Clone()
	if !equal(h, c) {
		t.Error("a clone differs")
	}
	c.Record(5)
	if equal(h, c) {
		t.Error("recording into a clone changed the original")
	}
}

func TestSetExact(t *testing.T) {
	h := record([]int64{100_000_000, 200_000_000})
	for _, c := range []struct {
		why      string
		min, max int64
		sum      uint64
		ok       bool
	}{
		{"the exact extremes are taken", 100_000_000, 200_000_000, 300_000_000, true},
		{"a saturated sum is left alone", 100_000_000, 200_000_000, math.MaxUint64, true},
		{"a minimum above the lowest bucket contradicts the counts", 150_000_000, 200_000_000, 350_000_000, false},
		{"a maximum below the highest bucket contradicts the counts", 100_000_000, 150_000_000, 250_000_000, false},
		{"a negative minimum is refused", -1, 200_000_000, 300_000_000, false},
		{"a maximum above the range is refused", 100_000_000, math.MaxInt64, 300_000_000, false},
		{"a sum below count times minimum is refused", 100_000_000, 200_000_000, 199_999_999, false},
		{"a sum above count times maximum is refused", 100_000_000, 200_000_000, 400_000_001, false},
	} {
		if got := h.SetExact(c.min, c.max, c.sum); got != c.ok {
			t.Errorf("%s: SetExact = %v", c.why, got)
		}
	}
}

func equal(a, b *Histogram) bool {
	return flat(a) == flat(b) && a.count == b.count && a.min == b.min && a.max == b.max &&
		a.sumLo == b.sumLo && a.sumHi == b.sumHi && a.over == b.over && a.negative == b.negative
}

func TestRecordDoesNotAllocate(t *testing.T) {
	h, o := New(), record([]int64{1, 2, 3})
	if n := testing.AllocsPerRun(100, func() {
		h.Record(40_000_000)
		h.RecordN(1, 3)
		h.Merge(o)
		h.Quantile(0.99)
		h.Reset()
	}); n != 0 {
		t.Errorf("%g allocations, want 0", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	vs := sample(rand.New(rand.NewPCG(1, 1)), 4096)
	for i := range vs {
		vs[i] = 20_000_000 + int64(i)*9973
	}
	h := New()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		h.Record(vs[i&4095])
		i++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// flat returns all counts by bucket.
func flat(h *Histogram) (all [size]uint64) {
	for i := range all {
		all[i] = h.at(i)
	}
	return all
}

// TestResetForgetsEveryPage: what was recorded before a Reset never comes back,
// wherever the extremes lie afterwards.
func TestResetForgetsEveryPage(t *testing.T) {
	h := New()
	for _, ns := range []int64{1, 1023, 1024, 2047, 2048, 1 << 20, Highest} {
		h.Record(ns)
	}
	h.Reset()
	h.Record(5)
	h.Record(Highest)
	var n uint64
	for _, c := range flat(h) {
		n += c
	}
	if n != 2 || h.Count() != 2 {
		t.Errorf("%d counts in the buckets and Count %d, want 2", n, h.Count())
	}
}

// TestSparse: the compact form holds everything, and merging it is merging the
// histogram.
func TestSparse(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	want, got := New(), New()
	var form []byte
	for range 20 {
		h := New()
		for range r.IntN(500) {
			h.Record(r.Int64N(1 << r.IntN(43)))
		}
		h.Record(-5)
		want.Merge(h)
		form = h.AppendSparse(form[:0])
		if !got.MergeSparse(form) {
			t.Fatal("a form of ours was refused")
		}
	}
	if !got.MergeSparse(New().AppendSparse(nil)) {
		t.Error("the form of an empty histogram was refused")
	}
	if !equal(got, want) {
		t.Errorf("merged forms give %d values up to %d, want %d up to %d", got.Count(), got.Max(), want.Count(), want.Max())
	}
	for n := range form {
		if New().MergeSparse(form[:n]) {
			t.Fatalf("the first %d of %d bytes were taken for a whole", n, len(form))
		}
	}
}

// TestSumDoesNotWrap: past 2^64 ns the sum saturates and the mean stays right.
func TestSumDoesNotWrap(t *testing.T) {
	h := New()
	for range 3 {
		h.RecordN(Highest, 1<<31)
		h.Record(Highest)
	}
	h.Record(Highest)
	if h.Sum() != math.MaxUint64 {
		t.Errorf("Sum() = %d, want the largest number", h.Sum())
	}
	one := New()
	for range 5_200_000 { // 5.2 million hours are just above 2^64 ns
		one.Record(Highest)
	}
	if m := one.Mean(); m < 0.999999*float64(Highest) || m > 1.000001*float64(Highest) {
		t.Errorf("mean of equal values is %g, want %d", m, Highest)
	}
}
