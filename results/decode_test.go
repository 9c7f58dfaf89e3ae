package results

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReportOfASavedRunIsTheSame(t *testing.T) {
	for name, r := range runs(t) {
		path := filepath.Join(t.TempDir(), "run.json")
		saved := render(t, r, "json", Options{})
		if err := os.WriteFile(path, saved, 0o644); err != nil {
			t.Fatal(err)
		}
		back, err := Read(path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, format := range Formats {
			o := Options{Policy: r.Policies[0].Name}
			if diff := cmp.Diff(string(render(t, r, format, o)), string(render(t, back, format, o))); diff != "" {
				t.Errorf("%s as %s differs after it was read (-fresh +read):\n%s", name, format, diff)
			}
		}
		if diff := cmp.Diff(r.Verdict, Judge(back)); diff != "" {
			t.Errorf("%s is judged otherwise after it was read:\n%s", name, diff)
		}
	}
}

var percentile = regexp.MustCompile(`^(p\d+|min|mean|max)(_at_least)?_ns(_reason)?$`)

// strip removes every percentile, and every minimum, mean and maximum that is
// not the exact one beside a histogram. The histograms of repetitions are not
// kept: their spread stays.
func strip(v any, inExact bool) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if percentile.MatchString(k) && !inExact {
				delete(x, k)
				continue
			}
			if k != "runs" {
				x[k] = strip(e, k == "hdr_exact")
			}
		}
	case []any:
		for i := range x {
			x[i] = strip(x[i], false)
		}
	}
	return v
}

func TestPercentilesAreComputedFromTheHistograms(t *testing.T) {
	for name, r := range runs(t) {
		d := json.NewDecoder(bytes.NewReader(render(t, r, "json", Options{})))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(strip(v, false))
		if err != nil {
			t.Fatal(err)
		}
		if r.Runs == nil && bytes.Contains(b, []byte(`"p99_ns"`)) {
			t.Fatal("a percentile is left")
		}
		back, err := Decode("stripped", bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(string(render(t, r, "text", Options{})), string(render(t, back, "text", Options{}))); diff != "" {
			t.Errorf("%s differs without its percentiles (-whole +stripped):\n%s", name, diff)
		}
	}
}

func TestDecodeErrorsNameThePlace(t *testing.T) {
	good := string(render(t, runs(t)["comparison"], "json", Options{}))
	hdr := regexp.MustCompile(`"hdr": "HISTF[^"]*"`)
	for _, c := range []struct{ why, in, want string }{
		{"an empty file", " \n", "read run: x.json: the file is empty, want a Run in JSON"},
		{"no JSON", "a run", "read run: x.json: line 1: invalid character 'a'"},
		{"a file cut in half", good[:len(good)/2], "the JSON is cut off"},
		{"a file that lacks its last brace", strings.TrimRight(good, "}\n"), "the JSON is cut off"},
		{"no schema", "{}", `read run: x.json: no key "schema", want schema = "latencylab.run/1"`},
		{"a schema of the future", strings.Replace(good, Schema, "latencylab.run/2", 1), `read run: x.json: schema = "latencylab.run/2", want "latencylab.run/1"`},
		{"a schema in another case", `{"Schema": "latencylab.run/1", "mode": "open"}`, `no key "schema"`},
		{"a schema that is null", `{"schema": null}`, `schema = "", want "latencylab.run/1"`},
		{"a schema that is no text", `{"schema": 1}`, "read run: x.json: schema: found number, want a string"},
		{"a list", `[]`, "read run: x.json: found array, want an object"},
		{"an unknown mode", strings.Replace(good, `"mode": "open"`, `"mode": "ajar"`, 1), `mode = "ajar", want "open" or "closed"`},
		{"a histogram that is no base64", hdr.ReplaceAllString(good, `"hdr": "HISTF*"`), "policies[0].response.hdr: decode histogram: "},
		{"a histogram that is missing", hdr.ReplaceAllString(good, `"hdr": ""`), "policies[0].response.hdr: decode histogram: "},
		{"a count that contradicts the histogram", strings.Replace(good, `"count": 10000`, `"count": 9999`, 1), "policies[0].response.hdr: holds 10000 values, but count = 9999"},
		{"a histogram that lost a value", strings.Replace(good, `"count": 10000`, `"count": 10001`, 1), "policies[0].response.hdr: holds 10000 values, but count = 10001"},
		{"an extreme that contradicts the histogram", regexp.MustCompile(`"max_ns": 1\d*,\s*"sum_ns"`).ReplaceAllString(good, `"max_ns": 5, "sum_ns"`), "hdr_exact: minimum, maximum or sum contradicts the histogram"},
		{"a count that is a text", strings.Replace(good, `"scheduled": 10000`, `"scheduled": "all"`, 1), "policies[0].calls.scheduled: found string, want a whole number of 0 or more"},
		{"a figure that is a text", strings.Replace(good, `"extra_load": 0`, `"extra_load": "none"`, 1), "policies[0].extra_load: found string, want a number"},
		{"policies that are no list", strings.Replace(good, `"policies": [`, `"policies": 1, "p": [`, 1), "policies: found number, want an array"},
	} {
		r, err := Decode("x.json", strings.NewReader(c.in))
		if err == nil {
			t.Errorf("%s: read, with %d policies", c.why, len(r.Policies))
			continue
		}
		if !strings.HasPrefix(err.Error(), "read run: x.json: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 250 {
			t.Errorf("%s: error\n%v\nwant\n%s", c.why, err, c.want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.json")); err == nil || !strings.Contains(err.Error(), "none.json") {
		t.Errorf("a missing file: error %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	all := runs(f)
	for _, name := range []string{"censored", "empty"} {
		var b bytes.Buffer
		if err := WriteJSON(&b, all[name]); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte(minimal))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode("fuzz", bytes.NewReader(data))
		if err != nil {
			return
		}
		r.Verdict = Judge(r)
		for _, format := range Formats {
			var b bytes.Buffer
			o := Options{}
			if len(r.Policies) > 0 {
				o.Policy = r.Policies[0].Name
			}
			if err := Write(&b, r, format, o); err != nil {
				continue
			}
			if format == "json" {
				if _, err := Decode("again", &b); err != nil {
					t.Fatalf("a Run that was read and written does not read: %v", err)
				}
			}
		}
	})
}
