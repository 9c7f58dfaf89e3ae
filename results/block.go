package results

import (
	"slices"
	"time"

	"latencylab/histo"
	"latencylab/ledger"
)

// State is what a policy's client knew at one instant. Absent figures are of
// state that the policy does not have.
type State struct {
	Tokens       Figure `json:"tokens"`
	HedgeDelayNS Figure `json:"hedge_delay_ns"`
}

// MarshalJSON writes every key.
func (s State) MarshalJSON() ([]byte, error) { return encodeFields(s) }

// UnmarshalJSON reads what MarshalJSON writes.
func (s *State) UnmarshalJSON(b []byte) error { return decodeFields(b, s) }

// BlockState is a policy's state at the first data call of a block and after
// its last.
type BlockState struct {
	Start State `json:"start"`
	End   State `json:"end"`
}

// Block is one stretch of a measurement in which a single policy was driven.
type Block struct {
	StartNS  int64  `json:"start_ns"`  // of its data, after the start of the run
	LengthNS int64  `json:"length_ns"` // of its data
	Prior    Text   `json:"prior"`     // policy of the block before it; absent for the first
	Calls    uint64 `json:"calls"`     // scheduled in it
	OK       uint64 `json:"ok"`
	// Absent are the calls that failed, were given up or dropped: they rank as
	// +infinity.
	Absent   uint64     `json:"absent"`
	OKWithin []Share    `json:"ok_within"`
	HDR      string     `json:"hdr"` // response time of the OK calls
	Exact    *Exact     `json:"hdr_exact"`
	State    BlockState `json:"state"`

	values *histo.Histogram
	tail   ledger.Tail // empty in a Run that was read
}

// BlockInput is what NewBlock is given.
type BlockInput struct {
	// Start is that of the data, after the start of the run. Length below 0, of
	// a block that was interrupted in its burn-in, is taken as 0.
	Start, Length time.Duration
	Prior         string // name of the policy of the block before; "" for the first block
	Ledger        *ledger.Ledger
	State         BlockState
}

// NewBlock returns the record of a block. It keeps nothing of the ledger.
func NewBlock(in BlockInput) Block {
	l := in.Ledger
	b := Block{
		StartNS:  int64(in.Start),
		LengthNS: int64(max(in.Length, 0)),
		Prior:    Text{Value: in.Prior},
		Calls:    l.Calls.Scheduled,
		OK:       l.OK.Count(),
		Absent:   l.Failed.Count() + l.Censored.Count() + l.Calls.Dropped,
		OKWithin: within(l),
		State:    in.State,
		values:   l.OK.Clone(),
	}
	if in.Prior == "" {
		b.Prior.Reason = "no block was before it"
	}
	b.HDR, b.Exact = encodeHDR(b.values)
	b.tail.Merge(&l.Tail)
	return b
}

// total is the number of calls that have a rank.
func (b *Block) total() uint64 { return b.OK + b.Absent }

// share returns the share of the block's calls answered OK within t; 0 asks for
// those answered OK at all.
func (b *Block) share(t time.Duration) Figure {
	if t == 0 {
		return shareOf(b.OK, b.Calls)
	}
	return withinShare(b.OKWithin, t)
}

// MarshalJSON writes every key.
func (b Block) MarshalJSON() ([]byte, error) { return encodeFields(b) }

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Block) UnmarshalJSON(data []byte) error {
	err := decodeFields(data, b)
	if err == nil {
		b.values, err = decodeHDR(b.HDR, b.OK, b.Exact)
	}
	return err
}

// Interval is the response time over a stretch of a policy's data. Its
// percentiles come from its histogram, of all its calls.
type Interval struct {
	StartNS  int64  `json:"start_ns"`  // after the start of the run
	LengthNS int64  `json:"length_ns"` // to the end of its last part
	OK       uint64 `json:"ok"`
	Absent   uint64 `json:"absent"` // failed, given up or dropped: they rank as +infinity
	P50      Figure `json:"p50_ns"`
	P99      Figure `json:"p99_ns"`
	Max      Figure `json:"max_ns"`
	HDR      string `json:"hdr"` // response time of the OK calls
	Exact    *Exact `json:"hdr_exact"`
}

// MarshalJSON writes every key.
func (v Interval) MarshalJSON() ([]byte, error) { return encodeFields(v) }

