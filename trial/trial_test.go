package trial

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"latencylab/engine"
	"latencylab/histo"
	"latencylab/ledger"
	"latencylab/policy"
	"latencylab/results"
	"latencylab/service"
	"latencylab/target"
	"latencylab/units"
	"latencylab/workloads"
)

// childEnv makes this test binary the embedded target.
const childEnv = "LATENCYLAB_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := target.RunChild(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func parseService(t *testing.T, text string) *service.Spec {
	t.Helper()
	s, err := workloads.ParseService("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func plan(t *testing.T, w *workloads.Workload, virtual bool) *Plan {
	t.Helper()
	p, err := NewPlan(w, Choices{Virtual: virtual})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// oracle is what an infinitely fast client and a service without queue must
// show for the first n calls of a plain policy, from the keys alone.
func oracle(sp *service.Spec, seed, n uint64) *histo.Histogram {
	h := histo.New()
	for call := range n {
		drawn, _ := sp.Draw(seed, 0, call, 1)
		h.Record(int64(drawn))
	}
	return h
}

// TestSimEqualsTheDraws: with neither queue nor policy, the response times in
// virtual time are the drawn service times, to the nanosecond.
func TestSimEqualsTheDraws(t *testing.T) {
	w := workload(t, "plain")
	w.Service, w.Requests, w.WarmupGiven = parseService(t, "time: lognormal(20ms,0.7)\nslow: {share: 2%, time: constant(1s), by: request}\n"), 5000, true
	r, err := Sim(plan(t, w, true), time.Time{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := oracle(w.Service, w.Seed, 5000)
	got := r.Policies[0].Response
	if got.Count != 5000 || int64(got.Exact.Min) != want.Min() || got.Exact.Max != want.Max() || got.Exact.Sum != want.Sum() || got.HDR != want.Encode() {
		t.Errorf("response is %+v, the draws have min %d, max %d, sum %d", *got.Exact, want.Min(), want.Max(), want.Sum())
	}
	if !r.Verdict.Valid || r.Driver != results.Virtual {
		t.Errorf("verdict %v, driver %s", r.Verdict.Valid, r.Driver)
	}
}

// TestStoredWorkloadRunsAgain: the workload in a Run gives the same Run.
func TestStoredWorkloadRunsAgain(t *testing.T) {
	w, err := workloads.Builtin("hedge-tail")
	if err != nil {
		t.Fatal(err)
	}
	w.Sim.Requests, w.Seed, w.Clients = 3000, 7, 3
	first, err := Sim(plan(t, w, true), time.Time{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := workloads.Parse("stored", []byte(first.Workload))
	if err != nil {
		t.Fatal(err)
	}
	second, err := Sim(plan(t, again, true), time.Time{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(second.Policies) != len(first.Policies) || second.Workload != first.Workload {
		t.Fatalf("the stored workload is another one:\n%s\nof\n%s", second.Workload, first.Workload)
	}
	for i := range first.Policies {
		a, b := &first.Policies[i], &second.Policies[i]
		if a.Response.HDR != b.Response.HDR || a.DrawsDigest != b.DrawsDigest || a.Name != b.Name {
			t.Errorf("policy %s differs from its repetition", a.Name)
		}
	}
}

// TestSimInterrupted: what was simulated by then is the result.
func TestSimInterrupted(t *testing.T) {
	w := workload(t, "plain", "hedge=10ms")
	w.Service = parseService(t, "time: constant(5ms)\n")
	stop := make(chan struct{})
	close(stop)
	r, err := Sim(plan(t, w, true), time.Time{}, stop)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || len(r.Policies) != 1 || r.NoComparison != "" && len(r.Comparisons) > 0 {
		t.Errorf("interrupted %v with %d policies", r.Interrupted, len(r.Policies))
	}
}

// TestEmbeddedTargetAgreesWithTheOracle: over sockets every call takes at least
// what was drawn for it, prediction and oracle are the same, and both ledgers
// agree on every attempt.
func TestEmbeddedTargetAgreesWithTheOracle(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, "1")
	w := workload(t, "plain")
	w.Service, w.Requests, w.WarmupGiven, w.Within = parseService(t, "replicas: 3\ntime: uniform(1ms,20ms)\n"), 300, true, []time.Duration{15 * ms}
	p := plan(t, w, false)
	var log bytes.Buffer
	blocks := 0
	s := &Setup{CallHeaders: "auto", Child: []string{exe}, Log: &log, Observer: Observer{
		Block: func(n, of int, name string, b workloads.Block) { blocks++ },
	}}
	if err := s.Check(p); err != nil {
		t.Fatal(err)
	}
	r, err := Real(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	want, got := oracle(w.Service, w.Seed, 300), &r.Policies[0]
	if got.Calls.OK != 300 || got.Attempts.Sent != 300 {
		t.Fatalf("%d of 300 calls ok, %d attempts", got.Calls.OK, got.Attempts.Sent)
	}
	if got.Response.Exact.Min < want.Min() || got.Response.Exact.Sum < want.Sum() {
		t.Errorf("responses of at least %d, %d in sum, are faster than the draws: %d, %d", got.Response.Exact.Min, got.Response.Exact.Sum, want.Min(), want.Sum())
	}
	if got.Predicted == nil || got.Predicted.Response.HDR != want.Encode() {
		t.Error("the prediction is not that of the draws")
	}
	if r.Target == nil || len(r.Target.Reconciliation) != 1 || !r.Target.Reconciliation[0].Holds {
		t.Errorf("ledgers do not agree: %+v (%s)", r.Target, r.NoTarget)
	}
	work := r.Target.Reconciliation[0].Work
	workAddsUp(t, work)
	if work.Used != work.Done || work.Done.Requests != 300 || work.Done.NS != want.Sum() {
		t.Errorf("work %+v, want 300 requests and %d ns, all used", work, want.Sum())
	}
	// Both sides add up the same draws of the same keys.
	predicted, err := p.simulate(0, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := hex(predicted.DrawsDigest); got.DrawsDigest.Value != d {
		t.Errorf("draws_digest is %q, want %q", got.DrawsDigest.Value, d)
	}
	if r.ArrivalsDigest.Value != hex(predicted.ArrivalsDigest) {
		t.Errorf("arrivals_digest is %q, want %q", r.ArrivalsDigest.Value, hex(predicted.ArrivalsDigest))
	}
	if !r.BestCase || blocks != 1 || len(got.Blocks) != 1 {
		t.Errorf("best case %v, %d blocks begun, %d recorded", r.BestCase, blocks, len(got.Blocks))
	}
	if n := logged(t, &log); n != 300 {
		t.Errorf("%d calls in the interval log, want 300", n)
	}
}

// TestWorkOfHedges: what the losers of races cost is told to the nanosecond,
// whether they are cancelled or read to their end.
func TestWorkOfHedges(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, "1")
	w := workload(t, "hedge=5ms", "drain:hedge=5ms,cancel=drain")
	w.Service, w.Requests, w.WarmupGiven = parseService(t, "replicas: 3\ntime: uniform(1ms,20ms)\ncancel: running\n"), 200, true
	p := plan(t, w, false)
	s := &Setup{CallHeaders: "auto", Child: []string{exe}}
	if err := s.Check(p); err != nil {
		t.Fatal(err)
	}
	r, err := Real(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	if r.Target == nil {
		t.Fatal(r.NoTarget)
	}
	for i, rec := range r.Target.Reconciliation {
		workAddsUp(t, rec.Work)
		if !rec.Holds || rec.Work.Wasted.Requests == 0 || rec.Work.Wasted.NS == 0 {
			t.Errorf("%s: holds %v, work %+v", rec.Policy, rec.Holds, rec.Work)
		}
		if a := &r.Policies[i].Attempts; rec.Work.Used.Requests < a.OK { // which leaves out the burn-in
			t.Errorf("%s: %d attempts won, but %d were used", rec.Policy, a.OK, rec.Work.Used.Requests)
		}
	}
}

// TestTargetDies: the measurement stops with the embedded target, keeps what
// was counted, compares nothing and is not valid.
func TestTargetDies(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, "1")
	w := workload(t, "plain", "hedge=10ms")
	w.Service, w.Duration, w.Warmup, w.WarmupGiven = parseService(t, "time: constant(1ms)\n"), time.Hour, 0, true
	p := plan(t, w, false)
	s := &Setup{CallHeaders: "auto", Child: []string{exe}}
	m := newMeasurement(p, s)
	defer m.close()
	s.Observer.Interval = func(string, engine.Interval) { syscall.Kill(m.child.Pid(), syscall.SIGKILL) }
	if err := s.Check(p); err != nil {
		t.Fatal(err)
	}
	if err := m.reach(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.begin()
	if err := m.open(); err != nil {
		t.Fatal(err)
	}
	if err := m.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := m.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Void != "the target has ended: signal: killed" || r.Verdict.Valid || r.Interrupted || len(r.Comparisons) > 0 || r.NoComparison == "" {
		t.Errorf("void %q, valid %v, interrupted %v, %d comparisons (%s)", r.Void, r.Verdict.Valid, r.Interrupted, len(r.Comparisons), r.NoComparison)
	}
	if r.Policies[0].Calls.OK == 0 || r.Policies[1].Calls.Scheduled != 0 {
		t.Errorf("%d ok of the first policy, %d begun of the second", r.Policies[0].Calls.OK, r.Policies[1].Calls.Scheduled)
	}
}

// TestEarlyEndEndsAll: when a block ends early no further one is driven, and
// nothing is compared.
func TestEarlyEndEndsAll(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	site, err := ParseSite(s.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := workload(t, "plain", "hedge=10ms")
	w.Rate, w.Duration, w.Drain, w.WarmupGiven = units.MaxRate, 400*ms, time.Millisecond, true
	p, setup := plan(t, w, false), &Setup{Site: site, CallHeaders: "auto"}
	if err := setup.Check(p); err != nil {
		t.Fatal(err)
	}
	r, err := Real(t.Context(), p, setup)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Void, "out of reach") || r.Verdict.Valid || len(r.Comparisons) > 0 {
		t.Errorf("void %q, valid %v, %d comparisons", r.Void, r.Verdict.Valid, len(r.Comparisons))
	}
	if a, b := r.Policies[0].Calls, r.Policies[1].Calls; a.Dropped == 0 || b.Scheduled != 0 {
		t.Errorf("%d dropped of the first policy, %d scheduled of the second", a.Dropped, b.Scheduled)
	}
}

// TestTargetDoesNotSay: without the embedded target's ledger no run is valid.
func TestTargetDoesNotSay(t *testing.T) {
	m := &measurement{child: &target.Child{}}
	r := &results.Run{NoTarget: "read ledger: timeout"}
	if got := m.void(r); got != Nothing {
		t.Errorf("void %q of a run without calls", got)
	}
	r.Policies = []results.Policy{{Calls: results.Calls{Scheduled: 1}}}
	if got := m.void(r); got != "the embedded target does not say what it did: read ledger: timeout" {
		t.Errorf("void %q", got)
	}
	r.Target = &results.Target{}
	if got := m.void(r); got != "" {
		t.Errorf("void %q of a run with both ledgers", got)
	}
}

// logged counts the values in a histogram log.
func logged(t *testing.T, r io.Reader) (n uint64) {
	t.Helper()
	log := histo.NewLogReader(r, "log")
	for {
		iv, err := log.Next()
		if err == io.EOF {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		n += iv.Values.Count()
	}
}

// TestServerSeesTheAttemptsAndNothingElse: a server that is not ours is asked
// nothing but what is reported, and no header of ours reaches it.
func TestServerSeesTheAttemptsAndNothingElse(t *testing.T) {
	seen := make(chan string, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Method + " " + r.URL.RequestURI() + " " + r.Host + r.Header.Get("Latencylab-Run")
	}))
	defer s.Close()
	site, err := ParseSite(s.URL+"/a?b", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := workload(t, "plain")
	w.Rate, w.Requests, w.Connections = 0, 50, 3
	p := plan(t, w, false)
	setup := &Setup{Site: site, CallHeaders: "auto"}
	if err := setup.Check(p); err != nil {
		t.Fatal(err)
	}
	r, err := Real(t.Context(), p, setup)
	if err != nil {
		t.Fatal(err)
	}
	if sent := int(r.Policies[0].Attempts.Sent); sent != 50 || len(seen) != sent {
		t.Errorf("%d attempts reported, the server saw %d, want 50", sent, len(seen))
	}
	want := "GET /a?b " + s.Listener.Addr().(*net.TCPAddr).String()
	for len(seen) > 0 {
		if got := <-seen; got != want {
			t.Fatalf("the server saw %q, want %q", got, want)
		}
	}
	if r.Target != nil || r.TargetSeed != nil || r.Mode != results.Closed {
		t.Errorf("target %v, mode %s", r.Target, r.Mode)
	}
}

// TestLogErrorDoesNotEndTheMeasurement: a full disk costs the log alone.
func TestLogErrorDoesNotEndTheMeasurement(t *testing.T) {
	l := newIntervalLog(brokenWriter{}, time.Unix(0, 0))
	iv := &engine.Interval{OK: histo.New()}
	l.write("a", 0, iv)
	l.write("a", 0, iv)
	if l.err == nil {
		t.Error("the error of the first write is forgotten")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestUnreached: only when every attempt failed before its connection stood was
// nothing measured.
func TestUnreached(t *testing.T) {
	at := func(phase policy.Phase, ok uint64) *results.Run {
		l := ledger.New(nil)
		l.Attempts.OK = ok
		l.AddError(ledger.ErrorKey{Class: ledger.ClassRefused, Phase: phase}, "x refused")
		return &results.Run{Policies: []results.Policy{results.NewPolicy("p", "plain", l, nil)}}
	}
	for _, c := range []struct {
		why  string
		run  *results.Run
		want bool
	}{
		{"all refused", at(policy.PhaseConnect, 0), true},
		{"one answered", at(policy.PhaseConnect, 1), false},
		{"failed after the connection stood", at(policy.PhaseFirstByte, 0), false},
		{"nothing was sent at all", &results.Run{Policies: []results.Policy{results.NewPolicy("p", "plain", ledger.New(nil), nil)}}, false},
	} {
		sample, ok := Unreached(c.run)
		if ok != c.want || ok && sample != "refused: x refused" {
			t.Errorf("%s: %v with sample %q, want %v", c.why, ok, sample, c.want)
		}
	}
}

// TestJudge: what a Run is used for decides on its verdict.
func TestJudge(t *testing.T) {
	late := func(names ...string) *results.Run {
		r := &results.Run{Mode: results.Open, Driver: results.Sockets}
		for _, n := range names {
			l := ledger.New(nil)
			for range 1000 {
				l.Calls.Scheduled++
				l.CallOK(5 * ms)
				l.Lag.Record(int64(50 * ms))
			}
			r.Policies = append(r.Policies, results.NewPolicy(n, "plain", l, nil))
		}
		return r
	}
	for _, c := range []struct {
		why    string
		run    *results.Run
		change func(*results.Run)
		valid  bool
	}{
		{"the only policy of an open loop was driven late", late("a"), func(*results.Run) {}, false},
		{"in closed loop nothing is late", late("a"), func(r *results.Run) { r.Mode = results.Closed }, true},
		{"two policies without an objective", late("a", "b"), func(*results.Run) {}, false},
		{"ledgers that agree", late("a"), func(r *results.Run) {
			r.Mode = results.Closed
			r.Target = &results.Target{Reconciliation: []results.Reconciliation{{Policy: "a", Holds: true}}}
		}, true},
		{"a void run", late("a"), func(r *results.Run) { r.Mode, r.Void = results.Closed, "the server is gone" }, false},
		{"ledgers that disagree", late("a"), func(r *results.Run) {
			r.Mode = results.Closed
			r.Target = &results.Target{Reconciliation: []results.Reconciliation{{Policy: "a"}}}
		}, false},
	} {
		c.change(c.run)
		judge(c.run)
		if c.run.Verdict.Valid != c.valid {
			t.Errorf("%s: valid is %v, want %v", c.why, c.run.Verdict.Valid, c.valid)
		}
	}
}

// TestSchedulesBeginWithTheBlocks: each block meets the outage that its data
// begins with, whatever came before it.
func TestSchedulesBeginWithTheBlocks(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, "1")
	w := workload(t, "a:plain", "b:plain")
	w.Service = parseService(t, "outage: {at: 100ms, for: 100ms, kind: reset}\n")
	w.Rate, w.Arrivals, w.Duration, w.WarmupGiven = 500*1e6, workloads.Constant, 600*ms, true
	p := plan(t, w, false)
	p.Blocks = nil
	for _, policy := range []int{0, 1, 1, 0} {
		p.Blocks = append(p.Blocks, Planned{Policy: policy, Block: workloads.Block{Burn: 150 * ms, Data: 300 * ms}})
	}
	s := &Setup{CallHeaders: "auto", Child: []string{exe}}
	if err := s.Check(p); err != nil {
		t.Fatal(err)
	}
	r, err := Real(t.Context(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Policies {
		got := &r.Policies[i]
		for k, b := range got.Blocks {
			// 50 calls are wanted in the outage. A machine that stalls sends those of the
			// stall together, inside or outside; an outage that is not met has none.
			if n := b.Absent; n < 10 || n > 120 {
				t.Errorf("policy %s, block %d: %d of %d calls failed, want about 50", got.Name, k, n, b.Calls)
			}
		}
	}
}
