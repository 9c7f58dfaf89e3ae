package trial

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"latencylab/ledger"
	"latencylab/results"
	"latencylab/workloads"
)

// TestFaultsAreSeenAsPredicted meets every kind of fault on sockets and in virtual
// time: the keys decide who meets it, so that the counts of each class and phase
// are equal, and they are those that the row says. Where instants decide,
// machines that stall may move a few.
func TestFaultsAreSeenAsPredicted(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, "1")
	for _, c := range []struct {
		spec, faults, errors string // errors: class in phase; "" for none
		may                  uint64 // how far a count may be off
	}{
		{"plain", "{close: 20%}", endedEarly, 0},
		{"plain", "{reset: 20%}", endedEarly, 0},
		{"plain", "{head-truncated: 20%}", "truncated_header in body", 0},
		{"plain", "{bad-status-line: 20%}", "bad_status_line in body", 0},
		{"plain", "{bad-header: 20%}", "bad_header in body", 0},
		{"plain", "{duplicate-length: 20%}", "bad_framing in body", 0},
		{"plain", "{length-long: 20%}", "truncated_body in body", 0},
		{"plain", "{chunk-cut: 20%}", "truncated_body in body", 0},
		{"plain", "{body-reset: 20%}", "reset in body", 0},
		{"plain", "{close-after: 20%}", "", 0},
		{"plain", "{head-drip: {share: 20%, interval: 1ms}}", "", 0},
		{"plain", "{body-drip: {share: 20%, interval: 1ms}}", "", 0},
		{"plain", "{interim: {share: 20%, interval: 1ms, times: 3}}", "", 0},
		{"retry=2,backoff=1ms,jitter=none", "{head-truncated: 20%, body-reset: 20%, close: 20%}", "truncated_header in body, reset in body, " + endedEarly, 0},
		{"attempt-timeout=150ms", "{hang: 20%}", "attempt_timeout in first_byte", 3},
		{"attempt-timeout=150ms", "{body-stall: 20%}", "attempt_timeout in body", 3},
		{"headers-timeout=150ms", "{hang: 20%}", "headers_timeout in first_byte", 3},
		{"read-timeout=150ms", "{body-stall: 20%}", "read_timeout in body", 3},
		{"idle-timeout=150ms", "{body-stall: 20%}", "idle_timeout in body", 3},
		// A drip of 16 pieces lasts 480 ms: each byte begins the read timeout anew.
		{"read-timeout=250ms", "{body-drip: {share: 20%, interval: 30ms}}", "", 3},
		{"read-timeout=250ms,attempt-timeout=300ms", "{body-drip: {share: 20%, interval: 30ms}}", "attempt_timeout in body", 3},
		{"read-timeout=100ms", "{body-drip: {share: 20%, interval: 400ms, bytes: 600B}}", "read_timeout in body", 3},
		{"headers-timeout=250ms,deadline=300ms", "{head-drip: {share: 20%, interval: 100ms}}", "deadline in body", 3},
	} {
		t.Run(c.spec+" "+c.faults, func(t *testing.T) {
			w := workload(t, c.spec)
			w.Service = parseService(t, "body: 1KiB\ntime: 1ms\nfault: "+c.faults+"\n")
			w.Rate, w.Arrivals, w.Requests, w.WarmupGiven = 500*1e6, workloads.Constant, 150, true
			p := plan(t, w, false)
			s := &Setup{CallHeaders: "on", Child: []string{exe}}
			if err := s.Check(p); err != nil {
				t.Fatal(err)
			}
			res, err := p.simulate(0, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			virtual := seenLedger(res.Ledger)
			want := map[string]bool{}
			for _, kind := range strings.FieldsFunc(c.errors, func(r rune) bool { return r == ',' }) {
				want[strings.TrimSpace(kind)] = true
			}
			alike(t, func() (differ []string) {
				r, err := Real(t.Context(), p, s)
				if err != nil {
					t.Fatal(err)
				}
				for _, rec := range r.Target.Reconciliation {
					if !rec.Holds {
						t.Errorf("client and target disagree: %+v", rec)
					}
				}
				real := seenErrors(r.Policies[0].Errors)
				kinds := slices.Collect(maps.Keys(virtual))
				kinds = slices.AppendSeq(kinds, maps.Keys(real))
				for _, kind := range kinds {
					if a, b := real[kind], virtual[kind]; max(a, b)-min(a, b) > c.may {
						differ = append(differ, fmt.Sprintf("%s: %d on sockets, %d in virtual time", kind, a, b))
					}
				}
				for kind := range want {
					if virtual[kind] == 0 || real[kind] == 0 {
						differ = append(differ, fmt.Sprintf("%s: %d on sockets, %d in virtual time, want some", kind, real[kind], virtual[kind]))
					}
				}
				for kind, n := range real {
					if !want[kind] && n > c.may {
						differ = append(differ, fmt.Sprintf("%d of %s", n, kind))
					}
				}
				return differ
			})
		})
	}
}

// endedEarly is a connection that ended before any byte of an answer. On one that
// was used before, the client cannot tell a server that ends it now from one that
// had ended it: stale_connection.
const endedEarly = "ended in first_byte"

func seen(c ledger.Class, phase string) string {
	if phase == "first_byte" && (c == ledger.ClassReset || c == ledger.ClassClosedBeforeResponse || c == ledger.ClassStaleConnection) {
		return endedEarly
	}
	return fmt.Sprintf("%s in %s", c, phase)
}

func seenErrors(es []results.Error) map[string]uint64 {
	out := map[string]uint64{}
	for _, e := range es {
		c, _ := ledger.ClassNamed(e.Class)
		out[seen(c, e.Phase)] += e.Count
	}
	return out
}

func seenLedger(l *ledger.Ledger) map[string]uint64 {
	out := map[string]uint64{}
	for _, e := range l.Errors {
		out[seen(e.Class, e.Phase.String())] += e.Count
	}
	return out
}
