package results

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/draw"
	"latencylab/ledger"
	"latencylab/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const objective = 100 * time.Millisecond

// world says how the calls of one policy of a made-up run end.
type world struct {
	calls    int
	slow     float64       // share of calls that take a second
	hedge    time.Duration // 0: none
	fail     float64       // share answered 503 after 2 ms
	expire   float64       // share given up after 1 s
	lag      time.Duration // of one call in fifty
	attempts bool          // record what only sockets know
}

// block returns the ledger of one block; draws are keyed by (call, attempt), so
// that worlds share their luck.
func (w world) block(number int) *ledger.Ledger {
	l := ledger.New([]time.Duration{objective, time.Second})
	w.fill(l, number)
	return l
}

// fill records the calls of a block in l.
func (w world) fill(l *ledger.Ledger, number int) {
	service := func(call uint64, attempt uint32) time.Duration {
		if draw.Uniform(1, draw.Slow, call, attempt, 0) < w.slow {
			return time.Second
		}
		return 20*time.Millisecond + time.Duration(40e6*draw.Uniform(1, draw.Service, call, attempt, 0))
	}
	for i := range w.calls {
		call := uint64(number*w.calls + i)
		l.Calls.Scheduled++
		l.Sent(policy.First)
		lag := 3 * time.Microsecond
		if i%50 == 49 {
			lag = max(lag, w.lag)
		}
		l.Lag.Record(int64(lag))
		at := time.Duration(i) * time.Millisecond
		fate := draw.Uniform(1, draw.Status, call, 1, 0)
		d := service(call, 1)
		switch {
		case fate < w.fail:
			l.AttemptAnswered(policy.First, 2*time.Millisecond)
			l.AddError(ledger.ErrorKey{Class: ledger.ClassStatus, Phase: policy.PhaseBody, Status: 503}, "HTTP/1.1 503 Service Unavailable")
			l.CallFailed(2 * time.Millisecond)
			l.Tail.Record(at, 2*time.Millisecond, true)
			continue
		case fate < w.fail+w.expire:
			l.AttemptTimedOut(policy.First)
			l.AddError(ledger.ErrorKey{Class: ledger.ClassDeadline, Phase: policy.PhaseFirstByte}, "no answer within 1s")
			l.CallExpired(time.Second)
			l.Tail.Record(at, time.Second, true)
			continue
		case w.hedge > 0 && d > w.hedge:
			l.Sent(policy.Hedged)
			if h := w.hedge + service(call, 2); h < d {
				l.AttemptWon(policy.Hedged, h-w.hedge)
				l.AttemptCancelled(policy.First)
				d = h
			} else {
				l.AttemptWon(policy.First, d)
				l.AttemptCancelled(policy.Hedged)
			}
			l.Connections.ClosedByCancel++
		default:
			l.AttemptWon(policy.First, d)
		}
		l.CallOK(d)
		l.Tail.Record(at, d, false)
		if w.attempts {
			l.PoolWait.Record(500)
			l.ReadDelay.Record(4000 + int64(call%1000))
			l.Connections.Reused++
		}
	}
	if w.attempts {
		l.Connections.Opened = 64
		l.Connect.Record(120_000)
	}
}

// policyOf returns the record of a policy driven in blocks of the world.
func (w world) policyOf(t testing.TB, name, spec string, blocks int, priors []string) Policy {
	t.Helper()
	all := ledger.New([]time.Duration{objective, time.Second})
	iv := NewIntervals(4)
	var list []Block
	for n := range blocks {
		l := w.block(n)
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		prior := ""
		if n < len(priors) {
			prior = priors[n]
		}
		start, length := time.Duration(n)*3*time.Second, time.Duration(w.calls)*time.Millisecond
		list = append(list, NewBlock(BlockInput{start, length, prior, l, BlockState{State{Num(100), Absent("not tracked")}, State{Num(96.5), Absent("not tracked")}}}))
		iv.Add(start, length, l.OK, l.Failed.Count()+l.Censored.Count())
		all.Merge(l)
	}
	burn := w.block(1000).Counts
	p := NewPolicy(name, spec, all, &burn)
	p.Blocks, p.Intervals = list, iv.List()
	p.AchievedShare, p.BusiestShare = Num(1), Num(0.125)
	return p
}

// frame returns a Run without policies.
func frame() *Run {
	seed := uint64(7)
	return &Run{
		Schema: Schema, Version: "test", Seed: 1, TargetSeed: &seed, Command: "loadgen run hedge-tail",
		StartedAt: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), DurationNS: int64(30 * time.Second),
		Mode: Open, Driver: Sockets, Clients: 1, Loops: 1,
		Host: Host{OS: "linux", Arch: "amd64", Kernel: Text{Value: "6.1"}, CPU: Text{Reason: "not told"}, CPUs: 2, Procs: 2, Go: "go1.26", Clock: Text{Value: "epoll_pwait2"}},
		Requested: Requested{RatePerS: Num(1000), Arrivals: Text{Value: "poisson"}, DurationNS: Num(10e9), Requests: Absent("the duration ends the run"),
			Connections: 1000, Threads: 1, WarmupNS: Num(0), DrainNS: Num(5e9), WithinNS: []int64{int64(objective)}, Endpoints: []string{"http://127.0.0.1:8080/"}},
		Achieved:       Achieved{RatePerS: Num(1000.4), DataNS: Num(20e9), CPUPerCall: Num(9200), PeakMemory: Absent("not asked for")},
		ArrivalsDigest: Text{Value: "0123456789abcdef"}, DrawsDigest: Text{Reason: "the target is not ours"},
		Workload: "name: hedge-tail\nrate: 1k/s\n",
	}
}

