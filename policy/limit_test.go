package policy

import (
	"math"
	"testing"
	"time"
)

func TestLimit(t *testing.T) {
	aimd := Limit{Min: 4, Max: 20, Initial: 10}
	tests := []struct {
		why   string
		l     Limit
		begin int // attempts that are asked for
		ends  []limitEnd
		took  time.Duration
		limit int // afterwards
		left  int // still in flight
	}{
		{"the zero limit admits everything", Limit{}, 1000, nil, 0, 0, 0},
		{"a fixed limit", Limit{Max: 3}, 5, nil, 0, 3, 3},
		{"a fixed limit stays after a drop", Limit{Max: 3}, 3, []limitEnd{limitDropped}, 0, 3, 2},
		{"it starts at its least", Limit{Min: 4, Max: 20}, 9, nil, 0, 4, 4},
		{"it starts where it is told", aimd, 12, nil, 0, 10, 10},
		{"it starts at no more than its most", Limit{Min: 1, Max: 5, Initial: 50}, 9, nil, 0, 5, 5},
		{"it starts at no less than its least", Limit{Min: 4, Max: 5, Initial: 1}, 9, nil, 0, 4, 4},
		{"a drop leaves nine tenths", aimd, 10, []limitEnd{limitDropped}, 0, 9, 9},
		{"rounded down", aimd, 10, []limitEnd{limitDropped, limitDropped}, 0, 8, 8},
		{"not below its least", aimd, 10, []limitEnd{limitDropped, limitDropped, limitDropped, limitDropped, limitDropped, limitDropped,
			limitDropped, limitDropped, limitDropped, limitDropped}, 0, 4, 0},
		{"a backoff of its own", Limit{Min: 1, Max: 20, Initial: 10, Backoff: 0.5}, 10, []limitEnd{limitDropped}, 0, 5, 9},
		{"an answer adds 1 while half is in use", aimd, 5, []limitEnd{limitServed}, 0, 11, 4},
		{"and none below", aimd, 4, []limitEnd{limitServed}, 0, 10, 3},
		{"not above its most", Limit{Min: 1, Max: 10, Initial: 10}, 10, []limitEnd{limitServed}, 0, 10, 9},
		{"a slow answer is a drop", aimd, 10, []limitEnd{limitServed}, 5*time.Second + 1, 9, 9},
		{"one that takes just the timeout is not", aimd, 10, []limitEnd{limitServed}, 5 * time.Second, 11, 9},
		{"what is ignored changes nothing", aimd, 10, []limitEnd{limitIgnored}, time.Hour, 10, 9},
	}
	for _, tt := range tests {
		l := newLimit(tt.l)
		admitted := 0
		for range tt.begin {
			if l.take() {
				admitted++
			}
		}
		if !tt.l.limits() {
			if admitted != tt.begin {
				t.Errorf("%s: admitted %d of %d", tt.why, admitted, tt.begin)
			}
			continue
		}
		for _, how := range tt.ends {
			l.end(how, tt.took)
		}
		if l.now != tt.limit || l.inflight != tt.left {
			t.Errorf("%s: limit %d with %d in flight, want %d with %d", tt.why, l.now, l.inflight, tt.limit, tt.left)
		}
	}
}

// runLimit takes and ends at random and counts beside the limit.
func (t *tape) runLimit(tb testing.TB) {
	conf := Limit{Max: choose(t, 0, 1, 3, 200, -1, math.MaxInt), Min: choose(t, 0, 1, 20, -1, math.MaxInt), Initial: choose(t, 0, 2, 50, -1, math.MaxInt),
		Backoff: choose(t, 0, 0.9, 0.1, 1, math.NaN()), Timeout: t.span()}
	l := newLimit(conf)
	open := 0
	for len(t.b) > 0 {
		if t.byte()&1 == 0 {
			was := l.now
			ok := l.allow()
			if ok != l.take() || ok != (was == 0 || open < was) {
				tb.Fatalf("%+v: %d of %d in flight: allowed is %v", conf, open, was, ok)
			}
			if ok {
				open++
			}
		} else if open > 0 {
			open--
			l.end(choose(t, limitServed, limitDropped, limitIgnored), t.span())
		}
		if l.inflight != open && conf.limits() {
			tb.Fatalf("%+v: %d in flight, want %d", conf, l.inflight, open)
		}
		if l.now < min(l.least, 1) || l.now > l.most || l.least > 0 && l.now < l.least {
			tb.Fatalf("%+v: limit %d outside %d..%d", conf, l.now, l.least, l.most)
		}
	}
}

func FuzzLimit(f *testing.F) {
	f.Add([]byte{3, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) <= 2048 {
			(&tape{in}).runLimit(t)
		}
	})
}

func TestLimitRandom(t *testing.T) {
	randomTapes(5000, 150, func(tp *tape) { tp.runLimit(t) })
}

func BenchmarkLimit(b *testing.B) {
	l := newLimit(Limit{Min: 10, Max: 100})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if l.take() {
			l.end(limitEnd(i%10/9), ms)
		}
	}
}

// Nothing is allocated once a client's guards are made.
func TestGuardsDoNotAllocate(t *testing.T) {
	p := Policy{Budget: Budget{Kind: BudgetWindow, Deposit: 0.2}, Hedge: Hedge{Budget: Budget{Deposit: 0.1}}}
	f := newFunds(&p)
	th := newThrottle(Throttle{K: 2})
	l := newLimit(Limit{Max: 10, Min: 1})
	var all []breaker
	for _, b := range []Breaker{{Failures: 2}, {Kind: BreakerCount, FailureShare: 0.5}, {Kind: BreakerTime, FailureShare: 0.5}, {Kind: BreakerEMA, FailureShare: 0.5}} {
		all = append(all, newBreakers(b, 1)...)
	}
	now := at(0)
	buf := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(100 * ms)
		f.call(now)
		if cost, ok := f.take(Hedged, causeTimeout, now); ok {
			f.dropped(Hedged, cost, now)
		}
		f.failed()
		f.succeeded(0, now)
		f.over()
		if !th.request(now, 0.5) {
			th.accepted(now)
		}
		if l.take() {
			l.end(limitDropped, ms)
		}
		for i := range all {
			if b := &all[i]; b.allow(now) {
				b.report(now%3 == 0, ms, now, b.take(now), now)
			}
		}
		for w := WireNone; w < wires; w++ {
			buf = w.Append(buf[:0], time.Duration(now), int64(now))
		}
		if _, _, err := WireGRPC.Parse("1500m", 0); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
