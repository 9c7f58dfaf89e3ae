package target

// end is how a request has ended.
type end uint8

const (
	endAnswered  end = iota // an answer was begun for a caller that was there
	endAfterLeft            // its caller had left when it was due, or the connection was found broken
	endDropped              // it ended when its caller left
	endBroken               // the service refused or reset its connection
	ends
)

var endNames = [ends]string{"answered", "after_left", "dropped", "broken"}

func (e end) String() string { return endNames[e] }

// Work is work done on requests. Requests were worked on when they had a slot,
// needed none, or were served by their window; what was shed, met an outage or
// left the queue was not. Time is from the instant the work began to its end,
// stalls and pauses in it included; requests of windows take none.
type Work struct {
	Requests uint64 `json:"requests"`
	NS       uint64 `json:"ns"`
}

func (w *Work) add(o Work) {
	w.Requests += o.Requests
	w.NS += o.NS
}

// WorkBy is the work on requests that have ended, by how they ended, as Run
// counts that: answered, after_left, cancelled.dropped, broken.
type WorkBy struct {
	Answered  Work `json:"answered"`
	AfterLeft Work `json:"after_left"`
	Dropped   Work `json:"dropped"` // until the caller left, and what stopping cost
	Broken    Work `json:"broken"`
}

// Total is the sum over all ends.
func (w *WorkBy) Total() (sum Work) {
	for _, o := range []Work{w.Answered, w.AfterLeft, w.Dropped, w.Broken} {
		sum.add(o)
	}
	return sum
}

func (w *WorkBy) add(o *WorkBy) {
	w.Answered.add(o.Answered)
	w.AfterLeft.add(o.AfterLeft)
	w.Dropped.add(o.Dropped)
	w.Broken.add(o.Broken)
}

func (t *tally) workBy() WorkBy {
	return WorkBy{t.work[endAnswered], t.work[endAfterLeft], t.work[endDropped], t.work[endBroken]}
}
