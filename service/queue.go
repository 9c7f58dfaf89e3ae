package service

// queue orders the jobs that wait for a slot, first in, first out. It links
// them through the server's slab: leaving the middle costs as little as leaving
// the front, and a queue of any length allocates nothing of its own.
type queue struct {
	head, tail Job
	n          int
}

// push appends j, which is in no queue.
func (q *queue) push(jobs []job, j Job) {
	jobs[j].prev, jobs[j].next = q.tail, 0
	if q.tail == 0 {
		q.head = j
	} else {
		jobs[q.tail].next = j
	}
	q.tail = j
	q.n++
}

// pop removes and returns the job that is served next; 0 when none waits.
func (q *queue) pop(jobs []job) Job {
	j := q.head
	if j != 0 {
		q.remove(jobs, j)
	}
	return j
}

// remove takes out j, which is in the queue.
func (q *queue) remove(jobs []job, j Job) {
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
