// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// allocNode is a node that allocates memory.
func allocNode(bytes uint64) *gpubackend.Node {
	n := &gpubackend.Node{Type: gpubackend.NodeMemAlloc, Bytes: bytes,
		Pool: make([]byte, cudaabi.MemPoolPropsSize)}
	p := cudaabi.MemPoolProps(n.Pool)
	p.SetAllocType(cudaabi.MemAllocationPinned)
	p.Location().SetType(cudaabi.MemLocationDevice)
	return n
}

func TestGraphMemory(t *testing.T) {
	d := newDevice(t, Options{})
	g := newGraph(t, d)
	n, address, _, result := d.GraphAddNode(g, nil, nil, allocNode(1<<20))
	ok(t, result)
	addNode(t, d, g, fillNode(address, 7, 1<<20), n)
	_, result = d.GraphClone(g)
	want(t, result, gpubackend.NotSupported)
	want(t, d.GraphDestroyNode(n), gpubackend.NotSupported)
	want(t, d.MemFree(address), gpubackend.InvalidValue)
	e := instantiate(t, d, g, 0)
	_, result = d.GraphInstantiateWithFlags(g, 0)
	want(t, result, gpubackend.NotSupported)
	ok(t, d.GraphLaunch(e, 0))
	want(t, d.GraphLaunch(e, 0), gpubackend.InvalidValue)
	if used, result := d.GraphMemory(0, cudaabi.GraphMemAttrUsedMemCurrent); used != 1<<20 ||
		result != gpubackend.Success {
		t.Errorf("%d bytes used, result %d", used, result)
	}
	ok(t, d.MemFree(address))
	want(t, d.MemFree(address), gpubackend.InvalidValue)
	ok(t, d.GraphLaunch(e, 0))
	ok(t, d.GraphExecDestroy(e))
	ok(t, d.GraphDestroy(g))
	synchronize(t, d)
	if got := read(t, d, address, 4); got[3] != 7 { // it stays until it is freed
		t.Errorf("got %v", got)
	}
	ok(t, d.MemFree(address))
	synchronize(t, d)
	if free, total, _ := d.MemGetInfo(); free != total {
		t.Errorf("%d of %d bytes free", free, total)
	}
	for i := range 4 {
		if v, _ := d.GraphMemory(0, uint64(i)); v != uint64(i%2)<<20 {
			t.Errorf("attribute %d: %d", i, v)
		}
	}
	ok(t, d.GraphMemorySet(0, 1, 0))
	if high, _ := d.GraphMemory(0, 1); high != 0 {
		t.Errorf("high-water mark %d", high)
	}
	want(t, d.GraphMemorySet(0, 0, 0), gpubackend.InvalidValue)
	want(t, d.GraphMemorySet(0, 4, 0), gpubackend.InvalidValue)
}

func TestGraphMemoryIsFreedByLaunches(t *testing.T) {
	d := newDevice(t, Options{})
	g := newGraph(t, d)
	n, address, _, result := d.GraphAddNode(g, nil, nil, allocNode(4096))
	ok(t, result)
	e := instantiate(t, d, g, cudaabi.GraphInstantiateFlagAutoFreeOnLaunch)
	for range 3 {
		ok(t, d.GraphLaunch(e, 0))
	}
	ok(t, d.GraphExecDestroy(e))
	freeing := newGraph(t, d)
	addNode(t, d, freeing, &gpubackend.Node{Type: gpubackend.NodeMemFree, Address: address})
	f := instantiate(t, d, freeing, 0)
	ok(t, d.GraphLaunch(f, 0))
	want(t, d.GraphLaunch(f, 0), gpubackend.InvalidValue)
	addNode(t, d, g, &gpubackend.Node{Type: gpubackend.NodeMemFree, Address: address}, n)
	e = instantiate(t, d, g, 0)
	for range 3 {
		ok(t, d.GraphLaunch(e, 0))
	}
	ok(t, d.DevicePrimaryCtxReset(0))
	want(t, d.GraphLaunch(e, 0), gpubackend.InvalidValue)
	if held := d.Graphs.Held(); held.Allocations != 0 || held.Reserved != 0 {
		t.Errorf("%d pieces are left", held.Allocations)
	}
}
