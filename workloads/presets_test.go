package workloads

import (
	"testing"
	"time"

	"latencylab/clock"
	"latencylab/policy"
)

// rig drives calls of one client of a preset.
type rig struct {
	t    *testing.T
	c    *policy.Client
	p    policy.Policy
	next uint64
}

func newRig(t *testing.T, spec string) *rig {
	t.Helper()
	np, err := ParsePolicy(spec)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, c: policy.NewClient(&np.Policy, 1, 1), p: np.Policy}
}

func at(d time.Duration) clock.Time { return clock.Time(d) }

// start begins a call at now.
func (r *rig) start(now clock.Time) (*policy.Call, policy.Action) {
	k := &policy.Call{}
	a := k.Start(r.c, policy.Request{ID: r.next, Intended: now, Idempotent: true}, now)
	r.next++
	return k, a
}

// answer ends the attempt in slot with a status at now.
func (r *rig) answer(k *policy.Call, slot uint8, status uint16, now clock.Time) policy.Action {
	return k.Reply(slot, policy.Result{Disposition: r.p.Classify(status), Phase: policy.PhaseBody, Status: status}, now)
}

// fails lets a call meet nothing but that status, each after 1 ms, and returns
// its waits and how many attempts it sent; the last action comes with them.
func (r *rig) fails(status uint16, now clock.Time) (waits []time.Duration, sent int, a policy.Action) {
	k, a := r.start(now)
	for a.Finish == policy.Going {
		if a.Attempt == 0 {
			r.t.Fatalf("nothing was sent: %+v", a)
		}
		sent++
		now = now.Add(time.Millisecond)
		if a = r.answer(k, a.Slot, status, now); a.Finish != policy.Going || a.Attempt != 0 {
			continue
		}
		waits = append(waits, a.Timer.Sub(now))
		now = a.Timer
		a = k.Advance(now)
	}
	return waits, sent, a
}

// succeeds lets n calls be answered at once.
func (r *rig) succeeds(n int, now clock.Time) {
	for range n {
		k, _ := r.start(now)
		r.answer(k, 0, 200, now)
	}
}

func between(t *testing.T, what string, d, low, high time.Duration) {
	t.Helper()
	if d < low || d > high {
		t.Errorf("%s is %v, want %v to %v", what, d, low, high)
	}
}

// TestGRPCRetry holds the preset against gRFC A6: delays of 100 and 200 ms
// within 20 %, four attempts, UNAVAILABLE alone, and a bucket of ten tokens that
// each failure takes one of and each success gives 0.1; at five nothing is
// retried. A pushback is exact, and a negative one ends the call.
func TestGRPCRetry(t *testing.T) {
	r := newRig(t, "grpc-retry")
	waits, sent, a := r.fails(503, 0)
	if sent != 4 || a.Refused != policy.RuleAttempts || len(waits) != 3 {
		t.Fatalf("%d attempts, %v, waits %v", sent, a.Refused, waits)
	}
	for i, w := range waits {
		d := 100 * ms << i
		between(t, "the wait", w, d*8/10, d*12/10)
	}
	if _, sent, a := r.fails(503, at(time.Second)); sent != 1 || a.Refused != policy.RuleBudget {
		t.Errorf("four failures have left six tokens, the fifth leaves five: %d attempts, %v", sent, a.Refused)
	}
	r.succeeds(11, at(2*time.Second)) // 6.1, and the next failure leaves 5.1
	if _, sent, _ := r.fails(503, at(3*time.Second)); sent != 2 {
		t.Errorf("after eleven successes %d attempts, want 2", sent)
	}
	if _, sent, a := newRig(t, "grpc-retry").fails(500, 0); sent != 1 || a.Refused != policy.RuleDisposition {
		t.Errorf("a 500: %d attempts, %v", sent, a.Refused)
	}
	r = newRig(t, "grpc-retry")
	k, _ := r.start(0)
	if a := k.Reply(0, policy.Result{Disposition: policy.DispRetryable, Status: 503, Hint: 7 * ms}, 0); a.Timer != at(7*ms) {
		t.Errorf("a pushback of 7 ms: %+v", a)
	}
	k, _ = r.start(0)
	if a := k.Reply(0, policy.Result{Disposition: policy.DispRetryable, Status: 503, Hint: -1}, 0); a.Refused != policy.RulePushback {
		t.Errorf("a negative pushback: %+v", a)
	}
}

