// room: results

package results

import _ "latencylab/helpers" // want: table
