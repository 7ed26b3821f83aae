// SPDX-License-Identifier: Apache-2.0

package green

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// fakeDriver counts what it makes.
type fakeDriver struct {
	resources, splits, descs int
	destroyed                []gpubackend.Stream
}

func (d *fakeDriver) DevResource(
	gpubackend.ResourceSource, uint64, uint64,
) (gpubackend.Resource, gpubackend.Result) {
	d.resources++
	return gpubackend.Resource{}, gpubackend.Success
}
func (d *fakeDriver) SplitResource(
	_ *gpubackend.Resource, groups []gpubackend.Resource, _, _ uint64,
) (
	int, gpubackend.Resource, gpubackend.Result,
) {
	d.splits++
	return len(groups), gpubackend.Resource{}, gpubackend.Success
}
func (d *fakeDriver) DescribeResources(
	[]gpubackend.Resource,
) (gpubackend.ResourceDesc, gpubackend.Result) {
	d.descs++
	return gpubackend.ResourceDesc(d.descs), gpubackend.Success
}
func (d *fakeDriver) GreenCtxCreate(gpubackend.ResourceDesc, uint64, uint64) (
	gpubackend.GreenContext, gpubackend.Context, gpubackend.Result,
) {
	return 50, 51, gpubackend.Success
}
func (d *fakeDriver) GreenCtxDestroy(gpubackend.GreenContext) gpubackend.Result {
	return gpubackend.Success
}
func (d *fakeDriver) StreamDestroy(s gpubackend.Stream) gpubackend.Result {
	d.destroyed = append(d.destroyed, s)
	return gpubackend.Success
}

// fakeContexts has one primary context, of device 0, and the contexts of green ones. It is the
// threads' streams, too.
type fakeContexts struct {
	primary, current uint64
	green            []uint64
	ended            []uint64
}

func (c *fakeContexts) Set(handle uint64, _ bool) gpubackend.Result {
	c.current = handle
	return gpubackend.Success
}
func (c *fakeContexts) Primary(device uint64) (uint64, bool) { return c.primary, device == 0 }
func (c *fakeContexts) AddGreen(handle, _ uint64)            { c.green = append(c.green, handle) }
func (c *fakeContexts) Greens() int                          { return len(c.green) }
func (c *fakeContexts) Green(yield func(uint64) bool)        { slices.Values(c.green)(yield) }
func (c *fakeContexts) Sweep(func(uint64))                   {}
func (c *fakeContexts) EndContext(context uint64)            { c.ended = append(c.ended, context) }
func (c *fakeContexts) Forget(uint64)                        {}

// rig is Greens with a fake around them, and the bulk area that calls refer to.
type rig struct {
	*Greens
	driver   fakeDriver
	contexts fakeContexts
	objects  object.Table
	bulk     [4096]byte
	call     call.Call
}

func newRig() *rig {
	r := &rig{}
	r.contexts.primary = r.objects.Add(object.Context, 1, 0)
	r.Greens = New(Config{Driver: &r.driver, Objects: &r.objects, Contexts: &r.contexts,
		Streams: &r.contexts})
	r.call = call.New(&call.Buffers{
		Bulk:   func(_, n uint64) ([]byte, error) { return r.bulk[:n], nil },
		Copied: func(uint64) {},
	})
	return r
}

const bulk = wire.BufferBulk << 56

func (r *rig) do(t *testing.T, want gpubackend.Result, op gpubackend.Op, words ...uint64) []uint64 {
	t.Helper()
	command := &arena.Command{N: len(words)}
	copy(command.Words[:], words)
	r.call.Start(command)
	if got := r.Handlers()[op].Run(&r.call); got != want {
		t.Fatalf("%s: %v, want %v", op.Name(), got, want)
	}
	return append([]uint64(nil), r.call.Answers()...)
}

func (r *rig) record(i int) (x wire.ResourceRecord) {
	x.Decode(r.bulk[i*wire.ResourceRecordSize:])
	return x
}

