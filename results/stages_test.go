package results

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/draw"
)

// noise returns n uniforms of mean 0.
func noise(n int, seed uint64) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = draw.Uniform(seed, draw.Service, uint64(i), 0, 0) - 0.5
	}
	return xs
}

// decaying returns n steps of a figure that forgets a share exp(-1/tau) a step.
func decaying(n int, tau float64, seed uint64) []float64 {
	xs := noise(n, seed)
	for i := 1; i < n; i++ {
		xs[i] += math.Exp(-1/tau) * xs[i-1]
	}
	return xs
}

// ramp returns n steps from low to high with some noise.
func ramp(n int, low, high float64) []float64 {
	xs := noise(n, 1)
	for i := range xs {
		xs[i] = low + (high-low)*float64(i)/float64(n) + xs[i]*low/2
	}
	return xs
}

// flat returns n steps about x, and from step from on about y.
func flat(n int, x float64, from int, y float64) []float64 {
	xs := noise(n, 2)
	for i := range xs {
		if i < from {
			xs[i] = x + xs[i]*x/2
		} else {
			xs[i] = y + xs[i]*y/2
		}
	}
	return xs
}

// TestTau: the integrated autocorrelation time of a figure that decays
// exponentially is coth(1/2tau)/2 steps, and a lower bound is all that is known
// of a stretch that is too short.
func TestTau(t *testing.T) {
	for _, c := range []struct {
		about    string
		xs       []float64
		steps    float64 // expected; 0: absent
		accuracy float64
		atLeast  float64
	}{
		{"no memory", noise(20_000, 1), 0.5, 0.03, 0},
		{"a memory of 5 steps", decaying(20_000, 5, 2), 0.5 / math.Tanh(0.1), 0.15, 0},
		{"a memory of 40 steps", decaying(20_000, 40, 3), 0.5 / math.Tanh(0.0125), 0.25, 0},
		{"never changes", make([]float64, 200), 0.5, 0, 0},
		{"too few samples", noise(50, 1), 0, 0, 0},
		{"a memory of a fifteenth of the stretch", decaying(600, 40, 4), 0, 0, 10},
		{"a memory as long as the stretch", ramp(1000, 1, 100), 0, 0, 50},
	} {
		got := Tau(c.xs, time.Second)
		steps := got.Value / 1e9
		if (c.steps > 0) != got.Present || math.Abs(steps-c.steps) > c.accuracy*c.steps || got.AtLeast < c.atLeast*1e9 || !got.Present && got.Reason == "" {
			t.Errorf("%s: %+v, want %v steps", c.about, got, c.steps)
		}
	}
}

func TestSustained(t *testing.T) {
	const n = 4000
	for _, c := range []struct {
		about string
		xs    []float64
		sent  uint64 // attempts for 100 calls, in the last tenth
		early string
		want  string
	}{
		{"fluctuates without memory", flat(n, 10, n, 0), 100, "", Stable},
		{"fluctuates with a short memory", decaying(n, 20, 1), 100, "", Stable},
		{"nothing is ever unfinished", make([]float64, n), 100, "", Stable},
		{"grows from nothing", ramp(n, 0, 1000), 100, "", NotStable},
		{"grows by half of its median", ramp(n, 100, 200), 100, "", NotStable},
		{"grows by a hundredth", ramp(n, 100, 101), 100, "", Stable},
		{"collapses near the end", flat(n, 10, n-n/8, 300), 100, "", NotStable},
		{"a bad moment in the middle", append(append(flat(n/2, 10, n, 0), flat(100, 60, n, 0)...), flat(n/2-100, 10, n, 0)...), 100, "", Stable},
		{"a memory as long as a tenth of the stretch", decaying(n, n/10, 7), 100, "", NotShown},
		{"attempts grow", flat(n, 10, n, 0), 190, "", NotStable},
		{"more was open than is simulated", flat(n, 10, n, 0), 100, "after 3 s", NotStable},
		{"too short, because more was open", flat(20, 10, n, 0), 100, "after 3 s", NotStable},
		{"too short", flat(20, 10, n, 0), 100, "", ""},
	} {
		in := SustainedInput{Policy: "p", Of: OfWork, Step: time.Millisecond, Unfinished: c.xs, OK: Num(1), Early: c.early}
		for i := range c.xs {
			sent := uint64(100)
			if i >= len(c.xs)*9/10 {
				sent = c.sent
			}
			in.Begun, in.Sent = append(in.Begun, 100), append(in.Sent, sent)
		}
		s := NewSustained(in)
		if s.Word.Value != c.want || (c.want == "") != (s.Word.Reason != "") {
			t.Errorf("%s: %q (%s), want %q; %+v", c.about, s.Word.Value, s.Word.Reason, c.want, s.Sustained)
		}
	}
}

