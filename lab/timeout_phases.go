package lab

import (
	"bytes"

	"latencylab/results"
	"latencylab/workloads"
)

// timeoutPhasesLab is one call for each way in which a server can keep silent.
var timeoutPhasesLab = Lab{
	Name:     "timeout-phases",
	About:    "one fault in each phase of a call: which timeout catches it, and which one a drip gets past",
	run:      runTimeoutPhases,
	real:     timeoutPhasesSockets,
	noExport: "each row is one call",
}

// phaseTimeouts bound each phase alone.
const phaseTimeouts = "connect-timeout=500ms,tls-timeout=500ms,write-timeout=500ms,headers-timeout=500ms,read-timeout=500ms,deadline=10s"

// phaseRows are what the service does, what more the policy says, and what is
// claimed: the class and the phase that the call ends with, "" for an answer
// that came, and the ms until then, 0 where they are not known beforehand.
var phaseRows = []struct {
	name, service, more string
	upload              int // bytes of the request's body
	caught, phase       string
	ms                  float64
	unpredicted         string // why the simulator cannot say it
}{
	{"nobody accepts", "outage: {for: 1h, kind: no-accept}", "", 0, "headers_timeout", "first_byte", 500, ""},
	{"accepted, then silence", "fault: {accept-silence: 100%}", "", 0, "headers_timeout", "first_byte", 500, ""},
	{"TLS stalls", "tls: true\nfault: {tls-stall: 100%}", "", 0, "tls_timeout", "tls", 500, "virtual time has no handshakes"},
	{"8 MiB are read slowly", "fault: {slow-read: {share: 100%, interval: 1s}}", "", 8 << 20, "write_timeout", "write", 500, "requests have no size in virtual time"},
	{"no head comes", "fault: {hang: 100%}", "", 0, "headers_timeout", "first_byte", 500, ""},
	{"the head drips", "fault: {head-drip: {share: 100%, interval: 50ms, bytes: 8B}}", "", 0, "", "", 0, ""},
	{"the body stalls", "fault: {body-stall: 100%}", "", 0, "read_timeout", "body", 501, ""},
	{"the body drips", "fault: {body-drip: {share: 100%, interval: 50ms}}", "", 0, "", "", 801, ""},
	{"the body drips, attempt-timeout=700ms", "fault: {body-drip: {share: 100%, interval: 50ms}}", ",attempt-timeout=700ms", 0, "attempt_timeout", "body", 700, ""},
	{"the body drips slower than the timeout", "fault: {body-drip: {share: 100%, interval: 1200ms}}", "", 0, "read_timeout", "body", 501, ""},
}

// phaseWorkload is the call of a row.
func phaseWorkload(o *Options, row int) (*workloads.Workload, error) {
	x := &phaseRows[row]
	g, err := workloads.ParseGraphText("service of "+x.name, []byte("time: 1ms\nbody: 1KiB\n"+x.service+"\n"))
	if err != nil {
		return nil, err
	}
	w, err := oneCall(x.name, "phases:"+phaseTimeouts+x.more, g, o.Seed)
	if err == nil && x.upload > 0 {
		w.Request.Method, w.Request.Body = "POST", bytes.Repeat([]byte{'x'}, x.upload)
	}
	return w, err
}

// phaseTable carries every row out.
func phaseTable(o *Options, carry func(*Options, *workloads.Workload) (*results.Run, error)) ([][]Value, error) {
	found := make([][]Value, len(phaseRows))
	err := beside(len(phaseRows), len(phaseRows), func(i int) error {
		w, err := phaseWorkload(o, i)
		if err != nil {
			return err
		}
		r, err := carry(o, w)
		if err == nil {
			found[i] = caughtBy(&r.Policies[0])
		}
		return err
	})
	return found, err
}

// phasesPredicted is the table of the simulator, with what it cannot say absent.
func phasesPredicted(o *Options) ([][]Value, error) {
	found, err := phaseTable(o, simulate)
	for i := range found {
		if why := phaseRows[i].unpredicted; why != "" {
			found[i] = []Value{absent(why), absent(why), absent(why)}
		}
	}
	return found, err
}

// caughtBy says what ended the only call, in which phase, and after how long.
func caughtBy(p *results.Policy) []Value {
	caught, phase := word("nothing"), absent("the answer came")
	for _, e := range p.Errors {
		caught, phase = word(e.Class), word(e.Phase)
	}
	return []Value{caught, phase, userMS(p)}
}

func runTimeoutPhases(o Options) (*Result, error) {
	found, err := phasesPredicted(&o)
	if err != nil {
		return nil, err
	}
	return phasesResult(found, 0), nil
}

func timeoutPhasesSockets(o Options) (*Result, error) {
	found, err := phaseTable(&o, func(o *Options, w *workloads.Workload) (*results.Run, error) {
		r, _, err := onSockets(o, w)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	foreseen, err := phasesPredicted(&o)
	if err != nil {
		return nil, err
	}
	r := phasesResult(found, 250)
	for i := range phaseRows {
		r.refer(phaseRows[i].name, predicted, foreseen[i]...)
	}
	return r, nil
}

// phasesResult holds the table against what the timeouts are said to do. A time
// may be so many ms later.
func phasesResult(found [][]Value, later float64) *Result {
	r := &Result{Columns: []string{"caught_by", "phase", "user_ms"}}
	for i := range phaseRows {
		x := &phaseRows[i]
		r.add(x.name, found[i]...)
		caught, phase, ms := word("nothing"), absent("the answer came"), absent("as long as the head has pieces")
		if x.caught != "" {
			caught, phase = word(x.caught), word(x.phase)
		}
		if x.ms > 0 {
			ms = num(x.ms)
		}
		r.refer(x.name, "what the timeouts bound", caught, phase, ms)
		if r.value(x.name, "caught_by").Word == "" {
			continue // not predicted
		}
		r.says(x.name, "caught_by", caught.Word)
		if x.caught != "" {
			r.says(x.name, "phase", x.phase)
		}
		if x.ms > 0 {
			r.within(x.name, "user_ms", x.ms-1, x.ms+later)
		}
	}
	r.note("%s", phaseTimeouts)
	r.note("Bodies have 1 KiB. A connection is made by the kernel although nobody accepts it, so no connect timeout sees that. Each\n" +
		"byte begins the read timeout anew: a body of 16 pieces, one each 50 ms, gets past 500 ms. Only a bound on the whole\n" +
		"attempt, or the deadline, ends a drip.")
	return r
}
