package policy

var (
	kindNames        = [Kinds]string{"first", "retry", "hedge"}
	phaseNames       = [Phases]string{"acquire", "dns", "connect", "tls", "write", "first_byte", "body"}
	dispositionNames = [...]string{"ok", "retryable", "fatal", "unsent", "withdrawn", "ceiling"}
	outcomeNames     = [...]string{"going", "ok", "failed", "expired"}
	ruleNames        = [Rules]string{"none", "disposition", "idempotency", "attempts", "time", "budget", "connections", "samples",
		"throttle", "breaker", "limit", "overload", "idle", "probability", "pushback", "committed", "ceiling"}
	cancelNames    = [...]string{"close", "drain", "reset", "tied"}
	pickerNames    = [...]string{"random", "round-robin", "least", "choices", "peak-ewma"}
	afterNames     = [...]string{"longer", "exact", "ignore"}
	afterOverNames = [...]string{"fail", "clip", "discard"}
	onErrorNames   = [...]string{"wait", "next", "stop"}
	winNames       = [...]string{"ok", "any"}
	partNames      = [Parts]string{"attempt", "acquire", "dns", "connect", "tls", "write", "headers", "read", "idle"}
	jitterNames    = [...]string{"full", "none", "equal", "fraction", "absolute"}
)

// name returns names[i], or "unknown" for a value that has no name.
func name(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "unknown"
}

// String returns the name used in results: "first", "retry" or "hedge".
func (k Kind) String() string { return name(kindNames[:], uint8(k)) }

// String returns the name used in results, such as "first_byte".
func (p Phase) String() string { return name(phaseNames[:], uint8(p)) }

// String returns "ok", "retryable", "fatal", "unsent", "withdrawn" or "ceiling".
func (d Disposition) String() string { return name(dispositionNames[:], uint8(d)) }

// String returns "going", "ok", "failed" or "expired".
func (o Outcome) String() string { return name(outcomeNames[:], uint8(o)) }

// String returns the name used in results, such as "budget"; "none" for RuleNone.
func (r Rule) String() string { return name(ruleNames[:], uint8(r)) }

// String returns the value of the spec key cancel, such as "close".
func (c Cancel) String() string { return name(cancelNames[:], uint8(c)) }

// String returns the value of the spec key picker, such as "round-robin".
func (p Picker) String() string { return name(pickerNames[:], uint8(p)) }

// String returns the value of the spec key jitter, such as "full"; those of a share or a span are numbers there.
func (j Jitter) String() string { return name(jitterNames[:], uint8(j)) }

// String returns the value of the spec key retry.after, such as "longer".
func (a After) String() string { return name(afterNames[:], uint8(a)) }

// String returns the value of the spec key retry.after.over, such as "fail".
func (a AfterOver) String() string { return name(afterOverNames[:], uint8(a)) }

// String returns the value of the spec key hedge.on-error, such as "wait".
func (o OnError) String() string { return name(onErrorNames[:], uint8(o)) }

// String returns the value of the spec key hedge.win: "ok" or "any".
func (w Win) String() string { return name(winNames[:], uint8(w)) }

// String returns the first word of the part's spec key, such as "headers" of
// headers-timeout.
func (p Part) String() string { return name(partNames[:], uint8(p)) }
