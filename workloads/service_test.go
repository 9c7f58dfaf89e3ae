package workloads

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/clock"
	"latencylab/draw"
	"latencylab/histo"
	"latencylab/service"
)

// FuzzService: a service file is read or refused in one line; what was read is
// written, reads back equal, and serves.
func FuzzService(f *testing.F) {
	for _, s := range []string{
		"replicas: 3\ntime: uniform(1ms,9ms)\nslow: {share: 10%, factor: 7, by: window, window: 5ms}\ncopies: mixed\nslots: 2\nqueue: 4\ndiscipline: proportional\nshed: 429\ncancel: running\ncancel-cost: 2ms\ndeadline: running\n",
		"time: sequence(3ms,1ms)\nstall: {every: 9ms, for: sequence(1ms,2ms)}\nslow: {share: 1%, time: hdr(HISTFAAAAC54nJJpmSzMwMDAxQABzFCakYGB2c1gxwIG+w8QgfbLjEx/5UEIEAAA//+RZAfu)}\n",
		"capacity: {requests: 5, per: 10ms}\nthrash: {above: 7, factor: 50%}\ndiscipline: new-first\ndeadline: queued\nretry-after: 1s\ncancel: queued\n",
		"time: exponential(2ms)\nfault: {refuse: 1%, reset: 2%, hang: 3%}\nstatus: {503: 1%}\noutage: [{at: 5ms, for: 5ms, every: 20ms, kind: hang, replicas: [0]}, {for: 1ms}]\nreplicas: 2\n",
		"time: 1ms\nscript: [503, reset, refuse, hang, 200]\nstall: [{every: 9ms, for: exponential(2ms), together: false}, {at: 1ms, for: 3ms}]\ncopies: same\n",
		"time: normal(1ms,1ms)\nslow: {share: 50%, time: pareto(1ms,1.5), by: connection}\nslots: 1\ndiscipline: lifo\nthrash: {above: 0, factor: 10%}\neach: {replica: 0, factor: 3}\n",
		"time: exponential(2ms)\nslots: 2\nqueue: 3\nslow: {share: 0%, factor: 9}\nramp: [{key: slots, to: 5, at: 5ms, for: 20ms}, {key: slots, from: 5, to: 1, at: 40ms, for: 9ms, steps: 3, every: 10ms}, {key: factor, to: 2.5, for: 30ms}, {key: slow.share, to: 50%}, {key: queue, to: 0}, {key: status.503, to: 10%, for: 1s}, {key: fault.hang, from: 1%, to: 0%}]\n",
		"capacity: {requests: 5, per: 10ms}\nramp: {key: capacity.requests, from: 1, to: 9, for: 90ms}\n",
		"replicas: 3\ntime: 2ms\nslots: 2\nqueue: 3\nstall: {every: 9ms, for: 1ms}\neach: [{replica: 2, slots: 1, factor: 2, fault: {reset: 50%}, stall: none}, {replica: 1, time: 1ms, cancel: running}, {replica: 0, slots: none, queue: none, time: none, capacity: {requests: 2, per: 5ms}, body: 1KiB}]\n",
		"time: 1ms\nbody: 100B\nfault: {close: 1%, head-truncated: {share: 2%, at: 25%}, body-stall: {at: 0%}, body-drip: {share: 3%, interval: 2ms, bytes: 7B}, body-reset: 1%, chunk-cut: 1%}\noutage: {for: 9ms, kind: body-stall, share: 20%}\n",
		"time: 1ms\nbody: 100B\nscript: [head-drip, interim, bad-status-line, bad-header, duplicate-length, length-short, length-long, close-after, close-on-reuse, accept-reset, accept-silence, tls-stall, tls-expired, 200]\noutage: {for: 4ms, kind: no-accept}\nscript-key: X-Key\nfault: {interim: {status: 102, times: 3, interval: 1ms}, head-drip: {bytes: 3B}, length-long: {bytes: 1B}}\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sp, err := (&file{what: "service", name: "s.yaml", read: readNothing}).decodeService([]byte(text))
		if err != nil {
			if s := err.Error(); !strings.HasPrefix(s, "read service: s.yaml") || strings.ContainsAny(s, "\n\r") {
				t.Fatalf("error %q", s)
			}
			return
		}
		for one := range sp.All() {
			one.Replicas = one.Servers()
		}
		data, err := MarshalService(sp)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseService("again.yaml", data)
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		if diff := cmp.Diff(sp, again); diff != "" {
			t.Fatalf("(-first +again)\n%s\nin\n%s", diff, data)
		}
		serve(t, sp)
	})
}

