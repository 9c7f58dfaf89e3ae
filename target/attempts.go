package target

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"latencylab/http1"
)

const (
	// piece is how many entries a loop copies at once for a reader: some tens of
	// microseconds of its time.
	piece = 1024
	// showLast is how many attempts a page shows when it is not told.
	showLast = 100
	// attemptPages is how many pages of attempts are made at once; each holds up
	// to KeptAttempts records.
	attemptPages = 4
)

// filter chooses attempts. Its zero value chooses all.
type filter struct {
	run                    *string
	end                    string
	call, entry            *uint64
	replica, status, fault *string
	last                   int
}

// passes reports whether the filter chooses entry e of b.
func (f *filter) passes(b *batch, e *entry) bool {
	if f.run != nil {
		if key, ok := b.name(e); !ok || key != *f.run {
			return false
		}
	}
	return (f.end == "" || f.end == e.end.String()) &&
		(f.call == nil || *f.call == e.call) &&
		(f.entry == nil || *f.entry == e.entry.Call && e.entry.Attempt != 0) &&
		(f.replica == nil || *f.replica == strconv.Itoa(int(e.replica))) &&
		(f.status == nil || *f.status == strconv.Itoa(int(e.status))) &&
		(f.fault == nil || *f.fault == e.faultName())
}

// filterArgs reads a query: run, replica, status, fault, end, call, entry and last, all
// of which may be left out. Another name is a mistake: it would choose too much.
func filterArgs(args *fasthttp.Args) (f filter, err error) {
	f.last = showLast
	for k, v := range args.All() {
		text := string(v)
		switch name := string(k); name {
		case "run":
			f.run = &text
		case "replica", "status":
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				return f, fmt.Errorf("%s = %q, want a number", name, text)
			}
			text = strconv.FormatUint(n, 10)
			if name == "replica" {
				f.replica = &text
			} else {
				f.status = &text
			}
		case "fault":
			f.fault = &text
		case "end":
			if !slices.Contains(endNames[:], text) {
				return f, fmt.Errorf("end = %q, want answered, after_left, dropped or broken", text)
			}
			f.end = text
		case "call", "entry":
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return f, fmt.Errorf("%s = %q, want a number", name, text)
			}
			if name == "call" {
				f.call = &n
			} else {
				f.entry = &n
			}
		case "last":
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil || n == 0 || n > KeptAttempts {
				return f, fmt.Errorf("last = %q, want 1 to %d", text, KeptAttempts)
			}
			f.last = int(n)
		default:
			return f, fmt.Errorf("unknown filter %q, want run, replica, status, fault, end, call, entry or last", name)
		}
	}
	return f, nil
}

// copyFrom hands to take what the ring of loop i holds from number from on, in
// pieces of buf, so that the loop never stops for long. It returns the number
// after the last and how many were lost before the first or between. The caller
// holds t.reading.
func (t *Target) copyFrom(i int, from uint64, buf []entry, take func(b *batch)) (next, lost uint64) {
	names := t.runs.names()
	for {
		var n int
		var at, end uint64
		l := t.loops[i]
		l.do(func() {
			n, at = l.ring.read(buf, from)
			end = l.ring.next
		})
		lost += at - from
		from = at + uint64(n)
		if n > 0 {
			take(&batch{i, at, buf[:n], names})
		}
		if n < len(buf) || from >= end {
			return from, lost
		}
	}
}

// shown is one attempt that a page shows.
type shown struct {
	loop int
	n    uint64
	entry
}

// attempts returns the last attempts that the filter chooses, of all loops, the
// one that ended last at the end.
func (t *Target) attempts(f *filter) (list []shown, names []http1.Run) {
	t.reading.Lock()
	defer t.reading.Unlock()
	names = t.runs.names()
	buf := make([]entry, piece)
	for i, l := range t.loops {
		var from uint64
		l.do(func() { from = l.ring.oldest() })
		t.copyFrom(i, from, buf, func(b *batch) {
			for k := range b.entries {
				if e := &b.entries[k]; f.passes(b, e) {
					list = append(list, shown{i, b.at + uint64(k), *e})
				}
			}
			if len(list) > 2*KeptAttempts { // of loops before
				list = lastOf(list, KeptAttempts)
			}
		})
	}
	list = lastOf(list, KeptAttempts)
	return list[max(0, len(list)-f.last):], names
}

// lastOf sorts attempts by their ends and returns the last n.
func lastOf(list []shown, n int) []shown {
	slices.SortStableFunc(list, func(a, b shown) int {
		return cmp.Compare(a.arrived.Add(a.took), b.arrived.Add(b.took))
	})
	return slices.Delete(list, 0, max(0, len(list)-n))
}

// attemptsPage shows the last attempts.
func (t *Target) attemptsPage(ctx *fasthttp.RequestCtx) {
	f, err := filterArgs(ctx.QueryArgs())
	if err != nil {
		fail(ctx, fasthttp.StatusBadRequest, err.Error())
		return
	}
	select {
	case t.pages.attempts <- struct{}{}:
	default:
		fail(ctx, fasthttp.StatusServiceUnavailable, "too many readers of attempts, ask again")
		return
	}
	list, names := t.attempts(&f)
	ctx.SetContentType("application/x-ndjson")
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer func() { <-t.pages.attempts }()
		var line []byte
		for i := range list {
			b := batch{list[i].loop, list[i].n, []entry{list[i].entry}, names}
			line = b.appendLine(line[:0], 0)
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	})
}
