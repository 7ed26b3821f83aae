// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// greens is the guest's green contexts and the resources that it makes them of. Resources are kept here: the guest has
// handles of them, so that the driver sees nothing but what it made itself. As CUDA has no function that frees a
// resource or a descriptor, asking again for what was asked for before gives what was given then.
type greens struct {
	resources map[uint64]*resource // by handle
	asked     map[resourceKey]uint64
	splits    map[splitKey]*split
	descs     map[string]uint64 // by the handles of their resources
}

// resource is a resource; it goes with the context that has it.
type resource struct {
	gpubackend.Resource
	owner uint64 // handle of a context or green context, 0 for a device
}

type resourceKey struct {
	of    gpubackend.ResourceSource
	which uint64
	kind  uint64
}

// splitKey is what a split depends on.
type splitKey struct {
	resource, flags, least uint64
	groups                 int
}

type split struct {
	groups []uint64
	rest   uint64
}

// These bound what a guest can make a worker keep.
const (
	maxResources     = 1 << 16
	maxResourceDescs = 1 << 16
	maxGreenContexts = 1 << 12
)

// runDevResource describes what something has.
func (w *Worker) runDevResource(c *call.Call, a command.DevResource) gpubackend.Result {
	key := resourceKey{gpubackend.ResourceSource(a.Source), a.Which, a.Type}
	out, result := c.OutputOf(a.Record)
	if result != gpubackend.Success {
		return gpubackend.InvalidValue
	}
	defer out.Done()
	h, result := w.resourceOf(key)
	if result == gpubackend.Success {
		w.describeResource(h, out.Bytes)
	}
	return result
}

// resourceOf returns the handle of a resource.
func (w *Worker) resourceOf(key resourceKey) (uint64, gpubackend.Result) {
	if h, ok := w.greens.asked[key]; ok {
		return h, gpubackend.Success
	}
	native, owner := key.which, uint64(0)
	kind := object.Context
	switch key.of {
	case gpubackend.OfDevice:
		kind = 0
	case gpubackend.OfContext:
	case gpubackend.OfGreenContext:
		kind = object.GreenContext
	default:
		return 0, gpubackend.InvalidValue
	}
	if kind != 0 {
		var ok bool
		if native, ok = w.objects.Lookup(kind, key.which); !ok {
			return 0, gpubackend.InvalidContext
		}
		owner = key.which
	}
	if w.resourcesLeft() <= 0 {
		return 0, gpubackend.OutOfMemory
	}
	r, result := w.driver.DevResource(key.of, native, key.kind)
	if result != gpubackend.Success {
		return 0, result
	}
	h := w.keepResource(&r, owner)
	if w.greens.asked == nil {
		w.greens.asked = map[resourceKey]uint64{}
	}
	w.greens.asked[key] = h
	return h, gpubackend.Success
}

func (w *Worker) resourcesLeft() int { return maxResources - len(w.greens.resources) }

// keepResource gives a resource a handle.
func (w *Worker) keepResource(r *gpubackend.Resource, owner uint64) uint64 {
	h := w.objects.Add(object.Resource, 0, owner)
	if w.greens.resources == nil {
		w.greens.resources = map[uint64]*resource{}
	}
	w.greens.resources[h] = &resource{*r, owner}
	return h
}

// describeResource writes what a guest may know of a resource.
func (w *Worker) describeResource(h uint64, b []byte) {
	var record wire.ResourceRecord
	if r := w.greens.resources[h]; r != nil {
		record.Resource, record.Type = h, r.Kind()
		if record.Type == cudaabi.DevResourceTypeSM {
			record.Count, record.MinPartition, record.Alignment = r.Multiprocessors()
		}
	}
	record.Encode(b)
}

// runResourceSplit splits a resource.
func (w *Worker) runResourceSplit(c *call.Call, a command.ResourceSplit) gpubackend.Result {
	key := splitKey{resource: a.Resource, flags: a.Flags, least: a.Least}
	out, result := c.OutputOf(a.Records)
	if result != gpubackend.Success {
		return gpubackend.InvalidValue
	}
	defer out.Done()
	r := w.greens.resources[key.resource]
	if r == nil {
		return gpubackend.InvalidValue
	}
	if key.groups = len(out.Bytes)/wire.ResourceRecordSize - 1; key.groups <= 0 {
		n, _, result := w.driver.SplitResource(&r.Resource, nil, key.flags, key.least)
		c.Put(command.ResourceSplitAnswer{Groups: uint64(n)})
		return result
	}
	s, result := w.split(key, r)
	if result != gpubackend.Success {
		return result
	}
	for i, h := range append([]uint64{s.rest}, s.groups...) {
		w.describeResource(h, out.Bytes[i*wire.ResourceRecordSize:])
	}
	c.Put(command.ResourceSplitAnswer{Groups: uint64(len(s.groups))})
	return gpubackend.Success
}

