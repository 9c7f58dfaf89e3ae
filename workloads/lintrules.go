package workloads

import (
	"fmt"
	"slices"
	"time"

	"latencylab/policy"
	"latencylab/service"
	"latencylab/units"
)

// The rules return "" where there is nothing to say. Their numbers: the share of
// calls that a hedge at delay D copies is P(T > D) of the first attempt (Dean and
// Barroso, "The Tail at Scale", CACM 2013); a timeout T cuts P(T' > T) of the
// attempts that would have been answered.

func noTimeout(_ *linter, p *policy.Policy) (string, string) {
	at := &p.Timeouts[policy.PartAttempt]
	if p.Deadline > 0 || at.After > 0 || at.Quantile > 0 {
		return "", ""
	}
	if p.Timeouts != (policy.Timeouts{}) {
		return "no timeout here bounds an answer that comes in drop by drop: those of single phases begin anew with each byte, or end with their phase",
			"give deadline or attempt-timeout beside them"
	}
	return "a call to a server that never answers waits for ever, and holds its connection, its memory and its place in every pool above it",
		"give deadline, and attempt-timeout above the service's p99.9"
}

func deadlineNotTold(l *linter, p *policy.Policy) (string, string) {
	s := l.w.Service
	if s == nil || s.Deadline == service.DeadlineIgnore || p.Deadline == 0 || p.Wire != policy.WireNone {
		return "", ""
	}
	return "the service would leave out work that nobody waits for any more, and is not told until when anybody does",
		"give deadline.wire, such as deadline.wire=x-deadline-ms: the time that is left"
}

func epochDeadline(_ *linter, p *policy.Policy) (string, string) {
	if !p.Wire.Absolute() {
		return "", ""
	}
	return fmt.Sprintf("%s holds an instant of the wall clock: it is off by the skew between both sides, of which a few hundred ms are normal, in either direction", p.Wire.Header()),
		"send the time that is left, as deadline.wire=x-deadline-ms or grpc-timeout do: it is off by one way through the network"
}

func timeoutInward(l *linter, p *policy.Policy) (string, string) {
	d, key, ok := l.attemptTimeout(p)
	if !ok || p.Deadline == 0 || d < p.Deadline-p.Reserve {
		return "", ""
	}
	return fmt.Sprintf("%s never acts inside %s: the outer timeout is the shorter one, so that the first attempt takes all the time there is", key, deadline(p)),
		"let timeouts shrink inwards: attempt-timeout well below deadline, with room for the retries"
}

// fitting is the number of attempts, up to most, that all end by a timeout
// within the time there is, with the waits between them at their longest.
func fitting(timeout, time time.Duration, b *policy.Backoff, most int) int {
	for n := range most {
		if n > 0 {
			time -= min(b.Bound(n), time)
		}
		if time -= timeout; time < 0 {
			return n
		}
	}
	return most
}

func attemptsPastDeadline(l *linter, p *policy.Policy) (string, string) {
	d, key, ok := l.attemptTimeout(p)
	n := 1 + p.Retry.Max
	if !ok || n < 2 || p.Deadline == 0 || d >= p.Deadline-p.Reserve {
		return "", ""
	}
	fit := fitting(d, p.Deadline-p.Reserve, &p.Backoff, n)
	if fit == n {
		return "", ""
	}
	return fmt.Sprintf("%d attempts of %s with their backoff take longer than %s: when attempts time out, %d of them fit", n, key, deadline(p), fit),
		"lower attempt-timeout, backoff or retry until their sum fits, or count on the deadline and ask for no more retries than fit"
}

// cutShare is the share of good attempts that a timeout may cut without a word:
// p99 of the service lies below the timeout.
const cutShare = 0.01

