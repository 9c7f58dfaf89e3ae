package service

import "latencylab/draw"

// line links jobs through the server's slab, first in, first out: leaving the
// middle costs as little as leaving the front, and a line of any length
// allocates nothing of its own.
type line struct {
	head, tail Job
	n          int
}

// push appends j, which is in no line.
func (q *line) push(jobs []job, j Job) {
	jobs[j].prev, jobs[j].next = q.tail, 0
	if q.tail == 0 {
		q.head = j
	} else {
		jobs[q.tail].next = j
	}
	q.tail = j
	q.n++
}

// remove takes out j, which is in the line.
func (q *line) remove(jobs []job, j Job) {
	p, n := jobs[j].prev, jobs[j].next
	if p == 0 {
		q.head = n
	} else {
		jobs[p].next = n
	}
	if n == 0 {
		q.tail = p
	} else {
		jobs[n].prev = p
	}
	q.n--
}

// queue holds the jobs that wait for a slot and says whose turn it is.
type queue struct {
	discipline Discipline
	seed       uint64
	replica    uint32
	n          int    // jobs in it
	turns      uint64 // drawn so far; Proportional only
	// lines[0] holds all jobs, under NewFirst only first attempts; lines[1] the
	// others. Proportional uses no line.
	lines [2]line
	// any holds the jobs of Proportional in no order; job.prev is the index.
	any []Job
}

// of returns the line that j belongs to.
func (q *queue) of(jobs []job, j Job) *line {
	if q.discipline == NewFirst && jobs[j].attempt > 1 {
		return &q.lines[1]
	}
	return &q.lines[0]
}

// push adds j, which is in no queue.
func (q *queue) push(jobs []job, j Job) {
	q.n++
	if q.discipline != Proportional {
		q.of(jobs, j).push(jobs, j)
		return
	}
	jobs[j].prev = Job(len(q.any))
	q.any = append(q.any, j)
}

// pop removes and returns the job that is served next; 0 when none waits.
func (q *queue) pop(jobs []job) Job {
	if q.n == 0 {
		return 0
	}
	var j Job
	switch q.discipline {
	case FIFO:
		j = q.lines[0].head
	case LIFO:
		j = q.lines[0].tail
	case NewFirst:
		if j = q.lines[0].head; j == 0 {
			j = q.lines[1].head
		}
	case Proportional:
		j = q.any[min(int(q.toss()*float64(q.n)), q.n-1)]
	}
	q.remove(jobs, j)
	return j
}

// clear forgets all jobs.
func (q *queue) clear() {
	q.n, q.lines, q.any = 0, [2]line{}, q.any[:0]
}

// toss draws a number in (0, 1), another one each time.
func (q *queue) toss() float64 {
	q.turns++
	return draw.Uniform(q.seed, draw.Turn, q.turns-1, q.replica, 0)
}

// remove takes out j, which is in the queue.
func (q *queue) remove(jobs []job, j Job) {
	q.n--
	if q.discipline != Proportional {
		q.of(jobs, j).remove(jobs, j)
		return
	}
	i, last := jobs[j].prev, q.any[q.n]
	q.any[i], jobs[last].prev = last, i
	q.any = q.any[:q.n]
}
