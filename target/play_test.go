package target

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"latencylab/service"
)

// always is a service of which every request meets the fault.
func always(f service.Fault, as service.FaultSpec) *service.Spec {
	sp := &service.Spec{Queue: -1, Body: 100}
	as.Share = 1
	sp.Faults[f] = as
	return sp
}

// TestFaultsOnTheWire: what a caller reads of each fault, and what it is in the
// ledger.
func TestFaultsOnTheWire(t *testing.T) {
	part := 0.3
	slow := service.FaultSpec{Interval: time.Millisecond, Bytes: 7}
	whole := func(s seen) bool {
		return strings.HasPrefix(s.head, "HTTP/1.1 200 OK\r\n") && len(s.body) == 100
	}
	for _, row := range []struct {
		fault service.Fault
		as    service.FaultSpec
		// wants judges what came until the end, or until nothing more came.
		wants  func(s seen) bool
		ends   bool // the target ends the connection
		counts Counts
	}{
		{service.FaultClose, service.FaultSpec{}, func(s seen) bool { return s.head == "" && s.err == nil }, true, Counts{Broken: 1}},
		{service.FaultHeadTruncated, service.FaultSpec{At: &part}, func(s seen) bool {
			return strings.HasPrefix(s.head, "HTTP/1.1 200 OK\r\nDate") && !strings.HasSuffix(s.head, "\r\n\r\n") && len(s.head) < 60 && s.err == nil
		}, true, Counts{Broken: 1}},
		{service.FaultBodyStall, service.FaultSpec{At: &part}, func(s seen) bool {
			return strings.Contains(s.head, "\r\nContent-Length: 100\r\n") && len(s.body) == 30
		}, false, Counts{CutShort: 1, Cancelled: Cancelled{Running: 1, Dropped: 1}}},
		{service.FaultBodyDrip, slow, whole, false, Counts{}},
		{service.FaultBodyReset, service.FaultSpec{At: &part}, func(s seen) bool {
			return len(s.body) <= 30 && errors.Is(s.err, syscall.ECONNRESET)
		}, true, Counts{Broken: 1}},
		{service.FaultHeadDrip, slow, whole, false, Counts{}},
		{service.FaultInterim, service.FaultSpec{Interval: time.Millisecond, Status: 102, Times: 3}, func(s seen) bool {
			const processing = "HTTP/1.1 102 Processing\r\n\r\n"
			return s.head == processing && strings.HasPrefix(s.body, processing+processing+"HTTP/1.1 200 OK\r\n") && strings.HasSuffix(s.body, ".\n0123456789abcdefghijklmnopqrstuvwxyz")
		}, false, Counts{}},
		{service.FaultBadStatusLine, service.FaultSpec{}, func(s seen) bool {
			return strings.HasPrefix(s.head, "HTTP/1.1 2x0 OK\r\n") && len(s.body) == 100
		}, true, Counts{Broken: 1}},
		{service.FaultBadHeader, service.FaultSpec{}, func(s seen) bool {
			return strings.HasSuffix(s.head, "\r\nthis line is no field\r\n\r\n") && len(s.body) == 100
		}, true, Counts{Broken: 1}},
		{service.FaultDuplicateLength, service.FaultSpec{}, func(s seen) bool {
			return strings.HasSuffix(s.head, "\r\nContent-Length: 100\r\nContent-Length: 101\r\n\r\n") && len(s.body) == 100
		}, true, Counts{Broken: 1}},
		{service.FaultLengthShort, service.FaultSpec{Bytes: 20}, func(s seen) bool {
			return strings.Contains(s.head, "\r\nContent-Length: 100\r\n") && len(s.body) == 120
		}, false, Counts{}},
		{service.FaultLengthLong, service.FaultSpec{Bytes: 20}, func(s seen) bool {
			return strings.Contains(s.head, "\r\nContent-Length: 120\r\n") && len(s.body) == 100
		}, true, Counts{Broken: 1}},
		{service.FaultChunkCut, service.FaultSpec{At: &part}, func(s seen) bool {
			return strings.Contains(s.head, "\r\nTransfer-Encoding: chunked\r\n") && !strings.Contains(s.head, "Length") && len(s.body) == len("64\r\n")+30
		}, true, Counts{Broken: 1}},
		{service.FaultCloseAfter, service.FaultSpec{}, func(s seen) bool { return whole(s) && !strings.Contains(s.head, "close") && s.err == nil }, true, Counts{}},
	} {
		t.Run(row.fault.String(), func(t *testing.T) {
			tg := begin(t, Config{Service: always(row.fault, row.as)})
			c := dial(t, tg.Replicas()[0])
			c.send(get("r", 1, 1))
			var s seen
			if row.ends {
				var b []byte
				b, s.err = io.ReadAll(c.r)
				s.split(b)
			} else {
				var b []byte
				for !row.wants(s) {
					more := make([]byte, 1)
					if _, s.err = io.ReadFull(c.r, more); s.err != nil {
						break
					}
					b = append(b, more...)
					s.split(b)
				}
			}
			if !row.wants(s) {
				t.Errorf("read %q, %q, %v", s.head, s.body, s.err)
			}
			c.Close()
			settle(t, "the end", func() bool { return tg.Ledger().Run("r").InFlight == 0 && tg.Ledger().Connections.Open == 0 })
			r := tg.Ledger().Run("r")
			sums(t, r)
			if r.Broken != row.counts.Broken || r.CutShort != row.counts.CutShort || r.Cancelled != row.counts.Cancelled || r.AfterLeft != 0 {
				t.Errorf("%+v, want %+v", r.Counts, row.counts)
			}
			if r.Faults[row.fault.String()] != 1 || len(r.Faults) != 1 {
				t.Errorf("faults %v, want one %v", r.Faults, row.fault)
			}
			for _, l := range tg.loops {
				if l.plays.Used() != 0 || l.records.Used() != 0 {
					t.Errorf("%d plays and %d records are held", l.plays.Used(), l.records.Used())
				}
			}
		})
	}
}

