package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"latencylab/target"
	"latencylab/workloads"
)

// TestClientMeetsFaults: what docs/test-a-client.md says of net/http, but for
// how long it took.
func TestClientMeetsFaults(t *testing.T) {
	spec, err := workloads.LoadService("faults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tg, err := target.Start(target.Config{Service: spec})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Stop)
	const patient, hasty = time.Minute, 200 * time.Millisecond
	for _, row := range []struct {
		replica int
		timeout time.Duration
		want    []string // part of what each request in turn says
		arrived uint64
	}{
		{0, patient, []string{"200, 1024 bytes"}, 1},
		{1, patient, []string{"connection reset by peer"}, 1},
		{2, hasty, []string{"deadline exceeded"}, 1},
		{4, hasty, []string{"deadline exceeded"}, 1},
		{5, hasty, []string{"deadline exceeded"}, 1},
		{6, patient, []string{"unexpected EOF"}, 1},
		{8, patient, []string{"200, 1024 bytes", "200, 1024 bytes"}, 3}, // sent again in silence
		{9, patient, []string{"503, 1024 bytes, Retry-After 1", "503,", "200, 1024 bytes"}, 3},
	} {
		client := http.Client{Timeout: row.timeout, Transport: &http.Transport{}}
		for i, want := range row.want {
			_, text, err := get(&client, "http://"+tg.Replicas()[row.replica].String()+"/")
			if err != nil {
				text = err.Error()
			}
			if !strings.Contains(text, want) {
				t.Errorf("replica %d, request %d: %q, want %q", row.replica, i+1, text, want)
			}
		}
		client.CloseIdleConnections()
		if row.timeout == hasty {
			continue // on a busy machine it may have left before its request came
		}
		if n := tg.Ledger().Run("").ByReplica[row.replica]; n != row.arrived {
			t.Errorf("replica %d: %d requests arrived, want %d", row.replica, n, row.arrived)
		}
	}
}
