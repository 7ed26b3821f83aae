// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/wire/wiretest"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// FuzzChains takes chains with any header and runs. All that are refused come back.
func FuzzChains(f *testing.F) {
	f.Add(make([]byte, wire.ChainHeaderSize), uint16(0), uint16(0))
	good := make([]byte, wire.ChainHeaderSize+wire.RunSize)
	h := wire.ChainHeader{Type: wire.ChainMap, Bytes: 100, Runs: 1,
		List: 0x100000 + wire.ChainHeaderSize}
	h.Encode(good)
	binary.LittleEndian.PutUint64(good[wire.ChainHeaderSize+8:], 4096)
	f.Add(good, uint16(8), uint16(1))
	f.Add(append(good, make([]byte, wire.MapRecordSize)...), uint16(len(good)),
		uint16(virtqueuetest.Write))
	f.Fuzz(func(t *testing.T, header []byte, split, flags uint16) {
		r := newRig(t)
		header = header[:min(len(header), 4000)]
		at := min(int(split), len(header))
		for i := range uint64(3) {
			addr := 0x100000 + i*8192
			r.write(addr, header)
			if _, err := r.driver.Add(
				virtqueuetest.Desc{Addr: addr, Len: uint32(at)},
				virtqueuetest.Desc{Addr: addr + uint64(at), Len: uint32(len(header) - at),
					Flags: flags & virtqueuetest.Write},
			); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Take(); err != nil {
			t.Fatal(err)
		}
		kept := len(r.events) + len(r.maps) - r.kept.maps
		if back := int(r.driver.UsedIdx()); back+kept != 3 {
			t.Fatalf("%d chains came back and %d are kept, of 3", back, kept)
		}
	})
}

// chain makes a chain available that has only a part to be read, and returns its head.
func (r *rig) chain(at uint64, h wire.ChainHeader, runs ...wire.Run) (head uint16) {
	r.t.Helper()
	wiretest.Chain(r.write, at, h, runs...)
	head, err := r.driver.Add(virtqueuetest.Desc{Addr: at, Len: wire.ChainHeaderSize})
	if err != nil {
		r.t.Fatal(err)
	}
	return head
}

// TestChainsGoBack: a map is found when it is named, before anybody looks for chains. Its chain
// goes back with it, once. Another map of the same id goes back at once.
func TestChainsGoBack(t *testing.T) {
	r := newRig(t)
	runs := []wire.Run{{Address: 0x200000, Bytes: 4096}, {Address: 0x100000, Bytes: 8192}}
	h := wire.ChainHeader{Type: wire.ChainMap, Id: 5, Bytes: 12000, Offset: 100}
	head := r.chain(chainsAt, h, runs...)
	second := r.chain(chainsAt+4096, h, runs...)
	m := r.Find(5)
	if m == nil || m.Bytes != 12000 || m.Offset != 100 || !slices.Equal(m.Runs, runs) {
		t.Fatalf("%+v", m)
	}
	if id, _, ok := r.driver.Reap(); !ok || id != uint32(second) {
		t.Errorf("chain %d came back, want %d", id, second)
	}
	r.Return(m)
	r.Return(m)
	if id, _, ok := r.driver.Reap(); !ok || id != uint32(head) {
		t.Errorf("chain %d came back, want %d", id, head)
	}
	if _, _, ok := r.driver.Reap(); ok || r.Find(5) != nil {
		t.Error("it came back twice, or is there still")
	}
}

// TestOneArena: there is one for each channel, of whole pages.
func TestOneArena(t *testing.T) {
	r := newRig(t)
	for name, bad := range map[string]wire.Run{
		"half a page": {Address: 0x200000, Bytes: arena.MinBytes + 8},
		"too small":   {Address: 0x200000, Bytes: 4096},
		"beyond":      {Address: 1 << 40, Bytes: arena.MinBytes},
	} {
		r.chain(chainsAt, wire.ChainHeader{Type: wire.ChainArena, Bytes: bad.Bytes}, bad)
		r.take()
		if r.reap(); r.arena != nil {
			t.Fatalf("%s: an arena", name)
		}
	}
	r.Use(newArena(t))
	r.chain(chainsAt, wire.ChainHeader{Type: wire.ChainArena, Bytes: arena.MinBytes},
		wire.Run{Address: 0, Bytes: arena.MinBytes})
	r.take()
	r.reap()
}

func newArena(t *testing.T) *arena.Arena {
	t.Helper()
	a, err := arena.New(make([]byte, arena.MinBytes))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestSaved: another queue knows the maps that came through the saved one.
func TestSaved(t *testing.T) {
	r := newRig(t)
	r.Use(newArena(t))
	run := wire.Run{Address: 0x200000, Bytes: 4096}
	head := r.chain(chainsAt, wire.ChainHeader{Type: wire.ChainMap, Id: 5, Bytes: 4096}, run)
	r.offer(8)
	r.offer(9)
	r.unmap(9)
	s := r.Saved()
	if s.Base != 3 || !slices.Equal(s.InFlight, []uint16{head}) || len(s.Maps) != 2 ||
		s.KeptMaps != 2 || !slices.Equal(s.Gone, []uint32{9}) {
		t.Fatalf("%+v", s)
	}
	// The maps are restored as for a worker that keeps its arena.
	other := newRig(t)
	if err := other.RestoreMaps(s.Maps); err != nil {
		t.Fatal(err)
	}
	m, kept := other.Find(5), other.Find(8)
	if m.Head != head || m.Kept || !kept.Kept || other.host.Used() != mapBytes+wire.RunSize {
		t.Errorf("%+v, %+v, %d bytes count", m, kept, other.host.Used())
	}
	for _, bad := range []saved.Map{
		{ID: 5}, // is there already
		{ID: 6, Bytes: 5000, Runs: []wire.Run{run}},
		{ID: 6, Bytes: 1, Offset: 4096, Runs: []wire.Run{run}},
		{ID: 6, Bytes: 1, Runs: []wire.Run{{Address: 1 << 40, Bytes: 4096}}},
	} {
		if err := other.RestoreMaps([]saved.Map{bad}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