// serve drives one replica with requests and callers that leave, and wants an
// end of each, at its due instant and in order of time.
func serve(t *testing.T, sp *service.Spec) {
	s := service.New(sp, sp.Servers()-1, 1)
	s.Mark(3e6)
	due, jobs := map[uint32]clock.Time{}, map[uint32]service.Job{}
	now, ended, wakes := clock.Time(0), 0, 0
	step := func(st service.Step) {
		if st.Job == 0 {
			return
		}
		if st.Due < now || jobs[st.Tag] != st.Job {
			t.Fatalf("%+v at %d", st, now)
		}
		due[st.Tag] = st.Due
	}
	end := func(until clock.Time) {
		for {
			first, at := uint32(0), clock.Never
			for tag, d := range due { // order does not show: the least of a total order
				if d < at || d == at && (first == 0 || tag < first) {
					first, at = tag, d
				}
			}
			if wake := s.Wake(); wake <= min(until, at-1) && wakes < 10_000 {
				wakes++
				now = max(now, wake)
				step(s.Advance(now))
				continue
			}
			if first == 0 || at > until || at == clock.Never {
				return
			}
			now = max(now, at)
			a, st := s.End(jobs[first], at)
			if a.Tag != first || a.Fault == service.FaultNone && (a.Status < 200 || a.Status > 599) {
				t.Fatalf("%+v of %d at %d", a, first, now)
			}
			delete(due, first)
			delete(jobs, first)
			ended++
			step(st)
		}
	}
	const n = 60
	for i := range uint32(n) {
		tag, at := i+1, now.Add(time.Duration(draw.Bits(1, draw.Arrival, uint64(i), 0, 0)%2e6))
		end(at)
		now = at
		r := service.Request{Tag: tag, Call: uint64(i / 2), Attempt: 1 + i%2, Conn: uint64(i % 5), Deadline: now.Add(time.Duration(i%4) * 3 * time.Millisecond)}
		if i%4 == 0 {
			r.Deadline = clock.Never
		}
		j, st := s.Begin(r, now)
		jobs[tag] = j
		step(st)
		if gone := tag - tag%7; tag%7 == 6 && jobs[gone] != 0 {
			dropped, st := s.Cancel(jobs[gone], now)
			if dropped && st.Job != jobs[gone] {
				delete(due, gone)
				delete(jobs, gone)
				ended++
			}
			step(st)
		}
		if s.Backlog(now) < 0 || s.Busy() < 0 || s.Waiting() < 0 {
			t.Fatalf("backlog %v, busy %d, waiting %d", s.Backlog(now), s.Busy(), s.Waiting())
		}
	}
	end(math.MaxInt64 - 1)
	// What is left hangs, or its work ends beyond the clock, or waits behind such.
	for tag, j := range jobs { // order does not show: each is looked at by itself
		d, started := due[tag]
		if started && d != clock.Never {
			t.Fatalf("request %d was due at %d and has not ended", tag, d)
		}
		if !started && s.Queued(j) && s.Busy() == 0 {
			t.Fatalf("request %d waits at an idle server", tag)
		}
	}
	if ended+len(jobs) != n {
		t.Fatalf("%d ended and %d are open, of %d", ended, len(jobs), n)
	}
}

