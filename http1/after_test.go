package http1

import (
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"
)

func TestRetryAfterCases(t *testing.T) {
	var file struct {
		Cases []struct {
			Value   string
			At      string
			Expect  string
			ExpectS *int64 `json:"expect_s"`
		}
	}
	readJSON(t, "testdata/retry-after.json", &file)
	if len(file.Cases) < 13 {
		t.Fatalf("%d cases, want at least 13", len(file.Cases))
	}
	for _, c := range file.Cases {
		var now int64
		if c.At != "" {
			now = at(t, c.At).UnixNano()
		}
		a, ok := RetryAfter([]byte(c.Value))
		switch {
		case c.ExpectS != nil:
			if want := time.Duration(*c.ExpectS) * time.Second; !ok || a.Wait(now) != want {
				t.Errorf("%q: %v, %v; want %v", c.Value, a.Wait(now), ok, want)
			}
		case c.Expect == "ignored":
			if ok {
				t.Errorf("%q: %v, want it ignored", c.Value, a.Wait(now))
			}
		default:
			if !ok || a.Wait(now) != math.MaxInt64 {
				t.Errorf("%q: %v, %v; want the largest wait", c.Value, a.Wait(now), ok)
			}
		}
	}
}

func at(t *testing.T, imf string) time.Time {
	t.Helper()
	u, err := time.Parse(http.TimeFormat, imf)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestRetryAfterDates(t *testing.T) {
	const now = "Mon, 30 Nov 2026 20:00:00 GMT"
	rows := []struct {
		why, value string
		want       string // the instant as IMF-fixdate; "" means not a date
	}{
		{"the example of RFC 9110 in IMF-fixdate", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"},
		{"in RFC 850 form", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"},
		{"in asctime form", "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37 GMT"},
		{"asctime, day of two digits", "Mon Nov 30 20:00:09 2026", "Mon, 30 Nov 2026 20:00:09 GMT"},
		{"every long name of a day", "Wednesday, 02-Dec-26 00:00:00 GMT", "Wed, 02 Dec 2026 00:00:00 GMT"},
		{"Thursday", "Thursday, 03-Dec-26 00:00:00 GMT", "Thu, 03 Dec 2026 00:00:00 GMT"},
		{"Friday", "Friday, 04-Dec-26 00:00:00 GMT", "Fri, 04 Dec 2026 00:00:00 GMT"},
		{"Saturday", "Saturday, 05-Dec-26 00:00:00 GMT", "Sat, 05 Dec 2026 00:00:00 GMT"},
		{"Tuesday", "Tuesday, 01-Dec-26 00:00:00 GMT", "Tue, 01 Dec 2026 00:00:00 GMT"},
		{"exactly 50 years ahead is the future", "Monday, 30-Nov-76 20:00:00 GMT", "Mon, 30 Nov 2076 20:00:00 GMT"},
		{"a second more than 50 years ahead is the past", "Monday, 30-Nov-76 20:00:01 GMT", "Tue, 30 Nov 1976 20:00:01 GMT"},
		{"99 is the past century", "Monday, 30-Nov-99 20:00:00 GMT", "Tue, 30 Nov 1999 20:00:00 GMT"},
		{"29 February of a leap year", "Tue, 29 Feb 2028 00:00:00 GMT", "Tue, 29 Feb 2028 00:00:00 GMT"},
		{"29 February of 2000", "Tue, 29 Feb 2000 00:00:00 GMT", "Tue, 29 Feb 2000 00:00:00 GMT"},
		{"29 February of two digits", "Tuesday, 29-Feb-28 00:00:00 GMT", "Tue, 29 Feb 2028 00:00:00 GMT"},
		{"a leap second is the next second", "Thu, 31 Dec 2026 23:59:60 GMT", "Fri, 01 Jan 2027 00:00:00 GMT"},
		{"the day's name need not fit", "Mon, 01 Dec 2026 00:00:00 GMT", "Tue, 01 Dec 2026 00:00:00 GMT"},
		{"29 February of no leap year", "Mon, 29 Feb 2027 00:00:00 GMT", ""},
		{"29 February of 2100", "Mon, 29 Feb 2100 00:00:00 GMT", ""},
		{"29 February of two digits, no leap year", "Monday, 29-Feb-27 00:00:00 GMT", ""},
		{"31 April", "Mon, 31 Apr 2027 00:00:00 GMT", ""},
		{"day 0", "Mon, 00 Apr 2027 00:00:00 GMT", ""},
		{"hour 24", "Mon, 01 Apr 2027 24:00:00 GMT", ""},
		{"minute 60", "Mon, 01 Apr 2027 00:60:00 GMT", ""},
		{"second 61", "Mon, 01 Apr 2027 00:00:61 GMT", ""},
		{"another zone", "Mon, 01 Apr 2027 00:00:00 UTC", ""},
		{"an offset", "Mon, 01 Apr 2027 00:00:00 +00", ""},
		{"no such month", "Mon, 01 Abc 2027 00:00:00 GMT", ""},
		{"no such day", "Mox, 01 Apr 2027 00:00:00 GMT", ""},
		{"dates are case-sensitive", "mon, 01 apr 2027 00:00:00 gmt", ""},
		{"a day of one digit", "Mon, 1 Apr 2027 00:00:00 GMT", ""},
		{"no space behind the comma", "Mon,01 Apr 2027 00:00:00 GMT", ""},
		{"a sign in the year", "Mon, 01 Apr -027 00:00:00 GMT", ""},
		{"a dot in the time", "Mon, 01 Apr 2027 00:00.00 GMT", ""},
		{"text behind", "Mon, 01 Apr 2027 00:00:00 GMT x", ""},
		{"cut short", "Mon, 01 Apr 2027 00:00:00", ""},
		{"a short day in the RFC 850 form", "Mon, 01-Apr-27 00:00:00 GMT", ""},
		{"a wrong end of a long day", "Monsday, 01-Apr-27 00:00:00 GMT", ""},
		{"four digits in the RFC 850 form", "Monday, 01-Apr-2027 00:00:00 GMT", ""},
		{"asctime with a day of one digit and no space", "Mon Apr 1 00:00:00 2027", ""},
		{"zeros in place of month and colons", "Sunday, 00-000-00 00000000 GMT", ""},
		{"digits and text", "7s", ""},
		{"a signed delay", "+7", ""},
		{"hexadecimal", "0x7", ""},
	}
	seen := at(t, now).UnixNano()
	for _, row := range rows {
		a, ok := RetryAfter([]byte(row.value))
		if ok != (row.want != "") {
			t.Errorf("%s: %q ok = %v", row.why, row.value, ok)
			continue
		}
		if !ok {
			continue
		}
		want := at(t, row.want)
		if got := a.Wait(seen); got != max(0, want.Sub(at(t, now))) {
			t.Errorf("%s: %q wait %v at %s, want that of %s", row.why, row.value, got, now, row.want)
		}
		// Ten seconds before the instant, where the century does not change.
		if a.kind == afterUnix {
			if got := a.Wait(want.Add(-10 * time.Second).UnixNano()); got != 10*time.Second {
				t.Errorf("%s: %q is %v away, want 10s", row.why, row.value, got)
			}
		}
	}
}

func TestRetryAfterWait(t *testing.T) {
	date := func(s string) After {
		a, ok := RetryAfter([]byte(s))
		if !ok {
			t.Fatalf("%q is not read", s)
		}
		return a
	}
	const second = int64(time.Second)
	rows := []struct {
		why  string
		a    After
		now  int64
		want time.Duration
	}{
		{"parts of a second count", date("Thu, 01 Jan 1970 00:00:02 GMT"), second / 2, 1500 * time.Millisecond},
		{"a nanosecond before", date("Thu, 01 Jan 1970 00:00:02 GMT"), 2*second - 1, 1},
		{"at the instant", date("Thu, 01 Jan 1970 00:00:02 GMT"), 2 * second, 0},
		{"a nanosecond after", date("Thu, 01 Jan 1970 00:00:02 GMT"), 2*second + 1, 0},
		{"a clock before 1970", date("Thu, 01 Jan 1970 00:00:00 GMT"), -1, 1},
		{"the year 9999 saturates", date("Fri, 31 Dec 9999 23:59:59 GMT"), 0, math.MaxInt64},
		{"the year 0 is past", date("Sat, 01 Jan 0000 00:00:00 GMT"), math.MinInt64, 0},
		{"the earliest clock", date("Thu, 01 Jan 1970 00:00:00 GMT"), math.MinInt64, math.MaxInt64},
		{"the latest clock", date("Thu, 01 Jan 1970 00:00:00 GMT"), math.MaxInt64, 0},
		{"two digits at the latest clock", date("Thursday, 01-Jan-62 00:00:00 GMT"), math.MaxInt64, 0},
		{"two digits just over the turn of a century", date("Friday, 01-Jan-00 00:00:00 GMT"), date("Thu, 31 Dec 2099 23:59:50 GMT").value * second, 10 * time.Second},
		{"the largest delay that fits", After{value: math.MaxInt64 / second}, 0, time.Duration(math.MaxInt64 / second * second)},
		{"one more", After{value: math.MaxInt64/second + 1}, 0, math.MaxInt64},
		{"the zero After", After{}, 12345, 0},
	}
	for _, row := range rows {
		if got := row.a.Wait(row.now); got != row.want {
			t.Errorf("%s: %v, want %v", row.why, got, row.want)
		}
	}
}

// TestDatesAgainstNetHTTP reads the three forms of instants over 200 years as
// net/http does, and what AppendDate writes.
func TestDatesAgainstNetHTTP(t *testing.T) {
	for unix := int64(-2_000_000_000); unix < 5_000_000_000; unix += 7_654_321 {
		u := time.Unix(unix, 0).UTC()
		for _, form := range []string{http.TimeFormat, time.ANSIC} {
			s := u.Format(form)
			a, ok := RetryAfter([]byte(s))
			want, err := http.ParseTime(s)
			if err != nil || !ok || a.value != want.Unix() {
				t.Fatalf("%q: %d, %v; net/http: %v, %v", s, a.value, ok, want, err)
			}
		}
		if got := string(AppendDate(nil, unix)); got != u.Format(http.TimeFormat) {
			t.Fatalf("AppendDate(%d) = %q", unix, got)
		}
		s := u.Format("Monday, 02-Jan-06 15:04:05 GMT")
		a, ok := RetryAfter([]byte(s))
		if got := resolveCentury(a.value, unix); !ok || got != unix {
			t.Fatalf("%q read at its own instant: %d, %v; want %d", s, got, ok, unix)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"7", "99999999999999999999", "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"} {
		f.Add([]byte(s), int64(0))
	}
	f.Fuzz(func(t *testing.T, value []byte, now int64) {
		a, ok := RetryAfter(value)
		if wait := a.Wait(now); wait < 0 || !ok && a != (After{}) {
			t.Fatalf("%q at %d: wait %v, ok %v, %+v", value, now, wait, ok, a)
		}
		if v, err := strconv.ParseUint(string(value), 10, 62); err == nil && (!ok || a.value != int64(v)) {
			t.Fatalf("%q: %+v, %v", value, a, ok)
		}
	})
}

func TestPushback(t *testing.T) {
	for _, c := range []struct {
		why, head string
		want      time.Duration
	}{
		{"a wait in milliseconds", "grpc-retry-pushback-ms: 250\r\n", 250 * time.Millisecond},
		{"at once", "Grpc-Retry-Pushback-Ms: 0\r\n", 0},
		{"a negative number asks not to retry", "grpc-retry-pushback-ms: -1\r\n", -1},
		{"so does what is no number", "grpc-retry-pushback-ms: soon\r\n", -1},
		{"and what does not fit 31 bits", "grpc-retry-pushback-ms: 2147483648\r\n", -1},
		{"and two of them", "grpc-retry-pushback-ms: 1\r\ngrpc-retry-pushback-ms: 1\r\n", -1},
		{"it comes before a Retry-After in front of it", "Retry-After: 9\r\ngrpc-retry-pushback-ms: 10\r\n", 10 * time.Millisecond},
		{"and behind it", "grpc-retry-pushback-ms: 10\r\nRetry-After: 9\r\n", 10 * time.Millisecond},
	} {
		var p Response
		if _, done, f := p.Feed([]byte("HTTP/1.1 503 no\r\nContent-Length: 0\r\n" + c.head + "\r\n")); !done || f != FaultNone {
			t.Fatalf("%s: done %v, fault %v", c.why, done, f)
		}
		a, ok := p.RetryAfter()
		if got := a.Wait(0); !ok || got != c.want {
			t.Errorf("%s: %v, %v, want %v", c.why, got, ok, c.want)
		}
	}
}
