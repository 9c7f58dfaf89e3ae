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

// commandRoutes are the pages that change replicas, and those that show what
// became of it.
func (t *Target) commandRoutes() []route {
	routes := []route{
		{"GET", "/backlog", t.backlogPage},
		{"GET", "/replicas", t.replicasPage},
	}
	for _, word := range []string{"pulse", "pause", "resume", "outage", "kill", "revive"} {
		routes = append(routes,
			route{"POST", "/" + word, t.commandPage},
			route{"POST", "/replicas/*/" + word, t.commandPage})
	}
	return routes
}

func (t *Target) backlogPage(ctx *fasthttp.RequestCtx) {
	b := t.Backlog()
	writeJSON(ctx, &b)
}

func (t *Target) replicasPage(ctx *fasthttp.RequestCtx) { writeJSON(ctx, t.States()) }

// commandPage does what the path says.
func (t *Target) commandPage(ctx *fasthttp.RequestCtx) {
	path := string(ctx.Path())
	args := ctx.QueryArgs()
	var c Changed
	word, numbers, err := addressed(path, args)
	if err == nil {
		c, err = t.obey(word, numbers, args)
	}
	answerChanged(ctx, c, err)
}

// answerChanged answers a request for a change.
func answerChanged(ctx *fasthttp.RequestCtx, c Changed, err error) {
	var state conflict
	switch {
	case errors.As(err, &state):
		fail(ctx, fasthttp.StatusConflict, err.Error())
	case errors.Is(err, errEnded):
		fail(ctx, fasthttp.StatusServiceUnavailable, err.Error())
	case err != nil:
		fail(ctx, fasthttp.StatusBadRequest, err.Error())
	default:
		writeJSON(ctx, &c)
	}
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
	case "kill":
		if d, err = forArg(args, false); err == nil {
			c, err = t.Kill(d, numbers...)
		}
	case "revive":
		c, err = t.Revive(numbers...)
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
		return e, fmt.Errorf("kind = %q, want a status from 400 to 599, or a fault such as reset", text)
	}
	return e, nil
}

// writeJSON answers with v, indented.
func writeJSON(ctx *fasthttp.RequestCtx, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		fail(ctx, fasthttp.StatusInternalServerError, err.Error())
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(b, '\n'))
}
