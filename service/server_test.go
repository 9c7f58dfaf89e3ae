package service

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"latencylab/clock"
)

var update = flag.Bool("update", false, "write the golden traces anew")

// TestGoldenTraces runs the scripts in testdata: lines "INSTANT begin TAG CALL
// [ATTEMPT [DEADLINE]]", "INSTANT cancel TAG" and "INSTANT end TAG", instants in
// ms; the answers stand below each line. The first lines set the spec.
func TestGoldenTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := trace(t, string(data))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(data) {
				t.Errorf("trace differs; -update writes it anew. Got:\n%s", got)
			}
		})
	}
}

func trace(t *testing.T, script string) string {
	var out strings.Builder
	spec := Spec{Queue: -1}
	var s *Server
	jobs := map[uint32]Job{}
	step := func(st Step) {
		if st.Job != 0 {
			fmt.Fprintf(&out, "    starts %d, due %d ms\n", st.Tag, st.Due/1e6)
		}
	}
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "    ") {
			continue // an answer of the last run
		}
		out.WriteString(line + "\n")
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if f[0] == "spec" {
			setSpec(t, &spec, f[1], f[2])
			continue
		}
		if s == nil {
			if err := spec.Validate(); err != nil {
				t.Fatal(err)
			}
			s = New(&spec, 0, 1)
		}
		ms, _ := strconv.Atoi(f[0])
		now, tag := clock.Time(ms)*1e6, uint32(number(t, f[2]))
		switch f[1] {
		case "begin":
			r := first(tag, number(t, f[3]))
			if len(f) > 4 {
				r.Attempt = uint32(number(t, f[4]))
			}
			if len(f) > 5 {
				r.Deadline = clock.Time(number(t, f[5])) * 1e6
			}
			j, st := s.Begin(r, now)
			jobs[tag] = j
			step(st)
		case "end":
			a, st := s.End(jobs[tag], now)
			if a.Fault != FaultNone {
				fmt.Fprintf(&out, "    ends %d: %v\n", a.Tag, a.Fault)
			} else {
				fmt.Fprintf(&out, "    answers %d: status %d, retry after %v, body %d, drawn %v\n", a.Tag, a.Status, a.RetryAfter, a.Body, a.Drawn)
			}
			step(st)
		case "cancel":
			dropped, st := s.Cancel(jobs[tag], now)
			fmt.Fprintf(&out, "    dropped %v\n", dropped)
			if st.Job != 0 && st.Job == jobs[tag] {
				fmt.Fprintf(&out, "    holds its slot until %d ms\n", st.Due/1e6)
			} else {
				step(st)
			}
		default:
			t.Fatalf("unknown word %q", f[1])
		}
		fmt.Fprintf(&out, "    busy %d, waiting %d\n", s.Busy(), s.Waiting())
	}
	return out.String()
}

// first is the first attempt of a call without a deadline.
func first(tag uint32, call uint64) Request {
	return Request{Tag: tag, Call: call, Attempt: 1, Deadline: clock.Never}
}

func number(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func setSpec(t *testing.T, spec *Spec, key, value string) {
	n, _ := strconv.Atoi(value)
	switch key {
	case "time":
		spec.Time = mustParse(t, value)
	case "slots":
		spec.Slots = n
	case "queue":
		spec.Queue = n
	case "discipline":
		d, ok := DisciplineNamed(value)
		if !ok {
			t.Fatalf("unknown discipline %q", value)
		}
		spec.Discipline = d
	case "shed":
		spec.Shed = uint16(n)
	case "body":
		spec.Body = n
	case "retry-after":
		spec.RetryAfter = time.Duration(n) * time.Second
	case "cancel-cost":
		spec.CancelCost = time.Duration(n) * time.Millisecond
	case "deadline":
		d, ok := DeadlineNamed(value)
		if !ok {
			t.Fatalf("unknown deadline %q", value)
		}
		spec.Deadline = d
	case "status":
		spec.Status = []StatusShare{{uint16(n), 1}}
	case "cancel":
		c, ok := CancelNamed(value)
		if !ok {
			t.Fatalf("unknown cancel %q", value)
		}
		spec.Cancel = c
	default:
		t.Fatalf("unknown key %q", key)
	}
}

func TestServerPanicsOnADriversBug(t *testing.T) {
	for _, c := range []struct {
		about string
		do    func(s *Server, j Job)
	}{
		{"an end twice", func(s *Server, j Job) { s.End(j, 1); s.End(j, 1) }},
		{"an end of a job that waits", func(s *Server, _ Job) { j, _ := s.Begin(first(2, 2), 0); s.End(j, 1) }},
		{"job 0", func(s *Server, _ Job) { s.Cancel(0, 1) }},
		{"a job that never was", func(s *Server, _ Job) { s.End(99, 1) }},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", c.about)
				}
			}()
			s := New(&Spec{Slots: 1, Queue: -1}, 0, 1)
			j, _ := s.Begin(first(1, 1), 0)
			c.do(s, j)
		}()
	}
}