// priors returns what was driven before each block of two policies in the order
// of Thue and Morse: 01 10 10 01 ….
func priors(names [2]string, rounds int) (first, second []string) {
	order := []int{0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0}
	before := ""
	for _, i := range order[:2*rounds] {
		if i == 0 {
			first = append(first, before)
		} else {
			second = append(second, before)
		}
		before = names[i]
	}
	return first, second
}

var made = map[string]*Run{}

// runs are the made-up Runs of the golden files, made once; tests leave the Runs
// as they are, but may add to the map.
func runs(t testing.TB) map[string]*Run {
	t.Helper()
	if len(made) == 0 {
		made = makeRuns(t)
	}
	return maps.Clone(made)
}

func makeRuns(t testing.TB) map[string]*Run {
	t.Helper()
	m := map[string]*Run{}

	r := frame()
	a, b := priors([2]string{"plain", "hedge-58ms"}, 8)
	plain := world{calls: 1250, slow: 0.02, attempts: true}
	hedge := plain
	hedge.hedge = 58 * time.Millisecond
	r.Policies = []Policy{plain.policyOf(t, "plain", "plain", 8, a), hedge.policyOf(t, "hedge-58ms", "hedge=58ms", 8, b)}
	for i := range r.Policies {
		w := []world{plain, hedge}[i]
		w.calls *= 8
		r.Policies[i].Predicted = NewPredicted("simulator", w.block(0))
	}
	r.Policies[1].HedgeDelayNS = Num(58e6)
	r.BestCase = true
	r.Comparisons = []Comparison{Compare(&r.Policies[0], &r.Policies[1], CompareOptions{Within: objective, Seed: 1})}
	r.Target = &Target{Ledger: []byte(`{"replicas": 3}`), Reconciliation: []Reconciliation{
		{Policy: "plain", Sent: 11250, AtLeast: 11250, Arrived: 11250, Answered: 11250, Served: 11250, Holds: true,
			Work: &Work{Done: WorkPart{11250, 900e9}, Used: WorkPart{11250, 900e9}, Reasons: []WorkReason{}, Holds: true}},
		{Policy: "hedge-58ms", Sent: 12000, AtLeast: 11400, Arrived: 11990, Answered: 11250, Served: 11250, Holds: true,
			Work: &Work{Done: WorkPart{11990, 950e9}, Used: WorkPart{11250, 860e9}, Wasted: WorkPart{740, 90e9}, Holds: true,
				Reasons: []WorkReason{{"done when the caller had left", WorkPart{740, 90e9}}}},
			Differences: []Difference{{"cancelled before they arrived", 10}}},
	}}
	r.Verdict = Judge(r)
	m["comparison"] = r

	r = staged(t, plain, hedge)
	r.Verdict = Judge(r)
	m["stages"] = r

	r = frame()
	r.Driver, r.Policies = Virtual, []Policy{plain.policyOf(t, "plain", "plain", 1, nil)}
	first := SampleOf(r, &r.Policies[0])
	other := Sample{Num(41.5e6), Figure{Reason: "3 % of calls failed", AtLeast: 1e9}, Absent("too few samples"), Num(0.97), Num(0.02)}
	r.Runs = NewRuns(5, []string{"plain"}, []uint64{1, 2, 4}, [][]Sample{{first}, {other}, {first}})
	r.Runs.Incomplete, r.Interrupted = "interrupted by the user", true
	r.Verdict = Judge(r)
	m["repeated"] = r

	r = frame()
	r.Policies = []Policy{world{calls: 200, fail: 1}.policyOf(t, "plain", "plain", 1, nil)}
	r.Verdict = Judge(r)
	m["all-failed"] = r

	r = frame()
	r.Interrupted = true
	r.Policies = []Policy{world{calls: 1000, slow: 0.3, expire: 0.6}.policyOf(t, "deadline-1s", "deadline=1s", 1, nil)}
	r.Verdict = Judge(r)
	m["censored"] = r

	r = frame()
	r.Mode = Closed
	r.Requested.RatePerS, r.Requested.Arrivals, r.Requested.Connections = Absent("closed loop"), Text{Reason: "closed loop"}, 64
	r.Achieved.RatePerS = Num(812.25)
	r.NoComparison = NoClosedComparison
	p := world{calls: 600, attempts: true}.policyOf(t, "plain", "plain", 1, nil)
	p.AchievedShare, p.BusiestShare = Absent("closed loop"), Absent("closed loop")
	p.Lag.ensure()
	r.Policies = []Policy{p}
	r.Verdict = Judge(r)
	m["closed-loop"] = r

	r = frame()
	r.Policies = []Policy{world{calls: 2000, lag: 300 * time.Millisecond, attempts: true}.policyOf(t, "plain", "plain", 1, nil)}
	r.Warnings = []string{"the clock stood still for 300 ms"}
	r.Verdict = Judge(r)
	m["late"] = r

	r = frame()
	r.Requested.WithinNS = nil
	r.Policies = []Policy{NewPolicy("plain", "plain", ledger.New(nil), nil)}
	r.Verdict = Judge(r)
	m["empty"] = r
	return m
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
}

