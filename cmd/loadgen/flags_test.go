package main

import "github.com/spf13/pflag"

// flagNames lists the long names of a set.
func flagNames(fs *pflag.FlagSet) []string {
	var out []string
	fs.VisitAll(func(f *pflag.Flag) { out = append(out, f.Name) })
	return out
}
