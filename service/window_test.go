package service

import (
	"math"
	"slices"
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/draw"
)

const tick = 100 * time.Millisecond

// stormSpec is the service of the retry storm: 100 requests a tick, 50 when more
// than 150 come, none in the first minute.
func stormSpec(d Discipline) *Spec {
	return &Spec{Capacity: Capacity{Requests: 100, Per: tick}, Thrash: Thrash{Above: 150, Factor: 0.5}, Discipline: d,
		Outages: []Outage{{For: time.Minute, Ending: Ending{Status: 503}}}}
}

// storm drives a server tick by tick: 80 new requests, and the failed ones again
// delay(a) ticks after the tick in which their attempt a+1 failed, up to retries
// times each. It returns the load of each tick.
func storm(t *testing.T, spec *Spec, retries int, delay func(a int) int, ticks int) []int {
	s := New(spec, 0, 1)
	due := map[int][]Request{}
	loads := make([]int, ticks)
	call := uint64(0)
	for i := range ticks {
		from := clock.Time(i) * clock.Time(tick)
		for range 80 {
			due[i] = append(due[i], Request{Call: call, Attempt: 1, Deadline: clock.Never})
			call++
		}
		loads[i] = len(due[i])
		jobs := make([]Job, len(due[i]))
		for k, r := range due[i] {
			r.Tag = uint32(k)
			j, st := s.Begin(r, from.Add(time.Duration(k)*tick/time.Duration(len(jobs))))
			if st.Job != j || st.Due != from.Add(tick) {
				t.Fatalf("tick %d: %+v, want an answer at its end", i, st)
			}
			jobs[k] = j
		}
		for k, j := range jobs {
			r := due[i][k]
			if a, st := s.End(j, from.Add(tick)); a.Status != 200 {
				if st.Job != 0 || a.Status != 503 || i >= 600 && !a.Shed {
					t.Fatalf("tick %d: %+v and %+v, want shed with 503", i, a, st)
				}
				if age := int(r.Attempt) - 1; age < retries {
					r.Attempt++
					d := i + delay(age)
					due[d] = append(due[d], r)
				}
			}
		}
		delete(due, i)
	}
	return loads
}

// oracle is the tick model of the retry storm, six lines of counting by age:
// load = 80 + due; capacity 0 in the outage, 50 above 150, else 100; the same
// part of every age fails, to the nearest whole number; each comes again.
func oracle(retries int, delay func(a int) int, ticks int) []int {
	due, loads := map[int]map[int]int{}, make([]int, ticks)
	for t := range ticks {
		at := due[t]
		if at == nil {
			at = map[int]int{}
		}
		at[0] += 80
		load := 0
		for _, n := range at {
			load += n
		}
		capacity := 100
		if load > 150 {
			capacity = 50
		}
		if t < 600 {
			capacity = 0
		}
		loads[t] = load
		f := float64(max(0, load-capacity)) / float64(load)
		for a, n := range at {
			if k := int(math.Round(float64(n) * f)); a < retries && k > 0 {
				d := t + delay(a)
				if due[d] == nil {
					due[d] = map[int]int{}
				}
				due[d][a+1] += k
			}
		}
		delete(due, t)
	}
	return loads
}

// TestRetryStormAgainstTheTickModel: tick by tick for 90 s after the outage,
// and the peaks and recoveries of the published table.
func TestRetryStormAgainstTheTickModel(t *testing.T) {
	const ticks = 1500
	fixed := func(int) int { return 10 }
	exponential := func(a int) int { return 10 << a }
	for _, c := range []struct {
		about    string
		retries  int
		delay    func(int) int
		peak     float64
		recovers bool
	}{
		{"no retries", 0, fixed, 1, true},
		{"fixed 1 s, 5 retries", 5, fixed, 6, false},
		{"fixed 1 s, 25 retries", 25, fixed, 26, false},
		{"exponential, 3 retries", 3, exponential, 4, false},
		{"one retry", 1, fixed, 2, true},
	} {
		got, want := storm(t, stormSpec(Proportional), c.retries, c.delay, ticks), oracle(c.retries, c.delay, ticks)
		peak := 0
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: load %d in tick %d, want %d", c.about, got[i], i, want[i])
				break
			}
			if i >= 600 {
				peak = max(peak, got[i])
			}
		}
		if float64(peak)/80 != c.peak || (got[ticks-1] <= 100) != c.recovers {
			t.Errorf("%s: peak %.2f, last load %d, want peak %.2f and recovery %v", c.about, float64(peak)/80, got[ticks-1], c.peak, c.recovers)
		}
	}
}

