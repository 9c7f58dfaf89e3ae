package http1

import (
	"bytes"
	"testing"
)

func FuzzResponse(f *testing.F) {
	for _, row := range answerRows {
		if len(row.in) < 2000 {
			f.Add([]byte(row.in), uint64(len(row.in)), row.head, row.reused, row.eof)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, head, reused, eof bool) {
		p, r := checkAnswer(t, in, head, reused, eof, fuzzCuts(len(in), seed))
		if r.done && (p.Status() < 200 || p.Status() > 999) {
			t.Fatalf("an answer with status %d", p.Status())
		}
		if eof && !r.done && r.fault == FaultNone {
			t.Fatal("neither done nor at fault after the end of the stream")
		}
	})
}

func FuzzRequest(f *testing.F) {
	for _, row := range requestRows {
		if len(row.in) < 2000 {
			f.Add([]byte(row.in), uint64(len(row.in)))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		p, r := checkRequest(t, in, fuzzCuts(len(in), seed))
		if r.done && (len(p.MethodName()) == 0 || p.Head() != (string(p.MethodName()) == "HEAD")) {
			t.Fatalf("method %q, head %v", p.MethodName(), p.Head())
		}
		if f := p.EOF(r.pending); r.fault != FaultNone && f != r.fault {
			t.Fatalf("EOF after %v: %v", r.fault, f)
		}
	})
}

// FuzzTemplate checks that what the constructor accepts is one request, of the
// method and body that were asked for, whatever the user's strings hold.
func FuzzTemplate(f *testing.F) {
	f.Add("GET", "/", "h", "Accept", "*/*", []byte(nil))
	f.Add("POST", "/a?b", "[::1]:1", "Content-Length", "3", []byte("abc"))
	f.Add("GET", "http://x/", "x", "Host", "a\r\n\r\nGET / HTTP/1.1", []byte(nil))
	f.Fuzz(func(t *testing.T, method, target, host, name, value string, body []byte) {
		tmpl, err := NewRequestTemplate(method, target, host, []Header{{name, value}}, body, &LabHeaders{Run: testRun})
		if err != nil {
			return
		}
		var p Request
		n, done, fault := p.Feed(tmpl.Bytes())
		switch fault {
		case HeaderTooLarge, UnknownMethod: // more than this server reads
			return
		}
		if !done || n != len(tmpl.Bytes()) || p.BodyBytes() != int64(len(body)) || string(p.MethodName()) != method {
			t.Fatalf("%q is read as %d of %d bytes, done %v, %v, %s", tmpl.Bytes(), n, len(tmpl.Bytes()), done, fault, requestView(&p))
		}
		if c := bytes.Count(bytes.ToLower(tmpl.Bytes()[:len(tmpl.Bytes())-len(body)]), []byte("\r\nhost:")); c != 1 {
			t.Fatalf("%d Host lines in %q", c, tmpl.Bytes())
		}
	})
}

// FuzzWords compares the judgements by words with their definitions.
func FuzzWords(f *testing.F) {
	f.Add([]byte("Content-Length: 1"))
	f.Add([]byte("Abc-,efgh: \x7f\x80\x1f\t"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := nameLen(b), slowNameLen(b); got != want {
			t.Fatalf("nameLen(%q) = %d, want %d", b, got, want)
		}
		if got, want := hasControl(b), slowControl(b); got != want {
			t.Fatalf("hasControl(%q) = %v, want %v", b, got, want)
		}
	})
}

// TestWords runs the comparison of FuzzWords over every byte at every place of
// a word, behind and before bytes that could carry over.
func TestWords(t *testing.T) {
	for _, fill := range []byte("a-:, \t\x00\x1f\x7f\x80\xff") {
		for i := range 20 {
			for c := range 256 {
				b := bytes.Repeat([]byte{fill}, 20)
				b[i] = byte(c)
				for _, end := range []byte(":a") {
					b[19] = end
					if got, want := nameLen(b), slowNameLen(b); got != want {
						t.Fatalf("nameLen(%q) = %d, want %d", b, got, want)
					}
				}
				if got, want := hasControl(b), slowControl(b); got != want {
					t.Fatalf("hasControl(%q) = %v, want %v", b, got, want)
				}
			}
		}
	}
}

// TestNames changes every character of the names that are compared by words:
// the case must not matter, everything else must.
func TestNames(t *testing.T) {
	rows := []struct {
		name string
		is   func(name []byte) bool
	}{
		{"connection", isConnection}, {"content-length", isContentLength}, {"transfer-encoding", isTransferEncoding},
		{"retry-after", isRetryAfter}, {"grpc-retry-pushback-ms", isPushback}, {"latencylab-call", isLabCall}, {"latencylab-run", isLabRun},
		{"latencylab-attempt", isLabAttempt}, {"latencylab-replica", isLabReplica},
	}
	for _, row := range rows {
		if !row.is([]byte(row.name)) || !row.is(bytes.ToUpper([]byte(row.name))) {
			t.Errorf("%s is not taken for itself", row.name)
		}
		for i := range row.name {
			for c := range 256 {
				b := []byte(row.name)
				b[i] = byte(c)
				// Only tokens come here.
				if want := bytes.EqualFold(b, []byte(row.name)); isToken[c] && row.is(b) != want {
					t.Errorf("%q taken for %s: %v, want %v", b, row.name, !want, want)
				}
			}
		}
	}
}

// fuzzCuts feeds at once, cut by the seed, in two, and short inputs byte by byte.
func fuzzCuts(n int, seed uint64) [][]int {
	sets := [][]int{nil, seededCuts(n, seed)}
	if n > 1 {
		sets = append(sets, []int{1 + int(seed%uint64(n-1))})
	}
	if n < 500 {
		all := cutSets(n)
		sets = append(sets, all[len(all)-1])
	}
	return sets
}
