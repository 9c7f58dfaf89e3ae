package policy

var (
	kindNames        = [Kinds]string{"first", "retry", "hedge"}
	phaseNames       = [Phases]string{"acquire", "dns", "connect", "tls", "write", "first_byte", "body"}
	dispositionNames = [...]string{"ok", "retryable", "fatal", "unsent"}
	outcomeNames     = [...]string{"going", "ok", "failed", "expired"}
	ruleNames        = [Rules]string{"none", "disposition", "idempotency", "attempts", "time", "budget", "connections", "samples"}
	cancelNames      = [...]string{"close", "drain", "reset"}
	pickerNames      = [...]string{"random", "round-robin"}
	jitterNames      = [...]string{"full", "none"}
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

// String returns "ok", "retryable", "fatal" or "unsent".
func (d Disposition) String() string { return name(dispositionNames[:], uint8(d)) }

// String returns "going", "ok", "failed" or "expired".
func (o Outcome) String() string { return name(outcomeNames[:], uint8(o)) }

// String returns the name used in results, such as "budget"; "none" for RuleNone.
func (r Rule) String() string { return name(ruleNames[:], uint8(r)) }

// String returns the value of the spec key cancel: "close", "drain" or "reset".
func (c Cancel) String() string { return name(cancelNames[:], uint8(c)) }

// String returns the value of the spec key picker: "random" or "round-robin".
func (p Picker) String() string { return name(pickerNames[:], uint8(p)) }

// String returns the value of the spec key jitter: "full" or "none".
func (j Jitter) String() string { return name(jitterNames[:], uint8(j)) }
