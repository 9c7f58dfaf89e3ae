package target

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"latencylab/clock"
	"latencylab/service"
	"latencylab/workloads"
)

// maxService bounds a service that is sent, in bytes.
const maxService = 1 << 20

// holding is the service that holds.
type holding struct {
	yaml       []byte // resolved
	generation uint64
	since      time.Time
}

// Replace has all replicas do what a service file says for the requests that
// arrive from then on: see service.Server.Replace for what becomes of the work
// under way. Its schedules count from that instant, which is a mark. On an error,
// which names the line, nothing has changed. The number of replicas cannot change.
func (t *Target) Replace(file []byte) (Changed, error) {
	t.changing.Lock()
	defer t.changing.Unlock()
	spec, err := t.parse(file)
	if err != nil {
		return Changed{}, err
	}
	return t.hold(spec, true)
}

// Patch is Replace by the service that holds, with the top-level keys of a service
// file in place of its own; a key whose value is null is taken away. The mark
// stays: schedules go on counting from it.
func (t *Target) Patch(keys []byte) (Changed, error) {
	t.changing.Lock()
	defer t.changing.Unlock()
	file, err := patched(t.holds.Load().yaml, keys)
	if err != nil {
		return Changed{}, err
	}
	spec, err := t.parse(file)
	if err != nil {
		return Changed{}, ofRest(err, 1+bytes.Count(bytes.TrimRight(keys, " \n"), []byte("\n")))
	}
	return t.hold(spec, false)
}

// parse reads a service for the replicas that run. Errors say "service: line N".
func (t *Target) parse(file []byte) (*service.Spec, error) {
	if len(t.nodes) > 1 || t.edges > 0 {
		return nil, conflict{errors.New("services that call each other cannot be replaced while they run")}
	}
	spec, err := workloads.ParseServiceText("service", file)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "read service: service:")
		if text == err.Error() {
			return nil, err
		}
		return nil, errors.New("service: line " + strings.TrimLeft(text, " "))
	}
	if n := spec.Servers(); n != len(t.replicas) {
		line := 1 + bytes.Count(file[:max(0, keyAt(file, "replicas"))], []byte("\n"))
		return nil, fmt.Errorf("service: line %d: replicas = %d, want %d: their number cannot change while the target runs", line, n, len(t.replicas))
	}
	return spec, nil
}

// hold has spec hold from an instant on. The caller holds changing.
func (t *Target) hold(spec *service.Spec, mark bool) (Changed, error) {
	yaml, err := workloads.MarshalService(spec)
	if err != nil {
		return Changed{}, err
	}
	numbers, _ := t.numbers(nil)
	c, err := t.tell(false, numbers, func(l *loop, r *replica, at clock.Time) {
		r.does = spec
		for _, st := range r.server.Replace(spec, at) {
			l.start(st, at)
		}
		if mark {
			r.server.Mark(at)
		}
		l.ramped = l.ramped || r.server.Ramped()
	})
	if err != nil {
		return c, err
	}
	c.Generation++
	t.holds.Store(&holding{yaml: yaml, generation: c.Generation, since: c.At})
	return c, nil
}

// topKey is a line of a service file that begins a top-level key.
var topKey = regexp.MustCompile(`(?m)^(["']?)([a-z][a-z-]*)(["']?)[ \t]*:([ \t]+null)?[ \t]*(.*)$`)

// keyAt returns where the line of a top-level key begins; negative if there is
// none.
func keyAt(file []byte, key string) int {
	for _, m := range topKey.FindAllSubmatchIndex(file, -1) {
		if string(file[m[4]:m[5]]) == key {
			return m[0]
		}
	}
	return -1
}

// patched returns a service file of keys and of what file, as
// workloads.MarshalService writes it, says of the others. The keys stand first,
// so that an error in them names their own line.
func patched(file, keys []byte) ([]byte, error) {
	found := topKey.FindAllSubmatchIndex(keys, -1)
	if len(found) == 0 {
		return nil, errors.New("service: line 1: no keys, want lines such as slots: 8")
	}
	out := append([]byte(nil), keys...)
	for _, m := range found {
		if m[8] >= 0 && m[10] == m[11] { // KEY: null
			copy(out[m[0]:m[1]], bytes.Repeat([]byte(" "), m[1]-m[0]))
		}
		file = without(file, string(keys[m[4]:m[5]]))
	}
	out = append(bytes.TrimRight(out, " \n"), '\n')
	return append(out, file...), nil
}

// ofRest says of an error on a line after those of a patch that it lies in the
// rest of the service.
func ofRest(err error, lines int) error {
	var line int
	if n, _ := fmt.Sscanf(err.Error(), "service: line %d:", &line); n == 0 || line <= lines {
		return err
	}
	_, text, _ := strings.Cut(err.Error(), ": line ")
	_, text, _ = strings.Cut(text, ":")
	return errors.New("service: with the other keys as they are:" + text)
}

// without returns a written service without a top-level key.
func without(file []byte, key string) []byte {
	at := keyAt(file, key)
	if at < 0 {
		return file
	}
	end := len(file)
	for _, m := range topKey.FindAllIndex(file, -1) {
		if m[0] > at {
			end = m[0]
			break
		}
	}
	return append(bytes.Clone(file[:at]), file[end:]...)
}

// replacePage is PUT and PATCH of /service.
func (t *Target) replacePage(ctx *fasthttp.RequestCtx) {
	do := t.Replace
	if string(ctx.Method()) == "PATCH" {
		do = t.Patch
	}
	c, err := do(ctx.PostBody())
	answerChanged(ctx, c, err)
}
