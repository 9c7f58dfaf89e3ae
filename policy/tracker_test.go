package policy

import (
	"math"
	"slices"
	"testing"
	"time"
	"unsafe"

	"latencylab/clock"
	"latencylab/draw"
)

// mixture draws from 98 % uniform(20 ms, 60 ms) and 2 % 1000 ms.
func mixture(i uint64) time.Duration {
	if draw.Uniform(1, draw.Slow, i, 1, 0) < 0.02 {
		return time.Second
	}
	return 20*ms + time.Duration(draw.Uniform(1, draw.Service, i, 1, 0)*float64(40*ms))
}

// TestTrackerPrecision: the p95 of the mixture is 20 + 40 * 0.95/0.98 = 58.78 ms,
// and 5.0 % of the samples lie above what the tracker says.
func TestTrackerPrecision(t *testing.T) {
	tr := hedgeTracker(Hedge{Max: 1, Quantile: 0.95})
	const n = 30000
	var all [n]time.Duration
	for i := range all {
		all[i] = mixture(uint64(i))
		tr.record(all[i], at(time.Duration(i)*ms))
	}
	if tr.total < n*5/6-1 {
		t.Fatalf("%d samples of %d in the window", tr.total, n)
	}
	d, ok := tr.delay(at(n * ms))
	if want := 58.7755; !ok || math.Abs(float64(d)/1e6-want) > 0.15 {
		t.Errorf("p95 is %v %v, want %.2f ms within 0.15 ms", d, ok, want)
	}
	above := 0
	for _, s := range all {
		if s > d {
			above++
		}
	}
	if share := float64(above) / n; math.Abs(share-0.05) > 0.003 {
		t.Errorf("%.2f %% of the samples are above the p95", share*100)
	}
}

// TestTrackerOracle compares with the sorted samples: the value lies within one
// bucket of the sample of its rank, for every quantile and scale.
func TestTrackerOracle(t *testing.T) {
	for _, scale := range []float64{1e3, 1e5, 1e7, 1e9} { // ns
		for _, q := range []float64{0.001, 0.1, 0.5, 0.9, 0.99, 0.9999} {
			tr := hedgeTracker(Hedge{Max: 1, Quantile: q, MinSamples: 1})
			var all []time.Duration
			for i := range uint64(2000) {
				d := time.Duration(scale * -draw.Log(draw.Uniform(1, draw.Service, i, 1, 0)))
				all = append(all, min(max(d, 512), 1<<maxOctave-1))
				tr.record(d, 0)
			}
			tr.refresh()
			slices.Sort(all)
			want := all[int(math.Ceil(q*2000))-1]
			got, _ := tr.delay(0)
			if slack := max(want/subBuckets+1, 4); got < want-slack || got > want+slack {
				t.Errorf("q %v at scale %v: %v, want %v", q, scale, got, want)
			}
		}
	}
}

func TestTrackerBuckets(t *testing.T) {
	end := time.Duration(1 << minOctave)
	for b := range buckets {
		low, width := bucketBounds(b)
		if low != end || bucketOf(low) != b || bucketOf(low+width-1) != b {
			t.Fatalf("bucket %d is [%d, +%d), after one that ends at %d; found as %d … %d", b, low, width, end, bucketOf(low), bucketOf(low+width-1))
		}
		end = low + width
	}
	if end < 60*time.Second {
		t.Errorf("the last bucket ends at %v, want more than 60 s", end)
	}
	for d, want := range map[time.Duration]int{-1: 0, 0: 0, 511: 0, end: buckets - 1, math.MaxInt64: buckets - 1} {
		if got := bucketOf(d); got != want {
			t.Errorf("%d ns falls into bucket %d, want %d", d, got, want)
		}
	}
}

func TestTrackerReady(t *testing.T) {
	tr := hedgeTracker(Hedge{Max: 1, Quantile: 0.5})
	for i := range 100 {
		if _, ok := tr.delay(0); ok {
			t.Fatalf("ready after %d samples", i)
		}
		tr.record(10*ms, 0)
	}
	if d, ok := tr.delay(0); !ok || d < 9*ms || d > 11*ms {
		t.Errorf("after 100 samples: %v %v", d, ok)
	}
}

