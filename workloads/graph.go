package workloads

import (
	"errors"
	"fmt"
	"strings"

	"latencylab/policy"
	"latencylab/service"
)

// Bounds of a Graph.
const (
	MaxServices = 64   // services in a file
	MaxCalls    = 64   // calls of all services of a file
	MaxFan      = 4096 // copies of a call that are begun at once
)

// Graph is one or more services and how they call each other. A request enters
// at the first. The zero Graph holds none and is not valid.
type Graph struct {
	Services []Node
}

// Node is one service of a Graph and what it calls for each of its requests.
//
// A request meets the service itself first: its queue, its own work, its
// failures, as without calls. Then, holding no slot, the service calls on; a
// request that it has failed already calls nothing. When all that is required has
// ended ok it works for After and answers 200. Else it answers, as soon as that
// cannot be any more, with the status of the call that decided it: the last
// status that the call was answered with, 504 when a timeout or the deadline was
// the end of it, 502 when its connection broke, 503 when its policy did not
// send. Calls that are not needed any more are cancelled.
type Node struct {
	// Name is [a-z0-9._-]+ and unique. "" is that of a file of one service.
	Name string
	Spec service.Spec
	// Calls are begun together, but for those that wait for others (Call.After).
	Calls []Call
	// After is the service's own work after its calls. It holds no slot.
	After service.Dist
	// Cancels makes the service cancel its calls when its caller has left. Without,
	// they go on, retries and all.
	Cancels bool
	// Silent makes the service answer nothing in place of a call's failure, as a
	// handler does whose error nobody catches: its caller waits for its own timeout.
	Silent bool
}

// Call is what a service calls for each of its requests, and by which policy.
// Each replica of the service is one client of what it calls.
type Call struct {
	// Name is unique among the calls of a service.
	Name string
	// To is the service that is called, its index in Graph.Services; -1: URL.
	To int
	// URL is http://HOST[:PORT][/PATH], a server outside of the file.
	URL string
	// Policy says how. Its Reserve and MinStart count for the deadline that the
	// service's own caller has set, too, and its Wire tells the callee of either.
	Policy NamedPolicy
	// Fan is the number of copies that are begun at once, and Need how many of
	// them must end ok. 0 means one, and all of them.
	Fan, Need int
	// Optional says that the answer does without the call if it fails or is late:
	// its policy has a deadline.
	Optional bool
	// After are calls of the same service, by index below this one's, that have
	// ended, or are left out, before this one is begun.
	After []int
	// Connections is the ceiling on connections of each replica. 0 means none.
	Connections int
}

// Copies is Fan with its default.
func (c *Call) Copies() int { return max(c.Fan, 1) }

// Needed is Need with its default.
func (c *Call) Needed() int {
	if c.Need == 0 {
		return c.Copies()
	}
	return c.Need
}

// Single returns a Graph of one service that calls nothing.
func Single(s *service.Spec) *Graph { return &Graph{Services: []Node{{Spec: *s}}} }

// Entry returns the service that requests enter at.
func (g *Graph) Entry() *service.Spec { return &g.Services[0].Spec }

// Calls reports whether any service calls another, or a server outside.
func (g *Graph) Calls() bool {
	for i := range g.Services {
		if len(g.Services[i].Calls) > 0 {
			return true
		}
	}
	return false
}

// graphError is an error about one service of a Graph, or one of its calls.
type graphError struct {
	node, call int // call -1: the service itself; node -1: the whole
	err        error
}

func (e *graphError) Error() string { return e.err.Error() }
func (e *graphError) Unwrap() error { return e.err }

