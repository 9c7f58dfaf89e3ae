// room: sim

package sim

func both(f, g func()) {
	go f() // want: go
	g()
}
