// SPDX-License-Identifier: Apache-2.0

package green

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
)

// multiprocessors is some of the device's multiprocessors: count of them, from the first on.
type multiprocessors struct{ first, count uint32 }

// A multiprocessor is no more than a number here, so that any of them can be split off. A real
// GPU's come in groups.
const (
	minPartition       = 1
	partitionAlignment = 1
)

// Flags of cuDevSmResourceSplitByCount. Both are about groups of multiprocessors, of which there
// are none.
const splitFlags = cudaabi.DevSMResourceSplitIgnoreSMCoscheduling |
	cudaabi.DevSMResourceSplitMaxPotentialClusterSize

// What is in a resource beside the documented fields: places in its internal bytes.
const (
	resourceFirst = 4 // number of the first multiprocessor
	resourceCut   = 8 // 1: made by a split, which CUDA doesn't split again
)

// internal is what a resource has for its driver alone.
func internal(r *gpubackend.Resource) []byte { return cudaabi.DevResource(r[:]).Internal() }

// multiprocessors are those that work in a green context may use; all for nil.
func (x *Green) multiprocessors(g *contexts.Green) multiprocessors {
	if g != nil {
		return multiprocessors{g.First, g.Count}
	}
	return multiprocessors{0, uint32(x.options.Multiprocessors)}
}

func (m multiprocessors) resource(cut bool) (r gpubackend.Resource) {
	if m.count == 0 {
		return r // of no valid type
	}
	r.SetMultiprocessors(m.count, minPartition, partitionAlignment)
	binary.LittleEndian.PutUint32(internal(&r)[resourceFirst:], m.first)
	if cut {
		internal(&r)[resourceCut] = 1
	}
	return r
}

func partOf(r *gpubackend.Resource) multiprocessors {
	count, _, _ := r.Multiprocessors()
	return multiprocessors{binary.LittleEndian.Uint32(internal(r)[resourceFirst:]), count}
}

// DevResource implements gpubackend.Driver.
func (x *Green) DevResource(
	of gpubackend.ResourceSource, which, kind uint64,
) (r gpubackend.Resource, result gpubackend.Result) {
	var g *contexts.Green
	switch of {
	case gpubackend.OfDevice:
		if result = x.options.Contexts.CheckDevice(which); result != gpubackend.Success {
			return r, result
		}
	default:
		_, g, result = x.options.Contexts.Find(which)
		if result != gpubackend.Success || g == nil && of != gpubackend.OfContext {
			return r, gpubackend.InvalidContext
		}
	}
	if kind != cudaabi.DevResourceTypeSM {
		return r, gpubackend.InvalidResourceType
	}
	return x.multiprocessors(g).resource(false), gpubackend.Success
}

// SplitResource implements gpubackend.Driver.
func (x *Green) SplitResource(
	r *gpubackend.Resource, groups []gpubackend.Resource, flags, least uint64,
) (n int, rest gpubackend.Resource, result gpubackend.Result) {
	whole := partOf(r)
	switch {
	case r.Kind() != cudaabi.DevResourceTypeSM:
		return 0, rest, gpubackend.InvalidResourceType
	case flags&^splitFlags != 0 || least > uint64(whole.count):
		return 0, rest, gpubackend.InvalidValue
	case internal(r)[resourceCut] != 0:
		return 0, rest, gpubackend.InvalidResourceConfiguration
	}
	each := uint32(max(least, minPartition))
	n = int(whole.count / each)
	if len(groups) == 0 {
		return n, rest, gpubackend.Success
	}
	n = min(n, len(groups))
	for i := range n {
		groups[i] = multiprocessors{whole.first + uint32(i)*each, each}.resource(true)
	}
	used := uint32(n) * each
	return n, multiprocessors{whole.first + used, whole.count - used}.resource(false),
		gpubackend.Success
}

// Options are what a device's green contexts are given.
type Options struct {
	Handles         *handles.Table
	Contexts        *contexts.Contexts
	Streams         *streams.Streams
	Multiprocessors int
}

