package http1

import (
	"math"
	"time"
)

// After is how long a server asks to wait before a retry: the value of a
// Retry-After field (RFC 9110 10.2.3), a delay or a date, or of
// grpc-retry-pushback-ms (gRFC A6). It holds no text; the zero After is a delay
// of 0.
type After struct {
	// value depends on kind: seconds, unix seconds, a packed date whose century is
	// not known yet, or milliseconds.
	value int64
	kind  afterKind
}

type afterKind uint8

const (
	afterDelay afterKind = iota
	afterUnix
	afterTwoDigit
	afterMillis
	afterNever // the server asks not to retry
)

// RetryAfter reads the value of a Retry-After field. Space around it is
// ignored. A delay that does not fit saturates. ok is false for anything but
// decimal digits or a date in one of the three forms of RFC 9110 5.6.7.
func RetryAfter(value []byte) (a After, ok bool) {
	value = trim(value)
	if len(value) == 0 {
		return After{}, false
	}
	if !isDigit(value[0]) {
		return parseDate(value)
	}
	var v int64
	for _, c := range value {
		if !isDigit(c) {
			return After{}, false
		}
		if v > (math.MaxInt64-9)/10 {
			v = math.MaxInt64
			continue
		}
		v = v*10 + int64(c-'0')
	}
	return After{value: v}, true
}

// Pushback reads the value of a grpc-retry-pushback-ms field (gRFC A6): a
// decimal number of 0 to 2^31-1 milliseconds. Anything else, a negative number
// above all, asks not to retry.
func Pushback(value []byte) After {
	v, ok := parseUint(trim(value), math.MaxInt32)
	if !ok {
		return After{kind: afterNever}
	}
	return After{value: int64(v), kind: afterMillis}
}

// Wait returns how long to wait when the answer was received at wallNow, in
// nanoseconds since 1970 UTC. A date in the past is 0; the wait saturates at the
// largest Duration. It is -1, and negative in no other case, when the server
// asks not to retry.
func (a After) Wait(wallNow int64) time.Duration {
	const second = int64(time.Second)
	switch a.kind {
	case afterNever:
		return -1
	case afterMillis:
		return time.Duration(a.value) * time.Millisecond
	case afterDelay:
		if a.value > math.MaxInt64/second {
			return math.MaxInt64
		}
		return time.Duration(a.value * second)
	}
	sec, nsec := wallNow/second, wallNow%second
	if nsec < 0 {
		sec, nsec = sec-1, nsec+second
	}
	date := a.value
	if a.kind == afterTwoDigit {
		date = resolveCentury(a.value, sec)
	}
	left := date - sec // both are within years 0-9999: no overflow
	switch {
	case left <= 0:
		return 0
	case left > math.MaxInt64/second:
		return math.MaxInt64
	}
	return time.Duration(left*second - nsec)
}

// civil is a date and time of day in UTC, every field within its range.
type civil struct{ year, month, day, hour, minute, second int }

func (c civil) unix() int64 {
	return time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, 0, time.UTC).Unix()
}

// valid reports whether every field is in range. A second of 60 is a leap second.
func (c civil) valid() bool {
	const days = "\x00\x1f\x1d\x1f\x1e\x1f\x1e\x1f\x1f\x1e\x1f\x1e\x1f"
	if c.month < 1 || c.day < 1 || c.day > int(days[c.month]) || c.year < 0 {
		return false
	}
	if c.month == 2 && c.day == 29 && (c.year%4 != 0 || c.year%100 == 0 && c.year%400 != 0) {
		return false
	}
	return uint(c.hour) < 24 && uint(c.minute) < 60 && uint(c.second) <= 60
}

// pack keeps a date of two-digit year in one integer; resolveCentury unpacks it.
func (c civil) pack() int64 {
	v := int64(c.year)
	v = v*16 + int64(c.month)
	v = v*32 + int64(c.day)
	v = v*32 + int64(c.hour)
	v = v*64 + int64(c.minute)
	return v*64 + int64(c.second)
}

