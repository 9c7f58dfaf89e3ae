package policy

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"latencylab/clock"
)

var breakerNames = [...]string{"closed", "open", "half-open"}

// breakerBench drives one breaker by a line of words, one step each:
//
//	ok, fail, slow   an attempt that passes, ends at once and is reported so
//	refused          the breaker refuses
//	probeN           attempt N passes and is a probe
//	sendN            attempt N passes and is none
//	okN failN        attempt N ends
//	lostN            attempt N ends without an outcome
//	+D               time passes
//	closed open half-open   the state must be this
type breakerBench struct {
	t     *testing.T
	b     *breaker
	now   clock.Time
	sent  [10]clock.Time
	probe [10]bool
}

func (w *breakerBench) run(why, script string) {
	w.t.Helper()
	for i, word := range strings.Fields(script) {
		if bad := w.step(word); bad != "" {
			w.t.Errorf("%s: step %d, %s: %s", why, i+1, word, bad)
			return
		}
	}
}

func (w *breakerBench) step(word string) string {
	n := word[len(word)-1] - '0'
	if n > 9 {
		n = 0
	}
	switch name := strings.TrimRight(word, "0123456789"); {
	case word[0] == '+':
		d, err := time.ParseDuration(word[1:])
		if err != nil {
			return err.Error()
		}
		w.now = w.now.Add(d)
	case name == "closed" || name == "open" || name == "half-open":
		if got := breakerNames[w.b.tick(w.now)]; got != name {
			return "it is " + got
		}
	case name == "refused":
		if w.b.allow(w.now) {
			return "it allows"
		}
	case name == "probe" || name == "send":
		if !w.b.allow(w.now) {
			return "it refuses"
		}
		w.sent[n], w.probe[n] = w.now, w.b.take(w.now)
		if w.probe[n] != (name == "probe") {
			return fmt.Sprintf("taken as a probe: %v", w.probe[n])
		}
	case name == word:
		if !w.b.allow(w.now) {
			return "it refuses"
		}
		took := ms
		if name == "slow" {
			took = time.Second
		}
		w.b.report(name == "fail", took, w.now, w.b.take(w.now), w.now)
	case name == "lost":
		w.b.release(w.sent[n], w.probe[n], w.now)
	default:
		w.b.report(name == "fail", ms, w.sent[n], w.probe[n], w.now)
	}
	return ""
}

func times(n int, words string) string { return strings.Repeat(words+" ", n) }

