// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"iter"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
)

// allocation is what an allocation node allocates. It keeps its address for as long as a graph has
// the node; live says whether a launch has allocated it and nothing freed it since, in the order of
// the calls.
type allocation struct {
	Context *contexts.Context
	address uint64
	bytes   uint64
	use     *use // of its GPU
	users   int  // nodes, those of executable graphs too
	live    bool
}

// use is what cuDeviceGetGraphMemAttribute tells, by CUgraphMem_attribute: bytes in use
// and reserved, and the most there were.
type use [cudaabi.GraphMemAttrReservedMemHigh + 1]uint64

func (u *use) add(i int, bytes uint64) {
	u[i] += bytes
	u[i+1] = max(u[i+1], u[i])
}

// HasMemory says whether a graph allocates or frees memory.
func (g *Graph) HasMemory() bool {
	return slices.ContainsFunc(g.Nodes, func(n *Node) bool {
		return n.What.Type == gpubackend.NodeMemAlloc || n.What.Type == gpubackend.NodeMemFree ||
			n.anyInner((*Graph).HasMemory)
	})
}

// useOf is the use of a GPU's memory.
func (x *Graphs) useOf(gpu int) *use {
	if x.uses[gpu] == nil {
		x.uses[gpu] = &use{}
	}
	return x.uses[gpu]
}

// allocateForNode takes the memory of an allocation node, which is of the current context's GPU.
func (x *Graphs) allocateForNode(n *Node) gpubackend.Result {
	p := cudaabi.MemPoolProps(n.What.Pool)
	if len(p) != cudaabi.MemPoolPropsSize || p.AllocType() != cudaabi.MemAllocationPinned ||
		p.Location().Type() != cudaabi.MemLocationDevice ||
		int(p.Location().ID()) != x.options.Contexts.CurrentGPU() {
		return gpubackend.InvalidValue
	}
	address, result := x.options.Memory.Alloc(ledger.Graphs, n.What.Bytes)
	if result != gpubackend.Success {
		return result
	}
	n.Memory = &allocation{
		Context: n.Context, address: address, bytes: n.What.Bytes, users: 1,
		use: x.useOf(x.options.Contexts.CurrentGPU()),
	}
	n.What.Address = address
	x.memory[address] = n.Memory
	n.Memory.use.add(cudaabi.GraphMemAttrReservedMemCurrent, n.What.Bytes)
	return gpubackend.Success
}

// releaseGraphMemory notes that a node is gone.
func (x *Graphs) releaseGraphMemory(m *allocation) {
	m.users--
	x.endGraphMemory(m)
}

// endGraphMemory gives memory back that no graph can allocate again, unless it is allocated now.
func (x *Graphs) endGraphMemory(m *allocation) {
	if m.users > 0 || m.live || x.memory[m.address] != m {
		return
	}
	x.loseGraphMemory(m)
}

func (x *Graphs) loseGraphMemory(m *allocation) {
	m.setLive(false)
	delete(x.memory, m.address)
	m.use[cudaabi.GraphMemAttrReservedMemCurrent] -= m.bytes
	x.options.Memory.DeferFree(m.address)
}

func (m *allocation) setLive(live bool) {
	if live && !m.live {
		m.use.add(cudaabi.GraphMemAttrUsedMemCurrent, m.bytes)
	} else if !live && m.live {
		m.use[cudaabi.GraphMemAttrUsedMemCurrent] -= m.bytes
	}
	m.live = live
}

// freeGraphMemory is MemFree of memory that a graph allocated.
func (x *Graphs) freeGraphMemory(m *allocation) gpubackend.Result {
	if !m.live {
		return gpubackend.InvalidValue
	}
	m.setLive(false)
	x.endGraphMemory(m)
	return gpubackend.Success
}

// CanAllocate says whether nodes can allocate and free, in that order, without doing either twice.
// With autoFree, what is left of an earlier launch is freed before.
func (x *Graphs) CanAllocate(nodes iter.Seq[*Node], autoFree bool) bool {
	live := map[*allocation]bool{}
	for n := range nodes {
		switch n.What.Type {
		case gpubackend.NodeMemAlloc:
			m := n.Memory
			before, changed := live[m]
			if !changed {
				before = m.live && !autoFree
			}
			if before || x.memory[m.address] != m {
				return false
			}
			live[m] = true
		case gpubackend.NodeMemFree:
			m := x.memory[n.What.Address]
			before, changed := live[m]
			if m == nil || changed && !before || !changed && !m.live {
				return false
			}
			live[m] = false
		}
	}
	return true
}

// FreeLeft frees what a node allocated in an earlier launch, if nobody freed it.
func (x *Graphs) FreeLeft(n *Node) {
	if n.Memory != nil {
		n.Memory.setLive(false)
	}
}

// HasAllocated says whether a graph has memory at an address.
func (x *Graphs) HasAllocated(address uint64) bool { return x.memory[address] != nil }

// Free frees memory that a graph allocated, at once.
func (x *Graphs) Free(address uint64) gpubackend.Result {
	m := x.memory[address]
	if m == nil {
		return gpubackend.NotFound
	}
	return x.freeGraphMemory(m)
}

// Drop takes away what graphs allocated in a context that ends. Graphs stay, but nodes of the
// context can't run any more.
func (x *Graphs) Drop(c *contexts.Context) {
	for _, m := range x.memory {
		if m.Context == c {
			x.loseGraphMemory(m)
		}
	}
}

// AllocateAndFree does what a node says of either.
func (x *Graphs) AllocateAndFree(n *Node) {
	switch n.What.Type {
	case gpubackend.NodeMemAlloc:
		n.Memory.setLive(true)
	case gpubackend.NodeMemFree:
		if m := x.memory[n.What.Address]; m != nil {
			m.setLive(false)
			x.endGraphMemory(m)
		}
	}
}

// GraphMemory implements gpubackend.Driver.
func (x *Graphs) GraphMemory(dev, attribute uint64) (uint64, gpubackend.Result) {
	if result := x.options.Contexts.CheckDevice(dev); result != gpubackend.Success {
		return 0, result
	}
	if attribute >= uint64(len(use{})) {
		return 0, gpubackend.InvalidValue
	}
	return x.useOf(int(dev))[attribute], gpubackend.Success
}

// GraphMemorySet implements gpubackend.Driver: a high-water mark begins anew.
func (x *Graphs) GraphMemorySet(dev, attribute, value uint64) gpubackend.Result {
	if result := x.options.Contexts.CheckDevice(dev); result != gpubackend.Success {
		return result
	}
	if attribute >= uint64(len(use{})) || attribute%2 == 0 || value != 0 {
		return gpubackend.InvalidValue
	}
	u := x.useOf(int(dev))
	u[attribute] = u[attribute-1]
	return gpubackend.Success
}

// DeviceGraphMemTrim implements gpubackend.Driver. Nothing is kept that no graph needs.
func (x *Graphs) DeviceGraphMemTrim(dev uint64) gpubackend.Result {
	return x.options.Contexts.CheckDevice(dev)
}
