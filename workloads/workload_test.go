package workloads

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/policy"
	"latencylab/service"
)

// parseHere parses without reading other files.
func parseHere(text string) (*Workload, error) {
	f := &file{what: "workload", name: "f.yaml", read: readNothing}
	return f.decodeWorkload([]byte(text))
}

func dist(t *testing.T, s string) service.Dist {
	t.Helper()
	d, err := service.ParseDist(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const ms = time.Millisecond

func TestParse(t *testing.T) {
	slow := dist(t, "constant(9ms)")
	hedge := NamedPolicy{"hedge-p95", "hedge=p95", policy.Policy{Hedge: policy.Hedge{Max: 1, Quantile: 0.95}}}
	plain := NamedPolicy{Name: "plain", Spec: "plain"}
	for _, c := range []struct {
		why, text string
		want      func(w *Workload)
	}{
		{"one key is enough; the rest is default", "rate: 5k/s\n", func(w *Workload) { w.Rate = 5000e6 }},
		{"numbers", "duration: 30s\nclients: 4\nthreads: 2\nconnections: 10k\ndrain: 2s\nseed: 18446744073709551615\n", func(w *Workload) {
			w.Duration, w.Clients, w.Threads, w.Connections, w.Drain, w.Seed = 30*time.Second, 4, 2, 10000, 2*time.Second, 1<<64-1
		}},
		{"requests with a prefix, constant arrivals", "requests: 1M\nrate: 60/min\narrivals: constant", func(w *Workload) {
			w.Requests, w.Rate, w.Arrivals = 1e6, 1e6, Constant
		}},
		{"a warm-up of zero is not the same as none given", "warmup: 0s", func(w *Workload) { w.WarmupGiven = true }},
		{"seed 0 is a seed", "seed: 0", func(w *Workload) { w.Seed = 0 }},
		{"name and about", "name: my-test.1\nabout: |\n  two\n  lines\n", func(w *Workload) { w.Name, w.About = "my-test.1", "two\nlines" }},
		{"thresholds are sorted", "within: [100ms, 50ms]", func(w *Workload) { w.Within = []time.Duration{50 * ms, 100 * ms} }},
		{"one threshold needs no list", "within: 100ms", func(w *Workload) { w.Within = []time.Duration{100 * ms} }},
		{"a request", "method: POST\npath: /a?b=c\nheader:\n  - 'Accept: text/html'\n  - \"X-Empty:\"\nbody: '{\"a\": [1]}'\n", func(w *Workload) {
			w.Request = Request{Method: "POST", Path: "/a?b=c", Headers: []Header{{"Accept", "text/html"}, {"X-Empty", ""}}, Body: []byte(`{"a": [1]}`)}
		}},
		{"a body of bytes", "body: !!binary AAH/\n", func(w *Workload) { w.Request.Body = []byte{0, 1, 255} }},
		{"an empty body is a body", "body: \"\"\n", func(w *Workload) { w.Request.Body = []byte{} }},
		{"endpoints lose their slash", "endpoint: [http://a:80/, 'http://[::1]:8080']\n", func(w *Workload) { w.Endpoints = []string{"http://a:80", "http://[::1]:8080"} }},
		{"https and what it may want", "endpoint: [https://a, 'HTTPS://b:8443']\ninsecure: false\ncacert: ca.pem\ncert: /c.pem\nkey: k.pem\nservername: a\ntls-resumption: off\ntls-min: 1.2\ntls-max: '1.3'\n", func(w *Workload) {
			w.Endpoints = []string{"https://a", "https://b:8443"}
			w.TLS = TLS{CACert: "ca.pem", Cert: "/c.pem", Key: "k.pem", ServerName: "a", NoResumption: true, Min: "1.2", Max: "1.3"}
		}},
		{"one policy needs no list", "policy: plain", func(w *Workload) { w.Policies = []NamedPolicy{plain} }},
		{"policies as specs and maps", "policy:\n  - plain\n  - hedge: p95\n  - name: calm\n    retry: 3\n    retry.on: [429, 503]\n    backoff: 100ms..2s\n    budget: 10%\n    budget.capacity: 500\n", func(w *Workload) {
			w.Policies = []NamedPolicy{plain, hedge, {"calm", "retry=3,retry.on=429+503,backoff=100ms..2s,budget=10%,budget.capacity=500", policy.Policy{
				Retry: policy.Retry{Max: 3, On: []uint16{429, 503}}, Backoff: policy.Backoff{Base: 100 * ms, Cap: 2 * time.Second}, Budget: policy.Budget{Deposit: 0.1, Capacity: 500}}}}
		}},
		{"plain as a map", "policy: [{plain: true, name: a}]", func(w *Workload) { w.Policies = []NamedPolicy{{Name: "a", Spec: "plain"}} }},
		{"a service", "service:\n  replicas: 2\n  time: uniform(20ms,60ms)\n  slow: {share: 2%, time: 1s, by: replica}\n  slots: 4\n  queue: 10\n  shed: 429\n  status: {503: 10%, 500: 0.01}\n  retry-after: 2s\n  cancel: running\n  body: 1KiB\n  each:\n    - {replica: 1, factor: 1.5, time: 9ms}\n", func(w *Workload) {
			w.Service = &service.Spec{Replicas: 2, Time: dist(t, "uniform(20ms,60ms)"), Slow: service.Slow{Share: 0.02, Time: dist(t, "1s"), By: service.SlowByReplica},
				Slots: 4, Queue: 10, Shed: 429, Status: []service.StatusShare{{Status: 503, Share: 0.1}, {Status: 500, Share: 0.01}}, RetryAfter: 2 * time.Second,
				Cancel: service.CancelRunning, Body: 1024, Each: []service.Each{{Replica: 1, Factor: 1.5, Time: &slow}}}
		}},
		{"a queue has no limit when none is given", "service: {time: 5ms, slots: 1}", func(w *Workload) {
			w.Service = &service.Spec{Time: dist(t, "5ms"), Slots: 1, Queue: -1}
		}},
		{"a wait for those shed", "service: {slots: 1, queue: 2, retry-after: 1s}", func(w *Workload) {
			w.Service = &service.Spec{Slots: 1, Queue: 2, RetryAfter: time.Second}
		}},
		{"a service over TLS", "service: {tls: true}", func(w *Workload) { w.Service = &service.Spec{TLS: true, Queue: -1} }},
		{"a queue of none", "service: {slots: 1, queue: 0}", func(w *Workload) { w.Service = &service.Spec{Slots: 1} }},
		{"sim", "sim:\n  policy: [plain]\n  requests: 1k\n", func(w *Workload) { w.Sim = Sim{Policies: []NamedPolicy{plain}, Requests: 1000} }},
		{"JSON is YAML", `{"rate": "1000/s", "policy": ["plain"]}`, func(w *Workload) { w.Rate, w.Policies = 1000e6, []NamedPolicy{plain} }},
		{"a byte order mark, a document mark, comments and CRLF", "\ufeff# what\r\n---\r\nrate: 1/s # slow\r\n...\r\n", func(w *Workload) { w.Rate = 1e6 }},
	} {
		got, err := parseHere(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		want := New()
		want.Name = "f"
		c.want(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.why, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ why, text, want string }{
		{"an unknown key at the top", "rate: 1/s\nratee: 2/s\n", `f.yaml:2: unknown key "ratee", nearest is "rate"`},
		{"an unknown key in service", "rate: 1/s\nservice:\n  time: 5ms\n  hegde: 3\n", `f.yaml:4: unknown key "hegde" in service, nearest is "shed"`},
		{"an unknown key two levels down", "service:\n  slow:\n    share: 2%\n    tme: 1s\n", `f.yaml:4: unknown key "tme" in slow, nearest is "time"`},
		{"an unknown key in a list of maps", "service:\n  each:\n    - replica: 0\n      fcator: 2\n", `f.yaml:4: unknown key "fcator" in each, nearest is "factor"`},
		{"an unknown key in sim", "sim: {duratoin: 1s}", `f.yaml:1: unknown key "duratoin" in sim, nearest is "duration"`},
		{"an unknown key in a policy's map", "policy:\n  - plain\n  - retry: 1\n    bakoff: 1s\n", `f.yaml:4: unknown key "bakoff" in policy, nearest is "backoff"`},
		{"an unknown key in a spec", "policy:\n\n  - hegde=5ms\n", `f.yaml:3: policy "hegde=5ms": unknown key "hegde", nearest is "hedge"`},
		{"the line is right after comments, blocks and blanks", "# c\n\nabout: |\n  x\n\n  y\n\n# d\nheader:\n  - 'A: b'\n\nbogus: 1\n", `f.yaml:12: unknown key "bogus", nearest is "about"`},
		{"the line is right after a quoted text of several lines", "about: \"a\n  b\n  c\"\nbogus: 1\n", `f.yaml:4: unknown key "bogus", nearest is "about"`},
		{"the line is right with CRLF", "about: x\r\nrate: 1/s\r\nbogus: 1\r\n", `f.yaml:3: unknown key "bogus", nearest is "about"`},
		{"a bare number", "rate: 10", `f.yaml:1: rate = "10" has no unit, want a rate such as 10/s`},
		{"a bare duration", "duration: 10", `f.yaml:1: duration = "10" has no unit, want a duration such as 10s`},
		{"a zero rate", "rate: 0/s", `f.yaml:1: rate = "0/s" is zero, want a rate above 0 such as 1000/s`},
		{"a negative rate", "rate: -5/s", `f.yaml:1: rate = "-5/s" is negative, want a rate such as 1000/s`},
		{"no connections", "connections: 0", `f.yaml:1: connections = "0", want 1 or more`},
		{"too many threads", "threads: 5000", `f.yaml:1: threads = "5000", want at most 1024`},
		{"nothing to do", "requests: 0", `f.yaml:1: requests = "0", want 1 or more`},
		{"no time to do it", "duration: 0s", `f.yaml:1: duration = "0s", want more than 0s`},
		{"a seed that is negative", "seed: -1", `f.yaml:1: seed = "-1", want a whole number of 0 or more, below 2^64`},
		{"a list where one is wanted", "rate: [1/s, 2/s]", `f.yaml:1: rate = a list, want a rate such as 1000/s`},
		{"a map where one is wanted", "rate:\n  value: 1/s\n", `f.yaml:2: rate = a map, want a rate such as 1000/s`},
		{"nothing where one is wanted", "rate:\nduration: 1s\n", `f.yaml:1: rate = nothing, want a rate such as 1000/s`},
		{"a scalar where a map is wanted", "sim: fast", `f.yaml:1: sim = "fast", want a map of the keys policy, duration, requests and stages`},
		{"a list for a service", "service: [1]", `f.yaml:1: service = a list, want a map of keys such as time: 5ms, or the path of a file`},
		{"a list as the file", "- plain\n", `f.yaml:1: a list, want a map of keys such as rate: 1000/s`},
		{"a word as the file", "hello", `f.yaml:1: "hello", want a map of keys such as rate: 1000/s`},
		{"a word that is not one", "arrivals: posson", `f.yaml:1: arrivals = "posson", want poisson or constant`},
		{"a name in capitals", "name: A b", `f.yaml:1: name = "A b", want a-z, 0-9, '.', '_' and '-' only, at most 64`},
		{"a threshold twice", "within: [5ms, 5ms]", `f.yaml:1: within = "5ms" is given twice`},
		{"no thresholds", "within: []", `f.yaml:1: within = an empty list, want durations such as 100ms`},
		{"an entry that is nothing", "within:\n  - 5ms\n  -\n", `f.yaml:3: within = nothing, want durations such as 100ms`},
		{"a method with a blank", "method: GE T", `f.yaml:1: method = "GE T", want a method such as GET or POST`},
		{"a tunnel", "method: CONNECT", `f.yaml:1: method = "CONNECT", want a method that is answered, not a tunnel`},
		{"a path without slash", "path: index.html", `f.yaml:1: path = "index.html", want a path that begins with "/"`},
		{"a path with a blank", "path: /a b", `f.yaml:1: path = "/a b" has " ", want it percent-encoded`},
		{"a header without colon", "header: [Accept]", `f.yaml:1: header = "Accept", want a header such as "Accept: text/html"`},
		{"a header that splits the request", "header: [\"A: b\\r\\nC: d\"]", `f.yaml:1: header = "A: b\r\nC: d" has "\r" in its value, want no control characters`},
		{"a header that frames", "header: ['Content-Length: 3']", `f.yaml:1: header = "Content-Length: 3" sets Content-Length, which the driver sets itself`},
		{"a body that is no base64", "body: !!binary '*'", `f.yaml:1: body = "*", want base64 after !!binary`},
		{"another scheme", "endpoint: ftp://a/", `f.yaml:1: endpoint = "ftp://a/", want an endpoint that begins with http:// or https://`},
		{"two schemes", "rate: 1/s\nendpoint: ['http://a', 'https://b']", `f.yaml:2: endpoints "http://a" and "https://b", want all with http:// or all with https://`},
		{"a certificate without its key", "cert: c.pem", `f.yaml:1: cert=c.pem without key, want the certificate's private key too`},
		{"versions the wrong way round", "tls-min: 1.3\ntls-max: 1.2", `f.yaml:1: tls-min=1.3 is above tls-max=1.2`},
		{"an old version", "tls-max: 1.1", `f.yaml:1: tls-max = "1.1", want 1.2 or 1.3`},
		{"a word for no switch", "tls-resumption: yes", `f.yaml:1: tls-resumption = "yes", want on or off`},
		{"an endpoint without scheme", "endpoint: a:80", `f.yaml:1: endpoint = "a:80", want an endpoint such as http://127.0.0.1:8080`},
		{"an endpoint with a path", "endpoint: http://a/b", `f.yaml:1: endpoint = "http://a/b" has a path, want http://a, and the path under the key path`},
		{"an endpoint with a user", "endpoint: http://me:secret@a/", `f.yaml:1: endpoint = "http://me:secret@a/" has a user, want an endpoint such as http://a`},
		{"an endpoint without host", "endpoint: http://:80/", `f.yaml:1: endpoint = "http://:80/", want an endpoint such as http://127.0.0.1:8080`},
		{"an address without brackets", "endpoint: 'http://::1/'", `f.yaml:1: endpoint = "http://::1/", want an endpoint such as http://127.0.0.1:8080`},
		{"a bracket that does not end", "endpoint: 'http://[::1'", `f.yaml:1: endpoint = "http://[::1", want an endpoint such as http://127.0.0.1:8080`},
		{"a host with a blank", "endpoint: 'http://a b'", `f.yaml:1: endpoint = "http://a b", want an endpoint such as http://127.0.0.1:8080`},
		{"an endpoint with a port that is none", "endpoint: http://a:70000", `f.yaml:1: endpoint = "http://a:70000" has port "70000", want 1 to 65535`},
		{"a policy's value without unit in a map", "policy:\n  - retry: 1\n    backoff: 5\n", `f.yaml:3: policy backoff = "5" has no unit, want a duration such as 5s`},
		{"a deeper key written as a map", "policy:\n  - retry: 1\n    budget: {share: 10%}\n", `f.yaml:3: policy.budget = a map, want SHARE`},
		{"a policy of a name only", "policy:\n  - name: a\n", `f.yaml:2: a policy without keys, want plain: true or keys such as hedge: p95`},
		{"a contradiction in a map", "policy:\n  - hedge: 2s\n    deadline: 1s\n", `f.yaml:2: policy hedge=2s is not below deadline=1s`},
		{"no policies", "policy: []", `f.yaml:1: policy = an empty list, want a list of policies such as hedge=p95`},
		{"two policies of one name", "policy:\n  - hedge=p95\n  - hedge=p95,budget=10%\n", `f.yaml:3: policies "hedge=p95" and "hedge=p95,budget=10%" are both called "hedge-p95", want a name before one of them, as in NAME:hedge=p95,budget=10%`},
		{"both say when to end", "duration: 10s\nrate: 1/s\nrequests: 5\n", `f.yaml:3: duration=10s and requests=5: both say when to end, want one of them`},
		{"constant arrivals of no rate", "arrivals: constant\n", `f.yaml:1: arrivals=constant needs rate`},
		{"a key twice", "rate: 1/s\nseed: 1\nrate: 2/s\n", `f.yaml:3: key "rate" is given twice, first in line 1`},
		{"a deeper key twice", "service:\n  time: 1s\n  time: 2s\n", `f.yaml:3: key "time" is given twice, first in line 2`},
		{"a distribution that is none", "service:\n  time: unifrom(1ms,2ms)", `f.yaml:2: service.time = "unifrom(1ms,2ms)": unknown distribution "unifrom"`},
		{"a comma inside braces", "service: {time: uniform(1ms,2ms)}", `f.yaml:1: service.time = "uniform(1ms", want as many ) as (; inside { } and [ ] it needs quotes, as commas end a value there`},
		{"a share above all", "service: {slow: {share: 120%, time: 1s}}", `f.yaml:1: service.slow.share = "120%" is above 100%, want a share from 0% to 100%`},
		{"shares that add up to more than all", "service:\n  status: {503: 60%, 500: 60%}\n", `f.yaml:2: service.status: the shares add up to 120%, want at most 100%`},
		{"a status that is none", "service:\n  status:\n    99: 1%\n", `f.yaml:3: service.status has "99", want a status from 200 to 599`},
		{"slow without a time", "service:\n  time: 5ms\n  slow: {share: 2%}\n", `f.yaml:3: service.slow.share = 2%, but slow.time is not given, nor slow.factor`},
		{"slow without a share", "service:\n  time: 5ms\n  slow: {time: 1s}\n", `f.yaml:3: service.slow has no share, want how many requests are slow, such as share: 2%`},
		{"slow by replica without a share", "service:\n  slow:\n    by: replica\n", `f.yaml:3: service.slow has no share, want how many requests are slow, such as share: 2%`},
		{"a wait that no answer carries", "service:\n  status: {500: 1%}\n  retry-after: 1s\n", `f.yaml:3: service.retry-after needs a status 429 or 503, a script or outage with one, or a bounded queue or capacity whose shed is one of them`},
		{"a wait for those shed from a queue without end", "service:\n  slots: 2\n  retry-after: 1s\n", `f.yaml:3: service.retry-after needs a status 429 or 503, a script or outage with one, or a bounded queue or capacity whose shed is one of them`},
		{"a wait for those shed with another status", "service:\n  slots: 2\n  queue: 3\n  shed: 500\n  retry-after: 1s\n", `f.yaml:5: service.retry-after needs a status 429 or 503, a script or outage with one, or a bounded queue or capacity whose shed is one of them`},
		{"a replica that does not differ", "service:\n  each: [{replica: 0}]\n", `f.yaml:2: service.each has neither factor nor a key of a service, want how replica 0 differs`},
		{"a queue of something else", "service: {slots: 1, queue: endless}", `f.yaml:1: service.queue = "endless", want a count such as 100, or unlimited`},
		{"an order of nothing", "service:\n  discipline: lifo\n", `f.yaml:2: service.discipline needs slots or capacity`},
		{"an order of none", "service:\n  slots: 1\n  queue: 0\n  discipline: lifo\n", `f.yaml:4: service.discipline = lifo orders those that wait, but queue = 0 lets none wait`},
		{"an order that is none", "service: {slots: 1, discipline: filo}", `f.yaml:1: service.discipline = "filo", want fifo, lifo, proportional or new-first`},
		{"capacity without a window", "service:\n  capacity: {requests: 5}\n", `f.yaml:2: service.capacity has no per, want both, such as {requests: 100, per: 100ms}`},
		{"capacity beside slots", "service:\n  capacity: {requests: 5, per: 1s}\n  slots: 2\n", `f.yaml:3: service.slots = 2 contradicts capacity: a window has no slots`},
		{"capacity beside a queue", "service:\n  capacity: {requests: 5, per: 1s}\n  queue: 2\n", `f.yaml:3: service.queue contradicts capacity: a window has no queue`},
		{"capacity beside a time", "service:\n  capacity: {requests: 5, per: 1s}\n  time: 5ms\n", `f.yaml:3: service.time = constant(5ms) contradicts capacity: a window answers at its end`},
		{"capacity beside slowness", "service:\n  capacity: {requests: 5, per: 1s}\n  slow: {share: 1%, time: 5ms}\n", `f.yaml:3: service.slow.share = 1% contradicts capacity: a window answers at its end`},
		{"capacity beside a slower replica", "service:\n  capacity: {requests: 5, per: 1s}\n  each: {replica: 0, factor: 2}\n", `f.yaml:3: service.each[0] contradicts capacity: a window answers at its end`},
		{"thrash without its cost", "service: {slots: 1, thrash: {above: 5}}", `f.yaml:1: service.thrash has no factor, want both, such as {above: 150, factor: 50%}`},
		{"thrash that leaves nothing", "service: {slots: 1, thrash: {above: 5, factor: 0%}}", `f.yaml:1: service.thrash.factor = "0%", want a share above 0, such as 50%`},
		{"thrash that never comes", "service:\n  slots: 2\n  queue: 8\n  thrash: {above: 10, factor: 50%}\n", `f.yaml:4: service.thrash.above = 10 is never passed: slots = 2 and queue = 8 hold no more than 10`},
		{"a cost of what does not happen", "service:\n  slots: 2\n  cancel: queued\n  cancel-cost: 5ms\n", `f.yaml:4: service.cancel-cost = 5ms is what stopping running work costs, but cancel = queued stops none`},
		{"a cost in slots that are not there", "service:\n  cancel: running\n  cancel-cost: 5ms\n", `f.yaml:3: service.cancel-cost = 5ms is time in a slot, but slots = 0 sets no limit`},
		{"a deadline that is none", "service: {deadline: 5s}", `f.yaml:1: service.deadline = "5s", want ignore, queued or running`},
		{"slowness of two kinds", "service:\n  slow: {share: 1%, factor: 3, time: 1s}\n", `f.yaml:2: service.slow.factor = 3 contradicts slow.time = constant(1s), want one of them`},
		{"moments of no length", "service: {slow: {share: 1%, factor: 3, by: window}}", `f.yaml:1: service.slow.by = window needs slow.window, its length`},
		{"a length of what are no moments", "service: {slow: {share: 1%, factor: 3, window: 1s}}", `f.yaml:1: service.slow.window = 1s needs slow.by = window, not request`},
		{"copies of an unknown kind", "service: {copies: alike}", `f.yaml:1: service.copies = "alike", want independent, same or mixed`},
		{"a script and shares", "service:\n  status: {503: 1%}\n  script: [503, 200]\n", `f.yaml:3: service.script contradicts status: it says how every attempt ends`},
		{"a script and faults", "service:\n  fault: {reset: 1%}\n  script: [503, 200]\n", `f.yaml:3: service.script contradicts fault: it says how every attempt ends`},
		{"a script with a word that is none", "service: {script: [503, lost]}", `f.yaml:1: service.script = "lost", want a status from 200 to 599, or a fault such as close`},
		{"more faults than requests", "service: {fault: {reset: 60%, hang: 60%}}", `f.yaml:1: service.fault: the shares add up to 120%, want at most 100%`},
		{"an outage of no length", "service:\n  outage: {at: 5s}\n", `f.yaml:2: service.outage has no for, want how long it lasts, such as for: 5s`},
		{"an outage that never ends", "service:\n  outage:\n    - {for: 5s, every: 5s}\n", `f.yaml:2: service.outage[0].for = 5s is not below outage[0].every = 5s`},
		{"an outage that is none", "service: {outage: {for: 5s, kind: 200}}", `f.yaml:1: service.outage.kind = "200", want a status from 400 to 599, or a fault such as reset`},
		{"an outage of an unknown kind", "service: {outage: {for: 5s, kind: lost}}", `f.yaml:1: service.outage.kind = "lost", want a status from 400 to 599, or a fault such as close`},
		{"an outage of a replica that is not there", "service: {replicas: 2, outage: {for: 5s, replicas: [0, 2]}}", `f.yaml:1: service.outage[0].replicas has 2, want 0 to 1`},
		{"an outage of one replica twice", "service: {outage: {for: 5s, replicas: [0, 0]}}", `f.yaml:1: service.outage[0].replicas has 0 twice`},
		{"a stall of no length", "service:\n  stall:\n    - every: 5s\n", `f.yaml:3: service.stall has no for, want how long it lasts, such as for: 300ms`},
		{"a stall without end", "service: {stall: {every: 1s, for: exponential(2s)}}", `f.yaml:1: service.stall[0].for = exponential(2s) is in the mean not below stall[0].every = 1s`},
		{"one stall, each by itself", "service: {stall: {for: 1s, together: false}}", `f.yaml:1: service.stall[0].together = false needs stall[0].every, a part of which each replica is late by`},
		{"a stall that is both", "service: {stall: {for: 1s, together: maybe}}", `f.yaml:1: service.stall.together = "maybe", want true or false`},
		{"a queue before nothing", "service:\n  queue: 5\n", `f.yaml:2: service.queue needs slots`},
		{"a wait of part of a second", "service:\n  retry-after: 1500ms\n", `f.yaml:2: service.retry-after = 1.5s, want whole seconds`},
		{"a replica that does not exist", "service:\n  replicas: 2\n  each: [{replica: 2, factor: 2}]\n", `f.yaml:3: service.each[0].replica = 2, want 0 to 1`},
		{"a key of one replica that is unknown", "service:\n  each:\n    - replica: 0\n      slotss: 2\n", `f.yaml:4: unknown key "slotss" in each, nearest is "slots"`},
		{"replicas of a replica", "service:\n  each: [{replica: 0, replicas: 2}]\n", `f.yaml:2: unknown key "replicas" in each, nearest is "replica"`},
		{"a value of one replica that is wrong", "service:\n  each:\n    - replica: 0\n      fault: {reset: 2}\n", `f.yaml:4: service.each.fault.reset = "2" has no unit, want a share such as 2%`},
		{"one replica contradicts the service", "service:\n  slots: 2\n  each:\n    - {replica: 0, capacity: {requests: 5, per: 1s}}\n", `f.yaml:2: replica 0: service.slots = 2 contradicts capacity: a window has no slots`},
		{"one replica without what the service has", "service:\n  slots: 2\n  queue: 5\n  each:\n    - {replica: 0, slots: none}\n", `f.yaml:3: replica 0: service.queue needs slots`},
		{"a slower window of one replica", "service:\n  each: [{replica: 0, factor: 2, capacity: {requests: 5, per: 1s}}]\n", `f.yaml:2: service.each[0] contradicts capacity: a window answers at its end`},
		{"a ramp of nothing", "service:\n  ramp: [{to: 2}]\n", `f.yaml:2: service.ramp has no key, want both, such as {key: slots, to: 2}`},
		{"a ramp of what there is not", "service:\n  ramp:\n    - key: slotss\n      to: 2\n", `f.yaml:3: service.ramp.key = "slotss", want factor, slots, queue, capacity.requests, slow.share, status.CODE or fault.KIND`},
		{"a ramp without its unit", "service:\n  ramp:\n    - key: status.503\n      to: 20\n", `f.yaml:4: service.ramp.to = "20" has no unit, want a share such as 20%`},
		{"a ramp without slots", "service:\n  ramp: [{key: slots, to: 2}]\n", `f.yaml:2: service.ramp[0].key = slots needs slots`},
		{"a change of no replica", "service:\n  each:\n    - factor: 2\n", `f.yaml:3: service.each has no replica, want its number from 0`},
		{"a body without unit", "service: {body: 10}", `f.yaml:1: service.body = "10" has no unit, want a size such as 10B`},
		{"empty", "", `f.yaml:1: empty, want a workload`},
		{"a comment only", "# nothing\n", `f.yaml:1: empty, want a workload`},
		{"two documents", "rate: 1/s\n---\nrate: 2/s\n", `f.yaml:3: a second document, want one`},
		{"an anchor", "rate: &a 1/s\n", `f.yaml:1: "&": anchors, aliases and merge keys are not used, write the value out`},
		{"an alias", "about: x\nrate: *a\n", `f.yaml:2: "*": anchors, aliases and merge keys are not used, write the value out`},
		{"a merge key", "service:\n  <<: {time: 5ms}\n", `f.yaml:2: "<<": anchors, aliases and merge keys are not used, write the value out`},
		{"a tag", "rate: !!str 1/s\n", `f.yaml:1: "!!str": tags are not used, but for !!binary`},
		{"a tag where none is wanted", "rate: !!binary AAAA\n", `f.yaml:1: rate = a tagged value, want a rate such as 1000/s`},
		{"a complex key", "? a\n: b\n", `f.yaml:1: "?": keys are plain words, as in key: value`},
		{"a directive", "%YAML 1.2\n---\nrate: 1/s\n", `f.yaml:1: directives are not used`},
		{"a tab as indent", "service:\n\ttime: 5ms\n", `f.yaml:2: found character '\t' that cannot start any token`},
		{"a quote that does not end", "rate: 1/s\nabout: \"x\n", `f.yaml:2: could not find end character of double-quoted text`},
		{"a bracket that does not end", "rate: 1/s\nwithin: [5ms\n", `f.yaml:2: sequence end token ']' not found`},
		{"bytes that are no text", "rate: 1/s\nabout: \xff\n", `f.yaml:2: not UTF-8 text`},
		{"control characters", "rate: 1/s\nabout: \x00\n", `f.yaml:2: control character "\x00", want text`},
		{"brackets without end", "within: " + strings.Repeat("[", 1000), `f.yaml:1: more than 32 brackets deep`},
		{"entries without end", strings.Repeat("- ", 1000), `f.yaml:1: a key or list entry in column 201, want at most 200`},
		{"words without end", "within: [" + strings.Repeat("1ms,", 100000) + "]", `f.yaml:1: more than 10000 words and signs`},
		{"a service file that cannot be read", "rate: 1/s\nservice: x.yaml\n", `f.yaml:2: service = "x.yaml": a built-in workload reads no file`},
	} {
		_, err := parseHere(c.text)
		want := "read workload: " + c.want
		switch {
		case err == nil:
			t.Errorf("%s: no error", c.why)
		case strings.HasSuffix(c.want, `"unifrom"`) && strings.HasPrefix(err.Error(), want):
		case err.Error() != want:
			t.Errorf("%s:\n got %s\nwant %s", c.why, err, want)
		}
	}
}

func TestLoadReadsBesideTheFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("My Test.yaml", "service: slow.yaml\nbody: '@body.bin'\n")
	write("slow.yaml", "time: 5ms\n")
	write("body.bin", "\x00\xff")
	w, err := Load(filepath.Join(dir, "My Test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := New()
	want.Name = "my-test"
	want.Service = &service.Spec{Time: dist(t, "5ms"), Queue: -1}
	want.Request.Body = []byte("\x00\xff")
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	s, err := LoadService(filepath.Join(dir, "slow.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Service, s); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	write("bad.yaml", "time: 5ms\nslotss: 3\n")
	write("useless.yaml", "service: bad.yaml\n")
	write("dir.yaml", "service: .\n")
	write("none.yaml", "body: '@none.bin'\n")
	write("big.yaml", "about: "+strings.Repeat("x", maxFile)+"\n")
	write("nobody.yaml", "body: '@'\n")
	for _, c := range []struct {
		why  string
		load func() error
		want string
	}{
		{"an error in the service's file names that file", func() error { _, err := Load(dir + "/useless.yaml"); return err },
			`read service: DIR/bad.yaml:2: unknown key "slotss", nearest is "slots"`},
		{"a directory is no service", func() error { _, err := Load(dir + "/dir.yaml"); return err },
			`read workload: DIR/dir.yaml:1: service = ".": DIR is a directory, want a file`},
		{"a body that is not there", func() error { _, err := Load(dir + "/none.yaml"); return err },
			`read workload: DIR/none.yaml:1: body = "@none.bin": stat DIR/none.bin: no such file or directory`},
		{"a body without a name", func() error { _, err := Load(dir + "/nobody.yaml"); return err },
			`read workload: DIR/nobody.yaml:1: body = "@", want @FILE with the name of a file`},
		{"a workload that is not there", func() error { _, err := Load(dir + "/gone.yaml"); return err },
			`read workload: stat DIR/gone.yaml: no such file or directory`},
		{"a workload that is too large", func() error { _, err := Load(dir + "/big.yaml"); return err },
			`read workload: DIR/big.yaml has more than 1048576 bytes`},
		{"a service that is not there", func() error { _, err := LoadService(dir + "/gone.yaml"); return err },
			`read service: stat DIR/gone.yaml: no such file or directory`},
		{"a service with an error", func() error { _, err := ParseService("s.yaml", []byte("slots: -1")); return err },
			`read service: s.yaml:1: slots = "-1" is negative, want a count such as 100 or 10k`},
	} {
		err := c.load()
		if err == nil {
			t.Errorf("%s: no error", c.why)
		} else if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.why, got, c.want)
		}
	}
}

func TestBuiltin(t *testing.T) {
	if diff := cmp.Diff([]string{"constant", "flaky", "hedge-tail", "queue"}, Names()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, name := range Names() {
		w, err := Builtin(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if w.Name != name || w.About == "" || w.Service == nil {
			t.Errorf("%s: name %q, about %q, service %v", name, w.Name, w.About, w.Service)
		}
		data, _ := builtin.ReadFile(name + ".yaml")
		if !strings.HasPrefix(string(data), "# ") {
			t.Errorf("%s does not begin with a comment", name)
		}
	}
	_, err := Builtin("hedgetail")
	if want := `no built-in workload "hedgetail", nearest is "hedge-tail"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}

	w, err := Builtin("hedge-tail")
	if err != nil {
		t.Fatal(err)
	}
	names := func(w *Workload) string {
		var s []string
		for _, np := range w.Policies {
			s = append(s, np.Name)
		}
		return strings.Join(s, " ")
	}
	if got := names(w); got != "plain hedge-p95" || w.Duration != 10*time.Second || w.Requests != 0 {
		t.Errorf("run: %s for %v, %d requests", got, w.Duration, w.Requests)
	}
	if s := w.ForSim(); names(s) != "plain hedge-58ms hedge-p95" || s.Duration != 0 || s.Requests != 1e6 {
		t.Errorf("sim: %s for %v, %d requests", names(s), s.Duration, s.Requests)
	}
}

func TestIdempotent(t *testing.T) {
	for _, c := range []struct {
		why string
		r   Request
		ok  bool
	}{
		{"GET is", Request{Method: "GET"}, true},
		{"PUT is", Request{Method: "PUT"}, true},
		{"POST is not", Request{Method: "POST"}, false},
		{"PATCH is not", Request{Method: "PATCH"}, false},
		{"a key makes it so", Request{Method: "POST", Headers: []Header{{"idempotency-key", "1"}}}, true},
	} {
		if got := c.r.Idempotent(); got != c.ok {
			t.Errorf("%s: %v", c.why, got)
		}
	}
}

func TestMarshal(t *testing.T) {
	slow := dist(t, "mixture(98%:uniform(20ms,60ms),2%:constant(1s))")
	full := New()
	full.Name, full.About = "full", "quotes \" and \\, a\nline\t\u2028 \U000e0001 é: #x"
	full.Rate, full.Arrivals, full.Requests, full.Warmup = 27778, Constant, 123, 1500*time.Microsecond
	full.WarmupGiven = true
	full.Clients, full.Threads, full.Connections, full.Drain = 2, 3, 1500, time.Minute
	full.Within = []time.Duration{1, time.Hour}
	full.Request = Request{Method: "POST", Path: "/?a=1,2&b=%20", Headers: []Header{{"Accept", "*/*"}, {"X", "é: \"q\" # {"}}, Body: []byte("{\n \"a\": null\n}")}
	full.Endpoints = []string{"http://[::1]:8080", "http://b"}
	full.Seed = 0
	for _, s := range []string{"a:plain", "hedge=p99.9,budget=12.5%", "x:retry=3,retry.on=429+503,backoff=1ms..2s,jitter=none"} {
		np, err := ParsePolicy(s)
		if err != nil {
			t.Fatal(err)
		}
		full.Policies = append(full.Policies, np)
	}
	full.Sim = Sim{Policies: full.Policies[:1], Duration: time.Second}
	full.Service = &service.Spec{Replicas: 3, Time: slow, Slow: service.Slow{Share: 0.1, Time: dist(t, "empirical(1ms,2ms)"), By: service.SlowByReplica},
		Slots: 1, Queue: 0, Shed: 429, Status: []service.StatusShare{{Status: 503, Share: 0.1}, {Status: 500, Share: 1e-5}}, RetryAfter: time.Second,
		Cancel: service.CancelQueued, Body: 1000, Each: []service.Each{{Replica: 0, Factor: 0.5}, {Replica: 2, Time: &slow}}}

	cases := map[string]*Workload{"every key": full}
	empty := New()
	empty.Name = "empty"
	cases["no key"] = empty
	binary := New()
	binary.Name, binary.Request.Body = "binary", []byte{0, 255, '\n'}
	cases["a body of bytes"] = binary
	at := New()
	at.Name, at.Request.Body = "at", []byte("@not-a-file")
	cases["a body that begins with @"] = at
	none := New()
	none.Name, none.Request.Body = "none", []byte{}
	cases["an empty body"] = none
	for _, name := range Names() {
		w, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Service.Replicas = w.Service.Servers()
		cases[name] = w
	}
	for why, w := range cases {
		data, err := w.Marshal()
		if err != nil {
			t.Errorf("%s: %v", why, err)
			continue
		}
		got, err := Parse("x.yaml", data)
		if err != nil {
			t.Errorf("%s: %v in\n%s", why, err, data)
			continue
		}
		if diff := cmp.Diff(w, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s\nin\n%s", why, diff, data)
		}
	}

	bad := New()
	bad.Request.Method = "GE T"
	if _, err := bad.Marshal(); err == nil {
		t.Error("a workload that no file holds was written")
	}
}

func TestMarshalService(t *testing.T) {
	for _, s := range []*service.Spec{
		{Replicas: 1, Queue: -1},
		{Replicas: 3, Time: dist(t, "exponential(10ms)"), Slots: 2, Queue: 7},
		{Replicas: 1, Slots: 2, Queue: -1, Discipline: service.NewFirst},
		{Replicas: 1, Queue: -1, Capacity: service.Capacity{Requests: 100, Per: 100 * time.Millisecond}, Discipline: service.Proportional, Shed: 429,
			RetryAfter: time.Second, Thrash: service.Thrash{Above: 150, Factor: 0.5}},
		{Replicas: 1, Queue: -1, Slow: service.Slow{Share: 0.1, Factor: 2.5, By: service.SlowByWindow, Window: time.Second}, Copies: service.CopiesMixed,
			Faults: service.Faults{service.FaultRefuse: {Share: 0.01}, service.FaultHang: {Share: 0.2}}},
		{Replicas: 1, Queue: -1, Slow: service.Slow{Share: 0.1, Time: dist(t, "1s"), By: service.SlowByConnection}, Copies: service.CopiesSame,
			Script: []service.Ending{{Status: 503}, {Fault: service.FaultReset}, {Status: 200}}, RetryAfter: time.Second},
		{Replicas: 1, Queue: -1, Slots: 3, Cancel: service.CancelRunning, CancelCost: time.Millisecond, Deadline: service.DeadlineRunning, Thrash: service.Thrash{Factor: 0.25}},
		{Replicas: 3, Queue: -1, RetryAfter: time.Second, Outages: []service.Outage{
			{At: time.Second, For: 2 * time.Second, Every: time.Minute, Ending: service.Ending{Status: 429}, Replicas: []int{0, 2}},
			{For: 1, Ending: service.Ending{Fault: service.FaultHang}}}},
		{Replicas: 3, Queue: -1, Stalls: []service.Stall{
			{At: 1, Every: 20 * time.Second, For: dist(t, "exponential(300ms)"), Apart: true, Replicas: []int{1}},
			{At: time.Minute, For: dist(t, "10s")}}},
		{Replicas: 2, Queue: 9, Slots: 4, RetryAfter: time.Second, Ramps: []service.Ramp{
			{Key: "slots", From: new(float64), To: 2, At: time.Second, For: time.Minute, Steps: 3, Every: time.Hour, Replicas: []int{1}},
			{Key: "factor", To: 2.5}, {Key: "status.503", To: 0.125, For: time.Second}}},
	} {
		for i := range s.Ramps {
			if s.Ramps[i].From != nil {
				*s.Ramps[i].From = 7
			}
		}
		data, err := MarshalService(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseService("s.yaml", data)
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		if diff := cmp.Diff(s, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		data, err := builtin.ReadFile(name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	for _, s := range []string{
		"", "a", "- a", "[", "{", "? a", "a: |\n x\n", "about: \"\\u263a\"\n", "body: !!binary AAAA", "service: {each: [{replica: 0}]}",
		"policy: [{retry: 1, retry.on: [503]}]", "header: ['A: b']\nmethod: POST\nendpoint: http://a\n", "---\n---\n", "&a *a", "rate: 1/s\r\nx: 1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parseHere(text)
		if err != nil {
			if s := err.Error(); !strings.HasPrefix(s, "read workload: f.yaml") || strings.ContainsAny(s, "\n\r") {
				t.Fatalf("error %q", s)
			}
			return
		}
		if w.Service != nil && w.Service.Replicas == 0 {
			w.Service.Replicas = 1
		}
		data, err := w.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseHere(string(data))
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		if diff := cmp.Diff(w, again); diff != "" {
			t.Fatalf("(-first +again)\n%s\nin\n%s", diff, data)
		}
	})
}