// TestThePulseEntersTheWord: a policy that does not come back is worse whatever
// its blocks say, and in doubt it is not better.
func TestThePulseEntersTheWord(t *testing.T) {
	for _, c := range []struct {
		about        string
		blocks       string
		base, other  int // runs not recovered, of 8
		want, wantOf string
	}{
		{"both come back", Better, 0, 0, Better, "ok_within"},
		{"the other never comes back", Better, 0, 8, Worse, "pulse"},
		{"the other comes back in two of eight", Equivalent, 0, 6, Worse, "pulse"},
		{"in doubt it is not better", Better, 0, 1, NotShown, "pulse"},
		{"what is worse stays worse", Worse, 0, 1, Worse, "ok_within"},
		{"the base never comes back", NotShown, 8, 0, Better, "pulse"},
		{"the base does not, and the other is worse without a freeze", Worse, 8, 0, NotShown, "pulse"},
		{"neither comes back", Better, 8, 8, Better, "ok_within"},
	} {
		r := &Run{Comparisons: []Comparison{{Base: "a", Other: "b", Word: c.blocks, WordOf: Text{Value: "ok_within"}}}}
		for name, n := range map[string]int{"a": c.base, "b": c.other} {
			r.Stages = append(r.Stages, Stage{Name: StagePulse, Policy: Text{Value: name}, Pulse: &PulseResult{FreezeNS: 1, AfterNS: 2, Of: 8, NotRecovered: n}})
		}
		r.AddPulses()
		got := &r.Comparisons[0]
		if got.Word != c.want || got.WordOf.Value != c.wantOf {
			t.Errorf("%s: %s of %s, want %s of %s", c.about, got.Word, got.WordOf.Value, c.want, c.wantOf)
		}
		if want := (Pulse{FreezeNS: 1, AfterNS: 2, Of: 8, NotRecovered: c.other, BaseNotRecovered: c.base}); *got.Pulse != want {
			t.Errorf("%s: %+v, want %+v", c.about, *got.Pulse, want)
		}
	}
	r := &Run{Comparisons: []Comparison{{Base: "a", Other: "b", NoPulse: NoPulse, Word: Better}}}
	r.Stages = []Stage{{Name: StagePulse, Policy: Text{Value: "a"}, Word: Text{Reason: "why"}}, {Name: StagePulse, Policy: Text{Value: "b"}, Word: Text{Reason: "why"}}}
	if r.AddPulses(); r.Comparisons[0].Pulse != nil || r.Comparisons[0].NoPulse != "why" || r.Comparisons[0].Word != Better {
		t.Errorf("a pulse without a word: %+v", r.Comparisons[0])
	}
}

// TestSafeWantsBoth: only what was stable alone and recovered from every pulse
// is called safe.
func TestSafeWantsBoth(t *testing.T) {
	word := func(name, w string) Stage {
		s := Stage{Name: name, Policy: Text{Value: "p"}, Word: Text{Value: w}, Pulse: &PulseResult{Of: 8}}
		if w == "" {
			s.Word.Reason = "interrupted"
		}
		return s
	}
	for _, c := range []struct {
		about  string
		stages []Stage
		driver string
		want   string
	}{
		{"both", []Stage{word(StageSustained, Stable), word(StagePulse, Recovered)}, Virtual, "safe: p ("},
		{"no sustained stage", []Stage{word(StagePulse, Recovered)}, Virtual, "not shown safe: p: no sustained stage"},
		{"no pulse", []Stage{word(StageSustained, Stable)}, Virtual, "not shown safe: p: no pulse"},
		{"no pulse on sockets", []Stage{word(StageSustained, Stable)}, Sockets, "not shown safe: p: no pulse"},
		{"both, on sockets", []Stage{word(StageSustained, Stable), word(StagePulse, Recovered)}, Sockets, "safe: p (stable alone, and back after every pulse, on the embedded target at this load)"},
		{"it collapses", []Stage{word(StageSustained, Stable), word(StagePulse, Collapses)}, Virtual, "not shown safe: p: pulse: collapses"},
		{"it grows", []Stage{word(StageSustained, NotStable), word(StagePulse, Recovered)}, Virtual, "not shown safe: p: sustained: not stable"},
		{"too short to say", []Stage{word(StageSustained, NotShown), word(StagePulse, "")}, Virtual, "not shown safe: p: sustained: not shown, no word from the pulse (interrupted)"},
	} {
		r := &Run{Driver: c.driver, Stages: c.stages, Policies: []Policy{{Name: "p"}}}
		lines := r.safeLines()
		if len(lines) != 1 || !strings.HasPrefix(lines[0], c.want) {
			t.Errorf("%s: %q, want %q", c.about, lines, c.want)
		}
		r.Void = "it ended early"
		if lines := r.safeLines(); strings.HasPrefix(lines[0], "safe") {
			t.Errorf("%s: a void run says %q", c.about, lines)
		}
	}
}

