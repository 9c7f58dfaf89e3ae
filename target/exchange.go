package target

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"latencylab/clock"
	"latencylab/service"
)

// setback is why the upstream gave no answer that can be handed on.
type setback uint8

const (
	noSetback        setback = iota
	setbackRefused           // the connection was refused
	setbackUnreached         // there was no connection for another reason
	setbackClosed            // it ended before an answer
	setbackMalformed         // the answer is none of HTTP/1.1
	setbackTruncated         // it ended within the body
	setbackTooLarge          // its body is too long
	setbackNoRoom            // there was no room for its body
	setbackTimeout           // it was not there in time
	setbackRequest           // the request cannot be forwarded
	setbackCancelled         // it was given up
	setbacks
)

// setbackOf[s] is the value of Latencylab-Upstream, the status and the line that
// answer the request.
var setbackOf = [setbacks]struct {
	word   string
	status int
	text   string
}{
	setbackRefused:   {"refused", 502, "the upstream refuses connections"},
	setbackUnreached: {"unreachable", 502, "the upstream cannot be reached"},
	setbackClosed:    {"closed", 502, "the upstream has closed the connection without an answer"},
	setbackMalformed: {"malformed", 502, "the answer of the upstream is not valid"},
	setbackTruncated: {"truncated", 502, "the answer of the upstream ended early"},
	setbackTooLarge:  {"too-large", 502, "the body of the upstream's answer is over the limit"},
	setbackNoRoom:    {"no-room", 503, "no room is left for the upstream's answer"},
	setbackTimeout:   {"timeout", 504, "the upstream did not answer in time"},
	setbackRequest:   {"request", 400, "the request cannot be forwarded"},
	setbackCancelled: {"cancelled", 502, "the request was given up"},
}

// passage is a request on its way to the upstream, and its answer on the way
// back. It belongs to the connection that reads the request, then to its record,
// then to the connection that the answer is written to. While out is true, a
// goroutine has what is marked.
type passage struct {
	raw     []byte // the request as it was read
	held    int    // bytes that are charged for
	record  uint32
	verdict service.Answer // what the service says without an upstream
	out     bool
	orphan  bool // nobody waits for it any more
	cancel  context.CancelFunc
	sent    clock.Time

	// The goroutine's.
	back    clock.Time // when its end was known
	setback setback
	waited  bool   // for its turn
	again   uint64 // how often it was sent anew, on a connection that had gone stale
	status  int
	fields  []byte // of the head, each with its line end
	dated   bool   // Date is among them
	length  int64  // that the head says where there is no body; negative: none
	body    []byte
}

// perHop are the fields that hold for one connection (RFC 9110 7.6.1), with those
// that the target sets itself.
var perHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// stripHop drops the fields that hold for one connection: those above, and those
// that Connection names.
func stripHop(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range perHop {
		h.Del(name)
	}
}

// outbound makes the request to the upstream of the bytes that were read.
func (u *upstream) outbound(ctx context.Context, raw []byte) (*http.Request, error) {
	in, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.TrimLeft(raw, "\r\n"))))
	if err != nil {
		return nil, err
	}
	stripHop(in.Header)
	in.Header.Del("Expect") // the body is here
	via := fmt.Sprintf("%d.%d latencylab-target", in.ProtoMajor, in.ProtoMinor)
	in.Header["Via"] = []string{strings.Join(append(in.Header["Via"], via), ", ")}
	if _, ok := in.Header["User-Agent"]; !ok {
		in.Header["User-Agent"] = nil // none is to be added
	}
	to := &url.URL{Scheme: "http", Host: u.Address, Path: in.URL.Path, RawPath: in.URL.RawPath, RawQuery: in.URL.RawQuery, ForceQuery: in.URL.ForceQuery}
	if target, _, _ := strings.Cut(in.RequestURI, "?"); !strings.HasPrefix(target, "//") && (target == "*" || strings.HasPrefix(target, "/")) {
		to.Opaque = target // as it was sent
	}
	out := &http.Request{
		Method: in.Method, URL: to, Host: in.Host, Header: in.Header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: in.Body, ContentLength: in.ContentLength,
	}
	return out.WithContext(ctx), nil
}

