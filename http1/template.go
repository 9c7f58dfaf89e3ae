package http1

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// UserAgent is sent unless the headers of a request name another.
	UserAgent = "latencylab/1"
	// RunSize is the length in bytes of the Latencylab-Run that a template sends.
	RunSize = 19

	callDigits    = 20
	attemptDigits = 10
	entrySize     = callDigits + 1 + attemptDigits
)

// LabHeaders asks for the fields by which a target knows the calls of a run.
type LabHeaders struct {
	// Run is the ledger key: exactly RunSize visible ASCII characters. It is not
	// used with Hop.
	Run string
	// Hop is for the requests of a service that calls on: SetTrace says for each
	// whose run and attempt it is about.
	Hop bool
}

// RequestTemplate is one request as bytes, built once and sent many times. Its
// call and attempt number are patched in place at fixed width. It is not safe
// for concurrent use: each loop takes its own Clone.
type RequestTemplate struct {
	buf    []byte
	call   int // offset of the digits of Latencylab-Call; 0 without lab fields
	try    int // offset of the digits of Latencylab-Attempt
	run    int // offset of the value of Latencylab-Run; 0 unless of a hop
	entry  int // offset of the value of Latencylab-Entry; 0 unless of a hop
	key    int // offset of the digits of the field that AddKey added; 0: none
	left   int // offset of the value of the field that AddField added; 0: none
	width  int // of that value
	method Method
	close  bool
}

// NewRequestTemplate builds the request line, fields and body. target is in
// origin form ("/path?query"), absolute form, or "*" for OPTIONS; host is the
// authority of the URL, an IPv6 address in brackets. A Host, User-Agent or
// Content-Length in headers, in any case, takes the place of the one that would
// be sent; other names may repeat. A nil lab sends no lab fields; otherwise
// call and attempt start as 0.
//
// It is an error when the bytes would not be exactly one request: a method that
// is no token or is CONNECT, spaces or control characters in target or values,
// a name that is no token, two Host fields, a Content-Length that is not the
// body's, a Transfer-Encoding (bodies are sent by length), or a lab field in
// headers beside lab.
func NewRequestTemplate(method, target, host string, headers []Header, body []byte, lab *LabHeaders) (*RequestTemplate, error) {
	if err := checkStart(method, target); err != nil {
		return nil, err
	}
	t := &RequestTemplate{method: ParseMethod(method)}
	own, err := readHeaders(headers, len(body), lab != nil)
	if err != nil {
		return nil, err
	}
	t.close = own.close
	if own.host < 0 {
		if err := checkHost(host); err != nil {
			return nil, err
		}
	}
	b := append(t.buf, method+" "+target+" HTTP/1.1\r\n"...)
	if own.host >= 0 {
		b = appendField(b, headers[own.host].Name, headers[own.host].Value)
	} else {
		b = appendField(b, "Host", host)
	}
	if !own.agent {
		b = appendField(b, "User-Agent", UserAgent)
	}
	for i, h := range headers {
		if i != own.host && !strings.EqualFold(h.Name, "content-length") {
			b = appendField(b, h.Name, h.Value)
		}
	}
	if lab != nil {
		run := lab.Run
		if lab.Hop {
			run = strings.Repeat("0", MaxRun)
		} else if err := checkRun(run); err != nil {
			return nil, err
		}
		b = appendField(b, "Latencylab-Run", run)
		if lab.Hop {
			t.run = len(b) - MaxRun - 2
			b = appendField(b, "Latencylab-Entry", strings.Repeat("0", entrySize))
			t.entry = len(b) - entrySize - 2
		}
		b = appendField(b, "Latencylab-Call", strings.Repeat("0", callDigits))
		t.call = len(b) - callDigits - 2
		b = appendField(b, "Latencylab-Attempt", strings.Repeat("0", attemptDigits))
		t.try = len(b) - attemptDigits - 2
	}
	// A method that anticipates content sends its length also when that is 0
	// (RFC 9110 8.6).
	if len(body) > 0 || own.length || t.method == MethodPost || t.method == MethodPut || t.method == MethodPatch {
		b = appendField(b, "Content-Length", strconv.Itoa(len(body)))
	}
	b = append(b, "\r\n"...)
	t.buf = slices.Clip(append(b, body...))
	return t, nil
}

// Clone returns a template of its own buffer.
func (t *RequestTemplate) Clone() *RequestTemplate {
	c := *t
	c.buf = bytes.Clone(t.buf)
	return &c
}

