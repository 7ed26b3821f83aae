// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/known"
	"github.com/paracuda/paracuda/gpubackend/worker/streams"
)

func (w *Worker) runPoolCreate(c *call.Call, a command.MemPoolCreate) gpubackend.Result {
	types := a.HandleTypes
	if types&^handlePosixFile != 0 {
		return gpubackend.NotSupported
	}
	h := w.newPool(a.Device, a.Largest)
	if h == 0 {
		return gpubackend.OutOfMemory
	}
	if types != 0 {
		p, _ := w.findPool(h)
		p.shareable()
	}
	c.Put(command.MemPoolCreateAnswer{Pool: h})
	return gpubackend.Success
}

func (w *Worker) runPoolDefault(c *call.Call, a command.PoolDefault) gpubackend.Result {
	c.Put(command.PoolDefaultAnswer{Pool: w.defaultPool(a.Device)})
	return gpubackend.Success
}

// runPoolDestroy forgets a pool. What it has given out stays until it is freed.
func (w *Worker) runPoolDestroy(c *call.Call, a command.MemPoolDestroy) gpubackend.Result {
	p, result := w.findPool(a.Pool)
	if result != gpubackend.Success || w.pools.defaults[p.device] == a.Pool {
		return gpubackend.InvalidValue
	}
	p.destroyed = true
	w.withdrawObject(handover.ObjectPool, p.number)
	w.objects.Remove(a.Pool)
	w.pools.settle(w)
	return gpubackend.Success
}

func (w *Worker) runPoolGetAttribute(c *call.Call, a command.MemPoolGetAttribute) gpubackend.Result {
	p, result := w.findPool(a.Pool)
	if result != gpubackend.Success {
		return result
	}
	c.Put(command.MemPoolGetAttributeAnswer{Value: p.attribute[a.Attribute]})
	return gpubackend.Success
}

