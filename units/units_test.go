package units

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	duration := func(s string) (any, error) { return ParseDuration(s) }
	rate := func(s string) (any, error) { return ParseRate(s) }
	size := func(s string) (any, error) { return ParseSize(s) }
	share := func(s string) (any, error) { return ParseShare(s) }
	ratio := func(s string) (any, error) { return ParseRatio(s) }
	count := func(s string) (any, error) { return ParseCount(s) }
	for _, c := range []struct {
		why   string
		parse func(string) (any, error)
		in    string
		want  any // a value, or the text of an error
	}{
		{"milliseconds", duration, "10ms", 10 * time.Millisecond},
		{"a fraction", duration, "1.5s", 1500 * time.Millisecond},
		{"several parts", duration, "1h1m30s", time.Hour + 90*time.Second},
		{"both spellings of micro", duration, "1µs1μs1us", 3 * time.Microsecond},
		{"below a nanosecond it rounds half up", duration, "0.5ns", time.Nanosecond},
		{"and down", duration, "0.4ns", time.Duration(0)},
		{"zero with a unit", duration, "0s", time.Duration(0)},
		{"the longest", duration, "9223372036854775807ns", time.Duration(math.MaxInt64)},
		{"no unit", duration, "10", `"10" has no unit, want a duration such as 10s`},
		{"a rate of zero without unit", rate, "0", `"0" is zero, want a rate above 0 such as 1000/s`},
		{"a rate of zero with a point", rate, "0.0", `"0.0" is zero, want a rate above 0 such as 1000/s`},
		{"zero without unit", duration, "0", `"0" has no unit, want a duration such as 0s`},
		{"no unit at the end", duration, "1m30", `"1m30" has no unit at its end, want a duration such as 1m30s`},
		{"an unknown unit", duration, "10sec", `"10sec" has the unknown unit "sec", want ns, us, ms, s, m or h`},
		{"days are not a unit", duration, "1d", `"1d" has the unknown unit "d", want ns, us, ms, s, m or h`},
		{"negative", duration, "-5ms", `"-5ms" is negative, want a duration such as 10s`},
		{"a plus sign", duration, "+5ms", `"+5ms" is not a duration, want one such as 10s`},
		{"no digit before the point", duration, ".5s", `".5s" is not a duration, want one such as 10s`},
		{"no digit after the point", duration, "5.s", `"5.s" is not a duration, want one such as 10s`},
		{"a line break behind a point", duration, "0.\r0", `"0.\r0" is not a duration, want one such as 10s`},
		{"a blank", duration, "5 s", `"5 s" has the unknown unit " s", want ns, us, ms, s, m or h`},
		{"empty", duration, "", `"" is empty, want a duration such as 10s`},
		{"a word", duration, "fast", `"fast" is not a duration, want one such as 10s`},
		{"a dash alone is no number", duration, "-", `"-" is not a duration, want one such as 10s`},
		{"too large", duration, "9223372036854775808ns", `"9223372036854775808ns" is too large, want a duration such as 10s`},
		{"a sum that is too large", duration, "2000000h2000000h", `"2000000h2000000h" is too large, want a duration such as 10s`},
		{"too many digits", duration, "0.1234567891s", `"0.1234567891s" has too many digits, want a duration such as 10s`},
		{"zeros at the end do not count", duration, "0.1000000000000s", 100 * time.Millisecond},
		{"much text is clipped", duration, strings.Repeat("9", 100), `"` + strings.Repeat("9", 40) + `"… is too long, want a duration such as 10s`},

		{"a prefix", rate, "5k/s", Rate(5000e6)},
		{"plain", rate, "1000/s", Rate(1000e6)},
		{"a minute", rate, "60/min", Rate(1e6)},
		{"a minute in short", rate, "60/m", Rate(1e6)},
		{"an hour is rounded", rate, "100/h", Rate(27778)},
		{"a fraction", rate, "0.5/s", Rate(500_000)},
		{"the smallest", rate, "0.000001/s", Rate(1)},
		{"the largest", rate, "1G/s", MaxRate},
		{"no unit", rate, "10", `"10" has no unit, want a rate such as 10/s`},
		{"no slash", rate, "5k", `"5k" has the unknown unit "k", want a rate such as 5/s`},
		{"a name of the field", rate, "100rps", `"100rps" has the unknown unit "rps", want a rate such as 100/s`},
		{"an unknown time", rate, "5/d", `"5/d" has the unknown unit "/d", want /s, /min or /h`},
		{"zero", rate, "0/s", `"0/s" is zero, want a rate above 0 such as 1000/s`},
		{"zero in long", rate, "0.000/s", `"0.000/s" is zero, want a rate above 0 such as 1000/s`},
		{"negative", rate, "-5/s", `"-5/s" is negative, want a rate such as 1000/s`},
		{"too small", rate, "0.0000001/s", `"0.0000001/s" is below the smallest rate, 0.000001/s`},
		{"too large", rate, "1001M/s", `"1001M/s" is above the largest rate, 1G/s`},

		{"binary", size, "64KiB", int64(65536)},
		{"decimal", size, "64kB", int64(64000)},
		{"bytes", size, "0B", int64(0)},
		{"a fraction of whole bytes", size, "1.5MiB", int64(1572864)},
		{"part of a byte", size, "0.5B", `"0.5B" is not a whole number of bytes`},
		{"no unit", size, "64", `"64" has no unit, want a size such as 64B`},
		{"a prefix alone", size, "64K", `"64K" has the unknown unit "K", want B, kB, MB, GB, KiB, MiB or GiB`},
		{"too large", size, "9000000000GiB", `"9000000000GiB" is too large, want a size such as 64KiB`},

		{"percent", share, "10%", 0.1},
		{"percent gives the nearest float", share, "2.3%", 0.023},
		{"a fraction", share, "0.1", 0.1},
		{"all", share, "100%", 1.0},
		{"one is all", share, "1", 1.0},
		{"none", share, "0%", 0.0},
		{"no sign", share, "10", `"10" has no unit, want a share such as 10%`},
		{"more than all", share, "101%", `"101%" is above 100%, want a share from 0% to 100%`},
		{"negative", share, "-1%", `"-1%" is negative, want a share such as 10%`},
		{"not a number", share, "NaN", `"NaN" is not a share, want one such as 10%`},
		{"an exponent", share, "1e-3", `"1e-3" has the unknown unit "e-3", want a share such as 10% or 0.1`},
		{"too small", share, "0.0000000000001", `"0.0000000000001" is too small, want a share such as 10%`},
		{"a ratio may pass all", ratio, "150%", 1.5},
		{"a ratio too large", ratio, "999999999999%", `"999999999999%" is too large, want a share such as 10%`},

		{"a count", count, "10", uint64(10)},
		{"a prefix", count, "1.5M", uint64(1_500_000)},
		{"zero", count, "0", uint64(0)},
		{"zeros before it", count, "0000000000000000000000007", uint64(7)},
		{"part of one", count, "1.5", `"1.5" is not a whole number`},
		{"a unit", count, "10s", `"10s" has the unknown unit "s", want a count such as 100 or 10k`},
		{"negative", count, "-1", `"-1" is negative, want a count such as 100 or 10k`},
		{"too large", count, "99999999999G", `"99999999999G" is too large, want a count such as 100 or 10k`},
	} {
		got, err := c.parse(c.in)
		if want, ok := c.want.(string); ok {
			if err == nil {
				t.Errorf("%s: %q gave %v, want an error", c.why, c.in, got)
			} else if err.Error() != want {
				t.Errorf("%s:\n got %s\nwant %s", c.why, err, want)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %q gave %v, %v, want %v", c.why, c.in, got, err, c.want)
		}
	}
}