// TestGRPCHedge: one attempt every 500 ms up to four, the next one at once after
// a non-fatal failure, and a fatal one ends all.
func TestGRPCHedge(t *testing.T) {
	r := newRig(t, "grpc-hedge")
	k, a := r.start(0)
	for n := uint32(2); n <= 4; n++ {
		if want := at(500 * ms * time.Duration(n-1)); a.Timer != want {
			t.Fatalf("hedge %d at %v, want %v", n, a.Timer, want)
		}
		if a = k.Advance(a.Timer); a.Attempt != n || a.Kind != policy.Hedged {
			t.Fatalf("%+v", a)
		}
	}
	if a.Timer != clock.Never {
		t.Errorf("a fifth attempt is planned: %+v", a)
	}
	if a = r.answer(k, 2, 400, at(1600*ms)); a.Finish != policy.Failed || a.Cancel != 0b1011 {
		t.Errorf("a fatal status: %+v", a)
	}
	k, _ = r.start(0)
	if a = r.answer(k, 0, 503, at(10*ms)); a.Attempt != 2 || a.Timer != at(510*ms) {
		t.Errorf("a non-fatal status: %+v", a)
	}
}

// TestEnvoy: one retry after at most 25 ms; of 25 calls in flight five may be
// retried, of two three; the route's timeout bounds it all.
func TestEnvoy(t *testing.T) {
	for _, c := range []struct{ calls, retries int }{{25, 5}, {2, 2}} {
		r := newRig(t, "envoy")
		var ks []*policy.Call
		for range c.calls {
			k, a := r.start(0)
			if a.Timer != at(15*time.Second) {
				t.Fatalf("the route's timeout: %+v", a)
			}
			ks = append(ks, k)
		}
		retried := 0
		for _, k := range ks {
			if a := r.answer(k, 0, 500, at(ms)); a.Finish == policy.Going {
				retried++
				between(t, "the wait", a.Timer.Sub(at(ms)), 0, 25*ms)
			} else if a.Refused != policy.RuleBudget {
				t.Errorf("%+v", a)
			}
		}
		// Retries that wait for their backoff are active retries and not active
		// requests, so that some of 25 find fewer than 25 in flight.
		if retried < c.retries-1 || retried > c.retries {
			t.Errorf("%d calls in flight: %d retried, want about %d", c.calls, retried, c.retries)
		}
	}
}

// TestFinagle: a backup after the p99 of 30 s, at least 1 ms, for 1 % of the
// calls; retries of 20 % and 10 a second, of which 100 may come at once.
func TestFinagle(t *testing.T) {
	r := newRig(t, "finagle")
	if _, a := r.start(0); a.Timer != clock.Never {
		t.Errorf("a backup without samples: %+v", a)
	}
	for i := range 1000 {
		k, _ := r.start(0)
		r.answer(k, 0, 200, at(time.Duration(i+1)*10*time.Microsecond))
	}
	_, a := r.start(at(10 * ms))
	between(t, "the delay", a.Timer.Sub(at(10*ms)), 9800*time.Microsecond, 10*ms)
	hedged := 0
	for range 200 {
		k, a := r.start(at(10 * ms))
		if a = k.Advance(a.Timer); a.Kind == policy.Hedged {
			hedged++
		}
	}
	if hedged < 10 || hedged > 13 {
		t.Errorf("%d of 1,200 calls were hedged, want 1 %%", hedged)
	}
	r = newRig(t, "finagle")
	retries := 0
	for range 200 {
		_, sent, _ := r.fails(503, 0)
		retries += sent - 1
	}
	if retries != 100+40 {
		t.Errorf("%d retries of 200 failed calls, want the reserve of 100 and 20 %%", retries)
	}
}

