package results

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"latencylab/histo"
	"latencylab/units"
)

// Options choose what a format shows.
type Options struct {
	// Policy names the policy of an hgrm. "" is the only one there is.
	Policy string
	// Of names the distribution of an hgrm, a key of the Run's JSON such as
	// "lag". "" means "response".
	Of string
}

// Formats lists the names that Write takes.
var Formats = []string{"text", "json", "csv", "hgrm", "hlog"}

// ErrSelect is wrapped by errors about a format, policy or distribution that
// the Run does not have: the user's choice is wrong, not the Run.
var ErrSelect = errors.New("no such thing to write")

type selectError struct{ msg string }

func (e selectError) Error() string { return e.msg }
func (e selectError) Unwrap() error { return ErrSelect }

func selectf(format string, args ...any) error { return selectError{fmt.Sprintf(format, args...)} }

// Write writes the Run in a format; see Formats.
func Write(w io.Writer, r *Run, format string, o Options) error {
	switch format {
	case "text":
		return WriteText(w, r)
	case "json":
		return WriteJSON(w, r)
	case "csv":
		return WriteCSV(w, r)
	case "hgrm":
		return WriteHgrm(w, r, o)
	case "hlog":
		return WriteHlog(w, r)
	}
	return selectf("format = %q, want %s", format, choice(Formats))
}

// choice joins names as "a, b or c".
func choice(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// distNames are the distributions of a Policy, by their keys in JSON.
var distNames = []string{"response", "ok", "failed", "censored", "first", "retry", "hedge", "service",
	"lag", "pool_wait", "read_delay", "connect", "first_byte", "body"}

// Dist returns the distribution of that name, or nil when the policy has none.
func (p *Policy) Dist(of string) *Dist {
	switch of {
	case "response":
		return &p.Response
	case "ok":
		return &p.OK
	case "failed":
		return &p.Failed
	case "censored":
		return &p.Censored
	case "first":
		return &p.First
	case "retry":
		return &p.Retry
	case "hedge":
		return &p.Hedge
	case "service":
		return &p.Service
	case "lag":
		return &p.Lag
	case "pool_wait":
		return &p.PoolWait
	case "read_delay":
		return &p.ReadDelay
	case "connect":
		return p.Phases.Connect
	case "first_byte":
		return p.Phases.FirstByte
	case "body":
		return p.Phases.Body
	}
	return nil
}

// WriteHgrm writes the percentile spectrum of one distribution of one policy,
// in ms. What failed or was cut off ranks above all values.
func WriteHgrm(w io.Writer, r *Run, o Options) error {
	if o.Of == "" {
		o.Of = "response"
	}
	var names []string
	for i := range r.Policies {
		names = append(names, r.Policies[i].Name)
	}
	if o.Policy == "" && len(names) == 1 {
		o.Policy = names[0]
	}
	p := r.policyNamed(o.Policy)
	switch {
	case len(names) == 0:
		return selectf("the run has no policy")
	case o.Policy == "":
		return selectf("the run has %d policies, and hgrm shows one: want policy %s", len(names), choice(names))
	case p == nil:
		return selectf("policy = %q, want %s", o.Policy, choice(names))
	}
	d := p.Dist(o.Of)
	if d == nil {
		return selectf("of = %q, want %s", o.Of, choice(distNames))
	}
	return histo.WriteHgrm(w, d.values, d.total(), 1e6)
}

// WriteHlog writes a histogram log with tags NAME.OF: the response times of OK
// calls interval by interval (or block by block, when the Run has no
// intervals), every other distribution over the whole run.
func WriteHlog(w io.Writer, r *Run) error {
	about := fmt.Sprintf("Logged by Latency Lab %s, values in ns; calls without an answer are not in it", units.Plain(r.Version))
	log := histo.NewLogWriter(w, about, r.StartedAt)
	if err := log.WriteHeader(); err != nil {
		return err
	}
	for i := range r.Policies {
		p := &r.Policies[i]
		if err := p.logResponse(log, time.Duration(r.DurationNS)); err != nil {
			return err
		}
		for _, of := range distNames[1:] {
			d := p.Dist(of)
			if of == "ok" || d == nil || d.Count == 0 {
				continue
			}
			if err := log.Write(p.Name+"."+of, 0, time.Duration(r.DurationNS), d.values); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Policy) logResponse(log *histo.LogWriter, length time.Duration) error {
	tag := p.Name + ".response"
	for i := range p.Intervals {
		v := &p.Intervals[i]
		if err := log.Write(tag, time.Duration(v.StartNS), time.Duration(v.LengthNS), mustDecode(v)); err != nil {
			return err
		}
	}
	if len(p.Intervals) > 0 {
		return nil
	}
	for i := range p.Blocks {
		b := &p.Blocks[i]
		if err := log.Write(tag, time.Duration(b.StartNS), time.Duration(b.LengthNS), b.values); err != nil {
			return err
		}
	}
	if len(p.Blocks) > 0 || p.Response.Count == 0 {
		return nil
	}
	return log.Write(tag, 0, length, p.Response.values)
}