// Bytes returns the whole request. The buffer is the template's: it is valid
// until the next SetCall or SetAttempt and must not be changed.
func (t *RequestTemplate) Bytes() []byte { return t.buf }

// Method is the request's method.
func (t *RequestTemplate) Method() Method { return t.method }

// Head reports whether the method is HEAD, for Response.Begin.
func (t *RequestTemplate) Head() bool { return t.method == MethodHead }

// Close reports whether the request says Connection: close: its connection
// carries no further request, whatever the answer says (RFC 9112 9.6).
func (t *RequestTemplate) Close() bool { return t.close }

// AddField adds a field whose value has width bytes, zeros until SetField. A
// template has at most one. The name is a token that the headers of the request
// do not hold; an error quotes it.
func (t *RequestTemplate) AddField(name string, width int) error {
	end, err := t.insert(name, strings.Repeat("0", width))
	if err == nil {
		t.left, t.width = end-width, width
	}
	return err
}

// AddKey adds a field whose value is prefix and the call number of SetCall in 20
// digits: the same on all attempts of a call, and of no other call of a template
// with another prefix. A template has at most one. The name is as for AddField.
func (t *RequestTemplate) AddKey(name, prefix string) error {
	end, err := t.insert(name, prefix+strings.Repeat("0", callDigits))
	if err == nil {
		t.key = end - callDigits
	}
	return err
}

// insert adds a field after all others and returns the offset of the end of its
// value.
func (t *RequestTemplate) insert(name, value string) (end int, err error) {
	if err := checkHeader(Header{Name: name, Value: value}); err != nil {
		return 0, err
	}
	end = bytes.Index(t.buf, []byte("\r\n\r\n")) + 2
	if bytes.Contains(bytes.ToLower(t.buf[:end]), []byte("\r\n"+strings.ToLower(name)+":")) {
		return 0, fmt.Errorf("header %q is set for every attempt, want it not given", name)
	}
	field := appendField(nil, name, value)
	t.buf = slices.Clip(slices.Insert(t.buf, end, field...))
	return end + len(field) - 2, nil
}

// SetField writes the value of the field that AddField added, with zeros in
// front up to its width.
func (t *RequestTemplate) SetField(value []byte) {
	if t.left == 0 || len(value) > t.width {
		return
	}
	field := t.buf[t.left : t.left+t.width]
	pad := t.width - len(value)
	for i := range pad {
		field[i] = '0'
	}
	copy(field[pad:], value)
}

// SetCall writes the call number into Latencylab-Call and the field of AddKey, if
// they are sent.
func (t *RequestTemplate) SetCall(call uint64) {
	if t.key > 0 {
		putDigits(t.buf[t.key:t.key+callDigits], call)
	}
	if t.call > 0 {
		putDigits(t.buf[t.call:t.call+callDigits], call)
	}
}

// SetAttempt writes the attempt number into Latencylab-Attempt, if it is sent.
func (t *RequestTemplate) SetAttempt(attempt uint32) {
	if t.try > 0 {
		putDigits(t.buf[t.try:t.try+attemptDigits], uint64(attempt))
	}
}

// SetTrace writes what a hop passes on: the run, filled up with spaces, which
// are no part of a value (RFC 9110 5.5), and the entry.
func (t *RequestTemplate) SetTrace(run Run, e Entry) {
	if t.entry == 0 {
		return
	}
	field := t.buf[t.run : t.run+MaxRun]
	for i, c := range run {
		if c == 0 {
			c = ' '
		}
		field[i] = c
	}
	field = t.buf[t.entry : t.entry+entrySize]
	putDigits(field[:callDigits], e.Call)
	field[callDigits] = '/'
	putDigits(field[callDigits+1:], uint64(e.Attempt))
}

// putDigits fills b, an even number of bytes, with v in decimal and zeros in
// front, two digits a step.
func putDigits(b []byte, v uint64) {
	for i := len(b) - 2; i >= 0; i -= 2 {
		q := v / 100
		d := 2 * (v - q*100)
		b[i], b[i+1] = digitPairs[d], digitPairs[d+1]
		v = q
	}
}

// digitPairs holds "00" to "99".
const digitPairs = "0001020304050607080910111213141516171819" +
	"2021222324252627282930313233343536373839" +
	"4041424344454647484950515253545556575859" +
	"6061626364656667686970717273747576777879" +
	"8081828384858687888990919293949596979899"

