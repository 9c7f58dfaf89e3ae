package target

import (
	"sync"
	"time"

	"latencylab/draw"
	"latencylab/histo"
	"latencylab/http1"
	"latencylab/service"
)

const (
	// MaxRuns is the number of run keys that are told apart; the requests of
	// further ones are counted together.
	MaxRuns = 256
	// otherRun is the tally of those.
	otherRun = MaxRuns
	// noRun is the tally of what is not counted.
	noRun = MaxRuns + 1

	firstStatus = 200
	statuses    = 400 // 200 to 599, see service.Spec.Validate
)

// tallyKey is what is counted apart: a run at a service, by its number.
type tallyKey struct {
	run  http1.Run
	node uint8
}

// registry numbers the run keys, for all loops alike. A loop asks it once for
// each key that it meets.
type registry struct {
	mu    sync.Mutex
	index map[tallyKey]uint16
	keys  []http1.Run // by number
}

func (r *registry) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index = make(map[tallyKey]uint16, MaxRuns)
	r.keys = make([]http1.Run, 0, MaxRuns)
}

func (r *registry) find(key tallyKey) uint16 {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.index[key]
	if !ok {
		if len(r.index) >= MaxRuns {
			return otherRun
		}
		i = uint16(len(r.index))
		r.index[key] = i
		r.keys = append(r.keys, key.run)
	}
	return i
}

// names returns the run keys by their numbers: one that several services know has
// several.
func (r *registry) names() []http1.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]http1.Run(nil), r.keys...)
}

// tally is what one loop recorded of one run.
type tally struct {
	Counts
	key        tallyKey
	answered   [statuses]uint64 // by status less firstStatus
	faults     [service.Kinds]uint64
	replica    []uint64 // arrived, by number of the replica
	repeats    Duplicates
	work       [ends]Work       // of requests that were worked on, by how they ended
	readDelay  *histo.Histogram // read less kernel stamp
	delayError *histo.Histogram // answer written less due
	queueWait  *histo.Histogram // work begun less arrival, of requests whose work began
	workTime   *histo.Histogram // work ended less begun, of the same ones
}

func newTally(key tallyKey, replicas int) *tally {
	return &tally{
		key: key, replica: make([]uint64, replicas),
		readDelay: histo.New(), delayError: histo.New(), queueWait: histo.New(), workTime: histo.New(),
	}
}

// arrived counts a request that was given to the server of rp.
func (t *tally) arrived(rp *replica, call uint64, attempt uint32, drawn time.Duration) {
	t.Arrived++
	t.replica[rp.index]++
	d := digestOf(call, attempt, drawn)
	t.DrawsAll += d
	if attempt == 1 {
		t.First++
		t.DrawsFirst += d
	} else {
		t.Later++
	}
	t.BusyPeak = max(t.BusyPeak, uint64(rp.server.Busy()))
	t.QueuePeak = max(t.QueuePeak, uint64(rp.server.Waiting()))
}

// digestOf is the digest of one draw; digests are summed.
func digestOf(call uint64, attempt uint32, drawn time.Duration) Digest {
	return Digest(draw.Mix(call, uint64(attempt), uint64(drawn)))
}

// merge adds what another loop recorded of the same run.
func (t *tally) merge(o *tally) {
	t.Counts.merge(&o.Counts)
	for i, n := range o.answered {
		t.answered[i] += n
	}
	for i, n := range o.faults {
		t.faults[i] += n
	}
	for i, n := range o.replica {
		t.replica[i] += n
	}
	t.repeats.add(&o.repeats)
	for i := range o.work {
		t.work[i].add(o.work[i])
	}
	t.readDelay.Merge(o.readDelay)
	t.delayError.Merge(o.delayError)
	t.queueWait.Merge(o.queueWait)
	t.workTime.Merge(o.workTime)
}

// tallies are those of one loop, by number of the run.
type tallies struct {
	runs     *registry
	local    map[tallyKey]uint16 // what runs has said so far
	lastKey  tallyKey
	last     uint16 // number of lastKey, noRun when there is none
	list     [MaxRuns + 2]*tally
	replicas int
	fault    error // why the loop has ended of itself
}

func (ts *tallies) init(runs *registry, replicas int) {
	ts.runs, ts.replicas = runs, replicas
	ts.list[noRun] = newTally(tallyKey{}, replicas)
	ts.reset()
}

// reset forgets every run. What is counted under noRun is never shown.
func (ts *tallies) reset() {
	ts.local = make(map[tallyKey]uint16, MaxRuns)
	ts.last = noRun
	clear(ts.list[:noRun])
}

// find returns the number of the run with this key at a service.
func (ts *tallies) find(run http1.Run, n *node) uint16 {
	key := tallyKey{run, uint8(n.index)}
	if key == ts.lastKey && ts.last != noRun {
		return ts.last
	}
	i, ok := ts.local[key]
	if !ok {
		if i = ts.runs.find(key); i == otherRun {
			if ts.list[i] == nil {
				ts.list[i] = newTally(tallyKey{}, ts.replicas)
			}
			return i
		}
		ts.local[key] = i
		ts.list[i] = newTally(key, ts.replicas)
	}
	ts.lastKey, ts.last = key, i
	return i
}

// at returns the tally of a number that find has returned, or of noRun.
func (ts *tallies) at(i uint16) *tally { return ts.list[i] }
