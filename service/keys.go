package service

// MaxKeys is the number of values of Spec.ScriptKey that a replica tells apart at
// once. When more come, the one that came first is forgotten, and begins its
// script anew.
const MaxKeys = 1 << 16

// keys count the requests of each value of a key.
type keys struct {
	turns  map[uint64]uint32
	ring   []uint64 // in the order in which they came first
	oldest int      // in the ring, once it is full
}

// next counts a request with this key and returns its number, from 1.
func (k *keys) next(key uint64) uint32 {
	if n, ok := k.turns[key]; ok {
		if n < 1<<31 {
			n++
		}
		k.turns[key] = n
		return n
	}
	if k.turns == nil {
		k.turns = make(map[uint64]uint32)
	}
	if len(k.ring) < MaxKeys {
		k.ring = append(k.ring, key)
	} else {
		delete(k.turns, k.ring[k.oldest])
		k.ring[k.oldest] = key
		k.oldest = (k.oldest + 1) % MaxKeys
	}
	k.turns[key] = 1
	return 1
}
