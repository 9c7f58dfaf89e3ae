package workloads

import (
	"fmt"
	"strings"
	"time"

	"latencylab/policy"
	"latencylab/units"
)

// Words of enumerations, indexed by value.
var (
	afterWords     = []string{policy.AfterLonger: "longer", policy.AfterExact: "exact", policy.AfterIgnore: "ignore"}
	afterOverWords = []string{policy.AfterFail: "fail", policy.AfterClip: "clip", policy.AfterDiscard: "discard"}
	onErrorWords   = []string{policy.OnErrorWait: "wait", policy.OnErrorNext: "next", policy.OnErrorStop: "stop"}
	winWords       = []string{policy.WinOK: "ok", policy.WinAny: "any"}
	winAtWords     = []string{"body", "headers"}
)

// enumerate returns the setter of a key whose words stand for 0, 1, 2, …
func enumerate[T ~uint8](words []string, field func(*policy.Policy) *T) func(*policy.Policy, string) error {
	return func(p *policy.Policy, v string) error {
		values := make([]T, len(words))
		for i := range values {
			values[i] = T(i)
		}
		return setWord(field(p), v, values, words)
	}
}

// span returns the setter of a key that takes a duration above 0.
func span(field func(*policy.Policy) *time.Duration) func(*policy.Policy, string) error {
	return func(p *policy.Policy, v string) error { return setSpan(field(p), v) }
}

// timeoutKeys are the keys PART-timeout.
func timeoutKeys() []specKey {
	var keys []specKey
	for part := range policy.Parts {
		keys = append(keys, specKey{part.String() + "-timeout", "D or pNN[+D]", "", func(p *policy.Policy, v string) error {
			return setTimeout(&p.Timeouts[part], v)
		}})
	}
	return keys
}

// setTimeout reads D or pNN[+D].
func setTimeout(t *policy.Timeout, v string) error {
	*t = policy.Timeout{}
	if len(v) < 2 || v[0] != 'p' {
		if err := setSpan(&t.After, v); err != nil {
			return fmt.Errorf("%w, or a percentile such as p99.9 or p99.9+20ms", err)
		}
		return nil
	}
	name, pad, has := strings.Cut(v, "+")
	q, ok := units.ParsePercentile(name[1:])
	if !ok {
		return wanted(v, "a duration such as 50ms or a percentile such as p99.9 or p99.9+20ms")
	}
	t.Quantile = q
	if has {
		return setSpan(&t.Pad, pad)
	}
	return nil
}

// launchKeys lists the keys of what decides a launch beside the first ones, in the order of the
// documentation.
var launchKeys = []specKey{
	{"preset", "NAME", "", nil}, // see presetOf
	{"reserve", "D", "", span(func(p *policy.Policy) *time.Duration { return &p.Reserve })},
	{"retry.after", "longer|exact|ignore", "", enumerate(afterWords, func(p *policy.Policy) *policy.After { return &p.Retry.After })},
	{"retry.after.cap", "D", "", span(func(p *policy.Policy) *time.Duration { return &p.Retry.AfterCap })},
	{"retry.after.over", "fail|clip|discard", "", enumerate(afterOverWords, func(p *policy.Policy) *policy.AfterOver { return &p.Retry.AfterOver })},
	{"retry.after.spread", "SHARE", "", func(p *policy.Policy, v string) (err error) {
		p.Retry.AfterSpread, err = units.ParseShare(v)
		return err
	}},
	{"hedge.floor", "D", "", span(func(p *policy.Policy) *time.Duration { return &p.Hedge.Floor })},
	{"hedge.ceiling", "D", "", span(func(p *policy.Policy) *time.Duration { return &p.Hedge.Ceiling })},
	{"hedge.probability", "SHARE", "", func(p *policy.Policy, v string) error {
		f, err := units.ParseShare(v)
		if err == nil && f == 0 {
			err = wanted(v, "more than 0%")
		}
		p.Hedge.Probability = f
		return err
	}},
	{"hedge.idle", "true|false", "true", func(p *policy.Policy, v string) error {
		return setWord(&p.Hedge.OnlyIdle, v, []bool{false, true}, []string{"false", "true"})
	}},
	{"hedge.off-above", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Hedge.OffAbove, v, 1) }},
	{"hedge.on-error", "wait|next|stop", "", enumerate(onErrorWords, func(p *policy.Policy) *policy.OnError { return &p.Hedge.OnError })},
	{"hedge.win", "ok|any", "", enumerate(winWords, func(p *policy.Policy) *policy.Win { return &p.Hedge.Win })},
	{"hedge.win-at", "body|headers", "", func(p *policy.Policy, v string) error {
		return setWord(&p.Hedge.WinAtHead, v, []bool{false, true}, winAtWords)
	}},
	{"picker.choices", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Choices, v, 1) }},
	{"eject", "N", "", func(p *policy.Policy, v string) error { return setCount(&p.Eject.Failures, v, 1) }},
	{"eject.for", "D", "", span(func(p *policy.Policy) *time.Duration { return &p.Eject.For })},
	{"eject.max", "SHARE", "", func(p *policy.Policy, v string) error {
		f, err := units.ParseShare(v)
		if err == nil && f == 0 {
			err = wanted(v, "more than 0%")
		}
		p.Eject.Max = f
		return err
	}},
}

