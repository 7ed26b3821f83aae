// SPDX-License-Identifier: Apache-2.0

package grants

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestGrants with random VMs: as many are granted as the bound and the demand allow, and no VM has
// more than it wants. If a VM has fewer than it wants and fewer than another one, it has one fewer,
// and wasn't used later than that one by Steady.
func TestGrants(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for round := range 2000 {
		vms := make([]VM, random.IntN(300))
		demand := 0
		for i := range vms {
			vms[i] = VM{Want: random.IntN(4), Has: random.IntN(2),
				Used: time.Duration(random.Int64N(int64(5 * time.Minute)))}
			demand += vms[i].Want
		}
		bound := random.IntN(40)
		grants := Of(bound, vms)
		sum := 0
		for i, n := range grants {
			sum += n
			if n > vms[i].Want {
				t.Fatalf("round %d: %d of %d that it wants", round, n, vms[i].Want)
			}
		}
		if sum != min(bound, demand) {
			t.Fatalf("round %d: %d are granted of %d, for a demand of %d", round, sum, bound,
				demand)
		}
		for i, n := range grants {
			for j, m := range grants {
				if m >= n || m >= vms[j].Want {
					continue
				}
				if n > m+1 || vms[j].Used >= vms[i].Used+Steady {
					t.Fatalf("round %d: %d for %+v, %d for %+v", round, n, vms[i], m, vms[j])
				}
			}
		}
	}
}

// TestGrantsStay where they are while VMs are used in turn, and go to those that are used alone.
func TestGrantsStay(t *testing.T) {
	vms := make([]VM, 100)
	for i := range vms {
		vms[i] = VM{Want: 1, Used: time.Duration(i) * time.Millisecond}
	}
	grant := func() (changed int) {
		for i, n := range Of(10, vms) {
			if n != vms[i].Has {
				changed++
			}
			vms[i].Has = n
		}
		return changed
	}
	grant()
	for i := range vms {
		vms[i].Used = time.Second + time.Duration(i)*time.Millisecond
		if n := grant(); n != 0 {
			t.Fatalf("%d grants changed when VM %d was used", n, i)
		}
	}
	for i := range 10 {
		vms[i].Used = time.Minute
	}
	grant()
	if had := slices.IndexFunc(vms, func(v VM) bool { return v.Has == 0 }); had != 10 {
		t.Errorf("VM %d, which was used a minute later, has none", had)
	}
}
