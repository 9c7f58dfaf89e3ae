package target

import (
	"bytes"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"

	"latencylab/histo"
)

// namespace begins the name of every metric.
const namespace = "latencylab_target"

// otherLabel is the label run of requests of keys beyond MaxRuns. No key is so
// long.
const otherLabel = "(all further run keys together)"

// bounds are the upper bounds of the histograms' buckets: 1, 2.5 and 5 of each
// power of ten from 10 µs to 50 s.
var bounds = func() (list []time.Duration) {
	for d := 10 * time.Microsecond; d < 100*time.Second; d *= 10 {
		list = append(list, d, d*5/2, d*5)
	}
	return list
}()

// metrics shows the ledger to Prometheus. It reads the ledger when it is asked,
// and costs nothing else. Labels are bounded: service by the file, run by MaxRuns, replica by the
// service, status and fault by what a service can answer.
type metrics struct{ t *Target }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	descStarted    = desc("start_time_seconds", "When the target began or was reset, by its clock.")
	descOpen       = desc("open_connections", "Connections of all replicas now.")
	descAccepted   = desc("accepted_connections_total", "Connections accepted.")
	descRefused    = desc("refused_connections_total", "Connections closed at once because of the limit.")
	descTimedOut   = desc("timed_out_connections_total", "Connections closed because the peer owed bytes too long.")
	descBad        = desc("bad_requests_total", "What was no valid request, by the status it got.", "status")
	descArrived    = desc("requests_total", "Requests given to a replica.", "service", "run", "replica")
	descAttempts   = desc("attempts_total", "Requests by their attempt number: first or later.", "service", "run", "attempt")
	descAnswered   = desc("answers_total", "Answers begun for callers that were there.", "service", "run", "status")
	descShed       = desc("shed_requests_total", "Requests that found the queue full or their window overloaded.", "service", "run")
	descBroken     = desc("broken_requests_total", "Requests that got a broken connection instead of an answer.", "service", "run")
	descFaults     = desc("faults_total", "Requests that met a fault, by its kind.", "service", "run", "fault")
	descAfterLeft  = desc("after_left_requests_total", "Requests whose caller had left when the answer was due.", "service", "run")
	descDropped    = desc("dropped_requests_total", "Requests that ended when their caller left.", "service", "run")
	descCutShort   = desc("cut_short_answers_total", "Answers begun that could not be written to the end.", "service", "run")
	descInFlight   = desc("in_flight_requests", "Requests that have arrived and not ended.", "service", "run")
	descWorked     = desc("worked_requests_total", "Requests that were worked on and have ended, by how.", "service", "run", "end")
	descWorkTotal  = desc("work_seconds_total", "Time of work on requests that have ended, by how.", "service", "run", "end")
	descRepeats    = desc("repeats_total", "Requests for which it was done although it had been done for their call before.", "service", "run", "done")
	descRepeated   = desc("repeated_calls_total", "Calls for which it was done more than once.", "service", "run", "done")
	descWorkTime   = desc("work_time_seconds", "From the begin of the work on a request to its end.")
	descQueueWait  = desc("queue_wait_seconds", "From the arrival of a request to the begin of its work.")
	descDelayError = desc("delay_error_seconds", "How much later than due answers were written.")
	descRecorded   = desc("stream_records_total", "Records that readers of the full record were given.")
	descLost       = desc("stream_lost_records_total", "Records that readers of the full record have lost.")
	descForwarded  = desc("upstream_requests_total", "Requests that were to be sent to the upstream.")
	descUpEnded    = desc("upstream_ended_total", "Requests for the upstream that have ended: answered, cancelled, or the reason of a failure.", "end")
	descUpFlight   = desc("upstream_in_flight_requests", "Requests that the upstream has, or that wait for a connection to it.")
	descUpWaited   = desc("upstream_waited_requests_total", "Requests that found every connection to the upstream in use.")
	descUpAgain    = desc("upstream_sent_again_total", "Requests that were sent to the upstream once more, on another connection.")
	descUpOpened   = desc("upstream_opened_connections_total", "Connections opened to the upstream.")
	descUpTurned   = desc("upstream_turned_away_requests_total", "Requests refused while they were read, by the status they got.", "status")
	descReadDelay  = desc("read_delay_seconds", "How long requests lay in the kernel before they were read.")
)

// Describe sends nothing: the collector is unchecked, for labels come and go.
func (m metrics) Describe(chan<- *prometheus.Desc) {}

