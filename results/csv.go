package results

import (
	"encoding/csv"
	"io"
	"reflect"
	"slices"
	"strconv"

	"latencylab/policy"
	"latencylab/units"
)

// csvHeader names the columns of WriteCSV.
var csvHeader = []string{"policy", "of", "interval", "start_ns", "figure", "value"}

// WriteCSV writes the Run in long form, one figure a line, under the header
//
//	policy,of,interval,start_ns,figure,value
//
// policy is the policy's name, empty for what belongs to the whole run. of is
// what the figure is about: a key of the Run's JSON such as calls, attempts,
// response, lag, ok_within, or "compared with BASE". interval is "all", or the
// number from 0 of a block or interval, whose start after the start of the run
// is start_ns. figure is the key in JSON; an absent figure has an empty value,
// followed by a line of its KEY_reason, and one of its lower bound when there
// is one. Histograms are left out: see the formats json and hlog.
func WriteCSV(w io.Writer, r *Run) error {
	c := &csvWriter{w: csv.NewWriter(w)}
	c.write(slices.Clone(csvHeader)...)
	c.run(r)
	for i := range r.Policies {
		c.policy(&r.Policies[i])
	}
	for i := range r.Comparisons {
		c.comparison(&r.Comparisons[i])
	}
	for i := range r.Verdict.Claims {
		cl := &r.Verdict.Claims[i]
		c.at(cl.Policy, "verdict", "all", "")
		c.line(cl.Figure, strconv.FormatBool(cl.Valid))
		if !cl.Valid {
			c.line(cl.Figure+"_reason", cl.Reason.Value)
		}
	}
	c.w.Flush()
	return c.w.Error()
}

// csvWriter writes lines that begin with the same four columns; the csv.Writer
// keeps the first error.
type csvWriter struct {
	w     *csv.Writer
	place [4]string
}

func (c *csvWriter) write(fields ...string) {
	for i := range fields {
		fields[i] = units.Plain(fields[i])
	}
	_ = c.w.Write(fields)
}

func (c *csvWriter) at(policy, of, interval, start string) {
	c.place = [4]string{policy, of, interval, start}
}

func (c *csvWriter) line(figure, value string) {
	c.write(c.place[0], c.place[1], c.place[2], c.place[3], figure, value)
}

func (c *csvWriter) figure(key string, f Figure) {
	if f.Present {
		c.line(key, string(appendNumber(nil, f.Value)))
		return
	}
	c.line(key, "")
	c.line(key+"_reason", f.Reason)
	if f.AtLeast > 0 {
		c.line(boundKey(key), string(appendNumber(nil, f.AtLeast)))
	}
}

// fields writes the numbers, texts and figures of a struct; other fields are
// left out.
func (c *csvWriter) fields(v any) {
	rv := reflect.ValueOf(v)
	for i := range rv.NumField() {
		key, _ := tag(rv.Type().Field(i))
		if key == "" || key == "hdr" {
			continue
		}
		switch x := rv.Field(i).Interface().(type) {
		case Figure:
			c.figure(key, x)
		case Text:
			c.line(key, x.Value)
		case string:
			c.line(key, x)
		case bool:
			c.line(key, strconv.FormatBool(x))
		case int, int64, uint64, float64:
			c.line(key, string(appendNumber(nil, toFloat(rv.Field(i)))))
		}
	}
}

func toFloat(v reflect.Value) float64 {
	switch {
	case v.CanUint():
		return float64(v.Uint())
	case v.CanInt():
		return float64(v.Int())
	}
	return v.Float()
}

func (c *csvWriter) run(r *Run) {
	c.at("", "run", "all", "")
	c.line("version", r.Version)
	c.line("seed", strconv.FormatUint(r.Seed, 10))
	c.line("mode", r.Mode)
	c.line("driver", r.Driver)
	c.line("interrupted", strconv.FormatBool(r.Interrupted))
	c.line("duration_ns", strconv.FormatInt(r.DurationNS, 10))
	c.at("", "requested", "all", "")
	c.fields(r.Requested)
	c.at("", "achieved", "all", "")
	c.fields(r.Achieved)
	c.at("", "verdict", "all", "")
	c.line("valid", strconv.FormatBool(r.Verdict.Valid))
}

