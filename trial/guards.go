package trial

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"latencylab/http1"
	"latencylab/units"
	"latencylab/workloads"
)

// Guards keep load from harming a service that is not the user's own machine.
type Guards struct {
	// Yes is the user's consent to more than Unasked attempts a second, or to a
	// closed loop without a rate, against an address that is not loopback.
	Yes bool
	// NoMarker is why requests go without the field Marker; "" sends it.
	NoMarker string
}

const (
	// Unasked is the rate of attempts up to which an address that is not loopback
	// may be driven without the user's consent.
	Unasked = 1000 * units.Rate(1e6)
	// Marker is the field by which the owner of a service finds the requests of a
	// run in logs, or filters them. Its value is the run's id: 16 hexadecimal
	// digits, the same on every request of the run.
	Marker = "Latencylab-Load"
)

// Refusal is an error about what the guards do not let pass: nothing was sent.
type Refusal struct{ text string }

func (r *Refusal) Error() string { return r.text }

func refusef(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// identify returns the fields that say whose requests these are: a User-Agent
// unless the user gave one, and the marker unless it is off.
func (s *Setup) identify(p *Plan, id string) []http1.Header {
	var list []http1.Header
	if !hasHeader(p.Workload.Request.Headers, "User-Agent") {
		list = append(list, http1.Header{Name: "User-Agent", Value: userAgent(p.Version)})
	}
	if s.Guards.NoMarker == "" {
		list = append(list, http1.Header{Name: Marker, Value: id})
	}
	return list
}

func hasHeader(list []workloads.Header, name string) bool {
	for _, h := range list {
		if strings.EqualFold(h.Name, name) {
			return true
		}
	}
	return false
}

// userAgent is the product and version (RFC 9110 10.1.5) of a program whose
// version is "VERSION COMMIT"; a build without version is named by its commit.
func userAgent(version string) string {
	v := "dev"
	for _, w := range strings.Fields(version) {
		if w != "unknown" && strings.Trim(w, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-_") == "" {
			v = w
			break
		}
	}
	return "latencylab/" + v + " (+load test; its id is in " + Marker + ")"
}

// Distant returns the first address of all, of every replica, that is not
// loopback, and whether there is one. Private addresses are distant: a
// colleague's machine has one too. The unspecified address connects to loopback.
func (s *Site) Distant() (netip.AddrPort, bool) {
	for i := range s.Endpoints {
		for _, a := range s.Endpoints[i].Addrs {
			if ip := a.Addr().Unmap(); !ip.IsLoopback() && !ip.IsUnspecified() {
				return a, true
			}
		}
	}
	return netip.AddrPort{}, false
}

// Guard holds the plan against the guards, when the requests go to addresses
// that are not loopback, and fills in the rules of stop-if. The site has been
// resolved. An error is a *Refusal.
func (s *Setup) Guard(p *Plan) error {
	if s.Site == nil {
		return nil
	}
	at, ok := s.Site.Distant()
	if !ok {
		return nil
	}
	p.watchOver(at)
	if s.Guards.Yes {
		return nil
	}
	if c := p.Workload.MaxAttemptRate; c != 0 && c <= Unasked {
		return nil
	}
	if p.Closed {
		return refusef("%s is not a loopback address, and a closed loop sends as fast as it answers, want --rate, or --yes if its owner agrees, or --max-attempt-rate of at most %s", at, Unasked)
	}
	for i := range p.Workload.Policies {
		np := &p.Workload.Policies[i]
		n := np.Policy.MostAttempts()
		most := attemptRate(p.Workload.Rate, n)
		if most <= Unasked {
			continue
		}
		times := ""
		if n > 1 {
			times = fmt.Sprintf(" (policy %s: up to %d attempts a call at %s)", np.Name, n, p.Workload.Rate)
		}
		return refusef("%s is not a loopback address, and up to %s attempts a second%s are above %s, want a lower --rate, or --yes if its owner agrees",
			at, units.Count(uint64(most.PerSecond())), times, Unasked)
	}
	return nil
}

// attemptRate is n times the rate, at most the highest Rate.
func attemptRate(r units.Rate, n int) units.Rate {
	if r > units.MaxRate/units.Rate(n) {
		return units.MaxRate
	}
	return r * units.Rate(n)
}

const (
	// openSeconds is how many seconds of the rate may be open at once before a
	// distant service counts as not keeping up, leastOpen the least such number.
	openSeconds = 5
	leastOpen   = 100
	// distantRamp is the ramp to a distant service.
	distantRamp = 5 * time.Second
	// mostErrors is the share of failed calls above which it counts as down.
	mostErrors = 0.5
)

// watchOver chooses a ramp and rules of stop-if where the user has not.
func (p *Plan) watchOver(at netip.AddrPort) {
	w := &p.Workload
	if !w.RampGiven {
		w.Ramp, w.RampGiven, p.Blocks = distantRamp, true, nil
		p.arrange()
		p.note("%s is not a loopback address: each policy begins with a ramp of %s (--ramp 0s: none)", at, units.FormatDuration(distantRamp))
	}
	if w.Stops != nil {
		return
	}
	w.Stops = []workloads.Stop{{Of: workloads.StopErrors, Share: mostErrors, For: workloads.DefaultStopFor}}
	words := w.Stops[0].String()
	if !p.Closed {
		open := workloads.Stop{Of: workloads.StopOpen, Calls: max(leastOpen, uint64(openSeconds*w.Rate.PerSecond()))}
		w.Stops = append(w.Stops, open)
		words += " or " + open.String()
	}
	p.note("%s is not a loopback address: the run stops if %s (--stop-if none: never)", at, words)
}