func TestBreaker(t *testing.T) {
	three := Breaker{Failures: 3, Open: time.Second}
	ten := Breaker{Kind: BreakerCount, FailureShare: 0.5, Calls: 10, Open: time.Second}
	window := Breaker{Kind: BreakerTime, FailureShare: 0.5, MinCalls: 4, Open: time.Second}
	with := func(b Breaker, f func(*Breaker)) Breaker { f(&b); return b }
	tests := []struct {
		why    string
		b      Breaker
		script string
	}{
		{"three failures in a row open it", three, "fail fail closed fail open refused"},
		{"a success between them does not let it", three, "fail fail ok fail fail closed"},
		{"it is half-open when its time is over, to the instant", three, times(3, "fail") + "+999ms open +1ms half-open"},
		{"one probe at a time", three, times(3, "fail") + "+1s probe1 refused"},
		{"a probe that succeeds closes it", three, times(3, "fail") + "+1s probe1 ok1 closed send2"},
		{"a probe that fails opens it anew", three, times(3, "fail") + "+1s probe1 fail1 open +999ms open +1ms half-open"},
		{"without a cap it does not stay open longer each time", three,
			times(3, "fail") + times(5, "+1s probe1 fail1 open")},
		{"with a cap it doubles, up to it, and starts anew after a success",
			with(three, func(b *Breaker) { b.OpenCap = 3 * time.Second }),
			times(3, "fail") + "+1s probe1 fail1 +1999ms open +1ms probe1 fail1 +2999ms open +1ms probe1 fail1 +2999ms open +1ms " +
				"probe1 ok1 closed fail fail fail +999ms open +1ms half-open"},
		{"a failure counts anew after it closed", three, times(3, "fail") + "+1s probe1 ok1 fail fail closed fail open"},
		{"defaults: five seconds, one probe", Breaker{Failures: 1}, "fail +4999ms open +1ms probe1 refused ok1 closed"},

		{"probes lost to a cancel return their permit (resilience4j#544)", three, times(3, "fail") + "+1s " + times(9, "probe1 lost1") + "probe1 ok1 closed"},
		{"a probe that hangs does not wedge it (resilience4j#903)", three, times(3, "fail") + "+1s probe1 +999ms refused +1ms probe2 refused ok2 closed"},
		{"its own wait bounds a hanging probe", with(three, func(b *Breaker) { b.MaxWait = 10 * time.Second }),
			times(3, "fail") + "+1s probe1 +9999ms refused +1ms probe2 ok2 closed"},
		{"what a lost probe says later is not heard", three, times(3, "fail") + "+1s probe1 +1s probe2 fail1 half-open refused lost1 refused ok2 closed"},
		{"nor is it when it says so after another opening", three, times(3, "fail") + "+1s probe1 fail1 +1s probe2 fail1 half-open ok1 half-open refused ok2 closed"},
		{"an attempt sent before it opened says nothing to the probes", three, "send1 +1ms fail fail fail +1s probe2 ok1 half-open fail1 half-open refused"},
		{"nor after it closed", three, "send1 +1ms " + times(3, "fail") + "+1s probe2 ok2 +1ms fail1 fail fail closed fail open"},
		{"nor while it is open", three, "send1 +1ms " + times(3, "fail") + "+1ms ok1 open fail1 open"},

		{"three permits, of which two must succeed", with(three, func(b *Breaker) { b.Permits, b.Need = 3, 2 }),
			times(3, "fail") + "+1s probe1 probe2 probe3 refused ok1 half-open probe4 refused ok2 closed ok3 ok4 closed"},
		{"by default as many must succeed as there are permits", with(three, func(b *Breaker) { b.Permits = 2 }),
			times(3, "fail") + "+1s probe1 ok1 half-open probe1 ok1 closed"},
		{"more must succeed than there are permits", with(three, func(b *Breaker) { b.Need = 3 }),
			times(3, "fail") + "+1s probe1 ok1 probe1 ok1 half-open probe1 ok1 closed"},
		{"one that fails opens it", with(three, func(b *Breaker) { b.Permits, b.Need = 3, 3 }),
			times(3, "fail") + "+1s probe1 probe2 probe3 ok1 ok2 fail3 open"},
		{"one of two hangs and the other goes on", with(three, func(b *Breaker) { b.Permits, b.Need = 2, 3 }),
			times(3, "fail") + "+1s probe1 +500ms probe2 ok2 +600ms probe2 ok2 +600ms probe2 ok2 closed"},

		{"a slow answer counts as a failure in a row", with(three, func(b *Breaker) { b.Slow = 100 * ms }), "fail slow fail open"},
		{"a slow probe opens it anew", with(three, func(b *Breaker) { b.Slow = 100 * ms }), times(3, "fail") + "+1s slow open"},
		{"slow answers do not matter by default", three, times(20, "slow") + "closed"},

		{"half of ten", ten, times(5, "ok") + times(4, "fail") + "closed fail open"},
		{"fewer attempts than it looks back on", ten, times(9, "fail") + "closed fail open"},
		{"fewer attempts than asked for", with(ten, func(b *Breaker) { b.MinCalls = 4 }), "fail fail fail closed fail open"},
		{"the attempt that makes them enough may be a success", with(ten, func(b *Breaker) { b.MinCalls = 4 }), "fail fail fail ok open"},
		{"those before the last ten are forgotten", ten, times(4, "fail") + times(10, "ok") + times(4, "fail") + "closed fail open"},
		{"a share of 1 needs all of them", with(ten, func(b *Breaker) { b.FailureShare = 1 }), "ok " + times(9, "fail") + "closed fail open"},
		{"slow answers by their share alone", with(ten, func(b *Breaker) { b.FailureShare, b.Slow, b.SlowShare = 0, 100*ms, 0.5 }),
			times(10, "fail") + "closed " + times(4, "slow") + "closed slow open"},
		{"by default all must be slow", with(ten, func(b *Breaker) { b.Slow = 100 * ms }), "ok " + times(9, "slow") + "closed slow open"},
		{"the rings are empty after it closed", ten, times(10, "fail") + "+1s probe1 ok1 " + times(9, "fail") + "closed fail open"},
		{"more than a word of bits", with(ten, func(b *Breaker) { b.Calls = 130 }),
			times(130, "ok") + times(64, "fail") + "closed " + times(130, "ok") + times(64, "fail") + "closed fail open"},

		{"half of at least four in ten seconds", window, "fail ok fail closed ok open"},
		{"those of before are forgotten", window, "fail fail fail +10s ok ok closed fail closed fail open"},
		{"they go with their part of the window", window, "fail +5s ok ok ok closed +5s fail closed fail closed fail open"},
		{"nothing is left after it closed", window, times(4, "fail") + "+1s probe1 ok1 fail fail fail closed fail open"},
		{"twenty by default", with(window, func(b *Breaker) { b.MinCalls = 0 }), times(19, "fail") + "closed fail open"},

		{"an average over ten attempts: 1 - exp(-7/10) is above half, the first counts whole",
			Breaker{Kind: BreakerEMA, FailureShare: 0.5, Calls: 10, MinCalls: 1}, "ok " + times(6, "fail") + "closed fail open"},
		{"its first failure is not all of it before there were enough", Breaker{Kind: BreakerEMA, FailureShare: 0.5, Calls: 10},
			"fail " + times(8, "ok") + "closed ok closed"},
		{"an average of slow answers", Breaker{Kind: BreakerEMA, Calls: 10, MinCalls: 2, Slow: 100 * ms, SlowShare: 0.05}, "ok fail fail closed slow open"},
	}
	for _, tt := range tests {
		w := breakerBench{t: t, b: &newBreakers(tt.b, 3)[1]}
		w.run(tt.why, tt.script)
	}
}

