package results

import (
	"fmt"
	"time"

	"latencylab/units"
)

// Limits of what a claim about a percentile p_k stands: the generator's own
// lateness, its load and the delay of its reads.
const (
	maxLag        = time.Millisecond // lag p99 (and lag p_k) may be this or lagShare of p_k, whichever is more
	lagShare      = 0.05
	minAchieved   = 0.99 // of the requested rate
	maxBusy       = 0.90 // of any second of a loop
	readShare     = 0.10 // of p_k, for read delay p99
	spuriousShare = 0.05 // of hedges and timeouts, when there are at least minSpurious
	minSpurious   = 10
)

// Claim says whether one figure may be relied on.
type Claim struct {
	Figure string `json:"figure"` // such as "plain.response.p99" or "plain.ok_within.100ms"
	Policy string `json:"policy"`
	Valid  bool   `json:"valid"`
	Reason Text   `json:"reason"` // null when valid
	// Generator says that the reason is the generator's: it did not keep the
	// schedule or read too late. Otherwise there is just too little data.
	Generator bool `json:"generator"`
	// Used says that the objective or a comparison rests on the figure.
	Used bool `json:"used"`
}

// Verdict says what of a Run is valid, claim by claim.
type Verdict struct {
	// Valid is false when the run is void, or when the generator spoiled a
	// figure that the objective or a comparison uses. Too few samples make single
	// claims invalid, not the Run.
	Valid  bool    `json:"valid"`
	Claims []Claim `json:"claims"`
}

// GeneratorInvalid says that the generator spoiled a figure that the objective
// or a comparison uses: the Run ends with exit code 3.
func (v *Verdict) GeneratorInvalid() bool {
	for i := range v.Claims {
		c := &v.Claims[i]
		if !c.Valid && c.Generator && c.Used {
			return true
		}
	}
	return false
}

// Judge examines every percentile and every share of the objective of every
// policy. A claim about p_k does not hold when
//
//   - lag p99, or the lag at the same k above it, exceeds max(1 ms, 5 % of p_k),
//   - fewer than 99 % of the scheduled calls were begun in their block and ever
//     got a connection,
//   - a loop was busy for over 90 % of a second,
//   - read delay p99 exceeds 10 % of p_k,
//   - over 5 % of hedges and timeouts (10 or more) were spurious,
//   - there are too few samples.
//
// A void Run is not valid, whatever its claims.
//
// For a share OK within T, T stands for p_k. In closed loop there is no
// schedule: the first three do not apply, and read delay makes a claim invalid
// without making the Run so. Judge uses only what a saved Run holds.
func Judge(r *Run) Verdict {
	v := Verdict{Claims: []Claim{}}
	for i := range r.Policies {
		p := &r.Policies[i]
		for n := range quantiles {
			k := &quantiles[n]
			v.Claims = append(v.Claims, r.judgeQuantile(p, k))
		}
		for n := range p.OKWithin {
			v.Claims = append(v.Claims, r.judgeShare(p, &p.OKWithin[n]))
		}
	}
	v.Valid = r.Void == "" && !v.GeneratorInvalid()
	return v
}

func (r *Run) judgeQuantile(p *Policy, k *quantile) Claim {
	f := k.of(&p.Response)
	c := Claim{Figure: p.Name + ".response." + k.name, Policy: p.Name, Used: r.uses(p, k)}
	value := f.Value
	if !f.Present {
		value = f.AtLeast
		if value == 0 && p.Response.total() < k.wanted() {
			c.Reason = Text{Value: f.Reason}
			return c
		}
	}
	c.judge(r, p, k, time.Duration(value))
	return c
}

func (r *Run) judgeShare(p *Policy, s *Share) Claim {
	t := time.Duration(s.TNS)
	c := Claim{Figure: p.Name + ".ok_within." + units.FormatDuration(t), Policy: p.Name, Used: true}
	if s.Calls < MinBeyond {
		c.Reason = Text{Value: fmt.Sprintf("too few samples: %s, want %d", counted(s.Calls, "call"), MinBeyond)}
		return c
	}
	c.judge(r, p, &quantiles[3], t) // p99
	return c
}