// exchange asks the upstream, in a goroutine of its own.
func (u *upstream) exchange(ctx context.Context, p *passage) {
	select {
	case u.turns <- struct{}{}:
	default:
		p.waited = true
		select {
		case u.turns <- struct{}{}:
		case <-ctx.Done():
			p.setback = endOf(ctx)
			return
		}
	}
	defer func() { <-u.turns }()
	var sent, first atomic.Uint64
	trace := &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { sent.Add(1) },
		GotFirstResponseByte: func() { first.Store(1) },
	}
	req, err := u.outbound(httptrace.WithClientTrace(ctx, trace), p.raw)
	if err != nil {
		p.setback = setbackRequest
		return
	}
	resp, err := u.transport.RoundTrip(req)
	p.again = max(sent.Load(), 1) - 1
	if err != nil {
		p.setback = setbackBy(ctx, err, sent.Load() > 0, first.Load() > 0)
		return
	}
	defer resp.Body.Close()
	if p.setback = p.head(resp); p.setback == noSetback {
		p.setback = u.content(ctx, p, resp)
	}
}

// endOf says how a context has ended that has.
func endOf(ctx context.Context) setback {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return setbackTimeout
	}
	return setbackCancelled
}

// setbackBy sorts an error before the end of the answer's head; connected and
// begun say whether there was a connection, and a byte of an answer.
func setbackBy(ctx context.Context, err error, connected, begun bool) setback {
	var dial *net.OpError
	switch {
	case ctx.Err() != nil:
		return endOf(ctx)
	case errors.As(err, &dial) && dial.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED):
		return setbackRefused
	case errors.As(err, &dial) && dial.Op == "dial":
		return setbackUnreached
	case !connected:
		return setbackRequest
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), !begun:
		return setbackClosed
	}
	return setbackMalformed
}

// head takes over status and fields of an answer.
func (p *passage) head(resp *http.Response) setback {
	if resp.StatusCode < firstStatus || resp.StatusCode >= firstStatus+statuses {
		return setbackMalformed
	}
	p.status, p.length = resp.StatusCode, -1
	if resp.Request.Method == http.MethodHead && resp.ContentLength >= 0 {
		p.length = resp.ContentLength
	}
	stripHop(resp.Header)
	for _, name := range []string{"Content-Length", "Latencylab-Replica", "Latencylab-Work", "Latencylab-Left-Out", "Latencylab-Upstream"} {
		resp.Header.Del(name)
	}
	_, p.dated = resp.Header["Date"]
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		for _, v := range resp.Header[name] {
			if strings.ContainsAny(v, "\r\n\x00") {
				return setbackMalformed
			}
			p.fields = append(p.fields, name...)
			p.fields = append(append(append(p.fields, ": "...), v...), "\r\n"...)
		}
	}
	return noSetback
}

// content reads the body of an answer, which has to end.
func (u *upstream) content(ctx context.Context, p *passage, resp *http.Response) setback {
	if resp.ContentLength > u.Body && p.length < 0 {
		return setbackTooLarge
	}
	for resp.Body != http.NoBody {
		if len(p.body) == cap(p.body) {
			more := min(max(4<<10, cap(p.body)), int(u.Body)+1)
			if cap(p.body) == 0 && resp.ContentLength > 0 && p.length < 0 {
				more = int(resp.ContentLength) + 1 // for the end to be seen
			}
			if !u.hold(more) {
				return setbackNoRoom
			}
			p.held += more
			b := make([]byte, len(p.body), cap(p.body)+more)
			copy(b, p.body)
			p.body = b
		}
		n, err := resp.Body.Read(p.body[len(p.body):cap(p.body)])
		p.body = p.body[:len(p.body)+n]
		switch {
		case int64(len(p.body)) > u.Body:
			return setbackTooLarge
		case err == io.EOF:
			return noSetback
		case err != nil && ctx.Err() != nil:
			return endOf(ctx)
		case err != nil:
			return setbackTruncated
		}
	}
	return noSetback
}
