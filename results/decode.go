package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"latencylab/ledger"
)

var errContradiction = errors.New("minimum, maximum or sum contradicts the histogram")

// countError is a histogram that does not hold what is said beside it.
type countError struct{ holds, count uint64 }

func (e countError) Error() string {
	return fmt.Sprintf("holds %d values, but count = %d", e.holds, e.count)
}

// maxFile bounds the length of a Run file that is read, in bytes.
const maxFile = 1 << 30

// Read reads a Run from a file. Every percentile is computed from the
// histograms; what the file says about them is not looked at.
func Read(path string) (*Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	defer f.Close()
	return Decode(path, f)
}

// Decode is Read from a reader; name stands for it in errors.
func Decode(name string, r io.Reader) (*Run, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read run: %s: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read run: %s: more than %d bytes", name, maxFile)
	}
	run, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("read run: %s: %w", name, err)
	}
	return run, nil
}

func decode(data []byte) (*Run, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the file is empty, want a Run in JSON")
	}
	// A map, because encoding/json takes "Schema" for "schema" in a struct, and
	// decodeFields does not.
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return nil, syntax(data, err)
	}
	raw, ok := keys["schema"]
	if !ok {
		return nil, fmt.Errorf("no key \"schema\", want schema = %q", Schema)
	}
	var schema string
	if err := unmarshal("schema", raw, &schema); err != nil {
		return nil, err
	}
	if schema != Schema {
		return nil, fmt.Errorf("schema = %q, want %q", schema, Schema)
	}
	r := new(Run)
	if err := decodeFields(data, r); err != nil {
		return nil, err
	}
	if r.Mode != Open && r.Mode != Closed {
		return nil, fmt.Errorf("mode = %q, want %q or %q", r.Mode, Open, Closed)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// syntax gives an error of JSON's grammar its line, or its place in the Run.
func syntax(data []byte, err error) error {
	var s *json.SyntaxError
	if !errors.As(err, &s) {
		return place("", err)
	}
	at := min(int(s.Offset), len(data))
	line := 1 + bytes.Count(data[:at], []byte("\n"))
	if strings.Contains(s.Error(), "unexpected end") {
		return fmt.Errorf("line %d: the JSON is cut off", line)
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// UnmarshalJSON reads what MarshalJSON writes and computes the figures anew.
func (p *Policy) UnmarshalJSON(data []byte) error {
	if err := decodeFields(data, p); err != nil {
		return err
	}
	rank(&p.Response, &p.OK, &p.Censored)
	c := ledger.Counts{Calls: ledger.Calls(p.Calls), Attempts: ledger.Attempts(p.Attempts)}
	p.ExtraLoad, p.Amplification = ratio(c.ExtraLoad()), ratio(c.Amplification())
	p.Failed.ensure()
	p.Failed.fill(p.Censored.values, "failed call")
	for _, d := range []struct {
		of   *Dist
		noun string
	}{
		{&p.OK, "ok call"}, {&p.Censored, "call without an answer"},
		{&p.First, "first attempt"}, {&p.Retry, "retried attempt"}, {&p.Hedge, "hedged attempt"},
		{&p.Service, "answered attempt"}, {&p.Lag, "begun call"},
		{&p.PoolWait, "sent attempt"}, {&p.ReadDelay, "stamped answer"},
		{p.Phases.DNS, "look-up"}, {p.Phases.Connect, "handshake"}, {p.Phases.TLS, "handshake"}, {p.Phases.Write, "write"},
		{p.Phases.FirstByte, "answer in several reads"}, {p.Phases.Body, "answer in several reads"},
	} {
		if d.of != nil {
			d.of.ensure()
			d.of.fill(nil, d.noun)
		}
	}
	return nil
}

// UnmarshalJSON reads what MarshalJSON writes and computes the figures anew.
func (p *Predicted) UnmarshalJSON(data []byte) error {
	if err := decodeFields(data, p); err != nil {
		return err
	}
	c := ledger.Counts{Attempts: ledger.Attempts(p.Attempts)}
	p.ExtraLoad = ratio(c.ExtraLoad())
	rank(&p.Response, &p.OK, &p.Censored)
	p.OK.fill(nil, "ok call")
	p.Censored.fill(nil, "call without an answer")
	return nil
}

// rank fills the response from its parts, which a file may lack.
func rank(response, ok, censored *Dist) {
	response.ensure()
	ok.ensure()
	censored.ensure()
	response.fill(censored.values, "call")
}

// ensure gives a Dist that a file lacks its empty histogram.
func (d *Dist) ensure() {
	if d.values == nil {
		d.Count, d.HDR, d.Exact = 0, "", nil
		d.values, _ = decodeHDR("", 0, nil)
	}
}
