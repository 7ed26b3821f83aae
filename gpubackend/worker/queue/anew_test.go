// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// arenaRun is where the guest has its arena.
var arenaRun = wire.Run{Address: 0x100000, Bytes: arena.MinBytes}

// offerArena makes an arena available that lies in run.
func (r *rig) offerArena(run wire.Run) {
	r.chain(chainsAt+0x8000, wire.ChainHeader{Type: wire.ChainArena, Bytes: run.Bytes}, run)
}

// unmapLater unmaps the queue's arena when the test ends, if it has one: a worker keeps its own.
func (r *rig) unmapLater() {
	r.t.Cleanup(func() {
		if a := r.arena; a != nil {
			arena.Unmap(uintptr(a.Address(a.SlotArea())-wire.Slots), arena.MinBytes)
		}
	})
}

// inAFile is what was saved of a queue with an arena, a map in flight, a map that is kept and one
// that is given back, of which the guest is yet to be told.
func inAFile(t *testing.T) (s *saved.Queue, in wire.ChainHeader, run wire.Run) {
	r := newRig(t)
	r.unmapLater()
	r.offerArena(arenaRun)
	in = wire.ChainHeader{Type: wire.ChainMap, Id: 5, Bytes: 4000, Offset: 96,
		Flags: wire.MapFlagOneshot}
	run = wire.Run{Address: 0x310000, Bytes: 4096}
	r.chain(chainsAt+0x4000, in, run)
	r.take()
	r.offer(8)
	r.offer(9)
	r.Return(r.Find(9))
	return r.Saved(), in, run
}

// anewRig is a queue that begins anew.
func anewRig(t *testing.T) *rig {
	r := newRig(t)
	r.unmapLater()
	r.where.Anew = true
	return r
}

// TestAnew: what was in flight comes once more, in any order and with what is new, and goes back by
// its new chains.
func TestAnew(t *testing.T) {
	s, in, run := inAFile(t)
	r := anewRig(t)
	r.has[8], r.has[9] = true, true
	r.chain(chainsAt, wire.ChainHeader{Type: wire.ChainMap, Id: 6, Bytes: 4096}, run)
	head := r.chain(chainsAt+0x4000, in, run)
	r.offerArena(arenaRun)
	if err := r.Restore(s); err != nil {
		t.Fatal(err)
	}
	m, kept, other := r.Find(5), r.Find(8), r.Find(6)
	if m == nil || m.Head != head || kept == nil || !kept.Kept || other == nil ||
		!slices.Equal(m.Runs, []wire.Run{run}) {
		t.Fatalf("%+v, %+v, %+v", m, kept, other)
	}
	r.Return(m)
	if id, _, ok := r.driver.Reap(); !ok || id != uint32(head) {
		t.Errorf("chain %d came back, want %d", id, head)
	}
	if ids := r.listen(); !slices.Equal(ids, []uint32{9}) {
		t.Errorf("the guest is told of %v", ids)
	}
	// Nothing is taken twice from now on.
	r.offerArena(arenaRun)
	r.take()
	r.reap()
	if again := r.Saved(); len(again.InFlight) != 2 || again.KeptMaps != 1 {
		t.Errorf("%+v", again)
	}
}

// TestNotAnew: a queue goes on only with all that was in flight, as it was.
func TestNotAnew(t *testing.T) {
	s, in, run := inAFile(t)
	longer, elsewhere := in, wire.Run{Address: run.Address + 4096, Bytes: 4096}
	longer.Bytes--
	for name, offer := range map[string]func(r *rig){
		"nothing":  func(*rig) {},
		"no arena": func(r *rig) { r.chain(chainsAt, in, run) },
		"no map":   func(r *rig) { r.offerArena(arenaRun) },
		"another arena": func(r *rig) {
			r.offerArena(wire.Run{Address: 0x180000, Bytes: arena.MinBytes})
			r.chain(chainsAt, in, run)
		},
		"another map": func(r *rig) {
			r.offerArena(arenaRun)
			r.chain(chainsAt, longer, run)
		},
		"other pages": func(r *rig) {
			r.offerArena(arenaRun)
			r.chain(chainsAt, in, elsewhere)
		},
	} {
		r := anewRig(t)
		offer(r)
		if err := r.Restore(s); !errors.Is(err, saved.ErrRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newRig(t) // a queue that doesn't begin anew must be where it was
	r.offerArena(arenaRun)
	r.chain(chainsAt, in, run)
	if err := r.Restore(s); !errors.Is(err, saved.ErrRecord) {
		t.Errorf("elsewhere: %v", err)
	}
}
