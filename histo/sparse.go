package histo

import (
	"encoding/binary"
	"math/bits"
)

// AppendSparse appends a compact form of h to dst: all that h holds, in a few
// bytes per bucket with values. It is for keeping many histograms in memory; it
// is no file format and may change.
func (h *Histogram) AppendSparse(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, h.count)
	if h.count == 0 {
		return dst
	}
	for _, x := range [...]uint64{uint64(h.min), uint64(h.max), h.sumHi, h.sumLo, h.over, h.negative} {
		dst = binary.AppendUvarint(dst, x)
	}
	lo, hi := h.span()
	next := 0
	for i := lo; i < hi; i++ {
		if n := h.at(i); n != 0 {
			dst = binary.AppendUvarint(dst, uint64(i-next))
			dst = binary.AppendUvarint(dst, n)
			next = i + 1
		}
	}
	return dst
}

// MergeSparse adds what AppendSparse wrote as b. ok is false, and h may hold a
// part of it, when b was not written by AppendSparse.
func (h *Histogram) MergeSparse(b []byte) (ok bool) {
	read := func() (x uint64) {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			b, ok = nil, false
			return 0
		}
		b = b[n:]
		return x
	}
	ok = true
	count := read()
	if count == 0 {
		return ok && len(b) == 0
	}
	least, most := int64(read()), int64(read())
	sumHi, sumLo, over, negative := read(), read(), read(), read()
	if !ok || least < 0 || least > most || most > Highest {
		return false
	}
	var carry uint64
	h.count += count
	h.sumLo, carry = bits.Add64(h.sumLo, sumLo, 0)
	h.sumHi += sumHi + carry
	h.over += over
	h.negative += negative
	h.min, h.max = min(h.min, least), max(h.max, most)
	for i := uint64(0); len(b) > 0; i++ {
		i += read()
		n := read()
		if !ok || i >= size {
			return false
		}
		h.page(int(i) >> subMagnitude)[i&(half-1)] += n
		count -= n
	}
	return ok && count == 0
}
