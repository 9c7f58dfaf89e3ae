// room: engine

package engine

import (
	_ "latencylab/results" // want: upward
	_ "latencylab/trial"   // want: upward

	_ "latencylab/ledger"
	_ "latencylab/policy"
)