func TestFormatTables(t *testing.T) {
	for _, c := range []struct{ why, got, want string }{
		{"nothing", Duration(0), "0"},
		{"ns", Duration(350), "350 ns"},
		{"two places below ten", Duration(5020 * time.Microsecond), "5.02 ms"},
		{"one place above", Duration(40400 * time.Microsecond), "40.4 ms"},
		{"four digits above a hundred", Duration(116800 * time.Microsecond), "116.8 ms"},
		{"a second", Duration(time.Second), "1.00 s"},
		{"what rounds to the next unit is written in it", Duration(999_960 * time.Microsecond), "1.00 s"},
		{"what does not, is not", Duration(999_940 * time.Microsecond), "999.9 ms"},
		{"a microsecond", Duration(time.Microsecond), "1.00 µs"},
		{"a minute", Duration(72 * time.Second), "72.0 s"},
		{"ten by rounding", Duration(9996 * time.Microsecond), "10.0 ms"},
		{"negative", Duration(-1500 * time.Microsecond), "-1.50 ms"},
		{"the most negative", Duration(math.MinInt64), "-9223372036.9 s"},
		{"hundreds", Count(999), "999"},
		{"thousands", Count(12345), "12,345"},
		{"millions", Count(1_000_000), "1,000,000"},
		{"percent", Percent(0.069), "6.9 %"},
		{"none", Percent(0), "0 %"},
		{"all", Percent(1), "100 %"},
		{"near all", Percent(0.9998), "99.98 %"},
		{"near none", Percent(0.00005), "0.005 %"},
		{"too near none to tell", Percent(1e-9), "<0.0001 %"},
		{"too near all to tell", Percent(1 - 1e-9), ">99.9999 %"},
		{"half a percent", Percent(0.005), "0.5 %"},
		{"a quarter of one", Percent(0.0025), "0.25 %"},
		{"above all", Percent(1.5), "150.0 %"},
		{"negative", Percent(-0.021), "-2.1 %"},
		{"not a number", Percent(math.NaN()), "n/a"},
		{"not finite", Percent(math.Inf(1)), "n/a"},
		{"bytes", Size(512), "512 B"},
		{"kibibytes", Size(1536), "1.5 KiB"},
		{"mebibytes", Size(24 << 20), "24.0 MiB"},
		{"gibibytes", Size(3 << 30), "3.0 GiB"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.why, c.got, c.want)
		}
	}
}

