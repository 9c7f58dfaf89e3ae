package lab

import (
	"math"
	"testing"

	"latencylab/draw"
)

// stormModel is the published model, tick by tick: what fails in one is shared
// out over the ages of the attempts in proportion, and comes back after the wait
// of its age. Nothing of package policy, service or sim is in it. It returns the
// load of each tick after the outage in parts of the new calls.
func stormModel(retries int, wait func(age, n int) []int, budget float64) []float64 {
	const outage, after = 600, 1800
	type due = map[int]int // age to number
	waiting := make([]due, outage+after+100_000)
	tokens, out := 0.0, []float64(nil)
	for t := range outage + after {
		load := stormNew
		for _, n := range waiting[t] {
			load += n
		}
		tokens += budget * stormNew
		capacity := stormCapacity
		switch {
		case t < outage:
			capacity = 0
		case load > stormAbove:
			capacity = stormCapacity / 2
		}
		share := float64(max(0, load-capacity)) / float64(load)
		for age := range retries {
			n := waiting[t][age]
			if age == 0 {
				n = stormNew
			}
			again := int(math.Round(float64(n) * share))
			if budget > 0 {
				again = min(again, int(tokens))
				tokens -= float64(again)
			}
			for d, k := range wait(age, again) {
				if k == 0 {
					continue
				}
				if waiting[t+d] == nil {
					waiting[t+d] = due{}
				}
				waiting[t+d][age+1] += k
			}
		}
		// Those of the last age are not tried again, but they are load.
		if t >= outage {
			out = append(out, float64(load)/stormNew)
		}
	}
	return out
}

// stormWaits are the waits of the rows in ticks: how many of n come back after d.
func stormWaits(spread bool, base func(age int) int) func(age, n int) []int {
	drawn := uint64(0)
	return func(age, n int) []int {
		longest := base(age)
		out := make([]int, longest+1)
		for range n {
			d := longest
			if spread {
				u := draw.Uniform(1, draw.Jitter, drawn, 0, 0)
				drawn++
				d = max(1, int(math.Ceil(u*float64(longest))))
			}
			out[d]++
		}
		return out
	}
}

func TestRetryStormIsThePublishedModel(t *testing.T) {
	if raced {
		t.Skip("long, and of one goroutine: runs in the steps without the race detector")
	}
	fixed := func(int) int { return 10 }
	doubled := func(age int) int { return 10 << age }
	models := []struct {
		retries int
		wait    func(age, n int) []int
		budget  float64
	}{
		{0, stormWaits(false, fixed), 0},
		{5, stormWaits(false, fixed), 0},
		{25, stormWaits(false, fixed), 0},
		{3, stormWaits(false, doubled), 0},
		{3, stormWaits(true, doubled), 0},
		{3, stormWaits(true, doubled), 0.1},
	}
	o := Options{Seed: 1}
	ws, err := retryStormWorkloads(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range models {
		if testing.Short() && m.retries > 5 {
			continue
		}
		row := &stormRows[i]
		got, err := stormRun(&o, ws[i])
		if err != nil {
			t.Fatal(err)
		}
		want := storm(stormModel(m.retries, m.wait, m.budget))
		if len(got) != len(want) {
			t.Fatalf("%s: %d ticks, want %d", row.name, len(got), len(want))
		}
		if d := math.Abs(got.peak()/want.peak() - 1); d > 0.05 {
			t.Errorf("%s: peak %.3f, want %.3f", row.name, got.peak(), want.peak())
		}
		if d := math.Abs(got.end()/want.end() - 1); d > 0.05 {
			t.Errorf("%s: load at the end %.3f, want %.3f", row.name, got.end(), want.end())
		}
		if a, b := got.recovered(), want.recovered(); a.text() != b.text() {
			t.Errorf("%s: recovered %s, want %s", row.name, a.text(), b.text())
		}
	}
}

func TestStormFixedPoint(t *testing.T) {
	for _, c := range []struct {
		retries int
		want    float64
	}{{1, 1}, {3, 2.874}, {25, 16.88}} { // one retry: 1.612, and 129 calls do not halve the capacity
		if got := stormFixedPoint(c.retries); math.Abs(got/c.want-1) > 0.001 {
			t.Errorf("%d retries: %.4f, want %v", c.retries, got, c.want)
		}
	}
}

func TestNewFirstRecoversFromTheStorm(t *testing.T) {
	o := Options{Seed: 1, Discipline: "new-first"}
	ws, err := retryStormWorkloads(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stormRun(&o, ws[4])
	if err != nil {
		t.Fatal(err)
	}
	if v := s.recovered(); !v.Present || v.Value < 1 {
		t.Errorf("full jitter recovers after %s, want after seconds", v.text())
	}
}
