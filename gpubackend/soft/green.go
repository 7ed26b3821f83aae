// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// multiprocessors is some of the device's multiprocessors: count of them, from the first on.
type multiprocessors struct{ first, count uint32 }

// A multiprocessor is no more than a number here, so that any of them can be split off. Those of
// GPUs come in groups.
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

// busy says whether streams of a green context have work.
func (d *Device) busy(g *contexts.Green) bool {
	for _, s := range d.set(g.Context).list {
		if s.group.green == g && !d.scheduler.IsDone(s.last) {
			return true
		}
	}
	return false
}

// multiprocessors are those that work in a green context may use; all for nil.
func (d *Device) multiprocessors(g *contexts.Green) multiprocessors {
	if g != nil {
		return multiprocessors{g.First, g.Count}
	}
	return multiprocessors{0, uint32(d.options.Multiprocessors)}
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
func (d *Device) DevResource(of gpubackend.ResourceSource, which, kind uint64) (r gpubackend.Resource, result gpubackend.Result) {
	var g *contexts.Green
	switch of {
	case gpubackend.OfDevice:
		if result = d.CheckDevice(which); result != gpubackend.Success {
			return r, result
		}
	default:
		if _, g, result = d.Contexts.Find(which); result != gpubackend.Success || g == nil && of != gpubackend.OfContext {
			return r, gpubackend.InvalidContext
		}
	}
	if kind != cudaabi.DevResourceTypeSM {
		return r, gpubackend.InvalidResourceType
	}
	return d.multiprocessors(g).resource(false), gpubackend.Success
}

// SplitResource implements gpubackend.Driver.
func (d *Device) SplitResource(
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
	return n, multiprocessors{whole.first + used, whole.count - used}.resource(false), gpubackend.Success
}

// resourceDesc is a CUdevResourceDesc.
type resourceDesc struct{ part multiprocessors }

// DescribeResources implements gpubackend.Driver.
func (d *Device) DescribeResources(rs []gpubackend.Resource) (gpubackend.ResourceDesc, gpubackend.Result) {
	if len(rs) != 1 {
		return 0, gpubackend.InvalidValue
	}
	if rs[0].Kind() != cudaabi.DevResourceTypeSM {
		return 0, gpubackend.InvalidResourceType
	}
	return gpubackend.ResourceDesc(d.handles.Add(&resourceDesc{partOf(&rs[0])})), gpubackend.Success
}

// GreenCtxCreate implements gpubackend.Driver. The caller has retained the primary context.
func (d *Device) GreenCtxCreate(
	h gpubackend.ResourceDesc, dev, flags uint64,
) (gpubackend.GreenContext, gpubackend.Context, gpubackend.Result) {
	if result := d.CheckDevice(dev); result != gpubackend.Success {
		return 0, 0, result
	}
	desc, ok := handles.Find[*resourceDesc](d.handles, uint64(h))
	if !ok || flags != cudaabi.GreenCtxDefaultStream {
		return 0, 0, gpubackend.InvalidValue
	}
	if !d.Primary().Active() {
		return 0, 0, gpubackend.InvalidContext
	}
	g := &contexts.Green{Context: d.Primary(), First: desc.part.first, Count: desc.part.count}
	d.group(g.Context, g)
	n := d.AddGreen(g)
	return gpubackend.GreenContext(n), gpubackend.Context(n), gpubackend.Success
}

// GreenCtxDestroy implements gpubackend.Driver. Work that was queued goes on.
func (d *Device) GreenCtxDestroy(h gpubackend.GreenContext) gpubackend.Result {
	g, ok := handles.Find[*contexts.Green](d.handles, uint64(h))
	if !ok {
		return gpubackend.InvalidContext
	}
	d.destroyStreams(g)
	d.DropGreen(uint64(h), g)
	return gpubackend.Success
}

// GreenCtxStreamCreate implements gpubackend.Driver. Any priority will do.
func (d *Device) GreenCtxStreamCreate(h gpubackend.GreenContext, flags, _ uint64) (gpubackend.Stream, gpubackend.Result) {
	g, ok := handles.Find[*contexts.Green](d.handles, uint64(h))
	switch {
	case !ok:
		return 0, gpubackend.InvalidContext
	case flags != cudaabi.StreamNonBlocking:
		return 0, gpubackend.InvalidValue
	}
	return d.newStream(&stream{ctx: g.Context, group: d.group(g.Context, g)}), g.Context.State()
}

// GreenCtxRecordEvent implements gpubackend.Driver.
func (d *Device) GreenCtxRecordEvent(h gpubackend.GreenContext, e gpubackend.Event) gpubackend.Result {
	g, ok := handles.Find[*contexts.Green](d.handles, uint64(h))
	if !ok {
		return gpubackend.InvalidContext
	}
	return d.recordAll(e, g.Context, g)
}

// GreenCtxWaitEvent implements gpubackend.Driver.
func (d *Device) GreenCtxWaitEvent(h gpubackend.GreenContext, e gpubackend.Event) gpubackend.Result {
	g, ok := handles.Find[*contexts.Green](d.handles, uint64(h))
	if !ok {
		return gpubackend.InvalidContext
	}
	return d.waitAll(e, g.Context, g)
}

// CtxRecordEvent implements gpubackend.Driver. The primary context's green contexts are parts of
// it.
func (d *Device) CtxRecordEvent(h gpubackend.Context, e gpubackend.Event) gpubackend.Result {
	c, g, result := d.Contexts.Find(uint64(h))
	if result != gpubackend.Success {
		return result
	}
	return d.recordAll(e, c, g)
}

// CtxWaitEvent implements gpubackend.Driver.
func (d *Device) CtxWaitEvent(h gpubackend.Context, e gpubackend.Event) gpubackend.Result {
	c, g, result := d.Contexts.Find(uint64(h))
	if result != gpubackend.Success {
		return result
	}
	return d.waitAll(e, c, g)
}

// chosen returns the streams of a context, or of the green context, after checking the event.
func (d *Device) chosen(h gpubackend.Event, c *contexts.Context, g *contexts.Green) (*event, []*stream, gpubackend.Result) {
	e, result := d.event(h)
	switch {
	case result != gpubackend.Success:
		return nil, nil, result
	case e.ctx != c:
		return nil, nil, gpubackend.InvalidHandle
	case !d.scheduler.Throttle():
		return nil, nil, gpubackend.OutOfMemory
	}
	set := d.set(c)
	d.forget(set)
	streams := slices.DeleteFunc(append(slices.Clone(set.list), set.whole.legacy), func(s *stream) bool {
		return g != nil && s.group.green != g
	})
	for _, s := range streams {
		if s.capture != nil {
			s.capture.bad = true
			result = gpubackend.StreamCaptureUnsupported
		}
	}
	return e, streams, result
}

// recordAll records an event behind all work in some streams.
func (d *Device) recordAll(h gpubackend.Event, c *contexts.Context, g *contexts.Green) gpubackend.Result {
	e, streams, result := d.chosen(h, c, g)
	if result != gpubackend.Success {
		return result
	}
	lasts := make([]*scheduler.Task, 0, len(streams))
	for _, s := range streams {
		lasts = append(lasts, s.last)
	}
	e.capture, e.nodes = nil, nil
	t := e.newRecord()
	t.Domain = c.Domain
	d.scheduler.Submit(t, lasts)
	return gpubackend.Success
}

// waitAll makes some streams wait for an event.
func (d *Device) waitAll(h gpubackend.Event, c *contexts.Context, g *contexts.Green) gpubackend.Result {
	e, streams, result := d.chosen(h, c, g)
	if result != gpubackend.Success {
		return result
	}
	if e.capture != nil {
		e.capture.bad = true
		return gpubackend.CapturedEvent
	}
	for _, s := range streams {
		if s.destroyed {
			continue
		}
		if t, after := e.newWait(); t != nil {
			d.enqueue(s, t, after)
		}
	}
	return gpubackend.Success
}
