// SPDX-License-Identifier: Apache-2.0

package green

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

// Driver is what Greens use of gpubackend.Driver.
type Driver interface {
	DevResource(of gpubackend.ResourceSource, which, kind uint64) (gpubackend.Resource,
		gpubackend.Result)
	SplitResource(r *gpubackend.Resource, groups []gpubackend.Resource, flags, least uint64) (
		n int, rest gpubackend.Resource, result gpubackend.Result,
	)
	DescribeResources(rs []gpubackend.Resource) (gpubackend.ResourceDesc, gpubackend.Result)
	GreenCtxCreate(d gpubackend.ResourceDesc, device, flags uint64) (
		gpubackend.GreenContext, gpubackend.Context, gpubackend.Result,
	)
	GreenCtxDestroy(g gpubackend.GreenContext) gpubackend.Result
	StreamDestroy(s gpubackend.Stream) gpubackend.Result
}

// Contexts knows the contexts of green contexts.
type Contexts interface {
	Set(handle uint64, optional bool) gpubackend.Result
	Primary(device uint64) (handle uint64, retained bool)
	AddGreen(handle, home uint64)
	Greens() int
	Green(yield func(handle uint64) bool)
	Sweep(gone func(handle uint64))
}

// Streams has the threads' default streams.
type Streams interface {
	EndContext(context uint64)
	Forget(context uint64)
}

// Config is what Greens need.
type Config struct {
	Driver   Driver
	Objects  *object.Table
	Contexts Contexts
	Streams  Streams
}

// Greens are the guest's green contexts, and the resources from which it makes them.
type Greens struct {
	Config
	resources map[uint64]*resource // by handle
	asked     map[resourceKey]uint64
	divisions map[divisionKey]*division
	descs     map[string]uint64 // by the handles of their resources
}

// New returns Greens without a resource.
func New(c Config) *Greens {
	return &Greens{
		Config: c, resources: map[uint64]*resource{}, asked: map[resourceKey]uint64{},
		divisions: map[divisionKey]*division{}, descs: map[string]uint64{},
	}
}

// Handlers are the commands that Greens execute.
func (s *Greens) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.OpDevResource:     call.Decoded(command.DecodeDevResource, s.resource),
		gpubackend.OpResourceSplit:   call.Decoded(command.DecodeResourceSplit, s.splitResource),
		gpubackend.OpResourceDesc:    call.Decoded(command.DecodeResourceDesc, s.describe),
		gpubackend.OpGreenCtxCreate:  call.Decoded(command.DecodeGreenCtxCreate, s.create),
		gpubackend.OpGreenCtxDestroy: call.Decoded(command.DecodeGreenCtxDestroy, s.destroy),
	}
}

// resource is a resource, which ends with the context that has it.
type resource struct {
	gpubackend.Resource
	owner uint64 // handle of a context or green context, 0 for a device
}

type resourceKey struct {
	of    gpubackend.ResourceSource
	which uint64
	kind  uint64
}

// divisionKey is what a division depends on.
type divisionKey struct {
	resource, flags, least uint64
	groups                 int
}

// division is what a resource was split into.
type division struct {
	groups []uint64
	rest   uint64
}

// These bound what a guest can make a worker keep.
const (
	maxResources     = 1 << 16
	maxResourceDescs = 1 << 16
	maxGreenContexts = 1 << 12
)

// resource describes what a device or a context has.
func (s *Greens) resource(c *call.Call, a command.DevResource) gpubackend.Result {
	key := resourceKey{gpubackend.ResourceSource(a.Source), a.Which, a.Type}
	out, result := c.OutputOf(a.Record)
	if result != gpubackend.Success {
		return gpubackend.InvalidValue
	}
	defer out.Done()
	h, result := s.resourceOf(key)
	if result == gpubackend.Success {
		s.describeResource(h, out.Bytes)
	}
	return result
}

// resourceOf returns the handle of a resource.
func (s *Greens) resourceOf(key resourceKey) (uint64, gpubackend.Result) {
	if h, ok := s.asked[key]; ok {
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
		if native, ok = s.Objects.Lookup(kind, key.which); !ok {
			return 0, gpubackend.InvalidContext
		}
		owner = key.which
	}
	if s.resourcesLeft() <= 0 {
		return 0, gpubackend.OutOfMemory
	}
	r, result := s.Driver.DevResource(key.of, native, key.kind)
	if result != gpubackend.Success {
		return 0, result
	}
	h := s.keepResource(&r, owner)
	s.asked[key] = h
	return h, gpubackend.Success
}

func (s *Greens) resourcesLeft() int { return maxResources - len(s.resources) }

// keepResource gives a resource a handle.
func (s *Greens) keepResource(r *gpubackend.Resource, owner uint64) uint64 {
	h := s.Objects.Add(object.Resource, 0, owner)
	s.resources[h] = &resource{*r, owner}
	return h
}

// describeResource writes what a guest may know of a resource.
func (s *Greens) describeResource(h uint64, b []byte) {
	var record wire.ResourceRecord
	if r := s.resources[h]; r != nil {
		record.Resource, record.Type = h, r.Kind()
		if record.Type == cudaabi.DevResourceTypeSM {
			record.Count, record.MinPartition, record.Alignment = r.Multiprocessors()
		}
	}
	record.Encode(b)
}

