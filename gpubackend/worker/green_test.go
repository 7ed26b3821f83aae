// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/streams"
)

const bulk = wire.BufferBulk<<56 | wire.Bulk

// record reads a resource record that a call wrote to the bulk area.
func (r *rig) record(i int) (x wire.ResourceRecord) {
	x.Decode(r.mem[wire.Bulk+i*wire.ResourceRecordSize:])
	return x
}

// greenRig is a worker on a software GPU with some multiprocessors, and the record of all of them.
func greenRig(t *testing.T) (*rig, wire.ResourceRecord) {
	t.Helper()
	r := onSoft(t)
	r.contexts.Retained(0, r.context)
	r.want(t, 0, gpubackend.OpDevResource, 0, 0, cudaabi.DevResourceTypeSM, bulk,
		wire.ResourceRecordSize)
	whole := r.record(0)
	if whole.Count == 0 || whole.Type != cudaabi.DevResourceTypeSM {
		t.Fatalf("the device has %+v", whole)
	}
	return r, whole
}

// green makes a green context of a resource, and returns its handle and that of its context.
func (r *rig) green(t *testing.T, resource uint64) (green, context uint64) {
	t.Helper()
	at := r.mem[wire.Bulk:]
	for i := range 8 {
		at[i] = byte(resource >> (8 * i))
	}
	desc := r.want(t, 0, gpubackend.OpResourceDesc, bulk, 8)
	green = r.want(t, 0, gpubackend.OpGreenCtxCreate, desc, 0, 1)
	return green, r.slot().Word[1]
}

func TestGreenContextSharesAllButStreams(t *testing.T) {
	r, whole := greenRig(t)
	primary := r.context
	green, context := r.green(t, whole.Resource)
	r.context = context
	address := r.want(t, 0, gpubackend.OpMemAlloc, 4096)
	event := r.want(t, 0, gpubackend.OpEventCreate, 2)
	stream := r.want(t, 0, gpubackend.OpStreamCreateWithPriority, 1, 0)
	own := r.want(t, 0, gpubackend.OpGreenCtxStreamCreate, green, 1, 0)
	r.want(t, 0, gpubackend.OpMemsetD8Async, address, 1, 4096, streams.PerThread)
	pool := r.want(t, 0, gpubackend.OpPoolDefault, 0)
	pooled := r.want(t, 0, gpubackend.OpMemAllocAsync, 4096, pool, stream)
	r.want(t, 0, gpubackend.OpGreenCtxRecordEvent, green, event)
	r.want(t, 0, gpubackend.OpGreenCtxDestroy, green)
	r.want(t, gpubackend.InvalidContext, gpubackend.OpMemGetInfo) // it was current
	r.want(t, gpubackend.InvalidContext, gpubackend.OpGreenCtxDestroy, green)
	r.context = primary
	for _, s := range []uint64{stream, own} {
		r.want(t, gpubackend.InvalidHandle, gpubackend.OpStreamQuery, s)
	}
	r.want(t, 0, gpubackend.OpMemFreeAsync, pooled, 0)
	r.want(t, 0, gpubackend.OpCtxSynchronize)
	r.want(t, 0, gpubackend.OpEventQuery, event)
	r.want(t, 0, gpubackend.OpMemFree, address)
	if n := r.objects.Count(object.Context); n != 1 ||
		r.contexts.Greens()+r.streams.Threads() != 0 {
		t.Errorf("%d contexts, %d green ones, %d streams of threads are left", n,
			r.contexts.Greens(), r.streams.Threads())
	}
}

// TestResourcesAreKeptOnce: there is no function that frees a resource or descriptor, so asking
// again must not take more.
func TestResourcesAreKeptOnce(t *testing.T) {
	r, whole := greenRig(t)
	counts := func() [2]int {
		return [2]int{r.objects.Count(object.Resource), r.objects.Count(object.ResourceDesc)}
	}
	var before [2]int
	for i := range 3 {
		r.want(t, 0, gpubackend.OpDevResource, 0, 0, cudaabi.DevResourceTypeSM, bulk,
			wire.ResourceRecordSize)
		n := r.want(t, 0, gpubackend.OpResourceSplit, whole.Resource, 0, 1, bulk,
			2*wire.ResourceRecordSize)
		group := r.record(1)
		if n != 1 || group.Count != 1 || group.Resource == whole.Resource {
			t.Fatalf("%d groups, %+v", n, group)
		}
		green, _ := r.green(t, group.Resource)
		r.want(t, 0, gpubackend.OpDevResource, 2, green, cudaabi.DevResourceTypeSM, bulk,
			wire.ResourceRecordSize)
		r.want(t, 0, gpubackend.OpGreenCtxDestroy, green)
		if i == 0 {
			before = counts()
		}
	}
	if counts() != before {
		t.Errorf("%v resources and descriptors, %v after the first time", counts(), before)
	}
}

