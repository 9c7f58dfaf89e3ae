package target

import (
	"net/netip"
	"testing"

	"latencylab/service"
)

// TestHosts: replicas at addresses of their own have one port, also after they
// were killed.
func TestHosts(t *testing.T) {
	var list []netip.Addr
	for _, a := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
		list = append(list, netip.MustParseAddr(a))
	}
	tg, err := Start(Config{Service: &service.Spec{Replicas: 3, Each: []service.Each{{Replica: 1, Factor: 2}}}, Hosts: list, Threads: 2})
	if err != nil {
		t.Skipf("this system has no such addresses: %v", err)
	}
	t.Cleanup(tg.Stop)
	if _, err := tg.Kill(0, 1); err != nil {
		t.Fatal(err)
	}
	refused(t, tg, 1)
	if _, err := tg.Revive(1); err != nil {
		t.Fatal(err)
	}
	for i, at := range tg.Replicas() {
		if at.Addr() != list[i] || at.Port() != tg.Replicas()[0].Port() {
			t.Errorf("replica %d at %v", i, at)
		}
		c := dial(t, at)
		c.send(plainGet)
		if resp, _ := c.answer("GET"); replicaOf(t, resp) != i {
			t.Errorf("%v is replica %d, want %d", at, replicaOf(t, resp), i)
		}
	}
	if _, err := Start(Config{Service: &service.Spec{Replicas: 2}, Hosts: list}); err == nil || err.Error() != "hosts has 3 addresses, want 2: one for each replica" {
		t.Errorf("error %v", err)
	}
}
