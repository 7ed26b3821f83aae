// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

func newGreen(
	t *testing.T, d *Device, r gpubackend.Resource,
) (gpubackend.GreenContext, gpubackend.Context) {
	t.Helper()
	desc, result := d.DescribeResources([]gpubackend.Resource{r})
	must(t, "describe", result)
	g, c, result := d.GreenCtxCreate(desc, 0, 1)
	must(t, "create", result)
	return g, c
}

func TestResourcesPassUnchanged(t *testing.T) {
	d := newDevice(t, Options{})
	r, result := d.DevResource(gpubackend.OfDevice, 0, cudaabi.DevResourceTypeSM)
	must(t, "device", result)
	// A group of 30 becomes one of 32, as parts have 8. The fake has 132 multiprocessors: 4 groups.
	n, _, result := d.SplitResource(&r, nil, 0, 30)
	must(t, "count", result)
	if n != 4 {
		t.Errorf("%d groups", n)
	}
	groups := make([]gpubackend.Resource, 3)
	n, rest, result := d.SplitResource(&r, groups, 0, 30)
	must(t, "split", result)
	left, _, _ := rest.Multiprocessors()
	each, partition, alignment := groups[2].Multiprocessors()
	if n != 3 || left != 36 || each != 32 || partition != 8 || alignment != 8 {
		t.Errorf("%d groups of %d, %d remain; in parts of %d, %d", n, each, left, partition,
			alignment)
	}
	g, c := newGreen(t, d, groups[1])
	for _, of := range []struct {
		source gpubackend.ResourceSource
		which  uint64
	}{{gpubackend.OfGreenContext, uint64(g)}, {gpubackend.OfContext, uint64(c)}} {
		has, result := d.DevResource(of.source, of.which, cudaabi.DevResourceTypeSM)
		must(t, "resource", result)
		if count, _, _ := has.Multiprocessors(); count != 32 {
			t.Errorf("%v has %d", of, count)
		}
	}
	_, result = d.DevResource(gpubackend.OfDevice, 0, 7)
	want(t, "type", result, gpubackend.InvalidResourceType)
	_, result = d.DevResource(gpubackend.OfDevice, 7, 1)
	want(t, "device", result, gpubackend.InvalidDevice)
}

// TestGreenContextIsPartOfThePrimary: its memory is the primary context's, which isn't idle before
// its green contexts are.
func TestGreenContextIsPartOfThePrimary(t *testing.T) {
	d := newDevice(t, Options{})
	home := d.CurrentHandle()
	r, result := d.DevResource(gpubackend.OfDevice, 0, cudaabi.DevResourceTypeSM)
	must(t, "device", result)
	g, c := newGreen(t, d, r)
	must(t, "set current", d.SetCurrent(c))
	p := alloc(t, d, 4096)
	s, result := d.GreenCtxStreamCreate(g, cudaabi.StreamNonBlocking, 0)
	must(t, "stream", result)
	must(t, "fill", d.MemsetD8Async(p, 1, 4096, s))
	must(t, "set current", d.SetCurrent(home))
	drivertest.Tell("fake_not_ready", 1)
	want(t, "query", d.ContextQuery(), gpubackend.NotReady)
	if d.CurrentHandle() != home {
		t.Error("the query left the green context current")
	}
	want(t, "announce", d.Announce(0, true, 0, 0), gpubackend.NotSupported)
	must(t, "query", d.ContextQuery())
	must(t, "fill", d.MemsetD8Async(p, 1, 4096, s))
	must(t, "set current", d.SetCurrent(c))
	must(t, "destroy the stream", d.StreamDestroy(s))
	if d.Of(home).Work.Has(s) {
		t.Error("the primary context still asks a stream that is gone")
	}
	want(t, "destroy as a context", d.CtxDestroy(c), gpubackend.InvalidContext)
	must(t, "destroy", d.GreenCtxDestroy(g)) // while it is current
	want(t, "destroy again", d.GreenCtxDestroy(g), gpubackend.InvalidContext)
	want(t, "set current", d.SetCurrent(c), gpubackend.InvalidContext)
	must(t, "free", d.MemFree(p))
	newGreen(t, d, r)
	must(t, "reset", d.DevicePrimaryCtxReset(0))
	if d.contextRoom.Known() != 1 || d.Greens() != 0 {
		t.Errorf("%d contexts, %d of them green, are left", d.contextRoom.Known(), d.Greens())
	}
}
