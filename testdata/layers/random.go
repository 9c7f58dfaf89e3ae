// room: service

package service

import (
	"crypto/rand"   // want: random
	old "math/rand" // want: random
	"math/rand/v2"  // want: random
)
