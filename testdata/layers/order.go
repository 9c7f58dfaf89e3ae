// room: workloads

package workloads

import (
	"maps"
	"reflect"
	"slices"
)

type table map[string]int

func walk[M map[string]int | table](m M, t table, r reflect.Value) []string {
	for range m { // want: order
	}
	for k := range t { // want: order
		_ = k
	}
	for k := range maps.Keys(t) { // want: order
		_ = k
	}
	for _, v := range t { /* order does not show: */ // want: order
		_ = v
	}
	_ = r.MapKeys() // want: order
	/* want: order */                   // order does not show: nothing is ranged over here
	return slices.Collect(maps.Keys(t)) // want: order
}