func TestPrimaryContextTakesGreenOnesAlong(t *testing.T) {
	r, whole := greenRig(t)
	green, context := r.green(t, whole.Resource)
	r.context = context
	r.want(t, 0, gpubackend.OpStreamCreateWithPriority, 1, 0)
	r.want(t, 0, gpubackend.OpDevicePrimaryCtxReset, 0)
	r.context, _ = r.contexts.Primary(0)
	r.want(t, gpubackend.InvalidContext, gpubackend.OpGreenCtxDestroy, green)
	r.want(t, 0, gpubackend.OpMemGetInfo)
	if n := r.objects.Count(object.Stream) + r.objects.Count(object.GreenContext); n != 0 ||
		r.contexts.Greens() != 0 {
		t.Errorf("%d objects and %d contexts are left", n, r.contexts.Greens())
	}
}

func TestHostileResources(t *testing.T) {
	r, whole := greenRig(t)
	green, context := r.green(t, whole.Resource)
	const size = wire.ResourceRecordSize
	for _, tt := range []struct {
		name  string
		op    gpubackend.Op
		words []uint64
		want  gpubackend.Result
	}{
		{"resource of nothing", gpubackend.OpDevResource, []uint64{3, 0, 1, bulk, size},
			gpubackend.InvalidValue},
		{"of a forged context", gpubackend.OpDevResource, []uint64{1, 77, 1, bulk, size},
			gpubackend.InvalidContext},
		{"of a context as green", gpubackend.OpDevResource, []uint64{2, context, 1, bulk, size},
			gpubackend.InvalidContext},
		{"type", gpubackend.OpDevResource, []uint64{0, 0, 9, bulk, size},
			gpubackend.InvalidResourceType},
		{"small record", gpubackend.OpDevResource, []uint64{0, 0, 1, bulk, 8},
			gpubackend.InvalidValue},
		{"split of a forged one", gpubackend.OpResourceSplit, []uint64{77, 0, 1, bulk, 2 * size},
			gpubackend.InvalidValue},
		{"split of a context", gpubackend.OpResourceSplit, []uint64{context, 0, 1, bulk, 2 * size},
			gpubackend.InvalidValue},
		{"groups without end", gpubackend.OpResourceSplit,
			[]uint64{whole.Resource, 0, 1, bulk, 1026 * size}, gpubackend.InvalidValue},
		{"flags", gpubackend.OpResourceSplit, []uint64{whole.Resource, 64, 1, bulk, 2 * size},
			gpubackend.InvalidValue},
		{"more than there are", gpubackend.OpResourceSplit,
			[]uint64{whole.Resource, 0, 1 << 40, bulk, 2 * size}, gpubackend.InvalidValue},
		{"forged descriptor", gpubackend.OpGreenCtxCreate, []uint64{whole.Resource, 0, 1},
			gpubackend.InvalidValue},
		{"many described", gpubackend.OpResourceDesc, []uint64{bulk, 8 * 17},
			gpubackend.InvalidValue},
		{"half a handle", gpubackend.OpResourceDesc, []uint64{bulk, 12}, gpubackend.InvalidValue},
		{"destroyed as a context", gpubackend.OpCtxDestroy, []uint64{context},
			gpubackend.InvalidContext},
		{"context as green", gpubackend.OpGreenCtxStreamCreate, []uint64{context, 1, 0},
			gpubackend.InvalidContext},
		{"flags of the stream", gpubackend.OpGreenCtxStreamCreate, []uint64{green, 0, 0},
			gpubackend.InvalidValue},
	} {
		t.Run(tt.name, func(t *testing.T) { r.want(t, tt.want, tt.op, tt.words...) })
	}
	r.want(t, 0, gpubackend.OpGreenCtxDestroy, green)
}
