package target

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"latencylab/service"
)

func TestLive(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	c := dial(t, tg.Replicas()[0])
	for range 3 {
		c.send(get("r", 1, 1))
		c.answer("GET")
	}
	for _, row := range []struct{ accept, kind, before string }{
		{"*/*", "application/x-ndjson", ""},
		{"text/event-stream", "text/event-stream", "data: "},
	} {
		req, err := http.NewRequest("GET", "http://"+tg.Admin().String()+"/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", row.accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		resp.Body.Close()
		text, ok := strings.CutPrefix(line, row.before)
		var l Live
		if err == nil {
			err = json.Unmarshal([]byte(text), &l)
		}
		if err != nil || !ok || resp.Header.Get("Content-Type") != row.kind {
			t.Fatalf("%q of %q: %v", line, resp.Header.Get("Content-Type"), err)
		}
		if l.Arrived != 3 || l.Answered[200] != 3 || l.Repeats != 2 {
			t.Errorf("%+v", l)
		}
	}
}
