package trial

import (
	"errors"
	"fmt"

	"latencylab/workloads"
)

// unknownTo returns an error for services that call each other in a way that the
// simulator does not follow.
func unknownTo(g *workloads.Graph) error {
	for i := range g.Services {
		n := &g.Services[i]
		for k := range n.Calls {
			switch c := &n.Calls[k]; {
			case c.To < 0:
				return fmt.Errorf("service %s: call %s: the simulator does not know servers outside of the file", n.Name, c.Name)
			case c.Connections > 0:
				return fmt.Errorf("service %s: call %s: the simulator knows no ceiling on connections", n.Name, c.Name)
			}
		}
	}
	return nil
}

// checkGraph returns an error for a plan that several services cannot be
// simulated for.
func (p *Plan) checkGraph() error {
	if p.has(workloads.Pilot) || p.has(workloads.Sustained) {
		return errors.New("stages pilot and sustained look at one service, and there are several that call each other")
	}
	return unknownTo(p.Workload.Graph)
}
