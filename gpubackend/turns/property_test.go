// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// These tests make hosts at random. What they check must hold for every host.

// randomHogs are VMs that always have work, of any weight, with kernels that end inside two turns.
func randomHogs(r *rand.Rand, n int) (list []*tenant) {
	for i := range n {
		p := Policy{Weight: 1 + r.IntN(20)*r.IntN(50)}
		if r.IntN(2) == 0 {
			p.Turn = 2*ms + time.Duration(r.IntN(8000))*us
		}
		kernel := 20*us + time.Duration(r.Int64N(int64(p.withDefaults().Turn)))
		list = append(list, hog(fmt.Sprint("vm", i), kernel, p))
	}
	return list
}

// TestSharesOfRandomVMs are those by weight, within 0.02.
func TestSharesOfRandomVMs(t *testing.T) {
	for seed := range seeds(2, 12) {
		r := rand.New(rand.NewPCG(seed, 2))
		list := randomHogs(r, 2+r.IntN(6))
		newHost(t, Config{}, list...).run(8 * time.Second)
		if wantShares(t, 0.02, list...); t.Failed() {
			for _, x := range list {
				t.Logf("seed %d: %s: %+v, kernels of %v", seed, x.name, x.policy, x.kernel)
			}
			return
		}
	}
}

// idles says which VM waits although nobody has its GPUs, or has them kept.
func (h *host) idles() string {
	for _, v := range h.s.all {
		if v.asks() && h.s.held()&v.gpus == 0 {
			return v.name
		}
	}
	return ""
}

// TestWorkIsConserved: no VM ever waits for a GPU that nobody has, and a GPU is kept for a VM that
// rests only for a small part of the time.
func TestWorkIsConserved(t *testing.T) {
	for seed := range seeds(4, 12) {
		r := rand.New(rand.NewPCG(seed, 3))
		list := randomTenants(r, 2+r.IntN(8))
		for _, x := range list {
			x.gpus, x.policy.Limit = 1, 0
		}
		h := newHost(t, Config{}, list...)
		for end := 2 * time.Second; h.now < end; h.run(tick) {
			if name := h.idles(); name != "" {
				t.Fatalf("seed %d, %v: %s waits for a GPU that nobody has", seed, h.now, name)
			}
		}
		most := h.now/patiencePart + h.now/keepPart
		if h.idleFor > most {
			t.Errorf("seed %d: for %v of %v the GPU did nothing while somebody had work, want %v",
				seed, h.idleFor, h.now, most)
		}
	}
}

// TestDebtsOfRandomVMs: a VM that leaves and joins whenever it likes has no more than its share.
func TestDebtsOfRandomVMs(t *testing.T) {
	for seed := range seeds(2, 12) {
		r := rand.New(rand.NewPCG(seed, 4))
		rogue := hog("rogue", time.Duration(1+r.IntN(20000))*us, Policy{})
		a, b := hog("a", ms, Policy{}), hog("b", 200*us, Policy{})
		h := newHost(t, Config{}, rogue, a, b)
		for h.now < 10*time.Second {
			h.run(time.Duration(1+r.IntN(60)) * ms)
			if len(rogue.flight) == 0 { // what is on the GPU would be nobody's
				h.leave(rogue)
				h.run(time.Duration(1+r.IntN(4)) * tick)
				h.join(rogue)
			}
		}
		if s := shares(rogue, a, b); s[0] > 1.0/3+0.03 {
			t.Errorf("seed %d: a VM that comes and goes, with kernels of %v, had %.3f of the GPU",
				seed, rogue.kernel, s[0])
		}
	}
}

// TestNewNamesGainNothing: a VM that leaves after each of its turns and joins by another name has
// the share of one VM, whether its names come before the others' or after them.
func TestNewNamesGainNothing(t *testing.T) {
	for _, first := range []string{"-", "z"} {
		for _, others := range []int{1, 3} {
			rogue, list := hog(first, 200*us, Policy{}), []*tenant(nil)
			for i := range others {
				list = append(list, hog(fmt.Sprint("vm", i), 200*us, Policy{}))
			}
			h := newHost(t, Config{}, append([]*tenant{rogue}, list...)...)
			had := rogue.used
			for n := 0; h.now < 3*time.Second; h.run(tick) {
				if rogue.used > had && len(rogue.flight) == 0 && !rogue.gate.Open {
					h.leave(rogue)
					n, had = n+1, rogue.used
					rogue.name = fmt.Sprint(first, n)
					h.join(rogue)
				}
			}
			s, due := shares(append([]*tenant{rogue}, list...)...), 1/float64(others+1)
			if s[0] > due+0.03 {
				t.Errorf("names like %s: %.3f of the GPU beside %d others, want %.3f at most",
					rogue.name, s[0], others, due)
			}
		}
	}
}

// TestThousandsComeAndGo: of a thousand VMs at a time most join and leave, thousands in all, some
// of them in their turn. Those that stay have their turns one after the other, and of the others
// nothing is left.
func TestThousandsComeAndGo(t *testing.T) {
	const stay, come = 100, 900
	s, r := New(Config{}), rand.New(rand.NewPCG(1, 5))
	now, last := Time(0), 0
	join := func() ID {
		last++
		id, err := s.Join(now, fmt.Sprint(last), 1, Policy{Turn: DefaultTurn})
		if err != nil {
			t.Fatal(err)
		}
		s.Report(now, id, Demand{Waiting: true})
		return id
	}
	var staying, coming []ID
	for range stay {
		staying = append(staying, join())
	}
	for range come {
		coming = append(coming, join())
	}
	open := map[ID]bool{}
	gates := func() { // opens and closes them; work begins as its gate opens, and ends as it closes
		for changes := s.Changes(); len(changes) > 0; changes = s.Changes() {
			for _, g := range changes {
				if delete(open, g.VM); g.Open {
					open[g.VM] = true
				}
				s.Report(now, g.VM, Demand{Waiting: true, InFlight: g.Open})
			}
		}
		if len(open) > 1 {
			t.Fatalf("at %v %d VMs have a turn", now, len(open))
		}
	}
	turns := 3 * (stay + come)
	if testing.Short() {
		turns /= 3
	}
	for range turns {
		for range 1 + r.IntN(3) {
			i := r.IntN(come)
			s.Leave(now, coming[i])
			delete(open, coming[i])
			coming[i] = join()
		}
		gates()
		now = max(now+1, s.Deadline())
		s.Tick(now)
		gates()
	}
	least, most := uint64(turns), uint64(0)
	for _, id := range staying {
		st, _ := s.Stats(now, id)
		least, most = min(least, st.Turns), max(most, st.Turns)
	}
	if due := uint64(turns / (stay + come)); least < due || most > least+1 {
		t.Errorf("those that stay had %d to %d turns, want %d at least, and all as many", least,
			most, due)
	}
	for _, id := range append(staying, coming...) {
		s.Leave(now, id)
	}
	if len(s.vms)+len(s.all)+len(s.names) != 0 || len(s.left) > maxDebts {
		t.Errorf("after all have left: %d VMs, %d names, %d debts", len(s.vms), len(s.names),
			len(s.left))
	}
}
