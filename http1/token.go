package http1

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
)

// isToken[c] reports whether c may stand in a token (RFC 9110 5.6.2).
var isToken = func() (t [256]bool) {
	for c := range 256 {
		b := byte(c)
		t[c] = isDigit(b) || isAlpha(b)
	}
	for _, c := range []byte("!#$%&'*+-.^_`|~") {
		t[c] = true
	}
	return t
}()

// hexValue[c] is the value of the hexadecimal digit c, 0xff for any other byte.
var hexValue = func() (t [256]uint8) {
	for c := range 256 {
		switch b := byte(c); {
		case isDigit(b):
			t[c] = b - '0'
		case 'a' <= b|0x20 && b|0x20 <= 'f':
			t[c] = b | 0x20 - 'a' + 10
		default:
			t[c] = 0xff
		}
	}
	return t
}()

func isDigit(c byte) bool { return c-'0' <= 9 }

func isAlpha(c byte) bool { return c|0x20-'a' < 26 }

// Words of eight bytes with one value in each, for judging eight bytes at a time.
const (
	ones = 0x0101010101010101
	tops = 0x80 * ones
)

// nameLen returns the length of the field name that line starts with, 0 when
// it does not start with a token and a colon.
//
// Names of letters and '-' are judged by words. The lowest top bit that is set
// in colon marks the first colon (Warren, "Hacker's Delight", 6-1); below it,
// no borrow or carry crosses a byte, so bad marks exactly the bytes that are
// neither letter nor '-'. Any such byte leaves the line to slowNameLen.
func nameLen(line []byte) int {
	for i := 0; i+8 <= len(line); i += 8 {
		x := binary.LittleEndian.Uint64(line[i:])
		colon := x ^ ':'*ones
		colon = (colon - ones) &^ colon & tops
		fold := x | 0x20*ones
		letter := ((fold | tops) - 'a'*ones) & (('z'|0x80)*ones - fold)
		dash := x ^ '-'*ones
		bad := (((dash &^ tops) + 0x7f*ones) | dash) &^ letter
		bad = (bad | x) & tops
		if bad&(colon-1)&^colon != 0 {
			break
		}
		if colon != 0 {
			return i + bits.TrailingZeros64(colon)>>3
		}
	}
	return slowNameLen(line)
}

// slowNameLen is nameLen by the definition.
func slowNameLen(line []byte) int {
	for i, c := range line {
		if !isToken[c] {
			if c == ':' {
				return i
			}
			return 0
		}
	}
	return 0
}

// trim returns b without spaces and tabs (OWS) at both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// fieldValue returns the value of a field line whose name has k bytes; line may
// end in the CR of its line end.
func fieldValue(line []byte, k int) []byte {
	v := line[k+1:]
	if len(v) > 0 && v[len(v)-1] == '\r' {
		v = v[:len(v)-1]
	}
	return trim(v)
}

// nextItem cuts the first element off a comma-separated list. more is false
// when it was the last. Elements may be empty (RFC 9110 5.6.1.2).
func nextItem(list []byte) (item, rest []byte, more bool) {
	for i, c := range list {
		if c == ',' {
			return trim(list[:i]), list[i+1:], true
		}
	}
	return trim(list), nil, false
}