// seen is what a caller has read.
type seen struct {
	head, body string // head ends with its empty line, if that came
	err        error
}

// split parts what was read at the empty line.
func (s *seen) split(b []byte) {
	s.head, s.body = string(b), ""
	if i := bytes.Index(b, []byte("\r\n\r\n")); i >= 0 {
		s.head, s.body = string(b[:i+4]), string(b[i+4:])
	}
}

// TestCloseOnReuse: the first request of a connection is answered, and the second
// ends it.
func TestCloseOnReuse(t *testing.T) {
	tg := begin(t, Config{Service: always(service.FaultCloseOnReuse, service.FaultSpec{})})
	c := dial(t, tg.Replicas()[0])
	c.send(plainGet)
	c.answer("GET")
	c.send(plainGet)
	c.closed()
	r := tg.Ledger().Run("")
	sums(t, r)
	if r.Answered[200] != 1 || r.Broken != 1 || r.Faults["close-on-reuse"] != 1 {
		t.Errorf("%+v", r)
	}
}

// TestDripGoesOn: after a body that came by pieces, the connection carries the
// next request, and the body is the one that comes without the fault.
func TestDripGoesOn(t *testing.T) {
	tg := begin(t, Config{Service: always(service.FaultBodyDrip, service.FaultSpec{Interval: time.Millisecond, Bytes: 30})})
	plain := begin(t, Config{Service: &service.Spec{Queue: -1, Body: 100}})
	p := dial(t, plain.Replicas()[0])
	p.send(plainGet)
	_, want := p.answer("GET")
	c := dial(t, tg.Replicas()[0])
	for range 2 {
		began := time.Now()
		c.send(plainGet)
		resp, body := c.answer("GET")
		if took := time.Since(began); resp.StatusCode != 200 || body != want || took < 4*time.Millisecond {
			t.Errorf("status %d, %q after %v", resp.StatusCode, body, took)
		}
	}
	// A HEAD request has no body to strike.
	c.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
	c.answer("HEAD")
	if r := tg.Ledger().Run(""); r.Faults["body-drip"] != 2 || r.Answered[200] != 3 {
		t.Errorf("%+v", r)
	}
}

// TestManyDrips: thousands of answers drip at once, callers leave in the middle
// of some, and all is accounted for and given back.
func TestManyDrips(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 200
	}
	sp := always(service.FaultBodyDrip, service.FaultSpec{Interval: 20 * time.Millisecond, Bytes: 10})
	tg := begin(t, Config{Service: sp})
	callers := make([]*caller, n)
	for i := range callers {
		callers[i] = dial(t, tg.Replicas()[0])
		callers[i].send(get("r", uint64(i), 1))
	}
	for i, c := range callers {
		if i%4 == 0 { // leaves in the middle
			if _, err := http.ReadResponse(c.r, nil); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
	}
	for i, c := range callers {
		if i%4 != 0 {
			if _, body := c.answer("GET"); len(body) != 100 {
				t.Fatalf("caller %d: %d bytes", i, len(body))
			}
		}
	}
	settle(t, "the end of all", func() bool { return tg.Ledger().Run("r").InFlight == 0 })
	r := tg.Ledger().Run("r")
	sums(t, r)
	left := r.Cancelled.Dropped
	if r.Arrived != uint64(n) || r.Answered[200]+left != uint64(n) || r.Faults["body-drip"] != uint64(n) || left > uint64(n/4) || r.CutShort != left {
		t.Errorf("%+v, answered %v, faults %v", r.Counts, r.Answered, r.Faults)
	}
	tg.Stop()
	if used := tg.loops[0].plays.Used(); used != 0 {
		t.Errorf("%d plays are held", used)
	}
}