// launchNeeds lists the keys of launchKeys that would say nothing without another.
func launchNeeds(p *policy.Policy) []need {
	hedges, retries := p.Hedge.Max > 0, p.Retry.Max > 0
	ns := []need{
		{"reserve", "deadline", p.Deadline > 0},
		{"retry.after", "retry or attempts", retries},
		{"retry.after.cap", "retry or attempts", retries},
		{"retry.after.over", "retry.after.cap", p.Retry.AfterCap > 0},
		{"retry.after.spread", "retry or attempts", retries},
		{"hedge.floor", "a hedge after a percentile such as hedge=p95", p.Hedge.Quantile > 0},
		{"hedge.ceiling", "a hedge after a percentile such as hedge=p95", p.Hedge.Quantile > 0},
		{"picker.choices", "picker=choices or picker=peak-ewma", p.Picker == policy.PickChoices || p.Picker == policy.PickPeakEWMA},
		{"eject.for", "eject", p.Eject.Failures > 0},
		{"eject.max", "eject", p.Eject.Failures > 0},
	}
	for _, key := range []string{"hedge.probability", "hedge.idle", "hedge.off-above", "hedge.on-error", "hedge.win", "hedge.win-at"} {
		ns = append(ns, need{key, "hedge", hedges})
	}
	return ns
}

// timeouts writes the keys PART-timeout.
func (f *specWriter) timeouts(p *policy.Policy) {
	for part, t := range p.Timeouts {
		key := policy.Part(part).String() + "-timeout"
		switch {
		case t.Quantile > 0 && t.Pad > 0:
			f.add(key, "p"+units.Percentile(t.Quantile)+"+"+units.FormatDuration(t.Pad))
		case t.Quantile > 0:
			f.add(key, "p"+units.Percentile(t.Quantile))
		default:
			f.duration(key, t.After)
		}
	}
}

// hedgeDetails writes the keys of a hedge beside its delay and number.
func (f *specWriter) hedgeDetails(h *policy.Hedge) {
	if h.Quantile > 0 {
		f.duration("hedge.floor", h.Floor)
		f.duration("hedge.ceiling", h.Ceiling)
	}
	if h.Probability > 0 {
		f.add("hedge.probability", units.FormatShare(h.Probability))
	}
	if h.OnlyIdle {
		f.add("hedge.idle", "true")
	}
	f.count("hedge.off-above", h.OffAbove)
	if h.OnError != policy.OnErrorWait {
		f.add("hedge.on-error", wordOf(onErrorWords, int(h.OnError)))
	}
	if h.Win != policy.WinOK {
		f.add("hedge.win", wordOf(winWords, int(h.Win)))
	}
	if h.WinAtHead {
		f.add("hedge.win-at", "headers")
	}
}

// retryAfter writes the keys retry.after.
func (f *specWriter) retryAfter(r *policy.Retry) {
	if r.After != policy.AfterLonger {
		f.add("retry.after", wordOf(afterWords, int(r.After)))
	}
	f.duration("retry.after.cap", r.AfterCap)
	if r.AfterCap > 0 && r.AfterOver != policy.AfterFail {
		f.add("retry.after.over", wordOf(afterOverWords, int(r.AfterOver)))
	}
	if r.AfterSpread > 0 {
		f.add("retry.after.spread", units.FormatShare(r.AfterSpread))
	}
}

// replicas writes the keys of the choice among replicas.
func (f *specWriter) replicas(p *policy.Policy) {
	if p.Picker != policy.PickRandom {
		f.add("picker", wordOf(pickerWords, int(p.Picker)))
	}
	if p.Picker == policy.PickChoices || p.Picker == policy.PickPeakEWMA {
		f.count("picker.choices", p.Choices)
	}
	if p.Eject.Failures > 0 {
		f.count("eject", p.Eject.Failures)
		f.duration("eject.for", p.Eject.For)
		if p.Eject.Max > 0 {
			f.add("eject.max", units.FormatShare(p.Eject.Max))
		}
	}
}
