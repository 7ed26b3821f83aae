// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/streams"
)

// Capturing is what Pools use of the driver for allocations in streams that are being captured.
type Capturing interface {
	StreamCaptureInfo(s gpubackend.Stream, edges []byte) (
		status, id uint64, graph gpubackend.Graph, after []gpubackend.GraphNode,
		result gpubackend.Result,
	)
	StreamUpdateCaptureDependencies(
		s gpubackend.Stream, nodes []gpubackend.GraphNode, edges []byte, flags uint64,
	) gpubackend.Result
	GraphAddNode(g gpubackend.Graph, after []gpubackend.GraphNode, edges []byte,
		n *gpubackend.Node) (
		gpubackend.GraphNode, uint64, []gpubackend.Graph, gpubackend.Result,
	)
}

// Handlers are the commands that Pools execute.
func (s *Pools) Handlers() call.Handlers {
	return call.Handlers{
		gpubackend.OpMemAllocAsync:  call.Decoded(command.DecodeMemAllocAsync, s.allocate),
		gpubackend.OpMemFreeAsync:   call.Decoded(command.DecodeMemFreeAsync, s.free),
		gpubackend.OpMemPoolCreate:  call.Decoded(command.DecodeMemPoolCreate, s.create),
		gpubackend.OpMemPoolDestroy: call.Decoded(command.DecodeMemPoolDestroy, s.destroy),
		gpubackend.OpPoolDefault:    call.Decoded(command.DecodePoolDefault, s.byDefault),
		gpubackend.OpMemPoolGetAttribute: call.Decoded(command.DecodeMemPoolGetAttribute,
			s.getAttribute),
		gpubackend.OpMemPoolSetAttribute: call.Decoded(command.DecodeMemPoolSetAttribute,
			s.setAttribute),
		gpubackend.OpMemPoolTrimTo: call.Decoded(command.DecodeMemPoolTrimTo, s.trimTo),

		gpubackend.OpMemPoolExportToShareableHandle: call.Decoded(
			command.DecodeMemPoolExportToShareableHandle, s.export),
		gpubackend.OpMemPoolImportFromShareableHandle: call.Decoded(
			command.DecodeMemPoolImportFromShareableHandle, s.open),
		gpubackend.OpMemPoolExportPointer: call.Decoded(
			command.DecodeMemPoolExportPointer, s.exportPointer),
		gpubackend.OpMemPoolImportPointer: call.Decoded(
			command.DecodeMemPoolImportPointer, s.importPointer),
	}
}

// Steps are what this room does around the handlers of others: when these lack memory, pools give
// up what they keep, and access to pools is counted.
func (s *Pools) Steps() call.Steps {
	return call.Steps{
		gpubackend.OpMemAlloc:   call.Around(command.DecodeMemAlloc, s.allocatePlain),
		gpubackend.OpMemFree:    call.Around(command.DecodeMemFree, s.freeAny),
		gpubackend.OpPoolAccess: call.Around(command.DecodePoolAccess, s.giveAccess),
	}
}

func (s *Pools) create(c *call.Call, a command.MemPoolCreate) gpubackend.Result {
	types := a.HandleTypes
	if types&^HandlePosixFile != 0 {
		return gpubackend.NotSupported
	}
	h := s.newPool(a.Device, a.Largest)
	if h == 0 {
		return gpubackend.OutOfMemory
	}
	if types != 0 {
		p, _ := s.findPool(h)
		p.shareable()
	}
	c.Put(command.MemPoolCreateAnswer{Pool: h})
	return gpubackend.Success
}

func (s *Pools) byDefault(c *call.Call, a command.PoolDefault) gpubackend.Result {
	c.Put(command.PoolDefaultAnswer{Pool: s.defaultPool(a.Device)})
	return gpubackend.Success
}

