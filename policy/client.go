package policy

import (
	"math"
	"time"

	"latencylab/clock"
)

// Client is what the calls of one client share: its policy, the token budget,
// the tracked latency and the picker. It is made by NewClient and not safe for
// concurrent use; its calls belong to the same loop.
type Client struct {
	deadline time.Duration // 0: none
	minStart time.Duration
	reserve  time.Duration
	sends    uint32 // cap on the sends of one call
	retries  uint32 // cap on its retries
	hedges   uint8  // cap on its hedges, below MaxOpen
	unsafe   bool   // send twice what is not idempotent, too
	seed     uint64
	open     int // attempts open
	funds    funds
	atFire   bool // the budget is charged when a retry is sent
	backoff  backoff
	picker   picker
	peers    peers
	breakers []breaker // by replica; nil: none
	throttle throttle
	limit    limit
	timeouts timeouts
	retry    Retry
	hedge    Hedge
	tracker  *tracker // nil: the hedge delay is fixed, or nothing is hedged
}

// NewClient returns a client with a full budget and no samples. It copies what
// it needs of p, which should have passed Validate; values out of range are
// brought into it. replicas is the number of replicas to pick from, 1 … 65536.
// seed keys the draws of jitter and picker; clients of one run that number
// their calls differently may share it. A client allocates here, and nothing
// after.
func NewClient(p *Policy, replicas int, seed uint64) *Client {
	c := &Client{
		deadline: max(p.Deadline, 0),
		minStart: max(p.MinStart, 0),
		reserve:  max(p.Reserve, 0),
		sends:    math.MaxUint32,
		retries:  uint32(min(max(p.Retry.Max, 0), math.MaxInt32)),
		hedges:   uint8(min(max(p.Hedge.Max, 0), MaxOpen-1)),
		unsafe:   p.Retry.Unsafe,
		seed:     seed,
		funds:    newFunds(p),
		atFire:   p.Budget.AtFire,
		backoff:  newBackoff(p.Backoff),
		picker:   picker{kind: p.Picker, replicas: uint32(min(max(replicas, 1), maxReplicas)), seed: seed},
		timeouts: newTimeouts(&p.Timeouts),
		throttle: newThrottle(p.Throttle),
		limit:    newLimit(p.Limit),
		retry:    p.Retry,
		hedge:    p.Hedge,
	}
	c.hedge.Delay = max(c.hedge.Delay, 0)
	if p.watches() {
		c.peers = newPeers(p, int(c.picker.replicas))
		c.breakers = newBreakers(p.Breaker, int(c.picker.replicas))
	}
	if p.Attempts > 0 {
		c.sends = uint32(min(p.Attempts, math.MaxInt32))
	}
	if p.tracks() {
		c.tracker = newTracker(p.Hedge.Quantile, p.Hedge.window(), p.Hedge.minSamples())
	}
	return c
}

// HedgeDelay returns the wait before a hedge as it stands now. ok is false
// while nothing is hedged: the policy has no hedges, or its tracked delay has
// too few samples. A tracked delay is as of the last event of any call.
func (c *Client) HedgeDelay() (d time.Duration, ok bool) {
	switch {
	case c.hedges == 0:
		return 0, false
	case c.tracker != nil:
		return c.hedge.clamp(c.tracker.value), c.tracker.ready
	}
	return c.hedge.Delay, true
}

// Tokens returns the tokens that the budget holds, to a millionth: of a window
// as of the last event, of a concurrency budget the attempts that it would
// grant. It is 0 for a policy whose budget does not limit.
func (c *Client) Tokens() float64 { return float64(c.funds.held()) / token }

// clamp bounds a tracked delay by Floor and Ceiling.
func (h *Hedge) clamp(d time.Duration) time.Duration {
	if h.Ceiling > 0 {
		d = min(d, h.Ceiling)
	}
	return max(d, h.Floor)
}

// InFlight returns the number of attempts that are open.
func (c *Client) InFlight() int { return c.open }

// Phased reports whether the policy needs to be told by Progress how far each
// attempt has come. Without, a driver may leave that out.
func (c *Client) Phased() bool { return c.timeouts.phases }

// inTime reports whether an attempt may be started at the given instant, for a
// call with that deadline. An instant that saturated never comes, so the answer
// is no even without a deadline.
func (c *Client) inTime(at, deadline clock.Time) bool {
	return at.Add(c.minStart) < deadline
}