// judge decides on what the generator did; value is p_k or T.
func (c *Claim) judge(r *Run, p *Policy, k *quantile, value time.Duration) {
	if reason := p.late(r, k, value); reason != "" {
		c.Reason, c.Generator = Text{Value: reason}, true
		return
	}
	if reason := p.readLate(value); reason != "" {
		c.Reason, c.Generator = Text{Value: reason}, true
		c.Used = c.Used && r.Mode == Open
		return
	}
	c.Valid = true
}

// late says how the schedule was not kept; "" when it was or there is none.
func (p *Policy) late(r *Run, k *quantile, value time.Duration) string {
	if r.Mode == Closed {
		return ""
	}
	limit := max(maxLag, time.Duration(lagShare*float64(value)))
	for _, at := range [2]*quantile{&quantiles[3], k} {
		lag, label := tailOf(&p.Lag, at)
		if at.parts >= quantiles[3].parts && lag > limit {
			return fmt.Sprintf("lag %s is %s, above %s: calls were begun too late", label, units.Duration(lag), units.Duration(limit))
		}
	}
	if f := p.AchievedShare; f.Present && f.Value < minAchieved {
		return fmt.Sprintf("only %s of the scheduled calls were begun in time and got a connection, want 99 %%", units.Percent(f.Value))
	}
	if f := p.BusiestShare; f.Present && f.Value > maxBusy {
		return fmt.Sprintf("a loop was busy for %s of a second, above 90 %%", units.Percent(f.Value))
	}
	return ""
}

// readLate says how replies lay unread; "" when they did not.
func (p *Policy) readLate(value time.Duration) string {
	limit := time.Duration(readShare * float64(value))
	if read, label := tailOf(&p.ReadDelay, &quantiles[3]); value > 0 && read > limit {
		return fmt.Sprintf("read delay %s is %s, above 10 %% of the figure (%s)", label, units.Duration(read), units.Duration(limit))
	}
	a := &p.Attempts
	spurious, all := a.SpuriousHedges+a.SpuriousTimeouts, a.Hedges+a.TimedOut
	if spurious >= minSpurious && float64(spurious) > spuriousShare*float64(all) {
		return fmt.Sprintf("%s of %s hedges and timeouts were spurious: the reply lay unread", units.Count(spurious), units.Count(all))
	}
	return ""
}

// tailOf returns a percentile of d, or its maximum when there are too few
// samples for it.
func tailOf(d *Dist, k *quantile) (time.Duration, string) {
	if f := k.of(d); f.Present {
		return time.Duration(f.Value), k.label
	}
	return time.Duration(d.Max.Value), "max"
}

// uses says whether a comparison gives an interval for the percentile. An open
// loop without anything to compare, or without an objective, is run for its p50
// and p99.
func (r *Run) uses(p *Policy, k *quantile) bool {
	if r.Mode == Open && (len(r.Policies) == 1 || len(r.Requested.WithinNS) == 0) && (k.name == "p50" || k.name == "p99") {
		return true
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		if c.Base != p.Name && c.Other != p.Name {
			continue
		}
		switch k.name {
		case "p50":
			if c.P50.Low.Present {
				return true
			}
		case "p99":
			if c.P99.Low.Present {
				return true
			}
		case "p999":
			if c.P999.Low.Present {
				return true
			}
		}
	}
	return false
}

// MarshalJSON writes every key.
func (c Claim) MarshalJSON() ([]byte, error) { return encodeFields(c) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Claim) UnmarshalJSON(b []byte) error { return decodeFields(b, c) }

// MarshalJSON writes every key.
func (v Verdict) MarshalJSON() ([]byte, error) { return encodeFields(v) }

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Verdict) UnmarshalJSON(b []byte) error { return decodeFields(b, v) }