// Collect reads the ledger and sends every metric.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	l, all := m.t.collect(nil)
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		send(d, prometheus.CounterValue, float64(n), labels...)
	}
	send(descStarted, prometheus.GaugeValue, float64(l.StartedAt.UnixNano())/1e9)
	c := &l.Connections
	send(descOpen, prometheus.GaugeValue, float64(c.Open))
	count(descAccepted, c.Accepted)
	count(descRefused, c.Refused)
	count(descRecorded, l.Record.Records)
	count(descLost, l.Record.Lost)
	count(descTimedOut, c.TimedOut)
	count(descBad, c.Bad400, "400")
	count(descBad, c.Bad431, "431")
	count(descBad, c.Bad501, "501")
	count(descBad, c.Bad505, "505")
	if u := l.Upstream; u != nil {
		collectUpstream(u, count)
		send(descUpFlight, prometheus.GaugeValue, float64(u.InFlight))
	}
	services := l.Services
	if services == nil {
		services = []ServiceLedger{{Name: m.t.nodes[0].Name, Runs: l.Runs}}
	}
	for _, s := range services {
		for i := range s.Runs {
			collectRun(&s.Runs[i], []string{s.Name, s.Runs[i].Key}, count, send)
		}
	}
	if l.Other != nil {
		collectRun(l.Other, []string{"", otherLabel}, count, send)
	}
	out <- constHistogram(descWorkTime, all.workTime)
	out <- constHistogram(descQueueWait, all.queueWait)
	out <- constHistogram(descDelayError, all.delayError)
	out <- constHistogram(descReadDelay, all.readDelay)
}

// collectUpstream sends the counters of the upstream.
func collectUpstream(u *UpstreamLedger, count func(*prometheus.Desc, uint64, ...string)) {
	count(descForwarded, u.Forwarded)
	count(descUpEnded, u.Answered, "answered")
	count(descUpEnded, u.Cancelled, "cancelled")
	for reason, n := range u.Failed { // order does not show: the registry sorts
		count(descUpEnded, n, reason)
	}
	count(descUpWaited, u.Waited)
	count(descUpAgain, u.SentAgain)
	count(descUpOpened, u.Opened)
	count(descUpTurned, u.TooLarge, "413")
	count(descUpTurned, u.NoRoom, "503")
}

// collectRun sends the metrics of one run; of are its labels.
func collectRun(r *Run, of []string, count func(*prometheus.Desc, uint64, ...string), send func(*prometheus.Desc, prometheus.ValueType, float64, ...string)) {
	with := func(label string) []string { return append(of[:len(of):len(of)], label) }
	for i, n := range r.ByReplica {
		count(descArrived, n, with(strconv.Itoa(i))...)
	}
	count(descAttempts, r.First, with("first")...)
	count(descAttempts, r.Later, with("later")...)
	for status, n := range r.Answered { // order does not show: the registry sorts
		count(descAnswered, n, with(strconv.Itoa(int(status)))...)
	}
	for fault, n := range r.Faults { // order does not show: the registry sorts
		count(descFaults, n, with(fault)...)
	}
	count(descBroken, r.Broken, of...)
	count(descShed, r.Shed, of...)
	count(descAfterLeft, r.AfterLeft, of...)
	count(descDropped, r.Cancelled.Dropped, of...)
	count(descCutShort, r.CutShort, of...)
	send(descInFlight, prometheus.GaugeValue, float64(r.InFlight), of...)
	for i, w := range []Work{r.Work.Answered, r.Work.AfterLeft, r.Work.Dropped, r.Work.Broken} {
		count(descWorked, w.Requests, with(end(i).String())...)
		send(descWorkTotal, prometheus.CounterValue, float64(w.NS)/1e9, with(end(i).String())...)
	}
	for _, d := range []struct {
		done string
		Repeats
	}{{"arrived", r.Duplicates.Arrived}, {"worked", r.Duplicates.Worked}, {"answered", r.Duplicates.Answered}} {
		count(descRepeats, d.Repeats.Repeats, with(d.done)...)
		count(descRepeated, d.CallsRepeated, with(d.done)...)
	}
}

// constHistogram shows h in seconds, with bounds to the precision of the HDR
// buckets.
func constHistogram(d *prometheus.Desc, h *histo.Histogram) prometheus.Metric {
	buckets := make(map[float64]uint64, len(bounds))
	for _, b := range bounds {
		buckets[b.Seconds()] = h.CountAtOrBelow(int64(b))
	}
	return prometheus.MustNewConstHistogram(d, h.Count(), float64(h.Sum())/1e9, buckets)
}

// metricsPage makes the page of metrics, in the text format of Prometheus.
func (t *Target) metricsPage() func(ctx *fasthttp.RequestCtx) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics{t})
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	return func(ctx *fasthttp.RequestCtx) {
		families, err := registry.Gather()
		var b bytes.Buffer
		for _, f := range families {
			if err == nil {
				_, err = expfmt.MetricFamilyToText(&b, f)
			}
		}
		if err != nil {
			fail(ctx, fasthttp.StatusInternalServerError, err.Error())
			return
		}
		ctx.SetContentType(string(format))
		ctx.SetBody(b.Bytes())
	}
}
