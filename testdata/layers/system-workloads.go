// room: workloads

package workloads

import (
	_ "embed"
	_ "net/url" // want: system
	_ "os"
	_ "os/exec" // want: system
)