// TestTrackerShrinks: a window that has lost samples is not used below MinSamples.
func TestTrackerShrinks(t *testing.T) {
	tr := hedgeTracker(Hedge{Max: 1, Quantile: 0.5, Window: 6 * time.Second, MinSamples: 10})
	for i := range 12 {
		tr.record(10*ms, at(time.Duration(i)*500*ms))
	}
	for _, tt := range []struct {
		now     time.Duration
		samples uint64
		ready   bool
	}{{5900 * ms, 12, true}, {6 * time.Second, 10, true}, {7 * time.Second, 8, false}} {
		if _, ok := tr.delay(at(tt.now)); ok != tt.ready || tr.total != tt.samples {
			t.Errorf("at %v: %d samples, ready %v; want %d, %v", tt.now, tr.total, ok, tt.samples, tt.ready)
		}
	}
}

// TestTrackerInterpolates: the samples of one bucket are taken to be spread
// evenly over it, whichever they are.
func TestTrackerInterpolates(t *testing.T) {
	low, width := bucketBounds(bucketOf(58 * ms))
	for _, q := range []float64{0.25, 0.5, 0.75} {
		tr := hedgeTracker(Hedge{Max: 1, Quantile: q})
		for range 400 {
			tr.record(58*ms, 0)
		}
		if want := low + time.Duration(q*float64(width)); tr.value != want {
			t.Errorf("q %v of one bucket is %v, want %v", q, tr.value, want)
		}
	}
}

// TestTrackerSamples: what a call adds is the time from the send of its first
// attempt to its end.
func TestTrackerSamples(t *testing.T) {
	p := Policy{
		Deadline: time.Second, Retry: Retry{Max: 1}, Backoff: Backoff{Base: 100 * ms, Jitter: JitterNone},
		Hedge: Hedge{Max: 1, Quantile: 0.5, MinSamples: 1},
	}
	retryable, fatal := Result{Disposition: DispRetryable}, Result{Disposition: DispFatal}
	tests := []struct {
		name string
		run  func(k *Call, c *Client)
		want time.Duration // 0: no sample
	}{
		{"an answer to the first attempt", func(k *Call, c *Client) { k.Reply(0, Result{}, at(40*ms)) }, 30 * ms},
		{"a failure", func(k *Call, c *Client) { k.Reply(0, fatal, at(40*ms)) }, 30 * ms},
		{"a retry's answer, in the slot of the first attempt", func(k *Call, c *Client) {
			k.Reply(0, retryable, at(40*ms))
			k.Advance(at(140 * ms))
			k.Reply(0, Result{}, at(150*ms))
		}, 140 * ms},
		{"the deadline, as at least that long", func(k *Call, c *Client) { k.Advance(at(time.Second)) }, 990 * ms},
		{"a call that sent nothing adds nothing", func(k *Call, c *Client) { k.Start(c, Request{}, at(time.Second)) }, 0},
		{"a call that goes on adds nothing", func(k *Call, c *Client) { k.Advance(at(500 * ms)) }, 0},
	}
	for _, tt := range tests {
		c := NewClient(&p, 1, 1)
		var k Call
		k.Start(c, Request{Idempotent: true}, at(10*ms))
		tt.run(&k, c)
		var want [buckets]uint32
		if tt.want != 0 {
			want[bucketOf(tt.want)] = 1
		}
		if c.tracker.sum != want {
			t.Errorf("%s: %d samples with median %v, want one of %v", tt.name, c.tracker.total, c.tracker.value, tt.want)
		}
	}
	// A hedge's answer supersedes the first attempt, which counts to that instant.
	c := NewClient(&p, 1, 1)
	c.tracker.record(20*ms, 0)
	var k Call
	a := k.Start(c, Request{Idempotent: true}, at(10*ms))
	k.Advance(a.Timer)
	k.Reply(1, Result{}, at(60*ms))
	if c.tracker.sum[bucketOf(50*ms)] != 1 || c.tracker.total != 2 {
		t.Errorf("a superseded attempt: %d samples, want one of 50 ms", c.tracker.total)
	}
}

// TestTrackerRefresh: the value stands still for max(100, total/64) samples.
func TestTrackerRefresh(t *testing.T) {
	for _, before := range []int{100, 1000, 64 * 300} {
		tr := hedgeTracker(Hedge{Max: 1, Quantile: 0.0001})
		for range before {
			tr.record(20*ms, 0)
		}
		tr.refresh()
		was := tr.value
		n := 0
		for ; tr.value == was && n < 10*before; n++ {
			tr.record(ms, 0)
		}
		if want := max(100, (before+n)/64); n != want {
			t.Errorf("after %d samples the value changed with sample %d, want %d", before, n, want)
		}
	}
}

