package target

import "latencylab/histo"

// Span summarises durations. The quantiles are nil when there is no value.
type Span struct {
	Count uint64 `json:"count"`
	P50   *int64 `json:"p50_ns"`
	P90   *int64 `json:"p90_ns"`
	P99   *int64 `json:"p99_ns"`
	P999  *int64 `json:"p999_ns"`
	Max   *int64 `json:"max_ns"`
	// HDR is the histogram behind them in the compressed V2 encoding of
	// HdrHistogram (histo.Decode reads it); "" when there is no value.
	HDR string `json:"hdr"`
}

// spanOf summarises a histogram; e keeps its memory from one to the next.
func spanOf(h *histo.Histogram, e *histo.Encoder) Span {
	s := Span{Count: h.Count()}
	if s.Count == 0 {
		return s
	}
	at := func(q float64) *int64 {
		v := h.Quantile(q)
		return &v
	}
	most := h.Max()
	s.P50, s.P90, s.P99, s.P999, s.Max = at(0.5), at(0.9), at(0.99), at(0.999), &most
	s.HDR = string(e.Append(nil, h))
	return s
}