// TestDistributionsFromFiles: a service takes values from files beside its own,
// holds all of them, and says where a file is wrong.
func TestDistributionsFromFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var log bytes.Buffer
	h := histo.New()
	h.Record(5e6)
	if err := histo.NewLogWriter(&log, "", time.Unix(0, 0)).Write("plain.response", 0, time.Second, h); err != nil {
		t.Fatal(err)
	}
	write("sub/run.hlog", log.String())
	write("sub/trace.txt", "5ms\n80ms\n20ms\n")
	write("sub/s.yaml", "time: sequence(@trace.txt)\nslow: {share: 1%, time: empirical(@trace.txt)}\neach: [{replica: 0, time: hdr(@run.hlog)}]\nstall: {every: 1s, for: sequence(@trace.txt)}\n")
	w, err := Load(write("w.yaml", "service: sub/s.yaml\n"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := MarshalService(w.Service)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseServiceText("text", text)
	if err != nil {
		t.Fatal(err)
	}
	again.Replicas = 0
	if diff := cmp.Diff(w.Service, again); diff != "" {
		t.Errorf("(-read +resolved)\n%s", diff)
	}
	for _, want := range []string{"time: sequence(5ms,80ms,20ms)", "time: empirical(5ms,20ms,80ms)", "time: hdr(" + h.Encode() + ")"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	write("bare.txt", "5ms\n80\n")
	write("long.txt", strings.Repeat("1h2m3.123456789s\n", 30_000))
	for _, c := range []struct{ text, want string }{
		{"slots: 1\ntime: empirical(@bare.txt)\n", `DIR/x.yaml:2: time = "empirical(@bare.txt)": empirical: bare.txt:2: "80" has no unit, want a duration such as 80s`},
		{"time: empirical(@sub)\n", `DIR/x.yaml:1: time = "empirical(@sub)": empirical: DIR/sub is a directory, want a file`},
		{"time: hdr(@)\n", `DIR/x.yaml:1: time = "hdr(@)": hdr: no file name`},
		{"time: sequence(@long.txt)\nslow: {share: 1%, time: empirical(@long.txt)}\n", "DIR/x.yaml:1: time: what files say makes a service of 1020"},
	} {
		_, err := LoadService(write("x.yaml", c.text))
		if err == nil {
			t.Errorf("%s: no error", c.text)
		} else if got := strings.ReplaceAll(err.Error(), dir, "DIR"); !strings.HasPrefix(got, "read service: "+c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
	if _, err := ParseServiceText("text", []byte("time: empirical(@"+dir+"/bare.txt)")); err == nil || !strings.Contains(err.Error(), "no file is read here") {
		t.Errorf("text that names a file: %v", err)
	}
}

// TestReplicasOfTheirOwn: an entry of each stands for the service with its keys
// in place of the service's own.
func TestReplicasOfTheirOwn(t *testing.T) {
	sp, err := ParseService("s.yaml", []byte(`
each:
  - {replica: 1, slots: 1, factor: 2, fault: {reset: 10%}, stall: none}
  - {replica: 2, slots: none, queue: none, outage: {for: 1s, kind: hang}}
  - {replica: 3, factor: 3, time: 9ms}
replicas: 4
time: 5ms
slots: 8
queue: 4
stall: {every: 20s, for: 300ms}
`))
	if err != nil {
		t.Fatal(err)
	}
	one, two := *sp, *sp
	one.Each, two.Each = nil, nil
	one.Slots, one.Faults[service.FaultReset].Share, one.Stalls = 1, 0.1, nil
	two.Slots, two.Queue, two.Outages = 0, -1, []service.Outage{{For: time.Second, Ending: service.Ending{Fault: service.FaultHang}}}
	nine := dist(t, "9ms")
	want := []service.Each{{Replica: 1, Factor: 2, Own: &one}, {Replica: 2, Own: &two}, {Replica: 3, Factor: 3, Time: &nine}}
	if diff := cmp.Diff(want, sp.Each); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	text, err := MarshalService(sp)
	if err != nil {
		t.Fatal(err)
	}
	const each = `each:
  -
    replica: 1
    factor: 2
    slots: 1
    fault:
      reset: 10%
    cancel: none
    stall: none
  -
    replica: 2
    cancel: none
    outage:
      -
        at: 0s
        for: 1s
        kind: hang
    slots: none
    queue: none
    discipline: none
  -
    replica: 3
    factor: 3
    time: constant(9ms)
`
	if _, got, _ := strings.Cut(string(text), "each:"); "each:"+got != each {
		t.Errorf("written:\n%s\nwant\n%s", "each:"+got, each)
	}
}
