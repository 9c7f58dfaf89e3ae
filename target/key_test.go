package target

import (
	"testing"

	"latencylab/service"
)

// TestScriptKey: foreign callers meet the script by the value of a header, those
// without it all together, and callers that number their calls by attempt.
func TestScriptKey(t *testing.T) {
	spec := &service.Spec{Queue: -1, ScriptKey: "X-Key", Script: []service.Ending{{Status: 503}, {Status: 503}, {Status: 200}}}
	tg := begin(t, Config{Service: spec})
	c := dial(t, tg.Replicas()[0])
	keyed := func(field string) string { return "GET / HTTP/1.1\r\nHost: a\r\n" + field + "\r\n\r\n" }
	for i, row := range []struct {
		request string
		want    int
	}{
		{keyed("X-Key: a"), 503},
		{keyed("x-key:b"), 503},
		{keyed("X-KEY: a "), 503},
		{keyed("X-Kez: a"), 503}, // without, the first
		{keyed("X-Key: a"), 200},
		{plainGet, 503}, // without, the second
		{get("r", 7, 3), 200},
		{keyed("Latencylab-Run: r"), 503},
		{keyed("Latencylab-Run: r"), 503},
		{keyed("Latencylab-Run: r"), 503},
		{plainGet, 200},
		{keyed("X-Key: a"), 200},
		{keyed("X-Key: b"), 503},
		{keyed("X-Key: b"), 200},
	} {
		if i%2 == 1 { // the connection makes no difference
			c = dial(t, tg.Replicas()[0])
		}
		c.send(row.request)
		if resp, _ := c.answer("GET"); resp.StatusCode != row.want {
			t.Errorf("request %d: status %d, want %d", i, resp.StatusCode, row.want)
		}
	}
	tg.Reset()
	c.send(keyed("X-Key: a"))
	if resp, _ := c.answer("GET"); resp.StatusCode != 503 {
		t.Errorf("after a reset: status %d, want 503", resp.StatusCode)
	}
}
