// room: sim

package sim

import . "time" // want: dot-import

var start Time
