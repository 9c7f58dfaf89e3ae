// room: http1

package http1

func idle() {
	select {} // want: select
}