// TestNewFirstRecovers: the discipline decides about metastability. Who serves
// first attempts first gets out of the storm that the others stay in.
func TestNewFirstRecovers(t *testing.T) {
	for _, c := range []struct {
		d        Discipline
		recovers bool
	}{{Proportional, false}, {NewFirst, true}} {
		n := uint64(0)
		full := func(a int) int { // up to 1 s x 2^a, drawn
			n++
			return max(1, int(math.Ceil(10*float64(int(1)<<a)*draw.Uniform(1, draw.Jitter, n, 0, 0))))
		}
		loads := storm(t, stormSpec(c.d), 3, full, 2400)
		peak := float64(slices.Max(loads[600:])) / 80
		if got := loads[2399] <= 100; got != c.recovers || peak < 3.9 || peak > 4.6 {
			t.Errorf("%v: peak %.2f, load %d after 180 s, want 3.9 to 4.6 and recovery %v", c.d, peak, loads[2399], c.recovers)
		}
	}
}

// TestWindow: three of six requests are served, by discipline.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		about    string
		d        Discipline
		attempts [6]uint32
		thrash   Thrash
		served   string // s served, x shed, by order of arrival; ? for chance
		n        int
	}{
		{"the first to come", FIFO, [6]uint32{1, 2, 1, 2, 1, 2}, Thrash{}, "sssxxx", 3},
		{"the last to come", LIFO, [6]uint32{1, 2, 1, 2, 1, 2}, Thrash{}, "xxxsss", 3},
		{"first attempts before others", NewFirst, [6]uint32{2, 1, 3, 1, 2, 2}, Thrash{}, "ssxsxx", 3},
		{"of each number the same part", Proportional, [6]uint32{1, 1, 1, 1, 2, 2}, Thrash{}, "??????", 3},
		{"half of that when overloaded", FIFO, [6]uint32{1, 1, 1, 1, 1, 1}, Thrash{5, 0.5}, "ssxxxx", 2},
		{"all of it when just not", FIFO, [6]uint32{1, 1, 1, 1, 1, 1}, Thrash{6, 0.5}, "sssxxx", 3},
		{"one age from 64 on", NewFirst, [6]uint32{64, 1 << 31, 99, 65, 1, 64}, Thrash{}, "ssxxsx", 3},
	} {
		spec := &Spec{Capacity: Capacity{Requests: 3, Per: tick}, Discipline: c.d, Thrash: c.thrash, Shed: 429, RetryAfter: time.Second}
		if err := spec.Validate(); err != nil {
			t.Fatal(err)
		}
		s := New(spec, 0, 1)
		var jobs [6]Job
		for i, a := range c.attempts {
			r := first(uint32(i), uint64(i))
			r.Attempt = a
			jobs[i], _ = s.Begin(r, clock.Time(i))
		}
		if s.Busy() != 6 || s.Waiting() != 0 || s.Backlog(6) != 2*tick {
			t.Errorf("%s: busy %d, waiting %d, backlog %v", c.about, s.Busy(), s.Waiting(), s.Backlog(6))
		}
		got, n := make([]byte, 6), 0
		for i, j := range jobs {
			a, _ := s.End(j, clock.Time(tick))
			switch {
			case a.Status == 200 && !a.Shed && a.RetryAfter == 0:
				got[i] = 's'
				n++
			case a.Status == 429 && a.Shed && a.RetryAfter == time.Second:
				got[i] = 'x'
			default:
				t.Fatalf("%s: %+v", c.about, a)
			}
			if c.served[i] != '?' && c.served[i] != got[i] {
				t.Errorf("%s: %s, want %s", c.about, got, c.served)
			}
		}
		if n != c.n || s.Busy() != 0 {
			t.Errorf("%s: %d served, busy %d, want %d", c.about, n, s.Busy(), c.n)
		}
	}
}

