// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
)

// allocatingGraph is an executable graph that allocates. The graph that it was made from is gone.
func allocatingGraph(t *testing.T, d *Device, sizes ...uint64) gpubackend.GraphExec {
	t.Helper()
	g, r := d.GraphCreate(0)
	must(t, "create", r)
	for _, bytes := range sizes {
		_, _, _, r = d.GraphAddNode(g, nil, nil, allocationNode(bytes))
		must(t, "add", r)
	}
	e, r := d.GraphInstantiateWithFlags(g, 0)
	must(t, "instantiate", r)
	must(t, "destroy", d.GraphDestroy(g))
	return e
}

func allocationNode(bytes uint64) *gpubackend.Node {
	n := &gpubackend.Node{Type: gpubackend.NodeMemAlloc, Bytes: bytes, Pool: make([]byte, 88)}
	n.Pool[0], n.Pool[8] = 1, 1
	return n
}

// limited is a device with a limit, on which graphs have no memory yet.
func limited(t *testing.T, limit uint64) *Device {
	t.Helper()
	d := newDevice(t, Options{MemoryLimit: limit})
	drivertest.Tell("fake_graph_used", 0)
	must(t, "trim", d.DeviceGraphMemTrim(0))
	return d
}

// TestGraphsCountForTheLimit: what graphs have according to the driver counts, and a launch that
// needs more than is left is refused.
func TestGraphsCountForTheLimit(t *testing.T) {
	d := limited(t, 100<<20)
	small, large := allocatingGraph(t, d, 20<<20, 20<<20), allocatingGraph(t, d, 60<<20)
	if d.Used(0) != 0 {
		t.Fatalf("%d bytes count for graphs that were never launched", d.Used(0))
	}
	must(t, "launch", d.GraphLaunch(small, 0))
	if d.Used(0) != 40<<20 {
		t.Fatalf("%d MiB count", d.Used(0)>>20)
	}
	must(t, "launch one after the other", d.GraphLaunch(large, 0))
	if d.Used(0) != 60<<20 {
		t.Fatalf("%d MiB count for graphs that share memory", d.Used(0)>>20)
	}
	p := alloc(t, d, 90<<20) // graphs give up what they don't use
	if d.Used(0) != 90<<20 {
		t.Fatalf("%d MiB count", d.Used(0)>>20)
	}
	want(t, "launch beside it", d.GraphLaunch(large, 0), gpubackend.OutOfMemory)
	want(t, "upload beside it", d.GraphUpload(small, 0), gpubackend.OutOfMemory)
	must(t, "free", d.MemFree(p))
	must(t, "launch again", d.GraphLaunch(large, 0))
	must(t, "destroy", d.GraphExecDestroy(large))
	must(t, "trim", d.DeviceGraphMemTrim(0))
	if d.Used(0) != 0 || d.graphRoom.Allocating() != 1 {
		t.Errorf("%d bytes count in the end, %d graphs are known", d.Used(0),
			d.graphRoom.Allocating())
	}
}

// TestGraphMemoryThatIsInUse isn't given up, and counts even when its graph is gone.
func TestGraphMemoryThatIsInUse(t *testing.T) {
	d := limited(t, 100<<20)
	e := allocatingGraph(t, d, 60<<20)
	must(t, "launch", d.GraphLaunch(e, 0))
	drivertest.Tell("fake_graph_used", 60<<20)
	must(t, "destroy", d.GraphExecDestroy(e))
	_, r := d.MemAlloc(50 << 20)
	want(t, "allocate", r, gpubackend.OutOfMemory)
	want(t, "another graph", d.GraphLaunch(allocatingGraph(t, d, 60<<20), 0),
		gpubackend.OutOfMemory)
	drivertest.Tell("fake_graph_used", 0)
	alloc(t, d, 50<<20)
}

// TestUsedGraphMemoryIsNotSaved, though no graph is left that could tell of it.
func TestUsedGraphMemoryIsNotSaved(t *testing.T) {
	for _, limit := range []uint64{0, 100 << 20} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			d := limited(t, limit)
			e := allocatingGraph(t, d, 60<<20)
			must(t, "launch", d.GraphLaunch(e, 0))
			drivertest.Tell("fake_graph_used", 60<<20)
			must(t, "destroy", d.GraphExecDestroy(e))
			if why := d.Unsavable(); !strings.Contains(why, "a graph has allocated") {
				t.Errorf("it is refused because of %q", why)
			}
			drivertest.Tell("fake_graph_used", 0)
			if why := d.Unsavable(); why != "" {
				t.Errorf("nothing is in use, and it is refused because of %q", why)
			}
		})
	}
}

// TestFreeOfGraphMemory: the driver frees what a graph allocated, at once or in a stream, and
// nothing else.
func TestFreeOfGraphMemory(t *testing.T) {
	const address = 0x7000
	d := limited(t, 100<<20)
	want(t, "free what no graph has", d.GraphFree(address, 0), gpubackend.NotFound)
	want(t, "free it at once", d.MemFree(address), gpubackend.InvalidValue)
	e := allocatingGraph(t, d, 60<<20)
	want(t, "free what isn't allocated yet", d.MemFree(address), gpubackend.InvalidValue)
	for _, free := range []func() gpubackend.Result{
		func() gpubackend.Result { return d.MemFree(address) },
		func() gpubackend.Result { return d.GraphFree(address, 2) },
	} {
		must(t, "launch", d.GraphLaunch(e, 0))
		drivertest.Tell("fake_graph_used", 60<<20)
		must(t, "free", free())
		want(t, "free again", free(), gpubackend.InvalidValue)
	}
	for _, r := range []gpubackend.Result{d.GraphFree(alloc(t, d, 4096), 0), d.GraphFree(0, 0)} {
		want(t, "free other memory", r, gpubackend.NotFound)
	}
}

// TestGraphsAboveTheLimit: no node and no executable graph is made that needs more than the limit.
func TestGraphsAboveTheLimit(t *testing.T) {
	d := limited(t, 100<<20)
	g, r := d.GraphCreate(0)
	must(t, "create", r)
	_, _, _, r = d.GraphAddNode(g, nil, nil, allocationNode(101<<20))
	want(t, "node", r, gpubackend.OutOfMemory)
	for range 2 {
		_, _, _, r = d.GraphAddNode(g, nil, nil, allocationNode(60<<20))
		must(t, "node", r)
	}
	_, r = d.GraphInstantiateWithFlags(g, 0)
	want(t, "instantiate", r, gpubackend.OutOfMemory)
}