// foldEqual reports whether b is lower, an ASCII string in lower case, in any case.
func foldEqual(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c-'A' < 26 {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// fold8 loads eight bytes of a field name at i with their letters in lower case.
// Setting bit 5 maps no token character but a letter onto a letter, and none
// but '-' onto '-', so names may be compared by it.
func fold8(name []byte, i int) uint64 {
	return binary.LittleEndian.Uint64(name[i:]) | 0x2020202020202020
}

// Parts of field names, and of one value, as fold8 loads them.
const (
	foldConnecti    = 'c' | 'o'<<8 | 'n'<<16 | 'n'<<24 | 'e'<<32 | 'c'<<40 | 't'<<48 | 'i'<<56
	foldNnection    = 'n' | 'n'<<8 | 'e'<<16 | 'c'<<24 | 't'<<32 | 'i'<<40 | 'o'<<48 | 'n'<<56
	foldContentDash = 'c' | 'o'<<8 | 'n'<<16 | 't'<<24 | 'e'<<32 | 'n'<<40 | 't'<<48 | '-'<<56
	foldTLength     = 't' | '-'<<8 | 'l'<<16 | 'e'<<24 | 'n'<<32 | 'g'<<40 | 't'<<48 | 'h'<<56
	foldTransfer    = 't' | 'r'<<8 | 'a'<<16 | 'n'<<24 | 's'<<32 | 'f'<<40 | 'e'<<48 | 'r'<<56
	foldDashEncodin = '-' | 'e'<<8 | 'n'<<16 | 'c'<<24 | 'o'<<32 | 'd'<<40 | 'i'<<48 | 'n'<<56
	foldRetryAf     = 'r' | 'e'<<8 | 't'<<16 | 'r'<<24 | 'y'<<32 | '-'<<40 | 'a'<<48 | 'f'<<56
	foldRyAfter     = 'r' | 'y'<<8 | '-'<<16 | 'a'<<24 | 'f'<<32 | 't'<<40 | 'e'<<48 | 'r'<<56
	foldKeepAli     = 'k' | 'e'<<8 | 'e'<<16 | 'p'<<24 | '-'<<32 | 'a'<<40 | 'l'<<48 | 'i'<<56
	foldEpAlive     = 'e' | 'p'<<8 | '-'<<16 | 'a'<<24 | 'l'<<32 | 'i'<<40 | 'v'<<48 | 'e'<<56
	foldLatencyl    = 'l' | 'a'<<8 | 't'<<16 | 'e'<<24 | 'n'<<32 | 'c'<<40 | 'y'<<48 | 'l'<<56
	foldLabCall     = 'l' | 'a'<<8 | 'b'<<16 | '-'<<24 | 'c'<<32 | 'a'<<40 | 'l'<<48 | 'l'<<56
	foldLabWork     = 'l' | 'a'<<8 | 'b'<<16 | '-'<<24 | 'w'<<32 | 'o'<<40 | 'r'<<48 | 'k'<<56
	foldYlabRun     = 'y' | 'l'<<8 | 'a'<<16 | 'b'<<24 | '-'<<32 | 'r'<<40 | 'u'<<48 | 'n'<<56
	foldAbAttem     = 'a' | 'b'<<8 | '-'<<16 | 'a'<<24 | 't'<<32 | 't'<<40 | 'e'<<48 | 'm'<<56
	foldDashAttempt = '-' | 'a'<<8 | 't'<<16 | 't'<<24 | 'e'<<32 | 'm'<<40 | 'p'<<48 | 't'<<56
	foldAbRepli     = 'a' | 'b'<<8 | '-'<<16 | 'r'<<24 | 'e'<<32 | 'p'<<40 | 'l'<<48 | 'i'<<56
	foldDashReplica = '-' | 'r'<<8 | 'e'<<16 | 'p'<<24 | 'l'<<32 | 'i'<<40 | 'c'<<48 | 'a'<<56
)

// The is… functions compare the name that a field line starts with; its length
// must be known to be that of the name asked for.

func isConnection(name []byte) bool {
	return fold8(name, 0) == foldConnecti && fold8(name, 2) == foldNnection
}

func isContentLength(name []byte) bool {
	return fold8(name, 0) == foldContentDash && fold8(name, 6) == foldTLength
}

func isTransferEncoding(name []byte) bool {
	return fold8(name, 0) == foldTransfer && fold8(name, 8) == foldDashEncodin && name[16]|0x20 == 'g'
}

func isRetryAfter(name []byte) bool {
	return fold8(name, 0) == foldRetryAf && fold8(name, 3) == foldRyAfter
}

// isPushback: answers with a name of its length are rare.
func isPushback(name []byte) bool {
	return bytes.EqualFold(name[:len(pushbackName)], []byte(pushbackName))
}

const pushbackName = "grpc-retry-pushback-ms"

func isLabCall(name []byte) bool {
	return fold8(name, 0) == foldLatencyl && fold8(name, 7) == foldLabCall
}

func isLabRun(name []byte) bool {
	return fold8(name, 0) == foldLatencyl && fold8(name, 6) == foldYlabRun
}

func isLabAttempt(name []byte) bool {
	return fold8(name, 0) == foldLatencyl && fold8(name, 8) == foldAbAttem && fold8(name, 10) == foldDashAttempt
}

// isLabWork shares its first 11 bytes, of 15, with other names of ours.
func isLabWork(name []byte) bool {
	return fold8(name, 0) == foldLatencyl && fold8(name, 7) == foldLabWork
}

func isLabReplica(name []byte) bool {
	return fold8(name, 0) == foldLatencyl && fold8(name, 8) == foldAbRepli && fold8(name, 10) == foldDashReplica
}

// parseUint reads 1 to 20 decimal digits of a value up to limit.
func parseUint(b []byte, limit uint64) (v uint64, ok bool) {
	const safe = 19 // digits that cannot overflow
	if len(b) == 0 || len(b) > safe+1 {
		return 0, false
	}
	for _, c := range b[:min(len(b), safe)] {
		if !isDigit(c) {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	if len(b) > safe {
		d := uint64(b[safe]) - '0'
		if d > 9 || v > (math.MaxUint64-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	return v, v <= limit
}

// hasControl reports whether b holds a control character other than the tab
// (RFC 9110 5.5). Eight bytes are judged at a time: a byte below 0x20, or 0x7f,
// sets its top bit in low or del.
func hasControl(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		del := x ^ 0x7f*ones
		low := (x - 0x20*ones) &^ x
		del = (del - ones) &^ del
		if (low|del)&tops != 0 && slowControl(b[:8]) {
			return true
		}
	}
	return slowControl(b)
}

func slowControl(b []byte) bool {
	for _, c := range b {
		if c < 0x20 && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}