// TestWindowEdges: which window a request belongs to.
func TestWindowEdges(t *testing.T) {
	spec := &Spec{Capacity: Capacity{Requests: 1, Per: 100}, Cancel: CancelQueued}
	t.Run("windows lie side by side from the mark, also before it", func(t *testing.T) {
		s := New(spec, 0, 1)
		s.Mark(1030)
		for _, c := range []struct{ at, end clock.Time }{{1030, 1130}, {1129, 1130}, {1130, 1230}, {1029, 1030}, {930, 1030}, {929, 930}, {0, 30}} {
			if got := s.window.endOf(s.base, c.at); got != c.end {
				t.Errorf("a request at %d: window to %d, want %d", c.at, got, c.end)
			}
		}
	})
	t.Run("a driver that is late has the window decided by the next request", func(t *testing.T) {
		s := New(spec, 0, 1)
		a, _ := s.Begin(first(1, 1), 10)
		b, _ := s.Begin(first(2, 2), 20)
		c, st := s.Begin(first(3, 3), 110)
		if st.Due != 200 || s.Busy() != 1 {
			t.Errorf("the third: %+v, busy %d, want an answer at 200", st, s.Busy())
		}
		for i, j := range []Job{b, a, c} {
			if ans, _ := s.End(j, 100); (ans.Status == 200) != (i > 0) {
				t.Errorf("answer %d: %+v", i, ans)
			}
		}
	})
	t.Run("who comes when the window is decided belongs to the next", func(t *testing.T) {
		s := New(spec, 0, 1)
		a, _ := s.Begin(first(1, 1), 10)
		s.End(a, 100)
		if _, st := s.Begin(first(2, 2), 99); st.Due != 200 {
			t.Errorf("%+v, want an answer at 200", st)
		}
	})
	t.Run("a caller that leaves makes room", func(t *testing.T) {
		s := New(spec, 0, 1)
		a, _ := s.Begin(first(1, 1), 10)
		b, _ := s.Begin(first(2, 2), 20)
		if dropped, _ := s.Cancel(a, 30); !dropped || s.Busy() != 1 {
			t.Fatalf("dropped %v, busy %d", dropped, s.Busy())
		}
		if ans, _ := s.End(b, 100); ans.Status != 200 {
			t.Errorf("%+v, want 200", ans)
		}
	})
	t.Run("a new mark ends the windows before it", func(t *testing.T) {
		s := New(spec, 0, 1)
		a, _ := s.Begin(first(1, 1), 10)
		s.Mark(50)
		b, st := s.Begin(first(2, 2), 60)
		if st.Due != 150 {
			t.Errorf("%+v, want an answer at 150", st)
		}
		for _, j := range []Job{a, b} {
			if ans, _ := s.End(j, 150); ans.Status != 200 {
				t.Errorf("%+v, want 200", ans)
			}
		}
	})
	t.Run("standing still for half of a window leaves half of it", func(t *testing.T) {
		x := *spec
		x.Capacity.Requests = 8
		x.Stalls = []Stall{{At: 70, For: Constant(80)}}
		s := New(&x, 0, 1)
		served := func(at, due clock.Time) (n int) {
			var jobs [10]Job
			for i := range jobs {
				j, st := s.Begin(first(uint32(i), uint64(i)), at)
				if jobs[i] = j; st.Due != due {
					t.Errorf("at %d: %+v, want an answer at %d", at, st, due)
				}
			}
			for _, j := range jobs {
				if a, _ := s.End(j, due); a.Status == 200 {
					n++
				}
			}
			return n
		}
		if a, b := served(10, 150), served(160, 200); a != 5 || b != 4 {
			t.Errorf("%d and %d served, want 5 (70 %% of 8) and 4 (50 %%)", a, b)
		}
	})
}

// TestThrash: one slot, times of 10 ns, half of the speed above two requests.
func TestThrash(t *testing.T) {
	s := New(&Spec{Time: Constant(10), Slots: 1, Queue: -1, Thrash: Thrash{Above: 2, Factor: 0.5}}, 0, 1)
	job, st := s.Begin(first(0, 0), 0)
	for i := range uint32(3) {
		s.Begin(first(i+1, uint64(i)), 1)
	}
	for i, due := range []clock.Time{10, 30, 40, 50} { // the second starts while three are there
		if st.Due != due {
			t.Errorf("request %d is done at %d, want %d", i, st.Due, due)
		}
		_, next := s.End(job, st.Due)
		job, st = next.Job, next
	}
}

func TestWindowDoesNotAllocate(t *testing.T) {
	for d := FIFO; d <= NewFirst; d++ {
		spec := stormSpec(d)
		s := New(spec, 0, 1)
		now := clock.Time(2 * time.Minute)
		var jobs [300]Job
		round := func() {
			for i := range jobs {
				jobs[i], _ = s.Begin(Request{Call: uint64(i), Attempt: 1 + uint32(i%5), Deadline: clock.Never}, now)
			}
			now = now.Add(tick)
			for _, j := range jobs {
				s.End(j, now)
			}
		}
		round()
		if n := testing.AllocsPerRun(20, round); n != 0 {
			t.Errorf("%v: %v allocations a window, want none", d, n)
		}
	}
}

// BenchmarkWindow serves windows of 300 requests, of which 50 are served.
func BenchmarkWindow(b *testing.B) {
	s := New(stormSpec(Proportional), 0, 1)
	now := clock.Time(2 * time.Minute)
	var jobs [300]Job
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for i := range jobs {
			jobs[i], _ = s.Begin(Request{Call: uint64(i), Attempt: 1 + uint32(i%5), Deadline: clock.Never}, now)
		}
		now = now.Add(tick)
		for _, j := range jobs {
			s.End(j, now)
		}
		n += len(jobs)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/request")
}
