package results

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// RunSchema is the JSON schema (draft 2020-12) of a Run file.
//
//go:embed run.schema.json
var RunSchema []byte

// WriteJSON writes the Run as indented JSON; see RunSchema.
func WriteJSON(w io.Writer, r *Run) error {
	data, err := marshal(r)
	if err != nil {
		return fmt.Errorf("encode run: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return fmt.Errorf("encode run: %w", err)
	}
	b.WriteByte('\n')
	_, err = w.Write(b.Bytes())
	return err
}

// WriteFile writes a file in one step: render fills a temporary file beside it
// that takes its name only when it is complete and on disk, so that a full disk
// leaves what was there before. Symbolic links are followed. A path that exists and is not a regular file (a
// device, a pipe) is written to directly. Every error names the file; the
// caller then prints the result elsewhere.
func WriteFile(path string, render func(io.Writer) error) error {
	if err := writeFile(path, render); err != nil {
		// The name of the temporary file is of no use to the reader.
		var p *fs.PathError
		var l *os.LinkError
		if errors.As(err, &p) {
			err = p.Err
		} else if errors.As(err, &l) {
			err = l.Err
		}
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writeFile(path string, render func(io.Writer) error) error {
	path, err := FinalPath(path)
	if err != nil {
		return err
	}
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		return writeThrough(path, render)
	}
	f, createErr := createBeside(path)
	if createErr != nil {
		return createErr
	}
	if err == nil { // what is replaced keeps its permissions
		_ = f.Chmod(st.Mode().Perm())
	}
	err = render(f)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to tell
	}
	return err
}

// maxLinks is how many symbolic links FinalPath follows, as many as Linux does.
const maxLinks = 40

// FinalPath follows symbolic links to the file that opening path for writing
// would fill, as a shell's ">" does; that file need not exist.
func FinalPath(path string) (string, error) {
	for range maxLinks {
		dir, file := filepath.Split(path)
		if dir == "" {
			dir = "."
		}
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, file)
		to, err := os.Readlink(path)
		switch {
		case err != nil: // not a link, or not there
			return path, nil
		case filepath.IsAbs(to):
			path = to
		default:
			path = dir + string(filepath.Separator) + to
		}
	}
	return "", errors.New("too many symbolic links")
}

func writeThrough(path string, render func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = render(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// createBeside creates a new file in the directory of path, with the
// permissions that path would get.
func createBeside(path string) (*os.File, error) {
	for n := range 1000 {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d-%d", filepath.Base(path), os.Getpid(), n))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, errors.New("no free name for a temporary file")
}
