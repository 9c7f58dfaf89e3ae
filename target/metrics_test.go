package target

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"latencylab/histo"
	"latencylab/service"
)

func TestMetrics(t *testing.T) {
	spec := &service.Spec{Replicas: 2, Queue: 0, Slots: 1, Time: dist(t, "2ms"), Each: []service.Each{{Replica: 1, Time: new(dist(t, "1h"))}}}
	tg := begin(t, Config{Service: spec, Threads: 2})
	a, b, shed := dial(t, tg.Replicas()[0]), dial(t, tg.Replicas()[1]), dial(t, tg.Replicas()[1])
	for call := range uint64(3) {
		a.send(get(`odd"\key`, call, 1))
		a.answer("GET")
	}
	b.send(get("b", 1, 2))
	settle(t, "arrival", func() bool { return tg.Ledger().Run("b") != nil })
	shed.send(get("b", 2, 1))
	shed.answer("GET")
	a.send("nonsense\r\n\r\n")
	a.answer("GET")

	status, body := page(t, "GET", "http://"+tg.Admin().String()+"/metrics")
	if status != 200 {
		t.Fatalf("status %d: %s", status, body)
	}
	for _, want := range []string{
		`latencylab_target_requests_total{replica="0",run="odd\"\\key",service=""} 3`,
		`latencylab_target_requests_total{replica="1",run="b",service=""} 2`,
		`latencylab_target_answers_total{run="odd\"\\key",service="",status="200"} 3`,
		`latencylab_target_answers_total{run="b",service="",status="503"} 1`,
		`latencylab_target_shed_requests_total{run="b",service=""} 1`,
		`latencylab_target_in_flight_requests{run="b",service=""} 1`,
		`latencylab_target_work_seconds_total{end="answered",run="odd\"\\key",service=""} 0.006`,
		`latencylab_target_bad_requests_total{status="400"} 1`,
		`latencylab_target_work_time_seconds_bucket{le="0.001"} 0`,
		`latencylab_target_work_time_seconds_bucket{le="0.0025"} 3`,
		`latencylab_target_work_time_seconds_sum 0.006`,
		`latencylab_target_queue_wait_seconds_count 3`,
		`# TYPE latencylab_target_delay_error_seconds histogram`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics{tg})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestMetricsAreBounded: runs without end make no labels without end.
func TestMetricsAreBounded(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	c := dial(t, tg.Replicas()[0])
	series := func() int {
		t.Helper()
		_, body := page(t, "GET", "http://"+tg.Admin().String()+"/metrics")
		return strings.Count(body, "\n")
	}
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			c.send(get(fmt.Sprintf("run-%d", i), 1, 1))
			c.answer("GET")
		}
	}
	ask(0, MaxRuns+1)
	n := series()
	ask(MaxRuns+1, MaxRuns+50)
	if got := series(); got != n {
		t.Errorf("%d lines, then %d", n, got)
	}
}

func TestHistogramOfMetrics(t *testing.T) {
	h := histo.New()
	h.Record(int64(10 * time.Microsecond))
	h.Record(int64(3 * time.Millisecond))
	h.Record(int64(2 * time.Hour))
	if n := testutil.CollectAndCount(one{constHistogram(descWorkTime, h)}); n != 1 {
		t.Errorf("%d metrics", n)
	}
	if len(bounds) != 21 || bounds[0] != 10*time.Microsecond || bounds[20] != 50*time.Second {
		t.Errorf("%d bounds from %v to %v", len(bounds), bounds[0], bounds[len(bounds)-1])
	}
}

// one is a collector of one metric.
type one struct{ prometheus.Metric }

func (o one) Describe(out chan<- *prometheus.Desc) { out <- o.Desc() }
func (o one) Collect(out chan<- prometheus.Metric) { out <- o.Metric }
