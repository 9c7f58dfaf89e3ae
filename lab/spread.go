package lab

import (
	"fmt"
	"slices"
)

// Spread is how the values of one row differ between runs.
type Spread struct {
	Row string
	// Values stand in the order of Result.Columns.
	Values []Range
}

// Range is the smallest, the middle and the largest of the figures that several
// runs have. Where only some have one, Runs is how many; where they are words,
// the three are the word that all say, or absent.
type Range struct {
	Runs             int
	Min, Median, Max Value
}

// merge makes one result of the results of several runs: table and pictures are
// those of the first, a claim holds when it holds in every one.
func merge(runs []*Result) *Result {
	r := runs[0]
	if len(runs) == 1 {
		return r
	}
	for i := range r.Rows {
		s := Spread{Row: r.Rows[i].Row}
		for k := range r.Columns {
			var vs []Value
			for _, o := range runs {
				vs = append(vs, o.value(s.Row, r.Columns[k]))
			}
			s.Values = append(s.Values, rangeOf(vs))
		}
		r.Spread = append(r.Spread, s)
	}
	for i := range r.Holds {
		c := &r.Holds[i]
		for _, o := range runs {
			k := slices.IndexFunc(o.Holds, func(x Claim) bool { return x.Claim == c.Claim })
			if k >= 0 && o.Holds[k].OK {
				c.Held++
			} else if k >= 0 && c.OK {
				c.Found = o.Holds[k].Found // the first that breaks it
				c.OK = false
			}
		}
		c.OK = c.Held == len(runs)
	}
	return r
}

// rangeOf returns the range of the values of one cell in several runs.
func rangeOf(vs []Value) Range {
	var xs []float64
	words := 0
	for i := range vs {
		if vs[i].Word != "" || vs[i].List != nil {
			words++
		} else if vs[i].Present {
			xs = append(xs, vs[i].Value)
		}
	}
	switch {
	case words > 0:
		for i := range vs {
			if vs[i].text() != vs[0].text() {
				v := absent("the runs differ")
				return Range{len(vs), v, v, v}
			}
		}
		return Range{len(vs), vs[0], vs[0], vs[0]}
	case len(xs) == 0:
		v := absent(fmt.Sprintf("absent in every run: %s", vs[0].Reason))
		return Range{0, v, v, v}
	}
	slices.Sort(xs)
	return Range{len(xs), num(xs[0]), num(median(xs)), num(xs[len(xs)-1])}
}

// median returns the middle of sorted values, of which there is at least one.
func median(xs []float64) float64 {
	n := len(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2
}
