package workloads

import (
	"strings"
	"testing"
)

// steerCase is an entry with what it reads back as, or a part of its error.
type steerCase struct{ in, out, err string }

var resolveCases = []steerCase{
	{in: "example.com:443:127.0.0.1", out: "example.com:443:127.0.0.1"},
	{in: "Example.COM:443:127.0.0.1,[::1]", out: "example.com:443:127.0.0.1,[::1]"},
	{in: "*:80:::1", out: "*:80:[::1]"},
	{in: "[::1]:80:[2001:db8::1],10.0.0.1", out: "[::1]:80:[2001:db8::1],10.0.0.1"},
	{in: "[0:0::1]:80:[fe80::1%lo]", out: "[::1]:80:[fe80::1%lo]"},
	{in: "a:1:[::ffff:10.0.0.1]", out: "a:1:10.0.0.1"},
	{in: "", err: "want HOST:PORT:ADDRESS"},
	{in: "example.com", err: "want HOST:PORT:ADDRESS"},
	{in: "example.com:443", err: "want HOST:PORT:ADDRESS"},
	{in: ":443:127.0.0.1", err: "want HOST:PORT:ADDRESS"},
	{in: "::1:80:127.0.0.1", err: "want HOST:PORT:ADDRESS"},
	{in: "[::1:80:127.0.0.1", err: "want HOST:PORT:ADDRESS"},
	{in: "a:0:127.0.0.1", err: `has port "0", want 1 to 65535`},
	{in: "a:65536:127.0.0.1", err: `has port "65536", want 1 to 65535`},
	{in: "a:http:127.0.0.1", err: `has port "http"`},
	{in: "a:80:", err: `has the address ""`},
	{in: "a:80:localhost", err: `has the address "localhost", want numbers such as 127.0.0.1 or [::1]`},
	{in: "a:80:127.0.0.1,", err: `has the address ""`},
	{in: "a:80:127.0.0.1:81", err: `has the address "127.0.0.1:81"`},
	{in: "a:80:[127.0.0.1]", err: `has the address "[127.0.0.1]"`},
	{in: "a b:80:127.0.0.1", err: `has the host "a b"`},
	{in: "[12:zz]:80:127.0.0.1", err: `has the host "[12:zz]"`},
	{in: "[1:2]:80:127.0.0.1", err: "no IPv6 address"},
	{in: "+a:80:127.0.0.1", err: `begins with "+"`},
	{in: "-a:80", err: `begins with "-"`},
}

var connectCases = []steerCase{
	{in: "example.com:443:other.test:8443", out: "example.com:443:other.test:8443"},
	{in: "::other:", out: "::other:"},
	{in: ":::81", out: ":::81"},
	{in: "A:80::81", out: "a:80::81"},
	{in: "a::[::1]:8080", out: "a::[::1]:8080"},
	{in: "[::1]:80:127.0.0.1:", out: "[::1]:80:127.0.0.1:"},
	{in: "", err: "want HOST1:PORT1:HOST2:PORT2"},
	{in: "a:80:b", err: "want HOST1:PORT1:HOST2:PORT2"},
	{in: "a:80:b:81:82", err: `has port "81:82"`},
	{in: "a:80::", err: "leads nowhere else"},
	{in: "a:x:b:80", err: `has port "x", want 1 to 65535`},
	{in: "a:80:b:0", err: `has port "0", want 1 to 65535`},
	{in: "a:80:http://b:80", err: `has port "//b:80"`},
	{in: "*:80:b:80", err: `has the host "*"`},
	{in: "[::1:80:b:80", err: "want HOST1:PORT1:HOST2:PORT2"},
}

// checkSteer reads one entry, which must read back as it is written.
func checkSteer[T interface{ String() string }](t *testing.T, c steerCase, parse func(string) (T, error)) {
	t.Helper()
	got, err := parse(c.in)
	switch {
	case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
		t.Errorf("%q: %v, want %s", c.in, err, c.err)
	case c.err == "" && err != nil:
		t.Errorf("%q: %v", c.in, err)
	case c.err == "" && got.String() != c.out:
		t.Errorf("%q: %s, want %s", c.in, got, c.out)
	}
}

func TestParseSteer(t *testing.T) {
	for _, c := range resolveCases {
		checkSteer(t, c, ParseResolve)
	}
	for _, c := range connectCases {
		checkSteer(t, c, ParseConnectTo)
	}
}

// TestSteerIsKept: a workload file has both keys, and the resolved one has them
// again.
func TestSteerIsKept(t *testing.T) {
	w, err := Parse("w.yaml", []byte("rate: 1/s\nresolve: ['a:80:127.0.0.1,[::1]']\nconnect-to: 'a::b:81'\n"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a:80:127.0.0.1,[::1]", "a::b:81"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s\nwant %s in it", text, want)
		}
	}
	if _, err := Parse("w.yaml", []byte("connect-to:\n  - a:80:b:99999\n")); err == nil || !strings.HasPrefix(err.Error(), "read workload: w.yaml:2: connect-to") {
		t.Errorf("%v, want its line and key", err)
	}
}

func FuzzSteer(f *testing.F) {
	for _, c := range append(resolveCases, connectCases...) {
		f.Add(c.in)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseResolve(s); err == nil {
			checkSteer(t, steerCase{in: r.String(), out: r.String()}, ParseResolve)
		}
		if c, err := ParseConnectTo(s); err == nil {
			checkSteer(t, steerCase{in: c.String(), out: c.String()}, ParseConnectTo)
		}
	})
}
