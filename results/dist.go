package results

import (
	"encoding/json"
	"math"
	"strings"
	"sync"

	"latencylab/histo"
	"latencylab/units"
)

// MinBeyond is how many values must lie beyond a percentile for it to be
// given: n values give p_q when n*(1-q) >= MinBeyond, so p50 needs 10 values,
// p99 500 and p99.99 50,000.
const MinBeyond = 5

// Exact holds what the encoding of a histogram rounds, kept exactly beside it.
type Exact struct {
	Min int64  `json:"min_ns"`
	Max int64  `json:"max_ns"`
	Sum uint64 `json:"sum_ns"` // saturates at 2^64-1
}

// Dist is a distribution of durations. Count values are known and encoded in
// HDR; Censored values are known to be at least something, Failed ones have no
// duration that would be fair to show. Both rank as +infinity, so a figure that
// falls among them is absent, with a lower bound where one is known.
type Dist struct {
	Count    uint64 `json:"count"`
	Censored uint64 `json:"censored"`
	Failed   uint64 `json:"failed"`
	Min      Figure `json:"min_ns"`
	Mean     Figure `json:"mean_ns"`
	P50      Figure `json:"p50_ns"`
	P90      Figure `json:"p90_ns"`
	P95      Figure `json:"p95_ns"`
	P99      Figure `json:"p99_ns"`
	P999     Figure `json:"p999_ns"`
	P9999    Figure `json:"p9999_ns"`
	Max      Figure `json:"max_ns"`
	HDR      string `json:"hdr"`
	// Exact is nil when Count is 0.
	Exact *Exact `json:"hdr_exact"`

	// values is what HDR encodes; never nil in a Dist that newDist or Decode made.
	values *histo.Histogram
}

// quantile is one percentile of a Dist; parts is q in 1/10,000.
type quantile struct {
	name  string // as in JSON keys: p999
	label string // as in text: p99.9
	q     float64
	parts uint64
	of    func(*Dist) *Figure
}

var quantiles = [...]quantile{
	{"p50", "p50", 0.5, 5000, func(d *Dist) *Figure { return &d.P50 }},
	{"p90", "p90", 0.9, 9000, func(d *Dist) *Figure { return &d.P90 }},
	{"p95", "p95", 0.95, 9500, func(d *Dist) *Figure { return &d.P95 }},
	{"p99", "p99", 0.99, 9900, func(d *Dist) *Figure { return &d.P99 }},
	{"p999", "p99.9", 0.999, 9990, func(d *Dist) *Figure { return &d.P999 }},
	{"p9999", "p99.99", 0.9999, 9999, func(d *Dist) *Figure { return &d.P9999 }},
}

// wanted returns the number of values that the percentile needs.
func (k *quantile) wanted() uint64 {
	beyond := 10_000 - k.parts
	return (MinBeyond*10_000 + beyond - 1) / beyond
}

// encoders keeps the memory of encoders, 0.8 MB each, for the next histogram.
var encoders = sync.Pool{New: func() any { return new(histo.Encoder) }}

// newDist returns the distribution of values (encoded now, and kept), of which
// censored and failed more rank as +infinity. bounds holds the lower bounds of
// the censored ones; nil when they are not known. noun names one value in
// reasons: "call".
func newDist(values *histo.Histogram, censored, failed uint64, bounds *histo.Histogram, noun string) Dist {
	e := encoders.Get().(*histo.Encoder)
	defer encoders.Put(e)
	return encodeDist(e, values, censored, failed, bounds, noun)
}

// encodeDist is newDist with an encoder whose memory is used again.
func encodeDist(e *histo.Encoder, values *histo.Histogram, censored, failed uint64, bounds *histo.Histogram, noun string) Dist {
	d := Dist{Count: values.Count(), Censored: censored, Failed: failed, values: values}
	d.HDR = string(e.Append(nil, values))
	if d.Count > 0 {
		d.Exact = &Exact{Min: values.Min(), Max: values.Max(), Sum: values.Sum()}
	}
	d.fill(bounds, noun)
	return d
}

// total is the number of values, known or not.
func (d *Dist) total() uint64 { return d.Count + d.Censored + d.Failed }

