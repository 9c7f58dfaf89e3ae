package sim

import (
	"errors"
	"fmt"
	"math"
	"time"

	"latencylab/draw"
	"latencylab/workloads"
)

// maxBooks is the number of lanes of users and calls of services together.
const maxBooks = 127

// checkGraph returns an error for services that cannot be simulated.
func (c *Config) checkGraph() error {
	if c.Service != nil || len(c.Hops) > 0 {
		return errors.New("both a graph of services and a service or hops, want one of them")
	}
	if err := c.Graph.Validate(); err != nil {
		return err
	}
	for i := range c.Graph.Services {
		n := &c.Graph.Services[i]
		for k := range n.Calls {
			switch call := &n.Calls[k]; {
			case call.To < 0:
				return fmt.Errorf("service %s: call %s: %s is a server outside of the file, which the simulator does not know", n.Name, call.Name, call.URL)
			case call.Connections > 0:
				return fmt.Errorf("service %s: call %s: connections = %d, but the simulator has no connections", n.Name, call.Name, call.Connections)
			}
		}
	}
	if n := max(len(c.Lanes), 1) + c.inner(); n > maxBooks {
		return fmt.Errorf("%d policies and calls, want at most %d", n, maxBooks)
	}
	return nil
}

// inner is the number of calls that hops or services make for a request.
func (c *Config) inner() int {
	if c.Graph == nil {
		return len(c.Hops)
	}
	n := 0
	for i := range c.Graph.Services {
		n += len(c.Graph.Services[i].Calls)
	}
	return n
}

// newGraph makes servers and lanes of the services. Seeds and numbers of calls
// are those that a target has.
func (w *world) newGraph(g *workloads.Graph) {
	cfg := w.cfg
	first := make([]uint16, len(g.Services))
	for i := range g.Services {
		n := &g.Services[i]
		first[i] = uint16(len(w.servers))
		seed := cfg.TargetSeed
		if i > 0 {
			seed = draw.Mix(seed, uint64(i), 0)
		}
		w.addServers(&n.Spec, seed)
		w.hops = append(w.hops, hop{cancels: n.Cancels, silent: n.Silent, after: n.After, seed: seed, first: first[i]})
	}
	to := func(l *lane, i int) {
		l.toHop, l.works, l.next, l.first = len(g.Services[i].Calls) > 0, true, i, first[i]
	}
	for i := range max(len(cfg.Lanes), 1) {
		w.addLane(cfg.lane(i), g.Entry().Servers(), max(cfg.Clients, 1), cfg.Seed)
		to(&w.lanes[i], 0)
	}
	w.hopBooks = len(w.book)
	number := uint64(0)
	for i := range g.Services {
		n := &g.Services[i]
		replicas := n.Spec.Servers()
		for k := range n.Calls {
			c := &n.Calls[k]
			w.addLane(&c.Policy.Policy, g.Services[c.To].Spec.Servers(), replicas, draw.Mix(cfg.Seed, number+1, 0))
			to(&w.lanes[len(w.lanes)-1], c.To)
			e := hopEdge{
				lane: uint8(len(w.lanes) - 1), fan: c.Copies(), need: c.Needed(), optional: c.Optional,
				place: w.hops[i].copies(), step: uint64(replicas),
			}
			for _, a := range c.After {
				e.after |= 1 << a
			}
			for r := range replicas {
				e.ids = append(e.ids, number<<48|uint64(r))
			}
			w.hops[i].edges = append(w.hops[i].edges, e)
			number++
		}
	}
	w.came = make([]uint64, len(w.servers))
	w.joins = make([]join, 1)
}

// ServedBy is what the servers of one service have recorded.
type ServedBy struct {
	Arrived          uint64
	Expired, Stopped uint64        // as in Served
	Work             time.Duration // the same
}

// servedBy returns the records of the services of a graph.
func (w *world) servedBy() []ServedBy {
	if w.cfg.Graph == nil {
		return nil
	}
	out := make([]ServedBy, len(w.hops))
	for i := range w.hops {
		v := &out[i]
		last := len(w.servers)
		if i+1 < len(w.hops) {
			last = int(w.hops[i+1].first)
		}
		for s := int(w.hops[i].first); s < last; s++ {
			c := w.servers[s].Counts()
			v.Arrived += w.came[s]
			v.Expired += c.Expired
			v.Stopped += c.Stopped
			if v.Work += c.Worked; v.Work < 0 {
				v.Work = math.MaxInt64
			}
		}
	}
	return out
}
