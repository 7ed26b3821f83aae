// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// lendAll lends pieces of a file until one is refused, most of them at most, and returns how many
// were taken.
func lendAll(t *testing.T, c *Client, fd, most int) (last uint32, n int) {
	t.Helper()
	for ; n < most; n++ {
		id, err := c.Attach(fd, 0, 4096)
		if errors.Is(err, moves.ErrRefused) {
			break
		}
		if err != nil {
			t.Fatalf("piece %d: %v", n, err)
		}
		last = id
	}
	return last, n
}

// TestLentMappingsAreBounded: those of each worker and of all, but each may have some; what comes
// back can be lent again.
func TestLentMappingsAreBounded(t *testing.T) {
	// A quarter of the system's mappings is for all, and each worker may have 16 in any case.
	const system, one, all, assured = 4096, 1040, 1024, 16
	mem, region := oneRegion(t, 1<<20)
	h := startMover(t, "soft", Config{Mappings: system}, region)
	_, fd := mapped(t, 4096, unix.F_SEAL_SHRINK)
	first := h.client()
	last, n := lendAll(t, first, fd, system)
	if n != one {
		t.Errorf("one worker lends %d pieces, want %d", n, one)
	}
	second := h.client()
	if _, n := lendAll(t, second, fd, system); n != assured {
		t.Errorf("another one lends %d pieces, want %d", n, assured)
	}
	newBystander(t, h, mem).check(t)
	if err := first.Detach(last); err != nil {
		t.Fatal(err)
	}
	if _, n := lendAll(t, second, fd, system); n != 1 {
		t.Errorf("for one piece that came back %d are taken", n)
	}
	_ = first.Close()
	h.sendMemory(handover.KindMemory, []guestmem.Region{region})
	h.expect(handover.KindDone)
	if _, n := lendAll(t, second, fd, system); n != all-1 {
		t.Errorf("%d pieces are taken when the first worker is gone, want %d", n, all-1)
	}
}

// TestManyWorkersLendMuch: workers try to lend more than Linux lets the mover map (65,530 by
// default). It goes on.
func TestManyWorkersLendMuch(t *testing.T) {
	const workers, each = 34, 2000
	mem, region := oneRegion(t, 1<<20)
	h := startHost(t, region)
	_, fd := mapped(t, 4096, unix.F_SEAL_SHRINK)
	for range workers {
		if _, n := lendAll(t, h.client(), fd, each); n < 1 {
			t.Error("a worker can lend nothing")
		}
	}
	newBystander(t, h, mem).check(t)
}

// TestLentBytesAreBounded: sparse files cost nothing but addresses.
func TestLentBytesAreBounded(t *testing.T) {
	mem, region := oneRegion(t, 1<<20)
	h := startHost(t, region)
	fd := sparse(t, maxStaging, unix.F_SEAL_SHRINK)
	for range 2 {
		c := h.client()
		whole, err := c.Attach(fd, 0, maxStaging)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Attach(fd, 0, 4096); !errors.Is(err, moves.ErrRefused) {
			t.Errorf("beyond the bound: %v", err)
		}
		if err := c.Detach(whole); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Attach(fd, maxStaging-startUnit, startUnit); err != nil {
			t.Errorf("after it came back: %v", err)
		}
	}
	newBystander(t, h, mem).check(t)
	q := newQuota(1 << 20)
	workers := make([]taken, maxLent/maxStaging+1)
	for i := range workers {
		if err := q.take(&workers[i], maxStaging); (err == nil) != (i < len(workers)-1) {
			t.Fatalf("worker %d: %v", i, err)
		}
	}
}

// sparse makes a file in memory of holes.
func sparse(t *testing.T, n int64, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("sparse", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Ftruncate(fd, n); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestOnlySealedMemoryIsTaken: with any other file, a hostile worker could make the mover wait, or
// fault.
func TestOnlySealedMemoryIsTaken(t *testing.T) {
	mem, region := oneRegion(t, 1<<20)
	h := startHost(t, region)
	c := h.client()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer handover.CloseFiles(pipe[:])
	_, open := mapped(t, 4096, 0)
	_, grows := mapped(t, 4096, unix.F_SEAL_GROW)
	for what, fd := range map[string]int{
		"memory without seals": open, "memory that can shrink": grows,
		"a file": int(file.Fd()), "a pipe": pipe[0], "the guest's memory": region.FD,
		"memory that can't be written": sparse(t, 4096, unix.F_SEAL_SHRINK|unix.F_SEAL_WRITE),
		"memory that is too large":     sparse(t, maxStaging+4096, unix.F_SEAL_SHRINK),
	} {
		if _, err := c.Attach(fd, 0, 4096); !errors.Is(err, moves.ErrRefused) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	good, staging, _ := attach(t, c, 4096)
	fill(mem, 1)
	page := []wire.Run{{Address: guestBase, Bytes: 4096}}
	if err := move(t, c, &moves.Move{Staging: good, ToDevice: true, Runs: page}); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(staging, mem[:4096]) {
		t.Error("what the same worker lends in order: bytes differ")
	}
}

func TestQuotaOfFewMappings(t *testing.T) {
	for _, system := range []int{-1, 0, 1, 100, 65530, 1 << 31} {
		q := newQuota(system)
		var workers [wire.MaxChannels]taken
		n := 0
		for i := range workers {
			for q.take(&workers[i], 1) == nil {
				n++
			}
			if workers[i].mappings < 1 {
				t.Errorf("of %d mappings worker %d gets none", system, i)
			}
		}
		if n > max(system/2, system/4+wire.MaxChannels) || n < min(system/8, maxStagings) {
			t.Errorf("of %d mappings %d are lent", system, n)
		}
		for i := range workers {
			for workers[i].mappings > 0 {
				q.give(&workers[i], 1)
			}
		}
		if q.shared != 0 || q.bytes != 0 {
			t.Errorf("of %d mappings %d, %d bytes stay counted", system, q.shared, q.bytes)
		}
	}
}
