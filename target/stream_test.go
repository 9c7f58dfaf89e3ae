package target

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latencylab/service"
)

func TestStream(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Replicas: 2, Queue: -1}, Threads: 2})
	resp, err := http.Get("http://" + tg.Admin().String() + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i, addr := range tg.Replicas() {
		c := dial(t, addr)
		for call := range uint64(3) {
			c.send(get("r", 10*uint64(i)+call, 1))
			c.answer("GET")
		}
	}
	calls := map[uint64]bool{}
	for s := bufio.NewScanner(resp.Body); len(calls) < 6 && s.Scan(); {
		if strings.HasPrefix(s.Text(), `{"lost":0`) {
			continue
		}
		a, err := ParseAttempt(s.Bytes())
		if err != nil || a.End != "answered" {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		calls[a.Call] = true
	}
	if len(calls) != 6 {
		t.Errorf("calls %v, want 6", calls)
	}
	if r := tg.Ledger().Record; r.Readers != 1 || r.Lost != 0 {
		t.Errorf("record %+v", r)
	}
}

// TestSlowReader: what was overwritten before a reader came is counted, and told
// where it is missing.
func TestSlowReader(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	tg.loops[0].do(func() { tg.loops[0].ring.init(16) })
	r := tg.newReader()
	c := dial(t, tg.Replicas()[0])
	for call := range uint64(50) {
		c.send(get("r", call, 1))
		c.answer("GET")
	}
	n := r.next(0)
	lines := strings.Split(strings.TrimSpace(string(r.text)), "\n")
	if n != 16 || len(lines) != 17 || lines[0] != `{"lost":34}` || tg.Ledger().Record.Lost != 34 {
		t.Errorf("%d records, %q, lost %d", n, lines[0], tg.Ledger().Record.Lost)
	}
}

func TestRecordToAFile(t *testing.T) {
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	f, err := os.Create(filepath.Join(t.TempDir(), "record"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stop := tg.Record(f, func(err error) { t.Error(err) })
	c := dial(t, tg.Replicas()[0])
	for call := range uint64(50) {
		c.send(get("r", call, 1))
		c.answer("GET")
	}
	tg.Stop()
	stop()
	b, err := os.ReadFile(f.Name())
	if err != nil || strings.Count(string(b), "\n") != 50 || tg.Ledger().Record != (RecordLedger{Records: 50}) {
		t.Errorf("%d lines, %v, %+v", strings.Count(string(b), "\n"), err, tg.Ledger().Record)
	}
}

// TestFullDisk: said once, counted, and serving goes on.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	tg := begin(t, Config{Service: &service.Spec{Queue: -1}})
	said := 0
	stop := tg.Record(full, func(error) { said++ })
	c := dial(t, tg.Replicas()[0])
	for call := range uint64(20) {
		c.send(get("r", call, 1))
		c.answer("GET")
	}
	settle(t, "loss", func() bool { return tg.Ledger().Record.Lost == 20 })
	c.send(get("r", 20, 1))
	c.answer("GET")
	tg.Stop()
	stop()
	if r := tg.Ledger().Record; said != 1 || r.Lost != 21 || r.Records != 0 {
		t.Errorf("said %d times, %+v", said, r)
	}
}
