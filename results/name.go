package results

import (
	"fmt"
	"strings"
	"time"

	"latencylab/units"
)

// Sources of a Name's addresses.
const (
	ByLookup  = "lookup"  // asked of the name server
	ByAddress = "address" // the name is an address
	ByResolve = "resolve" // given by --resolve
)

// Name is the resolution of one endpoint, once and before the run, and what
// became of its addresses.
type Name struct {
	// Endpoint is host:port as Requested has it, Dialled what was resolved in its
	// place: the same unless --connect-to says otherwise.
	Endpoint string `json:"endpoint"`
	Dialled  string `json:"dialled"`
	Source   string `json:"source"`
	// TookNS is how long the look-up took; 0 where nothing was asked.
	TookNS int64 `json:"took_ns"`
	// Addresses are in the order in which connections try them.
	Addresses []Address `json:"addresses"`
}

// Address is one address of a Name.
type Address struct {
	Address string `json:"address"` // an IPv6 address in brackets, with port
	// Connections counts those that connected to it first, of all policies and
	// stages, burn-in included.
	Connections uint64 `json:"connections"`
}

// plain says whether n is an address that stands for itself.
func (n *Name) plain() bool { return n.Source == ByAddress && n.Endpoint == n.Dialled }

// nameLines say what names stood for and which addresses were used.
func (r *Run) nameLines() []string {
	var lines []string
	for i := range r.Names {
		n := &r.Names[i]
		if n.plain() {
			continue
		}
		s := "name: " + n.Endpoint
		if n.Dialled != n.Endpoint {
			s += " at " + n.Dialled
		}
		s += ", 1 address"
		if k := len(n.Addresses); k != 1 {
			s = s[:len(s)-len("1 address")] + units.Count(uint64(k)) + " addresses"
		}
		switch n.Source {
		case ByLookup:
			s += fmt.Sprintf(" looked up in %s", units.Duration(time.Duration(n.TookNS)))
		case ByResolve:
			s += " given by --resolve"
		}
		lines = append(lines, s+"; connections: "+strings.Join(n.used(), ", "))
	}
	return lines
}

// used lists addresses with their connections: those that have some, or all of a
// few.
func (n *Name) used() []string {
	const few = 4
	var used []string
	idle := 0
	for _, a := range n.Addresses {
		if a.Connections == 0 && len(n.Addresses) > few {
			idle++
			continue
		}
		used = append(used, fmt.Sprintf("%s to %s", units.Count(a.Connections), a.Address))
	}
	if idle > 0 {
		used = append(used, fmt.Sprintf("none to %d more", idle))
	}
	return used
}
