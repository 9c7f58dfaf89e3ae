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
		p.validateLimits, p.validateRetry, p.validateHedge, p.validateGuards, p.validatePicker, p.validateTimes,
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
		{"deadline", p.Deadline}, {"min-start", p.MinStart}, {"reserve", p.Reserve},
		{"retry.after.cap", p.Retry.AfterCap}, {"hedge.floor", p.Hedge.Floor}, {"hedge.ceiling", p.Hedge.Ceiling}, {"eject.for", p.Eject.For},
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
	case p.Cancel > CancelTied:
		return fmt.Errorf("cancel=%d, want close, drain, reset or tied", p.Cancel)
	case p.Picker > PickPeakEWMA:
		return fmt.Errorf("picker=%d, want random, round-robin, least, choices or peak-ewma", p.Picker)
	case p.Backoff.Jitter > JitterAbsolute:
		return fmt.Errorf("jitter=%d, want full, none, equal, a share or a duration", p.Backoff.Jitter)
	case p.Backoff.Kind > BackoffTable:
		return fmt.Errorf("backoff.kind=%d, want exponential, constant, linear, decorrelated or sum", p.Backoff.Kind)
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
	case b.Factor != 0 && b.Kind != BackoffExponential && b.Kind != BackoffSum:
		return fmt.Errorf("backoff.factor=%v is of an exponential backoff or a sum only", b.Factor)
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
	r := &p.Retry
	switch {
	case r.After > AfterIgnore:
		return fmt.Errorf("retry.after=%d, want longer, exact or ignore", r.After)
	case r.AfterOver > AfterDiscard:
		return fmt.Errorf("retry.after.over=%d, want fail, clip or discard", r.AfterOver)
	case !(r.AfterSpread >= 0 && r.AfterSpread <= 1):
		return fmt.Errorf("retry.after.spread=%v, want 0 to 1", r.AfterSpread)
	case r.AfterCap > 0 && p.Deadline > 0 && r.AfterCap >= p.Deadline:
		return fmt.Errorf("retry.after.cap=%v is not below deadline=%v, which bounds every wait", r.AfterCap, p.Deadline)
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
	case h.Ceiling > 0 && h.Floor > h.Ceiling:
		return fmt.Errorf("hedge.floor=%v is above hedge.ceiling=%v", h.Floor, h.Ceiling)
	case h.Probability != 0 && !(h.Probability > 0 && h.Probability <= 1):
		return fmt.Errorf("hedge.probability=%v, want more than 0 and at most 1", h.Probability)
	case h.OffAbove < 0:
		return fmt.Errorf("hedge.off-above=%d is negative, want 0 or more", h.OffAbove)
	case h.OnError > OnErrorStop:
		return fmt.Errorf("hedge.on-error=%d, want wait, next or stop", h.OnError)
	case h.Win > WinAny:
		return fmt.Errorf("hedge.win=%d, want ok or any", h.Win)
	}
	return nil
}

func (p *Policy) validatePicker() error {
	e := &p.Eject
	switch {
	case p.Choices < 0 || p.Choices > maxChoices:
		return fmt.Errorf("picker.choices=%d, want 1 to %d", p.Choices, maxChoices)
	case e.Failures < 0 || e.Failures > math.MaxInt32:
		return fmt.Errorf("eject=%d, want 1 or more failures", e.Failures)
	case e.Max != 0 && !(e.Max > 0 && e.Max <= 1):
		return fmt.Errorf("eject.max=%v, want more than 0 and at most 1", e.Max)
	}
	return nil
}

// validateTimes checks the spans against each other.
func (p *Policy) validateTimes() error {
	h, b := &p.Hedge, &p.Backoff
	fixed := h.Max > 0 && h.Quantile == 0
	if p.Deadline > 0 {
		switch {
		case p.Reserve >= p.Deadline:
			return fmt.Errorf("reserve=%v is not below deadline=%v", p.Reserve, p.Deadline)
		case p.MinStart > 0 && p.MinStart >= p.Deadline-p.Reserve && p.Reserve > 0:
			return fmt.Errorf("reserve=%v and min-start=%v leave nothing of deadline=%v", p.Reserve, p.MinStart, p.Deadline)
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
	if t := p.Timeouts[PartAttempt]; fixed && !t.tracks() && t.After > 0 && h.Delay >= t.After {
		return fmt.Errorf("hedge=%v is not below attempt-timeout=%v, which ends the attempt that it would double", h.Delay, t.After)
	}
	return p.validateTimeouts()
}

// validateTimeouts checks each timeout.
func (p *Policy) validateTimeouts() error {
	for i, t := range p.Timeouts {
		key := Part(i).String() + "-timeout"
		switch {
		case t.After < 0:
			return fmt.Errorf("%s=%v is negative, want 0 or more", key, t.After)
		case t.Quantile != 0 && !t.tracks():
			return fmt.Errorf("%s=%v, want a quantile between p0 and p100", key, t.Quantile)
		case t.Pad < 0:
			return fmt.Errorf("%s=%v+%v: the margin is negative, want 0 or more", key, t.Quantile, t.Pad)
		case t.Pad > 0 && !t.tracks():
			return fmt.Errorf("%s=%v+%v: only a quantile has a margin", key, t.After, t.Pad)
		}
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

// MostAttempts returns the largest number of attempts of one call, 1 or more.
func (p *Policy) MostAttempts() int {
	n := 1 + max(p.Retry.Max, 0) + max(p.Hedge.Max, 0)
	if p.Attempts > 0 {
		n = min(n, p.Attempts)
	}
	return n
}

// Shared reports whether calls share state through their Client, so that what
// one call does can change what another may do: a budget, a breaker, a throttle,
// a limit, tracked latencies, or attempts in flight that a choice looks at.
func (p *Policy) Shared() bool {
	return p.Breaker.limits() || p.Throttle.limits() || p.Limit.limits() || p.Timeouts.track() || p.watches() ||
		p.CanResend() && (p.Budget.limits() || p.Hedge.Budget.limits() || p.tracks() || p.Hedge.Max > 0 && p.Hedge.OffAbove > 0)
}

// BurnIn returns the longest window of the state that calls share: how long the
// policy must run before what it does is no longer a matter of its start. 0: it
// has no such state, or none but what is in flight.
func (p *Policy) BurnIn() time.Duration {
	d := max(p.Breaker.burnIn(), p.Throttle.burnIn(), p.Limit.burnIn())
	if p.CanResend() {
		d = max(d, p.Budget.burnIn(), p.Hedge.Budget.burnIn())
		if p.tracks() {
			d = max(d, p.Hedge.window())
		}
	}
	if p.Timeouts.track() {
		d = max(d, defaultWindow)
	}
	if p.Picker == PickPeakEWMA {
		d = max(d, ewmaDecay)
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
