package policy

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGRPCTimeoutCases runs the cases of testdata/grpc-timeout.json.
func TestGRPCTimeoutCases(t *testing.T) {
	data, err := os.ReadFile("testdata/grpc-timeout.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Remaining *int64   `json:"remaining_ns"`
			AnyOf     []string `json:"any_of"`
			Decode    *string
			Expect    string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 8 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	for _, c := range file.Cases {
		if c.Remaining != nil {
			got := string(WireGRPC.Append(nil, time.Duration(*c.Remaining), 0))
			if !slices.Contains(c.AnyOf, got) {
				t.Errorf("%d ns are written as %s, want one of %q", *c.Remaining, got, c.AnyOf)
			}
			continue
		}
		d, ok, err := WireGRPC.Parse(*c.Decode, 0)
		kind, _, _ := strings.Cut(c.Expect, ":")
		var bad bool
		switch kind {
		case "saturates":
			bad = err != nil || !ok || d != math.MaxInt64
		case "invalid":
			bad = err == nil || ok
		case "no deadline":
			bad = err != nil || ok
		case "expired":
			bad = err != nil || !ok || d != 0
		default:
			t.Errorf("%q is expected of %q", c.Expect, *c.Decode)
		}
		if bad {
			t.Errorf("%q: %v, %v, %v, want %s", *c.Decode, d, ok, err, c.Expect)
		}
	}
}

func TestWireAppend(t *testing.T) {
	const wall = 1_769_860_800_123_456_789 // 2026-01-31T12:00:00.123456789Z
	tests := []struct {
		w    Wire
		d    time.Duration
		want string
	}{
		{WireNone, time.Second, ""},
		{WireGRPC, 0, "0n"},
		{WireGRPC, -time.Second, "0n"},
		{WireGRPC, 1, "1n"},
		{WireGRPC, 99_999_999, "99999999n"},
		{WireGRPC, 100_000_001, "100001u"}, // rounded up
		{WireGRPC, 99_999_999 * time.Microsecond, "99999999u"},
		{WireGRPC, 99_999_999*time.Microsecond + 1, "100000m"},
		{WireGRPC, 99_999_999 * time.Millisecond, "99999999m"},
		{WireGRPC, 99_999_999*time.Millisecond + 1, "100000S"},
		{WireGRPC, 99_999_999*time.Second + 1, "1666667M"},
		{WireGRPC, 99_999_999*time.Minute + 1, "1666667H"},
		{WireGRPC, math.MaxInt64, "2562048H"},
		{WireDeadlineMS, 281*time.Millisecond + 999*time.Microsecond, "281"},
		{WireDeadlineMS, 999 * time.Microsecond, "0"},
		{WireDeadlineMS, -1, "0"},
		{WireDeadlineMS, math.MaxInt64, "9223372036854"},
		{WireEnvoy, 250 * time.Millisecond, "250"},
		{WireEnvoy, 0, "1"}, // 0 would be no timeout
		{WireConnect, 250 * time.Millisecond, "250"},
		{WireConnect, math.MaxInt64, "9999999999"},
		{WireRFC3339, 0, "2026-01-31T12:00:00.123456789Z"},
		{WireRFC3339, 876_543_211, "2026-01-31T12:00:01.000000000Z"},
		{WireRFC3339, -time.Hour, "2026-01-31T12:00:00.123456789Z"},
		{WireRFC3339, math.MaxInt64, "2262-04-11T23:47:16.854775807Z"},
		{99, time.Second, ""},
	}
	for _, tt := range tests {
		if got := string(tt.w.Append([]byte("x"), tt.d, wall)); got != "x"+tt.want {
			t.Errorf("%v of %v: %s, want %s", tt.w, tt.d, got[1:], tt.want)
		}
	}
}

func TestWireParse(t *testing.T) {
	const wall = 1_769_860_800_000_000_000 // 2026-01-31T12:00:00Z
	tests := []struct {
		w     Wire
		value string
		d     time.Duration
		ok    bool
		bad   string
	}{
		{WireNone, "anything", 0, false, ""},
		{WireDeadlineMS, "", 0, false, ""},
		{WireDeadlineMS, "281", 281 * time.Millisecond, true, ""},
		{WireDeadlineMS, "0", 0, true, ""},
		{WireDeadlineMS, "007", 7 * time.Millisecond, true, ""},
		{WireDeadlineMS, "999999999999999999", math.MaxInt64, true, ""},
		{WireDeadlineMS, "9999999999999999999", 0, false, "want 1 to 18 digits"},
		{WireDeadlineMS, "-5", 0, false, `x-deadline-ms = "-5", want 1 to 18 digits: milliseconds`},
		{WireDeadlineMS, "12.5", 0, false, "want 1 to 18 digits"},
		{WireDeadlineMS, "NaN", 0, false, "want 1 to 18 digits"},
		{WireDeadlineMS, "1e3", 0, false, "want 1 to 18 digits"},
		{WireDeadlineMS, " 5", 0, false, "want 1 to 18 digits"},
		{WireDeadlineMS, strings.Repeat("1", 65), 0, false, "x-deadline-ms is 65 bytes long, want at most 64"},
		{WireEnvoy, "0", 0, false, ""},
		{WireEnvoy, "1", time.Millisecond, true, ""},
		{WireConnect, "9999999999", 9_999_999_999 * time.Millisecond, true, ""},
		{WireConnect, "10000000000", 0, false, "want 1 to 10 digits"},
		{WireGRPC, "1H", time.Hour, true, ""},
		{WireGRPC, "2M", 2 * time.Minute, true, ""},
		{WireGRPC, "3S", 3 * time.Second, true, ""},
		{WireGRPC, "4m", 4 * time.Millisecond, true, ""},
		{WireGRPC, "5u", 5 * time.Microsecond, true, ""},
		{WireGRPC, "6n", 6, true, ""},
		{WireGRPC, "2562047H", 2562047 * time.Hour, true, ""},
		{WireGRPC, "2562048H", math.MaxInt64, true, ""},
		{WireGRPC, "99999999M", 99999999 * time.Minute, true, ""},
		{WireGRPC, "H", 0, false, `grpc-timeout = "H", want 1 to 8 digits and one of H, M, S, m, u and n`},
		{WireGRPC, "5", 0, false, "want 1 to 8 digits"},
		{WireGRPC, "-1S", 0, false, "want 1 to 8 digits"},
		{WireGRPC, "1s", 0, false, "want 1 to 8 digits"},
		{WireGRPC, "1 S", 0, false, "want 1 to 8 digits"},
		{WireRFC3339, "2026-01-31T12:00:00.25Z", 250 * time.Millisecond, true, ""},
		{WireRFC3339, "2026-01-31T13:00:01+01:00", time.Second, true, ""},
		{WireRFC3339, "2026-01-31T11:59:59Z", 0, true, ""},
		{WireRFC3339, "9999-12-31T23:59:59Z", math.MaxInt64, true, ""},
		{WireRFC3339, "0000-01-01T00:00:00Z", 0, true, ""},
		{WireRFC3339, "1769860800", 0, false, `x-request-deadline = "1769860800", want an instant such as`},
		{WireRFC3339, "2026-01-31 12:00:00Z", 0, false, "want an instant"},
		{WireRFC3339, "2026-02-30T12:00:00Z", 0, false, "want an instant"},
	}
	for _, tt := range tests {
		d, ok, err := tt.w.Parse(tt.value, wall)
		if d != tt.d || ok != tt.ok || (err != nil) != (tt.bad != "") || err != nil && !strings.Contains(err.Error(), tt.bad) {
			t.Errorf("%v of %q: %v, %v, %v, want %v, %v, %q", tt.w, tt.value, d, ok, err, tt.d, tt.ok, tt.bad)
		}
	}
}

// A clock that is ahead takes as much of the time as it is ahead, and one that
// is behind gives it; the time left does not depend on clocks.
func TestWireSkew(t *testing.T) {
	const wall = 1_769_860_800_000_000_000
	for _, skew := range []time.Duration{-200 * time.Millisecond, 0, 200 * time.Millisecond} {
		abs := string(WireRFC3339.Append(nil, time.Second, wall))
		if d, _, _ := WireRFC3339.Parse(abs, wall+int64(skew)); d != time.Second-skew {
			t.Errorf("a clock %v ahead: %v left, want %v", skew, d, time.Second-skew)
		}
		rel := string(WireDeadlineMS.Append(nil, time.Second, wall))
		if d, _, _ := WireDeadlineMS.Parse(rel, wall+int64(skew)); d != time.Second {
			t.Errorf("a clock %v ahead: %v left of what does not depend on it", skew, d)
		}
	}
}

func TestWireNames(t *testing.T) {
	for w := WireNone; w < wires; w++ {
		back, ok := WireNamed(w.String())
		if !ok || back != w || w.Header() != strings.ToLower(w.Header()) || (w.Header() == "") != (w == WireNone) {
			t.Errorf("%d: %q, read back as %d (%v), header %q", w, w, back, ok, w.Header())
		}
		if w.Absolute() != (w == WireRFC3339) {
			t.Errorf("%v: absolute is %v", w, w.Absolute())
		}
	}
	if _, ok := WireNamed("x-timeout"); ok || Wire(99).String() != "unknown" || Wire(99).Header() != "" {
		t.Error("an unknown wire has a name")
	}
}

// unitOf returns the step in which w writes d.
func unitOf(w Wire, value string) time.Duration {
	if w != WireGRPC {
		return wireTable[w].unit
	}
	for _, u := range grpcUnits {
		if u.mark == value[len(value)-1] {
			return u.unit
		}
	}
	return 0
}

// checkWire writes and reads one span by every wire.
func checkWire(t *testing.T, d time.Duration, wall int64) {
	t.Helper()
	left := max(d, 0)
	for w := WireGRPC; w < wires; w++ {
		value := string(w.Append(nil, d, wall))
		got, ok, err := w.Parse(value, wall)
		if err != nil || !ok || got < 0 {
			t.Fatalf("%v of %v: %q is read as %v, %v, %v", w, d, value, got, ok, err)
		}
		if told := w.Told(d); told != got && w != WireRFC3339 && value != "9999999999" {
			t.Fatalf("%v of %v: %q is read as %v, told %v", w, d, value, got, told)
		}
		unit := unitOf(w, value)
		switch w {
		case WireGRPC: // up, by less than a unit
			if got < left || got-left >= unit && got != left {
				t.Fatalf("%v of %v: %q is %v", w, d, value, got)
			}
		case WireRFC3339: // exact, but for the end of what wall can hold
			if end := time.Duration(math.MaxInt64 - wall); got != left && !(wall > 0 && left > end && got == end) {
				t.Fatalf("%v of %v at %d: %q is %v", w, d, wall, value, got)
			}
		default: // down, by less than a unit
			if got > left && !(w == WireEnvoy && got == time.Millisecond) || left-got >= unit && value != "9999999999" {
				t.Fatalf("%v of %v: %q is %v", w, d, value, got)
			}
		}
	}
}

func TestWireRoundTrip(t *testing.T) {
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, 999, 1000, 99_999_999, 100_000_000, time.Second - 1, time.Hour + 1, 8 * 365 * 24 * time.Hour, math.MaxInt64 - 1, math.MaxInt64} {
		for _, wall := range []int64{math.MinInt64, -1, 0, 1_769_860_800_123_456_789, math.MaxInt64} {
			checkWire(t, d, wall)
		}
	}
	x := uint64(1)
	for range 20000 {
		x = x*6364136223846793005 + 1442695040888963407
		checkWire(t, time.Duration(x>>(x>>58%64)), 1_769_860_800_000_000_000)
	}
}

