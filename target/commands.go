package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"latencylab/service"
	"latencylab/units"
)

// command answers a request for a page that changes replicas, for which
// isCommand is true.
func (t *Target) command(ctx *fasthttp.RequestCtx, path string) {
	args := ctx.QueryArgs()
	var c Changed
	word, numbers, err := addressed(path, args)
	if err == nil {
		c, err = t.obey(word, numbers, args)
	}
	switch {
	case errors.Is(err, errEnded):
		ctx.Error(err.Error()+"\n", fasthttp.StatusServiceUnavailable)
	case err != nil:
		ctx.Error(err.Error()+"\n", fasthttp.StatusBadRequest)
	default:
		writeJSON(ctx, &c)
	}
}

// isCommand says whether a path is one of a command.
func isCommand(path string) bool {
	word := strings.TrimPrefix(path, "/")
	if rest, ok := strings.CutPrefix(path, "/replicas/"); ok {
		_, word, _ = strings.Cut(rest, "/")
	}
	switch word {
	case "pulse", "pause", "resume", "outage":
		return true
	}
	return false
}

// addressed splits the path of a command into its word and the numbers of the
// replicas it is for, none for all: /pause?replicas=0,2 or /replicas/2/pause.
func addressed(path string, args *fasthttp.Args) (word string, numbers []int, err error) {
	word = strings.TrimPrefix(path, "/")
	list := string(args.Peek("replicas"))
	if rest, ok := strings.CutPrefix(path, "/replicas/"); ok {
		who, what, _ := strings.Cut(rest, "/")
		word, list = what, who
	}
	if list == "" || list == "all" {
		return word, nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return word, nil, fmt.Errorf("replicas = %q, want numbers such as 0,2, or all", list)
		}
		numbers = append(numbers, int(n))
	}
	return word, numbers, nil
}

// obey does what the word of a command says.
func (t *Target) obey(word string, numbers []int, args *fasthttp.Args) (c Changed, err error) {
	var d time.Duration
	switch word {
	case "pulse":
		if d, err = forArg(args, true); err == nil {
			c, err = t.Pulse(d, numbers...)
		}
	case "pause":
		if d, err = forArg(args, false); err == nil {
			c, err = t.Pause(d, numbers...)
		}
	case "resume":
		c, err = t.Resume(numbers...)
	case "outage":
		var e service.Ending
		if d, err = forArg(args, true); err == nil {
			if e, err = kindArg(args); err == nil {
				c, err = t.Outage(d, e, numbers...)
			}
		}
	}
	return c, err
}

// maxFor bounds how long a pulse, pause or outage may be told to last.
const maxFor = 24 * time.Hour

// forArg reads for=D; 0 when it is left out and not needed.
func forArg(args *fasthttp.Args, needed bool) (time.Duration, error) {
	if !args.Has("for") {
		if needed {
			return 0, errors.New("no for, want a duration such as for=500ms")
		}
		return 0, nil
	}
	text := string(args.Peek("for"))
	d, err := units.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("for = %w", err)
	}
	if d == 0 || d > maxFor {
		return 0, fmt.Errorf("for = %s, want above 0 and at most 24h", text)
	}
	return d, nil
}

// kindArg reads kind=ENDING, 503 when it is left out.
func kindArg(args *fasthttp.Args) (service.Ending, error) {
	if !args.Has("kind") {
		return service.Ending{Status: 503}, nil
	}
	text := string(args.Peek("kind"))
	e, ok := service.EndingNamed(text)
	if !ok || e.Fault == service.FaultNone && e.Status < 400 {
		return e, fmt.Errorf("kind = %q, want a status from 400 to 599, refuse, reset or hang", text)
	}
	return e, nil
}

// writeJSON answers with v, indented.
func writeJSON(ctx *fasthttp.RequestCtx, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(b, '\n'))
}