// First attempts pass a breaker of retries in every state, and probe it.
func TestBreakerOfRetries(t *testing.T) {
	b := &newBreakers(Breaker{Failures: 2, Open: time.Second, Gates: GateRetries}, 1)[0]
	if b.gates(First) || !b.gates(Retried) || !b.gates(Hedged) {
		t.Error("it gates first attempts, or does not gate the others")
	}
	send := func(failed bool, now clock.Time) { b.report(failed, ms, now, b.take(now), now) }
	send(true, 0)
	send(true, 0)
	send(false, at(500*ms))
	if b.allow(at(500 * ms)) {
		t.Error("a first attempt closed it while it was open")
	}
	probe := b.take(at(time.Second))
	other := b.take(at(time.Second))
	if !probe || other {
		t.Errorf("first attempts of a half-open breaker: probes %v and %v, want one", probe, other)
	}
	b.report(true, ms, at(time.Second), other, at(time.Second))
	if b.state != breakerHalfOpen {
		t.Error("an attempt that was no probe opened it")
	}
	b.report(false, ms, at(time.Second), probe, at(time.Second))
	if !b.allow(at(time.Second)) {
		t.Error("a first attempt did not close it")
	}
}

func TestBreakersAreApart(t *testing.T) {
	for _, b := range []Breaker{
		{Failures: 1},
		{Kind: BreakerCount, FailureShare: 1, Calls: 3, MinCalls: 1},
		{Kind: BreakerTime, FailureShare: 1, MinCalls: 1},
		{Kind: BreakerEMA, FailureShare: 1, Calls: 2, MinCalls: 1},
	} {
		all := newBreakers(b, 3)
		all[1].report(true, ms, 0, all[1].take(0), 0)
		if !all[0].allow(0) || all[1].allow(0) || !all[2].allow(0) {
			t.Errorf("%+v: one replica's failure shows at another", b)
		}
	}
	if newBreakers(Breaker{Kind: BreakerCount, Calls: 5}, 3) != nil || newBreakers(Breaker{}, 3) != nil {
		t.Error("a breaker that never opens is kept")
	}
	var zero breaker
	zero.report(true, ms, 0, zero.take(0), 0)
	zero.release(0, true, 0)
	if !zero.allow(0) || zero.gates(Retried) {
		t.Error("the zero breaker does something")
	}
}