func render(t *testing.T, r *Run, format string, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r, format, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	all := runs(t)
	for _, name := range []string{"comparison", "all-failed", "censored", "closed-loop", "late", "empty", "repeated", "stages"} {
		r := all[name]
		golden(t, name+".txt", render(t, r, "text", Options{}))
		for _, format := range []string{"csv", "json"} {
			if name == "comparison" || name == "censored" || name == "empty" {
				golden(t, name+"."+format, render(t, r, format, Options{}))
			}
		}
	}
	golden(t, "comparison.hgrm", render(t, all["comparison"], "hgrm", Options{Policy: "hedge-58ms"}))
	golden(t, "censored.hgrm", render(t, all["censored"], "hgrm", Options{Of: "response"}))
	golden(t, "comparison.hlog", render(t, all["comparison"], "hlog", Options{}))
}

func TestNoFormatShowsWhatIsNoNumber(t *testing.T) {
	for name, r := range runs(t) {
		for _, format := range Formats {
			if format == "hlog" {
				continue // base64 spells anything
			}
			out := render(t, r, format, Options{Policy: r.Policies[0].Name})
			for _, line := range strings.Split(string(out), "\n") {
				if strings.Contains(line, `"hdr"`) {
					continue
				}
				for _, bad := range []string{"NaN", "Inf", "%!", "+infinity,", "9223372036854775807"} {
					if strings.Contains(line, bad) {
						t.Errorf("%s as %s: %q in %q", name, format, bad, line)
					}
				}
			}
			if name != "stages" && strings.Contains(strings.ReplaceAll(string(out), "not shown safe", ""), "safe") {
				t.Errorf("%s as %s says that something is safe", name, format)
			}
		}
	}
}

func TestWriteRefusesWhatTheRunDoesNotHave(t *testing.T) {
	r := runs(t)["comparison"]
	for _, c := range []struct {
		why, format string
		o           Options
		want        string
	}{
		{"an unknown format lists the formats", "xml", Options{}, `format = "xml", want text, json, csv, hgrm or hlog`},
		{"hgrm of several policies wants one of them", "hgrm", Options{}, "the run has 2 policies, and hgrm shows one: want policy plain or hedge-58ms"},
		{"an unknown policy lists the policies", "hgrm", Options{Policy: "x"}, `policy = "x", want plain or hedge-58ms`},
		{"an unknown distribution lists the distributions", "hgrm", Options{Policy: "plain", Of: "x"}, `of = "x", want response, ok, `},
	} {
		err := Write(io.Discard, r, c.format, c.o)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.why, err, c.want)
		}
	}
}

func TestIntervalsKeepEveryCallInBoundedNumber(t *testing.T) {
	for _, parts := range []int{0, 1, 3, 4, 5, 8, 9, 100, 257} {
		iv := NewIntervals(4)
		var calls uint64
		for n := range parts {
			l := world{calls: 3 + n%2}.block(n)
			calls += l.OK.Count() + 1
			iv.Add(time.Duration(n)*time.Second, time.Second, l.OK, 1)
		}
		list := iv.List()
		if len(list) > 4 || parts > 4 && len(list) < 2 {
			t.Errorf("%d parts: %d intervals, want 2 to 4", parts, len(list))
		}
		var got uint64
		end := int64(0)
		for i, v := range list {
			got += v.OK + v.Absent
			if v.StartNS != end {
				t.Errorf("%d parts: interval %d starts at %d, the one before it ends at %d", parts, i, v.StartNS, end)
			}
			end = v.StartNS + v.LengthNS
		}
		if got != calls || end != int64(parts)*int64(time.Second) {
			t.Errorf("%d parts: intervals hold %d calls up to %d, want %d up to %d s", parts, got, end, calls, parts)
		}
	}
}

func ExampleCompare() {
	var t testing.T
	plain := world{calls: 1000, slow: 0.02}
	hedge := plain
	hedge.hedge = 58 * time.Millisecond
	a, b := plain.policyOf(&t, "plain", "plain", 6, nil), hedge.policyOf(&t, "hedge", "hedge=58ms", 6, nil)
	c := Compare(&a, &b, CompareOptions{Within: objective, Seed: 1})
	fmt.Println(c.Word, "by", c.WordOf.Value)
	// Output: better by ok_within
}