// destroy forgets a pool. What it has given out stays until it is freed.
func (s *Pools) destroy(c *call.Call, a command.MemPoolDestroy) gpubackend.Result {
	p, result := s.findPool(a.Pool)
	if result != gpubackend.Success || s.defaults[p.device] == a.Pool {
		return gpubackend.InvalidValue
	}
	p.destroyed = true
	s.Exports.Withdraw(handover.ObjectPool, p.number)
	s.Objects.Remove(a.Pool)
	s.Settle()
	return gpubackend.Success
}

func (s *Pools) getAttribute(c *call.Call, a command.MemPoolGetAttribute) gpubackend.Result {
	p, result := s.findPool(a.Pool)
	if result != gpubackend.Success {
		return result
	}
	c.Put(command.MemPoolGetAttributeAnswer{Value: p.attribute[a.Attribute]})
	return gpubackend.Success
}

// setAttribute sets a policy, or resets a high-water mark to the present value.
func (s *Pools) setAttribute(c *call.Call, a command.MemPoolSetAttribute) gpubackend.Result {
	p, result := s.findPool(a.Pool)
	if result != gpubackend.Success {
		return result
	}
	switch i := a.Attribute; {
	case i >= cudaabi.MemPoolAttrReuseFollowEventDependencies &&
		i <= cudaabi.MemPoolAttrReleaseThreshold:
		p.attribute[i] = a.Value
	case (i == cudaabi.MemPoolAttrReservedMemHigh || i == cudaabi.MemPoolAttrUsedMemHigh) &&
		a.Value == 0:
		p.attribute[i] = p.attribute[i-1]
	default:
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

func (s *Pools) trimTo(c *call.Call, a command.MemPoolTrimTo) gpubackend.Result {
	p, result := s.findPool(a.Pool)
	if result == gpubackend.Success {
		before := s.Contexts.Current()
		s.trim(p, a.Keep)
		s.Contexts.Set(before, true)
	}
	return result
}

// allocate allocates from a pool. In a stream that is being captured it adds a node.
func (s *Pools) allocate(c *call.Call, a command.MemAllocAsync) gpubackend.Result {
	p, result := s.findPool(a.Pool)
	if result != gpubackend.Success {
		return result
	}
	if p.imported {
		return gpubackend.InvalidValue
	}
	stream, result := s.Streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	if status, _, graph, nodes, r := s.Driver.StreamCaptureInfo(stream,
		nil); r == gpubackend.Success && status != 0 {
		return s.captureAlloc(c, a.Bytes, stream, graph, nodes)
	}
	bytes := (a.Bytes + poolAlignment - 1) &^ (poolAlignment - 1)
	if bytes < a.Bytes || bytes == 0 {
		return gpubackend.OutOfMemory
	}
	take := func(wait bool) (address uint64, later bool, result gpubackend.Result) {
		b, later, result := s.take(p, bytes, a.Stream, wait)
		if result == gpubackend.OutOfMemory && s.Empty() {
			b, later, result = s.take(p, bytes, a.Stream, wait)
		}
		if result != gpubackend.Success {
			return 0, later, result
		}
		s.enter(b)
		return b.address, false, gpubackend.Success
	}
	address, later, result := take(false)
	if later && s.Short() { // more room may be had if it still isn't enough
		address, later, result = take(true)
	}
	if result == gpubackend.OutOfMemory && (later || s.waiting()) {
		return s.WhenIdle(c, func() (uint64, gpubackend.Result) {
			address, _, result := take(true)
			return address, result
		})
	}
	c.Put(command.MemAllocAsyncAnswer{Address: address})
	return result
}

func (s *Pools) enter(b *allocation) {
	s.live[b.address] = b
}

// free frees memory in stream order.
func (s *Pools) free(c *call.Call, a command.MemFreeAsync) gpubackend.Result {
	stream, result := s.Streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	address := a.Address
	if status, _, graph, nodes, r := s.Driver.StreamCaptureInfo(stream,
		nil); r == gpubackend.Success && status != 0 {
		return s.captureFree(address, stream, graph, nodes)
	}
	b := s.live[address]
	if b == nil {
		if result := s.Driver.GraphFree(address, stream); result != gpubackend.NotFound {
			return result
		}
	}
	f, result := s.Fences.Mark(stream)
	if result != gpubackend.Success {
		return result
	}
	s.Withdraw(address)
	if b == nil {
		if len(s.loose) >= maxLoose {
			s.Settle()
		}
		if len(s.loose) >= maxLoose {
			s.Fences.Drop(f)
			return gpubackend.OutOfMemory
		}
		b = &allocation{address: address, context: s.Contexts.HomeOfCurrent(), fence: f,
			fenced: true}
		b.imported = s.shares.takePointer(address)
		s.loose = append(s.loose, b)
		return gpubackend.Success
	}
	b.stream, b.fence, b.fenced = a.Stream, f, true
	s.giveBack(b)
	return gpubackend.Success
}

func (s *Pools) giveBack(b *allocation) {
	delete(s.live, b.address)
	b.pool.attribute[cudaabi.MemPoolAttrUsedMemCurrent] -= b.bytes
	b.pool.free = append(b.pool.free, b)
}

// freeAny is MemFree of memory that may be a pool's. The caller has made sure that nothing uses it.
func (s *Pools) freeAny(
	c *call.Call, a command.MemFree, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	s.Withdraw(a.Dptr)
	b := s.live[a.Dptr]
	if x := s.shares.takePointer(a.Dptr); x != nil {
		return s.WhenIdle(c, func() (uint64, gpubackend.Result) { return 0, s.dropPointer(x) })
	}
	if b == nil {
		return run(c)
	}
	b.stream = streams.PerThread
	s.giveBack(b)
	return gpubackend.Success
}

// allocatePlain is MemAlloc. It takes spare memory from the pools if there is no other, and waits
// for memory that was freed without holding up other commands. If the VM has too little room only
// for now, more may be had, and the device waits as it always does.
func (s *Pools) allocatePlain(
	c *call.Call, a command.MemAlloc, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	address, later, result := s.Driver.MemAllocNow(a.Bytesize)
	if result != gpubackend.OutOfMemory {
		c.Answer(address)
		return result
	}
	if !later || s.Short() {
		if result = run(c); result != gpubackend.OutOfMemory || !s.waiting() {
			return result
		}
		c.Unanswer()
	}
	return s.WhenIdle(c, func() (uint64, gpubackend.Result) {
		s.Empty()
		return s.Driver.MemAlloc(a.Bytesize)
	})
}

func (s *Pools) captureAlloc(
	c *call.Call, bytes uint64, stream gpubackend.Stream, graph gpubackend.Graph,
	after []gpubackend.GraphNode,
) gpubackend.Result {
	n := &gpubackend.Node{Type: gpubackend.NodeMemAlloc, Bytes: bytes,
		Pool: make([]byte, cudaabi.MemPoolPropsSize)}
	n.Pool[0], n.Pool[8] = 1, 1 // pinned, of a device: number 0
	node, address, _, result := s.Driver.GraphAddNode(graph, after, nil, n)
	if result == gpubackend.Success {
		result = s.Driver.StreamUpdateCaptureDependencies(stream, []gpubackend.GraphNode{node}, nil,
			cudaabi.StreamSetCaptureDependencies)
	}
	c.Put(command.MemAllocAsyncAnswer{Address: address})
	return result
}

func (s *Pools) captureFree(
	address uint64, stream gpubackend.Stream, graph gpubackend.Graph, after []gpubackend.GraphNode,
) gpubackend.Result {
	node, _, _, result := s.Driver.GraphAddNode(graph, after, nil,
		&gpubackend.Node{Type: gpubackend.NodeMemFree, Address: address})
	if result != gpubackend.Success {
		return result
	}
	return s.Driver.StreamUpdateCaptureDependencies(stream, []gpubackend.GraphNode{node}, nil,
		cudaabi.StreamSetCaptureDependencies)
}
