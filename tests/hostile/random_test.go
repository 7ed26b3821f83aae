// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// How long the random guest goes on, and how much a device process gets of it.
const (
	fewRounds    = 60
	roundsAGuest = 1000
)

// rounds is the number of rounds, PARACUDA_ROUNDS or fewRounds, and the seed, PARACUDA_SEED or the
// time.
func rounds(t *testing.T) (n int, seed uint64) {
	t.Helper()
	n, seed = fewRounds, uint64(time.Now().UnixNano())
	var err error
	if text := os.Getenv("PARACUDA_ROUNDS"); text != "" {
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("PARACUDA_ROUNDS: %v", err)
		}
	}
	if text := os.Getenv("PARACUDA_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("PARACUDA_SEED: %v", err)
		}
	}
	return n, seed
}

// TestRandomGuest has a guest do random steps to the device process and its worker. After each
// round another channel computes as if nothing had happened, and so does this one, which may be
// opened again for that.
func TestRandomGuest(t *testing.T) {
	n, seed := rounds(t)
	t.Logf("PARACUDA_SEED=%d, %d rounds", seed, n)
	for first := 0; first < n; first += roundsAGuest {
		g := newGuest(t).opened(t)
		for i := first; i < min(n, first+roundsAGuest); i++ {
			r := &random{choices: rand.New(rand.NewPCG(seed, uint64(i))), g: g.guest,
				c: g.channels[victim]}
			steps := 1 + r.IntN(stepsAtMost)
			v, err := g.run(r.attack(func() bool { steps--; return steps >= 0 }), byte(i))
			if v != pass {
				t.Fatalf("seed %d, round %d: %s: %v", seed, i, v, err)
			}
		}
		g.said(t)
		_ = g.process.Process.Kill()
	}
}
