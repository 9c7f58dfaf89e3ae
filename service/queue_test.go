package service

import (
	"math"
	"testing"
)

// TestProportionalIsFair: whichever of the requests that wait is served next,
// each place among them comes up as often as the other.
func TestProportionalIsFair(t *testing.T) {
	const waiting, rounds = 8, 20_000
	s := New(&Spec{Slots: 1, Queue: -1, Discipline: Proportional, Cancel: CancelQueued}, 3, 7)
	running, _ := s.Begin(first(99, 99), 0)
	var served [waiting]int
	for range rounds {
		var jobs [waiting + 2]Job
		for i := range jobs {
			jobs[i], _ = s.Begin(first(uint32(i), uint64(i)), 0)
		}
		s.Cancel(jobs[3], 0) // leaves a gap that another must fill
		s.Cancel(jobs[9], 0)
		_, st := s.End(running, 0)
		i := st.Tag
		if i > 3 {
			i--
		}
		served[i]++
		for s.Waiting() > 0 {
			_, st = s.End(st.Job, 0)
		}
		running = st.Job
	}
	chi := 0.0
	for _, n := range served {
		d := float64(n) - rounds/waiting
		chi += d * d / (rounds / waiting)
	}
	if limit := 7 + 4*math.Sqrt(14); chi > limit { // mean and 4 standard deviations of 7 degrees of freedom
		t.Errorf("served by place %v: chi-square %.1f, want at most %.1f", served, chi, limit)
	}
}

// TestProportionalSharesByAttempt: among 600 first attempts and 200 retries that
// wait, a quarter of those served are retries; with new-first none is until all
// first attempts are.
func TestProportionalSharesByAttempt(t *testing.T) {
	for _, c := range []struct {
		about      string
		discipline Discipline
		low, high  int // retries among the first 400 served
	}{
		{"each equally likely", Proportional, 75, 125},
		{"first attempts before retries", NewFirst, 0, 0},
		{"the last to come are retries", LIFO, 200, 200},
		{"the first to come are first attempts", FIFO, 0, 0},
	} {
		s := New(&Spec{Slots: 1, Queue: -1, Discipline: c.discipline}, 0, 1)
		job, _ := s.Begin(first(0, 0), 0)
		for i := range uint64(800) {
			r := first(uint32(i), i)
			if i >= 600 {
				r.Attempt = 2
			}
			s.Begin(r, 0)
		}
		retries := 0
		for range 400 {
			_, st := s.End(job, 0)
			job = st.Job
			if st.Tag >= 600 {
				retries++
			}
		}
		if retries < c.low || retries > c.high {
			t.Errorf("%s: %d of 400 served are retries, want %d to %d", c.about, retries, c.low, c.high)
		}
	}
}

// BenchmarkQueue serves and replaces one of 100,000 requests that wait.
func BenchmarkQueue(b *testing.B) {
	for _, d := range []Discipline{FIFO, LIFO, Proportional, NewFirst} {
		b.Run(d.String(), func(b *testing.B) {
			s := New(&Spec{Slots: 1, Queue: -1, Discipline: d}, 0, 1)
			job, _ := s.Begin(first(0, 0), 0)
			for i := range uint64(100_000) {
				s.Begin(first(0, i), 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				_, st := s.End(job, 0)
				s.Begin(first(0, 1), 0)
				job = st.Job
			}
		})
	}
}