// TestAWSStandard: three attempts, waits of at most 1 and 2 s; 500 tokens pay
// for 100 retries at 5, or 50 at 10 after timeouts; a success after a retry
// brings back what it cost, one at once brings 1.
func TestAWSStandard(t *testing.T) {
	r := newRig(t, "aws-standard")
	retries := 0
	for range 60 {
		waits, sent, _ := r.fails(503, 0)
		retries += sent - 1
		for i, w := range waits {
			between(t, "the wait", w, 0, time.Second<<i)
		}
	}
	if retries != 100 {
		t.Errorf("%d retries of 500 tokens, want 100", retries)
	}
	r.succeeds(5, at(time.Second))
	k, _ := r.start(at(time.Second))
	a := r.answer(k, 0, 503, at(time.Second))
	k.Advance(a.Timer)
	if a = r.answer(k, 0, 200, a.Timer); a.Finish != policy.OK || r.c.Tokens() != 5 {
		t.Errorf("after a retry that succeeded %v tokens, want the 5 that it cost: %+v", r.c.Tokens(), a)
	}
	r = newRig(t, "aws-standard,attempt-timeout=1s")
	k, a = r.start(0)
	if k.Advance(a.Timer); r.c.Tokens() != 490 {
		t.Errorf("a timeout costs %v tokens, want 10", 500-r.c.Tokens())
	}
}

// TestSRE: retries of 10 % of the calls; and a client of which everything is
// refused sends less and less: K - 1 = 1 for each accepted in two minutes.
func TestSRE(t *testing.T) {
	r := newRig(t, "sre")
	retries, rejected := 0, 0
	for range 2000 {
		k, a := r.start(0)
		if a.Refused == policy.RuleThrottle {
			rejected++
			continue
		}
		if a = r.answer(k, 0, 503, 0); a.Finish == policy.Going {
			retries++
		}
	}
	if retries > 200 || rejected < 1900 {
		t.Errorf("%d retries and %d rejected of 2,000 calls that are all refused, want at most 200 and nearly all", retries, rejected)
	}
	r = newRig(t, "sre")
	r.succeeds(1000, 0)
	if _, a := r.start(0); a.Refused != policy.RuleNone {
		t.Errorf("a healthy service is throttled: %+v", a)
	}
}

// TestFailsafe: the hedge ends with any result, a fast 503 too, and the retry
// around it begins anew; at most three further attempts at once of few calls.
func TestFailsafe(t *testing.T) {
	r := newRig(t, "failsafe,hedge=10ms")
	k, a := r.start(0)
	k.Advance(a.Timer)
	if a = r.answer(k, 0, 503, at(12*ms)); a.Cancel != 0b10 || a.Kind != policy.Retried || a.Attempt != 3 {
		t.Errorf("a fast 503: %+v", a)
	}
	r = newRig(t, "failsafe,retry=0")
	k, _ = r.start(0)
	if a = r.answer(k, 0, 503, at(ms)); a.Finish != policy.Failed {
		t.Errorf("without retries: %+v", a)
	}
	r = newRig(t, "failsafe,hedge=0s")
	hedged := 0
	for range 6 {
		k, a := r.start(0)
		if a = k.Advance(a.Timer); a.Kind == policy.Hedged {
			hedged++
		} else if a.Refused != policy.RuleBudget {
			t.Errorf("%+v", a)
		}
	}
	if hedged != 3 {
		t.Errorf("%d hedges at once, want 3", hedged)
	}
}

