package service

import (
	"strings"
	"testing"
	"time"
)

// TestFaultNames: each fault of a service has a word of its own, which reads back.
func TestFaultNames(t *testing.T) {
	seen := map[string]bool{}
	for f := FaultNone + 1; f < Kinds; f++ {
		word := f.String()
		got, ok := FaultNamed(word)
		if ok != (f != FaultGone) || got != f || seen[word] || word == "" {
			t.Errorf("fault %d: %q reads as %v, %v", f, word, got, ok)
		}
		if seen[word] = true; f.Phase() == NoPhase && f != FaultGone {
			t.Errorf("%v has no phase", f)
		}
	}
	if Kinds.String() != "unknown" || len(FaultNames()) != len(seen)-1 {
		t.Errorf("%d names of %d", len(FaultNames()), len(seen))
	}
}

// TestFaultShapes: what is said of a kind replaces its defaults, and what it has
// no use for is refused.
func TestFaultShapes(t *testing.T) {
	at := 0.25
	sp := &Spec{Body: 1000, Faults: Faults{FaultBodyDrip: {Share: 0.1, Interval: time.Second}, FaultBodyStall: {At: &at}}}
	if err := sp.Validate(); err != nil {
		t.Fatal(err)
	}
	s := New(sp, 0, 1)
	if d := s.Shape(FaultBodyDrip); *d != (Shape{Interval: time.Second, Bytes: 64}) || d.Pieces(1000) != 16 || d.Pieces(64) != 1 {
		t.Errorf("drip %+v, %d pieces", d, d.Pieces(1000))
	}
	if d := s.Shape(FaultBodyStall); d.Sent(1000) != 250 {
		t.Errorf("stall %+v", d)
	}
	for _, row := range []struct {
		spec Spec
		want string
	}{
		{Spec{Faults: Faults{FaultBodyDrip: {Share: 0.1}}}, "fault.body-drip: body-drip needs a body to strike, but body = 0"},
		{Spec{Script: []Ending{{Status: 200}, {Fault: FaultBodyStall}}}, "script[1]: body-stall needs a body"},
		{Spec{Outages: []Outage{{For: 1, Ending: Ending{Fault: FaultBodyReset}}}}, "outage[0].kind: body-reset needs a body"},
		{Spec{Outages: []Outage{{For: 1, Ending: Ending{Status: 503}, Share: 1.5}}}, "outage[0].share = 1.5, want 0 to 1"},
		{Spec{Faults: Faults{FaultReset: {Bytes: 3}}}, "fault.reset.bytes: reset has no bytes"},
		{Spec{Faults: Faults{FaultBodyStall: {Interval: 3}}}, "fault.body-stall.interval: body-stall has no interval"},
		{Spec{Faults: Faults{FaultBodyDrip: {At: &at}}}, "fault.body-drip.at: body-drip has no at"},
		{Spec{Faults: Faults{FaultBodyDrip: {Bytes: -1}}}, "fault.body-drip.bytes = -1, want 1 to"},
		{Spec{ScriptKey: "X-Key"}, `script-key = "X-Key" needs script`},
		{Spec{ScriptKey: "X Key", Script: []Ending{{Status: 200}}}, `script-key = "X Key", want the name of a header`},
		{Spec{Faults: Faults{FaultInterim: {Status: 101}}}, "fault.interim.status = 101, want 100, 102 or 103"},
		{Spec{Faults: Faults{FaultGone: {Share: 1}}}, "fault.gone is no fault"},
	} {
		if err := row.spec.Validate(); err == nil || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%v, want %s", err, row.want)
		}
	}
}

// TestOutageStrikesAShare: a window with a share, of a fault that spoils: the work
// is done, and outside nothing is struck.
func TestOutageStrikesAShare(t *testing.T) {
	sp := &Spec{Body: 100, Time: Constant(10), Outages: []Outage{{At: 1000, For: 1000, Ending: Ending{Fault: FaultBodyStall}, Share: 0.3}}}
	if err := sp.Validate(); err != nil {
		t.Fatal(err)
	}
	s := New(sp, 0, 1)
	s.Mark(0)
	struck := 0
	for call := range uint64(4000) {
		at := s.base.Add(time.Duration(call))
		j, st := s.Begin(first(1, call), at)
		if st.Due != at+10 {
			t.Fatalf("call %d: due at %d, want the work done", call, st.Due)
		}
		a, _ := s.End(j, st.Due)
		if a.Status != 200 || a.Fault != FaultNone && (a.Fault != FaultBodyStall || at < 1000 || at >= 2000) {
			t.Fatalf("call %d: %+v", call, a)
		}
		if a.Fault != FaultNone {
			struck++
		}
	}
	if struck < 240 || struck > 360 {
		t.Errorf("%d of 1000 struck, want 30 %%", struck)
	}
}