func TestFormatExact(t *testing.T) {
	for _, c := range []struct{ why, got, want string }{
		{"a duration", FormatDuration(58 * time.Millisecond), "58ms"},
		{"a minute has no seconds", FormatDuration(time.Minute), "1m"},
		{"an hour has no minutes", FormatDuration(time.Hour), "1h"},
		{"an hour and a half", FormatDuration(90 * time.Minute), "1h30m"},
		{"ten seconds keep their zero", FormatDuration(10 * time.Second), "10s"},
		{"an hour and ten seconds", FormatDuration(time.Hour + 10*time.Second), "1h0m10s"},
		{"no time", FormatDuration(0), "0s"},
		{"a rate", Rate(2000e6).String(), "2k/s"},
		{"a rate that is no thousands", Rate(1500e6).String(), "1500/s"},
		{"a million", Rate(1e6 * 1e6).String(), "1M/s"},
		{"the largest", MaxRate.String(), "1G/s"},
		{"a small rate", Rate(27778).String(), "0.027778/s"},
		{"no rate", Rate(0).String(), "0/s"},
		{"a size", FormatSize(65536), "64KiB"},
		{"a size that is no power", FormatSize(1000), "1000B"},
		{"a share", FormatShare(0.1), "10%"},
		{"a small share", FormatShare(1e-5), "0.001%"},
		{"all", FormatShare(1), "100%"},
		{"more", FormatShare(1.5), "150%"},
		{"a count", FormatCount(10_000), "10k"},
		{"a count of no thousands", FormatCount(1500), "1500"},
		{"a percentile", Percentile(0.999), "99.9"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.why, c.got, c.want)
		}
	}
	if f := Rate(1_500_000).PerSecond(); f != 1.5 {
		t.Errorf("1.5/s is %g per second", f)
	}
}

func TestParsePercentile(t *testing.T) {
	for _, c := range []struct {
		why, in string
		q       float64
		ok      bool
	}{
		{"the usual", "95", 0.95, true},
		{"three nines", "99.9", 0.999, true},
		{"none", "0", 0, false},
		{"all", "100", 0, false},
		{"a word", "x", 0, false},
		{"a unit", "95%", 0, false},
		{"empty", "", 0, false},
	} {
		q, ok := ParsePercentile(c.in)
		if ok != c.ok || ok && q != c.q {
			t.Errorf("%s: %q gave %v, %v", c.why, c.in, q, ok)
		}
	}
}

// Whatever is read is written so that it reads back the same.
func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"10ms", "1m30s", "5k/s", "100/h", "64KiB", "1.5MB", "10%", "0.1", "10k", "99.9", "2.3%", "0.5ns", "1e9", "-1", "", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d || d < 0 {
				t.Fatalf("%q is %d, then %d, %v", s, d, again, err)
			}
		}
		if r, err := ParseRate(s); err == nil {
			if again, err := ParseRate(r.String()); err != nil || again != r || r < 1 || r > MaxRate {
				t.Fatalf("%q is %d, then %d, %v", s, r, again, err)
			}
		}
		if n, err := ParseSize(s); err == nil {
			if again, err := ParseSize(FormatSize(n)); err != nil || again != n || n < 0 {
				t.Fatalf("%q is %d, then %d, %v", s, n, again, err)
			}
		}
		if x, err := ParseRatio(s); err == nil {
			if again, err := ParseRatio(FormatShare(x)); err != nil || again != x || !(x >= 0) {
				t.Fatalf("%q is %g, then %g, %v", s, x, again, err)
			}
		}
		if n, err := ParseCount(s); err == nil {
			if again, err := ParseCount(FormatCount(n)); err != nil || again != n {
				t.Fatalf("%q is %d, then %d, %v", s, n, again, err)
			}
		}
		if q, ok := ParsePercentile(s); ok {
			if again, ok := ParsePercentile(Percentile(q)); !ok || again != q || q <= 0 || q >= 1 {
				t.Fatalf("%q is %g, then %g, %v", s, q, again, ok)
			}
		}
	})
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"p99 of 1 µs × 2 → “é”": "p99 of 1 µs × 2 → “é”",
		"\x1b[2J\a\r\n\t\x7f":   " [2J     ",
		"\u009b31m\u202e\u200b": " 31m  ",
	} {
		if got := Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
	}
}