// fill computes every figure from the values. See newDist.
func (d *Dist) fill(bounds *histo.Histogram, noun string) {
	lower := d.values
	if bounds != nil && bounds.Count() > 0 {
		lower = d.values.Clone()
		lower.Merge(bounds)
	} else if d.Censored > 0 {
		lower = histo.New() // nothing is known about what was cut off
	}
	for i := range quantiles {
		k := &quantiles[i]
		*k.of(d) = d.percentile(k, bounds, lower, noun)
	}
	none := d.none(noun)
	d.Min, d.Mean, d.Max = none, none, none
	if d.Count > 0 {
		d.Min = Num(float64(d.values.Min()))
		d.Mean = Num(math.Round(d.values.Mean()))
		d.Max = Num(float64(d.values.Max()))
	}
	if beyond := d.Censored + d.Failed; beyond > 0 {
		d.Mean = Absentf("%s", d.beyond(noun))
		d.Max = Absentf("%s", d.beyond(noun))
		d.Max.AtLeast = float64(lower.Max())
	}
}

// bound returns a lower bound, in ns, of the value at a rank beyond Count; 0
// when none is known. lower holds all values and lower bounds.
func (d *Dist) bound(rank uint64, bounds, lower *histo.Histogram) int64 {
	if rank > lower.Count() {
		return lower.Max()
	}
	least := lower.Floor(lower.AtRank(rank))
	if bounds != nil {
		// All known values have lower ranks, so what stands here is a bound, or
		// a value with a bound below it.
		least = max(least, bounds.Min())
	}
	return least
}

func (d *Dist) percentile(k *quantile, bounds, lower *histo.Histogram, noun string) Figure {
	n := d.total()
	if n == 0 {
		return d.none(noun)
	}
	if rank := histo.Rank(k.q, n); rank > d.Count {
		f := Absentf("falls among those that have no value: %s", d.beyond(noun))
		f.AtLeast = float64(d.bound(rank, bounds, lower))
		return f
	}
	if n < k.wanted() {
		return Absentf("too few samples: %s, want %s", counted(n, noun), units.Count(k.wanted()))
	}
	ns, _ := d.values.QuantileOf(k.q, n)
	return Num(float64(ns))
}

func (d *Dist) none(noun string) Figure {
	if d.total() == 0 {
		return Absentf("no %s was recorded", noun)
	}
	return Absent(d.beyond(noun))
}

// beyond says how many values rank as +infinity.
func (d *Dist) beyond(noun string) string {
	var parts []string
	if d.Failed > 0 {
		parts = append(parts, units.Count(d.Failed)+" failed")
	}
	if d.Censored > 0 {
		parts = append(parts, units.Count(d.Censored)+" cut off")
	}
	return strings.Join(parts, " and ") + " of " + counted(d.total(), noun)
}

// counted returns "1 call" or "1,234 calls".
func counted(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return units.Count(n) + " " + noun + "s"
}

// MarshalJSON writes every key; an absent figure is null beside its reason.
func (d Dist) MarshalJSON() ([]byte, error) { return encodeFields(d) }

// UnmarshalJSON reads counts and histogram. The figures are not what the file
// says but are computed by the Run that holds the Dist.
func (d *Dist) UnmarshalJSON(data []byte) error {
	type bare struct {
		Count    uint64 `json:"count"`
		Censored uint64 `json:"censored"`
		Failed   uint64 `json:"failed"`
		HDR      string `json:"hdr"`
		Exact    *Exact `json:"hdr_exact"`
	}
	var b bare
	if err := decodeFields(data, &b); err != nil {
		return err
	}
	*d = Dist{Count: b.Count, Censored: b.Censored, Failed: b.Failed, HDR: b.HDR, Exact: b.Exact}
	return d.load()
}

// load decodes HDR and holds it against the count and the exact extremes.
func (d *Dist) load() error {
	h, err := decodeHDR(d.HDR, d.Count, d.Exact)
	if err != nil {
		return err
	}
	d.values = h
	return nil
}

// decodeHDR decodes s, which holds count values; "" stands for none. exact may
// be nil: then the extremes are those of the outermost buckets.
func decodeHDR(s string, count uint64, exact *Exact) (*histo.Histogram, error) {
	h := histo.New()
	if s != "" || count > 0 {
		var err error
		if h, err = histo.Decode(s); err != nil {
			return nil, &fieldError{"hdr", err}
		}
	}
	if h.Count() != count {
		return nil, &fieldError{"hdr", countError{h.Count(), count}}
	}
	if exact != nil && !h.SetExact(exact.Min, exact.Max, exact.Sum) {
		return nil, &fieldError{"hdr_exact", errContradiction}
	}
	return h, nil
}

// encodeHDR is the inverse of decodeHDR.
func encodeHDR(h *histo.Histogram) (s string, exact *Exact) {
	if h.Count() > 0 {
		exact = &Exact{Min: h.Min(), Max: h.Max(), Sum: h.Sum()}
	}
	e := encoders.Get().(*histo.Encoder)
	defer encoders.Put(e)
	return string(e.Append(nil, h)), exact
}

var _ json.Marshaler = Dist{}
