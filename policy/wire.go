package policy

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Wire is how a request tells the server what time is left for it. The zero
// Wire tells nothing.
type Wire uint8

const (
	// WireNone tells nothing.
	WireNone Wire = iota
	// WireGRPC is the time left in "grpc-timeout": 1 to 8 digits and a unit of
	// H, M, S, m (ms), u (µs) or n (ns) (gRPC over HTTP/2, "Requests"). It is
	// rounded up to the finest unit that fits, as in grpc-go's
	// internal/grpcutil/encode_duration.go, so the server never gives up before
	// its caller does.
	WireGRPC
	// WireDeadlineMS is the time left in "x-deadline-ms", in whole
	// milliseconds. It is rounded down: what the server does after its caller
	// has gone is wasted, and less than a millisecond is no time to work in.
	WireDeadlineMS
	// WireEnvoy is the time left in "x-envoy-expected-rq-timeout-ms", in whole
	// milliseconds, rounded down and at least 1: Envoy takes 0 for no timeout
	// (source/common/router/router.cc), and so does Parse.
	WireEnvoy
	// WireConnect is the time left in "connect-timeout-ms": 1 to 10 digits of
	// milliseconds (Connect protocol, "Timeout-Milliseconds"), rounded down.
	// What needs more digits is written as the largest that has ten.
	WireConnect
	// WireRFC3339 is the instant of the deadline in "x-request-deadline" by the
	// wall clock, in RFC 3339 with nine digits of a second. The clocks of
	// both sides must agree: it is off by the skew between them.
	WireRFC3339
	wires
)

// wireTable says what stands where. Names are lower case, as HTTP/2 writes them
// (RFC 9113 8.2); in HTTP/1.1 case does not matter.
var wireTable = [wires]struct {
	name     string
	absolute bool          // an instant of the wall clock, else the time left
	unit     time.Duration // 0: the value says
	digits   int           // most digits of a value with a fixed unit
}{
	WireNone:       {"none", false, 0, 0},
	WireGRPC:       {"grpc-timeout", false, 0, grpcDigits},
	WireDeadlineMS: {"x-deadline-ms", false, time.Millisecond, 18},
	WireEnvoy:      {"x-envoy-expected-rq-timeout-ms", false, time.Millisecond, 18},
	WireConnect:    {"connect-timeout-ms", false, time.Millisecond, 10},
	WireRFC3339:    {"x-request-deadline", true, 0, 0},
}

// grpcDigits is the most digits of a grpc-timeout.
const grpcDigits = 8

type grpcUnit struct {
	mark byte
	unit time.Duration
}

// grpcUnits are the units of grpc-timeout, finest first.
var grpcUnits = [...]grpcUnit{
	{'n', time.Nanosecond}, {'u', time.Microsecond}, {'m', time.Millisecond},
	{'S', time.Second}, {'M', time.Minute}, {'H', time.Hour},
}

// maxWireValue bounds the length of a value that is looked at, in bytes.
const maxWireValue = 64

// WireNamed returns the Wire of that header's name, in lower case, or WireNone
// for "none".
func WireNamed(name string) (w Wire, ok bool) {
	for i := range wireTable {
		if wireTable[i].name == name {
			return Wire(i), true
		}
	}
	return WireNone, false
}

// String returns the name that WireNamed reads.
func (w Wire) String() string {
	if w < wires {
		return wireTable[w].name
	}
	return "unknown"
}

// Header returns the name of the header in lower case; "" for WireNone.
func (w Wire) Header() string {
	if w == WireNone || w >= wires {
		return ""
	}
	return wireTable[w].name
}

// Width is the length in bytes of the longest value, and of every absolute one.
// A shorter value of a relative Wire keeps its meaning with zeros in front, so
// that a request may hold it at a fixed width.
func (w Wire) Width() int {
	switch w {
	case WireGRPC:
		return grpcDigits + 1
	case WireDeadlineMS, WireEnvoy:
		return len("9223372036854")
	case WireConnect:
		return wireTable[w].digits
	case WireRFC3339:
		return len("2006-01-02T15:04:05.000000000Z")
	}
	return 0
}

// Absolute reports whether the value is an instant of the wall clock, not the
// time left.
func (w Wire) Absolute() bool { return w < wires && wireTable[w].absolute }