// runBreaker sends attempts that end in every way and in every order, some
// never, and counts the permits beside the breaker.
func (t *tape) runBreaker(tb testing.TB) {
	conf := Breaker{
		Kind: choose(t, BreakerConsecutive, BreakerCount, BreakerTime, BreakerEMA), Failures: choose(t, 1, 2, 5, math.MaxInt),
		FailureShare: choose(t, 0.5, 0.01, 1, 0, 7, math.NaN()), Calls: choose(t, 0, 1, 3, 64, 65), Window: t.span(), MinCalls: choose(t, 0, 1, 4, -1),
		Slow: t.span(), SlowShare: choose(t, 0, 0.5, 1), Open: t.span(), OpenCap: t.span(), Permits: choose(t, 0, 1, 2, 3, -1), Need: choose(t, 0, 1, 4, -1),
		MaxWait: t.span(), Gates: choose(t, GateAll, GateRetries),
	}
	all := newBreakers(conf, 2)
	if all == nil {
		return
	}
	b := &all[1]
	type attempt struct {
		sent  clock.Time
		probe bool
	}
	var open []attempt
	now := choose(t, 0, at(-time.Hour), at(time.Hour))
	for len(t.b) > 0 {
		op := t.byte()
		pick := int(t.byte())
		switch {
		case op%8 < 3:
			passes := b.allow(now)
			if passes != b.allow(now) {
				tb.Fatalf("%+v: allow took something", conf)
			}
			if first := op&8 != 0; passes || first && !b.gates(First) {
				probe := b.take(now)
				if probe != (passes && b.state == breakerHalfOpen) {
					tb.Fatalf("%+v: passes %v, %s, probe %v", conf, passes, breakerNames[b.state], probe)
				}
				open = append(open, attempt{now, probe})
			}
		case op%8 < 6 && len(open) > 0:
			i := pick % len(open)
			a := open[i]
			open = append(open[:i], open[i+1:]...)
			switch op >> 4 % 5 {
			case 0, 1:
				b.report(false, now.Sub(a.sent), a.sent, a.probe, now)
			case 2, 3:
				b.report(true, now.Sub(a.sent), a.sent, a.probe, now)
			default:
				b.release(a.sent, a.probe, now)
			}
		default:
			now = min(now.Add(max(min(t.span(), time.Hour), 0)), clock.Never/2)
		}
		var probes uint32 // those of the present half-open state that are out
		for _, a := range open {
			if a.probe && a.sent >= b.since {
				probes++
			}
		}
		if b.state != breakerHalfOpen {
			probes = 0
		}
		if b.out != probes || b.out > b.r.permits {
			tb.Fatalf("%+v: %s with %d permits out, %d probes of %d", conf, breakerNames[b.state], b.out, probes, b.r.permits)
		}
		if b.failed > b.total || b.slow > b.total || b.failing > 1 || b.failing < 0 {
			tb.Fatalf("%+v: %d failed and %d slow of %d, shares %v, %v", conf, b.failed, b.slow, b.total, b.failing, b.slowing)
		}
	}
	// Whatever hangs, an attempt passes when long enough has gone by.
	long := max(b.span, b.r.openCap, b.r.open)
	now = now.Add(long).Add(b.r.maxWait)
	if !b.allow(now) {
		tb.Fatalf("%+v: wedged: %s until %d, %d of %d permits out since %d, at %d", conf, breakerNames[b.state], b.until, b.out, b.r.permits, b.last, now)
	}
	// And successes close it.
	for range 2*b.r.need + b.r.minCalls + 2 {
		now = now.Add(long).Add(b.r.maxWait)
		b.report(false, 0, now, b.take(now), now)
	}
	if b.state != breakerClosed {
		tb.Fatalf("%+v: %s after successes alone", conf, breakerNames[b.state])
	}
}

func FuzzBreaker(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0x20, 0, 3, 0x20, 6, 0, 3, 0, 0, 0, 0})
	f.Add([]byte{1, 0, 0, 2, 0, 1, 0, 0, 2, 4, 2, 2, 0, 1, 0, 0, 0, 0, 0, 3, 0x20, 0, 0, 3, 0x40})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) <= 2048 {
			(&tape{in}).runBreaker(t)
		}
	})
}

func TestBreakerRandom(t *testing.T) {
	randomTapes(20000, 250, func(tp *tape) { tp.runBreaker(t) })
}

func BenchmarkBreaker(b *testing.B) {
	for _, row := range []struct {
		name string
		b    Breaker
	}{
		{"none", Breaker{}},
		{"consecutive", Breaker{Failures: 5}},
		{"count", Breaker{Kind: BreakerCount, FailureShare: 0.5}},
		{"time", Breaker{Kind: BreakerTime, FailureShare: 0.5}},
		{"ema", Breaker{Kind: BreakerEMA, FailureShare: 0.5}},
	} {
		b.Run(row.name, func(b *testing.B) {
			var k breaker
			if all := newBreakers(row.b, 1); all != nil {
				k = all[0]
			}
			b.ReportAllocs()
			now := clock.Time(0)
			for i := 0; b.Loop(); i++ {
				now = now.Add(10 * time.Microsecond)
				if k.allow(now) {
					k.report(i%10 == 0, ms, now, k.take(now), now)
				}
			}
		})
	}
}