// ownFields says which of the user's headers take the place of a default.
type ownFields struct {
	host                 int // index in headers, -1 for none
	agent, length, close bool
}

// readHeaders checks the user's headers and finds those that are treated apart.
func readHeaders(headers []Header, body int, lab bool) (own ownFields, err error) {
	own.host = -1
	for i, h := range headers {
		if err := checkHeader(h); err != nil {
			return own, err
		}
		switch name := strings.ToLower(h.Name); name {
		case "host":
			if own.host >= 0 {
				return own, fmt.Errorf("header %q is given twice (%q and %q), want one", h.Name, headers[own.host].Value, h.Value)
			}
			own.host = i
		case "user-agent":
			own.agent = true
		case "content-length":
			if v, ok := parseUint(trim([]byte(h.Value)), 1<<63-1); !ok || v != uint64(body) {
				return own, fmt.Errorf("header %q = %q, but the body has %d bytes", h.Name, h.Value, body)
			}
			own.length = true
		case "transfer-encoding":
			return own, fmt.Errorf("header %q = %q, want none: a body is sent with its length", h.Name, h.Value)
		case "connection":
			var m message
			m.connection([]byte(h.Value))
			own.close = own.close || m.has(flagClose)
		case "latencylab-run", "latencylab-call", "latencylab-attempt", "latencylab-entry":
			if lab {
				return own, fmt.Errorf("header %q is set for every attempt, want it not given", h.Name)
			}
		}
	}
	return own, nil
}

// checkStart checks what stands in the request line.
func checkStart(method, target string) error {
	if method == "" || !tokenOnly(method) {
		return fmt.Errorf("method %q is not a token, want one such as GET", method)
	}
	if method == "CONNECT" {
		return fmt.Errorf("method %q opens a tunnel, want a method that has an answer", method)
	}
	for i := 0; i < len(target); i++ {
		switch c := target[i]; {
		case c <= ' ' || c >= 0x7f:
			return fmt.Errorf("target %q has the byte %#02x at %d, want it percent-encoded", target, c, i)
		case c == '#':
			return fmt.Errorf("target %q has a fragment, which is never sent", target)
		}
	}
	absolute := strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://")
	if !strings.HasPrefix(target, "/") && !absolute && (target != "*" || method != "OPTIONS") {
		return fmt.Errorf("target %q does not start with a slash", target)
	}
	return nil
}

// checkHost checks a host[:port] of ours (RFC 9110 7.2).
func checkHost(host string) error {
	if host == "" {
		return fmt.Errorf("host is empty, want host or host:port")
	}
	for i, c := range host {
		if c > 0x7f {
			return fmt.Errorf("host %q has %q at %d, want an international name in its ASCII form (xn--…)", host, c, i)
		}
		if c <= ' ' || c == 0x7f || strings.ContainsRune("/?#@\\", c) {
			return fmt.Errorf("host %q has %q at %d, want host or host:port", host, c, i)
		}
	}
	if host[0] != '[' && strings.Count(host, ":") > 1 {
		return fmt.Errorf("host %q is an IPv6 address without brackets, want [ADDRESS] or [ADDRESS]:port", host)
	}
	return nil
}

// checkHeader checks name and value of a field (RFC 9110 5.1, 5.5).
func checkHeader(h Header) error {
	if h.Name == "" || !tokenOnly(h.Name) {
		return fmt.Errorf("header name %q is not a token, want one such as Accept", h.Name)
	}
	if i := strings.IndexFunc(h.Value, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }); i >= 0 {
		return fmt.Errorf("header %q has the control character %#02x at %d of its value", h.Name, h.Value[i], i)
	}
	return nil
}

// checkRun checks the ledger key, which stands at fixed width.
func checkRun(run string) error {
	if len(run) != RunSize {
		return fmt.Errorf("run key %q has %d bytes, want %d", run, len(run), RunSize)
	}
	for i := 0; i < len(run); i++ {
		if run[i] <= ' ' || run[i] >= 0x7f {
			return fmt.Errorf("run key %q has the byte %#02x at %d, want visible ASCII", run, run[i], i)
		}
	}
	return nil
}

func tokenOnly(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isToken[s[i]] {
			return false
		}
	}
	return true
}

// appendField appends one field line; space around the value is no part of it.
func appendField(b []byte, name, value string) []byte {
	value = strings.Trim(value, " \t")
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}
