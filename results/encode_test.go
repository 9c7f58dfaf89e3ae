package results

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	hello := func(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }
	fails := func(w io.Writer) error {
		_, _ = io.WriteString(w, "hel")
		return errors.New("the pen broke")
	}
	content := func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := WriteFile(path, hello); err != nil || content() != "hello" {
		t.Fatalf("a new file: %v, %q", err, content())
	}
	if err := WriteFile(path, fails); err == nil || err.Error() != "write "+path+": the pen broke" || content() != "hello" {
		t.Errorf("a failure halfway: %v, and the file holds %q", err, content())
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, func(w io.Writer) error { _, err := io.WriteString(w, "by link"); return err }); err != nil || content() != "by link" {
		t.Errorf("a symbolic link: %v, and its file holds %q", err, content())
	}
	if err := WriteFile(dir, hello); err == nil || !strings.Contains(err.Error(), "write "+dir+": ") {
		t.Errorf("a directory: %v", err)
	}
	none := filepath.Join(dir, "none", "run.json")
	if err := WriteFile(none, hello); err == nil || err.Error() != "write "+none+": no such file or directory" {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := WriteFile(os.DevNull, hello); err != nil {
		t.Errorf("a device: %v", err)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		if err := WriteFile("/dev/full", hello); err == nil || !strings.HasPrefix(err.Error(), "write /dev/full: ") {
			t.Errorf("a full device: %v", err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}