// staged returns a Run with every stage.
func staged(t testing.TB, plain, hedge world) *Run {
	t.Helper()
	r := frame()
	a, b := priors([2]string{"plain", "hedge-58ms"}, 8)
	r.Driver = Virtual
	r.Policies = []Policy{plain.policyOf(t, "plain", "plain", 8, a), hedge.policyOf(t, "hedge-58ms", "hedge=58ms", 8, b)}
	pilot := NewPilot(PilotInput{
		Stretch: r.Policies[0].Blocks[0], Open: decaying(4000, 8, 1), Step: 10 * time.Millisecond,
		A: &r.Policies[0], B: &r.Policies[0], Window: 30 * time.Second, CompareOptions: CompareOptions{Within: objective, Seed: 1},
	})
	pilot.Pilot.Used = Num(1.25e9)
	r.Stages = []Stage{pilot, {Name: StageBlocks, Policy: Text{Reason: "of all policies"}, Word: Text{Reason: "see policies and comparisons"}}}
	calls := make([]uint64, 4000)
	for i := range calls {
		calls[i] = 100
	}
	for _, in := range []SustainedInput{
		{Policy: "plain", Of: OfWork, Unfinished: flat(4000, 40e6, 4000, 0)}, {Policy: "hedge-58ms", Of: OfWork, Unfinished: ramp(4000, 40e6, 9e9)},
	} {
		in.Step, in.Begun, in.Sent, in.OK = time.Second/10, calls, calls, Num(1)
		r.Stages = append(r.Stages, NewSustained(in))
	}
	for _, v := range []PulseResult{
		{NotRecovered: 0, Before: Num(38e6), After: Num(41e6), Recovery: Num(23.4e9), Attempts: Num(1)},
		{NotRecovered: 8, Before: Num(52e6), After: Num(9e9), Recovery: Absent("in 0 of 8 runs only things were as before"), Attempts: Num(1.98)},
	} {
		v.Trigger, v.Failed = Freeze, Num(0)
		v.FreezeNS, v.FreezeOf, v.AfterNS, v.Of = 5e9, "5 × plain's p99, 1.00 s", 92e9, 8
		v.Stationary, v.Reference = Num(40e6), "that of plain before"
		s := Stage{Name: StagePulse, Policy: Text{Value: "plain"}, Word: Text{Value: Recovered}, Pulse: &v}
		if v.NotRecovered > 0 {
			s.Policy.Value, s.Word.Value = "hedge-58ms", Collapses
		}
		r.Stages = append(r.Stages, s)
	}
	r.Comparisons = []Comparison{Compare(&r.Policies[0], &r.Policies[1], CompareOptions{Within: objective, Seed: 1})}
	r.AddPulses()
	return r
}

// TestStagesSurviveAFile: stages read back as they were written.
func TestStagesSurviveAFile(t *testing.T) {
	r := runs(t)["stages"]
	back, err := Decode("run.json", bytes.NewReader(render(t, r, "json", Options{})))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Stages, back.Stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(r.Comparisons, back.Comparisons); diff != "" {
		t.Errorf("comparisons (-want +got):\n%s", diff)
	}
	good := string(render(t, r, "json", Options{}))
	for _, c := range []struct{ old, new, want string }{
		{`"not_recovered": 8,
        "stationary`, `"not_recovered": 9,
        "stationary`, "stages[5].pulse.not_recovered: 9, but of = 8"},
		{`"freeze_ns": 5000000000,
        "freeze_of`, `"freeze_ns": -1,
        "freeze_of`, "stages[4].pulse.freeze_ns: -1, want 0 or more"},
		{`"name": "sustained",
      "policy": "plain"`, `"name": "sustained",
      "policy": "other"`, `stages[2].policy: "other" is not a policy of the run`},
	} {
		bad := strings.Replace(good, c.old, c.new, 1)
		if bad == good {
			t.Fatalf("%q is not in the file", c.old)
		}
		if _, err := Decode("run.json", strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
