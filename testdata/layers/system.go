// room: histo

package histo

import (
	_ "embed"    // want: system
	_ "log"      // want: system
	_ "net"      // want: system
	_ "net/http" // want: system
	_ "os"       // want: system
	_ "syscall"  // want: system

	_ "golang.org/x/sys/unix" // want: system
)
