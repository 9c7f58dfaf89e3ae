package target

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// streamEvery is how often a reader of the full record is given what is new.
	streamEvery = 50 * time.Millisecond
	// streamIdle is how long a stream without a record stays silent.
	streamIdle = 5 * time.Second
	// streamPatience is how long a reader may take for some hundred kilobytes.
	streamPatience = 30 * time.Second
	// streamReaders bounds the streams that are read at once.
	streamReaders = 16
)

// RecordLedger counts the readers of the full record: streams and a file.
type RecordLedger struct {
	Readers int64 `json:"readers"` // now
	// Records were given to readers, each counted for every reader; Lost were
	// overwritten before a slow reader came to them, or could not be written.
	Records uint64 `json:"records"`
	Lost    uint64 `json:"lost"`
}

// following is the state of all readers of the full record.
type following struct {
	readers       atomic.Int64
	records, lost atomic.Uint64
}

// reader follows the rings of all loops from where they are when it begins. The
// rings are its buffer: a reader that is slower than the loops fill them loses
// records, and is told how many by a line {"lost":N} where they are missing.
type reader struct {
	t    *Target
	at   []uint64 // next number, by loop
	lost uint64   // not told yet
	buf  []entry
	text []byte
}

func (t *Target) newReader() *reader {
	r := &reader{t: t, at: make([]uint64, len(t.loops)), buf: make([]entry, piece)}
	for i, l := range t.loops {
		l.do(func() { r.at[i] = l.ring.next })
	}
	return r
}

// next makes the text of the next records of one loop, at most a piece of them;
// n is how many they are.
func (r *reader) next(loop int) (n int) {
	r.t.reading.Lock()
	b := batch{loop: loop, names: r.t.runs.names()}
	l := r.t.loops[loop]
	l.do(func() { n, b.at = l.ring.read(r.buf, r.at[loop]) })
	if n > 0 || b.at > r.at[loop] {
		gone := b.at - r.at[loop]
		r.lost += gone
		r.t.following.lost.Add(gone)
	}
	r.t.reading.Unlock()
	r.at[loop] = b.at + uint64(n)
	b.entries = r.buf[:n]
	r.text = r.text[:0]
	if r.lost > 0 {
		r.text = append(strconv.AppendUint(append(r.text, `{"lost":`...), r.lost, 10), "}\n"...)
	}
	for i := range b.entries {
		r.text = b.appendLine(r.text, i)
	}
	return n
}

// follow gives write what is recorded until quit is closed, and all until then.
// After an error of write its records are lost; again says whether to go on.
func (r *reader) follow(quit <-chan struct{}, write func(text []byte) (again bool, err error)) {
	f := &r.t.following
	f.readers.Add(1)
	defer f.readers.Add(-1)
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	silent := time.Now()
	for last := false; ; {
		for loop := range r.at {
			for n := piece; n == piece; {
				n = r.next(loop)
				if len(r.text) == 0 {
					continue
				}
				silent = time.Now()
				again, err := write(r.text)
				switch {
				case err == nil:
					r.lost = 0
					f.records.Add(uint64(n))
				case again:
					r.lost += uint64(n)
					f.lost.Add(uint64(n))
				default:
					f.lost.Add(uint64(n))
					return
				}
			}
		}
		if last {
			return
		}
		if time.Since(silent) > streamIdle { // shows whether the reader is still there
			silent = time.Now()
			if again, err := write([]byte("{\"lost\":0}\n")); err != nil && !again {
				return
			}
		}
		select {
		case <-quit:
			last = true
		case <-tick.C:
		}
	}
}

// mayStream takes one of the places for streams, which the writer of the body gives
// back, or refuses the request.
func (p *pages) mayStream(ctx *fasthttp.RequestCtx) bool {
	select {
	case p.streams <- struct{}{}:
		ctx.SetConnectionClose()
		return true
	default:
		fail(ctx, fasthttp.StatusServiceUnavailable, "too many streams, want at most "+strconv.Itoa(streamReaders))
		return false
	}
}

// streamPage sends the full record until the reader leaves or the target stops.
func (t *Target) streamPage(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("application/x-ndjson")
	if ctx.IsHead() {
		return
	}
	if !t.pages.mayStream(ctx) {
		return
	}
	conn, quit := ctx.Conn(), t.pages.quit
	r := t.newReader()
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer func() { <-t.pages.streams }()
		w.Flush() // the head, so that the caller sees that it began
		r.follow(quit, func(text []byte) (bool, error) {
			conn.SetWriteDeadline(time.Now().Add(streamPatience))
			if _, err := w.Write(text); err != nil {
				return false, err
			}
			return false, w.Flush()
		})
	})
}

// Record writes the full record from now on to file, as lines of JSON, until
// stop is called, which returns when all is written; it does not close the file.
// When the file cannot be written, failed is called once; the records are
// counted as lost, also in the file once that can be written again.
func (t *Target) Record(file *os.File, failed func(error)) (stop func()) {
	r := t.newReader()
	quit, done := make(chan struct{}), make(chan struct{})
	var good int64 // length of the file that holds whole lines
	told := false
	write := func(text []byte) (bool, error) {
		n, err := file.Write(text)
		if err == nil {
			good += int64(n)
			return true, nil
		}
		if n > 0 { // half a line is no record; a pipe keeps it
			if file.Truncate(good) == nil {
				file.Seek(good, io.SeekStart)
			} else {
				file.Write([]byte("\n"))
			}
		}
		if !told {
			told = true
			failed(err)
		}
		return true, err
	}
	go func() {
		defer close(done)
		r.follow(quit, func(text []byte) (bool, error) {
			if string(text) == "{\"lost\":0}\n" { // a file needs no sign of life
				return true, nil
			}
			return write(text)
		})
	}()
	return sync.OnceFunc(func() { close(quit); <-done })
}
