// SPDX-License-Identifier: Apache-2.0

package residency

import (
	"math/rand/v2"
	"testing"
	"time"
)

const gpu = 64 << 20

func TestAllFit(t *testing.T) {
	h := newHost(t, gpu)
	a := h.join(&tenant{policy: swaps(1), bytes: gpu / 2})
	b := h.join(&tenant{policy: swaps(1), bytes: gpu / 3})
	h.run(10 * time.Second)
	if a.outs+b.outs != 0 || a.have != a.bytes || b.have != b.bytes {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestTurns: two VMs that each use all memory share it by weight, and less than a tenth of the time
// goes by with moving.
func TestTurns(t *testing.T) {
	for _, took := range []time.Duration{5 * time.Millisecond, 200 * time.Millisecond} {
		for _, weight := range []int{1, 3} {
			h := newHost(t, gpu)
			slow := seconds(gpu, took)
			a := h.join(&tenant{policy: swaps(weight), bytes: gpu * 9 / 10, slow: slow})
			b := h.join(&tenant{policy: swaps(1), bytes: gpu * 8 / 10, slow: slow})
			h.run(5 * time.Minute)
			want := float64(weight)
			if got := float64(a.resident) / float64(b.resident); got < want*0.9 || got > want*1.1 {
				t.Errorf("%v, weight %d: shares are as %.3f to 1", took, weight, got)
			}
			if h.part() >= 0.1 {
				t.Errorf("%v, weight %d: moving takes %.3f of the time", took, weight, h.part())
			}
			if used := float64(a.resident+b.resident) / float64(h.now); used < 0.85 {
				t.Errorf("%v, weight %d: VMs compute for %.3f of the time", took, weight, used)
			}
			if a.denied+b.denied != 0 {
				t.Errorf("denied: %d, %d", a.denied, b.denied)
			}
			st, _ := h.s.Stats(h.now, a.id)
			if st.Moved != a.moved || st.Swaps != uint64(a.outs) || a.moved == 0 {
				t.Errorf("%+v, and %d bytes moved in %d times", st, a.moved, a.outs)
			}
		}
	}
}

// TestWaitingForOneAnother: both are in and want more than there is.
func TestWaitingForOneAnother(t *testing.T) {
	h := newHost(t, gpu)
	a := h.join(&tenant{policy: swaps(1), bytes: gpu * 45 / 100, slow: seconds(gpu, time.Second)})
	b := h.join(&tenant{policy: swaps(1), bytes: gpu * 45 / 100, slow: seconds(gpu, time.Second)})
	h.run(time.Second)
	a.bytes, b.bytes = gpu*7/10, gpu*7/10
	h.run(time.Minute)
	if a.have != a.bytes || b.have != b.bytes || a.denied+b.denied != 0 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestStays: who isn't told to move, or has a guarantee, stays, and others are denied what it has.
func TestStays(t *testing.T) {
	for _, p := range []Policy{{}, {Swap: true, Guarantee: gpu / 2}, {Guarantee: gpu / 2}} {
		h := newHost(t, gpu)
		a := h.join(&tenant{policy: p, bytes: gpu / 2})
		b := h.join(&tenant{policy: swaps(1), bytes: gpu * 6 / 10})
		h.run(10 * time.Second)
		if a.outs != 0 || b.denied == 0 || b.have > gpu/2 {
			t.Errorf("%+v: %+v, %+v", p, a, b)
		}
	}
}

// TestGuaranteeComes: what is guaranteed is free, also where others had it before.
func TestGuaranteeComes(t *testing.T) {
	h := newHost(t, gpu)
	b := h.join(&tenant{policy: swaps(1), bytes: gpu * 4 / 10, slow: seconds(gpu, time.Second)})
	c := h.join(&tenant{policy: swaps(1), bytes: gpu * 4 / 10, slow: seconds(gpu, time.Second)})
	h.run(time.Second)
	h.lied = true // until there is room
	h.join(&tenant{policy: Policy{Guarantee: gpu / 2}})
	h.run(5 * time.Second)
	h.lied = false
	h.run(time.Minute)
	if b.outs == 0 || c.outs == 0 || b.longest > 20*time.Second || c.longest > 20*time.Second {
		t.Errorf("%+v, %+v", b, c)
	}
}

// TestBusyVictim: one whose work doesn't end stays; another goes, or the one that asks is denied.
func TestBusyVictim(t *testing.T) {
	h := newHost(t, gpu)
	never := func() bool { return true }
	a := h.join(&tenant{policy: swaps(1), bytes: gpu * 4 / 10, fails: never})
	b := h.join(&tenant{policy: swaps(1), bytes: gpu * 4 / 10})
	h.run(time.Second)
	c := h.join(&tenant{policy: swaps(1), bytes: gpu * 5 / 10})
	h.run(20 * time.Second)
	if c.have != c.bytes || c.denied != 0 || a.outs != 0 || b.outs == 0 {
		t.Errorf("another goes: %+v, %+v, %+v", a, b, c)
	}

	h = newHost(t, gpu)
	a = h.join(&tenant{policy: swaps(1), bytes: gpu * 8 / 10, fails: never})
	h.run(time.Second)
	c = h.join(&tenant{policy: swaps(1), bytes: gpu * 5 / 10})
	h.run(20 * time.Second)
	if a.outs != 0 || c.denied == 0 {
		t.Errorf("no other: %+v, %+v", a, c)
	}
}

// TestNoWayBack: a VM that would find no room again, since what stays of others has grown, isn't
// moved out. Who wants its memory is denied it.
func TestNoWayBack(t *testing.T) {
	h := newHost(t, gpu)
	a := h.join(&tenant{policy: swaps(1), bytes: gpu * 95 / 100})
	h.run(time.Second)
	h.lied = true
	b := h.join(&tenant{policy: swaps(1), bytes: gpu * 4 / 10, stays: gpu / 10})
	b.have = b.stays
	h.run(10 * time.Second)
	if a.outs != 0 || a.longest != 0 || b.denied == 0 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestIdle: a VM with nothing to do makes room, and isn't brought back for nothing.
func TestIdle(t *testing.T) {
	h := newHost(t, gpu)
	works := true
	a := h.join(&tenant{policy: swaps(1), bytes: gpu * 8 / 10,
		busy: func(Time) bool { return works }, slow: seconds(gpu, 100*time.Millisecond)})
	h.run(time.Second)
	works = false
	h.run(time.Second)
	b := h.join(&tenant{policy: swaps(1), bytes: gpu * 8 / 10, slow: a.slow})
	h.run(time.Minute)
	if a.outs != 1 || b.outs != 0 || b.resident < 59*time.Second {
		t.Errorf("%+v, %+v", a, b)
	}
	works = true
	h.run(10 * time.Second)
	if a.longest > 3*time.Second {
		t.Errorf("it was out for %v", a.longest)
	}
}

// TestLateAnswers: a VM that never obeys keeps others waiting for a bounded time.
func TestLateAnswers(t *testing.T) {
	h := newHost(t, gpu)
	a := h.join(&tenant{policy: swaps(1), bytes: gpu * 8 / 10})
	h.run(time.Second)
	a.slow = 1 // a second for each byte
	b := h.join(&tenant{policy: swaps(1), bytes: gpu * 8 / 10})
	h.run(3 * time.Minute)
	if b.denied == 0 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestModes: a VM that is out comes in for good when it is told to stay.
func TestModes(t *testing.T) {
	h := newHost(t, gpu)
	a := h.join(&tenant{policy: swaps(1), bytes: gpu * 8 / 10})
	b := h.join(&tenant{policy: swaps(1), bytes: gpu * 8 / 10})
	h.run(10 * time.Second)
	for range 10000 {
		if !a.in && a.doing == nil {
			break
		}
		h.run(tick)
	}
	a.policy.Swap = false
	h.s.Set(h.now, a.id, a.policy)
	h.obey()
	outs := a.outs
	h.run(10 * time.Second)
	if !a.in || b.in || a.outs != outs {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestUnknownSize: without a size nobody moves.
func TestUnknownSize(t *testing.T) {
	h := newHost(t, 0)
	h.lied = true
	a := h.join(&tenant{policy: swaps(1), bytes: 100})
	b := h.join(&tenant{policy: swaps(1), bytes: 100})
	h.run(time.Second)
	if a.have != 100 || b.have != 100 || a.room != 0 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestRandom has VMs of any kind join and leave: nothing is given twice, less than a tenth of the
// time goes by with moving, and nobody starves.
func TestRandom(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(name(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			h := newHost(t, gpu)
			list := random(r, h, 2+r.IntN(8))
			for _, x := range list {
				h.join(x)
				h.run(time.Duration(r.IntN(3000)) * time.Millisecond)
			}
			for range 4 {
				if r.IntN(2) == 0 {
					h.leave(h.order[r.IntN(len(h.order))])
				}
				h.run(30 * time.Second)
			}
			if h.part() >= 0.1 {
				t.Errorf("%.3f of the time goes by with moving", h.part())
			}
			for _, x := range h.tenants {
				if x.longest > 60*time.Second {
					t.Errorf("%d was out for %v: %+v", x.id, x.longest, x)
				}
				if !x.policy.moves() && x.outs != 0 {
					t.Errorf("%d has moved", x.id)
				}
			}
		})
	}
}
