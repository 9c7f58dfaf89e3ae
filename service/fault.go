package service

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"latencylab/units"
)

// Fault is how an exchange ends other than by a plain answer.
type Fault uint8

const (
	// FaultNone: an answer with a status.
	FaultNone Fault = iota
	// FaultRefuse: the connection is refused, or closed without an answer, as soon
	// as the request has come.
	FaultRefuse
	// FaultReset: the connection is reset in place of the answer.
	FaultReset
	// FaultHang: there is no answer and no end. Such a job is never due.
	FaultHang
	// FaultGone: the caller has left and Cancel has dropped the request, whose
	// job only held its slot on. There is nobody to answer.
	FaultGone
	// FaultClose: the connection is closed in place of the answer.
	FaultClose
	// FaultHeadTruncated: the head of the answer ends half-way, and with it the
	// connection.
	FaultHeadTruncated
	// FaultBodyStall: the body stops half-way, and the connection stays.
	FaultBodyStall
	// FaultBodyDrip: the body comes piece by piece.
	FaultBodyDrip
	// FaultBodyReset: the connection is reset half-way through the body.
	FaultBodyReset
	// FaultHeadDrip: the head comes piece by piece.
	FaultHeadDrip
	// FaultInterim: answers of status 1xx come before the answer.
	FaultInterim
	// FaultBadStatusLine: the first line of the answer is none of HTTP.
	FaultBadStatusLine
	// FaultBadHeader: a line of the head is no field.
	FaultBadHeader
	// FaultDuplicateLength: there are two Content-Length, which differ.
	FaultDuplicateLength
	// FaultLengthShort: the body goes on beyond its Content-Length.
	FaultLengthShort
	// FaultLengthLong: the connection ends before the Content-Length is reached.
	FaultLengthLong
	// FaultChunkCut: the connection ends within a chunk of the body.
	FaultChunkCut
	// FaultCloseAfter: the connection ends after the answer, which did not say so.
	FaultCloseAfter
	// FaultCloseOnReuse: the connection ends when the request comes, if it has
	// carried one before; the first request on a connection is answered.
	FaultCloseOnReuse
	// FaultNoAccept: connections are not accepted. It holds in outages only.
	FaultNoAccept
	// FaultAcceptSilence: a connection is accepted, and nothing is read of it.
	FaultAcceptSilence
	// FaultAcceptReset: a connection is accepted and reset at once.
	FaultAcceptReset
	// FaultTLSStall: the target says nothing in the TLS handshake.
	FaultTLSStall
	// FaultTLSWrongName: its certificate is for another name.
	FaultTLSWrongName
	// FaultTLSExpired: its certificate is no longer good.
	FaultTLSExpired
	// FaultTLSUntrusted: an authority that nobody knows has signed its certificate.
	FaultTLSUntrusted
	// FaultSlowRead: what comes by a connection is read a little at a time, and the
	// receive window is small.
	FaultSlowRead
	// Kinds is the number of values, FaultNone and FaultGone included.
	Kinds
)

// FaultPhase is the part of an exchange that a fault strikes.
type FaultPhase uint8

const (
	NoPhase         FaultPhase = iota
	PhaseConnection            // before a request is read
	PhaseTLS                   // the handshake
	PhaseRequest               // while the request is read
	PhaseHead                  // from the request to the end of the answer's head
	PhaseBody                  // the body of the answer
	PhaseEnd                   // the end of the connection
)

var phaseNames = [...]string{"none", "connection", "tls", "request", "head", "body", "end"}

// String returns "connection", "tls", "request", "head", "body" or "end".
func (p FaultPhase) String() string { return name(phaseNames[:], int(p)) }

// kindOf is what is fixed of a kind of fault.
type kindOf struct {
	name  string
	phase FaultPhase
	// spoils: an answer is begun, with status 200, and goes wrong or goes slowly.
	// whole: the caller gets an answer that is whole and valid, if it waits.
	// body: it needs an answer with a body.
	spoils, whole, body bool
	// shape has the defaults. A field that is zero here is no parameter of the kind.
	shape Shape
}

const (
	dripEvery = 100 * time.Millisecond
	half      = 0.5
)