// runPoolSetAttribute sets a policy, or puts a high-water mark back to what is now.
func (w *Worker) runPoolSetAttribute(c *call.Call, a command.MemPoolSetAttribute) gpubackend.Result {
	p, result := w.findPool(a.Pool)
	if result != gpubackend.Success {
		return result
	}
	switch i := a.Attribute; {
	case i >= poolReuseEvents && i <= poolThreshold:
		p.attribute[i] = a.Value
	case (i == poolReservedHigh || i == poolUsedHigh) && a.Value == 0:
		p.attribute[i] = p.attribute[i-1]
	default:
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

func (w *Worker) runPoolTrim(c *call.Call, a command.MemPoolTrimTo) gpubackend.Result {
	p, result := w.findPool(a.Pool)
	if result == gpubackend.Success {
		before := w.contexts.Current()
		p.trim(w, a.Keep)
		w.contexts.Set(before, true)
	}
	return result
}

// runAllocAsync allocates from a pool. In a stream that is being captured it adds a node.
func (w *Worker) runAllocAsync(c *call.Call, a command.MemAllocAsync) gpubackend.Result {
	p, result := w.findPool(a.Pool)
	if result != gpubackend.Success {
		return result
	}
	if p.imported {
		return gpubackend.InvalidValue
	}
	s, result := w.streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	if status, _, graph, nodes, r := w.driver.StreamCaptureInfo(s, nil); r == gpubackend.Success && status != 0 {
		return w.captureAlloc(c, a.Bytes, s, graph, nodes)
	}
	asked, stream := a.Bytes, a.Stream
	bytes := (asked + poolAlignment - 1) &^ (poolAlignment - 1)
	if bytes < asked || bytes == 0 {
		return gpubackend.OutOfMemory
	}
	take := func() (uint64, gpubackend.Result) {
		b, result := p.take(w, bytes, stream)
		if result == gpubackend.OutOfMemory && w.pools.empty(w) {
			b, result = p.take(w, bytes, stream)
		}
		if result != gpubackend.Success {
			return 0, result
		}
		w.pools.enter(b)
		return b.address, gpubackend.Success
	}
	address, result := take()
	if result == gpubackend.OutOfMemory && w.pools.waiting() {
		return w.whenIdle(c, take)
	}
	c.Put(command.MemAllocAsyncAnswer{Address: address})
	return result
}

func (s *pools) enter(b *block) {
	if s.live == nil {
		s.live = map[uint64]*block{}
	}
	s.live[b.address] = b
}

// runFreeAsync frees memory in stream order.
func (w *Worker) runFreeAsync(c *call.Call, a command.MemFreeAsync) gpubackend.Result {
	s, result := w.streams.Find(c, a.Stream)
	if result != gpubackend.Success {
		return result
	}
	address := a.Address
	if status, _, graph, nodes, r := w.driver.StreamCaptureInfo(s, nil); r == gpubackend.Success && status != 0 {
		return w.captureFree(address, s, graph, nodes)
	}
	b := w.pools.live[address]
	if b == nil {
		if result := w.driver.GraphFree(address, s); result != gpubackend.NotFound {
			return result
		}
	}
	f, result := w.fences.Mark(s)
	if result != gpubackend.Success {
		return result
	}
	w.shares.withdraw(address)
	if b == nil {
		if len(w.pools.loose) >= maxLoose {
			w.pools.settle(w)
		}
		if len(w.pools.loose) >= maxLoose {
			w.fences.Drop(f)
			return gpubackend.OutOfMemory
		}
		b = &block{address: address, context: w.contexts.HomeOfCurrent(), fence: f, fenced: true}
		b.imported = w.pools.shares.takePointer(address)
		w.pools.loose = append(w.pools.loose, b)
		return gpubackend.Success
	}
	b.stream, b.fence, b.fenced = a.Stream, f, true
	w.pools.giveBack(b)
	return gpubackend.Success
}

func (s *pools) giveBack(b *block) {
	delete(s.live, b.address)
	b.pool.attribute[poolUsed] -= b.bytes
	b.pool.free = append(b.pool.free, b)
}

// freePooled is MemFree of what may be a pool's: the caller has seen to it that nothing uses it.
func (w *Worker) freePooled(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	w.shares.withdraw(c.Word(0))
	b := w.pools.live[c.Word(0)]
	if x := w.pools.shares.takePointer(c.Word(0)); x != nil {
		return w.whenIdle(c, func() (uint64, gpubackend.Result) { return 0, w.dropPointer(x) })
	}
	if b == nil {
		return run(c)
	}
	b.stream = streams.PerThread
	w.pools.giveBack(b)
	return gpubackend.Success
}

// allocate is MemAlloc, which takes from the pools what they don't need when there is no other memory.
func (w *Worker) allocate(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
	result := run(c)
	if result != gpubackend.OutOfMemory || !w.pools.waiting() {
		return result
	}
	bytes := c.Word(0)
	c.Unanswer()
	return w.whenIdle(c, func() (uint64, gpubackend.Result) {
		w.pools.empty(w)
		return w.driver.MemAlloc(bytes)
	})
}

// setDependencies is CU_STREAM_SET_CAPTURE_DEPENDENCIES.
const setDependencies = 1

func (w *Worker) captureAlloc(c *call.Call, bytes uint64, s gpubackend.Stream, graph gpubackend.Graph, after []gpubackend.GraphNode) gpubackend.Result {
	n := &gpubackend.Node{Type: gpubackend.NodeMemAlloc, Bytes: bytes, Pool: make([]byte, known.PoolBytes)}
	n.Pool[0], n.Pool[8] = 1, 1 // pinned, of a device: number 0
	node, address, _, result := w.driver.GraphAddNode(graph, after, nil, n)
	if result == gpubackend.Success {
		result = w.driver.StreamUpdateCaptureDependencies(s, []gpubackend.GraphNode{node}, nil, setDependencies)
	}
	c.Put(command.MemAllocAsyncAnswer{Address: address})
	return result
}

func (w *Worker) captureFree(address uint64, s gpubackend.Stream, graph gpubackend.Graph, after []gpubackend.GraphNode) gpubackend.Result {
	node, _, _, result := w.driver.GraphAddNode(graph, after, nil, &gpubackend.Node{Type: gpubackend.NodeMemFree, Address: address})
	if result != gpubackend.Success {
		return result
	}
	return w.driver.StreamUpdateCaptureDependencies(s, []gpubackend.GraphNode{node}, nil, setDependencies)
}
