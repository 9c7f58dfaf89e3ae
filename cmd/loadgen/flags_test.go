package main

import (
	"slices"

	"github.com/spf13/pflag"
)

// flagNames lists the long names of a set.
func flagNames(fs *pflag.FlagSet) []string {
	var out []string
	fs.VisitAll(func(f *pflag.Flag) { out = append(out, f.Name) })
	return out
}

// except returns the names that are not among others.
func except(names, others []string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(others, n) })
}