func (c *csvWriter) policy(p *Policy) {
	c.at(p.Name, "policy", "all", "")
	c.line("spec", p.Spec)
	c.line("loops", strconv.Itoa(p.Loops))
	c.figure("achieved_share", p.AchievedShare)
	c.figure("busiest_loop_share", p.BusiestShare)
	c.figure("hedge_delay_ns", p.HedgeDelayNS)
	c.figure("extra_load", p.ExtraLoad)
	c.figure("amplification", p.Amplification)
	for _, s := range []struct {
		of string
		v  any
	}{{"calls", p.Calls}, {"attempts", p.Attempts}, {"connections", p.Connections}, {"stamps", p.Stamps}, {"bytes", p.Bytes}, {"burn_in.calls", p.BurnIn.Calls}, {"burn_in.attempts", p.BurnIn.Attempts}} {
		c.at(p.Name, s.of, "all", "")
		c.fields(s.v)
	}
	c.at(p.Name, "refused", "all", "")
	for rule := policy.RuleNone + 1; rule < policy.Rules; rule++ {
		c.line(rule.String(), strconv.FormatUint(p.Refused[rule.String()], 10))
	}
	c.at(p.Name, "errors", "all", "")
	for i := range p.Errors {
		c.line(p.Errors[i].label(), strconv.FormatUint(p.Errors[i].Count, 10))
	}
	for _, of := range distNames {
		if d := p.Dist(of); d != nil {
			c.at(p.Name, of, "all", "")
			c.fields(*d)
		}
	}
	c.shares(p.Name, "ok_within", "all", "", p.OKWithin)
	for i := range p.Blocks {
		b := &p.Blocks[i]
		n, start := strconv.Itoa(i), strconv.FormatInt(b.StartNS, 10)
		c.at(p.Name, "block", n, start)
		c.fields(*b)
		c.shares(p.Name, "block.ok_within", n, start, b.OKWithin)
	}
	for i := range p.Intervals {
		v := &p.Intervals[i]
		c.at(p.Name, "interval", strconv.Itoa(i), strconv.FormatInt(v.StartNS, 10))
		c.fields(*v)
	}
	if p.Predicted != nil {
		c.predicted(p.Name, p.Predicted)
	}
}

func (c *csvWriter) predicted(name string, p *Predicted) {
	c.at(name, "predicted", "all", "")
	c.line("source", p.Source)
	c.figure("extra_load", p.ExtraLoad)
	c.at(name, "predicted.calls", "all", "")
	c.fields(p.Calls)
	c.at(name, "predicted.attempts", "all", "")
	c.fields(p.Attempts)
	c.at(name, "predicted.response", "all", "")
	c.fields(p.Response)
	c.shares(name, "predicted.ok_within", "all", "", p.OKWithin)
}

// shares writes the figures of each threshold under OF.T_NS.
func (c *csvWriter) shares(name, of, interval, start string, list []Share) {
	for i := range list {
		c.at(name, of+"."+strconv.FormatInt(list[i].TNS, 10), interval, start)
		c.fields(list[i])
	}
}

func (c *csvWriter) comparison(x *Comparison) {
	c.at(x.Other, "compared with "+x.Base, "all", "")
	c.fields(*x)
	for _, part := range []struct {
		of string
		v  any
	}{{"ok_within", x.OKWithin}, {"p50", x.P50}, {"p99", x.P99}, {"p999", x.P999}, {"carry_over", x.CarryOver}} {
		c.at(x.Other, "compared with "+x.Base+": "+part.of, "all", "")
		c.fields(part.v)
	}
}
