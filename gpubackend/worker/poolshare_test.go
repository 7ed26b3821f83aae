// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
)

// sharedPool is a pool of one worker and what another one has imported of it.
func sharedPool(t *testing.T) (one, other *rig, pool, same uint64) {
	t.Helper()
	one, conn := exporter(t, oneBase)
	other, _ = exporter(t, otherBase)
	pool = one.want(t, 0, gpubackend.OpMemPoolCreate, 0, 0, pools.HandlePosixFile)
	n := one.want(t, 0, gpubackend.OpMemPoolExportToShareableHandle, pool)
	message, fds := offerOf(t, conn)
	o := *message.Object
	if uint64(o.Number) != n || o.Kind != handover.ObjectPool || o.Token == 0 || len(fds) != 0 {
		t.Fatalf("number %d, offer %+v, %d files", n, o, len(fds))
	}
	o.Import = 1
	hand(t, other, o, -1)
	// A pool isn't memory.
	other.want(t, gpubackend.InvalidValue, gpubackend.OpMemImportFromShareableHandle, 1)
	hand(t, other, o, -1)
	return one, other, pool, other.want(t, 0, gpubackend.OpMemPoolImportFromShareableHandle, 1)
}

// exported allocates from a pool. It returns the address, and the words of ImportPointer that
// follow the pool.
func exported(t *testing.T, r *rig, pool, bytes uint64) (address uint64, words []uint64) {
	t.Helper()
	address = r.want(t, 0, gpubackend.OpMemAllocAsync, bytes, pool, 0)
	r.want(t, 0, gpubackend.OpMemPoolExportPointer, address)
	s := r.slot()
	return address, copyOf(s.Word[:4])
}

func copyOf(w []uint64) []uint64 { return append([]uint64(nil), w...) }

func (r *rig) fill(t *testing.T, address, n uint64, value byte) {
	t.Helper()
	r.want(t, 0, gpubackend.OpMemsetD8Async, address, uint64(value), n, 0)
	r.want(t, 0, gpubackend.OpCtxSynchronize)
}

// holds says whether device memory has one value throughout.
func (r *rig) holds(t *testing.T, address, n uint64, value byte) bool {
	t.Helper()
	got := make([]byte, n)
	if result := r.Worker.driver.CopyOut(got, address); result != gpubackend.Success {
		t.Fatalf("read: %d", result)
	}
	return bytes.Equal(got, bytes.Repeat([]byte{value}, int(n)))
}

func TestPoolsAreShared(t *testing.T) {
	one, other, pool, same := sharedPool(t)
	var addresses, pointers []uint64
	for i := range uint64(4) {
		a, words := exported(t, one, pool, 4096)
		one.fill(t, a, 4096, byte(i+1))
		p := other.want(t, 0, gpubackend.OpMemPoolImportPointer,
			append([]uint64{same}, words...)...)
		other.want(t, gpubackend.AlreadyMapped, gpubackend.OpMemPoolImportPointer,
			append([]uint64{same}, words...)...)
		if !other.holds(t, p, 4096, byte(i+1)) {
			t.Errorf("pointer %d: other memory", i)
		}
		addresses, pointers = append(addresses, a), append(pointers, p)
	}
	offered, _, _ := one.pools.Segments()
	if _, n, _ := other.pools.Segments(); n != 1 || offered != 1 {
		t.Errorf("%d segments are mapped, %d offered", n, offered)
	}
	for i, p := range pointers {
		other.fill(t, p, 4096, byte(i+100))
	}
	for i, a := range addresses {
		if !one.holds(t, a, 4096, byte(i+100)) {
			t.Errorf("allocation %d: the other's writes are not here", i)
		}
	}
	free := other.want(t, 0, gpubackend.OpMemGetInfo)
	for i, p := range pointers {
		if i%2 == 0 {
			other.want(t, 0, gpubackend.OpMemFree, p)
		} else {
			other.want(t, 0, gpubackend.OpMemFreeAsync, p, 0)
		}
		other.want(t, gpubackend.InvalidValue, gpubackend.OpMemFree, p)
	}
	other.want(t, 0, gpubackend.OpCtxSynchronize)
	other.pools.Settle()
	if _, mapped, pointers := other.pools.Segments(); mapped != 0 || pointers != 0 {
		t.Errorf("left: %d segments, %d pointers", mapped, pointers)
	}
	if now := other.want(t, 0, gpubackend.OpMemGetInfo); now <= free {
		t.Errorf("%d bytes are free, %d before", now, free)
	}
	for _, a := range addresses {
		one.want(t, 0, gpubackend.OpMemFreeAsync, a, 0)
	}
	one.want(t, 0, gpubackend.OpCtxSynchronize)
	one.pools.Settle()
	if n, _, _ := one.pools.Segments(); n != 0 {
		t.Errorf("%d segments are offered of memory that was freed", n)
	}
}

