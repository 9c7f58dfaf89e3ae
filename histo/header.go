package histo

import (
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// cookieMask leaves out the digit of a cookie that holds the word size.
const cookieMask = ^uint32(0xf0)

// formats names the encodings by their cookies, compressed ones first.
var formats = map[uint32]string{
	0x1c849304: "compressed V2", 0x1c849302: "compressed V1", 0x1c849309: "compressed V0",
	0x1c849303: "plain V2", 0x1c849301: "plain V1", 0x1c849308: "plain V0",
}

// checkHeader says in our words what is wrong with the header of an encoding.
// What cannot be read at all is left to the decoder of the whole.
func checkHeader(s string) error {
	b := base64.NewDecoder(base64.StdEncoding, strings.NewReader(s))
	var outer [8]byte
	if _, err := io.ReadFull(b, outer[:]); err != nil {
		return nil
	}
	if err := checkCookie(binary.BigEndian.Uint32(outer[:]), compressedCookie); err != nil {
		return err
	}
	z, err := zlib.NewReader(b)
	if err != nil {
		return nil
	}
	var inner [headerSize]byte
	if _, err := io.ReadFull(z, inner[:]); err != nil {
		return nil
	}
	if err := checkCookie(binary.BigEndian.Uint32(inner[:]), plainCookie); err != nil {
		return fmt.Errorf("inside: %w", err)
	}
	digits := int32(binary.BigEndian.Uint32(inner[12:]))
	lowest, highest := int64(binary.BigEndian.Uint64(inner[16:])), int64(binary.BigEndian.Uint64(inner[24:]))
	ratio := math.Float64frombits(binary.BigEndian.Uint64(inner[32:]))
	switch {
	case digits < 0 || digits > 5:
		return fmt.Errorf("%d significant digits, want 0 to 5", digits)
	case highest/2 < max(lowest, 1): // a lowest value below 1 is read as 1
		return fmt.Errorf("range from %d to %d, want the highest value at least twice the lowest", lowest, highest)
	case ratio != 1 && ratio != 0:
		return fmt.Errorf("values scaled by %g, want whole ns", ratio)
	}
	return nil
}

// checkCookie wants the first word of a V2 encoding.
func checkCookie(got, want uint32) error {
	if got&cookieMask == want&cookieMask {
		return nil
	}
	name, ok := formats[got&cookieMask]
	if !ok {
		name = "no format of HdrHistogram"
	}
	return fmt.Errorf("cookie 0x%08x (%s), want 0x%08x (%s)", got, name, want, formats[want&cookieMask])
}
