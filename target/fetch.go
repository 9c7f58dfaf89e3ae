package target

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"latencylab/http1"
	"latencylab/units"
)

const (
	// fetchTimeout bounds one request for a page when its context does not.
	fetchTimeout = 2 * time.Second
	maxPage      = 64 << 20
)

// FetchLedger reads the ledger page at address, as Announcement.Ledger gives
// it, with the one run of this key; run "" is that of callers without a key. It
// waits at most 10 s. An answer that is no ledger of this Schema is an error.
func FetchLedger(ctx context.Context, address, run string) (*Ledger, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	q := u.Query()
	q.Set("run", run)
	u.RawQuery = q.Encode()
	var l Ledger
	if err := fetch(ctx, u.String(), nil, &l); err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	if l.Schema != Schema {
		return nil, fmt.Errorf("read ledger: %s: schema = %q, want %q", u, l.Schema, Schema)
	}
	return &l, nil
}

// FetchAnnouncement asks the server at base, an address such as
// http://127.0.0.1:8080, whether it is a target; secure is for https, nil else. ok
// is false when it answers anything else; err says why it could not be asked.
func FetchAnnouncement(ctx context.Context, base string, secure *tls.Config) (a Announcement, ok bool, err error) {
	u, err := url.Parse(base)
	if err != nil {
		return a, false, fmt.Errorf("ask for the target: %w", err)
	}
	u.Path, u.RawPath, u.RawQuery, u.Fragment = http1.WellKnownPath, "", "", ""
	err = fetch(ctx, u.String(), secure, &a)
	if _, foreign := err.(*foreignError); foreign {
		return Announcement{}, false, nil
	}
	if err != nil {
		return Announcement{}, false, fmt.Errorf("ask for the target: %w", err)
	}
	if a.Latencylab != announced {
		return Announcement{}, false, nil
	}
	return a, true, nil
}

// PostMark asks the target whose ledger page is at address to mark its schedules
// in from now on as number n: see Target.Mark.
func PostMark(ctx context.Context, address string, in time.Duration, n uint32) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("mark the target: %w", err)
	}
	u.Path, u.RawPath, u.Fragment = "/mark", "", ""
	u.RawQuery = url.Values{"in": {units.FormatDuration(in)}, "n": {strconv.FormatUint(uint64(n), 10)}}.Encode()
	if _, err := ask(ctx, http.MethodPost, u.String(), nil, http.StatusNoContent); err != nil {
		return fmt.Errorf("mark the target: %w", err)
	}
	return nil
}

// foreignError says that something else than a target has answered.
type foreignError struct{ text string }

func (e *foreignError) Error() string { return e.text }

// fetch decodes the JSON at address.
func fetch(ctx context.Context, address string, secure *tls.Config, into any) error {
	body, err := ask(ctx, http.MethodGet, address, secure, http.StatusOK)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &foreignError{fmt.Sprintf("%s: %v", address, err)}
	}
	return nil
}

// ask returns the body of an answer with the status that is wanted.
func ask(ctx context.Context, method, address string, secure *tls.Config, want int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{
		// A page of ours needs no proxy, and leaves no connection behind.
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != want {
		return nil, &foreignError{fmt.Sprintf("%s: status %s, want %d", address, resp.Status, want)}
	}
	return body, nil
}