// splitResource splits a resource.
func (s *Greens) splitResource(c *call.Call, a command.ResourceSplit) gpubackend.Result {
	key := divisionKey{resource: a.Resource, flags: a.Flags, least: a.Least}
	out, result := c.OutputOf(a.Records)
	if result != gpubackend.Success {
		return gpubackend.InvalidValue
	}
	defer out.Done()
	r := s.resources[key.resource]
	if r == nil {
		return gpubackend.InvalidValue
	}
	if key.groups = len(out.Bytes)/wire.ResourceRecordSize - 1; key.groups <= 0 {
		n, _, result := s.Driver.SplitResource(&r.Resource, nil, key.flags, key.least)
		c.Put(command.ResourceSplitAnswer{Groups: uint64(n)})
		return result
	}
	x, result := s.split(key, r)
	if result != gpubackend.Success {
		return result
	}
	for i, h := range append([]uint64{x.rest}, x.groups...) {
		s.describeResource(h, out.Bytes[i*wire.ResourceRecordSize:])
	}
	c.Put(command.ResourceSplitAnswer{Groups: uint64(len(x.groups))})
	return gpubackend.Success
}

func (s *Greens) split(key divisionKey, r *resource) (*division, gpubackend.Result) {
	if x := s.divisions[key]; x != nil {
		return x, gpubackend.Success
	}
	if s.resourcesLeft() <= key.groups {
		return nil, gpubackend.OutOfMemory
	}
	groups := make([]gpubackend.Resource, key.groups)
	n, rest, result := s.Driver.SplitResource(&r.Resource, groups, key.flags, key.least)
	if result != gpubackend.Success {
		return nil, result
	}
	x := &division{rest: s.keepResource(&rest, r.owner)}
	for i := range groups[:min(n, len(groups))] {
		x.groups = append(x.groups, s.keepResource(&groups[i], r.owner))
	}
	s.divisions[key] = x
	return x, gpubackend.Success
}

// describe makes a descriptor.
func (s *Greens) describe(c *call.Call, a command.ResourceDesc) gpubackend.Result {
	list, result := c.InputOf(a.Resources)
	if result != gpubackend.Success {
		return gpubackend.InvalidValue
	}
	if h, ok := s.descs[string(list)]; ok {
		c.Put(command.ResourceDescAnswer{Desc: h})
		return gpubackend.Success
	}
	rs := make([]gpubackend.Resource, 0, command.MaxDescribed)
	for b := list; len(b) > 0; b = b[8:] {
		r := s.resources[binary.LittleEndian.Uint64(b)]
		if r == nil {
			return gpubackend.InvalidValue
		}
		rs = append(rs, r.Resource)
	}
	if s.Objects.Count(object.ResourceDesc) >= maxResourceDescs ||
		!s.Objects.Room(object.ResourceDesc) {
		return gpubackend.OutOfMemory
	}
	desc, result := s.Driver.DescribeResources(rs)
	if result != gpubackend.Success {
		return result
	}
	h := s.Objects.Add(object.ResourceDesc, uint64(desc), 0)
	s.descs[string(list)] = h
	c.Put(command.ResourceDescAnswer{Desc: h})
	return gpubackend.Success
}

// create makes a green context. The library has retained the primary context.
func (s *Greens) create(c *call.Call, a command.GreenCtxCreate) gpubackend.Result {
	desc, ok := s.Objects.Lookup(object.ResourceDesc, a.Desc)
	home, retained := s.Contexts.Primary(a.Device)
	if !ok || !retained {
		return gpubackend.InvalidValue
	}
	if s.Contexts.Greens() >= maxGreenContexts || !s.Objects.Room(object.Context) {
		return gpubackend.OutOfMemory
	}
	g, context, result := s.Driver.GreenCtxCreate(gpubackend.ResourceDesc(desc), a.Device, a.Flags)
	if result != gpubackend.Success {
		return result
	}
	green := s.Objects.Add(object.GreenContext, uint64(g), home)
	handle := s.Objects.Add(object.Context, uint64(context), green)
	s.Contexts.AddGreen(handle, home)
	c.Put(command.GreenCtxCreateAnswer{Green: green, Context: handle})
	return gpubackend.Success
}

// ContextOf is the context of the green one that a command ends; 0: there is none.
func (s *Greens) ContextOf(c *call.Call) uint64 {
	a, _ := command.DecodeGreenCtxDestroy(c.Words(), c.Command.Body)
	for handle := range s.Contexts.Green {
		if s.Objects.Parent(handle) == a.Green {
			return handle
		}
	}
	return 0
}

// destroy ends a green context.
func (s *Greens) destroy(c *call.Call, a command.GreenCtxDestroy) gpubackend.Result {
	g, result := handles.GreenContext(s.Objects, a.Green)
	if result != gpubackend.Success {
		return result
	}
	s.endGreenStreams(a.Green)
	if result = s.Driver.GreenCtxDestroy(g); result == gpubackend.Success {
		s.Objects.Remove(a.Green)
		s.Settle()
	}
	return result
}

// endGreenStreams destroys the streams of a green context, from its primary context.
func (s *Greens) endGreenStreams(green uint64) {
	for handle := range s.Contexts.Green {
		if s.Objects.Parent(handle) == green {
			s.Streams.EndContext(handle)
		}
	}
	s.Contexts.Set(s.Objects.Parent(green), true)
	for handle, stream := range s.Objects.All(object.Stream) {
		if p := s.Objects.Parent(handle); p == green || s.Objects.Parent(p) == green {
			s.Driver.StreamDestroy(gpubackend.Stream(stream))
		}
	}
}

// Settle forgets the green contexts whose handles are gone, and the resources of contexts that are
// gone.
func (s *Greens) Settle() {
	s.Contexts.Sweep(s.Streams.Forget)
	for h := range s.resources {
		if _, ok := s.Objects.Lookup(object.Resource, h); !ok {
			delete(s.resources, h)
		}
	}
	for key, h := range s.asked {
		if s.resources[h] == nil {
			delete(s.asked, key)
		}
	}
	for key := range s.divisions {
		if s.resources[key.resource] == nil {
			delete(s.divisions, key)
		}
	}
}
