package histo

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// The V2 format of HdrHistogram: cookies with the word size in their second
// digit, as EncodableHistogram of the Java library writes them.
const (
	plainCookie      = 0x1c849303 | 0x10
	compressedCookie = 0x1c849304 | 0x10
	headerSize       = 40
)

// Encoder encodes histograms one after another and keeps its memory, which is
// near 1 MB. The zero value is ready. Not safe for concurrent use.
type Encoder struct {
	plain  []byte // header and counts
	packed bytes.Buffer
	zip    *zlib.Writer
}

// Encode returns the counts in the compressed V2 encoding of HdrHistogram as
// base64; it begins with HISTF. The exact minimum, maximum and sum are not part
// of it: keep them beside it and give them to SetExact after Decode.
func (h *Histogram) Encode() string { return string(new(Encoder).Append(nil, h)) }

// Append appends to dst what Encode of h returns.
//
// The counts up to the last one that is not 0 follow the header as zigzag
// LEB128 numbers; a run of two or more zeros is minus its length.
func (e *Encoder) Append(dst []byte, h *Histogram) []byte {
	b := append(e.plain[:0], make([]byte, headerSize)...)
	lo, hi := 0, 1 // of an empty histogram: one count of 0
	if h.count > 0 {
		lo, hi = h.first(), h.last()+1
	}
	zeros := int64(lo)
	for i := lo; i < hi; i++ {
		n := h.at(i)
		if n == 0 && h.count > 0 {
			zeros++
			continue
		}
		if zeros == 1 {
			b = appendZigzag(b, 0)
		} else if zeros > 1 {
			b = appendZigzag(b, -zeros)
		}
		zeros = 0
		b = appendZigzag(b, int64(n))
	}
	binary.BigEndian.PutUint32(b[0:], plainCookie)
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)-headerSize))
	binary.BigEndian.PutUint32(b[8:], 0) // normalizing index offset
	binary.BigEndian.PutUint32(b[12:], Digits)
	binary.BigEndian.PutUint64(b[16:], 1)
	binary.BigEndian.PutUint64(b[24:], uint64(Highest))
	binary.BigEndian.PutUint64(b[32:], math.Float64bits(1)) // integer to double ratio
	e.plain = b

	e.packed.Reset()
	var head [8]byte
	e.packed.Write(head[:])
	if e.zip == nil {
		e.zip = zlib.NewWriter(&e.packed)
	} else {
		e.zip.Reset(&e.packed)
	}
	// Writes into a bytes.Buffer do not fail.
	_, _ = e.zip.Write(b)
	_ = e.zip.Close()
	out := e.packed.Bytes()
	binary.BigEndian.PutUint32(out[0:], compressedCookie)
	binary.BigEndian.PutUint32(out[4:], uint32(len(out)-8))
	return base64.StdEncoding.AppendEncode(dst, out)
}

// appendZigzag appends v as ZigZagEncoding of HdrHistogram does: LEB128 of the
// zigzag number, whose ninth byte, if it comes to that, holds eight bits.
func appendZigzag(b []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for range 8 {
		if u < 0x80 {
			return append(b, byte(u))
		}
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
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
	if err := checkHeader(s); err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
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
