package policy

import (
	"fmt"
	"testing"
)

func TestPickRandomPrefersUntried(t *testing.T) {
	for _, replicas := range []int{1, 2, 3, 5, 63, 64, 65, 100, 1000, 65536} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			p := NewClient(&Policy{}, replicas, 7).picker
			// Up to 64 replicas all are tried before one is tried again; above,
			// 16 attempts are remembered.
			round := replicas
			if replicas > 64 {
				round = maxTried
			}
			for call := range uint64(50) {
				var tried uint64
				seen := map[uint16]bool{}
				for n := 1; n <= 2*round; n++ {
					if (n-1)%round == 0 {
						clear(seen)
					}
					r := p.pick(call, uint32(n), &tried)
					if int(r) >= replicas {
						t.Fatalf("call %d attempt %d: replica %d of %d", call, n, r, replicas)
					}
					if seen[r] {
						t.Fatalf("call %d attempt %d: replica %d was tried, others were not", call, n, r)
					}
					seen[r] = true
				}
			}
		})
	}
}

// TestPickRandomIsUniform: first and second attempts fall on each replica, and
// on each pair, equally often.
func TestPickRandomIsUniform(t *testing.T) {
	for _, replicas := range []int{3, 65} {
		p := NewClient(&Policy{}, replicas, 7).picker
		first, second := make([]int, replicas), make([]int, replicas)
		shift := make([]int, replicas) // by second - first
		n := 20000 * replicas
		for call := range uint64(n) {
			var tried uint64
			a, b := int(p.pick(call, 1, &tried)), int(p.pick(call, 2, &tried))
			first[a]++
			second[b]++
			shift[(b-a+replicas)%replicas]++
		}
		for r := range replicas {
			// Five standard deviations of 20,000 draws are about 700.
			if d := first[r] - 20000; d < -700 || d > 700 {
				t.Errorf("%d replicas: replica %d had %d first attempts, want about 20000", replicas, r, first[r])
			}
			if d := second[r] - 20000; d < -700 || d > 700 {
				t.Errorf("%d replicas: replica %d had %d second attempts, want about 20000", replicas, r, second[r])
			}
			want := n / (replicas - 1)
			if d := shift[r] - want; r > 0 && (d < -900 || d > 900) {
				t.Errorf("%d replicas: %d second attempts lie %d after the first, want about %d", replicas, shift[r], r, want)
			}
		}
		if shift[0] != 0 {
			t.Errorf("%d replicas: %d second attempts went to the first one's replica", replicas, shift[0])
		}
	}
}

// TestPickRandomKey: the picks of a call do not depend on other calls, and each
// part of the key counts.
func TestPickRandomKey(t *testing.T) {
	pick := func(seed, call uint64, n uint32) uint16 {
		p := NewClient(&Policy{}, 65536, seed).picker
		var tried uint64
		return p.pick(call, n, &tried)
	}
	seen := map[uint16]bool{pick(1, 1, 1): true, pick(2, 1, 1): true, pick(1, 2, 1): true, pick(1, 1, 2): true}
	if len(seen) != 4 {
		t.Errorf("4 keys gave %d different replicas of 65536", len(seen))
	}
	if first, again := pick(1, 1, 9), pick(1, 1, 9); first != again {
		t.Errorf("one key gave replicas %d and %d", first, again)
	}
}

func TestPickRoundRobin(t *testing.T) {
	p := NewClient(&Policy{Picker: PickRoundRobin}, 3, 7).picker
	var tried uint64
	for call, want := range [][]uint16{{0, 1, 2, 0}, {1, 2, 0, 1}, {2, 0, 1, 2}, {0, 1, 2, 0}} {
		for i, r := range want {
			if got := p.pick(uint64(call), uint32(i+1), &tried); got != r {
				t.Errorf("call %d attempt %d: replica %d, want %d", call, i+1, got, r)
			}
		}
	}
	if got := p.pick(1<<64-1, 1<<32-1, &tried); got != uint16((1<<64-1)%3+(1<<32-2)%3)%3 {
		t.Errorf("largest numbers: replica %d", got)
	}
}
