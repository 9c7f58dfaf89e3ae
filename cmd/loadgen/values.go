package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"latencylab/units"
	"latencylab/workloads"
)

// value is a flag whose text one of our own parsers reads. set is called for
// each time that the flag is given, in order.
type value struct {
	kind string // what --help and errors call it
	text string
	set  func(s string) error
}

func (v *value) String() string { return v.text }
func (v *value) Type() string   { return v.kind }

func (v *value) Set(s string) error {
	v.text = s
	return v.set(s)
}

// scalar adds a flag that keeps the last value given.
func scalar[T any](fs *pflag.FlagSet, to *T, name, short, kind string, parse func(string) (T, error)) {
	fs.VarP(&value{kind: kind, set: func(s string) error {
		v, err := parse(s)
		if err == nil {
			*to = v
		}
		return err
	}}, name, short, "")
}

// list adds a flag that may be given several times.
func list[T any](fs *pflag.FlagSet, to *[]T, name, short, kind string, parse func(string) (T, error)) {
	fs.VarP(&value{kind: kind, set: func(s string) error {
		v, err := parse(s)
		if err == nil {
			*to = append(*to, v)
		}
		return err
	}}, name, short, "")
}

// atLeast1 reads a whole number from 1 to limit.
func atLeast1(limit int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := units.ParseCount(s)
		switch {
		case err != nil:
			return 0, err
		case n > uint64(limit):
			return 0, fmt.Errorf("%s, want at most %d", s, limit)
		case n < 1:
			return 0, fmt.Errorf("%s, want 1 or more", s)
		}
		return int(n), nil
	}
}

// seed reads an unsigned number.
func seed(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number from 0 to 18446744073709551615", s)
	}
	return n, nil
}

// text takes any text.
func text(s string) (string, error) { return s, nil }

// oneOf reads one of a few words.
func oneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		for _, w := range words {
			if s == w {
				return s, nil
			}
		}
		return "", fmt.Errorf("%q, want %s or %s", s, strings.Join(words[:len(words)-1], ", "), words[len(words)-1])
	}
}

// flagSet returns an empty set for the sub-command.
func flagSet(name string) *pflag.FlagSet {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {}
	return fs
}

// parse reads the flags of a sub-command; help is printed for --help and then
// pflag.ErrHelp is returned. Every other error is the user's.
func (a *app) parse(fs *pflag.FlagSet, help string, args []string) error {
	err := fs.Parse(args)
	if err == nil {
		return nil
	}
	if errors.Is(err, pflag.ErrHelp) {
		if lost := a.print(help); lost != nil {
			return lost
		}
		return err
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if name := unknown.GetSpecifiedName(); len(name) > 1 {
			return usagef("unknown flag --%s, nearest is --%s", name, workloads.Nearest(name, names))
		}
		return usagef("%w; see loadgen %s --help", err, fs.Name())
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		return usagef("--%s: %w", bad.GetFlag().Name, errors.Unwrap(bad))
	}
	return usage(err)
}
