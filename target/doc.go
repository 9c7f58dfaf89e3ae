// Package target runs servers that misbehave on purpose: the real-time driver
// of package service.
//
// Replicas live on event loops, each locked to its thread. A loop owns its
// listeners, connections, requests, timers and tallies; per request there is no
// channel, no lock, no goroutine and no allocation. What a request meets is
// decided by service.Server alone; this package reads the request, tells the
// server of arrivals, due answers and callers that left, and writes the answer.
//
// Beside the replicas a target has an admin listener on the loopback
// interface, which serves its [Ledger], and optionally a baseline listener that
// answers at once, without any fault. The package does not speak TLS, and it
// neither logs nor exits.
package target