// whole is the handle of all multiprocessors of device 0.
func (r *rig) whole(t *testing.T) uint64 {
	r.do(t, 0, gpubackend.OpDevResource, 0, 0, cudaabi.DevResourceTypeSM, bulk,
		wire.ResourceRecordSize)
	return r.record(0).Resource
}

// TestAskingAgainTakesNoMore: no function frees a resource or a descriptor.
func TestAskingAgainTakesNoMore(t *testing.T) {
	r := newRig()
	for range 3 {
		whole := r.whole(t)
		r.do(t, 0, gpubackend.OpResourceSplit, whole, 0, 1, bulk, 3*wire.ResourceRecordSize)
		binary.LittleEndian.PutUint64(r.bulk[:], r.record(1).Resource)
		r.do(t, 0, gpubackend.OpResourceDesc, bulk, 8)
	}
	if r.driver.resources != 1 || r.driver.splits != 1 || r.driver.descs != 1 {
		t.Errorf("%d resources, %d splits, %d descriptors", r.driver.resources, r.driver.splits,
			r.driver.descs)
	}
	binary.LittleEndian.PutUint64(r.bulk[:], 77)
	r.do(t, gpubackend.InvalidValue, gpubackend.OpResourceDesc, bulk, 8)
	r.do(t, gpubackend.InvalidValue, gpubackend.OpResourceSplit, 77, 0, 1, bulk,
		2*wire.ResourceRecordSize)
	r.do(t, gpubackend.InvalidContext, gpubackend.OpDevResource, 1, 77, cudaabi.DevResourceTypeSM,
		bulk, wire.ResourceRecordSize)
}

// TestStreamsEndWithTheirGreenContext, its own and those of threads.
func TestStreamsEndWithTheirGreenContext(t *testing.T) {
	r := newRig()
	binary.LittleEndian.PutUint64(r.bulk[:], r.whole(t))
	desc := r.do(t, 0, gpubackend.OpResourceDesc, bulk, 8)[0]
	r.do(t, gpubackend.InvalidValue, gpubackend.OpGreenCtxCreate, desc, 1, 1)
	r.do(t, gpubackend.InvalidValue, gpubackend.OpGreenCtxCreate, desc+1, 0, 1)
	made := r.do(t, 0, gpubackend.OpGreenCtxCreate, desc, 0, 1)
	r.objects.Add(object.Stream, 60, made[0])
	r.objects.Add(object.Stream, 61, made[1])
	r.objects.Add(object.Stream, 62, r.contexts.primary)
	r.contexts.current = made[1]
	r.do(t, 0, gpubackend.OpGreenCtxDestroy, made[0])
	r.do(t, gpubackend.InvalidContext, gpubackend.OpGreenCtxDestroy, made[0])
	slices.Sort(r.driver.destroyed)
	if !slices.Equal(r.driver.destroyed, []gpubackend.Stream{60, 61}) ||
		!slices.Equal(r.contexts.ended, []uint64{made[1]}) {
		t.Errorf("destroyed %v, threads' of %x", r.driver.destroyed, r.contexts.ended)
	}
	if r.contexts.current != r.contexts.primary || r.objects.Count(object.Context) != 1 {
		t.Errorf("%#x is current, %d contexts", r.contexts.current, r.objects.Count(object.Context))
	}
}

func TestResourcesAreBounded(t *testing.T) {
	r := newRig()
	whole := r.whole(t)
	for h := range uint64(maxResources) {
		r.resources[h] = &resource{}
	}
	r.do(t, gpubackend.OutOfMemory, gpubackend.OpResourceSplit, whole, 0, 1, bulk,
		2*wire.ResourceRecordSize)
	r.do(t, gpubackend.OutOfMemory, gpubackend.OpDevResource, 1, r.contexts.primary, 1, bulk,
		wire.ResourceRecordSize)
}