var kindsOf = [Kinds]kindOf{
	FaultNone:            {name: "none"},
	FaultRefuse:          {name: "refuse", phase: PhaseEnd},
	FaultReset:           {name: "reset", phase: PhaseEnd},
	FaultHang:            {name: "hang", phase: PhaseHead},
	FaultGone:            {name: "gone"},
	FaultClose:           {name: "close", phase: PhaseEnd},
	FaultHeadTruncated:   {name: "head-truncated", phase: PhaseHead, spoils: true, shape: Shape{At: half}},
	FaultBodyStall:       {name: "body-stall", phase: PhaseBody, spoils: true, body: true, shape: Shape{At: half}},
	FaultBodyDrip:        {name: "body-drip", phase: PhaseBody, spoils: true, whole: true, body: true, shape: Shape{Interval: dripEvery, Bytes: 64}},
	FaultBodyReset:       {name: "body-reset", phase: PhaseBody, spoils: true, body: true, shape: Shape{At: half}},
	FaultHeadDrip:        {name: "head-drip", phase: PhaseHead, spoils: true, whole: true, shape: Shape{Interval: dripEvery, Bytes: 16}},
	FaultInterim:         {name: "interim", phase: PhaseHead, spoils: true, whole: true, shape: Shape{Interval: dripEvery, Status: 103, Times: 1}},
	FaultBadStatusLine:   {name: "bad-status-line", phase: PhaseHead, spoils: true},
	FaultBadHeader:       {name: "bad-header", phase: PhaseHead, spoils: true},
	FaultDuplicateLength: {name: "duplicate-length", phase: PhaseHead, spoils: true},
	FaultLengthShort:     {name: "length-short", phase: PhaseBody, spoils: true, whole: true, shape: Shape{Bytes: 16}},
	FaultLengthLong:      {name: "length-long", phase: PhaseBody, spoils: true, shape: Shape{Bytes: 16}},
	FaultChunkCut:        {name: "chunk-cut", phase: PhaseBody, spoils: true, body: true, shape: Shape{At: half}},
	FaultCloseAfter:      {name: "close-after", phase: PhaseEnd, spoils: true, whole: true},
	FaultSlowRead:        {name: "slow-read", phase: PhaseRequest, shape: Shape{Interval: dripEvery}},
	FaultTLSStall:        {name: "tls-stall", phase: PhaseTLS},
	FaultTLSWrongName:    {name: "tls-wrong-name", phase: PhaseTLS},
	FaultTLSExpired:      {name: "tls-expired", phase: PhaseTLS},
	FaultTLSUntrusted:    {name: "tls-untrusted", phase: PhaseTLS},
	FaultNoAccept:        {name: "no-accept", phase: PhaseConnection},
	FaultAcceptSilence:   {name: "accept-silence", phase: PhaseConnection},
	FaultAcceptReset:     {name: "accept-reset", phase: PhaseConnection},
	FaultCloseOnReuse:    {name: "close-on-reuse", phase: PhaseEnd},
}

// kind is that of f, of FaultNone for no value of Fault.
func (f Fault) kind() *kindOf {
	if f >= Kinds {
		f = FaultNone
	}
	return &kindsOf[f]
}

// String returns the word used in service files, such as "body-drip".
func (f Fault) String() string {
	if f >= Kinds {
		return "unknown"
	}
	return kindsOf[f].name
}

// FaultNamed returns the fault of that word; ok is false where a service can
// have none of that name.
func FaultNamed(word string) (f Fault, ok bool) {
	for f := FaultNone + 1; f < Kinds; f++ {
		if kindsOf[f].name == word {
			return f, f != FaultGone
		}
	}
	return FaultNone, false
}

// FaultNames lists the words that FaultNamed knows, in the order of the values.
func FaultNames() (words []string) {
	for f := FaultNone + 1; f < Kinds; f++ {
		if f != FaultGone {
			words = append(words, kindsOf[f].name)
		}
	}
	return words
}

// Phase is the part of an exchange that f strikes.
func (f Fault) Phase() FaultPhase { return f.kind().phase }

// Spoils says that an answer of status 200 is begun after the work, and goes
// wrong or goes slowly. Any other fault comes in place of the answer.
func (f Fault) Spoils() bool { return f.kind().spoils }

