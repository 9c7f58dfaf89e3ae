package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestLogTakesItsNameWithItsRun: an older log is replaced only together with the
// Run beside it, and a run of which nothing was measured leaves none.
func TestLogTakesItsNameWithItsRun(t *testing.T) {
	const older, newer = "older", "newer"
	lost := errors.New("write run.json: no space left on device")
	for _, row := range []struct {
		why       string
		end       func(l *logFile) error
		log, part string // "": no such file
		err       string
	}{
		{"the Run was written", func(l *logFile) error { return l.keep(nil) }, newer, "", ""},
		{"the Run was not written", func(l *logFile) error { return l.keep(lost) }, older, newer, lost.Error() + "; the intervals are in "},
		{"nothing was measured", func(l *logFile) error { l.drop(); return nil }, older, "", ""},
		{"the log was not written to its end", func(l *logFile) error { l.err = errors.New("no space left on device"); return l.keep(nil) }, newer, "", "write "},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "run.hlog")
		if err := os.WriteFile(path, []byte(older), 0o644); err != nil {
			t.Fatal(err)
		}
		o := output{path: filepath.Join(dir, "run.json")}
		l, err := o.openLog()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Write([]byte(newer)); err != nil {
			t.Fatal(err)
		}
		err = row.end(l)
		if (err == nil) != (row.err == "") || err != nil && err.Error()[:len(row.err)] != row.err {
			t.Errorf("%s: error %v, want %q", row.why, err, row.err)
		}
		for file, want := range map[string]string{path: row.log, path + ".part": row.part} {
			got, err := os.ReadFile(file)
			if string(got) != want || (err == nil) != (want != "") {
				t.Errorf("%s: %s holds %q (%v), want %q", row.why, filepath.Base(file), got, err, want)
			}
		}
	}
}

// TestLogGoesWhereItsNameLeads: a device or a link is not replaced.
func TestLogGoesWhereItsNameLeads(t *testing.T) {
	dir := t.TempDir()
	link, file := filepath.Join(dir, "run.hlog"), filepath.Join(dir, "there.hlog")
	if err := os.Symlink("there.hlog", link); err != nil {
		t.Fatal(err)
	}
	o := output{path: filepath.Join(dir, "run.json")}
	l, err := o.openLog()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.keep(nil); err != nil {
		t.Error(err)
	}
	if st, err := os.Lstat(file); err != nil || !st.Mode().IsRegular() {
		t.Errorf("the link's file: %v, %v", st, err)
	}
	os.Remove(link)
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	if l, err = o.openLog(); err != nil {
		t.Fatal(err)
	}
	if err := l.keep(nil); err != nil {
		t.Error(err)
	}
	if to, err := os.Readlink(link); to != os.DevNull {
		t.Errorf("the link to a device leads to %q (%v)", to, err)
	}
}
