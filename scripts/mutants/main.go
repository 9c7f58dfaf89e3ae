// Mutants tests the tests: it puts one small fault at a time into a copy of the
// tree and runs the tests that must catch it.
//
//	go run ./scripts/mutants              every fault, some minutes
//	go run ./scripts/mutants -run policy  those whose file or reason matches
//	go run ./scripts/mutants -list        what there is
//
// A fault that survives names a test that is missing. The exit code is 1 when
// one survives, when its old text does not stand in its file exactly once, or
// when the mutated package does not compile: such a fault proves nothing. The
// tree itself is never changed. Tests run without the race detector and without
// vet; a test that hangs until its time is over has caught the fault.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// fault is one small change that a test must notice.
type fault struct {
	file string // below the module root
	old  string // stands in the file exactly once
	new  string
	why  string // what the program would do
	// also lists packages whose tests run beside those of the file's own one
	// and the layers test, such as "./sim".
	also []string
}

// name identifies the fault on one line.
func (f fault) name() string { return f.file + ": " + f.why }

// packages returns the patterns whose tests must catch the fault.
func (f fault) packages() []string {
	return append([]string{".", "./" + path.Dir(f.file)}, f.also...)
}

func main() {
	var o options
	flag.BoolVar(&o.list, "list", false, "print the faults and stop")
	flag.BoolVar(&o.verbose, "v", false, "print the output of the tests that caught a fault")
	flag.DurationVar(&o.timeout, "timeout", 120*time.Second, "time for the tests of one fault")
	pattern := flag.String("run", "", "only faults whose file or reason matches this `regexp`")
	flag.Parse()
	re, err := regexp.Compile(*pattern)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "mutants: want no arguments and a valid -run: %v\n", err)
		os.Exit(2)
	}
	chosen := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return !re.MatchString(f.name()) })
	if o.list {
		for _, f := range chosen {
			fmt.Println(f.name())
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, chosen, o); err != nil {
		fmt.Fprintf(os.Stderr, "mutants: %v\n", err)
		os.Exit(1)
	}
}

type options struct {
	list, verbose bool
	timeout       time.Duration
}

// run copies the tree, sees that its tests pass, and tries the faults in turn.
func run(ctx context.Context, chosen []fault, o options) error {
	if len(chosen) == 0 {
		return errors.New("no fault matches")
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(ctx, dir); err != nil {
		return err
	}
	var packages []string
	for _, f := range chosen {
		if err := f.check(dir); err != nil {
			return err
		}
		packages = append(packages, f.packages()...)
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	began := time.Now()
	if out, err := test(ctx, dir, packages, 3*o.timeout); err != nil {
		return fmt.Errorf("the tests fail without any fault: %w\n%s", err, out)
	}
	fmt.Printf("without a fault the tests of %d packages pass, %s\n", len(packages), time.Since(began).Round(time.Second))

	var survived, broken []string
	for _, f := range chosen {
		v, text, err := try(ctx, dir, f, o.timeout)
		if err != nil {
			return err
		}
		fmt.Printf("%-9s %s  [%s]\n", v, f.name(), text)
		switch v {
		case survives:
			survived = append(survived, f.name())
		case senseless:
			broken = append(broken, f.name())
		}
		if o.verbose && v == caught {
			fmt.Println(text)
		}
	}
	fmt.Printf("%d faults: %d caught, %d survived, %d do not compile, %s\n", len(chosen), len(chosen)-len(survived)-len(broken), len(survived), len(broken), time.Since(began).Round(time.Second))
	if n := len(survived) + len(broken); n > 0 {
		return fmt.Errorf("%d faults were not caught", n)
	}
	return nil
}

// verdict is what became of one fault.
type verdict string

const (
	caught    verdict = "caught"
	survives  verdict = "SURVIVED"
	senseless verdict = "SENSELESS" // does not compile
)

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// try applies one fault to the copy, runs the tests and takes it back.
func try(ctx context.Context, dir string, f fault, timeout time.Duration) (v verdict, text string, err error) {
	name := filepath.Join(dir, filepath.FromSlash(f.file))
	good, err := os.ReadFile(name)
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(name, good, 0o644)) }()
	if err := os.WriteFile(name, []byte(strings.Replace(string(good), f.old, f.new, 1)), 0o644); err != nil {
		return "", "", err
	}
	if out, err := command(ctx, dir, "go", "build", "./"+path.Dir(f.file)); err != nil {
		return senseless, firstError(out), ctx.Err()
	}
	out, err := test(ctx, dir, f.packages(), timeout)
	if ctx.Err() != nil {
		return "", "", ctx.Err()
	}
	if err == nil {
		return survives, "no test failed", nil
	}
	if m := failed.FindStringSubmatch(out); m != nil {
		return caught, m[1], nil
	}
	if strings.Contains(out, "test timed out") || strings.Contains(out, "panic:") {
		return caught, firstError(out), nil
	}
	return senseless, firstError(out), nil
}

// firstError returns the first line that says something.
func firstError(out string) string {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "ok ") {
			return line
		}
	}
	return "no output"
}

func test(ctx context.Context, dir string, packages []string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout+time.Minute) // go test ends the binaries itself
	defer cancel()
	args := append([]string{"test", "-count=1", "-vet=off", "-failfast", "-timeout", timeout.String()}, packages...)
	return command(ctx, dir, "go", args...)
}

func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -buildvcs=false"))
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// check holds that the fault can be applied.
func (f fault) check(root string) error {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.file)))
	if err != nil {
		return fmt.Errorf("%s: %w", f.name(), err)
	}
	if n := strings.Count(string(b), f.old); n != 1 {
		return fmt.Errorf("%s: the old text stands there %d times, want once: %q", f.name(), n, f.old)
	}
	if f.new == f.old || strings.TrimSpace(f.why) == "" {
		return fmt.Errorf("%s: changes nothing, or has no reason", f.name())
	}
	return nil
}

// copyTree copies what git tracks or would track, as it is in the work tree.
func copyTree(ctx context.Context, to string) error {
	root, err := command(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return fmt.Errorf("find the module: %w: %s", err, root)
	}
	root = strings.TrimSpace(root)
	list, err := command(ctx, root, "git", "ls-files", "-co", "--exclude-standard", "-z")
	if err != nil {
		return fmt.Errorf("list the files: %w: %s", err, list)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if err := copyFile(filepath.Join(root, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil // tracked, and deleted in the work tree
	}
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, st.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