// Breaks says that the request ends by f without an answer that is whole and
// valid. FaultHang and FaultGone do not end it.
func (f Fault) Breaks() bool {
	return f != FaultNone && f != FaultHang && f != FaultGone && !f.kind().whole
}

// AtOnce says that f comes as soon as the request has, and takes no slot.
func (f Fault) AtOnce() bool { return f == FaultRefuse || f == FaultHang || f == FaultCloseOnReuse }

// ofConnections says that f strikes a connection before a request is read.
func (f Fault) ofConnections() bool {
	p := f.Phase()
	return p == PhaseConnection || p == PhaseTLS || p == PhaseRequest
}

// NeedsBody says that f strikes the body of the answer, which must have one.
func (f Fault) NeedsBody() bool { return f.kind().body }

// Shape returns what f looks like where nothing else is said. A field that is
// zero is no parameter of the kind.
func (f Fault) Shape() Shape { return f.kind().shape }

// Shape is what a fault looks like.
type Shape struct {
	// Interval is the time between two pieces, and Bytes the size of one; of a
	// wrong length, Bytes is the difference.
	Interval time.Duration
	Bytes    int
	// At in [0, 1] is the part that is sent before it strikes: of the head for a
	// fault of the head, of the body for one of the body.
	At float64
	// Status, 100, 102 or 103, is that of interim answers, and Times their number.
	Status uint16
	Times  int
}

// Pieces is how many pieces of Bytes n bytes make.
func (s *Shape) Pieces(n int) int {
	if s.Bytes <= 0 {
		return 0
	}
	return (n + s.Bytes - 1) / s.Bytes
}

// Sent is how many of n bytes are sent before the fault strikes.
func (s *Shape) Sent(n int) int { return int(s.At * float64(n)) }

// FaultSpec is how often a fault comes, and what it looks like wherever in the
// service it comes: by its share, a script or an outage.
type FaultSpec struct {
	// Share in [0, 1] of the requests that end with it.
	Share float64
	// The others replace those of Fault.Shape. 0, and a nil At, leave them.
	Interval time.Duration
	Bytes    int
	At       *float64
	Status   uint16
	Times    int
}

// shape returns that of f with what s says of it.
func (s *FaultSpec) shape(f Fault) Shape {
	sh := f.Shape()
	if s.Interval != 0 {
		sh.Interval = s.Interval
	}
	if s.Bytes != 0 {
		sh.Bytes = s.Bytes
	}
	if s.At != nil {
		sh.At = *s.At
	}
	if s.Status != 0 {
		sh.Status = s.Status
	}
	if s.Times != 0 {
		sh.Times = s.Times
	}
	return sh
}

// Faults are the faults of a service, by kind. The shares add up to at most 1.
// Refuse, Hang and CloseOnReuse come at once and take no slot, the others after
// the work: in place of the answer, or as Fault.Spoils says.
type Faults [Kinds]FaultSpec

// shares lists the kinds that come by chance, in the order of their values: those
// of connections, or those of requests.
func (fs *Faults) shares(connections bool) (out []faultShare) {
	for f := range fs {
		if fs[f].Share > 0 && Fault(f).ofConnections() == connections {
			out = append(out, faultShare{Fault(f), fs[f].Share})
		}
	}
	return out
}

// anyShare reports whether any kind comes by chance.
func (fs *Faults) anyShare() bool {
	return slices.ContainsFunc(fs[:], func(s FaultSpec) bool { return s.Share > 0 })
}

type faultShare struct {
	fault Fault
	share float64
}

// shapes resolves the defaults.
func (fs *Faults) shapes() *[Kinds]Shape {
	var out [Kinds]Shape
	for f := range fs {
		out[f] = fs[f].shape(Fault(f))
	}
	return &out
}

// maxPiece bounds Shape.Bytes.
const maxPiece = 1 << 30

// maxTimes bounds Shape.Times.
const maxTimes = 1_000_000

