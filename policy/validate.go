package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// maxWindow bounds Hedge.Window.
const maxWindow = time.Hour

// Validate returns the first thing that makes p meaningless, or nil: a value
// out of its range, or two values that contradict each other, named by their
// keys in a policy's spec, as in "hedge=2s is not below deadline=1s".
func (p *Policy) Validate() error {
	for _, check := range []func() error{
		p.validateLimits, p.validateRetry, p.validateHedge, p.validateBudget, p.validateTimes,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// validateLimits checks each number that has only a lower bound, and the enumerations.
func (p *Policy) validateLimits() error {
	for _, v := range []struct {
		key string
		d   time.Duration
	}{
		{"deadline", p.Deadline}, {"min-start", p.MinStart}, {"attempt-timeout", p.AttemptTimeout},
		{"backoff", p.Backoff.Base}, {"backoff cap", p.Backoff.Cap},
		{"hedge", p.Hedge.Delay}, {"hedge.window", p.Hedge.Window},
	} {
		if v.d < 0 {
			return fmt.Errorf("%s=%v is negative, want 0 or more", v.key, v.d)
		}
	}
	for _, v := range []struct {
		key string
		n   int
	}{
		{"retry", p.Retry.Max}, {"hedge.max", p.Hedge.Max}, {"hedge.min-samples", p.Hedge.MinSamples},
	} {
		if v.n < 0 {
			return fmt.Errorf("%s=%d is negative, want 0 or more", v.key, v.n)
		}
	}
	if p.Attempts < 0 {
		return fmt.Errorf("attempts=%d, want 1 or more", p.Attempts)
	}
	switch {
	case p.Cancel > CancelReset:
		return fmt.Errorf("cancel=%d, want close, drain or reset", p.Cancel)
	case p.Picker > PickRoundRobin:
		return fmt.Errorf("picker=%d, want random or round-robin", p.Picker)
	case p.Backoff.Jitter > JitterAbsolute:
		return fmt.Errorf("jitter=%d, want full, none, equal, a share or a duration", p.Backoff.Jitter)
	case p.Backoff.Kind > BackoffTable:
		return fmt.Errorf("backoff.kind=%d, want exponential, constant, linear or decorrelated", p.Backoff.Kind)
	}
	return nil
}

func (p *Policy) validateRetry() error {
	b := &p.Backoff
	switch {
	case p.Retry.Max > math.MaxInt32:
		return fmt.Errorf("retry=%d, want at most %d", p.Retry.Max, math.MaxInt32)
	case p.Attempts == 1 && p.Retry.Max > 0:
		return fmt.Errorf("attempts=1 leaves none for retry=%d", p.Retry.Max)
	case b.Factor != 0 && !(b.Factor >= 1 && b.Factor <= math.MaxFloat64):
		return fmt.Errorf("backoff.factor=%v, want 1 or more", b.Factor)
	case b.Cap > 0 && b.Base > b.Cap:
		return fmt.Errorf("backoff=%v..%v: the base is above the cap", b.Base, b.Cap)
	case b.Factor != 0 && b.Kind != BackoffExponential:
		return fmt.Errorf("backoff.factor=%v is of an exponential backoff only", b.Factor)
	case b.Kind == BackoffDecorrelated && (b.Jitter != JitterFull || b.JitterFirst):
		return errors.New("jitter says nothing of backoff.kind=decorrelated, which is drawn already")
	case b.Jitter == JitterFraction && !(b.Share > 0 && b.Share <= 1):
		return fmt.Errorf("jitter=%v%%, want a share above 0 and at most 100%%", 100*b.Share)
	case b.Jitter == JitterAbsolute && b.Span <= 0:
		return fmt.Errorf("jitter=%v, want more than 0s", b.Span)
	case b.Kind == BackoffTable && len(b.Steps) == 0:
		return errors.New("a backoff table without a wait, want one or more")
	}
	for _, d := range b.Steps {
		if d < 0 {
			return fmt.Errorf("backoff=%v is negative, want 0 or more", d)
		}
	}
	for _, status := range p.Retry.On {
		if status < 400 || status > 999 {
			return fmt.Errorf("retry.on=%d, want a failure's status, 400 to 999", status)
		}
	}
	return nil
}

func (p *Policy) validateHedge() error {
	h := &p.Hedge
	switch {
	case h.Max > MaxOpen-1:
		return fmt.Errorf("hedge.max=%d, want at most %d: a call has at most %d attempts open", h.Max, MaxOpen-1, MaxOpen)
	case h.Quantile != 0 && !(h.Quantile > 0 && h.Quantile < 1):
		return fmt.Errorf("hedge=%s, want a quantile between p0 and p100", h.spec())
	case h.Window > maxWindow:
		return fmt.Errorf("hedge.window=%v, want at most %v", h.Window, maxWindow)
	case h.Max > 0 && p.Attempts == 1:
		return fmt.Errorf("attempts=1 leaves none for hedge=%s", h.spec())
	}
	return nil
}

func (p *Policy) validateBudget() error {
	b := &p.Budget
	for _, v := range []struct {
		key    string
		tokens float64
	}{{"budget", b.Deposit}, {"budget.capacity", b.Capacity}} {
		switch {
		case math.IsNaN(v.tokens) || v.tokens < 0:
			return fmt.Errorf("%s=%v, want 0 or more", v.key, v.tokens)
		case v.tokens > maxTokens:
			return fmt.Errorf("%s=%v, want at most %v", v.key, v.tokens, float64(maxTokens))
		case v.tokens > 0 && microTokens(v.tokens) == 0:
			return fmt.Errorf("%s=%v, want 0 or at least a millionth", v.key, v.tokens)
		}
	}
	if b.limits() && b.capacity() < 1 && p.CanResend() {
		return fmt.Errorf("budget.capacity=%v is below the 1 token that each attempt of %s costs", b.capacity(), p.resends())
	}
	return nil
}

// validateTimes checks the spans against each other.
func (p *Policy) validateTimes() error {
	h, b := &p.Hedge, &p.Backoff
	fixed := h.Max > 0 && h.Quantile == 0
	if p.Deadline > 0 {
		switch {
		case p.MinStart >= p.Deadline:
			return fmt.Errorf("min-start=%v is not below deadline=%v", p.MinStart, p.Deadline)
		case fixed && h.Delay >= p.Deadline:
			return fmt.Errorf("hedge=%v is not below deadline=%v", h.Delay, p.Deadline)
		case fixed && h.Delay >= p.Deadline-p.MinStart:
			return fmt.Errorf("hedge=%v and min-start=%v leave nothing of deadline=%v", h.Delay, p.MinStart, p.Deadline)
		case p.Retry.Max > 0 && b.Jitter == JitterNone && b.Kind != BackoffTable && b.Base >= p.Deadline:
			return fmt.Errorf("backoff=%v without jitter is not below deadline=%v", b.Base, p.Deadline)
		}
	}
	if fixed && p.AttemptTimeout > 0 && h.Delay >= p.AttemptTimeout {
		return fmt.Errorf("hedge=%v is not below attempt-timeout=%v, which ends the attempt that it would double", h.Delay, p.AttemptTimeout)
	}
	return nil
}

// resends names the key that makes p send more than one attempt.
func (p *Policy) resends() string {
	if p.Retry.Max > 0 {
		return "retry=" + strconv.Itoa(p.Retry.Max)
	}
	return "hedge=" + p.Hedge.spec()
}

// spec returns the value of the spec key hedge, such as "58ms" or "p95".
func (h Hedge) spec() string {
	if h.Quantile == 0 {
		return h.Delay.String()
	}
	return "p" + strconv.FormatFloat(h.Quantile*100, 'g', 8, 64)
}

// CanResend reports whether a call may send more than one attempt.
func (p *Policy) CanResend() bool {
	return p.Attempts != 1 && (p.Retry.Max > 0 || p.Hedge.Max > 0)
}

// Shared reports whether calls share state through their Client, so that what
// one call does can change what another may do: a budget or a tracked delay.
func (p *Policy) Shared() bool {
	return p.CanResend() && (p.Budget.limits() || p.tracks())
}

// budgetBurnIn is the time given to a token budget to leave its full bucket.
// The bucket has no window; 10 s is that of the budgets that forget (Finagle's
// RetryBudget, tower's TpsBudget).
const budgetBurnIn = 10 * time.Second

// BurnIn returns the longest window of the state that calls share: how long the
// policy must run before what it does is no longer a matter of its start. 0: it
// has no such state.
func (p *Policy) BurnIn() time.Duration {
	var d time.Duration
	if p.Shared() && p.Budget.limits() {
		d = budgetBurnIn
	}
	if p.Shared() && p.tracks() {
		d = max(d, p.Hedge.window())
	}
	return d
}

// tracks reports whether the hedge delay follows a quantile.
func (p *Policy) tracks() bool {
	return p.Hedge.Max > 0 && p.Hedge.Quantile > 0 && p.Hedge.Quantile < 1
}

// retryable is what Retry.On means by nil, in ascending order.
var retryable = [...]uint16{408, 429, 502, 503, 504}

// Classify returns what an answer of that status means: DispOK below 400,
// DispRetryable when Retry.On lists it, else DispFatal. Status 0, no answer, is
// DispRetryable, like every error of the transport.
func (p *Policy) Classify(status uint16) Disposition {
	on := p.Retry.On
	if on == nil {
		on = retryable[:]
	}
	switch {
	case status == 0:
		return DispRetryable
	case status < 400:
		return DispOK
	case slices.Contains(on, status):
		return DispRetryable
	}
	return DispFatal
}
