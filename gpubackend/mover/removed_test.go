// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// TestDetach: memory comes back when no copy uses it any more, and copies that come later are
// refused.
func TestDetach(t *testing.T) {
	const n = 32 << 20
	mem, region := oneRegion(t, n)
	h := startHost(t, region)
	b := newBystander(t, h, mem)
	c := h.client()
	kept, keptMem, _ := attach(t, c, 8192)
	fill(mem, 5)
	whole := []wire.Run{{Address: guestBase, Bytes: n}}
	for range 10 {
		id, staging, _ := attach(t, c, n)
		for i := range uint64(4) {
			if err := c.Start(&moves.Move{ID: i, Staging: id, ToDevice: true,
				Runs: whole}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Detach(id); err != nil {
			t.Fatal(err)
		}
		clear(staging) // the mover writes there no more
		moved := finish(t, c, 4)
		for _, m := range moved {
			if m.Err != nil && !errors.Is(m.Err, ErrRange) {
				t.Errorf("copy %d: %v", m.ID, m.Err)
			}
		}
		if i := slices.IndexFunc(staging, func(b byte) bool { return b != 0 }); i >= 0 {
			t.Fatalf("byte %d was written after the memory had come back", i)
		}
		if err := move(t, c, &moves.Move{Staging: id, Runs: whole}); !errors.Is(err, ErrRange) {
			t.Errorf("a copy from memory that was taken back: error %v", err)
		}
	}
	if err := move(t, c,
		&moves.Move{Staging: kept, ToDevice: true,
			Runs: []wire.Run{{Address: guestBase, Bytes: 8192}}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(keptMem, mem[:8192]) {
		t.Error("other memory of the connection: bytes differ")
	}
	b.check(t)
	if err := c.Detach(kept + 100); err == nil {
		t.Error("memory that isn't lent was given back")
	}
	b.check(t)
}

// TestAttachInTheMiddle: a part of a file, which software GPUs lend.
func TestAttachInTheMiddle(t *testing.T) {
	mem, region := oneRegion(t, 1<<20)
	c := startHost(t, region).client()
	file, fd := mapped(t, 3*startUnit, unix.F_SEAL_SHRINK)
	id, err := c.Attach(fd, startUnit, startUnit)
	if err != nil {
		t.Fatal(err)
	}
	fill(mem, 6)
	if err := move(t, c,
		&moves.Move{Staging: id, Offset: 5, ToDevice: true,
			Runs: []wire.Run{{Address: guestBase, Bytes: 1 << 20}}}); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 3*startUnit)
	copy(want[startUnit+5:], mem)
	if !bytes.Equal(file, want) {
		t.Error("bytes differ")
	}
	if _, err := c.Attach(fd, 2*startUnit, startUnit+1); err == nil {
		t.Error("more than the file has was taken")
	}
}

func TestMemoryRemovedUnderLoad(t *testing.T) {
	const n = 4 << 20
	mem, region := oneRegion(t, n)
	extra, fd := mapped(t, n, 0)
	more := guestmem.Region{GuestAddr: 2 * guestBase, Size: n, FD: fd}
	h := startHost(t, region)
	b := newBystander(t, h, mem)
	c := h.client()
	id, _, _ := attach(t, c, n)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			for i := range uint64(4) {
				_ = c.Start(&moves.Move{ID: i, Staging: id,
					Runs: []wire.Run{{Address: 2 * guestBase, Bytes: n},
						{Address: guestBase, Bytes: 0}}})
			}
			for _, m := range finish(t, c, 4) {
				if m.Err != nil && !errors.Is(m.Err, ErrRange) {
					t.Errorf("copy: %v", m.Err)
				}
			}
		}
	}()
	for range 50 {
		h.sendMemory(handover.KindMemory, []guestmem.Region{region, more})
		h.expect(handover.KindDone)
		h.sendMemory(handover.KindMemory, []guestmem.Region{region})
		h.expect(handover.KindDone)
		// Nothing writes there from now on: the staging memory is all zeros.
		fill(extra[:64], 1)
		before := bytes.Clone(extra[:64])
		b.check(t)
		if !bytes.Equal(before, extra[:64]) {
			t.Error("memory that was removed was written")
		}
	}
	close(stop)
	wg.Wait()
}

func TestMemoryKeepsWhatStays(t *testing.T) {
	mem, region := oneRegion(t, 1<<20)
	_, fd := mapped(t, 1<<20, 0)
	m := &memory{}
	described, files := handover.Describe([]guestmem.Region{region})
	m, dropped, err := m.replaced(described, files)
	if err != nil || len(dropped) != 0 {
		t.Fatalf("first table: %v, %d dropped", err, len(dropped))
	}
	first := m.regions[0]
	described, files = handover.Describe([]guestmem.Region{region,
		{GuestAddr: 2 * guestBase, Size: 1 << 20, FD: fd}})
	m, dropped, err = m.replaced(described, files)
	if err != nil || len(dropped) != 0 || m.region(first.key) != first {
		t.Fatalf("second table: %v, %d dropped, kept %t", err, len(dropped),
			m.region(first.key) == first)
	}
	if mem[7] = 1; first.host[7] != 1 {
		t.Error("what stays is mapped no more")
	}
	described[1].GuestAddr = guestBase + 4096
	if _, _, err = m.replaced(described, files); err == nil {
		t.Error("regions that overlap were taken")
	}
	next, dropped, err := m.replaced(nil, nil)
	if err != nil || len(dropped) != 2 || len(next.regions) != 0 {
		t.Fatalf("empty table: %v, %d dropped", err, len(dropped))
	}
	closeRegions(dropped)
}
