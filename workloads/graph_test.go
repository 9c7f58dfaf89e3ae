package workloads

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// again fails unless the graph reads back from what it is written as.
func again(t testing.TB, g *Graph) {
	t.Helper()
	data, err := MarshalGraph(g)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseGraph("again", data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	twice, err := MarshalGraph(back)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(data), string(twice)); d != "" {
		t.Errorf("written again:\n%s", d)
	}
}

func TestGraphFile(t *testing.T) {
	g, err := ParseGraph("g.yaml", []byte(`
entry: b
services:
  c: {time: 3ms}
  b:
    time: 1ms
    time-after: 2ms
    cancels: true
    calls:
      - {to: c, policy: "retry=2,attempt-timeout=500ms", reserve: 20ms, min-start: 5ms, forward-deadline: grpc-timeout}
      - {to: c, name: again, fan: 3, need: 2, after: c, optional: true, policy: {deadline: 1s}, forward-deadline: true, connections: 4}
      - {to: "http://127.0.0.1:81/x?y=1", after: [c, again]}
`))
	if err != nil {
		t.Fatal(err)
	}
	b := g.Services[0]
	if b.Name != "b" || g.Services[1].Name != "c" || !b.Cancels || b.After.String() != "constant(2ms)" || len(b.Calls) != 3 {
		t.Fatalf("%+v", g)
	}
	x, y, z := b.Calls[0], b.Calls[1], b.Calls[2]
	if p := x.Policy.Policy; x.Name != "c" || x.To != 1 || p.Reserve != 20e6 || p.MinStart != 5e6 || p.Wire.String() != "grpc-timeout" {
		t.Errorf("%+v", x)
	}
	if y.Name != "again" || y.Copies() != 3 || y.Needed() != 2 || !y.Optional || !cmp.Equal(y.After, []int{0}) || y.Policy.Policy.Wire.String() != "x-deadline-ms" || y.Connections != 4 {
		t.Errorf("%+v", y)
	}
	if host, path, err := z.HostAndPath(); err != nil || host != "127.0.0.1:81" || path != "/x?y=1" || z.To != -1 || !cmp.Equal(z.After, []int{0, 1}) {
		t.Errorf("%+v: %s %s %v", z, host, path, err)
	}
	again(t, g)
}

func TestGraphOfOne(t *testing.T) {
	g, err := ParseGraph("one.yaml", []byte("time: 5ms\n"))
	if err != nil || len(g.Services) != 1 || g.Calls() || g.Entry().Time.String() != "constant(5ms)" {
		t.Fatalf("%+v, %v", g, err)
	}
	again(t, g)
}

func TestGraphErrors(t *testing.T) {
	for _, row := range []struct{ name, file, want string }{
		{"a circle", "services:\n  a: {calls: [{to: b}]}\n  b:\n    calls:\n      - to: c\n  c:\n    calls:\n      - {to: a}\n",
			`g.yaml:8: service c: call a: the services call each other in a circle: a -> b -> c -> a`},
		{"a call of itself", "services:\n  a: {calls: [{to: a}]}\n", "g.yaml:2: service a: call a: the services call each other in a circle: a -> a"},
		{"nobody", "services:\n  a:\n    calls:\n      - {to: bb}\n  b: {}\n", `g.yaml:4: service a: to = "bb", want a service of the file or a URL, nearest is "b"`},
		{"no to", "services:\n  a:\n    calls:\n      - {policy: plain}\n", "g.yaml:4: services.a.calls has no to, want a service of the file or a URL"},
		{"entry", "entry: c\nservices:\n  a: {}\n", `g.yaml:1: entry = "c", want a service of the file, nearest is "a"`},
		{"need above fan", "services:\n  a:\n    calls:\n      - {to: b, fan: 2, need: 3}\n  b: {}\n", "g.yaml:4: service a: call b: need = 3, want 1 to fan=2"},
		{"optional without bound", "services:\n  a:\n    calls: [{to: b, optional: true}]\n  b: {}\n", "g.yaml:3: service a: call b: optional needs a policy with a deadline: it must not keep the request for longer"},
		{"after later", "services:\n  a:\n    calls: [{to: b, after: c}, {to: c}]\n  b: {}\n  c: {}\n", `g.yaml:3: service a: call b: after = "c", want the name of a call before it`},
		{"a name twice", "services:\n  a:\n    calls: [{to: b}, {to: b}]\n  b: {}\n", "g.yaml:3: service a: call b: another call has the same name, want a name for one of them"},
		{"reserve twice", "services:\n  a:\n    calls: [{to: b, reserve: 1ms, policy: \"deadline=1s,reserve=2ms\"}]\n  b: {}\n", "g.yaml:3: reserve is given twice, in the policy too"},
		{"forwarded and not", "services:\n  a:\n    calls: [{to: b, forward-deadline: false, policy: \"deadline=1s,deadline.wire=grpc-timeout\"}]\n  b: {}\n", "g.yaml:3: forward-deadline=false contradicts deadline.wire=grpc-timeout of the policy"},
		{"a policy", "services:\n  a:\n    calls: [{to: b, policy: \"retries=2\"}]\n  b: {}\n", `g.yaml:3: policy "retries=2": unknown key "retries", nearest is "retry"`},
		{"cancels nothing", "services:\n  a: {cancels: true}\n", "g.yaml:2: service a: cancels without calls"},
		{"a service's own key", "services:\n  a:\n    tim: 5ms\n", `g.yaml:3: unknown key "tim" in service a, nearest is "time"`},
		{"a URL", "services:\n  a:\n    calls: [{to: \"ftp://x/\"}]\n", `g.yaml:3: to = "ftp://x/", want a URL such as http://127.0.0.1:8080/`},
		{"mixed", "services:\n  a: {}\ntime: 5ms\n", `g.yaml:3: unknown key "time"`},
		{"none", "services: {}\n", "g.yaml:1: 0 services, want 1 to 64"},
	} {
		_, err := ParseGraph("g.yaml", []byte(row.file))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v\nwant %s", row.name, err, row.want)
		}
	}
}

// TestClientExamples: the servers of docs/test-a-client.md are read.
func TestClientExamples(t *testing.T) {
	files, err := filepath.Glob("../docs/examples/client/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if _, err := LoadService(name); err != nil {
			t.Error(err)
		}
	}
}

// TestGraphExamples: the examples are read, alone and in a workload, and written.
func TestGraphExamples(t *testing.T) {
	files, err := filepath.Glob("../docs/examples/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "-load.yaml") {
			w, err := Load(name)
			if err != nil {
				t.Error(err)
				continue
			}
			data, err := w.Marshal()
			if err != nil {
				t.Error(err)
				continue
			}
			back, err := Parse("again.yaml", data)
			if err != nil || back.Graph == nil || len(back.Graph.Services) != len(w.Graph.Services) {
				t.Errorf("%s: read again %v", name, err)
			}
			continue
		}
		g, err := LoadGraph(name)
		if err != nil {
			t.Error(err)
			continue
		}
		again(t, g)
	}
}

func FuzzGraph(f *testing.F) {
	files, _ := filepath.Glob("../docs/examples/*.yaml")
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil {
			f.Add(data)
		}
	}
	f.Add([]byte("services: {a: {calls: [{to: a}]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ParseGraphText("fuzz", data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("more than one line: %q", err)
			}
			return
		}
		if err := g.Validate(); err != nil {
			t.Fatal(err)
		}
		again(t, g)
	})
}
