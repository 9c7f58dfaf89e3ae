package workloads

import (
	"fmt"
	"strings"

	"latencylab/policy"
)

// Preset is the policy of a well-known client under its name: a SPEC to begin
// with, of which the keys that follow it replace what they name.
type Preset struct {
	// Name stands alone as the first entry of a SPEC, or under the key preset.
	Name string
	// Spec is what it stands for.
	Spec string
	// About is one line: what it models, and where its figures come from.
	About string
}

// presets lists the presets in the order of the documentation.
var presets = []Preset{
	{"grpc-retry", "retry=3,retry.on=503,backoff=100ms..1s,jitter=20%,retry.after=exact," +
		"budget=10%,budget.on=success,budget.capacity=10,budget.open-above=5,budget.failure-cost=1",
		"gRPC's retryPolicy and retryThrottling with the example's figures (gRFC A6); 503 stands for UNAVAILABLE"},
	{"grpc-hedge", "hedge=500ms,hedge.max=3,hedge.on-error=next,retry.on=503," +
		"budget=10%,budget.on=success,budget.capacity=10,budget.open-above=5,budget.failure-cost=1",
		"gRPC's hedgingPolicy with the example's figures (gRFC A6); 503 stands for the non-fatal status codes"},
	{"envoy", "retry=1,retry.on=500+501+502+503+504,backoff=25ms..250ms,backoff.kind=sum,jitter.when=before-cap," +
		"budget=20%,budget.kind=concurrency,budget.min=3,deadline=15s",
		"Envoy's retry_on 5xx with one retry, a retry_budget and the route's timeout at their defaults"},
	{"finagle", "hedge=p99,hedge.floor=1ms,hedge.budget=1%,retry=2," +
		"budget=20%,budget.kind=window,budget.min-rate=10/s",
		"Finagle's BackupRequestFilter with 1 % extra load over its default RetryBudget"},
	{"aws-standard", "retry=2,retry.on=429+500+502+503+504,backoff=1s..20s," +
		"budget=100%,budget.on=success,budget.capacity=500,budget.cost=5,budget.cost-timeout=10,budget.refund",
		"the AWS SDKs' standard mode (botocore.retries.standard)"},
	{"sre", "retry=2,backoff=100ms..10s,budget=10%,budget.kind=window,throttle=2",
		"the SRE book's three attempts, 10 % of retries and adaptive throttling (chapters 21 and 22)"},
	{"failsafe", "hedge=p95,hedge.on-error=stop,hedge.win=any,retry=2,retry.on=429+500+502+503+504," +
		"budget=20%,budget.kind=concurrency,budget.min=3,budget.charge=fire",
		"failsafe-go's retry, hedge and budget at their defaults, the hedge inside the retry"},
	{"hedgedhttp", "hedge=10ms,hedge.max=6,hedge.on-error=next,hedge.win=any,retry.unsafe",
		"cristalhq/hedgedhttp with the figures of its README: seven attempts, any answer wins, no budget"},
	{"seed-helper", "retry=2,backoff=100ms..2s,budget=10%,attempt-timeout=1s",
		"three attempts, full jitter, a token for every ten calls, a second for each attempt"},
}

// Presets returns the presets in the order of the documentation.
func Presets() []Preset { return append([]Preset(nil), presets...) }

// presetNamed returns the preset of that name, or nil.
func presetNamed(name string) *Preset {
	for i := range presets {
		if presets[i].Name == name {
			return &presets[i]
		}
	}
	return nil
}

// presetOf splits off the preset that a list of entries begins with; nil when
// it begins with none.
func presetOf(entries []entry) (p *Preset, rest []entry, err error) {
	e := entries[0]
	switch {
	case e.key == "preset":
		if p = presetNamed(e.value); p == nil {
			var names []string
			for i := range presets {
				names = append(names, presets[i].Name)
			}
			return nil, nil, &entryError{e.line, fmt.Errorf("preset = %q, nearest is %q", clip(e.value), Nearest(e.value, names))}
		}
	case e.bare:
		p = presetNamed(e.key)
	}
	if p == nil {
		return nil, entries, nil
	}
	return p, entries[1:], nil
}

// splitEntries reads a comma list of key=value.
func splitEntries(spec string) (entries []entry, err error) {
	for item := range strings.SplitSeq(spec, ",") {
		key, value, has := strings.Cut(item, "=")
		e := entry{key: strings.TrimSpace(key), value: strings.TrimSpace(value), bare: !has}
		if e.key == "" {
			return nil, fmt.Errorf("entry %d is empty, want key=value", len(entries)+1)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// policy returns what the preset stands for.
func (ps *Preset) policy() (policy.Policy, error) {
	np, err := parsePolicy(ps.Spec)
	return np.Policy, err
}
