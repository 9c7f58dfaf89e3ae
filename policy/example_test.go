package policy_test

import (
	"fmt"
	"time"

	"latencylab/clock"
	"latencylab/policy"
)

// A driver in virtual time: two replicas, of which one takes a second, and a
// policy that sends a hedge after 50 ms. Its event loop has two sources, the
// answers that are on their way and the call's timer.
func Example() {
	p := policy.Policy{
		Deadline: 2 * time.Second,
		Hedge:    policy.Hedge{Max: 1, Delay: 50 * time.Millisecond},
		Budget:   policy.Budget{Deposit: 0.1},
		Picker:   policy.PickRoundRobin,
	}
	if err := p.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	takes := []time.Duration{time.Second, 40 * time.Millisecond} // by replica
	client := policy.NewClient(&p, len(takes), 1)

	var call policy.Call
	var answer [policy.MaxOpen]clock.Time // answer[slot], of open attempts
	now := clock.Time(0)
	act := call.Start(client, policy.Request{Intended: now, Idempotent: true}, now)
	for {
		for slot := range uint8(policy.MaxOpen) {
			if act.Cancel&(1<<slot) != 0 {
				fmt.Printf("%v: cancel slot %d\n", time.Duration(now), slot)
			}
		}
		if act.Attempt != 0 {
			fmt.Printf("%v: send attempt %d (%v) to replica %d\n", time.Duration(now), act.Attempt, act.Kind, act.Replica)
			answer[act.Slot] = now.Add(takes[act.Replica])
		}
		if act.Finish != policy.Going {
			fmt.Printf("%v: %v\n", time.Duration(now), act.Finish)
			return
		}
		next, from := act.Timer, -1
		for slot := range policy.MaxOpen {
			if call.Open()&(1<<slot) != 0 && answer[slot] <= next {
				next, from = answer[slot], slot
			}
		}
		now = next
		if from >= 0 {
			act = call.Reply(uint8(from), policy.Result{Disposition: p.Classify(200), Status: 200}, now)
		} else {
			act = call.Advance(now)
		}
	}
	// Output:
	// 0s: send attempt 1 (first) to replica 0
	// 50ms: send attempt 2 (hedge) to replica 1
	// 90ms: cancel slot 0
	// 90ms: ok
}

// A contradiction is named by both keys.
func ExamplePolicy_Validate() {
	p := policy.Policy{
		Deadline: time.Second,
		Hedge:    policy.Hedge{Max: 1, Delay: 2 * time.Second},
	}
	fmt.Println(p.Validate())
	// Output: hedge=2s is not below deadline=1s
}
