package trial

import (
	"fmt"

	"latencylab/service"
	"latencylab/sim"
	"latencylab/workloads"
)

// hopsOf returns what the simulator makes of services that call each other, and
// the service that works: it knows a chain of services, each of which does
// nothing but call the next, and the last of which works. An error says what is
// beyond that.
func hopsOf(g *workloads.Graph) ([]sim.Hop, *service.Spec, error) {
	var hops []sim.Hop
	at := 0
	for len(g.Services[at].Calls) > 0 {
		n := &g.Services[at]
		fail := func(what string) error {
			return fmt.Errorf("service %s %s: the simulator follows chains of services that only call on, to one that works", n.Name, what)
		}
		c := &n.Calls[0]
		switch {
		case len(n.Calls) > 1:
			return nil, nil, fail(fmt.Sprintf("has %d calls", len(n.Calls)))
		case c.To < 0:
			return nil, nil, fail("calls a server outside of the file")
		case c.Optional:
			return nil, nil, fail("has an optional call")
		case c.Connections > 0:
			return nil, nil, fail("has a ceiling on connections")
		case !n.Spec.Passes():
			return nil, nil, fail("does work of its own, fails or has replicas")
		case !n.After.IsZero():
			return nil, nil, fail("works after its calls")
		}
		hops = append(hops, sim.Hop{Policy: c.Policy.Policy, Fan: c.Fan, Need: c.Need, Cancels: n.Cancels, Silent: n.Silent})
		at = c.To
	}
	return hops, &g.Services[at].Spec, nil
}

// unknownTo says why the simulator does not follow the services, or "".
func unknownTo(g *workloads.Graph) string {
	if _, _, err := hopsOf(g); err != nil {
		return err.Error()
	}
	return ""
}
