// Package trial makes one measurement: it fills in what the user left open,
// starts the world, drives the policies in blocks, collects the ledgers of both
// sides and builds the Run.
//
// Real drives sockets through package engine, Sim the same Plan in virtual time
// through package sim. The package prints nothing, parses no flags and never
// exits; what goes on is told to an Observer.
package trial