func TestTrackerWindow(t *testing.T) {
	h := Hedge{Max: 1, Quantile: 0.5, Window: 6 * time.Second, MinSamples: 10}
	tests := []struct {
		name    string
		now     time.Duration
		samples uint64
	}{
		{"all are kept in the slot in which they came", 999 * ms, 12},
		{"all are kept while the window lasts", 5999 * ms, 12},
		{"the first slot leaves after the window", 6 * time.Second, 0},
		{"a turn that comes late keeps the slots where they were", 2700 * ms, 12},
		{"a long pause empties the window", time.Hour + 300*ms, 0},
		{"so does one of exactly two windows", 12 * time.Second, 0},
		{"and the longest there is", math.MaxInt64 - 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := hedgeTracker(h)
			for range 12 {
				tr.record(10*ms, 0)
			}
			_, ok := tr.delay(at(tt.now))
			if tr.total != tt.samples || ok != (tt.samples >= 10) {
				t.Errorf("%d samples, ready %v; want %d", tr.total, ok, tt.samples)
			}
			left := tr.until.Sub(at(tt.now))
			if left <= 0 || left > time.Second || tr.until != clock.Never && tr.until%at(time.Second) != 0 {
				t.Errorf("the slot ends at %v, want the next full second after %v", time.Duration(tr.until), tt.now)
			}
		})
	}

	// One sample a slot, each a hundred times: the quantile follows the last six.
	tr := hedgeTracker(h)
	for i := range 50 {
		now := at(time.Duration(i)*time.Second + 500*ms)
		for range 100 {
			tr.record(time.Duration(i+1)*10*ms, now)
		}
		if want := uint64(min(i+1, 6)) * 100; tr.total != want {
			t.Fatalf("slot %d: %d samples, want %d", i, tr.total, want)
		}
	}
	if d, _ := tr.delay(at(49700 * ms)); d < 469*ms || d > 481*ms {
		t.Errorf("the median of 450 … 500 ms is %v", d)
	}
	checkSums(t, tr)
}

// checkSums: what is kept beside the slots is what they add up to.
func checkSums(t *testing.T, tr *tracker) {
	t.Helper()
	var total uint64
	var coarse [octaves]uint32
	for b := range buckets {
		var n uint32
		for s := range tr.parts {
			n += tr.parts[s][b]
		}
		if n != tr.sum[b] {
			t.Fatalf("bucket %d: %d, its slots hold %d", b, tr.sum[b], n)
		}
		coarse[b>>subBits] += n
		total += uint64(n)
	}
	if coarse != tr.coarse || total != tr.total {
		t.Errorf("octaves %v and total %d, the slots hold %v and %d", tr.coarse, tr.total, coarse, total)
	}
}

func TestTrackerSize(t *testing.T) {
	if size := unsafe.Sizeof(tracker{}) + unsafe.Sizeof(Client{}); size >= 256<<10 {
		t.Errorf("a client with a tracker takes %d bytes, want less than 256 KiB", size)
	}
}

// TestTrackedHedgeLoad: a client that hedges at its own p95 sends a hedge for
// 5 % of its calls, though the hedges cut off the latencies it learns from.
func TestTrackedHedgeLoad(t *testing.T) {
	c := NewClient(&Policy{Hedge: Hedge{Max: 1, Quantile: 0.95}}, 3, 1)
	hedges := 0
	const calls = 60000
	for i := range uint64(calls) {
		now := at(time.Duration(i) * ms)
		var k Call
		a := k.Start(c, Request{ID: i, Intended: now, Idempotent: true}, now)
		end := now.Add(mixture(2 * i))
		if a.Timer < end {
			sent := a.Timer
			if a = k.Advance(sent); a.Attempt != 2 {
				t.Fatalf("call %d: no hedge at its time: %+v", i, a)
			}
			hedges++
			end = min(end, sent.Add(mixture(2*i+1)))
		}
		if a = k.Reply(0, Result{}, end); a.Finish != OK || a.Timer != clock.Never {
			t.Fatalf("call %d: %+v", i, a)
		}
	}
	if share := float64(hedges) / calls; math.Abs(share-0.05) > 0.003 {
		t.Errorf("%.2f %% of the calls were hedged, want 5.0", share*100)
	}
}

func hedgeTracker(h Hedge) *tracker { return newTracker(h.Quantile, h.window(), h.minSamples()) }