// Green is the green contexts of a device.
type Green struct{ options Options }

// New returns the green contexts of a device, which has none yet.
func New(o Options) *Green { return &Green{o} }

// resourceDesc is a CUdevResourceDesc.
type resourceDesc struct{ part multiprocessors }

// DescribeResources implements gpubackend.Driver.
func (x *Green) DescribeResources(
	rs []gpubackend.Resource,
) (gpubackend.ResourceDesc, gpubackend.Result) {
	if len(rs) != 1 {
		return 0, gpubackend.InvalidValue
	}
	if rs[0].Kind() != cudaabi.DevResourceTypeSM {
		return 0, gpubackend.InvalidResourceType
	}
	return gpubackend.ResourceDesc(x.options.Handles.Add(&resourceDesc{partOf(&rs[0])})),
		gpubackend.Success
}

// GreenCtxCreate implements gpubackend.Driver. The caller has retained the primary context.
func (x *Green) GreenCtxCreate(
	h gpubackend.ResourceDesc, dev, flags uint64,
) (gpubackend.GreenContext, gpubackend.Context, gpubackend.Result) {
	if result := x.options.Contexts.CheckDevice(dev); result != gpubackend.Success {
		return 0, 0, result
	}
	desc, ok := handles.Find[*resourceDesc](x.options.Handles, uint64(h))
	if !ok || flags != cudaabi.GreenCtxDefaultStream {
		return 0, 0, gpubackend.InvalidValue
	}
	if !x.options.Contexts.Primary(int(dev)).Active() {
		return 0, 0, gpubackend.InvalidContext
	}
	g := &contexts.Green{Context: x.options.Contexts.Primary(int(dev)),
		First: desc.part.first, Count: desc.part.count}
	x.options.Streams.BeginGreen(g)
	n := x.options.Contexts.AddGreen(g)
	return gpubackend.GreenContext(n), gpubackend.Context(n), gpubackend.Success
}

// GreenCtxDestroy implements gpubackend.Driver. Work that was queued goes on.
func (x *Green) GreenCtxDestroy(h gpubackend.GreenContext) gpubackend.Result {
	g, ok := handles.Find[*contexts.Green](x.options.Handles, uint64(h))
	if !ok {
		return gpubackend.InvalidContext
	}
	x.options.Streams.EndGreen(g)
	x.options.Contexts.DropGreen(uint64(h), g)
	return gpubackend.Success
}

// GreenCtxStreamCreate implements gpubackend.Driver. Any priority will do.
func (x *Green) GreenCtxStreamCreate(
	h gpubackend.GreenContext, flags, _ uint64,
) (gpubackend.Stream, gpubackend.Result) {
	g, ok := handles.Find[*contexts.Green](x.options.Handles, uint64(h))
	switch {
	case !ok:
		return 0, gpubackend.InvalidContext
	case flags != cudaabi.StreamNonBlocking:
		return 0, gpubackend.InvalidValue
	}
	return x.options.Streams.AddToGreen(g), g.Context.State()
}

// GreenCtxRecordEvent implements gpubackend.Driver.
func (x *Green) GreenCtxRecordEvent(
	h gpubackend.GreenContext, e gpubackend.Event,
) gpubackend.Result {
	g, ok := handles.Find[*contexts.Green](x.options.Handles, uint64(h))
	if !ok {
		return gpubackend.InvalidContext
	}
	return x.options.Streams.RecordAll(e, g.Context, g)
}

// GreenCtxWaitEvent implements gpubackend.Driver.
func (x *Green) GreenCtxWaitEvent(h gpubackend.GreenContext, e gpubackend.Event) gpubackend.Result {
	g, ok := handles.Find[*contexts.Green](x.options.Handles, uint64(h))
	if !ok {
		return gpubackend.InvalidContext
	}
	return x.options.Streams.WaitAll(e, g.Context, g)
}