// Validate returns an error for a graph that makes no sense. It names the
// service, and the call.
func (g *Graph) Validate() error {
	if len(g.Services) == 0 || len(g.Services) > MaxServices {
		return &graphError{-1, -1, fmt.Errorf("%d services, want 1 to %d", len(g.Services), MaxServices)}
	}
	calls := 0
	for i := range g.Services {
		n := &g.Services[i]
		fail := func(call int, err error) error {
			if n.Name == "" {
				return &graphError{i, call, fmt.Errorf("service: %w", err)}
			}
			return &graphError{i, call, fmt.Errorf("service %s: %w", n.Name, err)}
		}
		if err := g.checkName(i); err != nil {
			return fail(-1, err)
		}
		if err := n.Spec.Validate(); err != nil {
			return fail(-1, err)
		}
		if calls += len(n.Calls); calls > MaxCalls {
			return fail(-1, fmt.Errorf("more than %d calls in all", MaxCalls))
		}
		for k := range n.Calls {
			if err := g.checkCall(i, k); err != nil {
				return fail(k, fmt.Errorf("call %s: %w", n.Calls[k].Name, err))
			}
		}
		switch {
		case len(n.Calls) > 0:
		case n.Cancels:
			return fail(-1, errors.New("cancels without calls"))
		case n.Silent:
			return fail(-1, errors.New("silent without calls"))
		case !n.After.IsZero():
			return fail(-1, errors.New("time-after without calls"))
		}
	}
	return g.checkCycles()
}

func (g *Graph) checkName(i int) error {
	name := g.Services[i].Name
	if name == "" && len(g.Services) == 1 && len(g.Services[i].Calls) == 0 {
		return nil
	}
	if err := checkName(name); err != nil {
		return err
	}
	for j := range i {
		if g.Services[j].Name == name {
			return errors.New("the name is given twice")
		}
	}
	return nil
}

// checkCall checks call k of service i.
func (g *Graph) checkCall(i, k int) error {
	n := &g.Services[i]
	c := &n.Calls[k]
	if err := checkName(c.Name); err != nil {
		return err
	}
	for j := range k {
		if n.Calls[j].Name == c.Name {
			return errors.New("another call has the same name, want a name for one of them")
		}
	}
	if err := c.Policy.Policy.Validate(); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	switch {
	case c.To >= len(g.Services) || c.To < 0 && c.URL == "":
		return errors.New("it calls nothing, want to: with a service of the file or a URL")
	case c.Fan < 0 || c.Fan > MaxFan:
		return fmt.Errorf("fan = %d, want 1 to %d", c.Fan, MaxFan)
	case c.Need < 0 || c.Need > c.Copies():
		return fmt.Errorf("need = %d, want 1 to fan=%d", c.Need, c.Copies())
	case c.Optional && c.Policy.Policy.Deadline == 0:
		return errors.New("optional needs a policy with a deadline: it must not keep the request for longer")
	case c.Connections < 0:
		return fmt.Errorf("connections = %d, want 1 or more", c.Connections)
	case c.Policy.Policy.Cancel == policy.CancelTied && (c.To < 0 || len(g.Services[c.To].Calls) > 0):
		return errors.New("cancel=tied, but what is called calls on: only servers with a queue drop copies that wait")
	}
	for _, a := range c.After {
		if a < 0 || a >= k {
			return errors.New("after names no call before this one")
		}
	}
	return nil
}

// checkCycles refuses services that call themselves, directly or through others.
func (g *Graph) checkCycles() error {
	state := make([]uint8, len(g.Services)) // 1: above in the path, 2: done
	var path []string
	var visit func(i int) error
	visit = func(i int) error {
		state[i] = 1
		n := &g.Services[i]
		path = append(path, n.Name)
		for k := range n.Calls {
			to := n.Calls[k].To
			switch {
			case to < 0 || state[to] == 2:
				continue
			case state[to] == 1:
				return &graphError{i, k, fmt.Errorf("service %s: call %s: the services call each other in a circle: %s -> %s",
					n.Name, n.Calls[k].Name, strings.Join(path, " -> "), g.Services[to].Name)}
			}
			if err := visit(to); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		state[i] = 2
		return nil
	}
	for i := range g.Services {
		if state[i] == 0 {
			if err := visit(i); err != nil {
				return err
			}
		}
	}
	return nil
}