func (w *Worker) split(key splitKey, r *resource) (*split, gpubackend.Result) {
	if s := w.greens.splits[key]; s != nil {
		return s, gpubackend.Success
	}
	if w.resourcesLeft() <= key.groups {
		return nil, gpubackend.OutOfMemory
	}
	groups := make([]gpubackend.Resource, key.groups)
	n, rest, result := w.driver.SplitResource(&r.Resource, groups, key.flags, key.least)
	if result != gpubackend.Success {
		return nil, result
	}
	s := &split{rest: w.keepResource(&rest, r.owner)}
	for i := range groups[:min(n, len(groups))] {
		s.groups = append(s.groups, w.keepResource(&groups[i], r.owner))
	}
	if w.greens.splits == nil {
		w.greens.splits = map[splitKey]*split{}
	}
	w.greens.splits[key] = s
	return s, gpubackend.Success
}

// runResourceDesc makes a descriptor.
func (w *Worker) runResourceDesc(c *call.Call, a command.ResourceDesc) gpubackend.Result {
	list, result := c.InputOf(a.Resources)
	if result != gpubackend.Success {
		return gpubackend.InvalidValue
	}
	if h, ok := w.greens.descs[string(list)]; ok {
		c.Put(command.ResourceDescAnswer{Desc: h})
		return gpubackend.Success
	}
	rs := make([]gpubackend.Resource, 0, command.MaxDescribed)
	for b := list; len(b) > 0; b = b[8:] {
		r := w.greens.resources[binary.LittleEndian.Uint64(b)]
		if r == nil {
			return gpubackend.InvalidValue
		}
		rs = append(rs, r.Resource)
	}
	if w.objects.Count(object.ResourceDesc) >= maxResourceDescs || !w.objects.Room(object.ResourceDesc) {
		return gpubackend.OutOfMemory
	}
	desc, result := w.driver.DescribeResources(rs)
	if result != gpubackend.Success {
		return result
	}
	h := w.objects.Add(object.ResourceDesc, uint64(desc), 0)
	if w.greens.descs == nil {
		w.greens.descs = map[string]uint64{}
	}
	w.greens.descs[string(list)] = h
	c.Put(command.ResourceDescAnswer{Desc: h})
	return gpubackend.Success
}

// runGreenCtxCreate makes a green context. The library has retained the primary context.
func (w *Worker) runGreenCtxCreate(c *call.Call, a command.GreenCtxCreate) gpubackend.Result {
	desc, ok := w.objects.Lookup(object.ResourceDesc, a.Desc)
	home, retained := w.contexts.Primary(a.Device)
	if !ok || !retained {
		return gpubackend.InvalidValue
	}
	if w.contexts.Greens() >= maxGreenContexts || !w.objects.Room(object.Context) {
		return gpubackend.OutOfMemory
	}
	g, context, result := w.driver.GreenCtxCreate(gpubackend.ResourceDesc(desc), a.Device, a.Flags)
	if result != gpubackend.Success {
		return result
	}
	green := w.objects.Add(object.GreenContext, uint64(g), home)
	handle := w.objects.Add(object.Context, uint64(context), green)
	w.contexts.AddGreen(handle, home)
	c.Put(command.GreenCtxCreateAnswer{Green: green, Context: handle})
	return gpubackend.Success
}

// runGreenCtxDestroy ends a green context.
func (w *Worker) runGreenCtxDestroy(c *call.Call, a command.GreenCtxDestroy) gpubackend.Result {
	g, result := handles.GreenContext(&w.objects, a.Green)
	if result != gpubackend.Success {
		return result
	}
	w.endGreenStreams(a.Green)
	if result = w.driver.GreenCtxDestroy(g); result == gpubackend.Success {
		w.objects.Remove(a.Green)
		w.greens.settle(w)
	}
	return result
}

// endGreenStreams destroys the streams of a green context, from its primary context.
func (w *Worker) endGreenStreams(green uint64) {
	for handle := range w.contexts.Green {
		if w.objects.Parent(handle) == green {
			w.streams.EndContext(handle)
		}
	}
	w.contexts.Set(w.objects.Parent(green), true)
	for handle, s := range w.objects.All(object.Stream) {
		if p := w.objects.Parent(handle); p == green || w.objects.Parent(p) == green {
			w.driver.StreamDestroy(gpubackend.Stream(s))
		}
	}
}

// settle forgets the green contexts whose handles are gone, and the resources of contexts that are.
func (s *greens) settle(w *Worker) {
	w.contexts.Sweep(w.streams.Forget)
	for h := range s.resources {
		if _, ok := w.objects.Lookup(object.Resource, h); !ok {
			delete(s.resources, h)
		}
	}
	for key, h := range s.asked {
		if s.resources[h] == nil {
			delete(s.asked, key)
		}
	}
	for key := range s.splits {
		if s.resources[key.resource] == nil {
			delete(s.splits, key)
		}
	}
}
