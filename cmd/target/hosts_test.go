package main

import (
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"127.0.0.2-127.0.0.4", "127.0.0.2 127.0.0.3 127.0.0.4"},
		{"::1", "::1"},
		{"127.0.0.9,127.0.1.255-127.0.2.0", "127.0.0.9 127.0.1.255 127.0.2.0"},
	} {
		list, err := hosts(row.text)
		var got []string
		for _, a := range list {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != row.want || err != nil {
			t.Errorf("%s: %v, %v; want %s", row.text, got, err, row.want)
		}
	}
	for _, row := range []struct{ text, want string }{
		{"", `"" is not an IP address`},
		{"localhost", `"localhost" is not an IP address`},
		{"127.0.0.2-9", `"9" is not an IP address`},
		{"127.0.0.9-127.0.0.2", "does not go upwards"},
		{"127.0.0.1-::1", "does not go upwards"},
		{"10.0.0.0-10.255.255.255", "more than 65535 addresses"},
	} {
		if _, err := hosts(row.text); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want %q", row.text, err, row.want)
		}
	}
	a := newOptions()
	args, err := a.parse(strings.Fields("--hosts 127.0.0.2-127.0.0.4"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := a.config(args); err != nil || cfg.Service.Servers() != 3 || len(cfg.Hosts) != 3 {
		t.Errorf("%+v, %v; want three replicas", cfg, err)
	}
	a = newOptions()
	if args, err = a.parse(strings.Fields("--hosts 127.0.0.2-127.0.0.4 --replicas 2")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.config(args); err == nil || err.Error() != "--hosts names 3 addresses, want 2: one for each replica" {
		t.Errorf("error %v", err)
	}
}