// UnmarshalJSON reads what MarshalJSON writes; percentiles are computed anew.
func (v *Interval) UnmarshalJSON(data []byte) error {
	if err := decodeFields(data, v); err != nil {
		return err
	}
	h, err := decodeHDR(v.HDR, v.OK, v.Exact)
	if err != nil {
		return err
	}
	e := encoders.Get().(*histo.Encoder)
	defer encoders.Put(e)
	*v = newInterval(e, v.StartNS, v.LengthNS, h, v.Absent)
	return nil
}

func newInterval(e *histo.Encoder, start, length int64, h *histo.Histogram, absent uint64) Interval {
	d := encodeDist(e, h, 0, absent, nil, "call")
	return Interval{start, length, d.Count, absent, d.P50, d.P99, d.Max, d.HDR, d.Exact}
}

// KeptIntervals is how many intervals of a policy a Run keeps by default.
const KeptIntervals = 100

// Intervals collects the intervals of one policy in bounded memory: what is
// past is kept in a compact form, and when the limit is reached neighbours
// merge, so that an interval then stands for twice as many parts.
type Intervals struct {
	limit int
	parts int // parts that make one interval: a power of two
	have  int // parts in open
	list  []past
	open  past
	ok    *histo.Histogram // of open
	merge *histo.Histogram // empty between calls
}

// past is one interval in its compact form.
type past struct {
	start, end int64
	absent     uint64
	ok         []byte // as histo.AppendSparse writes it
}

// NewIntervals returns an empty collection of at most limit intervals. 0 means
// KeptIntervals; an odd limit is taken as the next even one.
func NewIntervals(limit int) *Intervals {
	if limit <= 0 {
		limit = KeptIntervals
	}
	return &Intervals{limit: limit + limit%2, parts: 1, ok: histo.New(), merge: histo.New()}
}

// Add appends a part: start after the start of the run, its length, the
// response times of its OK calls and the number of those that failed, were
// given up or dropped. It keeps nothing of ok.
func (v *Intervals) Add(start, length time.Duration, ok *histo.Histogram, absent uint64) {
	if v.have == 0 {
		v.open.start = int64(start)
	}
	v.open.end = int64(start + length)
	v.ok.Merge(ok)
	v.open.absent += absent
	if v.have++; v.have < v.parts {
		return
	}
	if len(v.list) == v.limit {
		v.halve() // parts doubles, so the open part goes on
		return
	}
	v.open.ok = v.ok.AppendSparse(nil)
	v.list = append(v.list, v.open)
	v.ok.Reset()
	v.open, v.have = past{}, 0
}

// halve merges neighbours.
func (v *Intervals) halve() {
	for i := range len(v.list) / 2 {
		a, b := &v.list[2*i], &v.list[2*i+1]
		a.add(v.merge)
		b.add(v.merge)
		v.list[i] = past{a.start, b.end, a.absent + b.absent, v.merge.AppendSparse(a.ok[:0])}
		v.merge.Reset()
	}
	n := len(v.list) / 2
	clear(v.list[n:])
	v.list = v.list[:n]
	v.parts *= 2
}

// add merges the interval's values into h.
func (p *past) add(h *histo.Histogram) {
	if !h.MergeSparse(p.ok) {
		panic("results: an interval of our own does not read back")
	}
}

// mustDecode decodes what this package has encoded or checked.
func mustDecode(v *Interval) *histo.Histogram {
	h, err := decodeHDR(v.HDR, v.OK, v.Exact)
	if err != nil {
		panic("results: an interval of our own does not decode: " + err.Error())
	}
	return h
}

// List returns the intervals so far, at most limit; the open part is the last
// one or merged into it. The collection goes on as before.
func (v *Intervals) List() []Interval {
	all := slices.Clone(v.list)
	if v.have > 0 {
		open := v.open
		open.ok = v.ok.AppendSparse(nil)
		all = append(all, open)
	}
	e, h := encoders.Get().(*histo.Encoder), histo.New()
	defer encoders.Put(e)
	list := make([]Interval, 0, len(all))
	for i := 0; i < len(all); i++ {
		p := all[i]
		p.add(h)
		if i == v.limit-1 && len(all) > v.limit {
			last := &all[i+1]
			last.add(h)
			p.end, p.absent = last.end, p.absent+last.absent
			i++
		}
		list = append(list, newInterval(e, p.start, p.end-p.start, h, p.absent))
		h.Reset()
	}
	return list
}
