// Package engine drives calls over sockets in real time: event loops that own
// their connections, calls, timers and ledgers, and ask package policy what to
// do next.
//
// A loop is locked to its thread. Per request there is no channel, no lock, no
// goroutine and no allocation. The package also holds what the server side
// shares with it: Poller, Timers and the few socket calls. It decides nothing:
// when to send, retry, hedge or give up comes from policy, when calls are due
// comes from workloads.
package engine
