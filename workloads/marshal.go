package workloads

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"latencylab/service"
	"latencylab/units"
)

// Marshal returns a workload file that Parse reads back to an equal workload,
// with everything the workload's file named by path in it. Zero numbers are
// left out. It fails for a workload that no file could hold.
func (w *Workload) Marshal() ([]byte, error) {
	var y yamlWriter
	y.given("name", w.Name)
	y.given("about", w.About)
	if w.Rate != 0 {
		y.word("rate", w.Rate.String())
		y.word("arrivals", w.Arrivals.String())
	}
	y.span("duration", w.Duration)
	if w.Warmup > 0 || w.WarmupGiven {
		y.word("warmup", units.FormatDuration(w.Warmup))
	}
	y.count("requests", w.Requests)
	y.count("clients", uint64(w.Clients))
	y.count("threads", uint64(w.Threads))
	y.count("connections", uint64(w.Connections))
	y.span("drain", w.Drain)
	var within []string
	for _, d := range w.Within {
		within = append(within, units.FormatDuration(d))
	}
	y.list("within", within)
	w.writeStages(&y)
	y.given("method", w.Request.Method)
	y.given("path", w.Request.Path)
	var headers []string
	for _, h := range w.Request.Headers {
		headers = append(headers, h.Name+": "+h.Value)
	}
	y.list("header", headers)
	y.body(w.Request.Body)
	y.list("endpoint", w.Endpoints)
	w.writeTLS(&y)
	w.writeSteer(&y)
	w.writeGuards(&y)
	y.list("policy", specsOf(w.Policies))
	if w.Service != nil {
		y.open("service")
		y.graph(w.Services())
		y.close()
	}
	y.word("seed", strconv.FormatUint(w.Seed, 10))
	if w.Sim.Policies != nil || w.Sim.Duration != 0 || w.Sim.Requests != 0 || w.Sim.Stages != nil {
		y.open("sim")
		y.list("policy", specsOf(w.Sim.Policies))
		y.span("duration", w.Sim.Duration)
		y.count("requests", w.Sim.Requests)
		y.stages(w.Sim.Stages)
		y.close()
	}
	data := []byte(y.String())
	if _, err := (&file{what: "workload", name: "resolved", read: readNothing}).decodeWorkload(data); err != nil {
		return nil, fmt.Errorf("write workload: %w", err)
	}
	return data, nil
}

// MarshalService returns a service file that ParseService reads back to a
// service that answers alike, with everything the service's file named by path
// in it. It fails for a Spec that no file could hold.
func MarshalService(s *service.Spec) ([]byte, error) {
	data := writeService(s)
	if _, err := (&file{what: "service", name: "resolved", read: readNothing}).decodeService(data); err != nil {
		return nil, fmt.Errorf("write service: %w", err)
	}
	return data, nil
}

func writeService(s *service.Spec) []byte {
	var y yamlWriter
	y.service(s)
	return []byte(y.String())
}

// yamlWriter writes the part of YAML that the files here need.
type yamlWriter struct {
	strings.Builder
	indent string
}

func (y *yamlWriter) open(key string) {
	y.WriteString(y.indent + key + ":\n")
	y.indent += "  "
}

func (y *yamlWriter) close() { y.indent = y.indent[2:] }

func (y *yamlWriter) word(key, s string) {
	y.WriteString(y.indent + key + ": " + quote(s) + "\n")
}

func (y *yamlWriter) given(key, s string) {
	if s != "" {
		y.word(key, s)
	}
}

func (y *yamlWriter) span(key string, d time.Duration) {
	if d != 0 {
		y.word(key, units.FormatDuration(d))
	}
}

func (y *yamlWriter) count(key string, n uint64) {
	if n != 0 {
		y.word(key, units.FormatCount(n))
	}
}

func (y *yamlWriter) list(key string, words []string) {
	if len(words) == 0 {
		return
	}
	y.WriteString(y.indent + key + ":\n")
	for _, s := range words {
		y.WriteString(y.indent + "  - " + quote(s) + "\n")
	}
}

// body writes text as text, and as base64 what text cannot hold, what would be
// taken for the name of a file and what is shorter so.
func (y *yamlWriter) body(b []byte) {
	if b == nil {
		return
	}
	text := quote(string(b))
	if !utf8.Valid(b) || len(b) > 0 && b[0] == '@' || len(text) > 2*len(b)+2 {
		text = binaryTag + " " + strconv.Quote(base64.StdEncoding.EncodeToString(b))
	}
	y.WriteString(y.indent + "body: " + text + "\n")
}

func (y *yamlWriter) service(s *service.Spec) {
	y.count("replicas", uint64(max(s.Replicas, 1)))
	y.word("time", s.Time.String())
	if s.Slow.Share != 0 || !s.Slow.Time.IsZero() || s.Slow.Factor != 0 || s.Slow.By != service.SlowByRequest {
		y.open("slow")
		y.word("share", units.FormatShare(s.Slow.Share))
		if s.Slow.Factor != 0 {
			y.word("factor", formatNumber(s.Slow.Factor))
		} else {
			y.word("time", s.Slow.Time.String())
		}
		y.word("by", s.Slow.By.String())
		y.span("window", s.Slow.Window)
		y.close()
	}
	y.word("copies", s.Copies.String())
	if s.Capacity.Per != 0 {
		y.open("capacity")
		y.count("requests", uint64(s.Capacity.Requests))
		y.span("per", s.Capacity.Per)
		y.close()
		y.word("discipline", s.Discipline.String())
		y.count("shed", uint64(s.Shed))
	}
	if s.Thrash.Factor != 0 {
		y.open("thrash")
		y.word("above", units.FormatCount(uint64(s.Thrash.Above)))
		y.word("factor", units.FormatShare(s.Thrash.Factor))
		y.close()
	}
	if s.Slots != 0 {
		y.count("slots", uint64(s.Slots))
		queue := "unlimited"
		if s.Queue >= 0 {
			queue = units.FormatCount(uint64(s.Queue))
		}
		y.word("queue", queue)
		if s.Queue != 0 {
			y.word("discipline", s.Discipline.String())
		}
		y.count("shed", uint64(s.Shed))
	}
	if len(s.Status) > 0 {
		y.open("status")
		for _, st := range s.Status {
			y.word(strconv.Itoa(int(st.Status)), units.FormatShare(st.Share))
		}
		y.close()
	}
	y.endings(s)
	y.span("retry-after", s.RetryAfter)
	y.word("cancel", s.Cancel.String())
	y.span("cancel-cost", s.CancelCost)
	y.word("deadline", s.Deadline.String())
	y.schedules(s)
	y.ramps(s)
	if s.Body != 0 {
		y.word("body", units.FormatSize(int64(s.Body)))
	}
	if s.TLS {
		y.word("tls", "true")
	}
	y.each(s)
}

// quote writes a scalar: plain when it is a plain word for certain, else in
// double quotes with the escapes of YAML 1.2.2 section 5.7.
func quote(s string) string {
	if plainWord(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// plainWord reports whether s needs no quotes in block context.
func plainWord(s string) bool {
	if s == "" || strings.Contains("null Null NULL", s) {
		return false
	}
	if c := s[0]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '/') {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c == ':' && (i+1 == len(s) || s[i+1] == ' ') {
			return false
		}
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("/:=.,%()+_-", c) >= 0) {
			return false
		}
	}
	return true
}
