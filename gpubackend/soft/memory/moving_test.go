// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// blocks is how many bytes of the host's memory a device's memory takes.
func blocks(t *testing.T, r *rig) int64 {
	t.Helper()
	fd, _, err := r.Space().Duplicate(r.Space().Base())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// TestMoving allocates, frees, and moves out and in, again and again. What is in the allocations
// stays: a map has a copy of each.
func TestMoving(t *testing.T) {
	r := newRig(t, 128<<20, 4)
	random := rand.New(rand.NewPCG(1, 1))
	want := map[uint64][]byte{}
	for round := range 10 {
		for range 6 {
			n := 1 + random.Uint64N(3<<20)
			addr, result := r.MemAlloc(n)
			if result != gpubackend.Success {
				break
			}
			has := make([]byte, n)
			for i := 0; i < len(has); i += 1 + random.IntN(4096) {
				has[i] = byte(random.Uint32())
			}
			copy(space.Bytes(addr, n), has)
			want[addr] = has
		}
		for addr := range want {
			if random.IntN(3) == 0 {
				ok(t, r.MemFree(addr))
				delete(want, addr)
			}
		}
		list := r.Pieces()
		image := make([]byte, gpubackend.PieceBytes(list))
		ok(t, r.SavePieces(list, image))
		ok(t, r.LeavePieces(list))
		if n := blocks(t, r); n != 0 {
			t.Fatalf("round %d: %d bytes are taken when all is out", round, n)
		}
		if len(list) > 0 && r.SavePieces(list, image) != gpubackend.InvalidValue {
			t.Fatal("what is out can be read")
		}
		ok(t, r.ReturnPieces(list))
		ok(t, r.LoadPieces(list, image))
		for addr, has := range want {
			if !bytes.Equal(space.Bytes(addr, uint64(len(has))), has) {
				t.Fatalf("round %d: %d bytes at %#x are others", round, len(has), addr)
			}
		}
	}
}

// TestWhatStays: staging memory is no piece. Pieces that aren't there, and images and limits that
// are too small, are refused.
func TestWhatStays(t *testing.T) {
	r := newRig(t, 64<<20, 4)
	if len(r.Pieces()) != 0 {
		t.Error("pieces without an allocation")
	}
	addr, fd, result := r.Staging(1 << 20)
	ok(t, result)
	defer unix.Close(fd)
	defer r.Unstage(addr)
	if list := r.Pieces(); len(list) != 0 {
		t.Errorf("staging memory is in %+v", list)
	}
	bad := []gpubackend.Piece{{Address: 5, Bytes: 2 << 20}}
	want(t, r.SavePieces(bad, make([]byte, 2<<20)), gpubackend.InvalidValue)
	want(t, r.SaveApart(bad, [][]byte{make([]byte, 2<<20)}), gpubackend.InvalidValue)
	want(t, r.LeavePieces(bad), gpubackend.InvalidValue)
	want(t, r.ReturnPieces(bad), gpubackend.InvalidValue)
	a, result := r.MemAlloc(16 << 20)
	ok(t, result)
	want(t, r.SavePieces(r.Pieces(), make([]byte, 1<<20)), gpubackend.InvalidValue)
	list := r.Pieces()
	ok(t, r.LeavePieces(list))
	r.Space().Heap(0).SetLimit(8 << 20)
	want(t, r.ReturnPieces(list), gpubackend.OutOfMemory)
	r.Space().Heap(0).SetLimit(64 << 20)
	ok(t, r.ReturnPieces(list))
	ok(t, r.MemFree(a))
}
