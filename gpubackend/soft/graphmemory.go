// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
)

// graphMemory is what an allocation node allocates. It has its place in device memory for as long
// as there are graphs with the node; live says whether a launch has allocated it and nothing freed
// it since, in the order of the calls.
type graphMemory struct {
	ctx     *contexts.Context
	address uint64
	bytes   uint64
	users   int // nodes, those of executable graphs too
	live    bool
}

// graphMemoryUse is what cuDeviceGetGraphMemAttribute tells, by CUgraphMem_attribute: bytes in use
// and reserved, and the most there were.
type graphMemoryUse [cudaabi.GraphMemAttrReservedMemHigh + 1]uint64

func (u *graphMemoryUse) add(i int, bytes uint64) {
	u[i] += bytes
	u[i+1] = max(u[i+1], u[i])
}

// hasMemory says whether a graph allocates or frees memory.
func (g *graph) hasMemory() bool {
	return slices.ContainsFunc(g.nodes, func(n *node) bool {
		return n.what.Type == gpubackend.NodeMemAlloc || n.what.Type == gpubackend.NodeMemFree ||
			n.anyInner((*graph).hasMemory)
	})
}

// allocateForNode takes the memory of an allocation node.
func (d *Device) allocateForNode(n *node) gpubackend.Result {
	p := cudaabi.MemPoolProps(n.what.Pool)
	if len(p) != cudaabi.MemPoolPropsSize || p.AllocType() != cudaabi.MemAllocationPinned ||
		p.Location().Type() != cudaabi.MemLocationDevice || p.Location().ID() != 0 {
		return gpubackend.InvalidValue
	}
	address, result := d.Memory.Alloc(n.what.Bytes)
	if result != gpubackend.Success {
		return result
	}
	n.memory = &graphMemory{ctx: n.ctx, address: address, bytes: n.what.Bytes, users: 1}
	n.what.Address = address
	d.graphMemory[address] = n.memory
	d.graphMemoryUse.add(cudaabi.GraphMemAttrReservedMemCurrent, n.what.Bytes)
	return gpubackend.Success
}

// releaseGraphMemory notes that a node is gone.
func (d *Device) releaseGraphMemory(m *graphMemory) {
	m.users--
	d.endGraphMemory(m)
}

// endGraphMemory gives memory back that no graph can allocate again, unless it is allocated now.
func (d *Device) endGraphMemory(m *graphMemory) {
	if m.users > 0 || m.live || d.graphMemory[m.address] != m {
		return
	}
	d.loseGraphMemory(m)
}

func (d *Device) loseGraphMemory(m *graphMemory) {
	m.setLive(d, false)
	delete(d.graphMemory, m.address)
	d.graphMemoryUse[cudaabi.GraphMemAttrReservedMemCurrent] -= m.bytes
	d.DeferFree(m.address)
}

func (m *graphMemory) setLive(d *Device, live bool) {
	if live && !m.live {
		d.graphMemoryUse.add(cudaabi.GraphMemAttrUsedMemCurrent, m.bytes)
	} else if !live && m.live {
		d.graphMemoryUse[cudaabi.GraphMemAttrUsedMemCurrent] -= m.bytes
	}
	m.live = live
}

// freeGraphMemory is MemFree of memory that a graph allocated.
func (d *Device) freeGraphMemory(m *graphMemory) gpubackend.Result {
	if !m.live {
		return gpubackend.InvalidValue
	}
	m.setLive(d, false)
	d.endGraphMemory(m)
	return gpubackend.Success
}

// GraphFree implements gpubackend.Driver. Whether memory is allocated goes by the order of the
// calls; it is used again when the work that was queued before is done.
func (d *Device) GraphFree(address uint64, h gpubackend.Stream) gpubackend.Result {
	m := d.graphMemory[address]
	if m == nil {
		return gpubackend.NotFound
	}
	if _, result := d.target(h); result != gpubackend.Success {
		return result
	}
	return d.freeGraphMemory(m)
}

// canAllocate says whether an executable graph can allocate and free what it is to: nothing twice.
// With autoFree, what is left of an earlier launch is freed at its start.
func (d *Device) canAllocate(e *graphExec) bool {
	live := map[*graphMemory]bool{}
	for i := range e.steps {
		n := e.steps[i].node
		if n == nil {
			continue
		}
		switch n.what.Type {
		case gpubackend.NodeMemAlloc:
			m := n.memory
			before, changed := live[m]
			if !changed {
				before = m.live && e.flags&cudaabi.GraphInstantiateFlagAutoFreeOnLaunch == 0
			}
			if before || d.graphMemory[m.address] != m {
				return false
			}
			live[m] = true
		case gpubackend.NodeMemFree:
			m := d.graphMemory[n.what.Address]
			before, changed := live[m]
			if m == nil || changed && !before || !changed && !m.live {
				return false
			}
			live[m] = false
		}
	}
	return true
}

// allocateAndFree does it, as far as a node is concerned.
func (d *Device) allocateAndFree(n *node) {
	switch n.what.Type {
	case gpubackend.NodeMemAlloc:
		n.memory.setLive(d, true)
	case gpubackend.NodeMemFree:
		if m := d.graphMemory[n.what.Address]; m != nil {
			m.setLive(d, false)
			d.endGraphMemory(m)
		}
	}
}

// GraphMemory implements gpubackend.Driver.
func (d *Device) GraphMemory(dev, attribute uint64) (uint64, gpubackend.Result) {
	if result := d.CheckDevice(dev); result != gpubackend.Success {
		return 0, result
	}
	if attribute >= uint64(len(d.graphMemoryUse)) {
		return 0, gpubackend.InvalidValue
	}
	return d.graphMemoryUse[attribute], gpubackend.Success
}

// GraphMemorySet implements gpubackend.Driver: a high-water mark begins anew.
func (d *Device) GraphMemorySet(dev, attribute, value uint64) gpubackend.Result {
	if result := d.CheckDevice(dev); result != gpubackend.Success {
		return result
	}
	if attribute >= uint64(len(d.graphMemoryUse)) || attribute%2 == 0 || value != 0 {
		return gpubackend.InvalidValue
	}
	d.graphMemoryUse[attribute] = d.graphMemoryUse[attribute-1]
	return gpubackend.Success
}

// DeviceGraphMemTrim implements gpubackend.Driver. Nothing is kept that no graph needs.
func (d *Device) DeviceGraphMemTrim(dev uint64) gpubackend.Result { return d.CheckDevice(dev) }
