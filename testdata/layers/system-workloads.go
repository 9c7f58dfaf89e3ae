// room: workloads

package workloads

import (
	_ "embed"
	_ "net/url"
	_ "os"
	_ "os/exec" // want: system
)
