package policy

import (
	"math/bits"
	"time"

	"latencylab/clock"
)

// Durations are counted in buckets, subBuckets to an octave, from 2^minOctave
// ns (0.5 µs) to 2^maxOctave ns (68.7 s). A bucket is at most 1/256 of its
// value wide, and quantiles are interpolated inside it.
const (
	subBits    = 8
	subBuckets = 1 << subBits
	minOctave  = 9
	maxOctave  = 36
	octaves    = maxOctave - minOctave
	buckets    = octaves * subBuckets

	// lastBucket is the shortest duration of the last bucket, in which everything
	// longer lies too.
	lastBucket = 1<<maxOctave - 1<<(maxOctave-1-subBits)

	// trackerSlots is the number of parts that a window turns over in.
	trackerSlots = 6

	// A quantile is computed again when samples grew by refreshLeast, and by
	// one part in refreshShare of what the window holds.
	refreshLeast = 100
	refreshShare = 64
)

// tracker follows one quantile of the durations of the last window. The window
// slides in sixths: it covers between 5/6 of its length and all of it. The
// tracker is 190 KiB large and never allocates.
type tracker struct {
	q          float64 // in (0, 1)
	minSamples uint64
	width      time.Duration // of one slot

	until  clock.Time // end of the current slot
	slot   int        // current slot
	since  uint64     // samples since value was computed
	total  uint64     // samples in the window
	value  time.Duration
	ready  bool // value may be used
	begun  bool // until is set
	coarse [octaves]uint32
	sum    [buckets]uint32               // over the slots
	parts  [trackerSlots][buckets]uint32 // parts[slot][bucket]
}

// defaultWindow and defaultMinSamples stand for the zero values in Hedge.
const (
	defaultWindow     = 30 * time.Second
	defaultMinSamples = 100
)

func newTracker(q float64, window time.Duration, minSamples int) *tracker {
	t := &tracker{q: q, minSamples: uint64(minSamples)}
	t.width = max(1, window/trackerSlots)
	return t
}

// minSamples returns the least number of samples with its default.
func (h Hedge) minSamples() int {
	if h.MinSamples <= 0 {
		return defaultMinSamples
	}
	return h.MinSamples
}

// window returns the window with its default.
func (h Hedge) window() time.Duration {
	if h.Window <= 0 {
		return defaultWindow
	}
	return min(h.Window, maxWindow)
}

// record adds the duration d of a call that ended now.
func (t *tracker) record(d time.Duration, now clock.Time) {
	t.turn(now)
	b := bucketOf(d)
	t.parts[t.slot][b]++
	t.sum[b]++
	t.coarse[b>>subBits]++
	t.total++
	t.since++
	if t.total < t.minSamples {
		return
	}
	if !t.ready || t.since >= max(refreshLeast, t.total/refreshShare) {
		t.refresh()
	}
}

// delay returns the quantile; ok is false while the window has too few samples.
func (t *tracker) delay(now clock.Time) (d time.Duration, ok bool) {
	t.turn(now)
	return t.value, t.ready
}

// turn empties the slots that have left the window at now.
func (t *tracker) turn(now clock.Time) {
	if !t.begun {
		t.begun, t.until = true, now.Add(t.width)
	}
	if now < t.until {
		return
	}
	n := now.Sub(t.until)/t.width + 1 // slots that ended
	for range min(n, trackerSlots) {
		t.slot = (t.slot + 1) % trackerSlots
		t.drop(&t.parts[t.slot])
	}
	// The loop above has emptied every slot when n is larger than their number,
	// so which of them is the current one does not matter then.
	t.until = now.Add(t.width - now.Sub(t.until)%t.width)
	t.ready = t.total >= t.minSamples
	if t.ready {
		t.refresh()
	}
}

// drop takes the samples of one slot out of the window.
func (t *tracker) drop(part *[buckets]uint32) {
	for b, n := range part {
		if n != 0 {
			part[b] = 0
			t.sum[b] -= n
			t.coarse[b>>subBits] -= n
			t.total -= uint64(n)
		}
	}
}

// refresh computes the quantile: the duration below which a share q of the
// samples lies, taking those of one bucket to be spread evenly over it.
func (t *tracker) refresh() {
	t.since, t.ready = 0, true
	rank := float64(t.q * float64(t.total))
	var below float64 // samples in the buckets before b
	b := 0
	for b < buckets-subBuckets && below+float64(t.coarse[b>>subBits]) < rank {
		below += float64(t.coarse[b>>subBits])
		b += subBuckets
	}
	for b < buckets-1 && below+float64(t.sum[b]) < rank {
		below += float64(t.sum[b])
		b++
	}
	low, width := bucketBounds(b)
	share := 1.0
	if n := t.sum[b]; n != 0 {
		share = min(1, (rank-below)/float64(n))
	}
	t.value = low + time.Duration(float64(share*float64(width)))
}

// bucketOf returns the bucket that counts d; the first and the last take what
// is outside.
func bucketOf(d time.Duration) int {
	if d < 1<<minOctave {
		return 0
	}
	if d >= 1<<maxOctave {
		return buckets - 1
	}
	e := bits.Len64(uint64(d)) - 1
	return (e-minOctave)<<subBits + int(d>>(e-subBits))&(subBuckets-1)
}

// bucketBounds returns the smallest duration of bucket b and its width.
func bucketBounds(b int) (low, width time.Duration) {
	e := b>>subBits + minOctave
	width = 1 << (e - subBits)
	return 1<<e + time.Duration(b&(subBuckets-1))*width, width
}
