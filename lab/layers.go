package lab

import (
	"strings"

	"latencylab/clock"
	"latencylab/policy"
)

// layersLab nests policies: every attempt of a layer is a call of the next.
var layersLab = Lab{
	Name:     "layers",
	About:    "services that call services, each of which retries: attempts at a bottom that fails",
	run:      runLayers,
	noExport: "a workload has one client; the policies of each layer are printed with the table",
}

// layerCalls is the number of calls of each row: a budget is a matter of many.
const layerCalls = 10_000

// layerRows are the rows; specs are the policies from the user's side down.
var layerRows = []struct {
	name   string
	specs  []string
	want   float64 // attempts at the bottom for each call of the user
	about  string
	budget bool
}{
	{"3 tries x 3 layers", []string{"attempts=3", "attempts=3", "attempts=3"}, 27, "3^3", false},
	{"3 retries x 3 layers", []string{"retry=3", "retry=3", "retry=3"}, 64, "(1+3)^3 (Google SRE book, ch. 22)", false},
	{"2 x (1 + 5 retries)", []string{"retry=5", "retry=5"}, 36, "(1+5)^2; the published figure of 26 adds where layers multiply", false},
	{"3 tries x 5 layers", []string{"attempts=3", "attempts=3", "attempts=3", "attempts=3", "attempts=3"}, 243, "3^5 (Amazon Builders' Library)", false},
	{"3 tries at one layer of 3", []string{"attempts=3", "plain", "plain"}, 3, "3 x 1 x 1", false},
	{"3 retries x 3 layers, budget 10 %", []string{"retry=3,budget=10%", "retry=3,budget=10%", "retry=3,budget=10%"}, 1.331, "1.1^3, once the full buckets are spent", true},
}

func runLayers(o Options) (*Result, error) {
	r := &Result{Columns: []string{"attempts"}}
	for i := range layerRows {
		row := &layerRows[i]
		ps, err := policies(row.specs...)
		if err != nil {
			return nil, err
		}
		s := stack{}
		for k := range ps {
			s.policies = append(s.policies, &ps[k].Policy)
			s.clients = append(s.clients, policy.NewClient(&ps[k].Policy, 1, o.Seed))
		}
		s.ids = make([]uint64, len(ps))
		calls := layerCalls
		if !row.budget {
			calls = 100 // all alike
		}
		for range calls {
			s.call(0, 0)
		}
		r.add(row.name, num(round(float64(s.bottom)/float64(calls), 4)))
		r.refer(row.name, row.about, num(row.want))
		if row.budget {
			r.within(row.name, "attempts", 1.331, 1.42)
		} else {
			r.equals(row.name, "attempts", row.want)
		}
		r.note("%-33s %s", row.name+":", strings.Join(row.specs, " > "))
	}
	r.note("Policies multiply, whoever writes them: retry at one layer, and let a budget bound what it may add.")
	return r, nil
}

// stack is a chain of services, each with its policy for calls of the next.
type stack struct {
	policies []*policy.Policy
	clients  []*policy.Client
	ids      []uint64 // of the next call of each layer
	bottom   uint64   // requests that reached the end of the chain
}

// call carries out a call of the layer at the instant and returns how long it
// took. The bottom fails at once, always.
func (s *stack) call(layer int, at clock.Time) answer {
	if layer == len(s.policies) {
		s.bottom++
		return answer{status: 503}
	}
	id := s.ids[layer]
	s.ids[layer]++
	rec := drive(s.clients[layer], s.policies[layer], policy.Request{ID: id, Intended: at, Idempotent: true}, nil,
		func(_ uint32, sent clock.Time) answer { return s.call(layer+1, sent) })
	return answer{after: rec.end.Sub(at), status: rec.status}
}
