package target

import (
	"bufio"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// liveEvery is how often the live page sends the counters.
	liveEvery = time.Second
	// liveFresh is how long readings are shared by the readers of that page.
	liveFresh = liveEvery / 2
)

// Live is what the live page sends once a second: the counters of all runs of
// the service that callers meet, since the target began or was reset.
type Live struct {
	At        time.Time         `json:"at"`
	Open      uint64            `json:"open"` // connections
	Arrived   uint64            `json:"arrived"`
	Answered  map[uint16]uint64 `json:"answered"` // by status
	Shed      uint64            `json:"shed"`
	Broken    uint64            `json:"broken"`
	AfterLeft uint64            `json:"after_left"`
	Dropped   uint64            `json:"dropped"`
	InFlight  uint64            `json:"in_flight"`
	Repeats   uint64            `json:"repeats"` // of calls that had arrived before
	WorkNS    uint64            `json:"work_ns"` // on requests that have ended
	Lost      uint64            `json:"lost"`    // records, by readers of the full record
}

// live holds the last reading.
type live struct {
	mu   sync.Mutex
	last Live
}

// readLive returns the counters, at most liveFresh old.
func (t *Target) readLive() Live {
	t.live.mu.Lock()
	defer t.live.mu.Unlock()
	if time.Since(t.live.last.At) < liveFresh {
		return t.live.last
	}
	l := t.Ledger()
	sum := l.Total()
	t.live.last = Live{
		At: time.Now().UTC(), Open: l.Connections.Open, Arrived: sum.Arrived, Answered: sum.Answered, Shed: sum.Shed,
		Broken: sum.Broken, AfterLeft: sum.AfterLeft, Dropped: sum.Cancelled.Dropped, InFlight: sum.InFlight,
		Repeats: sum.Duplicates.Arrived.Repeats, WorkNS: sum.Work.Total().NS, Lost: l.Record.Lost,
	}
	return t.live.last
}

// livePage sends the counters now and once a second: as server-sent events (HTML
// Living Standard 9.2) to a caller that accepts them, else as lines of JSON.
func (t *Target) livePage(ctx *fasthttp.RequestCtx) {
	before, after := "", "\n"
	ctx.SetContentType("application/x-ndjson")
	if strings.Contains(string(ctx.Request.Header.Peek("Accept")), "text/event-stream") {
		before, after = "data: ", "\n\n"
		ctx.SetContentType("text/event-stream")
	}
	if ctx.IsHead() {
		return
	}
	if !t.pages.mayStream(ctx) {
		return
	}
	conn, quit := ctx.Conn(), t.pages.quit
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer func() { <-t.pages.streams }()
		tick := time.NewTicker(liveEvery)
		defer tick.Stop()
		for {
			b, err := json.Marshal(t.readLive())
			if err != nil {
				panic("target: " + err.Error()) // numbers always encode
			}
			conn.SetWriteDeadline(time.Now().Add(streamPatience))
			w.WriteString(before)
			w.Write(b)
			w.WriteString(after)
			if w.Flush() != nil {
				return
			}
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	})
}