// Append appends the value that tells of remaining, and returns the extended
// buffer. What is not above 0 is written as no time left. wall is the wall
// clock in nanoseconds since 1970 UTC; only an absolute Wire looks at it.
// WireNone appends nothing.
func (w Wire) Append(dst []byte, remaining time.Duration, wall int64) []byte {
	remaining = max(remaining, 0)
	switch w {
	case WireGRPC:
		return appendGRPC(dst, remaining)
	case WireDeadlineMS, WireEnvoy, WireConnect:
		n := int64(remaining / wireTable[w].unit)
		switch w {
		case WireEnvoy:
			n = max(n, 1)
		case WireConnect:
			n = min(n, 9_999_999_999)
		}
		return strconv.AppendInt(dst, n, 10)
	case WireRFC3339:
		at := wall + int64(remaining)
		if at < wall {
			at = math.MaxInt64
		}
		return time.Unix(0, at).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000000Z")
	}
	return dst
}

// Told returns what a server reads of remaining that was written by Append, where
// the clocks agree: remaining as the Wire rounds it.
func (w Wire) Told(remaining time.Duration) time.Duration {
	remaining = max(remaining, 0)
	switch w {
	case WireGRPC:
		n, u := grpcValue(remaining)
		return wireSpan(n, u.unit)
	case WireDeadlineMS:
		return remaining.Truncate(time.Millisecond)
	case WireConnect:
		return min(remaining.Truncate(time.Millisecond), 9_999_999_999*time.Millisecond)
	case WireEnvoy:
		return max(remaining.Truncate(time.Millisecond), time.Millisecond)
	}
	return remaining
}

func appendGRPC(dst []byte, remaining time.Duration) []byte {
	n, u := grpcValue(remaining)
	return append(strconv.AppendInt(dst, n, 10), u.mark)
}

// grpcValue returns the number and unit of a grpc-timeout.
func grpcValue(remaining time.Duration) (n int64, u grpcUnit) {
	const most = 99_999_999
	for _, u = range grpcUnits {
		n = int64(remaining / u.unit)
		if remaining%u.unit != 0 {
			n++
		}
		if n <= most {
			break
		}
	}
	return n, u
}

// Parse reads what a header says is left of the time, never below 0. ok is
// false when it sets no deadline: an empty value, and Envoy's 0. Values too
// large for a Duration are brought to the largest. wall is the wall clock as
// for Append. An error quotes the value and says what was wanted.
func (w Wire) Parse(value string, wall int64) (remaining time.Duration, ok bool, err error) {
	if value == "" || w == WireNone || w >= wires {
		return 0, false, nil
	}
	if len(value) > maxWireValue {
		return 0, false, fmt.Errorf("%s is %d bytes long, want at most %d", w, len(value), maxWireValue)
	}
	switch w {
	case WireGRPC:
		remaining, ok = parseGRPC(value)
		if !ok {
			return 0, false, fmt.Errorf("%s = %q, want 1 to %d digits and one of H, M, S, m, u and n", w, value, grpcDigits)
		}
		return remaining, true, nil
	case WireRFC3339:
		var at time.Time
		if err := at.UnmarshalText([]byte(value)); err != nil {
			return 0, false, fmt.Errorf("%s = %q, want an instant such as 2026-01-31T12:00:00.250Z (RFC 3339)", w, value)
		}
		return max(at.Sub(time.Unix(0, wall)), 0), true, nil
	}
	t := &wireTable[w]
	n, ok := wireDigits(value, t.digits)
	if !ok {
		return 0, false, fmt.Errorf("%s = %q, want 1 to %d digits: milliseconds", w, value, t.digits)
	}
	if n == 0 && w == WireEnvoy {
		return 0, false, nil
	}
	return wireSpan(n, t.unit), true, nil
}

func parseGRPC(value string) (time.Duration, bool) {
	last := len(value) - 1
	n, ok := wireDigits(value[:last], grpcDigits)
	if !ok {
		return 0, false
	}
	for _, u := range grpcUnits {
		if u.mark == value[last] {
			return wireSpan(n, u.unit), true
		}
	}
	return 0, false
}

// wireDigits reads 1 to most decimal digits, at most 18.
func wireDigits(s string, most int) (n int64, ok bool) {
	if len(s) == 0 || len(s) > most {
		return 0, false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// wireSpan returns n units, at most the largest Duration.
func wireSpan(n int64, unit time.Duration) time.Duration {
	if n > int64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