// resolveCentury returns the unix seconds of a packed date of two-digit year as
// seen at now (unix seconds): the latest year with these digits that is not
// more than 50 years in the future (RFC 9110 5.6.7).
func resolveCentury(packed, now int64) int64 {
	c := civil{
		month: int(packed >> 22 & 15), day: int(packed >> 17 & 31), hour: int(packed >> 12 & 31),
		minute: int(packed >> 6 & 63), second: int(packed & 63),
	}
	digits := int(packed >> 26)
	t := time.Unix(now, 0).UTC()
	limit := t.AddDate(50, 0, 0).Unix()
	c.year = t.Year() - t.Year()%100 + 100 + digits
	for {
		if u := c.unix(); u <= limit {
			return u
		}
		c.year -= 100
	}
}

const (
	dayNames   = "MonTueWedThuFriSatSun"
	monthNames = "JanFebMarAprMayJunJulAugSepOctNovDec"
)

// longDays are the rests of the day names of RFC 850, in the order of dayNames.
var longDays = [7]string{"day", "sday", "nesday", "rsday", "day", "urday", "day"}

// parseDate reads the three forms of RFC 9110 5.6.7, which are case-sensitive:
//
//	Sun, 06 Nov 1994 08:49:37 GMT    IMF-fixdate
//	Sunday, 06-Nov-94 08:49:37 GMT   RFC 850
//	Sun Nov  6 08:49:37 1994         asctime
//
// The name of the day must be one, but need not be that of the date.
func parseDate(b []byte) (After, bool) {
	if len(b) < 24 {
		return After{}, false
	}
	day := index3(dayNames, b)
	if day < 0 {
		return After{}, false
	}
	var c civil
	ok := true
	switch {
	case b[3] == ',':
		if len(b) != 29 || b[4] != ' ' || b[7] != ' ' || b[11] != ' ' || b[16] != ' ' || string(b[25:]) != " GMT" {
			return After{}, false
		}
		c.day, ok = number(b[5:7], ok)
		c.month = index3(monthNames, b[8:]) + 1
		c.year, ok = number(b[12:16], ok)
		c, ok = timeOfDay(c, b[17:25], ok)
	case b[3] == ' ':
		if len(b) != 24 || b[7] != ' ' || b[10] != ' ' || b[19] != ' ' {
			return After{}, false
		}
		c.month = index3(monthNames, b[4:]) + 1
		d := b[8:10]
		if d[0] == ' ' {
			d = d[1:]
		}
		c.day, ok = number(d, ok)
		c, ok = timeOfDay(c, b[11:19], ok)
		c.year, ok = number(b[20:], ok)
	default:
		long := longDays[day]
		if len(b) != 3+len(long)+24 || string(b[3:3+len(long)]) != long {
			return After{}, false
		}
		b = b[3+len(long):]
		if b[0] != ',' || b[1] != ' ' || b[4] != '-' || b[8] != '-' || b[11] != ' ' || string(b[20:]) != " GMT" {
			return After{}, false
		}
		c.day, ok = number(b[2:4], ok)
		c.month = index3(monthNames, b[5:]) + 1
		c.year, ok = number(b[9:11], ok)
		c, ok = timeOfDay(c, b[12:20], ok)
		check := c
		check.year += 2000 // a multiple of 400: every fourth year may have 29 February
		if !ok || !check.valid() {
			return After{}, false
		}
		return After{c.pack(), afterTwoDigit}, true
	}
	if !ok || !c.valid() {
		return After{}, false
	}
	return After{c.unix(), afterUnix}, true
}

// timeOfDay reads hh:mm:ss into c.
func timeOfDay(c civil, b []byte, ok bool) (civil, bool) {
	c.hour, ok = number(b[0:2], ok)
	c.minute, ok = number(b[3:5], ok)
	c.second, ok = number(b[6:8], ok)
	return c, ok && b[2] == ':' && b[5] == ':'
}

// number reads decimal digits only; ok is passed through when it is false.
func number(b []byte, ok bool) (int, bool) {
	v := 0
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return v, ok
}

// index3 returns which of the three-letter names b starts with, -1 for none.
func index3(names string, b []byte) int {
	for i := 0; i+3 <= len(names); i += 3 {
		if string(b[:3]) == names[i:i+3] {
			return i / 3
		}
	}
	return -1
}

// AppendDate appends the IMF-fixdate of unix seconds, 29 bytes for years 0 to
// 9999, which a server sends as Date (RFC 9110 6.6.1).
func AppendDate(dst []byte, unix int64) []byte {
	return time.Unix(unix, 0).UTC().AppendFormat(dst, "Mon, 02 Jan 2006 15:04:05 GMT")
}
