// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// guests are VMs as they were seen on an H100 (docs/measurements): their programs wait for each
// kernel, come back after some 10 µs, and are late about once in 10 ms.
func guests(n int, p Policy) (list []*tenant) {
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		x := waitingFor(fmt.Sprint(i), 200*us, tick, p)
		x.late = func() time.Duration {
			if r.IntN(50) > 0 {
				return 0
			}
			return 40*us + time.Duration(r.IntN(110))*us
		}
		list = append(list, x)
	}
	return list
}

// used is the part of a GPU that tenants had in a time d.
func used(d time.Duration, tenants ...*tenant) float64 {
	var sum time.Duration
	for _, x := range tenants {
		sum += x.used
	}
	return sum.Seconds() / d.Seconds()
}

// change is what a change of turns costs the GPU, with the time that the next VM takes to begin.
const change = 250 * us

// TestChangesAreDear: few VMs have long turns, and those who are late for once keep theirs. Many
// VMs have short ones, so that nobody waits for long.
func TestChangesAreDear(t *testing.T) {
	for _, test := range []struct {
		vms         int
		policy      Policy
		least, most time.Duration // between changes
		used        float64
	}{
		{2, Policy{}, 15 * ms, LongTurn + ms, 0.92},
		{4, Policy{}, 15 * ms, LongTurn + ms, 0.92},
		{8, Policy{}, 8 * ms, Round/8 + 2*ms, 0.9},
		{40, Policy{}, 4 * ms, DefaultTurn + ms, 0.88},
		{4, Policy{Turn: DefaultTurn}, 4 * ms, DefaultTurn + ms, 0.88},
		{4, Policy{Turn: 50 * ms}, 40 * ms, 51 * ms, 0.93},
	} {
		t.Run(fmt.Sprint(test.vms, " ", test.policy.Turn), func(t *testing.T) {
			list := guests(test.vms, test.policy)
			h := newHost(t, Config{}, list...)
			h.change = change
			h.run(8 * time.Second)
			wantShares(t, 0.01, list...)
			if each := h.now / time.Duration(h.changes); each < test.least || each > test.most {
				t.Errorf("a change each %v, want %v to %v", each, test.least, test.most)
			}
			if u := used(h.now, list...); u < test.used {
				t.Errorf("used %.3f of the GPU, want %.3f", u, test.used)
			}
		})
	}
}

// TestTurnsBesideLatency are no longer than usual: a VM of the latency class that is ahead of its
// share may have to wait for their end.
func TestTurnsBesideLatency(t *testing.T) {
	list := guests(4, Policy{})
	h := newHost(t, Config{}, list...)
	h.join(&tenant{name: "light", policy: Policy{Class: Latency}})
	h.change = change
	h.run(2 * time.Second)
	if each := h.now / time.Duration(h.changes); each > DefaultTurn+ms {
		t.Errorf("a change each %v, want %v", each, DefaultTurn)
	}
}

// TestKeepingIsBounded: however late a VM's work comes, its turns are kept for no more than a part
// of the time that it worked.
func TestKeepingIsBounded(t *testing.T) {
	for seed := range seeds(20, 200) {
		r := rand.New(rand.NewPCG(seed, 2))
		a, b := guests(1, Policy{})[0], hog("b", 200*us, Policy{})
		a.kernel = time.Duration(20+r.IntN(2000)) * us
		often, long := 1+r.IntN(20), r.IntN(1000)
		a.late = func() time.Duration {
			if r.IntN(often) > 0 {
				return 0
			}
			return time.Duration(long) * us
		}
		h := newHost(t, Config{}, a, b)
		var kept time.Duration
		for h.now < 2*time.Second {
			h.run(tick)
			if v := h.s.vms[a.id]; v.phase == awaited && !h.s.awaits(v) {
				kept += tick
			}
		}
		if most := a.used/keepPart + keepMost; kept > most {
			t.Errorf("seed %d: kept for %v, want %v at most, of %v", seed, kept, most, a.used)
		}
	}
}