func timeoutCuts(l *linter, p *policy.Policy) (string, string) {
	d, key, known := l.attemptTimeout(p)
	share, ok := l.exceed(d)
	if !known || !ok || share <= cutShare {
		return "", ""
	}
	return fmt.Sprintf("%s lies below the service's p99 (%s): it cuts %s of the attempts that the service would have answered, and each one is sent again or lost",
			key, units.Duration(l.quantile(0.99)), percent(share)),
		fmt.Sprintf("choose the rate of false timeouts first: p99.9 of the service is %s; to be faster than its tail, hedge", units.Duration(l.quantile(0.999)))
}

func retryWithoutTimeout(_ *linter, p *policy.Policy) (string, string) {
	if at := p.Timeouts[policy.PartAttempt]; p.Retry.Max == 0 || at.After > 0 || at.Quantile > 0 || p.Deadline == 0 {
		return "", ""
	}
	return fmt.Sprintf("an attempt that hangs takes the whole of %s, so that retry=%d never helps against slowness", deadline(p), p.Retry.Max),
		"give attempt-timeout, above the service's p99.9 and small enough that the retries fit into the deadline"
}

func retryAll(_ *linter, p *policy.Policy) (string, string) {
	if p.Retry.Max == 0 {
		return "", ""
	}
	var bad []uint16
	for _, s := range p.Retry.On {
		switch s {
		case 408, 425, 429, 502, 503, 504:
		default:
			bad = append(bad, s)
		}
	}
	if len(bad) == 0 {
		return "", ""
	}
	slices.Sort(bad)
	return fmt.Sprintf("%s says that the request or the program is wrong: a retry meets the same answer, and multiplies the load of a bug", statuses(bad)),
		"leave retry.on out: 408, 429, 502, 503 and 504 are retried then"
}

func retryUnsafe(l *linter, p *policy.Policy) (string, string) {
	if !p.Retry.Unsafe || !p.CanResend() || l.w.Request.Idempotent() {
		return "", ""
	}
	return fmt.Sprintf("%s without Idempotency-Key is sent again after a timeout, which does not say that the first one was not carried out: it may happen twice", l.w.Request.Method),
		"send an Idempotency-Key that the server keeps with the effect, and leave retry.unsafe out"
}

func neverResent(l *linter, p *policy.Policy) (string, string) {
	if p.Retry.Unsafe || !p.CanResend() || l.w.Request.Idempotent() {
		return "", ""
	}
	return fmt.Sprintf("%s without Idempotency-Key is never sent twice (RFC 9110 9.2.2): every retry and every hedge is refused, and the policy is no policy", l.w.Request.Method),
		"send an Idempotency-Key header, or drop retry and hedge for this request"
}

func noBackoff(_ *linter, p *policy.Policy) (string, string) {
	if p.Retry.Max == 0 || waits(p) {
		return "", ""
	}
	return "retries go out at once, into the same overload that the attempt before them met",
		"give backoff, such as backoff=100ms..2s"
}

func fixedDelay(_ *linter, p *policy.Policy) (string, string) {
	b := &p.Backoff
	if p.Retry.Max < 2 || !waits(p) || b.Kind != policy.BackoffConstant && (b.Kind != policy.BackoffExponential || b.Factor != 1) {
		return "", ""
	}
	return "the wait does not grow: during an outage every client comes back at the same pace for ever",
		"let the wait grow, as backoff=100ms..2s does by itself"
}

func noJitter(_ *linter, p *policy.Policy) (string, string) {
	if p.Retry.Max == 0 || !waits(p) || p.Backoff.Jitter != policy.JitterNone || p.Backoff.Kind == policy.BackoffDecorrelated {
		return "", ""
	}
	return "clients that failed together come back together: the retries of one bad moment meet in the next",
		"leave jitter out, which is jitter=full"
}

func jitterBeforeCap(_ *linter, p *policy.Policy) (string, string) {
	bare := p.Backoff
	bare.Cap, bare.JitterFirst, bare.Jitter = 0, false, policy.JitterNone
	if b := &p.Backoff; p.Retry.Max == 0 || !b.JitterFirst || b.Cap == 0 || b.Jitter == policy.JitterNone || bare.Bound(p.Retry.Max) <= b.Cap {
		return "", ""
	}
	return fmt.Sprintf("the jitter is drawn before the cap: every wait that reaches %s is exactly that, and the clients that wait it come back together", units.FormatDuration(p.Backoff.Cap)),
		"leave jitter.when out: the jitter then comes after the cap"
}

