package results

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"latencylab/histo"
)

// TestFiguresAreFinite: what is not a finite number is absent, with a reason.
func TestFiguresAreFinite(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if f := Num(x); f.Present || f.Reason == "" {
			t.Errorf("Num(%g) = %+v, want absent with a reason", x, f)
		}
		b, err := json.Marshal(Achieved{RatePerS: Num(x)})
		if err != nil || !strings.Contains(string(b), `"rate_per_s":null`) {
			t.Errorf("%g is written as %s (%v), want null", x, b, err)
		}
	}
	if f := Num(0); !f.Present {
		t.Error("0 is absent, want a number")
	}
}

// TestPercentilesNeedTheirSamples: n values give p_k when n*(1-k) is at least
// MinBeyond, and not one value earlier.
func TestPercentilesNeedTheirSamples(t *testing.T) {
	for _, row := range []struct {
		name string
		need uint64
	}{{"p50", 10}, {"p90", 50}, {"p95", 100}, {"p99", 500}, {"p999", 5000}, {"p9999", 50_000}} {
		for i := range quantiles {
			k := &quantiles[i]
			if k.name != row.name {
				continue
			}
			for _, n := range []uint64{row.need - 1, row.need} {
				h := histo.New()
				h.RecordN(1000, n)
				d := newDist(h, 0, 0, nil, "call")
				if got := k.of(&d).Present; got != (n == row.need) {
					t.Errorf("%s of %d values: present %v", row.name, n, got)
				}
			}
		}
	}
}
