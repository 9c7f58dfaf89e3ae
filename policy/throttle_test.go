package policy

import (
	"math"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

func TestThrottleChance(t *testing.T) {
	book := Throttle{K: 2}
	tests := []struct {
		why               string
		t                 Throttle
		requests, accepts int
		want              float64
	}{
		{"nothing was asked", book, 0, 0, 0},
		{"all is accepted", book, 100, 100, 0},
		{"half is accepted, and K is 2", book, 100, 50, 0},
		{"a quarter is accepted", book, 99, 25, 0.49},
		{"nothing is accepted", book, 99, 0, 0.99},
		{"the first failure of all", book, 1, 0, 0.5},
		{"a smaller K rejects sooner", Throttle{K: 1.25}, 99, 60, 0.24},
		{"a larger pad rejects later", Throttle{K: 2, Pad: 100}, 100, 0, 0.5},
		{"no more than the most", Throttle{K: 2, Max: 0.75}, 999, 0, 0.75},
		{"more were accepted than asked for in the window", book, 10, 30, 0},
		{"below the least rate: 5/s are 600 in 2 min", Throttle{K: 2, MinRate: 5}, 599, 0, 0},
		{"at the least rate", Throttle{K: 2, MinRate: 5}, 600, 0, 600.0 / 601},
		{"the zero throttle", Throttle{}, 100, 0, 0},
	}
	for _, tt := range tests {
		s := newThrottle(tt.t)
		for range tt.requests {
			s.request(0, 1)
		}
		for range tt.accepts {
			s.accepted(0)
		}
		if got := s.chance(); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", tt.why, got, tt.want)
		}
	}
}

// A rejected call counts among the requests, at once (go-zero#5011): without an
// answer the probability rises with each, and it falls only with the window.
func TestThrottleCountsWhatItRejects(t *testing.T) {
	s := newThrottle(Throttle{K: 2})
	if s.request(0, 0) {
		t.Error("the first call of all is rejected")
	}
	for i := 1; i < 50; i++ {
		if want := float64(i) / float64(i+1); s.chance() != want {
			t.Fatalf("after %d calls: %v, want %v", i, s.chance(), want)
		}
		if !s.request(0, 0) {
			t.Fatalf("call %d passes with the smallest draw", i)
		}
	}
	if s.request(0, 0.999) {
		t.Error("a call is rejected with the largest draw")
	}
	s.turn(at(2*time.Minute - 1))
	if s.requests != 51 {
		t.Errorf("%d requests at the end of the window, want 51", s.requests)
	}
	s.turn(at(2 * time.Minute))
	if s.chance() != 0 {
		t.Errorf("%v after the window", s.chance())
	}
}

// In the steady state a service that accepts a rate a of the calls gets K*a of
// them: SRE book ch. 21, "the ratio of requests to accepts is held at K".
func TestThrottleSettles(t *testing.T) {
	for _, k := range []float64{1.5, 2, 4} {
		s := newThrottle(Throttle{K: k})
		now := clock.Time(0)
		var sent, calls float64
		const capacity = 10 // calls of 100 that are accepted
		for second := range 400 {
			taken := 0
			for i := range 100 {
				now = now.Add(10 * time.Millisecond)
				u := draw.Uniform(1, draw.Jitter, uint64(second*100+i), 0, 0)
				measured := second >= 200
				if measured {
					calls++
				}
				if s.request(now, u) {
					continue
				}
				if measured {
					sent++
				}
				if taken++; taken <= capacity {
					s.accepted(now)
				}
			}
		}
		if got, want := sent/calls, k*capacity/100; math.Abs(got-want) > 0.1*want {
			t.Errorf("K %v: a share of %.3f is sent, want about %.3f", k, got, want)
		}
	}
}

// runThrottle holds the counts and the chance of a throttle in their ranges.
func (t *tape) runThrottle(tb testing.TB) {
	conf := Throttle{K: choose(t, 2, 1, 1.1, 0, math.Inf(1), math.NaN(), 1e308), Pad: choose(t, 0, 1, 10, -1, math.NaN()), Window: t.span(),
		Max: choose(t, 0, 0.75, 1, 2, math.NaN()), MinRate: choose(t, 0, 5, 1e300, math.NaN())}
	s := newThrottle(conf)
	now := choose(t, 0, at(-time.Hour), clock.Never-at(time.Hour))
	for len(t.b) > 0 {
		switch t.byte() & 3 {
		case 0, 1:
			u := float64(t.byte()) / 256
			p := -1.0
			if s.k != 0 {
				s.turn(now)
				p = s.chance()
			}
			if reject := s.request(now, u); reject != (u < p) {
				tb.Fatalf("%+v: chance %v, draw %v: rejected is %v", conf, p, u, reject)
			}
		case 2:
			s.accepted(now)
		default:
			now = min(now.Add(max(t.span(), 0)), clock.Never-1)
		}
		if p := s.chance(); !(p >= 0 && p <= 1) {
			tb.Fatalf("%+v: chance %v of %d requests, %d accepts", conf, p, s.requests, s.accepts)
		}
		var requests, accepts uint64
		for _, part := range s.parts {
			requests += part.requests
			accepts += part.accepts
		}
		if requests != s.requests || accepts != s.accepts {
			tb.Fatalf("%+v: %d requests and %d accepts, in parts %d and %d", conf, s.requests, s.accepts, requests, accepts)
		}
	}
}

func FuzzThrottle(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 2, 3, 9, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) <= 2048 {
			(&tape{in}).runThrottle(t)
		}
	})
}

func TestThrottleRandom(t *testing.T) {
	randomTapes(5000, 150, func(tp *tape) { tp.runThrottle(t) })
}

func BenchmarkThrottle(b *testing.B) {
	s := newThrottle(Throttle{K: 2})
	b.ReportAllocs()
	now := clock.Time(0)
	for b.Loop() {
		now = now.Add(10 * time.Microsecond)
		if !s.request(now, 0.999) {
			s.accepted(now)
		}
	}
}