func retryWithoutBudget(_ *linter, p *policy.Policy) (string, string) {
	if p.Retry.Max == 0 || p.BoundsRetries() {
		return "", ""
	}
	less := "backoff only delays them"
	if waits(p) && p.Backoff.Jitter != policy.JitterNone {
		less = "backoff and jitter spread them in time and do not make them fewer"
	}
	return fmt.Sprintf("when everything fails, the load is %d times what it was (%s), and may hold the service down after the reason has gone", 1+p.Retry.Max, less),
		"give budget, such as budget=10%: then it is 1.1 times"
}

// manyAttempts is the most that gRPC takes from a service config (gRFC A6).
const manyAttempts = 5

func manyRetries(_ *linter, p *policy.Policy) (string, string) {
	if n := most(p); p.Retry.Max == 0 || n <= manyAttempts {
		return "", ""
	} else {
		return fmt.Sprintf("%d attempts of one call: after the third, another one rarely helps and always costs; if the layer below does the same it is %d", n, n*n),
			"keep to 2 or 3 attempts, in one layer only"
	}
}

func retryAfterPastDeadline(l *linter, p *policy.Policy) (string, string) {
	s := l.w.Service
	if s == nil || s.RetryAfter == 0 || p.Retry.Max == 0 || p.Deadline == 0 || p.Retry.After == policy.AfterIgnore {
		return "", ""
	}
	after := s.RetryAfter
	if over := p.Retry.AfterCap; over > 0 && after > over && p.Retry.AfterOver != policy.AfterFail {
		after = over // the wait is clipped to it, or replaced by a backoff
	}
	if after < p.Deadline-p.Reserve-p.MinStart {
		return "", ""
	}
	return fmt.Sprintf("the service asks for Retry-After %s and %s leaves no time for it: such a retry is refused (time), and the call fails at once",
			units.FormatDuration(s.RetryAfter), deadline(p)),
		"that is right if the caller cannot wait; else raise deadline, or lower retry-after"
}

func retryAfterIgnored(_ *linter, p *policy.Policy) (string, string) {
	if p.Retry.Max == 0 || p.Retry.After != policy.AfterIgnore {
		return "", ""
	}
	return "the server's Retry-After is not listened to: retries come before the moment from which it can serve them",
		"leave retry.after out; retry.after.cap bounds what a server may ask for"
}

// highLoad is the load at which an unbudgeted hedge at p95 whose losers go on
// was seen to collapse by itself (shown by the lab hedge-collapse).
const highLoad = 0.7

const budgetOrCancel = "give budget, such as budget=5%, or let the service stop what nobody waits for (cancel: running)"

// freeCopies says whether nothing bounds the hedges of p and their losers take
// capacity to their end; a service without limit of slots has capacity for all.
func (l *linter) freeCopies(p *policy.Policy) bool {
	return p.Hedge.Max > 0 && !p.BoundsHedges() && !l.stops(p) && (l.w.Service == nil || l.queues())
}

func hedgeAtLoad(l *linter, p *policy.Policy) (string, string) {
	rho := l.rho()
	if !l.freeCopies(p) || rho < highLoad {
		return "", ""
	}
	return fmt.Sprintf("replicas are %s busy without hedges, and copies go on when their call has been answered: copies make calls slow, slow calls make copies, and the service may not come back from a bad moment", percent(rho)), budgetOrCancel
}

func hedgeWithoutBudget(l *linter, p *policy.Policy) (string, string) {
	rho := l.rho()
	switch {
	case !l.freeCopies(p) || rho >= highLoad:
		return "", ""
	case rho == 0:
		return "when the service is slow for every call, every call is copied, at the moment when it can least bear it", budgetOrCancel
	}
	return fmt.Sprintf("when the service is slow for every call, every call is copied: rho %s becomes %s", digits(rho), digits(rho*float64(1+p.Hedge.Max))), budgetOrCancel
}