func FuzzWireRoundTrip(f *testing.F) {
	f.Add(int64(500_000_000), int64(1_769_860_800_000_000_000))
	f.Add(int64(math.MaxInt64), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, d, wall int64) { checkWire(t, time.Duration(d), wall) })
}

func FuzzWireParse(f *testing.F) {
	for _, s := range []string{"", "0n", "99999999H", "281", "2026-01-31T12:00:00.25Z", "-1", "5x", "18446744073709551616"} {
		f.Add(s, int64(1_769_860_800_000_000_000))
	}
	f.Fuzz(func(t *testing.T, value string, wall int64) {
		for w := WireNone; w < wires; w++ {
			d, ok, err := w.Parse(value, wall)
			if d < 0 || !ok && d != 0 || ok && err != nil {
				t.Fatalf("%v of %q: %v, %v, %v", w, value, d, ok, err)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%v of %q: %q is not one line", w, value, err)
			}
		}
	})
}

func BenchmarkWire(b *testing.B) {
	for w := WireGRPC; w < wires; w++ {
		b.Run(w.String(), func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 64)
			for b.Loop() {
				buf = w.Append(buf[:0], 281*time.Millisecond, 1_769_860_800_000_000_000)
			}
		})
	}
}

// TestWireWidth: any value fits the width, padded with zeros it reads the same,
// and Told says what is read.
func TestWireWidth(t *testing.T) {
	const wall = 1_790_000_000_123_456_789
	for w := WireNone + 1; w < wires; w++ {
		for _, d := range []time.Duration{0, 1, 999, time.Microsecond + 1, 250 * time.Millisecond, 1500*time.Millisecond + 1, 28 * time.Hour, 3000 * time.Hour, math.MaxInt64 / 2} {
			b := w.Append(nil, d, wall)
			if len(b) > w.Width() {
				t.Fatalf("%s of %v = %q, longer than %d", w, d, b, w.Width())
			}
			for len(b) < w.Width() {
				b = append([]byte{'0'}, b...)
			}
			got, ok, err := w.Parse(string(b), wall)
			if err != nil || !ok || got != w.Told(d) {
				t.Errorf("%s of %v = %q: read %v, %v, %v, told %v", w, d, b, got, ok, err, w.Told(d))
			}
		}
	}
}