func TestPoolImportsOfNonsense(t *testing.T) {
	one, other, pool, same := sharedPool(t)
	a, good := exported(t, one, pool, 4096)
	plain := one.want(t, 0, gpubackend.OpMemPoolCreate, 0, 0, 0)
	b := one.want(t, 0, gpubackend.OpMemAllocAsync, 4096, plain, 0)
	for _, c := range []struct {
		name  string
		r     *rig
		want  gpubackend.Result
		op    gpubackend.Op
		words []uint64
	}{
		{"a pool that can't be shared", one, gpubackend.InvalidValue,
			gpubackend.OpMemPoolExportToShareableHandle, []uint64{plain}},
		{"no pool", one, gpubackend.InvalidValue, gpubackend.OpMemPoolExportToShareableHandle,
			[]uint64{plain + 99}},
		{"an imported pool", other, gpubackend.InvalidValue,
			gpubackend.OpMemPoolExportToShareableHandle, []uint64{same}},
		{"memory of a pool that can't be shared", one, gpubackend.InvalidValue,
			gpubackend.OpMemPoolExportPointer, []uint64{b}},
		{"the middle of memory", one, gpubackend.InvalidValue, gpubackend.OpMemPoolExportPointer,
			[]uint64{a + 512}},
		{"types that there are not", one, gpubackend.NotSupported, gpubackend.OpMemPoolCreate,
			[]uint64{0, 0, 9}},
		{"allocation from an imported pool", other, gpubackend.InvalidValue,
			gpubackend.OpMemAllocAsync, []uint64{512, same, 0}},
		{"nothing handed over", other, gpubackend.InvalidValue,
			gpubackend.OpMemPoolImportFromShareableHandle, []uint64{7}},
		{"a pool that isn't imported", one, gpubackend.InvalidValue,
			gpubackend.OpMemPoolImportPointer, append([]uint64{pool}, good...)},
		{"another pool's token", other, gpubackend.InvalidValue, gpubackend.OpMemPoolImportPointer,
			[]uint64{same, good[0] + 1, good[1], good[2], good[3]}},
		{"beyond the segment", other, gpubackend.InvalidValue, gpubackend.OpMemPoolImportPointer,
			[]uint64{same, good[0], good[1], good[2], 1 << 40}},
		{"far beyond it", other, gpubackend.InvalidValue, gpubackend.OpMemPoolImportPointer,
			[]uint64{same, good[0], good[1], good[2], ^uint64(0)}},
	} {
		if result := c.r.call(t, c.op, c.words...); result != c.want {
			t.Errorf("%s: %d, want %d", c.name, result, c.want)
		}
	}
	if _, n, _ := other.pools.Segments(); n != 0 {
		t.Errorf("%d segments are mapped", n)
	}
	other.want(t, 0, gpubackend.OpMemPoolImportPointer, append([]uint64{same}, good...)...)
}

// TestContextTakesItsPointers ends the contexts of exporter and importer.
func TestContextTakesItsPointers(t *testing.T) {
	one, other, pool, same := sharedPool(t)
	_, words := exported(t, one, pool, 1<<20)
	other.want(t, 0, gpubackend.OpMemPoolImportPointer, append([]uint64{same}, words...)...)
	other.pools.Forget(other.context)
	if _, _, n := other.pools.Segments(); n != 0 {
		t.Errorf("%d pointers are left", n)
	}
	other.want(t, 0, gpubackend.OpMemPoolImportPointer, append([]uint64{same}, words...)...)
	one.pools.Forget(one.context)
	if n, _, _ := one.pools.Segments(); n != 0 {
		t.Errorf("%d segments are offered", n)
	}
}

// TestMemoryIsOpenedAsItIsOffered: what the importing guest says of the memory must be what the
// offer says.
func TestMemoryIsOpenedAsItIsOffered(t *testing.T) {
	one, _ := exporter(t, oneBase)
	other, _ := exporter(t, otherBase)
	secret := one.want(t, 0, gpubackend.OpMemAlloc, 40<<20/4)
	a := one.want(t, 0, gpubackend.OpMemAlloc, 40<<20/4)
	one.want(t, 0, gpubackend.OpIpcGetMemHandle, a)
	s := one.slot()
	good := copyOf(s.Word[:5])
	one.want(t, 0, gpubackend.OpIpcGetMemHandle, secret)
	for i, wrong := range []uint64{one.slot().Word[2], good[3] * 2, good[3]} {
		words := copyOf(good)
		words[2+i] = wrong
		if result := other.call(t, gpubackend.OpIpcOpenMemHandle,
			words...); result != gpubackend.InvalidValue {
			t.Errorf("word %d is %#x: %d", 2+i, wrong, result)
		}
	}
	other.want(t, 0, gpubackend.OpIpcOpenMemHandle, good...)
}
