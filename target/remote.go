package target

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"latencylab/service"
	"latencylab/units"
)

// Remote is the admin listener of a target in another process. It keeps one
// connection for the requests that follow each other. Its methods may be called
// from any goroutine.
type Remote struct {
	base   string
	client http.Client
}

// NewRemote returns the admin listener at that address, as [Child.Admin] or the
// host of [Announcement.Ledger] says it. It does not call it. Close ends it.
func NewRemote(admin netip.AddrPort) *Remote {
	return &Remote{base: "http://" + admin.String(), client: http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 10 * time.Second},
		Timeout:   fetchTimeout,
	}}
}

// Close closes the connection that is kept.
func (r *Remote) Close() { r.client.CloseIdleConnections() }

// Pulse is Target.Pulse.
func (r *Remote) Pulse(ctx context.Context, d time.Duration, replicas ...int) (Changed, error) {
	return r.command(ctx, "pulse", url.Values{"for": {units.FormatDuration(d)}}, replicas)
}

// Pause is Target.Pause.
func (r *Remote) Pause(ctx context.Context, d time.Duration, replicas ...int) (Changed, error) {
	return r.command(ctx, "pause", forValue(d), replicas)
}

// Kill is Target.Kill.
func (r *Remote) Kill(ctx context.Context, d time.Duration, replicas ...int) (Changed, error) {
	return r.command(ctx, "kill", forValue(d), replicas)
}

// Revive is Target.Revive.
func (r *Remote) Revive(ctx context.Context, replicas ...int) (Changed, error) {
	return r.command(ctx, "revive", url.Values{}, replicas)
}

// forValue is the query of what lasts d, or on if d is 0.
func forValue(d time.Duration) url.Values {
	v := url.Values{}
	if d > 0 {
		v.Set("for", units.FormatDuration(d))
	}
	return v
}

// Resume is Target.Resume.
func (r *Remote) Resume(ctx context.Context, replicas ...int) (Changed, error) {
	return r.command(ctx, "resume", url.Values{}, replicas)
}

// Outage is Target.Outage.
func (r *Remote) Outage(ctx context.Context, d time.Duration, e service.Ending, replicas ...int) (Changed, error) {
	return r.command(ctx, "outage", url.Values{"for": {units.FormatDuration(d)}, "kind": {e.String()}}, replicas)
}

// Replace is Target.Replace.
func (r *Remote) Replace(ctx context.Context, file []byte) (c Changed, err error) {
	err = r.ask(ctx, http.MethodPut, "/service", file, &c)
	return c, err
}

// Patch is Target.Patch.
func (r *Remote) Patch(ctx context.Context, keys []byte) (c Changed, err error) {
	err = r.ask(ctx, http.MethodPatch, "/service", keys, &c)
	return c, err
}

// Backlog is Target.Backlog.
func (r *Remote) Backlog(ctx context.Context) (b Backlog, err error) {
	err = r.ask(ctx, http.MethodGet, "/backlog", nil, &b)
	return b, err
}

// States is Target.States.
func (r *Remote) States(ctx context.Context) (list []ReplicaState, err error) {
	err = r.ask(ctx, http.MethodGet, "/replicas", nil, &list)
	return list, err
}

func (r *Remote) command(ctx context.Context, word string, v url.Values, replicas []int) (c Changed, err error) {
	var list []string
	for _, n := range replicas {
		list = append(list, strconv.Itoa(n))
	}
	if len(list) > 0 {
		v.Set("replicas", strings.Join(list, ","))
	}
	err = r.ask(ctx, http.MethodPost, "/"+word+"?"+v.Encode(), nil, &c)
	return c, err
}

// ask sends one request and decodes its answer. What a target refuses is an
// error in its words.
func (r *Remote) ask(ctx context.Context, method, path string, body []byte, into any) error {
	wrap := func(err error) error { return fmt.Errorf("%s %s: %w", method, r.base+path, err) }
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(body))
	if err != nil {
		return wrap(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the target: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	switch {
	case err != nil:
		return wrap(err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the target refuses: %s", strings.TrimSpace(string(b)))
	}
	if err := json.Unmarshal(b, into); err != nil {
		return wrap(err)
	}
	return nil
}