// TestHedgedHTTP: a timer or an error sends the next, up to seven; any answer
// wins, a 500 too; a POST is hedged as well.
func TestHedgedHTTP(t *testing.T) {
	r := newRig(t, "hedgedhttp")
	k := &policy.Call{}
	a := k.Start(r.c, policy.Request{}, 0)
	if a = k.Advance(at(10 * ms)); a.Kind != policy.Hedged {
		t.Fatalf("%+v", a)
	}
	if a = k.Reply(0, policy.Result{Disposition: policy.DispRetryable, Phase: policy.PhaseBody}, at(11*ms)); a.Attempt != 3 {
		t.Errorf("an error: %+v", a)
	}
	if a = r.answer(k, 1, 503, at(12*ms)); a.Finish != policy.Failed || a.Cancel != 1 {
		t.Errorf("a 503: %+v", a)
	}
	k, a = r.start(0)
	n := 1
	for ; a.Timer != clock.Never; n++ {
		a = k.Advance(a.Timer)
	}
	if n != 7 {
		t.Errorf("%d attempts, want 7", n)
	}
}

// TestSeedHelper: 503, 503, 200 is a success after three attempts; a 422 is not
// retried, nor is a POST without key; of 1.5 s a second attempt gets what the
// first has left.
func TestSeedHelper(t *testing.T) {
	r := newRig(t, "seed-helper")
	k, _ := r.start(0)
	now := clock.Time(0)
	for i := range 2 {
		a := r.answer(k, 0, 503, now)
		between(t, "the wait", a.Timer.Sub(now), 0, 100*ms<<i)
		now = a.Timer
		k.Advance(now)
	}
	if a := r.answer(k, 0, 200, now); a.Finish != policy.OK {
		t.Errorf("%+v", a)
	}
	if _, sent, a := r.fails(422, 0); sent != 1 || a.Refused != policy.RuleDisposition {
		t.Errorf("a 422: %d attempts, %v", sent, a.Refused)
	}
	post := &policy.Call{}
	post.Start(r.c, policy.Request{}, 0)
	if a := r.answer(post, 0, 503, 0); a.Refused != policy.RuleIdempotency {
		t.Errorf("a POST: %+v", a)
	}
	r = newRig(t, "seed-helper,deadline=1500ms")
	k, a := r.start(0)
	for a.Finish == policy.Going {
		a = k.Advance(a.Timer)
	}
	if a.Finish != policy.Expired || a.TimedOut == 0 {
		t.Errorf("a slow GET: %+v", a)
	}
}

// TestPresets: each reads back from what it stands for, keys behind its name
// replace its own, and mistakes are told.
func TestPresets(t *testing.T) {
	for _, ps := range Presets() {
		np, err := ParsePolicy(ps.Name)
		if err != nil {
			t.Errorf("%s: %v", ps.Name, err)
			continue
		}
		again, err := ParsePolicy(np.Spec)
		if err != nil || np.Name != ps.Name || FormatPolicy(again.Policy) != np.Spec {
			t.Errorf("%s: %v; named %q; %q reads back as %q", ps.Name, err, np.Name, np.Spec, FormatPolicy(again.Policy))
		}
		if ps.About == "" {
			t.Errorf("%s says nothing about itself", ps.Name)
		}
	}
	np, err := ParsePolicy("mine:preset=grpc-retry,backoff=5ms,retry=1,deadline=1s")
	if err != nil || np.Name != "mine" || np.Policy.Backoff.Cap != 0 || np.Policy.Backoff.Base != 5*ms || np.Policy.Retry.Max != 1 || np.Policy.Deadline != time.Second || np.Policy.Budget.Capacity != 10 {
		t.Errorf("%+v, %v", np, err)
	}
	for _, c := range []struct{ spec, want string }{
		{"preset=grpc-rety", `policy "preset=grpc-rety": preset = "grpc-rety", nearest is "grpc-retry"`},
		{"retry=1,preset=envoy", `policy "retry=1,preset=envoy": preset comes first: what follows replaces its keys`},
		{"envoy,retry=2,retry=3", `policy "envoy,retry=2,retry=3": retry is given twice`},
		{"envoy,deadline=20ms,hedge=50ms", `policy "envoy,deadline=20ms,hedge=50ms": hedge=50ms is not below deadline=20ms`},
	} {
		if _, err := ParsePolicy(c.spec); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", c.spec, err, c.want)
		}
	}
}
