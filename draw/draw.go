// Package draw gives keyed random numbers: the same key gives the same number
// on every machine, in any order, for every policy of a comparison.
//
// A draw is a pure function of (seed, stream, call, attempt, i); there is no
// generator to share, advance or reset. Each quantity has its own Stream and
// uses a fixed number of uniforms (inverse distribution functions, no
// rejection), so that a change of one quantity leaves the others as they were.
// The package does no I/O and keeps no state; all functions may be called from
// any goroutine.
package draw

// Stream names the quantity that a number is drawn for. The values are part of
// a result's identity: a value is never changed or used again.
type Stream uint64

// The streams in use. Arrival and Phase are keyed by the arrival's number,
// Service, Slow and Status by (call, attempt) at the target, Jitter and Pick by
// (call, attempt) at the client, Replica by the replica's number, Lane by the
// permuted block of calls, Coin (of a hedge) and Hint (the spread of a server's
// wait) by (call, attempt), Reject (of a throttle) by the call, Think by the user and the number of its call. At the
// target, Turn is keyed by (turn, replica), SlowConn by (connection, replica),
// SlowMoment by (window, replica, mark), Fault by (call, attempt), Stall by
// (stall, replica, mark), StallPhase by (replica, mark) Outage by (call,
// attempt, number of the outage) and Accept by (connection, replica, 0), or
// without connections by (call, attempt, 1).
const (
	Arrival Stream = 1 + iota
	Service
	Slow
	SlowTime
	Status
	Jitter
	Pick
	Replica
	Resample
	Phase
	Lane
	Think
	Turn
	SlowConn
	SlowMoment
	Fault
	Stall
	StallPhase
	Coin
	Hint
	Reject
	Outage
	AfterCalls
	Ramp
	Front
	Accept
)

// Bits returns 64 uniform bits for the key. It chains one SplitMix64 finaliser
// (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// OOPSLA 2014, the variant 13 constants of Stafford) over the parts of the key,
// each offset by its own odd constant.
func Bits(seed uint64, s Stream, call uint64, attempt, i uint32) uint64 {
	x := mix(seed + uint64(s)*0x9e3779b97f4a7c15)
	x = mix(x ^ (call*0xd1342543de82ef95 + 0x632be59bd9b4e019))
	return mix(x + (uint64(attempt)<<32|uint64(i))*0xbf58476d1ce4e5b9 + 0x9e3779b97f4a7c15)
}

// Uniform returns a number in the open interval (0, 1): the middle of one of
// 2^52 equal cells, so that neither 0 nor 1 ever comes out and a logarithm of
// it is finite.
func Uniform(seed uint64, s Stream, call uint64, attempt, i uint32) float64 {
	return (float64(Bits(seed, s, call, attempt, i)>>12) + 0.5) * (1.0 / (1 << 52))
}

// Mix folds a record of three numbers into 64 bits. Sums of Mix values make
// digests that do not depend on the order in which records arrive.
func Mix(a, b, c uint64) uint64 {
	return mix(mix(mix(a+0x9e3779b97f4a7c15)^b*0xd1342543de82ef95) + c*0xbf58476d1ce4e5b9)
}

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return x
}
