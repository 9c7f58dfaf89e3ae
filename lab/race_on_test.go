//go:build race

package lab

// raced says that the race detector slows the tests down by ten. Labs without
// goroutines run in the steps of scripts/test that have none.
const raced = true