func TestServerDoesNotAllocate(t *testing.T) {
	dist := mustParse(t, "exponential(1ms)")
	fails := Ending{Status: 503}
	for _, c := range []struct {
		about string
		spec  Spec
	}{
		{"a queue", Spec{Time: dist, Slots: 2, Queue: -1, Cancel: CancelQueued, Status: []StatusShare{{503, 0.1}}}},
		{"any order, stopping at a cost", Spec{Time: dist, Slots: 2, Queue: -1, Discipline: Proportional, Cancel: CancelRunning, CancelCost: 1, Deadline: DeadlineRunning}},
		{"schedules", Spec{Time: dist, Outages: []Outage{{For: 1, Every: 3, Ending: fails}}, Stalls: []Stall{{Every: 1e9, For: dist, Apart: true}}}},
		{"slow moments and faults", Spec{Time: dist, Slow: Slow{Share: 0.5, Factor: 3, By: SlowByWindow, Window: 1e6}, Copies: CopiesMixed, Faults: Faults{FaultReset: {Share: 0.1}}, Thrash: Thrash{1, 0.5}}},
		{"a window", Spec{Capacity: Capacity{1, 1e6}, Cancel: CancelQueued, Discipline: Proportional}},
		{"ramps", Spec{Time: dist, Slots: 2, Queue: 3, Ramps: []Ramp{{Key: "slots", To: 3, For: 1e6, Every: 2e6}, {Key: "factor", To: 2, For: 1e9}, {Key: "status.503", To: 0.5, For: 1e9}, {Key: "fault.reset", To: 0.5, For: 1e9}}}},
		{"a script", Spec{Time: dist, Script: []Ending{fails, {Fault: FaultRefuse}, {Status: 200}}}},
	} {
		if err := c.spec.Validate(); err != nil {
			t.Fatal(err)
		}
		s := New(&c.spec, 0, 1)
		var open []Step // what has started
		begin := func(call uint64, attempt uint32, now clock.Time) (Job, bool) {
			j, st := s.Begin(Request{Tag: attempt, Call: call, Attempt: attempt, Conn: call, Deadline: now + 5e5}, now)
			if st.Job != 0 {
				open = append(open, st)
			}
			return j, st.Job != 0
		}
		now, call := clock.Time(0), uint64(0)
		round := func() {
			begin(call, 1, now)
			begin(call, 2, now)
			j, started := begin(call, 3, now)
			if dropped, st := s.Cancel(j, now); dropped && started {
				open = open[:len(open)-1]
				if st.Job != 0 {
					open = append(open, st)
				}
			}
			for len(open) > 0 {
				st := open[0]
				open = open[:copy(open, open[1:])]
				now = max(now, st.Due)
				if _, next := s.End(st.Job, now); next.Job != 0 {
					open = append(open, next)
				}
			}
			call++
		}
		round()
		if n := testing.AllocsPerRun(1000, round); n != 0 {
			t.Errorf("%s: %v allocations a round, want none", c.about, n)
		}
	}
}

func BenchmarkServer(b *testing.B) {
	s := New(&Spec{Time: mustParse(b, "uniform(20ms,60ms)"), Slow: Slow{Share: 0.02, Time: Constant(time.Second)}, Slots: 1, Queue: -1}, 0, 1)
	b.ReportAllocs()
	call := uint64(0)
	for b.Loop() {
		j, st := s.Begin(Request{Tag: 0, Call: call, Attempt: 1, Deadline: clock.Never}, 0)
		s.End(j, st.Due)
		call++
	}
}

// TestJobIsSmall: a queue of a million costs as many of these.
func TestJobIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(job{}); n > 48 {
		t.Errorf("a job takes %d bytes, want at most 48", n)
	}
}
