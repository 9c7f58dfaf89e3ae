package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"latencylab/target"
)

// TestLedgerAndRecordAtTheEnd: an interrupt leaves both, whole.
func TestLedgerAndRecordAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	out, record := filepath.Join(dir, "ledger.json"), filepath.Join(dir, "record")
	p := run(t, "--port", "0", "--ledger-out", out, "--record", record)
	c := http.Client{Timeout: patience}
	for range 3 {
		resp, err := c.Get(strings.Fields(p.lines["replica"])[1])
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	p.signals <- syscall.SIGTERM
	if code := p.exit(); code != 0 {
		t.Fatalf("exit %d: %s", code, p.stderr.String())
	}
	var l target.Ledger
	b, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil || l.Total().Arrived != 3 || l.Record.Records != 3 || l.Record.Readers != 0 {
		t.Errorf("ledger %+v: %v", l.Record, err)
	}
	if b, err := os.ReadFile(record); err != nil || strings.Count(string(b), "\n") != 3 {
		t.Errorf("record %q: %v", b, err)
	}
}

// TestLedgerThatCannotBeWritten is printed, and the exit code says so.
func TestLedgerThatCannotBeWritten(t *testing.T) {
	var stdout, stderr strings.Builder
	a := &app{stdout: &stdout, stderr: &stderr}
	err := a.writeLedger(&target.Ledger{Schema: target.Schema}, filepath.Join(t.TempDir(), "no", "such", "ledger.json"))
	if err == nil || !strings.Contains(err.Error(), "it was printed instead") || !strings.Contains(stdout.String(), target.Schema) {
		t.Errorf("error %v, printed %q", err, stdout.String())
	}
}
