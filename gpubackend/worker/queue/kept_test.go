// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestKeptMaps pins 10,000 pieces through a queue of 16 entries, and gives them back in another
// order.
func TestKeptMaps(t *testing.T) {
	r := newRig(t)
	const n = 10000
	for id := range uint32(n) {
		r.offer(id)
	}
	if len(r.has) != n || r.host.Used() != n*(mapBytes+wire.RunSize) {
		t.Fatalf("%d of %d maps are kept, %d bytes count", len(r.has), n, r.host.Used())
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	for _, id := range order {
		if !r.unmap(uint32(id)) {
			t.Fatalf("there is no map %d", id)
		}
	}
	r.Signal() // there is no EVENT: nothing can be said, and nothing is lost
	var told []int
	for len(told) < n {
		for _, id := range r.listen() {
			told = append(told, int(id))
		}
	}
	if !slices.Equal(told, order) || len(r.has)+r.kept.maps != 0 || r.host.Used() != 0 {
		t.Errorf("%d are told, %d are kept, %d bytes count", len(told), len(r.has), r.host.Used())
	}
}

// TestUnknownMaps names maps that aren't there, or not any more, and offers one twice.
func TestUnknownMaps(t *testing.T) {
	r := newRig(t)
	r.offer(7)
	before := r.host.Used()
	delete(r.has, 7)
	if r.offer(7); r.has[7] || r.host.Used() != before {
		t.Error("a map is taken twice under one id")
	}
	r.has[7] = true
	for i, want := range []bool{true, false, false} {
		if got := r.unmap(7); got != want {
			t.Errorf("unmap number %d: %t, want %t", i, got, want)
		}
	}
	if r.unmap(8) {
		t.Error("there is a map that was never offered")
	}
	if got := r.listen(); !slices.Equal(got, []uint32{7}) {
		t.Errorf("maps %d go back", got)
	}
}

// TestKeptMapsAreBounded: a map that is given back counts until the guest is told.
func TestKeptMapsAreBounded(t *testing.T) {
	r := newRig(t)
	for id := range uint32(wire.KeptMaps) {
		r.offer(id)
	}
	last := uint32(wire.KeptMaps)
	if r.offer(last); len(r.has) != wire.KeptMaps || r.has[last] {
		t.Fatalf("%d maps are kept", len(r.has))
	}
	r.unmap(3)
	if r.offer(last); r.has[last] {
		t.Error("one more is kept, while the guest still counts one that goes back")
	}
	r.listen()
	if r.offer(last); !r.has[last] {
		t.Error("what went back makes no room")
	}
}

// TestMapsWithoutHostMemory are kept without their pages, and go back as others do.
func TestMapsWithoutHostMemory(t *testing.T) {
	r := newRig(t)
	r.host.SetLimit(mapBytes + wire.RunSize)
	r.offer(1)
	r.offer(2)
	if r.Find(1).Missing() || !r.Find(2).Missing() {
		t.Errorf("%+v, %+v", r.Find(1), r.Find(2))
	}
	if !r.unmap(2) || !r.unmap(1) {
		t.Error("what can't be used can't be given back")
	}
	if n := len(r.listen()); n != 2 || r.host.Used() != 0 {
		t.Errorf("%d maps went back; %d bytes count", n, r.host.Used())
	}
}

// TestRandomKeptMaps compares the queue with a set.
func TestRandomKeptMaps(t *testing.T) {
	r, random := newRig(t), rand.New(rand.NewPCG(3, 4))
	var mine []uint32
	pending, next := map[uint32]bool{}, uint32(1)
	for range 3000 {
		switch random.IntN(3) {
		case 0:
			r.offer(next)
			mine = append(mine, next)
			next++
		case 1:
			if len(mine) > 0 {
				i := random.IntN(len(mine))
				if !r.unmap(mine[i]) {
					t.Fatalf("there is no map %d", mine[i])
				}
				pending[mine[i]] = true
				mine = slices.Delete(mine, i, i+1)
			}
		case 2:
			if len(pending) > 0 {
				for _, id := range r.listen() {
					if !pending[id] {
						t.Fatalf("map %d goes back though it is in use", id)
					}
					delete(pending, id)
				}
			}
		}
		known, all := len(r.maps), len(mine)+len(pending)
		if known != len(mine) || len(r.has) != all || r.kept.maps != all {
			t.Fatalf("%d are kept, %d known, of %d and %d", len(r.has), known, all, len(mine))
		}
	}
}
