package http1

import (
	"bytes"
	"fmt"
	"testing"
)

// parser is what Response and Request have in common.
type parser interface {
	Feed(b []byte) (n int, done bool, f Fault)
	WireBytes() uint64
	BodyBytes() int64
	HeadDone() bool
}

// fed is what a parser made of an input.
type fed struct {
	consumed, pending int
	done              bool
	fault             Fault
}

// drive feeds in to p, cut before each index of cuts (ascending, in range), as
// a connection's owner would: what is not consumed is fed again with the next
// piece. Every piece is a buffer of its own that is overwritten afterwards, so
// a parser that kept a reference would be found out. drive fails t when an
// invariant of Feed does not hold.
func drive(t testing.TB, p parser, in []byte, cuts []int) fed {
	t.Helper()
	var r fed
	var held []byte
	from := 0
	for i := 0; i <= len(cuts); i++ {
		to := len(in)
		if i < len(cuts) {
			to = cuts[i]
		}
		buf := append(bytes.Clone(held), in[from:to]...)
		from = to
		body, wire := p.BodyBytes(), p.WireBytes()
		n, done, f := p.Feed(buf)
		if n < 0 || n > len(buf) {
			t.Fatalf("Feed of %d bytes consumed %d", len(buf), n)
		}
		if done && f != FaultNone {
			t.Fatalf("done together with %v", f)
		}
		if got := p.WireBytes() - wire; got != uint64(n) {
			t.Fatalf("WireBytes grew by %d, Feed consumed %d", got, n)
		}
		if d := p.BodyBytes() - body; d < 0 || d > int64(n) {
			t.Fatalf("BodyBytes grew by %d of %d bytes", d, n)
		}
		if done && !p.HeadDone() {
			t.Fatal("done before the head is")
		}
		r.consumed += n
		if done || f != FaultNone {
			// What Feed has left belongs to nobody else's message yet; both ends are final.
			for _, again := range [][]byte{nil, buf[n:], []byte("x"), []byte("HTTP/1.1 200 OK\r\n\r\n")} {
				if n2, done2, f2 := p.Feed(again); n2 != 0 || done2 != done || f2 != f {
					t.Fatalf("after (done %v, %v) Feed(%q) = %d, %v, %v", done, f, again, n2, done2, f2)
				}
			}
			r.done, r.fault, r.pending = done, f, len(in)-r.consumed
			return r
		}
		held = bytes.Clone(buf[n:])
		for i := range buf {
			buf[i] = 'X'
		}
		if len(held) >= MaxLine {
			t.Fatalf("%d bytes left with the caller, want less than %d", len(held), MaxLine)
		}
		if n2, done2, f2 := p.Feed(held); n2 != 0 || done2 || f2 != FaultNone {
			t.Fatalf("Feed of the same %d bytes again = %d, %v, %v", len(held), n2, done2, f2)
		}
	}
	r.pending = len(held)
	return r
}

// cutSets returns ways to cut n bytes: none, in two at every position, and byte
// by byte. Of inputs beyond 2000 bytes, positions around the limits and every
// 997th are taken.
func cutSets(n int) [][]int {
	sets := [][]int{nil}
	if n > 2000 {
		for i := 1; i < n; i++ {
			if i%997 == 0 || i < 40 || n-i < 40 || i%MaxLine < 2 || i%MaxLine > MaxLine-3 {
				sets = append(sets, []int{i})
			}
		}
		return sets
	}
	var all []int
	for i := 1; i < n; i++ {
		sets = append(sets, []int{i})
		all = append(all, i)
	}
	return append(sets, all)
}

// seededCuts derives ascending cuts of n bytes from a seed.
func seededCuts(n int, seed uint64) []int {
	var cuts []int
	for i := 1; i < n; i++ {
		seed = seed*6364136223846793005 + 1442695040888963407
		if seed>>60 < seed&7 {
			cuts = append(cuts, i)
		}
	}
	return cuts
}

// answerView is everything that a Response tells its owner.
func answerView(p *Response) string {
	a, ok := p.RetryAfter()
	return fmt.Sprint("status ", p.Status(), " body ", p.BodyBytes(), " wire ", p.WireBytes(), " reuse ", p.Reuse(),
		" started ", p.Started(), " head ", p.HeadDone(), " after ", a, ok, " target ", p.Target(), p.Replica())
}

// requestView is everything that a Request tells its owner.
func requestView(p *Request) string {
	call, hasCall := p.LabCall()
	attempt, hasAttempt := p.LabAttempt()
	run, hasRun := p.LabRun()
	return fmt.Sprint("method ", p.Method(), string(p.MethodName()), " body ", p.BodyBytes(), " wire ", p.WireBytes(),
		" keep ", p.KeepAlive(), " 1.0 ", p.HTTP10(), " path ", p.Path(), p.WellKnown(), " expect ", p.Expect100(),
		" head ", p.HeadDone(), " lab ", call, hasCall, attempt, hasAttempt, run, hasRun)
}

// checkAnswer feeds in at once and cut, and returns the first parser after an
// optional end of the stream.
func checkAnswer(t testing.TB, in []byte, head, reused, eof bool, sets [][]int) (Response, fed) {
	t.Helper()
	var first Response
	var firstFed fed
	for i, cuts := range sets {
		var p Response
		p.Begin(head, reused)
		r := drive(t, &p, in, cuts)
		if eof {
			done, f := p.EOF(r.pending)
			if r.fault != FaultNone && f != r.fault || r.done && !done {
				t.Fatalf("EOF after %+v = %v, %v", r, done, f)
			}
			r.done, r.fault = done, f
			if n, done, f := p.Feed([]byte("x")); n != 0 || done != r.done || f != r.fault {
				t.Fatalf("after EOF (%v, %v) Feed = %d, %v, %v", r.done, r.fault, n, done, f)
			}
		}
		if p.Reuse() && !r.done {
			t.Fatal("reuse before the answer is done")
		}
		if i == 0 {
			first, firstFed = p, r
			continue
		}
		if r != firstFed {
			t.Fatalf("cut at %v: %+v, want %+v as at once; input %q", cuts, r, firstFed, clip(in))
		}
		if got, want := answerView(&p), answerView(&first); got != want {
			t.Fatalf("cut at %v: %s, want %s; input %q", cuts, got, want, clip(in))
		}
		if r.fault == FaultNone && p != first {
			t.Fatalf("cut at %v: state %+v, want %+v; input %q", cuts, p, first, clip(in))
		}
	}
	return first, firstFed
}

// checkRequest is checkAnswer for requests, without an end of the stream.
func checkRequest(t testing.TB, in []byte, sets [][]int) (Request, fed) {
	t.Helper()
	var first Request
	var firstFed fed
	for i, cuts := range sets {
		var p Request
		r := drive(t, &p, in, cuts)
		if p.KeepAlive() && r.fault != FaultNone {
			t.Fatal("connection kept after a fault")
		}
		if i == 0 {
			first, firstFed = p, r
			continue
		}
		if r != firstFed {
			t.Fatalf("cut at %v: %+v, want %+v as at once; input %q", cuts, r, firstFed, clip(in))
		}
		if got, want := requestView(&p), requestView(&first); got != want {
			t.Fatalf("cut at %v: %s, want %s; input %q", cuts, got, want, clip(in))
		}
		if r.fault == FaultNone && p != first {
			t.Fatalf("cut at %v: state %+v, want %+v; input %q", cuts, p, first, clip(in))
		}
	}
	return first, firstFed
}

func clip(in []byte) []byte { return in[:min(len(in), 200)] }
