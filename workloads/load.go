package workloads

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"latencylab/service"
)

//go:embed *.yaml
var builtin embed.FS

// Names returns the names of the built-in workloads in order.
func Names() []string {
	entries, err := builtin.ReadDir(".")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Builtin returns the built-in workload of that name.
func Builtin(name string) (*Workload, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("no built-in workload %q, nearest is %q", clip(name), Nearest(name, Names()))
	}
	data, err := builtin.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	f := &file{what: "workload", name: name + ".yaml", read: readNothing}
	return f.decodeWorkload(data)
}

func readNothing(string, int) ([]byte, error) {
	return nil, errors.New("a built-in workload reads no file")
}

// Load reads a workload file, and the files it names: relative names count from
// its directory. Every error is one line that begins with "read workload: " or,
// for a service file, "read service: ".
func Load(path string) (*Workload, error) {
	data, err := readFile(path, maxFile, true)
	if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	return Parse(path, data)
}

// Parse is Load of data that was read from file, or that would stand there.
func Parse(file string, data []byte) (*Workload, error) {
	return newFile("workload", file).decodeWorkload(data)
}

// LoadService reads a service file: a map of the same keys as under service in
// a workload.
func LoadService(path string) (*service.Spec, error) {
	data, err := readFile(path, maxFile, true)
	if err != nil {
		return nil, fmt.Errorf("read service: %w", err)
	}
	return ParseService(path, data)
}

// ParseService is LoadService of data that was read from file.
func ParseService(file string, data []byte) (*service.Spec, error) {
	return newFile("service", file).decodeService(data)
}

// ParseServiceText is ParseService of data that came from elsewhere, such as over
// a network: it may name no file.
func ParseServiceText(what string, data []byte) (*service.Spec, error) {
	return (&file{what: "service", name: what, read: readNoFile}).decodeService(data)
}

func readNoFile(string, int) ([]byte, error) {
	return nil, errors.New("no file is read here, want the values themselves")
}

func newFile(what, name string) *file {
	return &file{what: what, name: name, read: readRegular}
}

// ParseDist reads a distribution, and the files that it names: see
// service.ParseDistFrom. Relative names count from the working directory.
func ParseDist(s string) (service.Dist, error) { return service.ParseDistFrom(s, readRegular) }

// readRegular reads a file that another one names: it must be a regular one, so
// that a name in a workload cannot make it wait.
func readRegular(path string, most int) ([]byte, error) { return readFile(path, most, false) }

// readFile reads a file of at most so many bytes, a regular one unless any is
// set.
func readFile(path string, most int, any bool) ([]byte, error) {
	if path == "" {
		return nil, errors.New("no file name")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, want a file", path)
	}
	if !any && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	r, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, nil
}
