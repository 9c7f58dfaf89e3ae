package histo

import (
	"fmt"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Encode returns the counts in the compressed V2 encoding of HdrHistogram as
// base64; it begins with HISTF. The exact minimum, maximum and sum are not part
// of it: keep them beside it and give them to SetExact after Decode.
func (h *Histogram) Encode() string { return string(h.AppendEncode(nil)) }

// AppendEncode appends what Encode returns to dst.
func (h *Histogram) AppendEncode(dst []byte) []byte {
	s := hdr.Snapshot{
		LowestTrackableValue:  1,
		HighestTrackableValue: Highest,
		SignificantFigures:    Digits,
		Counts:                make([]int64, size),
	}
	lo, hi := h.span()
	for i := lo; i < hi; i++ {
		s.Counts[i] = int64(h.counts[i])
	}
	b, err := hdr.Import(&s).Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		panic("histo: encode into memory: " + err.Error())
	}
	return append(dst, b...)
}

// maxTotal bounds the sum of counts that Decode accepts, so that merged totals
// of decoded histograms stay within uint64.
const maxTotal = 1 << 56

// Decode reads the compressed V2 encoding (base64, beginning with HISTF) of any
// HdrHistogram whose unit is ns. Counts of the same geometry are taken as they
// are; values of another one are recorded at the bottom of their bucket, as
// the add of the Java library does, so that merged logs give its figures. Min
// and Max are then the bounds of the outermost buckets and Sum that of the
// bottoms; see SetExact.
func Decode(s string) (*Histogram, error) {
	f, err := hdr.Decode([]byte(s))
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	if n := f.TotalCount(); n < 0 || n > maxTotal {
		return nil, fmt.Errorf("decode histogram: %d values, want at most %d", n, uint64(maxTotal))
	}
	h := New()
	if f.TotalCount() == 0 {
		return h, nil
	}
	for _, bar := range f.Distribution() {
		if bar.Count > 0 {
			h.RecordN(bar.From, uint64(bar.Count))
		}
	}
	h.max = min(highest(index(h.max)), Highest)
	return h, nil
}
