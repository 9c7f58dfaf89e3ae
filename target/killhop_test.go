package target

import "testing"

// TestKillOfServicesThatCall: a service that dies gives up what it has called
// for; one whose callee dies sees its call fail.
func TestKillOfServicesThatCall(t *testing.T) {
	for _, threads := range []int{1, 2} {
		tg := chain(t, threads, `
services:
  a: {time: 0ms, calls: [{to: b, policy: "plain"}]}
  b: {time: 1h, cancel: running}
`)
		for dies, name := range []string{"a", "b"} {
			c := dial(t, tg.Replicas()[0])
			c.send(get(name, 0, 1))
			settle(t, "a request at work in b", func() bool { return tg.Backlog().Replicas[1].InFlight == 1 })
			if _, err := tg.Kill(0, dies); err != nil {
				t.Fatal(err)
			}
			if dies == 0 {
				c.reset()
			} else if resp, _ := c.answer("GET"); resp.StatusCode < 500 {
				t.Errorf("%d loops: status %d of a call that failed", threads, resp.StatusCode)
			}
			l := checked(t, tg)
			killed := uint64(0)
			for i := range l.Services {
				killed += l.Services[i].Total().Killed
			}
			if killed != uint64(dies+1) {
				t.Errorf("%d loops: killed %d after the death of %s, want %d", threads, killed, name, dies+1)
			}
			if _, err := tg.Revive(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
