package trial

import (
	"fmt"
	"math"
	"strconv"

	"latencylab/policy"
	"latencylab/service"
	"latencylab/sim"
	"latencylab/units"
)

// overload says in words that the queues of the service grow without end under
// policy i; "" when nothing shows that they do.
//
// The load of a replica is rho = rate / replicas x attempts a call x mean
// service time / slots; above 1 it falls behind. At one attempt a call it
// follows from the workload alone. With the attempts that the policy sent it
// is exact only where every attempt is worked on to its end and all replicas
// are alike, and only then is it used.
func (p *Plan) overload(i int, res *sim.Result) string {
	w, pol := &p.Workload, p.policyOf(i)
	if w.Service.Any(func(sp *service.Spec) bool { return sp.Slots == 0 || sp.Queue >= 0 }) {
		return "" // nothing waits, or the queue is bounded
	}
	if w.Service.Cancel == service.CancelRunning && pol.CanResend() {
		return "" // a copy that is stopped may cost less than a request served
	}
	so := "response time grows as long as the run is"
	if pol.Deadline > 0 || pol.Timeouts != (policy.Timeouts{}) {
		so = "attempts end by a timeout"
	}
	one, replica, alike := p.load()
	if one > 1 {
		who := "service is unstable"
		rate := w.Rate.String()
		if !alike {
			who, rate = fmt.Sprintf("replica %d of the service is unstable", replica), "its share of "+rate
		}
		if math.IsInf(one, 1) {
			return fmt.Sprintf("%s: the mean of its service time is not finite, so %s", who, so)
		}
		return fmt.Sprintf("%s: %s needs %s of its capacity (rho %s at one attempt a call), so %s", who, rate, times(one), times(one), so)
	}
	sent, ok := res.Ledger.Amplification()
	if rho := one * sent; ok && alike && rho > 1 && w.Service.Cancel == service.CancelNone {
		return fmt.Sprintf("policy %s: service is unstable: at %s attempts a call %s is rho %s (%s at one attempt), so %s",
			w.Policies[i].Name, times(sent), w.Rate, times(rho), times(one), so)
	}
	return ""
}

// bestCase says whether a hedge meets no limit of capacity and a second attempt
// draws anew.
func bestCase(sp *service.Spec) bool {
	return !sp.Coupled() && !sp.Any(func(sp *service.Spec) bool {
		return sp.Copies != service.CopiesIndependent || sp.Slow.Share > 0 && sp.Slow.By != service.SlowByRequest || len(sp.Stalls) > 0 || len(sp.Outages) > 0
	})
}

// load is rho at one attempt a call of the replica that has most to do. Every
// replica gets the same share of first attempts, whatever the picker. alike
// says that all have the same load.
func (p *Plan) load() (rho float64, replica int, alike bool) {
	w := &p.Workload
	n := w.Service.Servers()
	alike = true
	for i := range n {
		x, ok := w.Service.Load(p.TargetSeed, i, w.Rate.PerSecond()/float64(n))
		if !ok {
			continue
		}
		alike = alike && (i == 0 || x == rho)
		if x > rho {
			rho, replica = x, i
		}
	}
	return rho, replica, alike
}

// times writes a load or a ratio to three digits, and to more where it would
// not differ from 1 otherwise.
func times(x float64) string {
	if x >= 1000 {
		return units.Count(uint64(min(x, 1e18)))
	}
	for digits := 3; digits < 10; digits++ {
		if s := strconv.FormatFloat(x, 'g', digits, 64); s != "1" || x == 1 {
			return s
		}
	}
	return "1"
}
