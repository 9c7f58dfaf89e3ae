package results

import "testing"

func TestFormatRate(t *testing.T) {
	for _, c := range []struct {
		about string
		perS  float64
		want  string
	}{
		{"none", 0, "0/s"},
		{"thousands have commas", 12345.6, "12,346/s"},
		{"hundreds", 993.84, "993.8/s"},
		{"a fraction", 12.5, "12.5/s"},
		{"below 1", 1.0 / 3, "0.333/s"},
		{"below 0.1 three digits count", 0.05, "0.05/s"},
		{"one an hour", 1.0 / 3600, "0.000278/s"},
		{"the lowest rate that may be asked for", 1e-6, "0.000001/s"},
		{"a rate of a call in centuries", 1.5e-10, "0.00000000015/s"},
	} {
		if got := formatRate(c.perS); got != c.want {
			t.Errorf("%s: %s, want %s", c.about, got, c.want)
		}
	}
}