// earlyShare is the share of calls above which a hedge is a second request.
const earlyShare = 0.5

func hedgeEarly(l *linter, p *policy.Policy) (string, string) {
	d, known := l.hedgeDelay(p)
	share, ok := l.exceed(d)
	if p.Hedge.Probability > 0 {
		share *= p.Hedge.Probability
	}
	if !known || !ok || share <= earlyShare {
		return "", ""
	}
	return fmt.Sprintf("the hedge after %s comes before the service's median of %s: it adds %s of load", units.Duration(d), units.Duration(l.quantile(0.5)), percent(share)),
		fmt.Sprintf("hedge later: after p95, %s, it adds 5 %%", units.Duration(l.quantile(0.95)))
}

func hedgeNever(l *linter, p *policy.Policy) (string, string) {
	share, ok := l.exceed(p.Hedge.Delay)
	if p.Hedge.Max == 0 || p.Hedge.Quantile > 0 || !ok || share > 0 || l.queues() {
		return "", ""
	}
	return fmt.Sprintf("no answer takes longer than %s, so that a hedge after %s is never sent", units.Duration(l.quantile(1)), units.FormatDuration(p.Hedge.Delay)),
		fmt.Sprintf("hedge earlier: p95 is %s", units.Duration(l.quantile(0.95)))
}

func hedgeTooLate(l *linter, p *policy.Policy) (string, string) {
	d, known := l.hedgeDelay(p)
	if !known || len(l.w.Within) == 0 || len(l.draws) == 0 {
		return "", ""
	}
	t, least := l.w.Within[0], l.draws[0]
	if late, _ := l.exceed(t); late == 0 || d <= t-least {
		return "", ""
	}
	return fmt.Sprintf("a hedge after %s and the fastest answer, %s, come later than the objective of %s: it can mend no call", units.Duration(d), units.Duration(least), units.FormatDuration(t)),
		"hedge earlier: the delay and a normal answer must fit into the objective"
}

// beyondQuantile is how many samples beyond it a tracked quantile rests on at
// least; with fewer it jumps with every slow call.
const beyondQuantile = 10

// tracked says what is wrong with a quantile q that rests on the calls of a
// window. below says in words what fewer samples than least lead to.
func (l *linter) tracked(q float64, window time.Duration, least int, below string) string {
	if q == 0 || l.w.Rate == 0 {
		return ""
	}
	n := l.w.Rate.PerSecond() * window.Seconds() / float64(max(l.w.Clients, 1))
	each := ""
	if l.w.Clients > 1 {
		each = " for each client"
	}
	switch beyond := n * (1 - q); {
	case n < float64(least):
		return fmt.Sprintf("%s gives %.0f calls in %s%s, and below %d %s", l.w.Rate, n, units.FormatDuration(window), each, least, below)
	case beyond < beyondQuantile:
		return fmt.Sprintf("p%s rests on the %.1f slowest of the %.0f calls in %s%s, so that it jumps with every slow call", units.Percentile(q), beyond, n, units.FormatDuration(window), each)
	}
	return ""
}

func fewSamples(l *linter, p *policy.Policy) (string, string) {
	if p.Hedge.Max == 0 {
		return "", ""
	}
	window, least := p.Hedge.Memory()
	return l.tracked(p.Hedge.Quantile, window, least, "nothing is hedged: this hedge is never sent"),
		"track a lower percentile, give a longer hedge.window or fewer clients, or take a fixed delay"
}

func fewSamplesForTimeout(l *linter, p *policy.Policy) (string, string) {
	at := p.Timeouts[policy.PartAttempt]
	window, least := at.Memory()
	return l.tracked(at.Quantile, window, least, "nothing is cut off: this timeout never acts"),
		"follow a lower percentile, give fewer clients, or take a fixed timeout"
}

// digits writes a load.
func digits(x float64) string { return fmt.Sprintf("%.2g", x) }