// validateFaults checks shares and shapes.
func (sp *Spec) validateFaults() error {
	sum := 0.0
	for i := range sp.Faults {
		f, s := Fault(i), &sp.Faults[i]
		if *s != (FaultSpec{}) && (f == FaultNone || f == FaultGone) {
			return fmt.Errorf("fault.%v is no fault of a service", f)
		}
		if !(s.Share >= 0 && s.Share <= 1) {
			return fmt.Errorf("fault.%v = %v, want 0 to 1", f, s.Share)
		}
		if err := s.validate(f); err != nil {
			return err
		}
		sum += s.Share
	}
	if sum > 1+slack {
		return fmt.Errorf("fault: the shares add up to %s, want at most 100%%", units.FormatShare(sum))
	}
	if sp.Faults[FaultNoAccept].Share > 0 || slices.Contains(sp.Script, Ending{Fault: FaultNoAccept}) {
		return fmt.Errorf("fault.no-accept strikes the listener, and holds in an outage only: want such as outage: {for: 5s, kind: no-accept}")
	}
	for i, o := range sp.Outages {
		if o.Ending.Fault == FaultNoAccept && o.Share > 0 {
			return fmt.Errorf("outage[%d].share = %s, but no-accept strikes the listener, which is one", i, units.FormatShare(o.Share))
		}
	}
	if sp.Body == 0 {
		if f, key := sp.first(Fault.NeedsBody); key != "" {
			return fmt.Errorf("%s: %v needs a body to strike, but body = 0: want such as body: 1KiB", key, f)
		}
	}
	return nil
}

// validate checks what s says of the shape of f.
func (s *FaultSpec) validate(f Fault) error {
	has := f.Shape()
	none := func(key string) error { return fmt.Errorf("fault.%v.%s: %v has no %s", f, key, f, key) }
	switch {
	case s.Interval != 0 && has.Interval == 0:
		return none("interval")
	case s.Interval < 0:
		return fmt.Errorf("fault.%v.interval = %v, want more than 0", f, s.Interval)
	case s.Bytes != 0 && has.Bytes == 0:
		return none("bytes")
	case s.Bytes < 0 || s.Bytes > maxPiece:
		return fmt.Errorf("fault.%v.bytes = %d, want 1 to %d", f, s.Bytes, maxPiece)
	case s.At != nil && has.At == 0:
		return none("at")
	case s.At != nil && !(*s.At >= 0 && *s.At <= 1):
		return fmt.Errorf("fault.%v.at = %v, want 0 to 1", f, *s.At)
	case s.Status != 0 && has.Status == 0:
		return none("status")
	case s.Status != 0 && s.Status != 100 && s.Status != 102 && s.Status != 103:
		return fmt.Errorf("fault.%v.status = %d, want 100, 102 or 103", f, s.Status)
	case s.Times != 0 && has.Times == 0:
		return none("times")
	case s.Times < 0 || s.Times > maxTimes:
		return fmt.Errorf("fault.%v.times = %d, want 1 to %d", f, s.Times, maxTimes)
	}
	return nil
}

// first returns the first fault in the spec that is of such a kind, and the key
// where it stands; "" when there is none.
func (sp *Spec) first(such func(Fault) bool) (f Fault, key string) {
	for i := range sp.Faults {
		if f := Fault(i); sp.Faults[i].Share > 0 && such(f) {
			return f, "fault." + f.String()
		}
	}
	for i, e := range sp.Script {
		if such(e.Fault) {
			return e.Fault, fmt.Sprintf("script[%d]", i)
		}
	}
	for i, o := range sp.Outages {
		if such(o.Ending.Fault) {
			return o.Ending.Fault, fmt.Sprintf("outage[%d].kind", i)
		}
	}
	return FaultNone, ""
}

// NeedsTLS returns a fault of TLS that the service, or a replica of its own, may
// meet; FaultNone when there is none.
func (sp *Spec) NeedsTLS() Fault {
	for one := range sp.All() {
		if f, key := one.first(func(f Fault) bool { return f.Phase() == PhaseTLS }); key != "" {
			return f
		}
	}
	return FaultNone
}

// Has reports whether the service may end a request with f.
func (sp *Spec) Has(f Fault) bool {
	_, key := sp.first(func(g Fault) bool { return g == f })
	return key != ""
}

var errScriptBesideFaults = errors.New("script contradicts fault: it says how every attempt ends")
